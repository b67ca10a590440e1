"""Records of earlier ledgers, kept byte by byte and never promoted (spec 6.3, 14; docs/adr/0051).

Rules kept here:

- a legacy record holds the exact bytes of one payload as its source had them, in base64: they may be text that is not
  NFC, or numbers without canonical form, which no field of a record could hold;
- both kinds are at home in `legacy_unscoped` and advance no frontier; no other record stands there, and a reference
  never leaves its namespace, so what is legacy can be a member of no snapshot and support no rule;
- identity covers system, table, legacy id and bytes, not the ledger they were found in: the same row found in two
  ledgers, or before and after the migration of one, is one record;
- every member of an import says why it cannot be promoted; there is no import without that.
"""

from __future__ import annotations

import base64
import binascii
import json
from enum import StrEnum
from typing import Annotated, Final, Literal

from pydantic import Field, StringConstraints, model_validator

from records.base import Child, Kind, Record
from records.canonical import digest_bytes
from records.errors import InvalidInputError
from records.fields import UNSCOPED, Digest, Name, Text
from records.ids import LegacyRecordId
from records.models import Model
from records.values import Count

MAX_PAYLOAD: Final = 32 * 2**20
"""Bytes that one legacy payload may have."""

LegacyKey = Annotated[str, StringConstraints(pattern=r"^[ -~]{1,1000}$")]
"""A legacy id as JSON writes it in ASCII, without the quotes: any text, in a form that an index can hold."""
_Content = Annotated[str, StringConstraints(max_length=MAX_PAYLOAD // 3 * 4 + 4, pattern=r"^[A-Za-z0-9+/]*={0,2}$")]


class LegacySystem(StrEnum):
    """The program that wrote the records."""

    AI_RESEARCHER = "ai-researcher"


class LegacyTable(StrEnum):
    """The eleven tables of its schema revision 2; revision 1 has the first nine."""

    HYPOTHESES = "hypotheses"
    ATTEMPTS = "experiment_attempts"
    OBSERVATIONS = "observations"
    VERIFICATIONS = "verification_records"
    EXPERIENCES = "experience_records"
    KNOWLEDGE = "knowledge_records"
    KNOWLEDGE_SOURCES = "knowledge_sources"
    PROMOTIONS = "promotion_decisions"
    RECALLS = "recall_contexts"
    INTERVENTIONS = "intervention_records"
    PROVENANCES = "trial_provenance_records"


class LegacyReason(StrEnum):
    """Why a legacy record cannot be promoted; `legacy_unscoped` where its evidence lacks nothing but a scope."""

    MISSING_PROVENANCE = "missing_trial_provenance"
    MISSING_ACTION = "missing_typed_action"
    UNSCOPED = "legacy_unscoped"


class LegacySource(Model):
    """One row of the join table `knowledge_sources`: an experience that a knowledge record names as its source."""

    experience_id: LegacyKey


class LegacyRecord(
    Record,
    kind=Kind(
        noun="legacy-record",
        table="legacy_records",
        columns=("source_table", "legacy_id"),
        children=(Child(path="sources", table="legacy_knowledge_sources", columns=("experience_id",)),),
        unscoped=True,
    ),
):
    """One row of an earlier ledger.

    `content` is the payload's bytes in base64, `sha256` their digest. `sources` are the rows that the join table has
    for a knowledge record, in the order of its payload; they are a projection of it (spec 6.3), and empty elsewhere.
    `created_at` is the payload's own time in UTC.
    """

    namespace: Literal["legacy_unscoped"] = UNSCOPED
    source_system: LegacySystem
    source_table: LegacyTable
    legacy_id: LegacyKey
    content: _Content
    sha256: Digest
    sources: tuple[LegacySource, ...]

    @model_validator(mode="after")
    def _content_is_what_it_says(self) -> LegacyRecord:
        try:
            data = base64.b64decode(self.content, validate=True)
        except binascii.Error as error:
            raise ValueError("content is base64") from error
        if base64.b64encode(data).decode("ascii") != self.content or digest_bytes(data) != self.sha256:
            raise ValueError("content is the one base64 text of the bytes whose SHA-256 is given")
        if self.source_table is LegacyTable.KNOWLEDGE_SOURCES:
            raise ValueError("a row of the join table belongs to its knowledge record")
        if self.sources and self.source_table is not LegacyTable.KNOWLEDGE:
            raise ValueError("only a knowledge record has sources")
        return self

    @property
    def data(self) -> bytes:
        """The payload's bytes, exactly as the source had them."""
        return base64.b64decode(self.content)


class LegacyMember(Model):
    """One record of an import: by which rule its legacy id was computed again, and what keeps it from promotion.

    `id_rule` is null where the id is a name that somebody gave, or where no rule is known for its table.
    """

    record_id: LegacyRecordId
    id_rule: Name | None
    reasons: Annotated[tuple[LegacyReason, ...], Field(min_length=1)]


class LegacyFormat(StrEnum):
    """What was read."""

    SQLITE_LEDGER = "sqlite-ledger"
    PHASE3_BUNDLE = "scientist-bench-phase3"


class LegacyTableCount(Model):
    """How many rows of a table were read."""

    table: LegacyTable
    rows: Count


class LegacyArtifactStatus(StrEnum):
    """What became of a published digest; a mismatch refuses the import, so no receipt says so."""

    VERIFIED = "verified"
    MISSING = "missing"


class LegacyArtifact(Model):
    """A file that the source publishes a digest of; the bytes of a verified one are in the artifact store."""

    path: Text
    sha256: Digest
    size_bytes: Count
    status: LegacyArtifactStatus


class LegacyImport(
    Record,
    kind=Kind(
        noun="legacy-import",
        table="legacy_imports",
        columns=("source_digest",),
        children=(Child(path="members", table="legacy_import_members", columns=("record_id",)),),
        unscoped=True,
    ),
):
    """The receipt of one import: written last, once every record was read back with the bytes of its source.

    `source_digest` covers the rows and the published digests, not the file: copying or compacting a database changes
    nothing. `created_at` is the newest time among the records, or the epoch where there are none.
    """

    namespace: Literal["legacy_unscoped"] = UNSCOPED
    source_system: LegacySystem
    source_format: LegacyFormat
    source_revision: Annotated[int, Field(ge=1, le=2)]
    source_digest: Digest
    tables: tuple[LegacyTableCount, ...]
    artifacts: tuple[LegacyArtifact, ...]
    members: tuple[LegacyMember, ...]


def legacy_key(text: str) -> str:
    """Return a legacy id as records hold it."""
    return json.dumps(text)[1:-1]


def require_scoped(namespace: str) -> None:
    """Refuse to learn from, or recall from, what has no scope.

    Raises:
        InvalidInputError: the namespace is `legacy_unscoped`.
    """
    if namespace == UNSCOPED:
        remedy = "Legacy records are kept to be read and are never recalled; name another namespace."
        raise InvalidInputError("namespace", namespace, remedy)
