"""Claims added and moved: what is there is read, the policy decides, and its decision is appended (spec 004).

Rules kept here:

- each call is one append: all events of a decision, or none;
- a decision that came too late, because a claim moved meanwhile, is refused by the Ledger; ask again;
- predicates are checked before a claim becomes durable, never after.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from memory.index.lexical import terms
from memory.ports import Clock, CoordinatorPort, all_good
from memory.workspace.board import board_of, one_claim, one_of
from memory.workspace.predicates import Checker
from memory.workspace.retrieving import event_key
from policies.workspace import lifecycle, moves
from policies.workspace.lifecycle import Added, HeldClaim, Newcomer, NotDone
from policies.workspace.policy import WorkspacePolicy
from policies.workspace.reward import reward
from policies.workspace.shadow import ShadowPolicy
from records.appends import Append
from records.canonical import domain_digest
from records.claim_traces import ClaimReceipt, ClaimTrace, TrialOutcome
from records.errors import InvalidInputError, NotFoundError
from records.flows import Transition
from records.ids import ClaimTraceId
from records.workspace import ClaimEvent, ClaimReason, EvidenceEvent, WorkspaceClaim
from store.ledger.port import LedgerReader, OpenLedger


@dataclass(frozen=True, kw_only=True)
class KeeperPorts:
    """Where claims stand, through whom they are appended, and the time."""

    ledger: OpenLedger
    coordinator: CoordinatorPort
    now: Clock


class ClaimKeeper:
    """Adds and moves the claims of one workspace of a namespace."""

    def __init__(self, ports: KeeperPorts, namespace: str, workspace: str, policy: WorkspacePolicy) -> None:
        """Work by one version of the lifecycle."""
        self._ports, self._namespace, self._workspace, self._policy = ports, namespace, workspace, policy

    def add(self, claim: WorkspaceClaim, checker: Checker, revises: str | None = None) -> Added:
        """Add a claim, or say which one it repeats.

        Raises:
            InvalidInputError: it says nothing, or is no acceptable revision; what is missing is named.
            IdentityConflictError: an event of its evidence has another content, or another claim moved meanwhile.
        """
        with self._ports.ledger.reading() as reader:
            board = self._board(reader)
            old = None if revises is None else str(one_claim(reader, self._namespace, revises).id)
        newcomer = Newcomer(claim, old, not checker.findings(claim))
        done = lifecycle.add(newcomer, board, self._policy, terms, self._ports.now())
        if isinstance(done, NotDone):
            raise done.error()
        if done.claims:
            self._append(f"add-claim/{claim.id}", (*done.claims, *done.events))
        return done

    def promote(self, wanted: str, evidence: Sequence[EvidenceEvent], checker: Checker) -> tuple[ClaimEvent, ...]:
        """Make a probationary claim durable; a stale or quarantined one probationary first, and durable if it may be.

        One that comes back and contradicts what is live is contested with it instead.

        Raises:
            InvalidInputError: what is missing is named.
        """
        held, board = self._one(wanted)
        holds = not checker.findings(held.claim)
        if held.head.state in moves.RETURNING:
            return self._back(held, board, evidence, holds=holds)
        return self._done(moves.promote(held, board, evidence, self._policy, self._ports.now(), holds=holds))

    def _back(
        self, held: HeldClaim, board: Mapping[str, HeldClaim], evidence: Sequence[EvidenceEvent], *, holds: bool
    ) -> tuple[ClaimEvent, ...]:
        now = self._ports.now()
        back = self._done(moves.come_back(held, board, evidence, self._policy, now, words=terms, holds=holds))
        held, board = self._one(str(held.claim.id))
        further = moves.promote(held, board, (), self._policy, self._ports.now(), holds=holds)
        return back if isinstance(further, NotDone) else (*back, *self._done(further))

    def contest(self, one: str, other: str) -> tuple[ClaimEvent, ...]:
        """Contest two live claims with each other.

        Raises:
            InvalidInputError: one of them is not live, or both are the same.
        """
        first, second = self._one(one)[0], self._one(other)[0]
        if first.claim.id == second.claim.id:
            raise InvalidInputError("claim", other, "Name two claims.")
        return self._done(moves.contest(first, second, self._policy, self._ports.now()))

    def resolve(self, winner: str, evidence: Sequence[EvidenceEvent], checker: Checker) -> tuple[ClaimEvent, ...]:
        """Settle a contradiction by evidence for one side.

        Raises:
            InvalidInputError: what is missing is named.
        """
        held, board = self._one(winner)
        holds, now = not checker.findings(held.claim), self._ports.now()
        return self._done(moves.resolve(held, board, evidence, self._policy, now, holds=holds))

    def withdraw(self, wanted: str, reason: ClaimReason) -> tuple[ClaimEvent, ...]:
        """Take a claim out, as invalidated or as suspected.

        Raises:
            IllegalTransitionError: it is out already.
        """
        held, _ = self._one(wanted)
        return self._done(moves.withdraw(held, reason, self._policy, self._ports.now()))

    def mark_stale(self, checker: Checker) -> tuple[ClaimEvent, ...]:
        """Check every live claim, and mark those stale whose predicates fail."""
        with self._ports.ledger.reading() as reader:
            board = self._board(reader)
        made: list[ClaimEvent] = []
        for held in board.values():
            done = moves.go_stale(held, checker.findings(held.claim), self._policy, self._ports.now())
            made += done if isinstance(done, tuple) else ()
        appends = [Append.direct(Transition.APPEND_CLAIMS, event_key(event), (event,)) for event in made]
        if appends:
            all_good(self._ports.coordinator.append_direct(appends))
        return tuple(made)

    def _one(self, wanted: str) -> tuple[HeldClaim, dict[str, HeldClaim]]:
        with self._ports.ledger.reading() as reader:
            board = self._board(reader)
            claim = one_claim(reader, self._namespace, wanted)
        if str(claim.id) not in board:
            raise NotFoundError("claim", wanted, f"It is of workspace {claim.workspace}; name that one.")
        return board[str(claim.id)], board

    def _board(self, reader: LedgerReader) -> dict[str, HeldClaim]:
        return board_of(reader, self._namespace, self._workspace)

    def _done(self, done: tuple[ClaimEvent, ...] | NotDone) -> tuple[ClaimEvent, ...]:
        if isinstance(done, NotDone):
            raise done.error()
        self._append(event_key(done[0]), done)
        return done

    def _append(self, key: str, records: tuple[WorkspaceClaim | ClaimEvent, ...]) -> None:
        all_good(self._ports.coordinator.append_direct([Append.direct(Transition.APPEND_CLAIMS, key, records)]))


def read_trace(reader: LedgerReader, namespace: str, wanted: str) -> ClaimTrace:
    """Return a trace of a namespace by any unambiguous beginning of its id.

    Raises:
        NotFoundError: none begins so.
        AmbiguousIdError: several do.
    """
    return one_of(reader, namespace, wanted, ClaimTrace, "Name one trace, as `vrm claims search` told it.")


def record_outcome(
    ports: KeeperPorts, trace: ClaimTrace, trial_id: str, outcome: TrialOutcome, policy: ShadowPolicy
) -> ClaimReceipt:
    """Append the receipt of one trial of a trace; the same outcome again is a replay and returns the first receipt.

    Raises:
        IdentityConflictError: the trial of this trace has another outcome already.
    """
    receipt = ClaimReceipt.build(
        namespace=trace.namespace,
        created_at=ports.now(),
        trace_id=ClaimTraceId(trace.id),
        task_id=trace.task_id,
        trial_id=trial_id,
        selected=trace.selected,
        shadow=trace.shadow,
        outcome=outcome,
        policy=policy.identity,
        reward=reward(outcome, policy.reward),
    )
    key = f"receipt-claims/{domain_digest('claim-trial', [str(trace.id), trial_id])}"
    all_good(ports.coordinator.append_direct([Append.direct(Transition.RECEIPT_CLAIMS, key, (receipt,))]))
    stored = ports.ledger.get(str(receipt.id))
    kept = None if stored is None else stored.load()
    return kept if isinstance(kept, ClaimReceipt) else receipt
