"""Bugs of the protocol, planted on purpose: each puts one faulty part in the place of one of the product's.

A simulation that cannot find these finds nothing. Each is a mistake that somebody could make, in as few lines as it
takes; how each is found is the business of the checks alone, which know nothing of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from evaluation.simulation import planted_stewards as bugs
from evaluation.simulation.world import OpenLedger, OpenRuntime, Parts
from memory.barrier import TerminalBarrier
from memory.coordinator import CommitCoordinator
from memory.ports import Fence
from memory.run_owner import RunOwner, latest_authorization
from records.appends import Append, AppendReceipt, JournalRow, Proposal
from records.canonical import digest_bytes
from records.errors import NotFoundError, StaleError, VrmError
from records.flows import FLOWS
from records.knowledge import HeadMove
from records.runtime import Applied, Authorization, Command, Create, Move, Subject
from records.states import FENCING, Event, Machine, Phase
from store.ledger.engine import Placed, chain, commit_group
from store.ledger.memory import MemoryTransaction
from store.ledger.port import Epoch, Request, no_guard


@dataclass(frozen=True)
class Planted:
    """One bug: what it is, and the parts of a world that has it."""

    name: str
    meaning: str
    parts: Parts


class _SettlesUnread(RunOwner):
    """Reconciliation does not read the Ledger: whatever was granted is taken for committed."""

    def reconcile(self, authorization_ids: Sequence[str]) -> list[AppendReceipt | VrmError]:
        granted = self._runtime.subjects(Machine.AUTHORIZATION, authorization_ids)
        bodies = {key: Authorization.load(subject.body) for key, subject in granted.items()}
        self._runtime.apply(self._epoch, [_settlement(body, committed=True) for body in bodies.values()])
        return [
            _made_up(bodies[key]) if key in bodies and isinstance(answer, NotFoundError) else answer
            for key, answer in zip(authorization_ids, super().reconcile(authorization_ids), strict=True)
        ]


class _SilenceIsNoCommit(RunOwner):
    """An append that has no receipt yet is taken for one that wrote nothing."""

    def reconcile(self, authorization_ids: Sequence[str]) -> list[AppendReceipt | VrmError]:
        for subject in self._runtime.subjects(Machine.AUTHORIZATION, authorization_ids).values():
            body = Authorization.load(subject.body)
            if subject.phase is Phase.GRANTED and self._ledger.receipt(body.namespace, subject.id) is None:
                self._runtime.apply(self._epoch, [_settlement(body, committed=False)])
        return super().reconcile(authorization_ids)


class _BeginsAnew(RunOwner):
    """Whoever meets an unresolved grant takes it for lost, and lets a new attempt begin."""

    def _prepare(self, digest: str) -> tuple[Authorization, Command | None] | VrmError:
        answer = super()._prepare(digest)
        if isinstance(answer, StaleError) and answer.field == "authorization":
            proposal = Proposal.read(self._artifacts.read(digest), digest)
            subject = self._runtime.subject(proposal.machine, proposal.subject_id)
            earlier = latest_authorization(subject, self._runtime)
            if earlier is not None:
                self._runtime.apply(self._epoch, [_settlement(earlier[1], committed=False)])
        return answer


class _ReusesAuthorization(RunOwner):
    """Whoever proposes for a subject that has an authorization gets that one, whatever is proposed."""

    def _prepare(self, digest: str) -> tuple[Authorization, Command | None] | VrmError:
        answer = super()._prepare(digest)
        if isinstance(answer, StaleError):
            proposal = Proposal.read(self._artifacts.read(digest), digest)
            subject = self._runtime.subject(proposal.machine, proposal.subject_id)
            earlier = latest_authorization(subject, self._runtime)
            if earlier is not None:
                return earlier[1], None
        return answer


class _GrantsTwice(RunOwner):
    """A second grant is made while the first is unresolved; the subject is left as it is."""

    def _prepare(self, digest: str) -> tuple[Authorization, Command | None] | VrmError:
        answer = super()._prepare(digest)
        if not isinstance(answer, StaleError) or answer.field != "authorization":
            return answer
        proposal = Proposal.read(self._artifacts.read(digest), digest)
        subject = self._runtime.subject(proposal.machine, proposal.subject_id)
        earlier = latest_authorization(subject, self._runtime)
        if earlier is None:
            return answer
        second = earlier[1].model_copy(update={"proposal_digest": digest, "origin_phase": Phase.RETIRED})
        create = Create(
            machine=Machine.AUTHORIZATION, id=str(second.id), run_id=second.run_id, phase=Phase.GRANTED,
            body=second.canonical.decode(),
        )  # fmt: skip
        return second, Command(key=(Machine.AUTHORIZATION, str(second.id)), creates=(create,))


class _SettlesAtGrant(RunOwner):
    """A grant is settled as committed before anything is appended."""

    def grant(self, proposal_digests: Sequence[str]) -> list[Authorization | VrmError]:
        answers = super().grant(proposal_digests)
        granted = [each for each in answers if isinstance(each, Authorization)]
        moves = [
            Command(
                key=(Machine.AUTHORIZATION, str(each.id)),
                key_phase=Phase.COMMITTED,
                moves=(
                    Move(machine=Machine.AUTHORIZATION, id=str(each.id), event=Event.COMMIT, generation=1, fence=1),
                ),
            )
            for each in granted
        ]
        self._runtime.apply(self._epoch, moves)
        return answers


class _EndsRunsEarly(RunOwner):
    """A Run is completed without a look at what is open in it."""

    def __init__(self, *stores: Any) -> None:
        super().__init__(*stores)
        self._barrier = _NoBarrier(self._runtime, self._ledger)


class _NoBarrier(TerminalBarrier):
    def pass_through(self, commands: Sequence[Command | VrmError]) -> list[Command | VrmError]:
        return list(commands)


class _AdmitsTwice(RunOwner):
    """A Run that is admitted again while it is there gets an id of its own."""

    def apply(self, commands: Sequence[Command]) -> list[Applied | VrmError]:
        return super().apply([self._anew(command) for command in commands])

    def _anew(self, command: Command) -> Command:
        known = any(
            each.machine is Machine.RUN and self._runtime.subject(Machine.RUN, each.id) for each in command.creates
        )
        if not known:
            return command
        fresh = {each.id: f"{each.machine}:{digest_bytes(each.id.encode())}" for each in command.creates}
        creates = tuple(
            each.model_copy(update={"id": fresh[each.id], "run_id": fresh.get(str(each.run_id), each.run_id)})
            for each in command.creates
        )
        return command.model_copy(update={"key": (creates[0].machine, creates[0].id), "creates": creates})


class _NoFence(OpenRuntime):
    """The Runtime compares neither version nor fence: every move is taken for the present attempt's."""

    def apply(self, epoch: Epoch, commands: Sequence[Command]) -> list[Applied | VrmError]:
        return super().apply(epoch, [self._present(command) for command in commands])

    def _present(self, command: Command) -> Command:
        raised: dict[tuple[Machine, str], int] = {}
        moves = []
        for move in command.moves:
            subject = self.subject(move.machine, move.id)
            if subject is None:
                return command
            first = raised.setdefault((move.machine, move.id), move.fence)
            fields = {
                "generation": subject.generation + move.fence - first, "fence": subject.fence + move.fence - first,
            }  # fmt: skip
            moves.append(move.model_copy(update=fields))
        asked = tuple(each for each in command.requires if each.machine is Machine.RUN)
        return command.model_copy(update={"moves": tuple(moves), "requires": asked})


