"""The owner of Runtime transitions: grants and reconciliation, the second and fourth step of the spine.

Rules kept here:

- a proposal is read back from the artifact store and checked before anything is granted;
- one compare-and-swap on run, subject generation and fence creates the single-use authorization;
- what belongs to the spine moves by grant and settlement only, never by a plain command;
- a Run ends only through the terminal barrier (`memory.barrier`);
- what controls a Run is a published event, read back here; `memory.control` says what it does;
- a decision is admitted with what its Run was admitted with for its arm (`memory.admission`);
- normal grants need a running Run, those of closure one that is cancelling or failing, and its control event;
- an attempt whose grant is unresolved gets no second one: the same proposal is answered with the same authorization,
  any other is stale;
- a settlement rests on what a Ledger getter reads back, never on an answer that somebody passes in;
- a grant whose attempt was retired is settled alone; what becomes of its handoff is said by a proof of the Store, which
  is read again before it closes anything, and bytes are let go by a decision over what is read here (`memory.handoffs`,
  `memory.releases`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from memory.admission import require_admitted
from memory.barrier import TerminalBarrier
from memory.control import CONTROL, ENDS, rule
from memory.derive import derive
from memory.handoffs import PROVED, closing, retired_attempts
from memory.ports import Clock
from memory.proofs import require_authority, require_current, require_proofs
from memory.releases import Release, is_of_a_work_item, read_holding, release_decision, require_released
from memory.settlements import Answer, read_answers, settlement
from records.appends import AppendReceipt, Proposal
from records.base import Record
from records.canonical import canonical_bytes, parse_canonical
from records.control import ControlEvent, Controlled, RunFacts
from records.errors import (
    IdentityConflictError,
    IntegrityError,
    InvalidInputError,
    NotFoundError,
    StaleError,
    VrmError,
)
from records.flows import ENDING, FLOWS, Authority, Flow, require_legal
from records.handoffs import read_proof
from records.runtime import Applied, Authorization, Command, Create, Move, Require, Subject
from records.states import Event, Machine, Phase
from store.artifacts import ArtifactStore
from store.ledger.port import OpenLedger
from store.runtime.port import RuntimeStore

T = TypeVar("T")


class RunOwner:
    """Owns the Runtime transitions of one shard of Runs."""

    def __init__(
        self, runtime: RuntimeStore, ledger: OpenLedger, artifacts: ArtifactStore, clock: Clock, holder: str
    ) -> None:
        """Claim the shard; whoever owned it before is refused from now on."""
        self._runtime = runtime
        self._ledger = ledger
        self._artifacts = artifacts
        self._clock = clock
        self._barrier = TerminalBarrier(runtime, ledger)
        self._epoch = runtime.claim("run-owner/0", holder)

    def apply(self, commands: Sequence[Command]) -> list[Applied | VrmError]:
        """Carry out Runtime commands that concern no append; each gets its answer or its own error."""
        refused = [_not_plain(command) or self._held(command) or command for command in commands]
        passed = self._barrier.pass_through(refused)
        applied = iter(self._runtime.apply(self._epoch, [each for each in passed if isinstance(each, Command)]))
        return [each if isinstance(each, VrmError) else next(applied) for each in passed]

    def control(self, event_digests: Sequence[str]) -> list[Controlled | VrmError]:
        """Let published control events take effect, one after the other; each gets its answer or its own error."""
        answers: list[Controlled | VrmError] = []
        for digest in event_digests:
            try:
                answers.append(self._controlled(ControlEvent.read(self._artifacts.read(digest), digest)))
            except VrmError as error:
                answers.append(error)
        return answers

    def _controlled(self, event: ControlEvent) -> Controlled:
        run = self._runtime.subject(Machine.RUN, event.run_id)
        if run is None:
            raise NotFoundError("run", event.run_id, "It was never admitted; admit it first.")
        unresolved = self._runtime.find(Machine.AUTHORIZATION, [Phase.GRANTED], run.id)
        ruling = rule(run, event, [subject.id for subject in unresolved])
        if ruling.command is not None:
            (answer,) = self._runtime.apply(self._epoch, [ruling.command])
            if isinstance(answer, VrmError):
                raise answer
            run = self._runtime.subjects(Machine.RUN, [run.id])[run.id]
        return Controlled(ruling.effect, run.phase, RunFacts.load(run.facts).control)

    def _held(self, command: Command) -> VrmError | None:
        """Refuse to release a reference by which a work item holds its profile: its handoff's release does that."""
        ids = [move.id for move in command.moves if move.machine is Machine.REFERENCE]
        found = self._runtime.subjects(Machine.REFERENCE, ids) if ids else {}
        held = next((subject.id for subject in found.values() if is_of_a_work_item(subject)), None)
        return None if held is None else InvalidInputError("reference", held, "Release the handoff of its work item.")

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
        settled = read_answers(self._runtime, self._ledger, authorization_ids)
        known = {key: answer for key, answer in settled.items() if not isinstance(answer, VrmError)}
        over = retired_attempts(self._runtime, [answer.authorization for answer in known.values()])
        commands = [settlement(answer, is_over=key in over) for key, answer in known.items()]
        results = dict(zip(known, self._runtime.apply(self._epoch, commands), strict=True))
        return [_settled(settled[key], results.get(key)) for key in authorization_ids]

    def resolve(self, proof_digests: Sequence[str]) -> list[Applied | VrmError]:
        """Close retired attempts of handoffs by published proofs of the Store; each gets its answer or an error."""
        return self._decided(proof_digests, self._closing)

    def release(self, releases: Sequence[Release]) -> list[Applied | VrmError]:
        """Release handoffs with the references they bound; each gets its answer, or why it is kept."""
        return self._decided(releases, self._releasing)

    def _decided(self, items: Sequence[T], decide: Callable[[T], Command | None]) -> list[Applied | VrmError]:
        """Carry out the command that is decided for each item; no command is a replay."""
        answers: list[Applied | VrmError] = [Applied(replayed=True)] * len(items)
        commands: list[tuple[int, Command]] = []
        for place, item in enumerate(items):
            try:
                command = decide(item)
            except VrmError as error:
                answers[place] = error
                continue
            commands += [] if command is None else [(place, command)]
        results = self._runtime.apply(self._epoch, [command for _, command in commands])
        for (place, _), result in zip(commands, results, strict=True):
            answers[place] = result
        return answers

    def _closing(self, digest: str) -> Command | None:
        proof = read_proof(self._artifacts.read(digest), digest)
        handoff = self._runtime.subject(Machine.HANDOFF, proof.request.handoff_id)
        with self._ledger.reading() as reader:
            return closing(handoff, proof, digest, reader)

    def _releasing(self, release: Release) -> Command:
        holding = read_holding(self._runtime, self._ledger, release)
        return require_released(release_decision(holding, release.ground, self._clock()), release.handoff_id)

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
            allowed, run = self._allowed(proposal, records)
            require_current(self._artifacts, records, parse_canonical(subject.facts) if subject else {}, run)
        except VrmError as error:
            return error
        return authorization, _grant_command(proposal, flow, authorization, allowed)

    def _allowed(self, proposal: Proposal, records: tuple[Record, ...]) -> tuple[Require, Subject | None]:
        """Return what the Run must be when the grant is made: RUNNING, or for what ends it just as it was read here."""
        if proposal.authority not in ENDING:
            require_authority(proposal.authority, records, None, current=True)
            if proposal.authority is Authority.ADMISSION:
                require_admitted(self._artifacts, records, self._runtime.subject(Machine.RUN, proposal.run_id))
            return Require(machine=Machine.RUN, id=proposal.run_id, phase=Phase.RUNNING), None
        run = self._runtime.subject(Machine.RUN, proposal.run_id)
        if run is not None and run.phase not in ENDS:
            raise StaleError(
                "run.phase", run.phase.value, f"{proposal.authority} needs a Run that is cancelling or failing."
            )
        require_authority(proposal.authority, records, run, current=True)
        if run is None:
            raise NotFoundError("run", proposal.run_id, "It was never admitted; admit it first.")
        return Require(machine=Machine.RUN, id=run.id, phase=run.phase, version=run.version), run

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


