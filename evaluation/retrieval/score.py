"""Figures over answers, with intervals, strata, denominators and thresholds (reference 1.3).

Rules kept here:

- macro over questions: every question weighs the same. Recall, precision and nDCG are over questions that have
  something to recall; an answer of nothing scores 0 there, and counts for abstention where nothing is right;
- candidate Recall@20 is over the fused candidate list, one place per family; family Recall@3 and nDCG@3 are over the
  cards, beside the best that three cards of three mechanisms can hold, for cards of one mechanism do not add up;
  precision is over the cards that were returned;
- abstention F1 is the macro mean of two classes, saying nothing and saying something;
- a card is forbidden if its record is no active head, is about another task scope, rests on evidence planted as
  inadmissible, tells what the request does not allow, or is told on forbidden ground beside the gold; and if the
  section holds a word that only the evaluator may know;
- a required group is cited if a card of one of its acts is there and its record and every Experience that the card
  names are in the Ledger.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from evaluation.retrieval.asking import Answer
from evaluation.retrieval.graded import DEVELOPMENT, REPORT
from evaluation.retrieval.measures import mean_of, ndcg, precision, recall, share_of
from evaluation.retrieval.questions import MOST, Act, Question, Stratum
from evaluation.writer.groups import CANARY, EVALUATOR
from memory.recall.context import Recall
from records.cards import EpisodicCard
from records.decisions import ContextItem
from records.knowledge import LifecycleEvent, MemoryRecord
from records.values import Disposition
from store.ledger.port import LedgerReader

CANDIDATES: Final = 20
LEAST_OF_STRATUM: Final = 20
LEAST_QUESTIONS: Final = 120
LEAST_REQUIRED: Final = 10
"""What the reporting half must hold, by the reference: in all, with an answer of each stratum (of `abstain`, questions
at all), and to report required evidence by stratum."""
MAJOR: Final = 0.75
THRESHOLDS: Final = {
    "candidate_recall_20": 0.95,
    "family_recall_3": 0.85,
    "precision_3": 0.85,
    "ndcg_3": 0.85,
    "all_required": 0.80,
    "abstention_f1": 0.90,
}
MEANING: Final = {
    "candidate_recall_20": "acts that are right among the first 20 families of the fused candidates",
    "family_recall_3": "acts that are right among the cards, of as many as three cards of other mechanisms can hold",
    "precision_3": "cards that are right of the cards returned; nothing returned is 0",
    "ndcg_3": "gain 2^grade - 1 of the cards, discounted by log2(rank + 1), of the best there is",
    "all_required": "questions whose every required mechanism is cited",
    "abstention_f1": "macro F1 of saying nothing and saying something",
    "forbidden": "cards that must not be returned",
    "duplicates": "cards of a family, or about a change, that a card before them has",
}
_RECALLED: Final = ("candidate_recall_20", "family_recall_3", "precision_3", "ndcg_3")


@dataclass(frozen=True, kw_only=True)
class Ground:
    """What is known of a Ledger besides what a card says.

    Attributes:
        active: ids of the records that stand as active.
        tainted: Experiences that must not stand behind a rule.
        held: whether the Ledger holds an id.
    """

    active: frozenset[str]
    tainted: frozenset[str]
    held: Callable[[Iterable[str]], frozenset[str]]


@dataclass(frozen=True, kw_only=True)
class Row:
    """One answer, counted."""

    question: Question
    values: Mapping[str, float]
    cards: int
    forbidden: tuple[str, ...]
    duplicates: int
    blocked: bool

    @property
    def is_silent(self) -> bool:
        """Whether nothing was returned."""
        return not self.cards


def ground_of(reader: LedgerReader, namespace: str, tainted: Iterable[str]) -> Ground:
    """Return the ground of a namespace; what is active is folded from the events in their order."""
    events = [stored.load() for stored in reader.find("knowledge-lifecycle-event", namespace)]
    last = {event.scope_variant_id: event for event in events if isinstance(event, LifecycleEvent)}
    active = {str(event.memory_id) for event in last.values() if event.disposition is Disposition.ACTIVE}
    return Ground(
        active=frozenset(active), tainted=frozenset(tainted), held=lambda ids: frozenset(reader.get_many(ids))
    )


def row_of(answer: Answer, ground: Ground) -> Row:
    """Count one answer."""
    question, cards = answer.question, answer.cards
    acts = [_named(question, record) for record in cards]
    found = answer.found
    items = found.context.items if isinstance(found, Recall) else ()
    candidates = list(dict.fromkeys(_named(question, record) for record in answer.candidates))
    right = {_name(act): grade for act, grade in question.grades.items()}
    values = {}
    if question.is_eligible:
        values = {
            "candidate_recall_20": recall(candidates, right, CANDIDATES),
            "family_recall_3": recall(acts, right, MOST, len(question.best)),
            "precision_3": precision(acts, right),
            "ndcg_3": ndcg(acts, right, MOST, question.best.values()),
            "all_required": float(_cited(question, items, acts, ground)),
        }
    return Row(
        question=question,
        values=values,
        cards=len(cards),
        forbidden=tuple(_forbidden(answer, ground)),
        duplicates=len(cards) - len({(record.family_id, Act.of(record).value) for record in cards}),
        blocked=not isinstance(found, Recall),
    )


def figures(rows: Sequence[Row]) -> dict[str, Any]:
    """Return every figure over some rows, without thresholds."""
    found: dict[str, Any] = {name: mean_of(_values(rows, name)) for name in _RECALLED}
    required = _values(rows, "all_required")
    found["all_required"] = share_of(int(sum(required)), len(required))
    found["abstention_f1"] = _abstention(rows)
    found["forbidden"] = _none(sum(len(row.forbidden) for row in rows), rows)
    found["duplicates"] = _none(sum(row.duplicates for row in rows), rows)
    return found


def report(rows: Sequence[Row]) -> dict[str, Any]:
    """Return the figures of the reporting half with thresholds and strata, beside those of the development half."""
    halves = {half: [row for row in rows if row.question.half == half] for half in (DEVELOPMENT, REPORT)}
    shown = halves[REPORT]
    checks = _gated(figures(shown))
    strata = {stratum.value: _stratum(shown, stratum) for stratum in Stratum}
    worst = _worst(strata)
    missing = _missing(shown)
    failed = [name for name, check in {**checks, "worst_stratum": worst}.items() if not check["passed"]]
    return {
        "status": "pass" if not failed and not missing else "fail",
        "reason": "insufficient_coverage" if missing else ", ".join(failed),
        "missing": missing,
        **checks,
        "worst_stratum": worst,
        "strata": strata,
        "origins": {name: figures(part) for name, part in _by_origin(shown).items()},
        "development": figures(halves[DEVELOPMENT]),
        "questions": {half: len(part) for half, part in halves.items()},
        "wrong": [_told(row) for row in shown if row.forbidden or row.duplicates][:20],
        "meaning": MEANING,
    }


def _gated(found: Mapping[str, Any]) -> dict[str, Any]:
    checks = {}
    for name, figure in found.items():
        least = THRESHOLDS.get(name)
        if least is None:
            checks[name] = {**figure, "threshold": 0, "passed": figure["count"] == 0}
        else:
            reached = figure["value"] is not None and figure["value"] >= least
            checks[name] = {**figure, "threshold": least, "passed": reached}
    return checks


def _values(rows: Iterable[Row], name: str) -> list[float]:
    return [row.values[name] for row in rows if name in row.values]


def _none(count: int, rows: Sequence[Row]) -> dict[str, Any]:
    """Return a count that must be zero, with the interval of the share of questions, as if each had one at most."""
    return {**share_of(min(count, len(rows)), len(rows)), "count": count, "value": count}


def _abstention(rows: Sequence[Row]) -> dict[str, Any]:
    """Return the macro F1 of the two classes; the interval is Wilson's of the share of questions told apart rightly."""
    silent = [(row.is_silent, not row.question.is_eligible) for row in rows]
    right = sum(said == wanted for said, wanted in silent)
    classes = {"silent": _f1(silent), "speaking": _f1([(not said, not wanted) for said, wanted in silent])}
    met = [value for value in classes.values() if value is not None]
    macro = round(sum(met) / len(met), 6) if met else None
    return {**share_of(right, len(rows)), "accuracy": share_of(right, len(rows))["value"], "value": macro, **classes}


