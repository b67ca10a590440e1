"""The owner of Runtime transitions: grants and reconciliation, the second and fourth step of the spine.

Rules kept here:

- a proposal is read back from the artifact store and checked before anything is granted;
- one compare-and-swap on run, subject generation and fence creates the single-use authorization;
- what belongs to the spine moves by grant and settlement only, never by a plain command;
- a Run ends only when none of its decisions, handoffs, erasures and grants is open (spec 6.3);
- an attempt whose grant is unresolved gets no second one: the same proposal is answered with the same authorization,
  any other is stale;
- a settlement rests on what a Ledger getter reads back, never on an answer that somebody passes in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from memory.derive import derive
from memory.ports import Clock
from memory.proofs import require_proofs
from records.appends import AppendReceipt, Proposal, StoredRecord
from records.canonical import canonical_bytes, parse_canonical
from records.errors import (
    IdentityConflictError,
    IntegrityError,
    InvalidInputError,
    NotFoundError,
    StaleError,
    VrmError,
)
from records.flows import FLOWS, Flow, require_legal
from records.runtime import Applied, Authorization, Command, Create, Move, Require, Subject
from records.states import Event, Machine, Phase, phases_of
from store.artifacts import ArtifactStore
from store.ledger.port import LedgerReader
from store.runtime.port import RuntimeStore


class RunOwner:
    """Owns the Runtime transitions of one shard of Runs."""

    def __init__(
        self, runtime: RuntimeStore, ledger: LedgerReader, artifacts: ArtifactStore, clock: Clock, holder: str
    ) -> None:
        """Claim the shard; whoever owned it before is refused from now on."""
        self._runtime = runtime
        self._ledger = ledger
        self._artifacts = artifacts
        self._clock = clock
        self._epoch = runtime.claim("run-owner/0", holder)

    def apply(self, commands: Sequence[Command]) -> list[Applied | VrmError]:
        """Carry out Runtime commands that concern no append; each gets its answer or its own error."""
        busy = self._busy({move.id for command in commands for move in command.moves if _ends(move)})
        refused = [_not_plain(command) or _too_early(command, busy) for command in commands]
        plain = [command for command, error in zip(commands, refused, strict=True) if error is None]
        answers = iter(self._runtime.apply(self._epoch, plain))
        return [next(answers) if error is None else error for error in refused]

    def _busy(self, run_ids: set[str]) -> dict[str, str]:
        """Return those of the Runs that still have something open, each with one thing that is."""
        if not run_ids:
            return {}
        found = [subject for machine, phases in _OPEN.items() for subject in self._runtime.find(machine, phases)]
        return {str(each.run_id): f"{each.machine} {each.id} {each.phase}" for each in found if each.run_id in run_ids}

    def grant(self, proposal_digests: Sequence[str]) -> list[Authorization | VrmError]:
        """Authorize published proposals; each gets its authorization or its own error."""
        known = {digest: self._prepare(digest) for digest in proposal_digests}
        prepared = [known[digest] for digest in proposal_digests]
        answers: list[Authorization | VrmError] = [part if isinstance(part, VrmError) else part[0] for part in prepared]
        waiting = [(place, part) for place, part in enumerate(prepared) if not isinstance(part, VrmError)]
        commands = [(place, part[1]) for place, part in waiting if part[1] is not None]
        results = self._runtime.apply(self._epoch, [command for _, command in commands])
        for (place, _), result in zip(commands, results, strict=True):
            if isinstance(result, VrmError):
                answers[place] = result
        return answers

    def reconcile(self, authorization_ids: Sequence[str]) -> list[AppendReceipt | VrmError]:
        """Settle authorizations by what the Ledger holds; each gets its receipt or its own error."""
        answered = self._answered(authorization_ids)
        answers: list[AppendReceipt | VrmError] = []
        commands: list[tuple[int, Command]] = []
        for place, authorization_id in enumerate(authorization_ids):
            try:
                receipt, command = _settlement(authorization_id, answered.get(authorization_id))
            except VrmError as error:
                answers.append(error)
                continue
            answers.append(receipt)
            commands.append((place, command))
        results = self._runtime.apply(self._epoch, [command for _, command in commands])
        for (place, _), result in zip(commands, results, strict=True):
            if isinstance(result, VrmError):
                answers[place] = result
        return answers

    def _prepare(self, digest: str) -> tuple[Authorization, Command | None] | VrmError:
        try:
            proposal = Proposal.read(self._artifacts.read(digest), digest)
            nouns = frozenset(body.noun for body in proposal.records)
            flow = require_legal(proposal.transition, proposal.authority, nouns)
            subject = self._runtime.subject(proposal.machine, proposal.subject_id)
            earlier = self._latest(subject)
            if earlier is not None and earlier[1].proposal_digest == digest:
                return earlier[1], None
            if earlier is not None and earlier[0] is Phase.GRANTED:
                raise StaleError(
                    "authorization",
                    earlier[1].id,
                    "An earlier grant of this subject is unresolved; recover it first.",
                )
            _require_grantable(proposal, flow, subject)
            authorization = self._authorization(proposal, flow, subject, digest)
            records = proposal.unpack()
            derive(records, authorization)  # what cannot be appended is not granted
            require_proofs(self._artifacts, records)
        except VrmError as error:
            return error
        return authorization, _grant_command(proposal, flow, authorization)

    def _authorization(self, proposal: Proposal, flow: Flow, subject: Subject | None, digest: str) -> Authorization:
        primary = [record for record in proposal.unpack() if record.kind.noun == flow.primary]
        if len(primary) != 1:
            raise IntegrityError("proposal.records", len(primary), f"Exactly one {flow.primary} is expected.")
        return Authorization(
            namespace=proposal.namespace,
            transition=proposal.transition,
            authority=proposal.authority,
            machine=proposal.machine,
            subject_id=proposal.subject_id,
            run_id=proposal.run_id,
            origin_phase=Phase.REGISTERING if subject is None else subject.phase,
            generation=proposal.generation,
            fence=proposal.fence,
            expected_id=str(primary[0].id),
            expected_digest=primary[0].payload_digest,
            proposal_digest=digest,
            granted_at=self._clock(),
        )

    def _latest(self, subject: Subject | None) -> tuple[Phase, Authorization] | None:
        """Return the last authorization of a subject with its phase."""
        if subject is None:
            return None
        latest = parse_canonical(subject.facts).get("authorization")
        if latest is None:
            return None
        stored = self._runtime.subject(Machine.AUTHORIZATION, latest)
        return None if stored is None else (stored.phase, Authorization.load(stored.body))

    def _answered(self, authorization_ids: Sequence[str]) -> dict[str, Answered | VrmError]:
        """Read back what the Ledger holds about authorizations that were granted: receipts, and what they name."""
        subjects = self._runtime.subjects(Machine.AUTHORIZATION, authorization_ids)
        found = {key: _authorization_of(subject) for key, subject in subjects.items()}
        granted = {key: each for key, each in found.items() if isinstance(each, Authorization)}
        receipts: dict[str, AppendReceipt] = {}
        for namespace in sorted({each.namespace for each in granted.values()}):
            keys = [key for key, each in granted.items() if each.namespace == namespace]
            receipts |= self._ledger.receipts(namespace, keys)
        names = {key: _named(granted[key], receipt) for key, receipt in receipts.items()}
        stored = self._ledger.get_many(names.values())
        return {
            key: each
            if isinstance(each, VrmError)
            else Answered(each, receipts.get(key), stored.get(names.get(key, "")))
            for key, each in found.items()
        }


@dataclass(frozen=True)
class Answered:
    """An authorization with its receipt and the record that the receipt names, as far as the Ledger holds them."""

    authorization: Authorization
    receipt: AppendReceipt | None
    stored: StoredRecord | None


def _authorization_of(subject: Subject) -> Authorization | VrmError:
    try:
        return Authorization.load(subject.body)
    except VrmError as error:
        return error


def _named(authorization: Authorization, receipt: AppendReceipt) -> str:
    return authorization.expected_id if receipt.committed else str(receipt.no_commit_id)


def _settlement(authorization_id: str, answered: Answered | VrmError | None) -> tuple[AppendReceipt, Command]:
    if answered is None:
        raise NotFoundError("authorization", authorization_id, "It was never granted.")
    if isinstance(answered, VrmError):
        raise answered
    authorization, receipt = answered.authorization, answered.receipt
    if receipt is None:
        raise NotFoundError("receipt", authorization_id, "The Ledger has no answer yet; append again.")
    if receipt.permit_digest != authorization.canonical_digest:
        raise IntegrityError("receipt", authorization_id, "The receipt answers another authorization.")
    _require_written(authorization, receipt, answered.stored)
    flow = FLOWS[authorization.transition]
    if receipt.committed:
        own, other, settled = Event.COMMIT, flow.committed, Phase.COMMITTED
    else:
        own, other = Event.RETIRE, (flow.retired or {}).get(authorization.origin_phase)
        settled = Phase.RETIRED_NO_COMMIT
    if other is None:
        raise IntegrityError("flow", flow.transition.value, "It has no event for this end of a grant.")
    command = Command(
        key=(Machine.AUTHORIZATION, authorization_id),
        key_phase=settled,
        moves=(
            Move(machine=Machine.AUTHORIZATION, id=authorization_id, event=own, generation=1, fence=1),
            Move(
                machine=authorization.machine,
                id=authorization.subject_id,
                event=other,
                generation=authorization.generation,
                fence=authorization.fence,
            ),
        ),
    )
    return receipt, command


def _require_written(authorization: Authorization, receipt: AppendReceipt, stored: StoredRecord | None) -> None:
    """Check that the Ledger holds what the receipt names, and in the bytes that were authorized."""
    wanted = _named(authorization, receipt)
    if stored is None:
        raise IntegrityError("receipt", wanted, "The receipt names a record that the Ledger does not hold.")
    record = stored.load()
    if receipt.committed and record.payload_digest != authorization.expected_digest:
        raise IntegrityError("record", wanted, "The Ledger holds other bytes than were authorized.")


_OPEN: Final[dict[Machine, tuple[Phase, ...]]] = {
    Machine.DECISION: tuple(set(phases_of(Machine.DECISION)) - {Phase.OUTCOME_COMMITTED, Phase.RETIRED}),
    Machine.HANDOFF: tuple(set(phases_of(Machine.HANDOFF)) - {Phase.BOUND}),
    Machine.ERASURE: tuple(set(phases_of(Machine.ERASURE)) - {Phase.CLOSED, Phase.RETIRED}),
    Machine.AUTHORIZATION: (Phase.GRANTED,),
}
"""The phases in which a subject keeps its Run from ending."""

_OF_THE_SPINE: Final = frozenset(
    (flow.machine, event)
    for flow in FLOWS.values()
    for event in (flow.granted, flow.committed, *(flow.retired or {}).values())
)
_SPINE_ONLY: Final = frozenset({Machine.AUTHORIZATION, Machine.DECISION, Machine.ERASURE})


def _ends(move: Move) -> bool:
    return move.machine is Machine.RUN and move.event in {Event.COMPLETE, Event.FAIL}


def _not_plain(command: Command) -> VrmError | None:
    made = [(part.machine, part.id) for part in command.creates if part.machine in _SPINE_ONLY]
    made += [
        (part.machine, part.id)
        for part in command.moves
        if part.machine in _SPINE_ONLY or (part.machine, part.event) in _OF_THE_SPINE
    ]
    if not made:
        return None
    return InvalidInputError("command", " ".join(made[0]), "Only a grant or its settlement does that.")


def _too_early(command: Command, busy: Mapping[str, str]) -> VrmError | None:
    for move in command.moves:
        if _ends(move) and move.id in busy:
            return StaleError("run", busy[move.id], "It is still open; close it before the Run ends.")
    return None


def _require_grantable(proposal: Proposal, flow: Flow, subject: Subject | None) -> None:
    if proposal.machine is not flow.machine:
        raise IntegrityError("proposal.machine", proposal.machine.value, f"{flow.transition} moves {flow.machine}.")
    if flow.granted is not None:
        if subject is None:
            raise NotFoundError(proposal.machine.value, proposal.subject_id, "Admit it before proposing for it.")
        if subject.run_id != proposal.run_id:
            raise IntegrityError("proposal.run_id", proposal.run_id, f"The subject is of {subject.run_id}.")
        _require_attempt(proposal, (subject.generation, subject.fence))
    elif subject is not None:
        raise IdentityConflictError(
            proposal.machine.value, proposal.subject_id, "It was admitted by another proposal; nothing was granted."
        )
    else:
        _require_attempt(proposal, (1, 1))  # what the grant creates begins there


def _require_attempt(proposal: Proposal, current: tuple[int, int]) -> None:
    if (proposal.generation, proposal.fence) != current:
        raise StaleError(
            "proposal.fence",
            f"generation {proposal.generation}, fence {proposal.fence}",
            f"The subject is at generation {current[0]}, fence {current[1]}; this attempt is over.",
        )


def _beginning(proposal: Proposal, authorization: Authorization, facts: str) -> Create:
    """Create the subject that a flow without an earlier phase begins with."""
    body = canonical_bytes({"proposal_digest": authorization.proposal_digest}).decode()
    return Create(
        machine=proposal.machine,
        id=proposal.subject_id,
        run_id=proposal.run_id,
        phase=authorization.origin_phase,
        body=body,
        facts=facts,
    )


def _grant_command(proposal: Proposal, flow: Flow, authorization: Authorization) -> Command:
    creates = [
        Create(
            machine=Machine.AUTHORIZATION,
            id=str(authorization.id),
            run_id=proposal.run_id,
            phase=Phase.GRANTED,
            body=authorization.canonical.decode(),
        )
    ]
    moves = []
    facts = canonical_bytes({"authorization": str(authorization.id)}).decode()
    if flow.granted is None:
        creates.append(_beginning(proposal, authorization, facts))
    else:
        moves.append(
            Move(
                machine=proposal.machine,
                id=proposal.subject_id,
                event=flow.granted,
                generation=proposal.generation,
                fence=proposal.fence,
                facts=facts,
            )
        )
    return Command(
        key=(Machine.AUTHORIZATION, str(authorization.id)),
        requires=(Require(machine=Machine.RUN, id=proposal.run_id, phase=Phase.RUNNING),),
        creates=tuple(creates),
        moves=tuple(moves),
    )
