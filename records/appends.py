"""What is asked of the Ledger and what it answers: proposals, appends, receipts."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Self

from pydantic import ConfigDict, TypeAdapter

from records.base import Frontier, Record, load_record
from records.canonical import canonical_json, domain_digest_bytes
from records.errors import IntegrityError, InvalidInputError, InvalidRecordError
from records.fields import NAME_PATTERN, Digest, Name, Namespace, Payload
from records.flows import Authority, Transition
from records.ids import ConflictId, EventId, NoCommitId, RunId
from records.knowledge import HeadMove, LifecycleEvent
from records.models import Model, once, refusing
from records.outcomes import NoCommitReason
from records.states import Machine
from records.values import Count

_NAME: Final = re.compile(NAME_PATTERN)


class RecordBody(Model):
    """A record as its noun and its exact canonical bytes."""

    noun: Name
    payload: Payload


class Proposal(Model):
    """A worker's complete proposal of one granted append; published as a content-addressed artifact.

    `subject_id` is the subject that the grant moves, `run_id` its Run, and `generation` and `fence` those of the
    attempt that made the proposal; once that attempt is over the proposal can no longer be granted. `records` are the
    exact bytes to be appended.
    """

    namespace: Namespace
    transition: Transition
    authority: Authority
    machine: Machine
    subject_id: Name
    run_id: RunId
    generation: Count
    fence: Count
    records: tuple[RecordBody, ...]

    @staticmethod
    def bodies(records: tuple[Record, ...]) -> tuple[RecordBody, ...]:
        """Return records as bodies, in the order in which they will be appended."""
        return tuple(RecordBody(noun=item.kind.noun, payload=item.payload.decode()) for item in records)

    @classmethod
    def read(cls, data: bytes, digest: str) -> Self:
        """Read a published proposal back.

        Raises:
            IntegrityError: the bytes are not the canonical bytes with that digest.
        """
        proposal = cls.load(data)
        if proposal.canonical != data or proposal.canonical_digest != digest:
            raise IntegrityError("proposal", digest, "The artifact is not what was published; propose again.")
        return proposal

    def unpack(self) -> tuple[Record, ...]:
        """Return the records; they are read and checked once.

        Raises:
            InvalidRecordError: a payload is not a valid record of its noun.
            IntegrityError: a payload is valid but not canonical.
        """
        return self._unpacked

    @once
    def _unpacked(self) -> tuple[Record, ...]:
        records = []
        for body in self.records:
            record = load_record(body.noun, body.payload)
            if record.payload.decode() != body.payload:
                raise IntegrityError("proposal.records", body.noun, "The payload is not in canonical form.")
            records.append(record)
        return tuple(records)


@dataclass(frozen=True, kw_only=True)
class Append:
    """One logical append, of either class.

    `permit_key` is the authorization id of a granted append or the operation key of a direct one; `permit_digest` is
    the digest of the authorization's body or of the request. `fences` are further (resource, epoch) pairs that must
    still be owned when the transaction commits. How heads move follows from the lifecycle events among the records.
    """

    namespace: str
    transition: Transition
    authority: Authority
    permit_key: str
    permit_digest: str
    records: tuple[Record, ...]
    fences: tuple[tuple[str, int], ...] = ()
    is_checked: bool = field(default=False, init=False, repr=False, compare=False)
    """Whether its terms were made by `direct` out of checked parts; not so a copy with changed fields."""

    @classmethod
    def direct(cls, transition: Transition, operation_key: str, records: tuple[Record, ...]) -> Self:
        """Make a direct append; its request digest covers the ids of the records, so times cannot differ in a retry.

        Raises:
            InvalidInputError: the key is not a name, or there is no record.
        """
        if not records:
            raise InvalidInputError("records", "none", "An append holds at least one record.")
        if not _NAME.fullmatch(operation_key):
            raise InvalidInputError("operation key", operation_key, "Use up to 200 letters, digits and _ . : / + -.")
        ids = tuple(str(record.id) for record in records)
        request = canonical_json({"transition": transition.value, "ids": ids})
        append = cls(
            namespace=records[0].namespace,
            transition=transition,
            authority=Authority.DIRECT,
            permit_key=operation_key,
            permit_digest=domain_digest_bytes("direct-append-request", request),
            records=records,
        )
        vars(append).update(ids=ids, is_checked=records[0].is_checked and isinstance(transition, Transition))
        return append

    @once
    def ids(self) -> tuple[str, ...]:
        """The ids of the records, in their order."""
        return tuple(str(record.id) for record in self.records)

    @once
    def heads(self) -> tuple[HeadMove, ...]:
        """The compare-and-swap of each lifecycle event, in order; a variant's first one expects the stored head."""
        return tuple(
            HeadMove(
                scope_variant_id=record.scope_variant_id,
                expected=record.expected_prior,
                event_id=EventId(record.id),
                memory_id=record.memory_id,
                disposition=record.disposition,
            )
            for record in self.records
            if isinstance(record, LifecycleEvent)
        )

    @once
    def nouns(self) -> frozenset[str]:
        """The record kinds that the append holds."""
        return frozenset(record.kind.noun for record in self.records)


