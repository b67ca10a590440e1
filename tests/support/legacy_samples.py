"""One record of each legacy kind; they stand in a namespace of their own, so they are not among `sample_records`."""

from __future__ import annotations

import base64

from records.base import Record
from records.ids import LegacyRecordId
from records.legacy import (
    LegacyArtifact,
    LegacyArtifactStatus,
    LegacyFormat,
    LegacyImport,
    LegacyMember,
    LegacyReason,
    LegacyRecord,
    LegacySource,
    LegacySystem,
    LegacyTable,
    LegacyTableCount,
)
from tests.support.decision_samples import sample_records
from tests.support.samples import by_noun
from tests.support.trials import NOW, digest

CONTENT = '{"lesson":"e\u0301, not NFC"}'


def legacy_record() -> LegacyRecord:
    """Return a knowledge record whose text is not NFC."""
    return LegacyRecord(
        created_at=NOW,
        source_system=LegacySystem.AI_RESEARCHER,
        source_table=LegacyTable.KNOWLEDGE,
        legacy_id="knowledge-1",
        content=base64.b64encode(CONTENT.encode()).decode(),
        sha256=digest(CONTENT),
        sources=(LegacySource(experience_id="experience-1"),),
    )


def legacy_samples() -> dict[str, Record]:
    """Return a legacy record and the receipt of its import, by noun."""
    record = legacy_record()
    reasons = (LegacyReason.MISSING_PROVENANCE, LegacyReason.MISSING_ACTION)
    receipt = LegacyImport(
        created_at=NOW,
        source_system=LegacySystem.AI_RESEARCHER,
        source_format=LegacyFormat.PHASE3_BUNDLE,
        source_revision=1,
        source_digest=digest("source"),
        tables=(LegacyTableCount(table=LegacyTable.KNOWLEDGE, rows=1),),
        artifacts=(
            LegacyArtifact(path="a:b/run.log", sha256=digest("a"), size_bytes=1, status=LegacyArtifactStatus.MISSING),
        ),
        members=(LegacyMember(record_id=LegacyRecordId(record.id), id_rule="knowledge", reasons=reasons),),
    )
    return by_noun(record, receipt)


def every_sample() -> dict[str, Record]:
    """Return one record of every kind, by noun."""
    return sample_records() | legacy_samples()
