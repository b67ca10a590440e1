"""The commit algorithm of the Ledger, once, over the primitives that an adapter gives.

Order of checks inside one append:

1. the permit: a known one gets its receipt again, one with another digest is an identity conflict;
2. the registry row: authority and record kinds;
3. for granted appends the typed refusals, in the row's order of precedence: guard, expected heads, existing records,
   payload; a refusal writes the one proof of it (`store.ledger.refusals`) and nothing else;
4. the records with positions, chain and frontiers, the head moves, the receipt.

A direct append has no no-commit: what would be one is an error, and nothing is written.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import NamedTuple, Protocol

from records.appends import Append, AppendReceipt, JournalRow, NamespaceHead
from records.base import Record
from records.conflicts import NoCommit
from records.errors import (
    FencedError,
    IdentityConflictError,
    IntegrityError,
    StaleError,
    UnavailableError,
    VrmError,
)
from records.flows import Flow, require_legal
from records.knowledge import GENESIS, HeadMove
from records.outcomes import NoCommitReason, ObservedHead
from store.ledger.port import LedgerReader, Refusal, Request
from store.ledger.refusals import proof_of


class Placed(NamedTuple):
    """A record with the journal row that it gets."""

    record: Record
    row: JournalRow


class LedgerTransaction(LedgerReader, Protocol):
    """The primitives of one open write transaction."""

    def check_fences(self, fences: Iterable[tuple[str, int]]) -> None:
        """Hold every epoch row to the end of the transaction; FencedError if one has moved on."""

    def lock_namespaces(self, namespaces: Sequence[str]) -> dict[str, NamespaceHead]:
        """Lock the journals of the namespaces, which come sorted, and return where they stand."""

    def answered(self, namespace: str, permit_keys: Sequence[str]) -> dict[str, AppendReceipt]:
        """Return the receipts that permits have got; one that is left out cannot be written a second time."""

    def stored(self, record_ids: Iterable[str]) -> dict[str, tuple[int, str]]:
        """Return position and payload digest of records; one that is left out cannot be written a second time."""

    def foresee(self, record_ids: Iterable[str]) -> None:
        """Be told which records will be asked for; they may be read now, all at once."""

    def savepoint(self) -> AbstractContextManager[object]:
        """Undo what happened inside if it ends with an error."""

    def insert(self, placed: Sequence[Placed]) -> None:
        """Write records, their children and their journal rows."""

    def insert_receipt(self, receipt: AppendReceipt) -> None:
        """Write the receipt of a permit."""

    def move_head(self, move: HeadMove, namespace: str) -> bool:
        """Compare-and-swap one scope variant's head; False if it is not where it was expected."""

    def save_namespace(self, head: NamespaceHead) -> None:
        """Write where the journal of a namespace now stands."""


def chain(previous: str, facts: tuple[str, int, str, str, str]) -> str:
    """Return the chain digest of a journal row: SHA-256 over its predecessor's digest and its own facts."""
    namespace, position, *named = facts
    text = "\n".join((previous, namespace, str(position), *named))
    return hashlib.sha256(b"vrm/ledger-chain/v1\0" + text.encode()).hexdigest()


def commit_together(
    transaction: LedgerTransaction, fences: Sequence[tuple[str, int]], group: Sequence[Request]
) -> list[AppendReceipt | VrmError]:
    """Carry out a group of which no request fails, as nearly every group is: without a savepoint for each of them.

    Raises:
        VrmError: a request failed; the adapter rolls everything back and calls `commit_group` in a new transaction, so
            that the failure stays with its request.
        FencedError: as for `commit_group`.
        UnavailableError: as for `commit_group`.
    """
    state = _open(transaction, fences, group)
    state.shares_fate = True
    answers: list[AppendReceipt | VrmError] = [state.carry_out(request) for request in group]
    state.save_all()
    return answers


