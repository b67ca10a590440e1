"""The one writer of the Ledger: the third step of the spine.

Rules kept here:

- authorization and proposal are read through the Runtime's read-only side before any Ledger transaction is open;
- what an intent, Outcome or completion rests on is read again: what its Run was admitted with, its proof, and for
  closure the control event that its Run has;
- a direct append that rests on what the Runtime says now is checked for it before its transaction is open;
- what is appended is exactly what was proposed, plus what the flow derives from proposal and authorization after the
  grant (`memory.derive`);
- an attempt that was retired while its grant had no answer gets its answer all the same: a typed no-commit, unless the
  Ledger has a success of it already;
- granted and direct appends end in the same store call, each with the guard of its row (`memory.guards`);
- what is durable is told as an event (`memory.trace`), before the answer is given.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from memory.admission import require_admitted
from memory.assignments import unproved
from memory.derive import derive
from memory.guard_rules import of
from memory.guards import GUARDS, foreseen
from memory.handoffs import guard_retired, retired_attempts
from memory.ports import Fence
from memory.proofs import require_authority, require_proofs
from memory.trace.events import Event, tell
from memory.trace.telling import committed
from records.appends import Append, AppendReceipt, Proposal, require_sound
from records.errors import IntegrityError, InvalidInputError, NotFoundError, VrmError
from records.flows import FLOWS, Authority
from records.ingestion import WorkAssignment
from records.runtime import Authorization, Subject
from records.states import Machine, Phase
from store.artifacts import ArtifactStore
from store.ledger.port import LedgerStore, Request, no_guard
from store.runtime.port import RuntimeReader


class CommitCoordinator:
    """Owns the appends to the Ledger of one namespace shard."""

    def __init__(self, ledger: LedgerStore, runtime: RuntimeReader, artifacts: ArtifactStore, holder: str) -> None:
        """Claim the shard; whoever owned it before is refused from now on."""
        self._ledger = ledger
        self._runtime = runtime
        self._artifacts = artifacts
        self._epoch = ledger.claim("commit-coordinator/0", holder)

    def append_granted(
        self, authorization_ids: Sequence[str], fences: Sequence[Fence] = ()
    ) -> list[AppendReceipt | VrmError]:
        """Carry out authorized appends in one group; each gets its receipt or its own error.

        `fences` are epochs of other owners, such as lifecycle heads, that must still hold when the group commits.
        """
        subjects = self._runtime.subjects(Machine.AUTHORIZATION, authorization_ids)
        prepared: list[Append | VrmError] = []
        authorizations: list[Authorization] = []
        for authorization_id in authorization_ids:
            try:
                authorization, append = self._authorized(authorization_id, subjects.get(authorization_id))
            except VrmError as error:
                prepared.append(error)
            else:
                authorizations.append(authorization)
                prepared.append(replace(append, fences=tuple(fences)))
        return self._commit(prepared, retired_attempts(self._runtime, authorizations))

    def append_direct(self, appends: Sequence[Append]) -> list[AppendReceipt | VrmError]:
        """Carry out direct appends in one group; a granted flow and a field that breaks a rule are refused here."""
        prepared: list[Append | VrmError] = []
        for append in appends:
            try:
                _require_direct(append)
            except VrmError as error:
                prepared.append(error)
            else:
                prepared.append(append)
        return self._commit(self._proved(prepared))

    def _proved(self, prepared: Sequence[Append | VrmError]) -> list[Append | VrmError]:
        """Refuse assignments that have no proof in the Runtime now, which no Ledger transaction could see."""
        assignments = [
            record for append in prepared if isinstance(append, Append) for record in of(append, WorkAssignment)
        ]
        errors = unproved(self._ledger, self._runtime, self._artifacts, assignments)
        if not errors:
            return list(prepared)
        refused = (
            next((errors[i] for i in each.ids if i in errors), None) if isinstance(each, Append) else None
            for each in prepared
        )
        return [error or each for each, error in zip(prepared, refused, strict=True)]

    def _commit(
        self, prepared: Sequence[Append | VrmError], over: frozenset[str] = frozenset()
    ) -> list[AppendReceipt | VrmError]:
        requests = [
            Request(
                item,
                guard_retired if item.permit_key in over else GUARDS.get(item.transition, no_guard),
                foreseen(item),
            )
            for item in prepared
            if not isinstance(item, VrmError)
        ]
        answers = self._ledger.commit(self._epoch, requests)
        tell(lambda: _told(requests, answers))
        left = iter(answers)
        return [item if isinstance(item, VrmError) else next(left) for item in prepared]

    def _authorized(self, authorization_id: str, subject: Subject | None) -> tuple[Authorization, Append]:
        if subject is None:
            raise NotFoundError("authorization", authorization_id, "It was never granted.")
        authorization = Authorization.load(subject.body)
        if str(authorization.id) != authorization_id:
            raise IntegrityError("authorization", authorization_id, "Its body belongs to another id.")
        settled = subject.phase is not Phase.GRANTED
        if settled and self._ledger.receipt(authorization.namespace, subject.id) is None:
            raise IntegrityError("authorization", authorization_id, "It was settled, but the Ledger has no receipt.")
        digest = authorization.proposal_digest
        proposal = Proposal.read(self._artifacts.read(digest), digest)
        _require_same(authorization, proposal)
        records = proposal.unpack()
        require_proofs(self._artifacts, records)
        asked = authorization.authority in _OF_THE_RUN
        run = self._runtime.subject(Machine.RUN, authorization.run_id) if asked else None
        require_authority(authorization.authority, records, run, current=False)
        require_admitted(self._artifacts, records, run)
        expected = [record for record in records if record.id == authorization.expected_id]
        if len(expected) != 1 or expected[0].payload_digest != authorization.expected_digest:
            raise IntegrityError("authorization", authorization_id, "The proposal does not hold the authorized record.")
        return authorization, Append(
            namespace=authorization.namespace,
            transition=authorization.transition,
            authority=authorization.authority,
            permit_key=authorization_id,
            permit_digest=authorization.canonical_digest,
            records=derive(records, authorization),
        )


def _told(requests: Sequence[Request], answers: Sequence[AppendReceipt | VrmError]) -> Iterator[Event]:
    """Yield the events of what is durable now; what failed is told by whoever gets the error."""
    for request, answer in zip(requests, answers, strict=True):
        if isinstance(answer, AppendReceipt):
            yield from committed(request.append, answer)


_OF_THE_RUN: Final = frozenset({Authority.ADMISSION, Authority.RUNTIME_CLOSURE})
"""Authorities under which the records rest on what their Run says."""


def _require_direct(append: Append) -> None:
    """Refuse a granted append, and one with a field that breaks a rule: it comes from outside as it is."""
    require_sound(append)
    if FLOWS[append.transition].is_granted:
        raise InvalidInputError("transition", append.transition.value, "This append needs an authorization.")


def _require_same(authorization: Authorization, proposal: Proposal) -> None:
    for name in ("namespace", "transition", "authority", "machine", "subject_id", "run_id", "generation", "fence"):
        if getattr(authorization, name) != getattr(proposal, name):
            raise IntegrityError(f"proposal.{name}", getattr(proposal, name), "The authorization says otherwise.")
