"""The seam of the Experiment Ledger: what an adapter promises. Not meant for implementation outside this project.

Contract, for every adapter:

- `commit` MUST answer each request with the one receipt that its permit will ever get, or with the error of that
  request alone; a request that fails leaves no trace and does not disturb its neighbours in the group;
- a receipt MUST NOT be returned before it is durable;
- positions MUST be gapless and in commit order per namespace, each row chained to its predecessor;
- a stale epoch MUST abort the whole group with `FencedError`, a lost server with `UnavailableError`, nothing written;
  whether a commit that was cut short took place is told by asking again under the same permit;
- a guard sees the state inside the transaction, and MUST NOT call back into the store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Final, Generic, Protocol, TypeVar

from records.appends import Append, AppendReceipt, Head, JournalRow, NamespaceHead, StoredRecord
from records.decisions import RetentionCheck
from records.errors import FencedError, InvalidInputError, VrmError
from records.outcomes import NoCommitReason, ObservedHead

_ID_CHARACTERS: Final = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-:")

FindValue = str | int | bool | Sequence[str] | None
"""What a column may be compared with; a sequence means any of its members."""

A = TypeVar("A")
B = TypeVar("B")


@dataclass(frozen=True)
class Asked(Generic[A]):
    """A question that waits to be asked: the name of a getter of `LedgerReader` and what it is given."""

    getter: str
    given: tuple[Any, ...]
    equal: Mapping[str, FindValue] = field(default_factory=dict)


def records(record_ids: Iterable[str]) -> Asked[dict[str, StoredRecord]]:
    """Ask for the records among `record_ids` that exist, by id."""
    return Asked("get_many", (tuple(record_ids),))


def matching(noun: str, namespace: str, **equal: FindValue) -> Asked[list[StoredRecord]]:
    """Ask for the records of a kind whose indexed columns equal the values given."""
    return Asked("find", (noun, namespace), equal)


def standing(namespace: str) -> Asked[NamespaceHead]:
    """Ask where the journal of a namespace stands."""
    return Asked("namespace_head", (namespace,))


def answers(namespace: str, permit_keys: Iterable[str]) -> Asked[dict[str, AppendReceipt]]:
    """Ask for the receipts among `permit_keys` that exist, by permit key."""
    return Asked("receipts", (namespace, tuple(permit_keys)))


class LedgerReader(Protocol):
    """Read access; every list is in journal order."""

    def both(self, first: Asked[A], second: Asked[B]) -> tuple[A, B]:
        """Answer two questions in one round trip; the second is of the moment of the first, or of a later one."""

    def get(self, record_id: str) -> StoredRecord | None:
        """Return a record by id."""

    def get_many(self, record_ids: Iterable[str]) -> dict[str, StoredRecord]:
        """Return the records among `record_ids` that exist, by id."""

    def find(self, noun: str, namespace: str, **equal: FindValue) -> list[StoredRecord]:
        """Return the records of a kind whose indexed columns equal the values given."""

    def namespace_head(self, namespace: str) -> NamespaceHead:
        """Return where the journal of a namespace stands; position 0 where it is empty."""

    def namespaces(self) -> list[str]:
        """Return every namespace that holds a record, sorted."""

    def variant_heads(self, namespace: str, scope_variant_ids: Iterable[str] | None = None) -> dict[str, Head]:
        """Return the heads of the scope variants given, or of all, by scope variant id."""

    def receipt(self, namespace: str, permit_key: str) -> AppendReceipt | None:
        """Return the receipt that a permit got."""

    def receipts(self, namespace: str, permit_keys: Iterable[str]) -> dict[str, AppendReceipt]:
        """Return the receipts among `permit_keys` that exist, by permit key."""

    def journal(self, namespace: str, after: int = 0, limit: int = 1000) -> list[JournalRow]:
        """Return journal rows with a position beyond `after`."""

    def resolve(self, prefix: str, limit: int = 10) -> list[str]:
        """Return ids that begin with `prefix`, sorted; `prefix` may leave out the noun.

        Raises:
            InvalidInputError: no id can begin so.
        """


def journal_pages(reader: LedgerReader, namespace: str, after: int = 0, size: int = 500) -> Iterator[list[JournalRow]]:
    """Yield the journal rows of a namespace with a position beyond `after`, `size` of them at a time."""
    while rows := reader.journal(namespace, after, size):
        yield rows
        after = rows[-1].position


@dataclass(frozen=True)
class Refusal:
    """A typed reason to write nothing, found inside the transaction; a revocation brings the check that found it."""

    reason: NoCommitReason
    detail: str
    heads: tuple[ObservedHead, ...] = ()
    retention: RetentionCheck | None = None


Guard = Callable[[LedgerReader, Append], Refusal | None]


def no_guard(_reader: LedgerReader, _append: Append) -> None:
    """Refuse nothing."""


@dataclass(frozen=True)
class Request:
    """One logical append with the guard that is asked inside its transaction.

    `foreseen` are records that the guard will ask for, which an adapter may read at once for a whole group. It changes
    no answer: a record that exists stays as it is, and one that is not there yet is asked for again.
    """

    append: Append
    guard: Guard = no_guard
    foreseen: tuple[str, ...] = ()


@dataclass(frozen=True)
class Epoch:
    """Ownership of a resource as claimed: valid until somebody else claims it."""

    resource: str
    number: int


def fenced(resource: str, epoch: int, now: int | None) -> FencedError:
    """Return the error for an owner whose epoch is over."""
    return FencedError(resource, f"epoch {epoch}, now {now}", "Another owner took over; stop and look it up.")


def require_prefix(prefix: str) -> None:
    """Refuse what cannot be the beginning of an id, before it reaches a pattern.

    Raises:
        InvalidInputError: it is empty, or holds a character that no id has.
    """
    if not prefix or not set(prefix) <= _ID_CHARACTERS:
        raise InvalidInputError("id", prefix, "Give the first characters of an id, such as memory-record:3fa2.")


class OpenLedger(LedgerReader, Protocol):
    """Read access that can also be to one moment."""

    def reading(self) -> AbstractContextManager[LedgerReader]:
        """Open one read transaction: everything read in it is of one moment."""


class LedgerStore(OpenLedger, Protocol):
    """The Ledger as its one writer sees it."""

    def claim(self, resource: str, holder: str) -> Epoch:
        """Take ownership of a resource; whoever owned it before is refused from its next statement on."""

    def commit(self, epoch: Epoch, group: Sequence[Request]) -> list[AppendReceipt | VrmError]:
        """Write a group of appends in one physical commit; see the contract of this module."""

    def table_counts(self) -> Mapping[str, int]:
        """Return the number of records of each kind, for `vrm status`."""

    def tally(self, noun: str, *columns: str) -> Mapping[tuple[str, ...], int]:
        """Return how many records of a kind have which values in indexed columns, in all namespaces; for metrics.

        A value that is null counts as empty text, a truth value as `true` or `false`.
        """

    def close(self) -> None:
        """Give back connections; ownership is not released, the next owner claims."""
