"""A report that was read, as a record: its lineage settled by its parent's, its files read and hashed.

Rules kept here: the ancestors of a node are what its parent's report says; a node whose own report says otherwise is
refused; every file that a report names is read below the node's folder, and says itself whether it is what was claimed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from importers.node_report.document import ReportDocument, node_name, read_document
from importers.node_report.files_named import Claimed
from importers.node_report.reasons import RefusalCode, Refused
from importers.node_report.tree import NAME, Located
from memory.lineage.files import FileFault, UnreadableFileError, hash_below, read_below
from records.canonical import digest_bytes
from records.ids import NodeReportId
from records.lineage import NodeArtifact, NodeReport, RepairCode, integrity_of
from records.models import refusing
from records.values import ArtifactRef

_FAULTS: Final = {
    FileFault.UNSAFE_PATH: RefusalCode.UNSAFE_PATH,
    FileFault.LINK: RefusalCode.LINK,
    FileFault.NOT_REGULAR: RefusalCode.NOT_REGULAR,
}


@dataclass(slots=True)
class ReadReport:
    """A report that was read and waits for its parent's; `changed_at` is the file's own time."""

    located: Located
    data: bytes
    changed_at: float
    document: ReportDocument
    report: NodeReport | None = None


def read_report(located: Located, max_bytes: int) -> ReadReport:
    """Read a report from its place.

    Raises:
        Refused: it is not taken, or it says that it stands elsewhere.
    """
    try:
        data, changed_at = read_below(located.folder, NAME, max_bytes)
    except UnreadableFileError as error:
        raise Refused(_FAULTS.get(error.fault, RefusalCode.UNREADABLE), NAME, error.path) from error
    document = read_document(data)
    node_name(located.checkpoint_id, "run")
    if document.node_id != located.node_id:
        raise Refused(RefusalCode.ELSEWHERE, "node_id", f"{document.node_id} in the folder {located.node_id}")
    return ReadReport(located, data, changed_at, document)


def record_of(namespace: str, read: ReadReport, known: Mapping[str, NodeReport]) -> NodeReport:
    """Return the record of a report: the one that is there, or a new one.

    Args:
        namespace: where it is to be.
        read: the report.
        known: the reports of its checkpoint that are there, by node.

    Raises:
        Refused: it contradicts one of them, or a file of it cannot be taken.
    """
    document, digest = read.document, digest_bytes(read.data)
    there = known.get(document.node_id)
    if there is not None:
        if there.report_digest != digest:
            raise Refused(RefusalCode.REPORT_CHANGED, "report", f"{digest}, and {there.report_digest} is there")
        return there
    parent = _parent(document, known)
    ended_at = document.ended_at
    if ended_at is None:
        document.repairs.add(RepairCode.TIME_FROM_FILE, "completed_at")
        ended_at = datetime.fromtimestamp(read.changed_at, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return _build(namespace, read, parent, ended_at)


@refusing()
def _build(namespace: str, read: ReadReport, parent: NodeReport | None, ended_at: str) -> NodeReport:
    digest = digest_bytes(read.data)
    document = read.document
    return NodeReport(
        namespace=namespace,
        created_at=ended_at,
        checkpoint_id=read.located.checkpoint_id,
        node_id=document.node_id,
        parent_node_id=None if parent is None else parent.node_id,
        parent_report_id=None if parent is None else NodeReportId(parent.id),
        ancestors=_after(parent),
        report_digest=digest,
        report=ArtifactRef(role="node-report", sha256=digest, size_bytes=len(read.data), media_type="application/json"),
        shape=document.shape,
        label=document.label,
        raw_label=document.raw_label,
        status=document.status,
        raw_status=document.raw_status,
        evaluation_status=document.evaluation_status,
        metrics=document.metrics,
        not_finite=document.not_finite,
        files_changed=document.files_changed,
        artifacts=tuple(_artifact(read.located, each) for each in document.artifacts),
        repairs=document.repairs.made,
    )


def _after(parent: NodeReport | None) -> tuple[str, ...]:
    """Return the ancestors of a child."""
    return () if parent is None else (*parent.ancestors, parent.node_id)


def _parent(document: ReportDocument, known: Mapping[str, NodeReport]) -> NodeReport | None:
    """Return the report of the parent, if what the report says of its lineage follows from it."""
    name = document.parent_node_id
    if name is None and not document.has_parent and document.depth != 0:
        raise Refused(RefusalCode.MISSING_FIELD, "parent_id", "missing, and the depth is not 0")
    parent = None if name is None else known.get(name)
    if name is not None and parent is None:
        raise Refused(RefusalCode.PARENT_MISSING, "parent_id", name)
    ancestors = _after(parent)
    if document.ancestors is None and ancestors:
        document.repairs.add(RepairCode.ANCESTORS_FROM_PARENT, "ancestor_ids")
    if document.ancestors not in (None, ancestors):
        met = f"{list(document.ancestors or ())}, and the parent's report says {list(ancestors)}"
        raise Refused(RefusalCode.ANCESTORS_CONTRADICT, "ancestor_ids", met)
    if document.depth not in (None, len(ancestors)):
        raise Refused(RefusalCode.DEPTH_CONTRADICTS, "depth", f"{document.depth}, with {len(ancestors)} ancestors")
    if document.node_id in ancestors:
        raise Refused(RefusalCode.CIRCLE, "parent_id", name)
    return parent


def _artifact(located: Located, claimed: Claimed) -> NodeArtifact:
    computed = size = None
    try:
        found = hash_below(located.folder, claimed.path)
    except UnreadableFileError as error:
        if error.fault is not FileFault.MISSING:
            code = _FAULTS.get(error.fault, RefusalCode.UNREADABLE)
            raise Refused(code, "artifacts", claimed.path) from error
    else:
        computed, size = found.sha256, found.size_bytes
    return NodeArtifact(
        relative_path=claimed.path,
        role=claimed.role,
        claimed=claimed.sha256,
        claimed_bytes=claimed.size_bytes,
        computed=computed,
        size_bytes=size,
        integrity=integrity_of(claimed.sha256, computed),
    )


def require_not_denied(report: NodeReport, denied: set[str]) -> None:
    """Refuse a report that retention denies.

    Raises:
        Refused: its record or its bytes were erased.
    """
    if not denied.isdisjoint({str(report.id), report.report_digest}):
        raise Refused(RefusalCode.DENIED, "report", str(report.id))
