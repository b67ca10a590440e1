"""The retention officer: begins an erasure, and carries one to its tombstone from wherever it stands (spec 4.15, 15).

Rules kept here:

- the intent is the first fact and denies at once; nothing outside the Ledger is touched before it is there;
- then the bytes, then the proofs that they are gone, then the tombstone that rests on them; each step is safe to
  repeat, and which one is next is read from the stores, so whoever comes finishes what another one began;
- bytes that are needed by a record which is not denied, or held by an ACTIVE reference, are waited for and never taken.
  The references by which a reference source holds its own bytes are released when it or they are denied;
- each erasure has a Run of its own, named after its target, which ends with it. Times in its records are the Run's, so
  whoever begins again proposes the same bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from memory.erasing.copies import copies_of
from memory.erasing.planning import ErasurePlan, ErasureRequest, plan
from memory.leases import admission, completion
from memory.material import Denied, Need, Use, needs
from memory.ports import Clock, RunOwnerPort, all_good
from memory.reference.holding import denied_sources, releasing
from memory.spine import Spine
from records.appends import Proposal
from records.base import Record
from records.canonical import domain_digest
from records.errors import IntegrityError, NotFoundError, StaleError, VrmError
from records.flows import Authority, Transition
from records.handoffs import require_published
from records.ids import ErasureIntentId, RunId
from records.outcomes import NoCommitReceipt
from records.retention import (
    Acknowledgement,
    ErasureIntent,
    ErasureProof,
    MemoryErasureIntent,
    MemoryTombstone,
    OtherTombstone,
    RetentionTombstone,
)
from records.runtime import RunBody, Subject
from records.states import Machine, Phase
from records.values import ProofRef
from store.artifacts import ArtifactStore
from store.ledger.port import OpenLedger
from store.runtime.port import RuntimeReader

_KEY: Final = "erasure/"
_UNDER_WAY: Final = (Phase.REGISTERING, Phase.OPEN, Phase.CLOSING)
_WAITS: Final = {
    Use.MATERIAL: "{holder} needs the bytes and is not erased; erase it too",
    Use.HELD: "{holder} holds the bytes; release it",
    Use.PROTOCOL: "{holder} rests on the bytes, which are no material",
}


@dataclass(frozen=True, kw_only=True)
class ErasurePorts:
    """What the officer reads and through whom it acts."""

    ledger: OpenLedger
    runtime: RuntimeReader
    artifacts: ArtifactStore
    owner: RunOwnerPort
    spine: Spine
    clock: Clock


class RetentionOfficer:
    """Begins and finishes erasures; holds no state."""

    def __init__(self, ports: ErasurePorts) -> None:
        """Work through these ports."""
        self._ports = ports

    def plan(self, request: ErasureRequest) -> ErasurePlan:
        """Return what a request would erase, without doing it; see `planning.plan`."""
        ports = self._ports
        with ports.ledger.reading() as reader:
            return plan(reader, ports.runtime, ports.artifacts, request, ports.clock())

    def begin(self, request: ErasureRequest) -> ErasureIntent:
        """Deny the target for ever; the same request again gets the intent that is there.

        Raises:
            StaleError: the Ledger moved on while the erasure was planned; nothing was denied, begin again.
            VrmError: what `plan` raises.
        """
        planned = self.plan(request)
        if planned.begun:
            return planned.intent
        run_id, admitted_at = self._admitted(planned.intent)
        self._ports.spine.recover(self._ports.runtime, run_id)
        # What a grant of an earlier beginning wrote is there by now.
        planned = self.plan(replace(request, target=planned.intent.target_id, namespace=planned.intent.namespace))
        if planned.begun:
            return planned.intent
        planned = planned.at(admitted_at)
        try:
            self._carry(Transition.BEGIN_ERASURE, planned.intent.id, run_id, planned.records)
        except VrmError:  # another officer may have begun it, and even ended it, meanwhile
            if not (planned := self.plan(request)).begun:
                raise
        return planned.intent

    def resume(self, erasure_id: str) -> None:
        """Finish an erasure that is under way, by its id.

        Raises:
            VrmError: what `finish` raises; what was granted and refused by the Ledger leaves nothing to finish.
        """
        subject = self._subject(erasure_id)
        if subject.phase is Phase.REGISTERING:
            self._ports.spine.recover(self._ports.runtime, subject.run_id)
            subject = self._subject(erasure_id)
        if subject.phase is not Phase.RETIRED:
            self.finish(self._intent(erasure_id))

    def finish(self, intent: ErasureIntent) -> RetentionTombstone:
        """Carry an erasure to its tombstone from wherever it stands, and return the tombstone.

        Raises:
            NotFoundError: it was never begun.
            StaleError: its beginning was refused, or somebody needs the bytes, whom the error names.
            IntegrityError: an artifact that may say what is erased cannot be read; the error says what helps.
            UnavailableError: the artifact store cannot be written.
        """
        subject = self._subject(intent.id)
        if subject.phase in {Phase.REGISTERING, Phase.CLOSING}:
            self._ports.spine.recover(self._ports.runtime, subject.run_id)
            subject = self._subject(intent.id)
        if subject.phase is Phase.OPEN:
            self._erase(intent)
            self._close(intent, subject, self._prove(intent))
        elif subject.phase is not Phase.CLOSED:
            raise StaleError("erasure", intent.id, f"It is {subject.phase}; nothing of it can be finished now.")
        self._end(subject)
        return self._tombstone(intent)

    def _erase(self, intent: ErasureIntent) -> None:
        ports = self._ports
        with ports.ledger.reading() as reader:
            sources = denied_sources(reader, intent)
        if released := releasing(ports.runtime, sources):
            all_good(ports.owner.apply(released))
        with ports.ledger.reading() as reader:
            denied = Denied(reader)
            for need in needs(reader, ports.runtime, intent.erased_bytes):
                if not denied.denies(need):
                    raise _waiting(need)
            # a job that had read its lessons before the intent may have published them after it was planned
            later = copies_of(reader, ports.artifacts, intent.target_id)
        for digest in sorted(later.digests.union(intent.erased_bytes)):
            ports.artifacts.erase(digest)
        later.require_readable(intent.erased_bytes)

    def _prove(self, intent: ErasureIntent) -> list[ProofRef]:
        """Publish a proof for every object and read each back."""
        artifacts = self._ports.artifacts
        proofs = ErasureProof.about(intent, self._ports.clock())
        digests = artifacts.publish_many([proof.canonical for proof in proofs])
        for digest in digests:
            data = artifacts.read(digest)
            require_published(ErasureProof.load(data), data, digest)
        pairs = zip(proofs, digests, strict=True)
        return [ProofRef(ref=proof.object_ref, digest=digest) for proof, digest in pairs]

    def _close(self, intent: ErasureIntent, subject: Subject, proofs: list[ProofRef]) -> None:
        tombstone = tombstone_of(intent, proofs, self._ports.clock())
        run_id = RunId(str(subject.run_id))
        try:
            self._carry(Transition.CLOSE_ERASURE, intent.id, run_id, (tombstone,), subject)
        except VrmError:  # another officer may have come first; what he was granted is settled here
            self._ports.spine.recover(self._ports.runtime, run_id)
            if self._subject(intent.id).phase is not Phase.CLOSED:
                raise

    def _carry(
        self,
        transition: Transition,
        subject_id: str,
        run_id: RunId,
        records: tuple[Record, ...],
        subject: Subject | None = None,
    ) -> None:
        proposal = Proposal(
            namespace=records[0].namespace,
            transition=transition,
            authority=Authority.RETENTION,
            machine=Machine.ERASURE,
            subject_id=subject_id,
            run_id=run_id,
            generation=1 if subject is None else subject.generation,
            fence=1 if subject is None else subject.fence,
            records=Proposal.bodies(records),
        )
        (receipt,) = all_good(self._ports.spine.carry([proposal]))
        if not receipt.committed:
            stored = self._ports.ledger.get(str(receipt.no_commit_id))
            refusal = None if stored is None else stored.load()
            detail = refusal.detail if isinstance(refusal, NoCommitReceipt) else "the Ledger wrote nothing"
            raise StaleError(transition.value, str(receipt.reason), f"{detail}; begin again.")

    def _admitted(self, intent: ErasureIntent) -> tuple[RunId, str]:
        """Admit the Run of an erasure, and return it with the time at which it first was."""
        named = domain_digest("erasure-target", [intent.namespace, intent.target_id])  # a name that names no bytes
        body = RunBody(
            namespace=intent.namespace,
            run_kind="SCIENTIFIC",
            admission_key=f"{_KEY}{named}",
            specification_digest=domain_digest("erasure-specification", [intent.target_id, intent.target_digest]),
            admitted_at=intent.created_at,
        )
        if (run := self._run(body.id)) is None:
            (answer,) = self._ports.owner.apply([admission(body, [])])
            run = self._run(body.id)  # if another officer came first, at another time, his Run stands
            if run is None:
                raise NotFoundError("run", body.id, f"It could not be admitted: {answer}.")
        return body.id, RunBody.load(run.body).admitted_at

    def _run(self, run_id: str) -> Subject | None:
        return self._ports.runtime.subject(Machine.RUN, run_id)

    def _end(self, subject: Subject) -> None:
        """Complete the Run of an erasure, if it is its own."""
        run = self._run(str(subject.run_id))
        if run is not None and run.phase is Phase.RUNNING and is_own(run):
            all_good(self._ports.owner.apply([completion(RunId(run.id))]))

    def _subject(self, intent_id: str) -> Subject:
        subject = self._ports.runtime.subject(Machine.ERASURE, intent_id)
        if subject is None:
            raise NotFoundError("erasure", intent_id, "It was never begun.")
        return subject

    def _intent(self, intent_id: str) -> ErasureIntent:
        stored = self._ports.ledger.get(intent_id)
        intent = None if stored is None else stored.load()
        if not isinstance(intent, ErasureIntent):
            raise IntegrityError("erasure", intent_id, "The Runtime opened it, the Ledger holds no such intent.")
        return intent

    def _tombstone(self, intent: ErasureIntent) -> RetentionTombstone:
        found = self._ports.ledger.find(RetentionTombstone.kind.noun, intent.namespace, intent_id=str(intent.id))
        tombstone = found[0].load() if found else None
        if not isinstance(tombstone, RetentionTombstone):
            raise IntegrityError("erasure", intent.id, "The Runtime closed it, the Ledger holds no tombstone.")
        return tombstone


def unfinished(runtime: RuntimeReader) -> list[str]:
    """Return the erasures that are under way, and those whose own Run has not ended with them, sorted."""
    found = [subject.id for subject in runtime.find(Machine.ERASURE, _UNDER_WAY)]
    own = [run.id for run in runtime.find(Machine.RUN, [Phase.RUNNING]) if is_own(run)]
    closed = runtime.find(Machine.ERASURE, [Phase.CLOSED], own) if own else []
    return sorted({*found, *(subject.id for subject in closed)})


def is_own(run: Subject) -> bool:
    """Tell whether a Run was admitted for one erasure and nothing else."""
    return RunBody.load(run.body).admission_key.startswith(_KEY)


def tombstone_of(intent: ErasureIntent, proofs: list[ProofRef], now: str) -> RetentionTombstone:
    """Return the tombstone of an intent that rests on proofs, given in the order of `ErasureProof.about`."""
    receipt, *others = proofs
    fields = {
        "namespace": intent.namespace,
        "created_at": now,
        "intent_id": ErasureIntentId(intent.id),
        "incident": intent.incident,
        "target_kind": intent.target_kind,
        "target_id": intent.target_id,
        "target_digest": intent.target_digest,
        "reason": intent.reason,
        "erasure_receipt": receipt,
        "acknowledgements": tuple(
            Acknowledgement(affected=affected, proof=proof)
            for affected, proof in zip(intent.affected, others, strict=True)
        ),
    }
    if isinstance(intent, MemoryErasureIntent):
        return MemoryTombstone.build(**fields, retraction_event_id=intent.retraction_event_id)
    return OtherTombstone.build(**fields)


def _waiting(need: Need) -> VrmError:
    where = "" if need.namespace is None else f" of {need.namespace}"
    return StaleError("erasure", need.digest, f"{_WAITS[need.use].format(holder=need.holder)}{where}.")
