"""The claims of a lineage, weighed against the files as they are now (spec 003).

Rules kept here:

- files are read again, below their node's folder, whenever a context is built; what is no regular file there is none;
- a checkpoint whose folder is not there, or a file that cannot be read now, is no answer at all: it is told as
  unavailable, and nothing follows from it;
- events count whoever of the checkpoint wrote them: that a result failed to reproduce must not depend on the branch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from memory.lineage.files import FileFault, UnreadableFileError, hash_below
from memory.lineage.tree import Tree
from policies.lineage.best import Best, ChosenBy, Contract, best_node, declared_contract
from policies.lineage.reading_policy import LineageReadingPolicy
from policies.lineage.scope import ancestors_of
from policies.lineage.verified import Evidence, VerifiedContext, WeighedClaim, verified_context, weigh
from records.errors import ErasedError, NotFoundError, UnavailableError
from records.lineage import EntryKind, LineageEntry, Reproduction


def files_now(root: Path, checkpoint_id: str, entries: Iterable[LineageEntry]) -> dict[tuple[str, str], str | None]:
    """Return the digests of the files of a checkpoint's entries as they are now; `root` is the folder of all trees.

    Raises:
        UnavailableError: the checkpoint's folder is not there, or a file of it cannot be read now.
    """
    if not (root / checkpoint_id).is_dir():
        raise UnavailableError("root", str(root / checkpoint_id), "Name the folder that holds <checkpoint>/<node>.")
    return {
        (entry.node_id, file.relative_path): _digest(root, entry, file.relative_path)
        for entry in entries
        for file in entry.artifacts
    }


def _digest(root: Path, entry: LineageEntry, path: str) -> str | None:
    try:
        return hash_below(root, path, (entry.checkpoint_id, entry.node_id)).sha256
    except UnreadableFileError as error:
        if error.fault is FileFault.UNREADABLE:
            raise UnavailableError("file", f"{entry.node_id}/{path}", "Make it readable; nothing was built.") from error
        return None


_SHOWN: Final = 12


@dataclass(frozen=True, slots=True)
class WeighedLineage:
    """The lineage of a paper: its best node, its claims, the strongest first, and the document that they make."""

    best: Best
    claims: tuple[WeighedClaim, ...]
    context: VerifiedContext


def weigh_lineage(
    tree: Tree, root: Path, policy: LineageReadingPolicy, *, contract: Contract | None = None, best: str | None = None
) -> WeighedLineage | None:
    """Return the lineage of the best node; None where no node has real data, or nothing is known of its lineage.

    Args:
        tree: the checkpoint.
        root: the folder of all trees; a node's own is `<root>/<checkpoint>/<node>`.
        policy: what grounds and what is claimed.
        contract: the metric that decides; None for the one that the entries declare.
        best: the node, where it was chosen by somebody.

    Raises:
        InvalidInputError: there is nothing to compare nodes by.
        NotFoundError: the node that was named is not known.
        ErasedError: it was erased.
        IntegrityError: reports contradict each other.
        UnavailableError: the files cannot be looked at.
    """
    chosen = _named(tree, best) if best is not None else _best(tree, policy, contract)
    if chosen is None:
        return None
    lineage = (*ancestors_of(tree.reports, chosen.node_id), chosen.node_id)
    inside = [each for each in tree.entries if each.node_id in lineage]
    known = Evidence(
        checkpoint_id=tree.checkpoint_id,
        lineage=lineage,
        erased=tree.erased,
        entries=inside,
        reports=tree.reports,
        latest=tree.latest(),
        unknown=tree.unknown,
        now=files_now(root, tree.checkpoint_id, (each for each in inside if each.entry_kind in policy.context.claims)),
    )
    claims = weigh(known, policy)
    context = verified_context(known, claims, policy)
    return None if context.is_empty else WeighedLineage(chosen, claims, context)


def _named(tree: Tree, node: str) -> Best:
    if node in tree.erased:
        raise ErasedError("node", node, "Retention erased it; name another one.")
    if node not in tree.reports:
        raise NotFoundError("node", node, f"Nodes of {tree.checkpoint_id}: {', '.join([*tree.reports][:_SHOWN])}.")
    return Best(node_id=node, chosen_by=ChosenBy.NAMED, contract=None, value=None, measured=False, considered=1)


def _best(tree: Tree, policy: LineageReadingPolicy, contract: Contract | None) -> Best | None:
    reports = list(tree.reports.values())
    results = [each for each in tree.entries if each.entry_kind is EntryKind.EXPERIMENT_RESULT]
    return best_node(reports, contract or declared_contract(results), _failed(tree, results), policy)


def _failed(tree: Tree, results: Sequence[LineageEntry]) -> set[str]:
    """Return the nodes whose result could not be reproduced."""
    latest = tree.latest()
    failed = {key for key, event in latest.items() if event.status is Reproduction.RERUN_FAILED}
    return {each.node_id for each in results if str(each.id) in failed}