class _NoRuntimeEpoch(OpenRuntime):
    """The Runtime lets an owner write that was replaced."""

    def apply(self, epoch: Epoch, commands: Sequence[Command]) -> list[Applied | VrmError]:
        return super().apply(Epoch(epoch.resource, self._owners.get(epoch.resource, epoch.number)), commands)


class _KeepsFence(OpenRuntime):
    """The end of an attempt does not raise the fence, so that whoever worked on it may go on."""

    def apply(self, epoch: Epoch, commands: Sequence[Command]) -> list[Applied | VrmError]:
        ended = {
            (move.machine, move.id): self.subject(move.machine, move.id)
            for command in commands
            for move in command.moves
            if move.event in FENCING and command.moves[-1] is move
        }
        answers = super().apply(epoch, commands)
        for key, before in ended.items():
            now = self._subjects.get(key)
            if before is not None and now is not None and now.fence > before.fence:
                fields = {"fence": before.fence, "generation": before.generation}
                self._subjects[key] = now.model_copy(update=fields)
        return answers


class _NoLedgerEpoch(OpenLedger):
    """The Ledger lets an owner write that was replaced, of any resource."""

    def commit(self, epoch: Epoch, group: Sequence[Request]) -> list[AppendReceipt | VrmError]:
        owners = self._state.owners
        fenceless = [Request(replace(request.append, fences=()), request.guard) for request in group]
        return super().commit(Epoch(epoch.resource, owners.get(epoch.resource, epoch.number)), fenceless)


