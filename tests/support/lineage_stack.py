"""Lineage memory over a stack: a search imported, its files audited, entries written by a node."""

from __future__ import annotations

from pathlib import Path

from importers.node_report.importing import Consolidating, ImportedReport, ImportPorts, import_reports
from importers.node_report.tree import locate
from memory.lineage.audit import ArtifactAudit, audit_artifacts
from memory.lineage.writing import LineagePorts, LineageWriter, Node
from policies.lineage.policy import HeadlineMetric, consolidation_policy
from records.appends import Append
from records.base import Record
from records.flows import Transition
from records.lineage import (
    NodeReport,
)
from records.values import Direction
from tests.support.lineage_tree import (
    METRIC,
)
from tests.support.stack import Stack
from tests.support.stores import expect, ticking_clock

DECLARED = HeadlineMetric(name=METRIC, unit="share", direction=Direction.MAXIMIZE)
HOW = Consolidating(policy=consolidation_policy(), declared=DECLARED)


def lineage(stack: Stack) -> LineagePorts:
    """Return where lineage memory is, through the stack."""
    return LineagePorts(ledger=stack.stores.ledger, coordinator=stack.coordinator)


def imported(stack: Stack, *paths: Path, how: Consolidating = HOW) -> dict[str, ImportedReport]:
    """Import reports and return by node what became of each."""
    ports = ImportPorts(lineage=lineage(stack), artifacts=stack.stores.artifacts, namespace=stack.namespace)
    return {each.located.node_id: each for each in import_reports(ports, locate(paths), how)}


def outcomes(found: dict[str, ImportedReport]) -> dict[str, str]:
    """Return by node the outcome, or why it was refused."""
    return {name: each.outcome.value if each.code is None else each.code.value for name, each in found.items()}


def report_of(each: ImportedReport) -> NodeReport:
    """Return the record of a report that was taken."""
    return expect(NodeReport, each.report)  # type: ignore[no-any-return]  # it is of that class


def audited(stack: Stack, root: Path, checkpoint: str | None = None) -> ArtifactAudit:
    """Audit the files of a namespace."""
    with stack.stores.ledger.reading() as reader:
        return audit_artifacts(reader, stack.namespace, root, checkpoint)


def writer(stack: Stack, node: str = "node_scaled", root: Path | None = None) -> LineageWriter:
    """Return the writer of a node of `run_0`."""
    who = Node(namespace=stack.namespace, checkpoint_id="run_0", node_id=node)
    return LineageWriter(lineage(stack), who, ticking_clock(), None if root is None else root / "run_0" / node)


def append(stack: Stack, transition: Transition, *records: Record) -> object:
    """Offer records to the coordinator itself, and return its answer."""
    (answer,) = stack.coordinator.append_direct([Append.direct(transition, str(records[0].id), records)])
    return answer
