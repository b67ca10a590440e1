"""The claims of a lineage, weighed against the files as they are now (spec 003).

Rules kept here:

- files are read again whenever a context is built. What is on disk below the folder of experiments counts where one is
  named; otherwise the artifact store, which verifies what it reads. A file that is at neither is not there;
- a folder of experiments that is not there is no answer at all: it is told as unavailable, and nothing follows from it;
- events count whoever of the checkpoint wrote them: that a result failed to reproduce must not depend on the branch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from memory.lineage.files import UnreadableFileError, hash_below
from memory.lineage.tree import Tree
from policies.lineage.best import Best, ChosenBy, Contract, best_node, declared_contract
from policies.lineage.reading_policy import LineageReadingPolicy
from policies.lineage.scope import ancestors_of
from policies.lineage.verified import Evidence, VerifiedContext, WeighedClaim, verified_context, weigh
from records.errors import ErasedError, IntegrityError, NotFoundError, UnavailableError
from records.lineage import EntryKind, LineageEntry, Reproduction
from store.artifacts import ArtifactStore


@dataclass(frozen=True, slots=True)
class Files:
    """Where the files of nodes are: below `<experiments>/<checkpoint>/<node>`, or in the artifact store."""

    artifacts: ArtifactStore
    experiments: Path | None = None

    def now(self, entries: Iterable[LineageEntry]) -> dict[tuple[str, str], str | None]:
        """Return the digests of the files of entries as they are now.

        Raises:
            UnavailableError: the folder of experiments is not there.
        """
        if self.experiments is not None and not self.experiments.is_dir():
            remedy = "Name the folder that holds <checkpoint>/<node>, or mount it."
            raise UnavailableError("experiments", str(self.experiments), remedy)
        return {
            (entry.node_id, file.relative_path): self._digest(entry, file.relative_path, file.sha256)
            for entry in entries
            for file in entry.artifacts
        }

    def _digest(self, entry: LineageEntry, path: str, claimed: str) -> str | None:
        if self.experiments is not None:
            try:
                return hash_below(self.experiments, f"{entry.checkpoint_id}/{entry.node_id}/{path}").sha256
            except UnreadableFileError:
                return None
        try:
            self.artifacts.read(claimed)
        except (NotFoundError, IntegrityError):
            return None
        return claimed


@dataclass(frozen=True, slots=True)
class WeighedLineage:
    """The lineage of a paper: its best node, its claims, the strongest first, and the document that they make."""

    best: Best
    claims: tuple[WeighedClaim, ...]
    context: VerifiedContext


def weigh_lineage(
    tree: Tree, files: Files, policy: LineageReadingPolicy, *, contract: Contract | None = None, best: str | None = None
) -> WeighedLineage | None:
    """Return the lineage of the best node; None where no node has real data, or nothing is known of its lineage.

    Args:
        tree: the checkpoint.
        files: where its files are.
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
        now=files.now(each for each in inside if each.entry_kind in policy.context.claims),
    )
    claims = weigh(known, policy)
    context = verified_context(known, claims, policy)
    return None if context.is_empty else WeighedLineage(chosen, claims, context)


def _named(tree: Tree, node: str) -> Best:
    if node in tree.erased:
        raise ErasedError("node", node, "Retention erased it; name another one.")
    if node not in tree.reports:
        raise NotFoundError("node", node, f"{tree.checkpoint_id} has no report of it; `vrm lineage nodes` lists them.")
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