class _LosesReceipts(OpenLedger):
    """The receipt of an append is answered and not stored, so that a replay finds none."""

    def commit(self, epoch: Epoch, group: Sequence[Request]) -> list[AppendReceipt | VrmError]:
        before = dict(self._state.receipts)
        answers = super().commit(epoch, group)
        self._state.receipts = before
        return answers


class _WritesAfterRefusal(OpenLedger):
    """A no-commit writes its proof, and then the records as well."""

    def commit(self, epoch: Epoch, group: Sequence[Request]) -> list[AppendReceipt | VrmError]:
        fresh = [request.append.permit_key not in self._answered(request.append) for request in group]
        answers = super().commit(epoch, group)
        for request, answer, new in zip(group, answers, fresh, strict=True):
            if new and isinstance(answer, AppendReceipt) and not answer.committed:
                self._write(request.append)
        return answers

    def _answered(self, append: Append) -> set[str]:
        return {key for namespace, key in self._state.receipts if namespace == append.namespace}

    def _write(self, append: Append) -> None:
        transaction = MemoryTransaction(self._state)
        for record in append.records:
            head = self.namespace_head(append.namespace)
            facts = head.namespace, head.position + 1, record.kind.noun, str(record.id), record.payload_digest
            row = (*facts, chain(head.chain_digest, facts), append.permit_key)
            mark = len(transaction._undo)  # noqa: SLF001  # a bug does as it likes
            try:
                transaction.insert([Placed(record, JournalRow(*row))])
            except VrmError:
                transaction.rollback(mark)
            else:
                transaction.save_namespace(head.after(head.position + 1, row[5], record.kind.frontier))


class _AnyHead(MemoryTransaction):
    """Every compare-and-swap of a head succeeds, and no table keeps two events from following the same one."""

    def insert(self, placed: Sequence[Placed]) -> None:
        for key in [key for key in self._state.unique if key[0] == "knowledge-lifecycle-event"]:
            del self._state.unique[key]
        super().insert(placed)

    def move_head(self, move: HeadMove, namespace: str) -> bool:
        current = self._state.variants.get(move.scope_variant_id)
        if current is None:
            return super().move_head(move, namespace)
        return super().move_head(move.model_copy(update={"expected": current.event_id}), namespace)

    def variant_heads(self, namespace: str, scope_variant_ids: Any = None) -> dict[str, Any]:  # noqa: ARG002
        """Hide the heads from those who would compare."""
        return {}


class _SwapsAnyHead(OpenLedger):
    """A head moves to whatever is appended, from wherever it stands."""

    def commit(self, epoch: Epoch, group: Sequence[Request]) -> list[AppendReceipt | VrmError]:
        if not any(request.append.heads for request in group):
            return super().commit(epoch, group)
        with self._lock:
            transaction = _AnyHead(self._state)
            free = [
                Request(_forgetful(request.append), no_guard if request.append.heads else request.guard)
                for request in group
            ]
            try:
                return commit_group(transaction, [(epoch.resource, epoch.number)], free)
            except BaseException:
                transaction.rollback()
                raise


class _NewPermit(CommitCoordinator):
    """An append that is asked for again, as recovery does, is made under a permit of its own."""

    def _authorized(self, authorization_id: str, subject: Subject | None) -> tuple[Authorization, Append]:
        authorization, append = super()._authorized(authorization_id, subject)
        if self._ledger.receipt(append.namespace, authorization_id) is not None:
            append = replace(append, permit_key=f"{authorization_id}-again")
        return authorization, append


