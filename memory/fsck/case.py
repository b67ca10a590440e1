"""What the checks share: the stores as one check sees them, and one stretch of a journal with its records."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, TypeVar

from memory.fsck.reading import read_stored
from memory.fsck.report import Findings
from records.appends import AppendReceipt, JournalRow, StoredRecord
from records.base import Record
from records.errors import VrmError
from store.artifacts import ArtifactStore
from store.ledger.audit import LedgerScan, Place
from store.ledger.port import LedgerReader
from store.recent import Recent
from store.runtime.port import RuntimeReader

R = TypeVar("R", bound=Record)

_PLACES: Final = 50_000

Progress = Callable[[str, int, int], None]
"""Told after each piece: what is checked, how much is done, how much there is (0 where that is not known)."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """One check.

    Attributes:
        namespace: the only one to check, or None for all.
        known: where the journal has what was met last.
    """

    reader: LedgerReader
    scan: LedgerScan
    runtime: RuntimeReader | None
    artifacts: ArtifactStore | None
    findings: Findings
    progress: Progress
    namespace: str | None = None
    known: Recent[str, Place] = field(default_factory=lambda: Recent(_PLACES))

    def load(self, record_ids: Iterable[str | None]) -> dict[str, Record]:
        """Return the readable records among the ids given; an unreadable row is another check's finding."""
        wanted = {str(each) for each in record_ids if each is not None}
        return _readable(self.reader.get_many(wanted).values()) if wanted else {}

    def read(self, record_ids: Iterable[str | None], model: type[R]) -> dict[str, R]:
        """Return those of the readable records that are of a model."""
        return only(self.load(record_ids), model)

    def find(self, model: type[R], namespace: str, column: str, values: Iterable[str]) -> dict[str, R]:
        """Return the readable records of a model whose column has one of the values, by id."""
        wanted = sorted({str(value) for value in values})
        if not wanted:
            return {}
        return only(_readable(self.reader.find(model.kind.noun, namespace, **{column: wanted})), model)

    def places(self, record_ids: Iterable[str]) -> dict[str, Place]:
        """Return where the journal has those records that it names."""
        wanted = {str(each) for each in record_ids}
        found = {each: self.known[each] for each in wanted if each in self.known}
        missing = sorted(wanted - found.keys())
        if missing:
            for each, place in self.scan.places(missing).items():
                found[each] = place
                self.known.put(each, place)
        return found


@dataclass(frozen=True)
class Chunk:
    """One stretch of a namespace's journal, cut where an append ends.

    Attributes:
        records: those records that could be read, by their stored id.
        receipts: those receipts of the stretch's permits that could be read, by permit.
    """

    namespace: str
    rows: tuple[JournalRow, ...]
    records: dict[str, Record]
    receipts: dict[str, AppendReceipt]

    def of(self, model: type[R]) -> dict[str, R]:
        """Return the records of one model, which may be that of a kind or of one of its variants."""
        return only(self._by_kind.get(model.kind.noun, {}), model)

    @cached_property
    def _by_kind(self) -> dict[str, dict[str, Record]]:
        found: dict[str, dict[str, Record]] = {}
        for key, record in self.records.items():
            found.setdefault(record.kind.noun, {})[key] = record
        return found

    def answers(self, keys: Container[str]) -> dict[str, AppendReceipt]:
        """Return the receipts of the appends that wrote those of the records that are asked for, by record id."""
        named = ((row.id, self.receipts.get(row.permit_key)) for row in self.rows if row.id in keys)
        return {key: receipt for key, receipt in named if receipt is not None}


def _readable(stored: Iterable[StoredRecord]) -> dict[str, Record]:
    found: dict[str, Record] = {}
    for row in stored:
        try:
            found[row.id] = read_stored(row)
        except VrmError:
            continue
    return found


def only(records: dict[str, Record], model: type[R]) -> dict[str, R]:
    """Return the records that are of a model."""
    return {key: record for key, record in records.items() if isinstance(record, model)}
