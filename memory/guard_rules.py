"""What guards are written with: the records of an append, records of the Ledger, and rules that say what is broken."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

from records.appends import Append, StoredRecord
from records.base import Record
from records.outcomes import NoCommitReason
from store.ledger.port import LedgerReader, Refusal

R = TypeVar("R", bound=Record)

Rules = Iterator[tuple[bool, str]]
"""Whether each rule holds, with what to say if it does not; read up to the first that does not."""


def of(append: Append, model: type[R]) -> Iterator[R]:
    """Return the records of one model in an append."""
    return (record for record in append.records if isinstance(record, model))


def read(reader: LedgerReader, record_id: str, model: type[R]) -> R | None:
    """Return a record of the Ledger; None if there is none of that id and model."""
    return held(reader.get_many([record_id]), record_id, model)


def held(stored: Mapping[str, StoredRecord], record_id: str, model: type[R]) -> R | None:
    """Return a record among those that were read together; None if there is none of that id and model."""
    record = stored[record_id].load() if record_id in stored else None
    return record if isinstance(record, model) else None


def precondition(detail: str) -> Refusal:
    """Return the refusal of an append that comes too early, too late, or to the wrong place."""
    return Refusal(NoCommitReason.PRECONDITION_CONFLICT, detail)


def rejected(detail: str) -> Refusal:
    """Return the refusal of an append that no state of the Ledger would take."""
    return Refusal(NoCommitReason.AUTHORIZED_PAYLOAD_REJECTED, detail)


def first_broken(rules: Rules, refused: Callable[[str], Refusal]) -> Refusal | None:
    """Return the refusal of the first rule that does not hold."""
    broken = next((rule for holds, rule in rules if not holds), None)
    return None if broken is None else refused(broken)