def commit_group(
    transaction: LedgerTransaction, fences: Sequence[tuple[str, int]], group: Sequence[Request]
) -> list[AppendReceipt | VrmError]:
    """Carry out a group; each request gets its receipt or its own error.

    Raises:
        FencedError: an epoch has moved on; the adapter rolls the whole group back.
        UnavailableError: the server is gone or too slow; likewise.
    """
    state = _open(transaction, fences, group)
    answers: list[AppendReceipt | VrmError] = []
    for request in group:
        try:
            answers.append(state.carry_out(request))
        except (FencedError, UnavailableError):
            raise
        except VrmError as error:
            answers.append(error)
    state.save_all()
    return answers


def _open(transaction: LedgerTransaction, fences: Sequence[tuple[str, int]], group: Sequence[Request]) -> _Group:
    every = {*fences, *(fence for request in group for fence in request.append.fences)}
    transaction.check_fences(sorted(every))
    names = sorted({request.append.namespace for request in group})
    state = _Group(transaction, transaction.lock_namespaces(names))
    state.load(group)
    return state


class _Group:
    """The moving state of one group: journal heads, known receipts, known records."""

    def __init__(self, transaction: LedgerTransaction, heads: dict[str, NamespaceHead]) -> None:
        self.transaction = transaction
        self.heads = heads
        self.saved = dict(heads)
        self.receipts: dict[tuple[str, str], AppendReceipt] = {}
        self.known: dict[str, tuple[int, str]] = {}
        self.shares_fate = False  # whether one failure undoes the whole group

    def load(self, group: Sequence[Request]) -> None:
        """Read at once which permits of the group have receipts and which of its records exist."""
        for name in self.heads:
            keys = [request.append.permit_key for request in group if request.append.namespace == name]
            for key, receipt in self.transaction.answered(name, keys).items():
                self.receipts[name, key] = receipt
        self.known = self.transaction.stored({record_id for request in group for record_id in request.append.ids})
        foreseen = {record_id for request in group for record_id in request.foreseen}
        if foreseen:
            self.transaction.foresee(foreseen)

    def save_all(self) -> None:
        """Write where the journals stand."""
        for name in self.heads:
            self.save(name)

    def save(self, namespace: str) -> None:
        """Write where a journal stands, if that is not written yet."""
        head = self.heads[namespace]
        if head != self.saved[namespace]:
            self.transaction.save_namespace(head)
            self.saved[namespace] = head

    def carry_out(self, request: Request) -> AppendReceipt:
        """Answer one request, in the order of checks that the module states."""
        append = request.append
        earlier = self.receipts.get((append.namespace, append.permit_key))
        if earlier is not None:
            return _replay(earlier, append)
        flow = require_legal(append.transition, append.authority, append.nouns)
        self.save(append.namespace)  # the guard reads what neighbours in the group have written, frontiers included
        receipt = self._decide(request, flow) if self.shares_fate else self._decide_alone(request, flow)
        self.receipts[append.namespace, append.permit_key] = receipt
        if receipt.committed:
            for record, record_id, position in zip(append.records, append.ids, receipt.positions, strict=True):
                self.known[record_id] = (position, record.payload_digest)
        return receipt

    def _decide(self, request: Request, flow: Flow) -> AppendReceipt:
        refusal = self._refusal(request, flow)
        return self._write(request.append) if refusal is None else self._refuse(request.append, refusal)

    def _decide_alone(self, request: Request, flow: Flow) -> AppendReceipt:
        """Decide without harm to the neighbours; what the tables refuse is the fault of an authorized payload."""
        append = request.append
        try:
            with self._alone(append.namespace):
                return self._decide(request, flow)
        except (IntegrityError, IdentityConflictError, StaleError) as error:
            if not flow.is_granted:
                raise
            with self._alone(append.namespace):
                return self._refuse(append, Refusal(NoCommitReason.AUTHORIZED_PAYLOAD_REJECTED, str(error)))

    @contextmanager
    def _alone(self, namespace: str) -> Iterator[None]:
        """Undo what happened inside, the journal head included, if it ends with an error."""
        before = self.heads[namespace]
        try:
            with self.transaction.savepoint():
                yield
        except BaseException:
            self.heads[namespace] = before
            raise

    def _refusal(self, request: Request, flow: Flow) -> Refusal | None:
        """Return the first refusal in the row's order of precedence, or raise it for a direct append."""
        append = request.append
        found = (request.guard(self.transaction, append), self._stale_heads(append), self._existing(append, flow))
        refusals = [refusal for refusal in found if refusal is not None]
        if not refusals:
            return None
        if not flow.is_granted:
            raise IdentityConflictError(append.transition.value, refusals[0].detail, "Nothing was written.")
        return min(refusals, key=lambda refusal: flow.reasons.index(refusal.reason))

    def _stale_heads(self, append: Append) -> Refusal | None:
        if not append.heads:
            return None
        wanted = {move.scope_variant_id: move.expected for move in reversed(append.heads)}
        heads = self.transaction.variant_heads(append.namespace, wanted)
        stale = tuple(
            ObservedHead(scope_variant_id=variant, expected=expected, observed=observed)
            for variant, expected in sorted(wanted.items())
            if (observed := heads[variant].event_id if variant in heads else GENESIS) != expected
        )
        if not stale:
            return None
        return Refusal(NoCommitReason.LIFECYCLE_HEAD_STALE, f"{len(stale)} expected heads have moved on", stale)

    def _existing(self, append: Append, flow: Flow) -> Refusal | None:
        for record, record_id in zip(append.records, append.ids, strict=True):
            known = self.known.get(record_id)
            if known is None:
                continue
            if known[1] != record.payload_digest:
                return Refusal(NoCommitReason.CANONICAL_RECORD_CONFLICT, f"{record.id} is stored with other bytes")
            if record.kind.noun not in flow.shared:
                return Refusal(NoCommitReason.CANONICAL_RECORD_CONFLICT, f"{record.id} is stored already")
        return None

    def _write(self, append: Append) -> AppendReceipt:
        placed, positions = [], []
        for record, record_id in zip(append.records, append.ids, strict=True):
            known = self.known.get(record_id)
            if known is None:
                placed.append(self._place(record, append))
                positions.append(placed[-1].row.position)
            else:
                positions.append(known[0])
        self.transaction.insert(placed)
        for move in append.heads:
            if not self.transaction.move_head(move, append.namespace):
                raise StaleError("scope_variant_head", move.scope_variant_id, "Read the head again and propose again.")
        receipt = _receipt(append, positions)
        self.transaction.insert_receipt(receipt)
        return receipt

    def _refuse(self, append: Append, refusal: Refusal) -> AppendReceipt:
        proof = proof_of(append, refusal)
        placed = self._place(proof, append)
        self.transaction.insert([placed])
        receipt = _receipt(append, [placed.row.position], proof)
        self.transaction.insert_receipt(receipt)
        return receipt

    def _place(self, record: Record, append: Append) -> Placed:
        if record.namespace != append.namespace:
            raise IntegrityError("namespace", record.namespace, f"This append is for {append.namespace}.")
        head, kind = self.heads[append.namespace], record.kind
        facts = head.namespace, head.position + 1, kind.noun, str(record.id), record.payload_digest
        row = JournalRow(*facts, chain(head.chain_digest, facts), append.permit_key)
        self.heads[append.namespace] = head.after(row.position, row.chain_digest, kind.frontier)
        return Placed(record, row)


def _replay(earlier: AppendReceipt, append: Append) -> AppendReceipt:
    if earlier.permit_digest != append.permit_digest:
        raise IdentityConflictError(
            "permit", append.permit_key, "This permit was used for another request; nothing was written."
        )
    return earlier


def _receipt(append: Append, positions: Sequence[int], proof: NoCommit | None = None) -> AppendReceipt:
    return AppendReceipt(
        namespace=append.namespace,
        transition=append.transition,
        authority=append.authority,
        permit_key=append.permit_key,
        permit_digest=append.permit_digest,
        record_ids=append.ids if proof is None else (str(proof.id),),
        positions=tuple(positions),
        no_commit_id=None if proof is None else proof.id,  # type: ignore[arg-type]  # the ids of these kinds are of these classes
        reason=None if proof is None else proof.reason,
    )
