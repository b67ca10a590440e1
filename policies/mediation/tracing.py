"""From the records of one decision to its trace. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from policies.mediation.breaks import breaks_of
from policies.mediation.shapes import UNDECIDED, Broken, CardTrace, Counterpart, DecisionTrace, Judgement, Ran
from policies.mediation.told import (
    NOTHING_RAN,
    DecisionRecords,
    Executed,
    action,
    executed_action,
    named_by,
    observed_seconds,
    target_of,
)
from records.decisions import RecallContext
from records.evidence import Manipulation
from records.outcomes import CardVerdict, DecisionStatus, RecallOutcome
from records.values import ActionKind, Direction


def trace_decision(told: DecisionRecords) -> DecisionTrace:
    """Return the trace of one decision; its counterpart is found by `paired`."""
    intent, context = told.intent, told.context
    verified = _Verified.of(told)
    return DecisionTrace(
        intent_id=str(intent.id),
        run_id=str(intent.run_id),
        iteration=intent.iteration,
        arm=intent.arm,
        pair=intent.pair,
        assignment=intent.governance.assignment_manifest_digest,
        evaluation_task_id=str(intent.evaluation_task_id),
        decision_point=intent.decision_point.value,
        requirement=intent.governance.recall_requirement,
        context_id=str(context.id) if context else None,
        eligible=_eligible(context),
        tokens=context.token_count if context else None,
        cards=tuple(_cards(told, verified)),
        **_ended(told.outcome),
        **_execution(told),
        **vars(verified),
        breaks=tuple(Broken(what=what, about=about) for what, about in breaks_of(told)),
    )


def _ended(outcome: RecallOutcome | None) -> dict[str, Any]:
    return {
        "source_status": outcome.source_status.value if outcome else None,
        "source_reason": outcome.outcome_reason if outcome else None,
        "outcome_id": str(outcome.id) if outcome else None,
        "decision_status": outcome.decision_status.value if outcome else None,
        "terminal_reason": outcome.terminal_reason.value if outcome and outcome.terminal_reason else None,
        "artifact_digest": outcome.artifact_digest if outcome else None,
        "action": action(outcome.proposed_knob, outcome.proposed_value) if outcome else None,
        "decided_config_digest": outcome.effective_config_digest if outcome else None,
    }


def _execution(told: DecisionRecords) -> dict[str, Any]:
    link, run = told.link, told.executed or NOTHING_RAN
    return {
        "attempt_id": str(link.attempt_id) if link else None,
        "experience_id": str(link.experience_id) if link else None,
        "intervention_id": str(run.provenance.intervention_id) if run.provenance else None,
        "executed": executed_action(run.intervention),
        "executed_config_digest": run.provenance.config_digest if run.provenance else None,
        "ran": _ran(told.outcome, run),
        "seconds": None if run.observation is None else observed_seconds(run.observation),
    }


def paired(traces: Sequence[DecisionTrace]) -> tuple[DecisionTrace, ...]:
    """Return the traces, each with its counterpart: same pair of one assignment, same place, another arm, or None.

    Rounds of one namespace may name their pairs alike; their assignment manifests differ. Where a place has more than
    two arms, the first other arm by name is the counterpart.
    """
    places: dict[_Place, dict[str, DecisionTrace]] = {}
    for trace in traces:
        if trace.pair is not None and trace.arm is not None:
            places.setdefault(_place(trace), {})[trace.arm] = trace
    return tuple(trace.model_copy(update={"counterpart": _counterpart(trace, places)}) for trace in traces)


_Place = tuple[str, str | None, int]


def _place(trace: DecisionTrace) -> _Place:
    return trace.assignment, trace.pair, trace.iteration


@dataclass(frozen=True)
class _Verified:
    """What was verified of a decision; the fields are those of the trace."""

    valid: bool | None
    violations: tuple[str, ...]
    metric: str | None
    direction: Direction | None
    margin: float
    before: float | None
    after: float | None
    gain: float | None

    @classmethod
    def of(cls, told: DecisionRecords) -> _Verified:
        """Read the result under the contract's own metric, direction and margin."""
        view, run = told.view, told.executed or NOTHING_RAN
        metric, found = None if view is None else view.primary_metric, run.verification
        direction = None if metric is None else metric.direction
        after = found.metric(metric.name) if found and found.valid and metric else None
        return cls(
            valid=None if found is None else found.valid,
            violations=() if found is None else found.violations,
            metric=None if metric is None else metric.name,
            direction=direction,
            margin=0.0 if view is None else float(view.equivalence_margin),
            before=run.before,
            after=after,
            gain=_gain(run.before, after, direction),
        )

    def judge(self, advice: str) -> Judgement:
        """Return what the outcome says of an adopted card; one that warns of an action is not tested by another one."""
        if advice != ActionKind.RECOMMEND:
            return Judgement.NOT_TESTED
        if self.gain is None:
            return Judgement.UNVERIFIED
        if abs(self.gain) <= self.margin:
            return Judgement.NO_DIFFERENCE
        return Judgement.CONFIRMED if self.gain > 0 else Judgement.REFUTED


def _counterpart(trace: DecisionTrace, places: Mapping[_Place, Mapping[str, DecisionTrace]]) -> Counterpart | None:
    arms = places.get(_place(trace), {})
    others = sorted(arm for arm in arms if arm != trace.arm)
    if trace.arm is None or not others:
        return None
    other = arms[others[0]]
    return Counterpart(
        intent_id=other.intent_id,
        arm=others[0],
        ran=other.ran,
        after=other.after,
        delta=_gain(other.after, trace.after, trace.direction),
    )


def _gain(before: float | None, after: float | None, direction: Direction | None) -> float | None:
    if before is None or after is None or direction is None:
        return None
    return after - before if direction is Direction.MAXIMIZE else before - after


def _eligible(context: RecallContext | None) -> int | None:
    if context is None:
        return None
    return next((each.count for each in context.candidates if each.reason == "eligible"), None)


def _ran(outcome: RecallOutcome | None, run: Executed) -> Ran:
    if outcome is not None and outcome.decision_status is DecisionStatus.REJECTED:
        return Ran.REJECTED
    if run.intervention is None:
        return Ran.NOTHING
    return _RAN[run.intervention.manipulation]


_RAN: Final = {
    Manipulation.CHANGED: Ran.CHANGED,
    Manipulation.NO_EFFECT: Ran.NO_EFFECT,
    Manipulation.BASELINE: Ran.BASELINE,
}


def _cards(told: DecisionRecords, verified: _Verified) -> Iterator[CardTrace]:
    fates = {each.citation_id: each for each in told.outcome.dispositions} if told.outcome else {}
    for item in told.context.items if told.context else ():
        body, fate = item.card.as_json(), fates.get(item.citation_id)
        adopted = fate is not None and fate.verdict is CardVerdict.ADOPTED
        sources, evidence = named_by(item)
        yield CardTrace(
            ordinal=item.ordinal,
            citation_id=str(item.citation_id),
            card_id=str(item.card_id),
            sources=sources,
            evidence=evidence,
            tokens=item.token_count,
            advice=str(body.get("action") or body.get("source_kind")),
            target=target_of(body),
            verdict=fate.verdict.value if fate else UNDECIDED,
            reason=fate.reason.value if fate else UNDECIDED,
            mapped_to=action(fate.action_knob, fate.action_value) if fate else None,
            judgement=verified.judge(str(body.get("action"))) if adopted else None,
        )
