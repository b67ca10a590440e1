"""What a source becomes: checked rows and published digests, and the records of both. Pure."""

from __future__ import annotations

import base64
from collections import Counter
from dataclasses import dataclass
from functools import cached_property

from importers.ai_researcher.layout import tables_of
from importers.ai_researcher.reasons import Trials
from importers.ai_researcher.rows import LegacyRow
from memory.snapshots.evidence import newest
from records.canonical import digest_bytes, domain_digest
from records.ids import LegacyRecordId
from records.legacy import (
    LegacyArtifact,
    LegacyFormat,
    LegacyImport,
    LegacyMember,
    LegacyReason,
    LegacyRecord,
    LegacySource,
    LegacySystem,
    LegacyTable,
    LegacyTableCount,
    legacy_key,
)

SYSTEM = LegacySystem.AI_RESEARCHER


@dataclass(frozen=True)
class LegacyContent:
    """A source that was read whole and passed every check.

    Attributes:
        revision: the schema revision of its records.
        rows: its records, in an order that depends on the content alone.
        artifacts: the digests it publishes; `files` are the bytes of those that are there.
        join_rows: rows of the join table, which say what the payloads of knowledge records say.
    """

    format: LegacyFormat
    revision: int
    rows: tuple[LegacyRow, ...]
    artifacts: tuple[LegacyArtifact, ...] = ()
    files: tuple[bytes, ...] = ()
    join_rows: int = 0

    @cached_property
    def _pairs(self) -> tuple[tuple[LegacyRow, LegacyRecord], ...]:
        return tuple((row, record_of(row)) for row in self.rows)

    @cached_property
    def records(self) -> dict[LegacyRecordId, LegacyRecord]:
        """The distinct records by id; a row that the source has twice is one record."""
        return {LegacyRecordId(record.id): record for _, record in self._pairs}

    @cached_property
    def members(self) -> tuple[LegacyMember, ...]:
        """What is said of each record, in the order of `records`."""
        trials = Trials(self.rows)
        rows = {LegacyRecordId(record.id): row for row, record in self._pairs}
        return tuple(
            LegacyMember(record_id=record_id, id_rule=row.id_rule, reasons=trials.reasons(row))
            for record_id, row in rows.items()
        )

    @property
    def tables(self) -> tuple[LegacyTableCount, ...]:
        """How many rows of each table of the revision were read."""
        rows = Counter(row.table for row in self.rows)
        rows[LegacyTable.KNOWLEDGE_SOURCES] = self.join_rows
        return tuple(LegacyTableCount(table=table.name, rows=rows[table.name]) for table in tables_of(self.revision))

    @property
    def source_digest(self) -> str:
        """The digest of what was read, wherever it lay and in whatever order."""
        records = self.records.values()
        return domain_digest(
            "legacy-source",
            {
                "format": self.format.value,
                "revision": self.revision,
                "rows": sorted([record.source_table.value, record.legacy_id, record.sha256] for record in records),
                "artifacts": [artifact.as_json() for artifact in self.artifacts],
            },
        )

    @property
    def reasons(self) -> Counter[LegacyReason]:
        """How many records each reason holds back."""
        return Counter(reason for member in self.members for reason in member.reasons)

    @property
    def receipt(self) -> LegacyImport:
        """The receipt that is appended once every record was read back."""
        return LegacyImport(
            created_at=newest(row.created_at for row in self.rows),
            source_system=SYSTEM,
            source_format=self.format,
            source_revision=self.revision,
            source_digest=self.source_digest,
            tables=self.tables,
            artifacts=self.artifacts,
            members=self.members,
        )


def record_of(row: LegacyRow) -> LegacyRecord:
    """Return the record that keeps a row."""
    sources = row.payload["source_experience_ids"] if row.table is LegacyTable.KNOWLEDGE else ()
    return LegacyRecord(
        created_at=row.created_at,
        source_system=SYSTEM,
        source_table=row.table,
        legacy_id=legacy_key(row.record_id),
        content=base64.b64encode(row.data).decode("ascii"),
        sha256=digest_bytes(row.data),
        sources=tuple(LegacySource(experience_id=legacy_key(each)) for each in sources),
    )
