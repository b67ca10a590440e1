"""Lineage memory: what is remembered of the nodes of a search tree (spec 003); their reports: `records.node_reports`.

Rules kept here:

- nothing here is evidence: no kind advances a frontier, and no record of another plane has a field that takes an id of
  these nouns. A node supports a rule only after its report was completed to a bundle;
- an entry points at its node's report by run, node and digest, and copies none of its fields;
- a number that an entry points at is finite and has its unit;
- whether a result was reproduced is told by further entries, each about one earlier entry; no entry ever changes.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal, Self

from pydantic import StringConstraints, model_validator

from records.base import Child, Kind, Record
from records.fields import Digest, Metric, Name, Text, Timestamp
from records.ids import LineageEntryId, NodeReportId
from records.models import Model
from records.node_reports import (
    NODE_PATTERN,
    ArtifactRole,
    Change,
    EvaluationStatus,
    FileChange,
    Integrity,
    Label,
    NodeArtifact,
    NodeLabel,
    NodeMetric,
    NodeName,
    NodeReport,
    NodeStatus,
    NotFinite,
    NotFiniteMetric,
    Repair,
    RepairCode,
    ReportShape,
    SafePath,
    integrity_of,
    path_fault,
    require_lineage,
)
from records.values import Count, Direction, PolicyIdentity

__all__ = [
    "NODE_PATTERN",
    "ArtifactRole",
    "Attribute",
    "Change",
    "EntryArtifact",
    "EntryIntegrity",
    "EntryKind",
    "EvaluationStatus",
    "FileChange",
    "Integrity",
    "Label",
    "LineageEntry",
    "MetricPointer",
    "NodeArtifact",
    "NodeLabel",
    "NodeMetric",
    "NodeName",
    "NodeReport",
    "NodeReportRef",
    "NodeStatus",
    "NotFinite",
    "NotFiniteMetric",
    "Repair",
    "RepairCode",
    "ReportShape",
    "ReproducibilityEvent",
    "Reproduction",
    "SafePath",
    "Statement",
    "integrity_of",
    "path_fault",
    "require_lineage",
]


class EntryKind(StrEnum):
    """The closed list of what an entry of lineage memory can be (spec 003, principle 5)."""

    OBSERVATION = "observation"
    EXPERIMENT_RESULT = "experiment_result"
    FAILURE_CASE = "failure_case"
    PROCEDURE = "procedure"
    REFLECTION = "reflection"
    ARTIFACT_SUMMARY = "artifact_summary"
    PAPER_CLAIM = "paper_claim"
    REPRODUCIBILITY_EVENT = "reproducibility_event"


class Reproduction(StrEnum):
    """What is known of whether a result can be reproduced."""

    UNVERIFIED = "unverified"
    RERUN_PASSED = "rerun_passed"
    RERUN_FAILED = "rerun_failed"
    PAPER_ONLY_REPRODUCED = "paper_only_reproduced"


class EntryIntegrity(StrEnum):
    """Whether whoever wrote an entry read a file and found the digest that was claimed for it."""

    VERIFIED = "verified"
    UNVERIFIED = "unverified"


class EntryArtifact(Model):
    """A file that an entry rests on: its path in the node's folder, the digest and the size of its bytes."""

    relative_path: SafePath
    sha256: Digest
    size_bytes: Count
    role: ArtifactRole
    integrity: EntryIntegrity


class NodeReportRef(Model):
    """The report that an entry rests on: its run, its node, and the digest of its bytes."""

    run_id: NodeName
    node_id: NodeName
    digest: Digest


class MetricPointer(Model):
    """One number with its unit; `direction` is null where nobody declared which way is better."""

    name: Label
    value: Metric
    unit: Name
    direction: Direction | None


class Attribute(Model):
    """One further fact about an entry."""

    name: Name
    value: Text


class LineageEntry(
    Record,
    kind=Kind(
        noun="lineage-entry",
        table="lineage_entries",
        columns=("checkpoint_id", "node_id"),
        children=(
            Child(
                path="artifacts",
                table="lineage_entry_artifacts",
                columns=("relative_path", "sha256", "integrity"),
                unique=("relative_path",),
            ),
        ),
        discriminator="entry_kind",
    ),
):
    """One entry of lineage memory, written by the node that it is about, and never changed.

    Attributes:
        checkpoint_id: the run whose tree the node is in.
        node_id: the node that wrote it.
        ancestors: that node's, from the root to the parent.
        node_report_id: the report that it rests on, which `report_ref` names by content; null where it rests on none.
        target_id: the entry that a reproducibility event is about; null for every other entry.
        confidence: as whoever wrote it holds it, from 0 to 1; null where nobody said.
        created_by: what wrote it; `policy` is the policy that decided it, null for what a node wrote itself.
        attributes: sorted by name, each named once.
    """

    entry_kind: EntryKind
    checkpoint_id: NodeName
    node_id: NodeName
    ancestors: tuple[NodeName, ...]
    text: Annotated[Text, StringConstraints(min_length=1)]
    artifacts: tuple[EntryArtifact, ...]
    node_report_id: NodeReportId | None
    report_ref: NodeReportRef | None
    metric: MetricPointer | None
    confidence: Metric | None
    created_by: Name
    policy: PolicyIdentity | None
    attributes: tuple[Attribute, ...]
    target_id: LineageEntryId | None

    @model_validator(mode="after")
    def _hangs_together(self) -> Self:
        require_lineage(self.node_id, self.ancestors)
        ref = self.report_ref
        if (ref is None) != (self.node_report_id is None):
            raise ValueError("a report is named by its record and by its content")
        if ref is not None and (ref.run_id, ref.node_id) != (self.checkpoint_id, self.node_id):
            raise ValueError("an entry rests on the report of its own node")
        if self.confidence is not None and not 0 <= float(self.confidence) <= 1:
            raise ValueError("a confidence is from 0 to 1")
        names = [each.name for each in self.attributes]
        if names != sorted(set(names)):
            raise ValueError("attributes are sorted by name, each named once")
        return self


class Statement(LineageEntry):
    """Every entry that says something of its own."""

    entry_kind: Literal[
        EntryKind.OBSERVATION,
        EntryKind.EXPERIMENT_RESULT,
        EntryKind.FAILURE_CASE,
        EntryKind.PROCEDURE,
        EntryKind.REFLECTION,
        EntryKind.ARTIFACT_SUMMARY,
        EntryKind.PAPER_CLAIM,
    ]
    target_id: None = None


class ReproducibilityEvent(LineageEntry):
    """What came of reproducing an earlier entry; of several about one entry the latest counts, when it is read.

    `observed_at` is when that was found out. It is part of the identity: the same outcome at another time is another
    event.
    """

    entry_kind: Literal[EntryKind.REPRODUCIBILITY_EVENT] = EntryKind.REPRODUCIBILITY_EVENT
    target_id: LineageEntryId
    status: Reproduction
    observed_at: Timestamp
