"""One group in words: what was planted, what was decided, and why."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from evaluation.writer.evaluate import decided
from evaluation.writer.groups import Group, Place
from evaluation.writer.kinds import KINDS
from evaluation.writer.reading import Claim, Outcome
from records.errors import InvalidInputError


def told(kind: str, number: int = 0, seed: int = 0) -> dict[str, Any]:
    """Return what was planted in one group of a kind beside what was decided, as JSON values.

    Raises:
        InvalidInputError: there is no such kind.
    """
    if kind not in KINDS:
        raise InvalidInputError("kind", kind, f"There are: {', '.join(KINDS)}.")
    outcome = decided(KINDS[kind].group(number, seed))
    return {
        "group": outcome.group.name,
        "meaning": KINDS[kind].meaning,
        "planted": list(_planted(outcome.group)),
        "decided": [line for claim in outcome.claims for line in _decided(claim)] or ["no candidate"],
        "said": [f"reason codes: {', '.join(sorted(outcome.reasons)) or 'none'}"],
        "compared": list(_compared(outcome)),
    }


def _planted(group: Group) -> Iterator[str]:
    wanted = "less" if group.minimize else "more"
    yield f"{len(group.runs)} runs in {len(group.rounds)} rounds; {wanted} of the metric is better"
    for each in group.effects:
        change = f"{each.change.knob} {each.change.from_value} -> {each.change.to_value}"
        lawful = "" if each.lawful else "; no rule may come of it"
        yield (
            f"{change} at {_where(each.place)}: {each.mean:+.4f} over roots, {each.against:.0%} of them against{lawful}"
        )
        yield "  by root: " + ", ".join(f"{does:+.4f}" for does in each.roots.values())
    if group.taints:
        yield f"evidence that must not be used: {', '.join(sorted(group.taints))}"
    for gold in group.gold:
        said = f"{gold.action.value} {gold.change.knob} {gold.change.to_value}"
        yield f"must become active: {said} at {_where(gold.place)}"
    if not group.gold:
        yield "nothing must become active"


def _where(place: Place) -> str:
    other = [f"{name} {value}" for name, value in vars(place).items() if value != getattr(Place(), name)]
    return ", ".join(other) or "the usual place"


def _decided(claim: Claim) -> Iterator[str]:
    effect, stands = claim.candidate.effect, claim.disposition
    bound = [name for name, value in claim.candidate.scope.as_json().items() if value is not None]
    yield f"{claim.decision.decision.value}: {', '.join(claim.decision.reasons)}"
    yield f"  {claim.candidate.claim}"
    yield f"  mean {effect.mean_delta}, p {effect.p_value}, units {effect.unit_count}, pairs {effect.pair_count}"
    if "evaluation_task_id" in bound:
        yield "  bound to one evaluation task"
    events = ", ".join(event.value for event in claim.events) or "none"
    yield f"  lifecycle: {events}; stands as {'nothing' if stands is None else stands.value}"


def _compared(outcome: Outcome) -> Iterator[str]:
    yield f"true active rules: {len(outcome.true_rules)}, false ones: {len(outcome.false_rules)}"
    if outcome.group.gold:
        yield f"gold is {'active' if outcome.recalled else 'missed'}"
    yield from (f"critical: {each}" for each in outcome.critical)
    yield from (f"unfaithful: {each}" for each in outcome.unfaithful)
