"""One record of each kind of lineage memory: a root, its child, what is remembered of the child."""

from __future__ import annotations

from typing import Any

from records.base import Record
from records.ids import LineageEntryId, NodeReportId
from records.lineage import (
    ArtifactRole,
    Attribute,
    Change,
    EntryArtifact,
    EntryIntegrity,
    EntryKind,
    FileChange,
    MetricPointer,
    NodeArtifact,
    NodeLabel,
    NodeMetric,
    NodeReport,
    NodeReportRef,
    NodeStatus,
    NotFinite,
    NotFiniteMetric,
    Repair,
    RepairCode,
    ReportShape,
    ReproducibilityEvent,
    Reproduction,
    Statement,
    integrity_of,
)
from records.values import ArtifactRef, Direction
from tests.support.trials import NOW, digest

RESULTS = "fold,accuracy\n1,0.93\n"


def make_artifact(path: str = "bench.csv", text: str | None = RESULTS, claimed: str | None = RESULTS) -> NodeArtifact:
    """Return a file that was read as `text` and claimed to be `claimed`; null is that it was not."""
    said, read = (None if each is None else digest(each) for each in (claimed, text))
    return NodeArtifact(
        relative_path=path, role=ArtifactRole.DATA_OUTPUT, claimed=said,
        claimed_bytes=None if claimed is None else len(claimed), computed=read,
        size_bytes=None if text is None else len(text), integrity=integrity_of(said, read),
    )  # fmt: skip


def make_report(
    namespace: str = "test", node: str = "node_root", parent: NodeReport | None = None, **changes: Any
) -> NodeReport:
    """Return the report of a node below a parent; without one, of a root."""
    content = f"the report of {node}"
    fields: dict[str, Any] = {
        "namespace": namespace, "created_at": NOW, "checkpoint_id": "run-1", "node_id": node,
        "parent_node_id": None if parent is None else parent.node_id,
        "parent_report_id": None if parent is None else NodeReportId(parent.id),
        "ancestors": () if parent is None else (*parent.ancestors, parent.node_id), "report_digest": digest(content),
        "report": ArtifactRef(role="node-report", sha256=digest(content), size_bytes=len(content)),
        "shape": ReportShape.SCHEMA, "repairs": (Repair(code=RepairCode.METRIC_NOT_FINITE, field="metrics.loss"),),
        "label": NodeLabel.IMPROVE, "raw_label": "Improve", "status": NodeStatus.SUCCESS, "raw_status": "success",
        "evaluation_status": None, "metrics": (NodeMetric(name="accuracy", value="0.93"),),
        "not_finite": (NotFiniteMetric(name="loss", value=NotFinite.NAN),),
        "files_changed": (
            FileChange(change=Change.ADDED, relative_path="bench.csv", before=None, after=digest(RESULTS)),
        ),
        "artifacts": (make_artifact(),),
    }  # fmt: skip
    return NodeReport.build(**(fields | changes))


def report_ref(report: NodeReport) -> dict[str, Any]:
    """Return the fields by which an entry rests on a report."""
    ref = NodeReportRef(run_id=report.checkpoint_id, node_id=report.node_id, digest=report.report_digest)
    return {"node_report_id": NodeReportId(report.id), "report_ref": ref}


def entry_fields(report: NodeReport, **changes: Any) -> dict[str, Any]:
    """Return what every entry of a report's node has."""
    fields: dict[str, Any] = {
        "namespace": report.namespace, "created_at": NOW, "checkpoint_id": report.checkpoint_id,
        "node_id": report.node_id, "ancestors": report.ancestors, **report_ref(report),
        "text": "A scaled model reaches an accuracy of 0.93.",
        "artifacts": (
            EntryArtifact(
                relative_path="bench.csv", sha256=digest(RESULTS), size_bytes=len(RESULTS),
                role=ArtifactRole.DATA_OUTPUT, integrity=EntryIntegrity.VERIFIED,
            ),
        ),
        "metric": MetricPointer(name="accuracy", value="0.93", unit="share", direction=Direction.MAXIMIZE),
        "confidence": "0.9", "created_by": "node", "policy": None,
        "attributes": (Attribute(name="model", value="svm"),),
    }  # fmt: skip
    return fields | changes


def make_entry(report: NodeReport, kind: EntryKind = EntryKind.EXPERIMENT_RESULT, **changes: Any) -> Statement:
    """Return an entry of a report's node."""
    return Statement.build(**entry_fields(report, entry_kind=kind, **changes))


def make_rerun(entry: Statement, report: NodeReport, **changes: Any) -> ReproducibilityEvent:
    """Return that the node of a report reran what an entry says, and it held."""
    own: dict[str, Any] = {
        "text": "The rerun gave the same value.", "artifacts": (), "metric": None, "attributes": (),
        "target_id": LineageEntryId(entry.id), "status": Reproduction.RERUN_PASSED, "observed_at": NOW,
    }  # fmt: skip
    return ReproducibilityEvent.build(**entry_fields(report, **(own | changes)))


def lineage_samples(namespace: str = "test") -> dict[str, Record]:
    """Return a node's report and an entry of it, by noun; both stand on nothing else."""
    report = make_report(namespace)
    return {"node-report": report, "lineage-entry": make_entry(report)}


def lineage_variants(namespace: str = "test") -> dict[str, Record]:
    """Return what `lineage_samples` has no place for, as `<noun>/<discriminator>`."""
    report = make_report(namespace)
    return {"lineage-entry/reproducibility_event": make_rerun(make_entry(report), report)}
