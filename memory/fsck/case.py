"""What the checks share: the stores as one check sees them, and one stretch of a journal with its records."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TypeVar

from memory.fsck.report import Findings
from records.appends import JournalRow, StoredRecord
from records.base import Record
from records.errors import VrmError
from records.runtime import Subject
from store.artifacts import ArtifactStore
from store.ledger.audit import LedgerScan
from store.ledger.port import LedgerReader
from store.runtime.port import RuntimeReader

R = TypeVar("R", bound=Record)

Progress = Callable[[str, int, int], None]
"""Told after each piece: what is checked, how much is done, how much there is (0 where that is not known)."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """One check.

    Attributes:
        settled: authorizations that were COMMITTED or RETIRED before the Ledger was read, by id.
        ended: scientific Runs that were over before the Ledger was read, by id.
    """

    reader: LedgerReader
    scan: LedgerScan
    runtime: RuntimeReader | None
    artifacts: ArtifactStore | None
    findings: Findings
    progress: Progress
    settled: dict[str, Subject] = field(default_factory=dict)
    ended: frozenset[str] = frozenset()

    def read(self, record_ids: Iterable[str | None], model: type[R]) -> dict[str, R]:
        """Return the readable records of a model among the ids given; an unreadable row is another check's finding."""
        found = self.reader.get_many({str(each) for each in record_ids if each is not None})
        return readable(found.values(), model)

    def find(self, model: type[R], namespace: str, column: str, values: Iterable[str]) -> dict[str, R]:
        """Return the readable records of a model whose column has one of the values, by id."""
        wanted = sorted({str(value) for value in values})
        return readable(self.reader.find(model.kind.noun, namespace, **{column: wanted}), model) if wanted else {}


@dataclass(frozen=True)
class Chunk:
    """One stretch of a namespace's journal, with those of its records that could be read, by their stored id."""

    namespace: str
    rows: tuple[JournalRow, ...]
    records: dict[str, Record]

    def of(self, model: type[R]) -> dict[str, R]:
        """Return the records of one model."""
        return {key: record for key, record in self.records.items() if isinstance(record, model)}


def readable(stored: Iterable[StoredRecord], model: type[R]) -> dict[str, R]:
    """Return the records that can be read and are of a model, by their stored id."""
    found: dict[str, R] = {}
    for row in stored:
        try:
            record = row.load()
        except VrmError:
            continue
        if isinstance(record, model):
            found[row.id] = record
    return found
