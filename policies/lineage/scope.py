"""Who may read what of a search tree: a node reads what its ancestors wrote, and nothing else (spec 003, principle 3).

Rules kept here:

- ancestors are those that reports state, from the root to the parent. Where the report of an ancestor is at hand it
  must state the same, else nothing is read;
- an entry is read if it is of the checkpoint, of a node in the lineage, and states that node's own ancestors;
- the order is from the root on; entries of one node keep the order of the journal;
- so a sibling, a descendant or another checkpoint changes no byte of what a node reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from records.errors import IntegrityError, InvalidInputError, NotFoundError
from records.lineage import EntryIntegrity, EntryKind, LineageEntry, NodeReport


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which entries of a lineage are read.

    Attributes:
        kinds: only these; none for all but reproducibility events, which are folded and not read.
        artifact_backed: only with a file whose digest was verified when the entry was written.
    """

    kinds: frozenset[EntryKind] = frozenset()
    artifact_backed: bool = False

    def takes(self, entry: LineageEntry) -> bool:
        """Tell whether an entry is one of them."""
        known = self.kinds or frozenset(EntryKind) - {EntryKind.REPRODUCIBILITY_EVENT}
        backed = any(each.integrity is EntryIntegrity.VERIFIED for each in entry.artifacts)
        return entry.entry_kind in known and (backed or not self.artifact_backed)


EVERYTHING: Final = Wanted()
"""Every entry that says something of its own."""


def ancestors_of(reports: Mapping[str, NodeReport], node: str, parent: str | None = None) -> tuple[str, ...]:
    """Return the ancestors of a node, from the root to the parent.

    Args:
        reports: reports of one checkpoint, by node.
        node: the node.
        parent: its parent, for a node that has not reported yet.

    Raises:
        NotFoundError: neither the node nor a parent that was named has a report.
        InvalidInputError: the node has a report, and it names another parent.
        IntegrityError: two reports state different ancestors.
    """
    own = reports.get(node)
    if own is not None and parent not in (None, own.parent_node_id):
        raise InvalidInputError(
            "parent", parent, f"The report of {node} names {own.parent_node_id}; leave --parent out."
        )
    above = None if own is not None or parent is None else reports.get(parent)
    if own is None and above is None:
        remedy = "Name a node that has a report, or the parent of one that has none yet."
        raise NotFoundError("node", parent or node, remedy)
    stated = own.ancestors if own is not None else (*above.ancestors, above.node_id) if above is not None else ()
    for at, name in enumerate(stated):
        found = reports.get(name)
        if found is not None and found.ancestors != stated[:at]:
            raise IntegrityError("ancestors", name, "Its report names other ancestors than its descendant's; run fsck.")
    return stated


def read_entries(
    entries: Iterable[LineageEntry], checkpoint_id: str, lineage: Sequence[str], wanted: Wanted
) -> list[LineageEntry]:
    """Return the entries of a lineage that are wanted, from the root on.

    Args:
        entries: in the order of the journal, from anywhere.
        checkpoint_id: the checkpoint.
        lineage: its nodes, from the root on.
        wanted: which of their entries.
    """
    places = {node: at for at, node in enumerate(lineage)}
    found = [
        entry
        for entry in entries
        if entry.checkpoint_id == checkpoint_id
        and entry.node_id in places
        and entry.ancestors == tuple(lineage[: places[entry.node_id]])
        and wanted.takes(entry)
    ]
    return sorted(found, key=lambda entry: places[entry.node_id])