_OF_THE_SPINE: Final = frozenset((flow.machine, event) for flow in FLOWS.values() for event in flow.events) | {
    (Machine.HANDOFF, event) for event in (*PROVED, Event.RELEASE)
}
_SPINE_ONLY: Final = frozenset({Machine.AUTHORIZATION, Machine.DECISION, Machine.ERASURE})


def _not_plain(command: Command) -> VrmError | None:
    for move in command.moves:
        if move.machine is Machine.RUN and move.event in CONTROL.values():
            return InvalidInputError("command", f"run {move.event}", "Only a published control event does that.")
    made = [(part.machine, part.id) for part in command.creates if part.machine in _SPINE_ONLY]
    made += [
        (part.machine, part.id)
        for part in command.moves
        if part.machine in _SPINE_ONLY or (part.machine, part.event) in _OF_THE_SPINE
    ]
    if not made:
        return None
    return InvalidInputError("command", " ".join(made[0]), "Only a grant, its settlement or a proof does that.")


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


def _settled(answer: Answer | VrmError, result: Applied | VrmError | None) -> AppendReceipt | VrmError:
    if isinstance(answer, VrmError):
        return answer
    return result if isinstance(result, VrmError) else answer.receipt


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


def _grant_command(proposal: Proposal, flow: Flow, authorization: Authorization, run: Require) -> Command:
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
        requires=(run,),
        creates=tuple(creates),
        moves=tuple(moves),
    )