class _NoFences(CommitCoordinator):
    """The epochs of heads are not held by the commit."""

    def append_granted(
        self,
        authorization_ids: Sequence[str],
        fences: Sequence[Fence] = (),  # noqa: ARG002  # that is the bug
    ) -> list[AppendReceipt | VrmError]:
        return super().append_granted(authorization_ids)


def _forgetful(append: Append) -> Append:
    """Return an append whose heads expect nothing that is compared."""
    copied = replace(append)
    vars(copied)["heads"] = tuple(move.model_copy(update={"expected": "GENESIS"}) for move in append.heads)
    return copied


def _made_up(body: Authorization) -> AppendReceipt:
    """Return the receipt that a grant would get if it were committed."""
    return AppendReceipt(
        namespace=body.namespace, transition=body.transition, authority=body.authority, permit_key=str(body.id),
        permit_digest=body.canonical_digest, record_ids=(body.expected_id,), positions=(1,), no_commit_id=None,
        reason=None,
    )  # fmt: skip


def _settlement(body: Authorization, *, committed: bool) -> Command:
    """Return the command that settles a grant, whatever the Ledger says."""
    flow = FLOWS[body.transition]
    own, other, settled = Event.COMMIT, flow.committed, Phase.COMMITTED
    if not committed:
        own, other = Event.RETIRE, (flow.retired or {})[body.origin_phase]
        settled = Phase.RETIRED_NO_COMMIT
    key = str(body.id)
    moves = [Move(machine=Machine.AUTHORIZATION, id=key, event=own, generation=1, fence=1)]
    if other is not None:
        moves.append(
            Move(
                machine=body.machine, id=body.subject_id, event=other, generation=body.generation, fence=body.fence
            )
        )  # fmt: skip
    return Command(key=(Machine.AUTHORIZATION, key), key_phase=settled, moves=tuple(moves))


_PARTS: Final[dict[str, dict[str, Any]]] = {
    "settle-unread": {"run_owner": _SettlesUnread},
    "silence-is-no-commit": {"run_owner": _SilenceIsNoCommit},
    "new-attempt-after-silence": {"run_owner": _BeginsAnew},
    "reuse-authorization": {"run_owner": _ReusesAuthorization},
    "grant-twice": {"run_owner": _GrantsTwice},
    "settle-before-commit": {"run_owner": _SettlesAtGrant},
    "end-run-early": {"run_owner": _EndsRunsEarly},
    "admit-twice": {"run_owner": _AdmitsTwice},
    "no-fence-check": {"runtime": _NoFence},
    "keep-fence": {"runtime": _KeepsFence},
    "no-runtime-epoch": {"runtime": _NoRuntimeEpoch},
    "no-ledger-epoch": {"ledger": _NoLedgerEpoch},
    "lose-receipts": {"ledger": _LosesReceipts},
    "write-after-refusal": {"ledger": _WritesAfterRefusal},
    "swap-any-head": {"ledger": _SwapsAnyHead},
    "recover-under-new-id": {"coordinator": _NewPermit},
    "drop-head-fences": {"coordinator": _NoFences},
    "skip-recovery": {"spine": bugs.RecoversUnread},
    "pause-while-granted": {"run_owner": bugs.PausesBusy},
    "amend-any-version": {"run_owner": bugs.AmendsAnyVersion},
    "release-early": {"run_owner": bugs.ReleasesEarly},
    "absent-before-drain": {
        "orphans": bugs.ProvesUndrained,
        "run_owner": bugs.TakesAnyProof,
        "coordinator": bugs.AppendsRetired,
    },
    "append-on-stale-frontier": {"coordinator": bugs.IgnoresFrontier},
    "append-on-denied-evidence": {"coordinator": bugs.IgnoresDenial},
    "drop-unasked": {"artifacts": bugs.DropsUnasked},
    "collect-by-ledger": {"collect": bugs.collect_by_ledger},
}
PLANTED: Final = {
    name: Planted(name, (next(iter(parts.values())).__doc__ or "").strip(), Parts(**parts))
    for name, parts in _PARTS.items()
}
"""Every planted bug by its name."""
