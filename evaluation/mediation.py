"""The mediation metrics of a set of decisions: from what was written to what was better (spec 16, VRM-O04). Pure.

Rules kept here:

- every decision that was asked for is counted, those without a card too; a share is told with its numerator and
  denominator, and its Wilson interval;
- a decision counts at a stage only if it went through every stage before it and nothing on the way is broken;
- how many cards were recalled is an amount, never a gain: what is gained is the paired difference of verified outcomes;
- what was only recalled in the shadow of another arm was shown to nobody, and is not counted as shown;
- the paired difference is that of `evaluation.paired`, over every planned place of every pair: one utility for the arm
  `control` and one for the arm `memory` of a pair of one assignment, the mean over its decisions of the verified
  outcome of what ran. What has no valid outcome counts as `FAILED_UTILITY`; nothing is dropped. It is told only where
  that utility can be the worst.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from evaluation.paired import FAILED_UTILITY, PairedEffect, PairedTrial, paired_effect
from evaluation.writer.score import Count
from memory.trace.reading import Fidelity
from policies.mediation import Break, DecisionTrace, Judgement
from policies.modes import CONTROL, MEMORY
from records.values import Direction

STAGES: Final[dict[str, tuple[str, Callable[[DecisionTrace], bool]]]] = {
    "intents": ("decisions that were admitted", lambda trace: True),  # noqa: ARG005  # every one of them
    "ended": ("decisions that have their outcome", lambda trace: trace.outcome_id is not None),
    "asked": ("decisions whose arm was assigned memory", lambda trace: trace.asked),
    "recalled": ("of these, with one card or more", lambda trace: bool(trace.cards)),
    "adopted": ("of these, with a card that the actor followed", lambda trace: bool(trace.adopted)),
    "mapped": ("of these, with every such card mapped to the proposal", lambda trace: trace.mapped),
    "changed": ("of these, where that other configuration really ran", lambda trace: trace.changed),
    "verified": ("of these, with a valid verified outcome", lambda trace: trace.verified),
    "improved": ("of these, better than before by more than the margin", lambda trace: trace.improved),
}
"""The stages of the funnel, in order: what each counts."""

OF_MEMORY: Final = frozenset({"asked", "recalled", "adopted", "mapped"})
"""Stages that only a decision with memory can go through."""

_COMPARED: Final = frozenset({CONTROL, MEMORY})
"""The arms whose paired difference is told: not that of the earlier design, and none that only shadows."""

MEANING: Final = {
    "terminal_coverage": "decisions with their one outcome, of all decisions",
    "disposition_coverage": "cards with exactly one disposition, of all cards of ended decisions",
    "writer_fidelity": "evidence links of the cards' records that lead to a valid bundle of exactly the ids they name",
    "applicable_recall_at_budget": "decisions that were shown a card, of those where a rule passed every hard filter",
    "adopted_memory_precision": "adopted recommendations that the verified outcome confirms, of all that were adopted",
    "executable_decision_change_rate": "decisions where the mapped change really ran, of those that adopted a card",
    "manifest_fidelity": "decisions of which exactly what was decided is what ran, of all that completed",
    "chains_whole": "decisions without a break, of all decisions",
}


@dataclass(frozen=True, kw_only=True)
class Mediation:
    """What a set of decisions shows.

    Attributes:
        funnel: for each arm, how many decisions reached each stage.
        shares: the metrics, by name.
        judgements: adopted cards by what the outcome says of them; breaks: by kind.
        effect: the paired difference of verified outcomes; None with the reason in `no_effect`.
    """

    decisions: int
    funnel: Mapping[str, Mapping[str, int]]
    shares: Mapping[str, Count]
    judgements: Mapping[str, int]
    breaks: Mapping[str, int]
    cards: int
    effect: PairedEffect | None
    no_effect: str | None

    def as_json(self) -> dict[str, Any]:
        """Return everything as JSON values."""
        return {
            "decisions": self.decisions,
            "cards": self.cards,
            "funnel": {arm: dict(stages) for arm, stages in self.funnel.items()},
            "stages": {name: meaning for name, (meaning, _) in STAGES.items()},
            "metrics": {name: count.as_json() | {"meaning": MEANING[name]} for name, count in self.shares.items()},
            "adopted_cards": dict(self.judgements),
            "breaks": dict(self.breaks),
            "paired_verified_outcome_delta": None if self.effect is None else asdict(self.effect),
            "no_paired_delta_because": self.no_effect,
        }


def mediation(traces: Sequence[DecisionTrace], fidelity: Fidelity) -> Mediation:
    """Return the mediation metrics of decisions."""
    effect, reason = _paired(traces)
    adopted = [card for trace in traces for card in trace.adopted]
    return Mediation(
        decisions=len(traces),
        funnel={arm: funnel(own) for arm, own in by_arm(traces).items()},
        shares=_shares(traces, fidelity),
        judgements=dict(sorted(Counter(str(card.judgement) for card in adopted).items())),
        breaks=dict(sorted(Counter(each.what.value for trace in traces for each in trace.breaks).items())),
        cards=sum(len(trace.cards) for trace in traces),
        effect=effect,
        no_effect=reason,
    )


def by_arm(traces: Iterable[DecisionTrace]) -> dict[str, list[DecisionTrace]]:
    """Return the decisions of each arm, by the arm's name; those without one under `none`."""
    arms: dict[str, list[DecisionTrace]] = defaultdict(list)
    for trace in traces:
        arms[trace.arm or "none"].append(trace)
    return dict(sorted(arms.items()))


