"""Lineage memory: nodes follow from their parents, entries from their reports, events are about entries (spec 003)."""

from __future__ import annotations

from memory.fsck.case import Case, Chunk
from memory.fsck.codes import Code
from memory.guard_rules import Rules
from memory.lineage.guards import child_rules, report_rules, target_rules
from records.lineage import LineageEntry, NodeReport, ReproducibilityEvent


def check_lineage(case: Case, chunk: Chunk) -> None:
    """Check the reports and entries of a stretch of journal; one that leads nowhere is another check's finding."""
    reports, entries = chunk.of(NodeReport), chunk.of(LineageEntry)
    if not reports and not entries:
        return
    above = [each.parent_report_id for each in reports.values()] + [each.node_report_id for each in entries.values()]
    known = case.read((each for each in above if each is not None), NodeReport)
    for key, report in reports.items():
        parent = known.get(str(report.parent_report_id))
        if parent is not None:
            _tell(case, key, child_rules(report, parent))
    targets = case.read((each.target_id for each in entries.values() if each.target_id is not None), LineageEntry)
    for key, entry in entries.items():
        own = known.get(str(entry.node_report_id))
        if own is not None:
            _tell(case, key, report_rules(entry, own))
        if isinstance(entry, ReproducibilityEvent) and entry.target_id in targets:
            _tell(case, key, target_rules(entry, targets[entry.target_id]))


def _tell(case: Case, key: str, rules: Rules) -> None:
    for holds, rule in rules:
        if not holds:
            case.findings.add(Code.LINEAGE_MISMATCH, key, rule)
            return
