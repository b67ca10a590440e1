"""What must hold inside the Ledger transaction when a node's report or an entry of lineage memory is appended.

Rules kept here: a node's ancestors are its parent's and the parent, as the parent's own report says; an entry rests on
the report of its own node, and says of its node what that report says, numbers and files included; a reproducibility
event is about an entry of the same checkpoint that says something of its own; nothing rests on what retention denies.
"""

from __future__ import annotations

from memory.guard_rules import Rules, first_broken, held, of, precondition
from memory.retention import revoked
from policies.lineage.grounding import contradiction
from records.appends import Append
from records.lineage import LineageEntry, NodeReport, ReproducibilityEvent, Statement
from store.ledger.port import LedgerReader, Refusal


def guard_lineage(reader: LedgerReader, append: Append) -> Refusal | None:
    """Refuse reports and entries that contradict what is there, or rest on what retention denies."""
    check = revoked(reader, append)
    if check is not None:
        return precondition(f"retention denies {check.blocked[0].target_id}")
    return first_broken(_reports(reader, append), precondition) or first_broken(_entries(reader, append), precondition)


def _reports(reader: LedgerReader, append: Append) -> Rules:
    for report in of(append, NodeReport):
        if report.parent_report_id is not None:
            parent = held(reader.get_many([report.parent_report_id]), report.parent_report_id, NodeReport)
            yield from child_rules(report, parent)


def child_rules(report: NodeReport, parent: NodeReport | None) -> Rules:
    """Say what a report must be to its parent's, which it names by id."""
    yield parent is not None, "the report of the parent is not there"
    if parent is not None:
        same = (parent.checkpoint_id, parent.node_id) == (report.checkpoint_id, report.parent_node_id)
        yield same, "the report of the parent is another node's"
        follows = report.ancestors == (*parent.ancestors, parent.node_id)
        yield follows, "the ancestors are not those of the parent, and the parent"


def _entries(reader: LedgerReader, append: Append) -> Rules:
    for entry in of(append, LineageEntry):
        report = _report(reader, entry, entry.node_id)
        if report is not None:
            yield entry.ancestors == report.ancestors, f"the report of {entry.node_id} names other ancestors"
            yield from _same_facts(entry, report)
        elif entry.ancestors:
            above = _report(reader, entry, entry.ancestors[-1])
            known = above is None or entry.ancestors == (*above.ancestors, above.node_id)
            yield known, f"the report of {entry.ancestors[-1]} names other ancestors"
        yield from report_rules(entry, report)
        if isinstance(entry, ReproducibilityEvent):
            yield from target_rules(entry, held(reader.get_many([entry.target_id]), entry.target_id, LineageEntry))


def _report(reader: LedgerReader, entry: LineageEntry, node: str) -> NodeReport | None:
    rows = reader.find(NodeReport.kind.noun, entry.namespace, checkpoint_id=entry.checkpoint_id, node_id=node)
    report = rows[0].load() if rows else None
    return report if isinstance(report, NodeReport) else None


def report_rules(entry: LineageEntry, report: NodeReport | None) -> Rules:
    """Say what an entry must be to the report that it rests on, if it rests on one."""
    if entry.report_ref is None:
        return
    yield report is not None and report.id == entry.node_report_id, "the report that the entry rests on is not there"
    if report is not None:
        yield report.report_digest == entry.report_ref.digest, "the report has other bytes than the entry names"
        here = (report.checkpoint_id, report.node_id, report.ancestors)
        yield here == (entry.checkpoint_id, entry.node_id, entry.ancestors), "the report is another node's"
        yield from _same_facts(entry, report)


def _same_facts(entry: LineageEntry, report: NodeReport) -> Rules:
    otherwise = contradiction(entry, report)
    yield otherwise is None, f"the entry contradicts its report: {otherwise}"


def target_rules(event: ReproducibilityEvent, target: LineageEntry | None) -> Rules:
    """Say what a reproducibility event must be to the entry that it is about."""
    yield isinstance(target, Statement), "a reproducibility event is about an entry that says something"
    near = target is not None and target.checkpoint_id == event.checkpoint_id
    yield near, "a reproducibility event is about an entry of its own checkpoint"
