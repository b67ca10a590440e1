"""Recovery of enqueue handoffs that were cut short, and their abandonment (spec 8.1, VRM-W09).

Rules kept here:

- whoever wants an enqueue to stop retires its attempt first; from then on no grant of it is appended any more;
- recovery drains, then reads, then closes: grants without an answer get theirs, the Store's proofs are read in one read
  transaction, and the owner closes each attempt by its published proof. Every step is safe to repeat, from stored facts
  alone;
- an obligation is abandoned only where nothing of it is in the Ledger, and its receipt goes the way of every granted
  append;
- a Run that is cancelling or failing gives its open handoffs up: what was enqueued is bound, what is absent is
  abandoned for the Run's own control event, so each of them has its receipt before the Run ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from memory.handoffs import prove, recovery_request, retirement
from memory.ports import HandoffOwnerPort
from memory.spine import Spine
from records.appends import AppendReceipt, Proposal
from records.canonical import parse_canonical
from records.control import RunFacts
from records.errors import IllegalTransitionError, IntegrityError, NotFoundError, StaleError, VrmError
from records.evidence import Experience
from records.flows import Authority, Transition
from records.handoffs import AbandonmentProof, RecoveryRequest, StoreProof
from records.ids import HandoffId, RunId
from records.ingestion import AbandonedReceipt
from records.runtime import Applied, Subject
from records.states import Machine, Phase
from records.values import ProofRef
from store.artifacts import ArtifactStore
from store.ledger.port import OpenLedger
from store.runtime.port import RuntimeReader

_REASONS: Final = {Phase.CANCELLING: "source_run_cancelled", Phase.FAILING: "source_run_failed"}
_RETIRABLE: Final = (Phase.PENDING, Phase.IN_FLIGHT, Phase.ABANDONING)
_OPEN: Final = (*_RETIRABLE, Phase.RETIRED, Phase.PROVED_ABSENT)


@dataclass(frozen=True)
class Abandonment:
    """A handoff that is to be given up, for a published cause; `reason` goes into the receipt of its Experience."""

    handoff_id: HandoffId
    cause: ProofRef
    reason: str


class Orphans:
    """Retires, recovers and abandons handoffs."""

    def __init__(
        self,
        runtime: RuntimeReader,
        ledger: OpenLedger,
        artifacts: ArtifactStore,
        owner: HandoffOwnerPort,
        spine: Spine,
    ) -> None:
        """Read through the stores, act through owner and spine."""
        self._runtime = runtime
        self._ledger = ledger
        self._artifacts = artifacts
        self._owner = owner
        self._spine = spine

    def retire(self, handoff_ids: Sequence[HandoffId]) -> list[Applied | VrmError]:
        """End the attempts that handoffs are at; each gets its answer or its own error."""
        found = self._runtime.subjects(Machine.HANDOFF, handoff_ids)
        known = [each for each in handoff_ids if each in found]
        answers = dict(zip(known, self._owner.apply([retirement(found[each]) for each in known]), strict=True))
        return [answers.get(each) or _unknown(each) for each in handoff_ids]

    def recover(self) -> dict[str, StoreProof | VrmError]:
        """Drain, prove and close every retired attempt.

        Returns:
            By handoff the proof that closed it, or its own error; it stays retired then.
        """
        self._spine.recover(self._runtime)
        return self.close()

    def close(self, run_id: str | None = None) -> dict[str, StoreProof | VrmError]:
        """Prove and close every retired attempt, or every one of a Run, that is drained; another keeps its error."""
        handoffs = self._runtime.find(Machine.HANDOFF, [Phase.RETIRED], run_id)
        answers = self._proofs(handoffs)
        proofs = [answer for answer in answers if not isinstance(answer, VrmError)]
        closed = iter(self._owner.resolve(self._artifacts.publish_many([proof.canonical for proof in proofs])))
        ended = [answer if isinstance(answer, VrmError) else _or_error(answer, next(closed)) for answer in answers]
        return {handoff.id: answer for handoff, answer in zip(handoffs, ended, strict=True)}

    def abandon(self, abandonments: Sequence[Abandonment]) -> list[AppendReceipt | VrmError]:
        """Give up what was proved absent, for good; each gets the receipt of its append or its own error."""
        proposals: list[Proposal | VrmError] = []
        for each in abandonments:
            try:
                proposals.append(self._proposal(each))
            except VrmError as error:
                proposals.append(error)
        carried = iter(self._spine.carry([each for each in proposals if not isinstance(each, VrmError)]))
        return [each if isinstance(each, VrmError) else next(carried) for each in proposals]

    def give_up(self, run_id: str) -> dict[str, VrmError]:
        """Close every open handoff of a Run that is cancelling or failing; again it does nothing more.

        Returns:
            By handoff that is still open why it is; run it again.

        Raises:
            NotFoundError: the Run was never admitted.
            IllegalTransitionError: nobody cancelled or failed it.
        """
        cause, reason = self._cause(run_id)
        self._spine.recover(self._runtime, run_id)
        self.retire([HandoffId.check(each.id) for each in self._open(run_id, _RETIRABLE)])
        met: dict[str, object] = dict(self.close(run_id))
        absent = [HandoffId.check(each.id) for each in self._open(run_id, (Phase.PROVED_ABSENT,))]
        met |= dict(zip(absent, self.abandon([Abandonment(each, cause, reason) for each in absent]), strict=True))
        return {each.id: _why(each, met.get(each.id)) for each in self._open(run_id, _OPEN)}

    def _cause(self, run_id: str) -> tuple[ProofRef, str]:
        """Return the control event that ends a Run, and what its receipts say of it."""
        run = self._runtime.subject(Machine.RUN, run_id)
        if run is None:
            raise NotFoundError("run", run_id, "It was never admitted.")
        control = RunFacts.load(run.facts).control
        if run.phase not in _REASONS or control is None:
            raise IllegalTransitionError("run.phase", run.phase.value, "Only a Run that ends gives its handoffs up.")
        return ProofRef(ref=control.kind.value, digest=control.digest), _REASONS[run.phase]

    def _open(self, run_id: str, phases: Sequence[Phase]) -> list[Subject]:
        return self._runtime.find(Machine.HANDOFF, phases, run_id)

    def _proofs(self, handoffs: Sequence[Subject]) -> list[StoreProof | VrmError]:
        answers: list[StoreProof | VrmError] = []
        with self._ledger.reading() as reader:
            for handoff in handoffs:
                try:
                    answers.append(prove(reader, recovery_request(handoff)))
                except VrmError as error:
                    answers.append(error)
        return answers

    def _proposal(self, abandonment: Abandonment) -> Proposal:
        handoff = self._runtime.subject(Machine.HANDOFF, abandonment.handoff_id)
        if handoff is None:
            raise _unknown(abandonment.handoff_id)
        if handoff.phase is not Phase.PROVED_ABSENT or handoff.run_id is None:
            raise StaleError("handoff.phase", handoff.phase.value, "Only what was proved absent is abandoned.")
        request = recovery_request(handoff)
        proof = AbandonmentProof(
            request=request,
            absence=parse_canonical(handoff.facts)["proof"],
            source_run_id=handoff.run_id,
            cause=abandonment.cause,
        )
        self._artifacts.publish(proof.canonical)
        receipt = self._receipt(request, proof, abandonment.reason)
        return Proposal(
            namespace=request.namespace,
            transition=Transition.ABANDON_ENQUEUE,
            authority=Authority.HANDOFF_ABANDONMENT,
            machine=Machine.HANDOFF,
            subject_id=handoff.id,
            run_id=RunId(handoff.run_id),
            generation=handoff.generation,
            fence=handoff.fence,
            records=Proposal.bodies((receipt,)),
        )

    def _receipt(self, request: RecoveryRequest, proof: AbandonmentProof, reason: str) -> AbandonedReceipt:
        stored = self._ledger.get(request.experience_id)
        experience = None if stored is None else stored.load()
        if not isinstance(experience, Experience):
            raise IntegrityError("handoff", request.experience_id, "Its Experience is not in the Ledger.")
        return AbandonedReceipt.build(
            namespace=request.namespace,
            created_at=experience.created_at,
            experience_id=request.experience_id,
            reasons=(reason,),
            policy=request.policy,
            abandoned_work_item_id=request.work_item_id,
            abandoned_payload_digest=request.work_item_digest,
            proof=ProofRef(ref=request.attempt.id, digest=proof.canonical_digest),
        )


def _unknown(handoff_id: str) -> NotFoundError:
    return NotFoundError("handoff", handoff_id, "It was never opened.")


def _or_error(proof: StoreProof, closed: Applied | VrmError) -> StoreProof | VrmError:
    return closed if isinstance(closed, VrmError) else proof


def _why(handoff: Subject, met: object) -> VrmError:
    if isinstance(met, VrmError):
        return met
    return StaleError("handoff.phase", handoff.phase.value, "Its attempt is not over yet; run recovery again.")
