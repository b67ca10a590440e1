"""How a Run that is cancelled or has failed closes what is still open in it, and ends (spec 6.3, 9.7, VRM-R07).

Rules kept here:

- the Outcome of a closed decision follows from its intent, its context if it has one, and the Run's control event, the
  event's time included: whoever closes, and however often, makes the same bytes. No draft of an actor is looked at;
- a context that was committed is kept, and each of its cards gets the one disposition that only closure writes;
- grants that nobody settled are settled first, since what they write is closed from where it then stands;
- work items and Experiences of the Run are closed in the same pass (`memory.work_closure`);
- everything is read from the stores, so that a closure that was cut short goes on when it is run again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from memory.control import ENDS, ending
from memory.ports import RunOwnerPort, all_good
from memory.spine import Spine
from memory.work_closure import WorkClosure
from policies.distillation_policy import distillation_policy
from records.appends import Proposal
from records.base import Record
from records.control import ControlEvent, RunFacts
from records.decisions import ContextStatus, DecisionIntent, RecallContext, memory_binding
from records.errors import IntegrityError, NotFoundError, StaleError
from records.flows import Authority, Transition
from records.ids import ContextId
from records.outcomes import (
    CardDisposition,
    CardReason,
    DecisionStatus,
    OutcomeReason,
    RecallOutcome,
    SourceStatus,
    TerminalEvidenceKind,
)
from records.runtime import Subject
from records.states import Machine, Phase, ends_of
from records.values import PolicyIdentity, RecallRequirement
from store.artifacts import ArtifactStore
from store.ledger.port import LedgerReader
from store.runtime.port import RuntimeReader

_WITH_CONTEXT = {
    ContextStatus.OK: SourceStatus.OK,
    ContextStatus.EMPTY: SourceStatus.EMPTY,
    ContextStatus.DEGRADED: SourceStatus.DEGRADED,
}
_NOT_PRODUCED: Final[dict[str, Any]] = {
    "artifact_committed": False,
    "artifact_digest": None,
    "proposed_knob": None,
    "proposed_value": None,
    "hypothesis_id": None,
    "intervention_id": None,
    "effective_config_digest": None,
    "blocked_proof_digest": None,
}
"""What an actor would have made."""


def closure_outcome(intent: DecisionIntent, context: RecallContext | None, event: ControlEvent) -> RecallOutcome:
    """Return the Outcome by which closure ends a decision.

    Raises:
        IntegrityError: the event ends no decision, or is of another Run.
    """
    if (event.namespace, event.run_id) != (intent.namespace, intent.run_id):
        raise IntegrityError("control_event.run_id", event.run_id, f"The decision is of {intent.run_id}.")
    cancelled = event.evidence_kind() is TerminalEvidenceKind.CANCEL_EVENT
    source, reason = _source(intent, context, cancelled=cancelled)
    before = source in {SourceStatus.CANCELLED_BEFORE_RECALL, SourceStatus.FAILED_BEFORE_RECALL}
    ran = event.concerns(intent.id) and not before  # its actor was given this decision's memory, and failed
    return RecallOutcome.answering(
        intent,
        created_at=event.at,
        source_status=source,
        outcome_reason=reason,
        context_id=None if context is None else ContextId(context.id),
        decision_status=DecisionStatus.CANCELLED if cancelled else DecisionStatus.ACTOR_FAILED,
        terminal_reason=event.reason(intent.id),
        memory_binding_digest=memory_binding(intent, context).canonical_digest if ran else None,
        dispositions=_dispositions(context, cancelled=cancelled),
        closure_event_digest=event.canonical_digest if before else None,
        terminal_evidence_kind=event.evidence_kind(),
        terminal_evidence_digest=event.canonical_digest,
        executed_actor=event.executed_actor if ran else None,
        **_NOT_PRODUCED,
    )


def _source(intent: DecisionIntent, context: RecallContext | None, *, cancelled: bool) -> tuple[SourceStatus, str]:
    if context is not None:
        return _WITH_CONTEXT[context.status], context.status_reason
    if intent.governance.recall_requirement is not RecallRequirement.REQUIRED:
        return SourceStatus.NOT_REQUESTED, OutcomeReason.CONTROL_ARM.value
    if cancelled:
        return SourceStatus.CANCELLED_BEFORE_RECALL, OutcomeReason.CANCELLED_BEFORE_RECALL.value
    return SourceStatus.FAILED_BEFORE_RECALL, OutcomeReason.FAILED_BEFORE_RECALL.value


def _dispositions(context: RecallContext | None, *, cancelled: bool) -> tuple[CardDisposition, ...]:
    reason = CardReason.NOT_CONSIDERED_CANCELLED if cancelled else CardReason.NOT_CONSIDERED_ACTOR_FAILED
    return tuple(
        CardDisposition(
            citation_id=item.citation_id,
            card_id=item.card_id,
            verdict=reason.verdict,
            reason=reason,
            action_knob=None,
            action_value=None,
        )
        for item in (context.items if context else ())
    )


@dataclass(frozen=True, kw_only=True)
class ClosurePorts:
    """What closure reads and through whom it acts; `policy` is the one under which receipts are written."""

    ledger: LedgerReader
    runtime: RuntimeReader
    artifacts: ArtifactStore
    owner: RunOwnerPort
    spine: Spine
    policy: PolicyIdentity = field(default_factory=lambda: distillation_policy().identity)


class RunClosure:
    """Closes what is open in a Run that is cancelling or failing, and ends the Run."""

    def __init__(self, ports: ClosurePorts) -> None:
        """Close through these ports."""
        self._ports = ports

    def waiting(self) -> list[str]:
        """Return the Runs that are cancelling or failing, sorted."""
        return [run.id for run in self._ports.runtime.find(Machine.RUN, tuple(ENDS))]

    def close(self, run_id: str) -> Phase:
        """Close a Run and return the phase in which it ended; one that is over already is left as it is.

        Raises:
            NotFoundError: it was never admitted.
            IllegalTransitionError: nobody cancelled or failed it.
            StaleError: something of it is open that closure does not close, or moved on meanwhile; what could be
                closed is closed, and the rest is when it is run again.
            IntegrityWaitError: Ledger and Runtime disagree on what it holds.
        """
        ports = self._ports
        run = self._run(run_id)
        if run.phase in ends_of(Machine.RUN):
            return run.phase
        ending(run)  # before anything is written: the Run must be one that closes
        event = self._event(run)
        all_good(ports.spine.recover(ports.runtime, run_id))
        work = WorkClosure(ports.ledger, ports.runtime, event, ports.policy)
        all_good(ports.spine.direct(work.appends(run)))
        for receipt in all_good(ports.spine.carry([*self._decisions(run, event), *work.proposals(run)])):
            if not receipt.committed:
                raise StaleError("closure", receipt.reason, "The Ledger wrote nothing; close the Run again.")
        all_good(ports.owner.apply([ending(run)]))
        return self._run(run_id).phase

    def _run(self, run_id: str) -> Subject:
        run = self._ports.runtime.subject(Machine.RUN, run_id)
        if run is None:
            raise NotFoundError("run", run_id, "It was never admitted.")
        return run

    def _event(self, run: Subject) -> ControlEvent:
        control = RunFacts.load(run.facts).control
        if control is None:
            raise IntegrityError("run.facts", run.id, "It is closing and holds no control event; run vrm fsck.")
        return ControlEvent.read(self._ports.artifacts.read(control.digest), control.digest)

    def _decisions(self, run: Subject, event: ControlEvent) -> list[Proposal]:
        """Return one closure proposal for each decision of the Run that is open."""
        open_ones = self._ports.runtime.find(Machine.DECISION, (Phase.OPEN, Phase.CONTEXT_COMMITTED), run.id)
        if not open_ones:
            return []
        intents = self._intents([subject.id for subject in open_ones])
        contexts = self._contexts(event.namespace, list(intents))
        return [
            _proposal(subject, closure_outcome(intents[subject.id], contexts.get(subject.id), event))
            for subject in open_ones
        ]

    def _intents(self, wanted: Sequence[str]) -> dict[str, DecisionIntent]:
        stored = self._ports.ledger.get_many(wanted)
        found: dict[str, DecisionIntent] = {}
        for key in wanted:
            record: Record | None = stored[key].load() if key in stored else None
            if not isinstance(record, DecisionIntent):
                raise IntegrityError("decision", key, "The Runtime opened it, the Ledger holds no such intent.")
            found[key] = record
        return found

    def _contexts(self, namespace: str, intents: Sequence[str]) -> dict[str, RecallContext]:
        stored = self._ports.ledger.find("decision-recall-context", namespace, intent_id=sorted(intents))
        loaded = [record.load() for record in stored]
        return {str(record.intent_id): record for record in loaded if isinstance(record, RecallContext)}


def _proposal(subject: Subject, outcome: RecallOutcome) -> Proposal:
    return Proposal(
        namespace=outcome.namespace,
        transition=Transition.APPEND_OUTCOME,
        authority=Authority.RUNTIME_CLOSURE,
        machine=Machine.DECISION,
        subject_id=subject.id,
        run_id=outcome.run_id,
        generation=subject.generation,
        fence=subject.fence,
        records=Proposal.bodies((outcome,)),
    )