class AppendTerms(Model):
    """What an append says besides its records, as the door of the coordinator checks it."""

    namespace: Namespace
    transition: Transition
    authority: Authority
    permit_key: Name
    permit_digest: Digest
    fences: tuple[tuple[Name, Count], ...]


def require_sound(append: Append) -> None:
    """Check every field of an append from outside, however its parts were made.

    Raises:
        InvalidInputError: it holds no record.
        InvalidRecordError: a field is refused; it is named.
    """
    if not append.is_checked:
        AppendTerms.build(**{name: getattr(append, name) for name in AppendTerms.model_fields})
    if not append.records:
        raise InvalidInputError("records", "none", "An append holds at least one record.")
    for record in append.records:
        if not getattr(record, "is_checked", False):
            _require_sound_record(record)


def _require_sound_record(record: object) -> None:
    """Refuse a record that is not what its constructor makes of its payload."""
    if not isinstance(record, Record):
        raise InvalidRecordError("records", type(record).__name__, "Append records.")
    _require_same(load_record(record.kind.noun, record.payload), record, type(record).__name__)


def _require_same(read: object, given: object, path: str) -> None:
    """Refuse a value that differs from what its payload says, or is of another type, part by part."""
    if type(read) is not type(given):
        raise InvalidRecordError(path, given, "Build the record by its constructor.")
    if isinstance(read, Model):
        for name in type(read).model_fields:
            _require_same(vars(read)[name], vars(given).get(name), f"{path}.{name}")
    elif isinstance(read, tuple) and isinstance(given, tuple) and len(read) == len(given):
        for index, pair in enumerate(zip(read, given, strict=True)):
            _require_same(*pair, f"{path}.{index}")
    elif read != given:
        raise InvalidRecordError(path, given, "Build the record by its constructor.")


@dataclass(frozen=True, kw_only=True)
class AppendReceipt:
    """The one answer that a permit ever gets: every record with its journal position, or a typed no-commit.

    `no_commit_id` names a no-commit receipt, or a commit conflict where a distillation was refused for its own reasons.
    """

    namespace: Namespace
    transition: Transition
    authority: Authority
    permit_key: Name
    permit_digest: Digest
    record_ids: tuple[Name, ...]
    positions: tuple[Count, ...]
    no_commit_id: NoCommitId | ConflictId | None
    reason: NoCommitReason | None

    __pydantic_config__ = ConfigDict(extra="forbid", strict=True)

    @classmethod
    def load(cls, data: bytes | str) -> AppendReceipt:
        """Read a receipt from JSON.

        Raises:
            InvalidRecordError: a field is missing, unknown or refused; the first such field is named.
        """
        with refusing():
            return _RECEIPT.validate_json(data)

    @property
    def canonical(self) -> bytes:
        """The canonical bytes, which the Ledger keeps."""
        return canonical_json(vars(self))

    @property
    def committed(self) -> bool:
        """Whether the records were written; False means that nothing but the proof of the no-commit was."""
        return self.no_commit_id is None


_RECEIPT: Final = TypeAdapter(AppendReceipt)


@dataclass(frozen=True, kw_only=True)
class StoredRecord:
    """A record as the Ledger holds it."""

    noun: str
    id: str
    namespace: str
    position: int
    payload: str

    def load(self) -> Record:
        """Return the record itself, which must be what its id and its canonical form say.

        Raises:
            InvalidRecordError: the payload is no record of its noun.
            IntegrityError: the payload is not canonical, or belongs to another id or namespace.
        """
        record = load_record(self.noun, self.payload)
        if (str(record.id), record.namespace, record.payload.decode()) != (self.id, self.namespace, self.payload):
            raise IntegrityError("ledger record", self.id, "The row was changed outside the coordinator; run vrm fsck.")
        return record


class Head(NamedTuple):
    """The head of one scope variant."""

    scope_variant_id: str
    namespace: str
    event_id: str
    memory_id: str
    disposition: str
    version: int


class JournalRow(NamedTuple):
    """One row of the commit journal."""

    namespace: str
    position: int
    noun: str
    id: str
    payload_digest: str
    chain_digest: str
    permit_key: str


class NamespaceHead(NamedTuple):
    """Where a namespace's journal stands, with its typed frontiers (spec 6.3)."""

    namespace: str
    position: int = 0
    chain_digest: str = "0" * 64
    evidence: int = 0
    lifecycle: int = 0
    retention: int = 0

    def after(self, position: int, chain_digest: str, frontier: Frontier | None) -> NamespaceHead:
        """Return where the journal stands after one more row, of a kind that advances `frontier`."""
        return NamespaceHead(
            self.namespace,
            position,
            chain_digest,
            position if frontier is Frontier.EVIDENCE else self.evidence,
            position if frontier is Frontier.LIFECYCLE else self.lifecycle,
            position if frontier is Frontier.RETENTION else self.retention,
        )
