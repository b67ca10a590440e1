"""What must hold inside the Ledger transaction when a node's report or an entry of lineage memory is appended.

Rules kept here: a node's ancestors are its parent's and the parent, as the parent's own report says; an entry rests on
the report of its own node, and says of its node what that report says; a reproducibility event is about an entry of the
same checkpoint that says something of its own; nothing rests on what retention denies.
"""

from __future__ import annotations

from memory.guard_rules import Rules, first_broken, held, of, precondition
from memory.retention import revoked
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
        if report.parent_report_id is None:
            continue
        parent = held(reader.get_many([report.parent_report_id]), report.parent_report_id, NodeReport)
        yield parent is not None, "the report of the parent is not there"
        named = parent is not None and (parent.checkpoint_id, parent.node_id) == (
            report.checkpoint_id,
            report.parent_node_id,
        )
        yield named, "the report of the parent is another node's"
        follows = parent is not None and report.ancestors == (*parent.ancestors, parent.node_id)
        yield follows, "the ancestors are not those of the parent, and the parent"


def _entries(reader: LedgerReader, append: Append) -> Rules:
    for entry in of(append, LineageEntry):
        yield from _of_its_node(reader, entry)
        if isinstance(entry, ReproducibilityEvent):
            target = held(reader.get_many([entry.target_id]), entry.target_id, LineageEntry)
            yield isinstance(target, Statement), "a reproducibility event is about an entry that says something"
            near = target is not None and target.checkpoint_id == entry.checkpoint_id
            yield near, "a reproducibility event is about an entry of its own checkpoint"


def _of_its_node(reader: LedgerReader, entry: LineageEntry) -> Rules:
    """The report of the node, or at least that of its parent, says who its ancestors are."""
    for node, above in ((entry.node_id, 0), *((name, 1) for name in entry.ancestors[-1:])):
        rows = reader.find("node-report", entry.namespace, checkpoint_id=entry.checkpoint_id, node_id=node)
        report = rows[0].load() if rows else None
        if isinstance(report, NodeReport):
            known = (*report.ancestors, *([report.node_id] if above else []))
            yield entry.ancestors == known, f"the report of {node} names other ancestors"
        if not above and entry.report_ref is not None:
            own = report if isinstance(report, NodeReport) else None
            named = own is not None and own.id == entry.node_report_id
            yield named, "the report that the entry rests on is not there"
            same = own is not None and own.report_digest == entry.report_ref.digest
            yield same, "the report has other bytes than the entry names"
