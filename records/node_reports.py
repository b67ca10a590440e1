"""What the nodes of a search tree report (spec 003): lineage, outcome, measurements, files.

Rules kept here:

- the report is kept once, as an artifact; its record holds what was read from those bytes and how;
- ancestors are ordered from the root to the parent, named once each, and never hold the node itself;
- a file is named by a path that is relative and stays inside its node's folder. It is *verified* only if its bytes were
  read and their digest is the one that was claimed; a digest that was computed and never claimed is no verification;
- a number is finite; what a report measured as NaN or infinite stays a typed fact beside the metrics.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final, Self

from pydantic import AfterValidator, StringConstraints, model_validator

from records.base import Child, Kind, Record
from records.fields import Digest, Metric, Text
from records.ids import NodeReportId
from records.models import Model
from records.values import ArtifactRef, Count

_PATH_LIMIT: Final = 1_000
NODE_PATTERN: Final = r"^[A-Za-z0-9][A-Za-z0-9_.:+=@-]{0,199}$"
NodeName = Annotated[str, StringConstraints(pattern=NODE_PATTERN)]
"""The name of a node or a checkpoint, which is also that of its folder: no separator, no leading dot."""
Label = Annotated[Text, StringConstraints(min_length=1, max_length=2_000)]
"""A short text that somebody gave."""


def path_fault(path: str) -> str | None:
    """Return why a text is no safe relative path; None if it is one."""
    if not 0 < len(path) <= _PATH_LIMIT:
        return "a path has 1 to 1,000 characters"
    if path.startswith("/") or "\\" in path or ":" in path.partition("/")[0]:
        return "a path is relative, with / between its parts"
    if any(part in ("", ".", "..") for part in path.split("/")):
        return "a path has no empty part, and none that leads out of its folder"
    return None if path.isprintable() else "a path has no control characters"


def _check_path(path: str) -> str:
    fault = path_fault(path)
    if fault is not None:
        raise ValueError(fault)
    return path


SafePath = Annotated[Text, AfterValidator(_check_path)]
"""A path below the folder of a node, as POSIX writes it."""


class NodeLabel(StrEnum):
    """What a node was made for in the search."""

    DRAFT = "draft"
    IMPROVE = "improve"
    DEBUG = "debug"
    ABLATION = "ablation"
    VALIDATION = "validation"
    OTHER = "other"


class NodeStatus(StrEnum):
    """How a node ended; `error` is the stub that a failed build leaves."""

    SUCCESS = "success"
    FAILED = "failed"
    ABANDONED = "abandoned"
    ERROR = "error"


class EvaluationStatus(StrEnum):
    """What a newer report says of its measurement; a fault of the infrastructure is no result of zero."""

    VALID = "valid"
    CANDIDATE_INVALID = "candidate_invalid"
    INFRASTRUCTURE_ERROR = "infrastructure_error"


class ReportShape(StrEnum):
    """The published shape that a report came in: of the JSON Schema, or of the reference page."""

    SCHEMA = "schema"
    REFERENCE_PAGE = "reference_page"


class RepairCode(StrEnum):
    """What was read otherwise than it was written, or left in the report's bytes alone."""

    STATUS_COMPLETED = "status_completed"
    LABEL_MISSING = "label_missing"
    LABEL_UNKNOWN = "label_unknown"
    ANCESTORS_FROM_PARENT = "ancestors_from_parent"
    PARENT_FROM_ANCESTORS = "parent_from_ancestors"
    DEPTH_MISSING = "depth_missing"
    TIME_FROM_START = "time_from_start"
    TIME_FROM_FILE = "time_from_file"
    METRIC_NOT_FINITE = "metric_not_finite"
    METRIC_NOT_NUMERIC = "metric_not_numeric"
    ARTIFACT_BY_PATH = "artifact_by_path"
    ARTIFACT_ROLE = "artifact_role"
    ARTIFACT_INLINE = "artifact_inline"
    CHANGE_AS_TEXT = "change_as_text"
    CHANGES_MISSING = "changes_missing"
    DIGEST_UNREADABLE = "digest_unreadable"
    TEXT_NORMALISED = "text_normalised"


class Repair(Model):
    """One repair, and the field of the report that it concerns."""

    code: RepairCode
    field: Label


class NodeMetric(Model):
    """One number of a report, under the report's own name for it."""

    name: Label
    value: Metric


class NotFinite(StrEnum):
    """A value that is no number to reckon with."""

    NAN = "nan"
    INFINITE = "infinite"
    MINUS_INFINITE = "minus_infinite"


class NotFiniteMetric(Model):
    """A metric that a report has, and that is not finite."""

    name: Label
    value: NotFinite


class Change(StrEnum):
    """What a node did to a file, relative to its parent."""

    ADDED = "added"
    MODIFIED = "modified"
    DELETED = "deleted"
    INHERITED = "inherited_unchanged"


