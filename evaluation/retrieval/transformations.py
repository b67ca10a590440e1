"""What must not change an answer, or not by much (reference 1.3, "Robustness transformations").

Rules kept here:

- a transformation plants into a copy of the clean Ledger, or changes what the retriever is given; the same questions
  are then asked again. The loss of a figure is clean minus transformed, over the same questions;
- what is planted to tempt has a larger effect than what is right, so that a ranking alone would prefer it;
- what a transformation makes unusable must be blocked with its proof for every question, and show nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from evaluation.retrieval.asking import Answer, Asker
from evaluation.retrieval.payloads import CANARY
from evaluation.retrieval.questions import Act, Question
from evaluation.retrieval.score import Ground, figures, ground_of, row_of
from evaluation.retrieval.variants import Planter, Standing, scaled, variant
from evaluation.simulation.world import OpenLedger
from evaluation.writer.groups import PRIVATE
from memory.index.embedding import Embedder
from policies.retrieval_policy import RetrievalPolicy
from records.canonical import digest_bytes
from records.decisions import BlockedProposal
from records.ids import TaskScopeId
from records.knowledge import EventType, MemoryRecord
from records.values import Grade, MemoryScope
from store.artifacts import ArtifactStore

LOSSES: Final = {"precision_3": 0.05, "candidate_recall_20": 0.10, "family_recall_3": 0.10}
"""The largest loss of a figure that is let pass."""
NOISE: Final = 10
"""Irrelevant rules for each one that stands."""
TEMPTING: Final = 3.0
"""What is planted to tempt shows so many times the effect of what is right."""
_OTHER: Final = "another_project"


@dataclass(frozen=True, kw_only=True)
class Clean:
    """What transformations start from: a Ledger that has learned, the questions, and what must be kept out.

    Attributes:
        tainted: Experiences that must not stand behind a rule.
        test_index: whether vectors without meaning are allowed; for tests only.
    """

    ledger: OpenLedger
    artifacts: ArtifactStore
    embedder: Embedder
    policy: RetrievalPolicy
    namespace: str
    questions: tuple[Question, ...]
    tainted: frozenset[str]
    test_index: bool = False

    def ask(self, ledger: OpenLedger, **changes: Any) -> list[Answer]:
        """Ask every question of a Ledger, with some of the parts changed."""
        return self.asker(ledger, **changes).ask(self.questions)

    def asker(self, ledger: OpenLedger, **changes: Any) -> Asker:
        """Return an asker of a Ledger, with some of the parts changed."""
        parts: dict[str, Any] = {"embedder": self.embedder, "policy": self.policy} | changes
        return Asker(ledger, self.artifacts, namespace=self.namespace, test_index=self.test_index, **parts)

    def ground(self, ledger: OpenLedger) -> Ground:
        """Return what is known of a Ledger besides what cards say."""
        return ground_of(ledger, self.namespace, self.tainted)

    def standing(self) -> list[MemoryRecord]:
        """Return the rules that stand as active."""
        active = self.ground(self.ledger).active
        loaded = (stored.load() for stored in self.ledger.get_many(sorted(active)).values())
        return [record for record in loaded if isinstance(record, MemoryRecord)]

    def right(self) -> Iterator[tuple[Question, MemoryRecord]]:
        """Yield every rule that is a right answer, once, with the first question that it answers."""
        by_scope: dict[TaskScopeId, list[MemoryRecord]] = {}
        for record in self.standing():
            by_scope.setdefault(record.scope.task_scope_id, []).append(record)
        met: set[str] = set()
        for question in self.questions:
            for record in by_scope.get(question.scope.task_scope_id, ()):
                if Act.of(record) in question.grades and record.id not in met:
                    met.add(record.id)
                    yield question, record


Plan = Callable[[Clean], Iterable[Standing]]


@dataclass(frozen=True, kw_only=True)
class Transformation:
    """One row of the table of transformations.

    Attributes:
        plan: what is planted.
        tempts: whether returning anything that was planted is forbidden.
    """

    name: str
    plan: Plan
    tempts: bool

    @property
    def meaning(self) -> str:
        """The transformation in words."""
        return (self.plan.__doc__ or "").strip()


def irrelevant(clean: Clean) -> Iterator[Standing]:
    """Ten rules for each that stands: half about other tasks, half about this one with an effect inside the margin."""
    for number, record in enumerate(clean.standing()):
        small = scaled(record.effect, 0.0)
        for place in range(NOISE):
            if place % 2:
                other = TaskScopeId.derive({"noise": [number, place]})
                said = f"problem binary, rows large, collection noise-{place}"
                yield Standing(variant(record, bound={"task_scope_id": other}, scope_description=said))
            else:
                bound = {"evaluation_task_id": None, "source_digest": None} | _bound_to_asking(clean, record, place)
                yield Standing(variant(record, bound=bound, effect=small, claim=f"Nothing was seen; note {place}."))


def stale(clean: Clean) -> Iterator[Standing]:
    """Beside each right rule a better-looking one about this very task that was superseded or retracted since."""
    for number, (question, record) in enumerate(clean.right()):
        ended = EventType.RETRACTED if number % 2 else EventType.SUPERSEDED
        yield Standing(_tempting(record, question), (EventType.PROMOTED_ACTIVE, ended))


def scope_near(clean: Clean) -> Iterator[Standing]:
    """Beside each right rule four better-looking ones, each about something that differs in one field of its scope."""
    for question, record in clean.right():
        for field in ("task_scope_id", "contract_digest", "budget_class", "environment_digest"):
            yield Standing(_tempting(record, question, **{field: _differing(record.scope, field)}))


def contradicted(clean: Clean) -> Iterator[Standing]:
    """Beside each right rule a better-looking one about this very task that stands as contested."""
    for question, record in clean.right():
        yield Standing(_tempting(record, question), (EventType.PROMOTED_CONTESTED,))


def near_duplicates(clean: Clean) -> Iterator[Standing]:
    """Beside each right rule three more of its family, for narrower scopes that hold here, in other words."""
    for question, record in clean.right():
        for field in ("evaluation_task_id", "dataset_digest", "environment_digest"):
            bound = {field: getattr(question.scope, field)}
            yield Standing(variant(record, bound=bound, claim=f"{record.claim} Seen once more by {field}."))


def plausible(clean: Clean) -> Iterator[Standing]:
    """Beside each right rule a persuasive lesson about the same change here, which one run stands behind."""
    for question, record in clean.right():
        strength = record.strength.model_copy(update={"grade": Grade.SINGLE, "support_count": 1})
        lesson = f"Every expert agrees, and it always works: {record.claim}"
        yield Standing(variant(_tempting(record, question), strength=strength, claim=lesson))


def other_namespace(clean: Clean) -> Iterator[Standing]:
    """Beside each right rule the same one in another namespace, with a word that nobody here may learn."""
    for question, record in clean.right():
        scope = _tempting(record, question).scope.model_copy(update={"visibility": clean.namespace})
        yield Standing(variant(record, namespace=_OTHER, scope=scope, claim=f"{record.claim} {CANARY}", links=()))


PLANTED: Final = (
    Transformation(name="irrelevant_10x", plan=irrelevant, tempts=True),
    Transformation(name="stale", plan=stale, tempts=True),
    Transformation(name="scope_near_decoys", plan=scope_near, tempts=True),
    Transformation(name="contradicted", plan=contradicted, tempts=True),
    Transformation(name="near_duplicates", plan=near_duplicates, tempts=False),
    Transformation(name="plausible_lesson", plan=plausible, tempts=True),
    Transformation(name="other_namespace", plan=other_namespace, tempts=True),
)


def planted_row(clean: Clean, base: Mapping[str, Any], transformation: Transformation) -> dict[str, Any]:
    """Ask again after planting, and return the row as JSON values; `base` are the clean figures."""
    planter = Planter(clean.ledger, clean.namespace)
    made = planter.plant(transformation.plan(clean))
    tempting = {str(record.id) for record in made} if transformation.tempts else set()
    answers = clean.ask(planter.ledger)
    ground = clean.ground(planter.ledger)
    found = figures([row_of(answer, ground) for answer in answers])
    met = sum(str(record.id) in tempting for answer in answers for record in answer.cards)
    forbidden = found["forbidden"]["count"] + met
    leaked = sum(CANARY in answer.rendered for answer in answers)
    return _row(
        transformation.name,
        transformation.meaning,
        cases=len(made),
        questions=len(answers),
        **compared(base, found),
        forbidden=forbidden,
        duplicates=found["duplicates"]["count"],
        leaked=leaked,
        passed=_kept(base, found) and not forbidden and not leaked and not found["duplicates"]["count"],
    )


def blocked_rows(clean: Clean, other_model: Embedder) -> Iterator[dict[str, Any]]:
    """Yield the rows of what must be blocked: another policy, another model, private members, damaged bytes."""
    another = clean.policy.model_copy(update={"version": "1000000"})
    drifts: dict[str, tuple[str, str, dict[str, Any]]] = {
        "policy_revision": ("blocked_policy_mismatch", "A policy that the Recall Input was not made for.",
                            {"answering": another}),
        "model_revision": ("blocked_policy_mismatch", "A model that the index was not built with.",
                           {"asking": other_model}),
        "damaged_index": ("blocked_corrupt_input", "One byte of the index differs.", {"damaged": True}),
    }  # fmt: skip
    for name, (reason, meaning, parts) in drifts.items():
        yield blocked_row(name, meaning, clean.ask(Planter(clean.ledger, clean.namespace).ledger, **parts), reason)
    planter = Planter(clean.ledger, clean.namespace)
    planter.plant(private(clean))
    meaning = (private.__doc__ or "").strip()
    yield blocked_row("private_canary", meaning, clean.ask(planter.ledger), "blocked_private_exposure")


def private(clean: Clean) -> Iterator[Standing]:
    """A rule that only the evaluator may see stands in this namespace; the whole input is blocked."""
    hidden = {"visibility": PRIVATE}
    yield from (Standing(variant(record, bound=hidden, claim=CANARY)) for record in clean.standing()[:1])


def blocked_row(name: str, meaning: str, answers: Sequence[Answer], reason: str) -> dict[str, Any]:
    """Return the row of a transformation after which every request must be blocked for one reason."""
    blocked = [
        isinstance(answer.found, BlockedProposal) and answer.found.blocked_reason.value == reason for answer in answers
    ]
    shown = sum(bool(answer.rendered) for answer in answers)
    return _row(
        name,
        meaning,
        cases=len(answers),
        questions=len(answers),
        blocked=sum(blocked),
        reason=reason,
        shown=shown,
        passed=all(blocked) and not shown and bool(answers),
    )


def compared(base: Mapping[str, Any], found: Mapping[str, Any]) -> dict[str, Any]:
    """Return value and loss of each figure."""
    names = ("candidate_recall_20", "family_recall_3", "precision_3", "ndcg_3", "abstention_f1")
    return {
        name: {
            "value": found[name]["value"],
            "loss": _loss(base[name]["value"], found[name]["value"]),
            "most": LOSSES.get(name),
        }
        for name in names
    }


def _kept(base: Mapping[str, Any], found: Mapping[str, Any]) -> bool:
    losses = ((_loss(base[name]["value"], found[name]["value"]), most) for name, most in LOSSES.items())
    return all(loss is not None and loss <= most for loss, most in losses)


def _loss(before: float | None, after: float | None) -> float | None:
    return None if before is None or after is None else round(before - after, 6)


def _row(name: str, meaning: str, **values: Any) -> dict[str, Any]:
    return {"name": name, "meaning": meaning, **values}


def _tempting(record: MemoryRecord, question: Question, **bound: Any) -> MemoryRecord:
    """Return a variant for this very task, or for a field that differs, with a larger effect."""
    here = bound or {"evaluation_task_id": question.scope.evaluation_task_id}
    return variant(record, bound=here, effect=scaled(record.effect, TEMPTING))


def _bound_to_asking(clean: Clean, record: MemoryRecord, place: int) -> dict[str, Any]:
    """Return bound fields, another combination for each place, with the values of the question about this scope."""
    fields = ("evaluation_task_id", "dataset_digest", "source_digest")
    asking = next((each for each in clean.questions if each.scope.task_scope_id == record.scope.task_scope_id), None)
    if asking is None:
        return {"environment_digest": digest_bytes(f"noise {place}".encode())}
    chosen = [name for at, name in enumerate(fields) if (place // 2 + 1) >> at & 1]
    return {name: getattr(asking.scope, name) for name in chosen}


def _differing(scope: MemoryScope, field: str) -> object:
    if field == "task_scope_id":
        return TaskScopeId.derive({"near": str(scope.task_scope_id)})
    return "twice-the-budget" if field == "budget_class" else digest_bytes(f"another {field}".encode())