def _f1(pairs: Sequence[tuple[bool, bool]]) -> float | None:
    """Return F1 of (said, wanted); None where neither ever is."""
    hits = sum(said and wanted for said, wanted in pairs)
    either = sum(said for said, _ in pairs) + sum(wanted for _, wanted in pairs)
    return round(2 * hits / either, 6) if either else None


def _stratum(rows: Sequence[Row], stratum: Stratum) -> dict[str, Any]:
    part = [row for row in rows if row.question.stratum is stratum]
    eligible = sum(row.question.is_eligible for row in part)
    return {"questions": len(part), "eligible": eligible, **figures(part)}


def _worst(strata: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the lowest figure of a stratum with an answer; required evidence only where enough questions have one."""
    measured = []
    for name, found in strata.items():
        names = (*_RECALLED, *(("all_required",) if found["all_required"]["denominator"] >= LEAST_REQUIRED else ()))
        wanted = names if found["eligible"] else ()
        measured += [{"stratum": name, "measure": each, **found[each]} for each in wanted]
    worst = min(measured, key=lambda found: found["value"], default={"value": None})
    return {**worst, "threshold": MAJOR, "passed": worst["value"] is not None and worst["value"] >= MAJOR}


def _missing(rows: Sequence[Row]) -> list[str]:
    """Return what reported questions fall short of; in a stratum those with an answer count, in `abstain` all."""
    missing = [] if len(rows) >= LEAST_QUESTIONS else [f"{len(rows)} of {LEAST_QUESTIONS} questions"]
    for stratum in Stratum:
        part = [row.question for row in rows if row.question.stratum is stratum]
        count = sum(each.is_eligible or stratum is Stratum.ABSTAIN for each in part)
        missing += [f"{stratum.value}: {count} of {LEAST_OF_STRATUM}"] if count < LEAST_OF_STRATUM else []
    return missing


def _by_origin(rows: Iterable[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row.question.origin, []).append(row)
    return found


def _named(question: Question, record: MemoryRecord) -> str:
    """Return the act of a record as a name, which is that of no right act where the record is about another scope."""
    here = record.scope.task_scope_id == question.scope.task_scope_id
    return _name(Act.of(record)) if here else str(record.family_id)


def _name(act: Act) -> str:
    return f"{act.knob}={act.value}:{act.action.value}"


def _cited(question: Question, items: Sequence[ContextItem], acts: Sequence[str], ground: Ground) -> bool:
    resolved = {act for item, act in zip(items, acts, strict=True) if _resolves(item, ground)}
    return all(resolved & {_name(act) for act in group} for group in question.required)


def _resolves(item: ContextItem, ground: Ground) -> bool:
    if isinstance(item.card, EpisodicCard):
        return False
    named = {str(item.memory_id), *map(str, item.card.supporting), *map(str, item.card.contradicting)}
    return ground.held(named) == named


def _forbidden(answer: Answer, ground: Ground) -> Iterable[str]:
    question = answer.question
    allowed = {(each.knob, each.value) for each in question.allowed}
    for record in answer.cards:
        act = Act.of(record)
        reasons = {
            "no active head": str(record.id) not in ground.active,
            "another scope": record.scope.task_scope_id != question.scope.task_scope_id,
            "inadmissible evidence": bool(ground.tainted & _experiences(record)),
            "not allowed": (act.knob, act.value) not in allowed or act in question.forbidden,
            "forbidden ground": question.strict and act not in question.grades,
        }
        wrong = [reason for reason, holds in reasons.items() if holds]
        if wrong:
            yield f"{_name(act)}: {', '.join(wrong)}"
    yield from (f"{word!r} in the section" for word in (CANARY, EVALUATOR) if word in answer.rendered)


def _experiences(record: MemoryRecord) -> set[str]:
    return {str(each) for link in record.links for each in (link.experience_id, link.comparator_id)}


def _told(row: Row) -> dict[str, Any]:
    return {"question": row.question.name, "forbidden": list(row.forbidden), "duplicates": row.duplicates}