def funnel(traces: Sequence[DecisionTrace]) -> dict[str, int]:
    """Return how many decisions went through each stage and all before it.

    An arm that no memory was assigned to has no stages of memory: what changed there changed without it.
    """
    left, reached = list(traces), {}
    without_memory = bool(left) and not any(trace.asked for trace in left)
    for name, (_, reaches) in STAGES.items():
        if without_memory and name in OF_MEMORY:
            continue
        left = [trace for trace in left if reaches(trace)]
        reached[name] = len(left)
    return reached


def improvements(traces: Sequence[DecisionTrace]) -> int:
    """Return how many decisions memory took part in to the end: better, verified, and by an adopted card."""
    return funnel([trace for trace in traces if trace.asked])["improved"]


def _shares(traces: Sequence[DecisionTrace], fidelity: Fidelity) -> dict[str, Count]:
    ended = [trace for trace in traces if trace.outcome_id is not None]
    cards = [(card, trace) for trace in ended for card in trace.cards]
    undecided = sum(
        any(each.what is Break.DISPOSITIONS_DIFFER and each.about == card.citation_id for each in trace.breaks)
        for card, trace in cards
    )
    applicable = [trace for trace in traces if trace.eligible and not trace.shadowed]
    adopting = [trace for trace in traces if trace.adopted]
    advised = [card for trace in traces for card in trace.adopted if card.judgement is not Judgement.NOT_TESTED]
    confirmed = sum(
        card.judgement is Judgement.CONFIRMED and trace.mapped and trace.verified
        for trace in adopting
        for card in trace.adopted
    )
    completed = [trace for trace in traces if trace.artifact_digest is not None]
    return {
        "terminal_coverage": Count(len(ended), len(traces)),
        "disposition_coverage": Count(len(cards) - undecided, len(cards)),
        "writer_fidelity": Count(fidelity.sound, fidelity.links),
        "applicable_recall_at_budget": Count(sum(bool(trace.cards) for trace in applicable), len(applicable)),
        "adopted_memory_precision": Count(confirmed, len(advised)),
        "executable_decision_change_rate": Count(
            sum(trace.mapped and trace.changed for trace in adopting), len(adopting)
        ),
        "manifest_fidelity": Count(sum(trace.faithful for trace in completed), len(completed)),
        "chains_whole": Count(sum(not trace.breaks for trace in traces), len(traces)),
    }


def _paired(traces: Sequence[DecisionTrace]) -> tuple[PairedEffect | None, str | None]:
    """Return the paired difference of the arm with memory and the one without, or why there is none."""
    pairs: dict[tuple[str, str, str], dict[str, list[DecisionTrace]]] = defaultdict(lambda: defaultdict(list))
    for trace in traces:
        if trace.pair is not None and trace.arm in _COMPARED:
            pairs[trace.evaluation_task_id, trace.pair, trace.assignment][trace.arm].append(trace)
    whole = {key: arms for key, arms in sorted(pairs.items()) if len(arms) == len(_COMPARED)}
    if not whole:
        return None, "no_pair_with_both_arms"
    met = [trace for arms in whole.values() for own in arms.values() for trace in own]
    if any(trace.direction is not Direction.MAXIMIZE for trace in met):
        return None, "metric_is_not_maximized"
    if any(trace.after is not None and trace.after < FAILED_UTILITY for trace in met):
        return None, "metric_goes_below_failed_utility"
    numbers: Counter[str] = Counter()
    trials = []
    for (task, _, _), arms in whole.items():
        places = len({trace.iteration for own in arms.values() for trace in own})
        if any(len(_valid(own)) > places for own in arms.values()):
            return None, "more_outcomes_than_places"
        control, memory = _utility(arms[CONTROL], places), _utility(arms[MEMORY], places)
        trials.append(PairedTrial(task=task, seed=numbers[task], control=control, memory=memory))
        numbers[task] += 1
    return paired_effect(trials), None


def _valid(decisions: Sequence[DecisionTrace]) -> list[float]:
    return [trace.after for trace in decisions if trace.faithful and trace.valid and trace.after is not None]


def _utility(decisions: Sequence[DecisionTrace], places: int) -> float | None:
    """Return the mean verified outcome of an arm over the places of its pair; None where it has no valid one."""
    valid = _valid(decisions)
    failed = [FAILED_UTILITY] * (places - len(valid))
    return math.fsum([*valid, *failed]) / places if valid else None