class FileChange(Model):
    """A file that a node touched or took over; digests are what the report claims, null where it claims none."""

    change: Change
    relative_path: SafePath
    before: Digest | None
    after: Digest | None


class ArtifactRole(StrEnum):
    """What a file is to the node that made it; `source` is code, which is evidence of no measurement."""

    DATA_OUTPUT = "data_output"
    LOG = "log"
    BINARY = "binary"
    FIGURE = "figure"
    SOURCE = "source"
    UNKNOWN = "unknown"


class Integrity(StrEnum):
    """What reading a file said of the digest that was claimed for it; `unhashed` is that none was."""

    VERIFIED = "verified"
    MISSING = "missing"
    MISMATCH = "mismatch"
    UNHASHED = "unhashed"


def integrity_of(claimed: str | None, computed: str | None) -> Integrity:
    """Return what follows from the digest that was claimed and the one that was computed, if the file was there."""
    if computed is None:
        return Integrity.MISSING
    if claimed is None:
        return Integrity.UNHASHED
    return Integrity.VERIFIED if claimed == computed else Integrity.MISMATCH


class NodeArtifact(Model):
    """A file that a report names.

    Attributes:
        claimed: the digest that the report gives; `claimed_bytes` is the size that it gives.
        computed: the digest of the bytes that were read when the report was imported; `size_bytes` is how many.
    """

    relative_path: SafePath
    role: ArtifactRole
    claimed: Digest | None
    claimed_bytes: Count | None
    computed: Digest | None
    size_bytes: Count | None
    integrity: Integrity

    @model_validator(mode="after")
    def _follows(self) -> Self:
        if self.integrity is not integrity_of(self.claimed, self.computed):
            raise ValueError("the integrity follows from the claimed and the computed digest")
        if (self.computed is None) != (self.size_bytes is None):
            raise ValueError("a file that was read has a digest and a size")
        return self


def require_lineage(node: str, ancestors: tuple[str, ...]) -> None:
    """Refuse ancestors that name a node twice, or the node itself.

    Raises:
        ValueError: they do.
    """
    if len(set(ancestors)) != len(ancestors):
        raise ValueError("every ancestor is named once")
    if node in ancestors:
        raise ValueError("a node is none of its own ancestors")


class NodeReport(
    Record,
    kind=Kind(
        noun="node-report",
        table="node_reports",
        columns=("checkpoint_id", "node_id", "report_digest"),
        unique=(("namespace", "checkpoint_id", "node_id"),),
        children=(
            Child(
                path="artifacts",
                table="node_report_artifacts",
                columns=("relative_path", "claimed", "computed", "integrity"),
                unique=("relative_path",),
            ),
        ),
    ),
):
    """The report of one node of one checkpoint; a node has one, and it never changes.

    `created_at` is when the node was completed, as its report says.

    Attributes:
        checkpoint_id: the run whose tree the node is in; the folder above the node's.
        parent_report_id: the report of the parent; null for the root.
        report_digest: digest of the report's bytes, which `report` names in the artifact store.
        shape: the published shape it came in; `repairs` says what of it was read otherwise than written.
        raw_label: the planner's own word; null where the report has none. `raw_status` is as it was written.
        metrics: the finite ones, sorted by name; what is not finite is in `not_finite`.
    """

    checkpoint_id: NodeName
    node_id: NodeName
    parent_node_id: NodeName | None
    parent_report_id: NodeReportId | None
    ancestors: tuple[NodeName, ...]
    report_digest: Digest
    report: ArtifactRef
    shape: ReportShape
    repairs: tuple[Repair, ...]
    label: NodeLabel
    raw_label: Label | None
    status: NodeStatus
    raw_status: Label
    evaluation_status: EvaluationStatus | None
    metrics: tuple[NodeMetric, ...]
    not_finite: tuple[NotFiniteMetric, ...]
    files_changed: tuple[FileChange, ...]
    artifacts: tuple[NodeArtifact, ...]

    @model_validator(mode="after")
    def _hangs_together(self) -> Self:
        require_lineage(self.node_id, self.ancestors)
        if self.parent_node_id != (self.ancestors[-1] if self.ancestors else None):
            raise ValueError("the last ancestor is the parent")
        if (self.parent_node_id is None) != (self.parent_report_id is None):
            raise ValueError("a parent is named with its report")
        if self.report.sha256 != self.report_digest:
            raise ValueError("the digest of the report is that of its artifact")
        finite, other = [each.name for each in self.metrics], [each.name for each in self.not_finite]
        if finite != sorted(set(finite)) or other != sorted(set(other)) or set(finite) & set(other):
            raise ValueError("metrics are sorted by name, each named once")
        return self

    @property
    def is_sterile(self) -> bool:
        """Whether the node changed no file."""
        return all(each.change is Change.INHERITED for each in self.files_changed)
