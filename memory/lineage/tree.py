"""A search tree as the Ledger holds it at one moment, without what retention denies (spec 003, 15).

Rules kept here:

- a record is denied if retention denies it, or anything that it rests on; nothing of a denied one is read but the names
  by which others know it: a node that was erased still has its place in the tree;
- what an erased reproducibility event said, or one of an erased node, is not known, so neither is how its entry stands;
- a namespace and a checkpoint see their own records alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from memory.retention import denials, reachable
from policies.lineage.standing import latest_events
from records.errors import AmbiguousIdError, NotFoundError
from records.lineage import LineageEntry, NodeReport, ReproducibilityEvent
from store.ledger.port import LedgerReader

_SHOWN = 8
_REMEDY = "`vrm import node-report FOLDER` brings reports in."


@dataclass(frozen=True, slots=True, eq=False)
class Tree:
    """The nodes of one checkpoint, and what they wrote.

    Attributes:
        reports: by node, in the order of the journal.
        entries: what says something of its own, in the order of the journal.
        events: reproducibility events, in the order of the journal.
        erased: nodes whose report was erased.
        unknown: entries of which an event was erased.
    """

    namespace: str
    checkpoint_id: str
    reports: Mapping[str, NodeReport]
    entries: Sequence[LineageEntry]
    events: Sequence[ReproducibilityEvent]
    erased: frozenset[str]
    unknown: frozenset[str]

    def latest(self, nodes: Iterable[str] | None = None) -> dict[str, ReproducibilityEvent]:
        """Return the event that counts by entry; of some nodes' events, or of all."""
        wanted = None if nodes is None else frozenset(nodes)
        return latest_events(each for each in self.events if wanted is None or each.node_id in wanted)


def checkpoints_of(reader: LedgerReader, namespace: str) -> list[str]:
    """Return the checkpoints of a namespace, in the order in which they came in."""
    found = (each.load() for each in reader.find(NodeReport.kind.noun, namespace))
    return list(dict.fromkeys(each.checkpoint_id for each in found if isinstance(each, NodeReport)))


def the_checkpoint(reader: LedgerReader, namespace: str, wanted: str | None) -> str:
    """Return the checkpoint that was asked for, or the only one.

    Raises:
        NotFoundError: there is none of that name, or none at all.
        AmbiguousIdError: none was named, and there are several.
    """
    found = checkpoints_of(reader, namespace)
    if wanted is not None and wanted in found:
        return wanted
    shown = ", ".join(found[:_SHOWN])
    if wanted is not None or not found:
        raise NotFoundError("checkpoint", wanted or namespace, f"Checkpoints here: {shown}." if found else _REMEDY)
    if len(found) > 1:
        raise AmbiguousIdError("checkpoint", namespace, f"Name one with --checkpoint: {shown}.")
    return found[0]


def denial_test(reader: LedgerReader, namespace: str) -> Callable[[str], bool]:
    """Return what tells whether retention denies a record, or anything that it rests on."""
    denied = {each.target_id for each in denials(reader, namespace)}

    def is_denied(record_id: str) -> bool:
        return bool(denied) and not denied.isdisjoint(reachable(reader, [record_id]))

    return is_denied


def open_tree(reader: LedgerReader, namespace: str, checkpoint_id: str) -> Tree:
    """Return the tree of a checkpoint; `reader` is of one moment.

    Raises:
        IntegrityError: a row was changed.
    """
    is_denied = denial_test(reader, namespace)
    reports: dict[str, NodeReport] = {}
    erased: set[str] = set()
    for row in reader.find(NodeReport.kind.noun, namespace, checkpoint_id=checkpoint_id):
        report = row.load()
        if isinstance(report, NodeReport):
            if is_denied(row.id):
                erased.add(report.node_id)
            else:
                reports[report.node_id] = report
    entries: list[LineageEntry] = []
    events: list[ReproducibilityEvent] = []
    unknown: set[str] = set()
    for row in reader.find(LineageEntry.kind.noun, namespace, checkpoint_id=checkpoint_id):
        entry = row.load()
        if not isinstance(entry, LineageEntry):
            continue
        gone = entry.node_id in erased or is_denied(row.id)
        if not isinstance(entry, ReproducibilityEvent):
            entries += [] if gone else [entry]
        elif gone:
            unknown.add(str(entry.target_id))
        else:
            events.append(entry)
    return Tree(namespace, checkpoint_id, reports, entries, events, frozenset(erased), frozenset(unknown))
