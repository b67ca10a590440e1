"""A small search that was really run, imported into a stack, ready to be read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from importers.node_report.importing import Consolidating, ImportPorts, Outcome, import_reports
from importers.node_report.tree import locate
from memory.erasing import ErasureRequest
from memory.index.embedding import SentenceTransformerEmbedder
from memory.lineage.evidence import WeighedLineage, weigh_lineage
from memory.lineage.tree import Tree, open_tree
from memory.lineage.writing import Draft, LineagePorts, LineageWriter, Node, Written
from policies.lineage.best import Contract
from policies.lineage.policy import HeadlineMetric, consolidation_policy
from policies.lineage.reading_policy import lineage_reading_policy
from records.lineage import EntryKind, LineageEntry, Reproduction
from records.retention import ErasureReason
from records.values import Direction
from tests.support.lineage_tree import METRIC, run_search
from tests.support.stack import Stack
from tests.support.trials import NOW
from vrm.cli.connection import Connection, OpenStores
from vrm.lineage import Lineage

POLICY = lineage_reading_policy()
CONTRACT = Contract(METRIC, Direction.MAXIMIZE)
DECLARED = HeadlineMetric(name=METRIC, unit="share", direction=Direction.MAXIMIZE)


def ports(stack: Stack) -> LineagePorts:
    return LineagePorts(ledger=stack.stores.ledger, coordinator=stack.coordinator)


def brought_in(stack: Stack, folder: Path, *, is_on: bool = True) -> None:
    """Import a run that lies in a folder, and consolidate it."""
    how = Consolidating(policy=consolidation_policy(), declared=DECLARED, is_on=is_on)
    into = ImportPorts(lineage=ports(stack), artifacts=stack.stores.artifacts, namespace=stack.namespace)
    done = import_reports(into, locate([folder], None), how)
    assert {each.outcome for each in done} <= {Outcome.ADDED, Outcome.REPLAYED}, done


def searched(stack: Stack, root: Path, seed: int = 0) -> str:
    """Run a search and bring it in; return its checkpoint."""
    folder = run_search(root, seed, f"{stack.namespace}_{seed}")
    brought_in(stack, folder)
    return folder.name


def tree_of(stack: Stack, checkpoint: str) -> Tree:
    with stack.stores.ledger.reading() as reader:
        return open_tree(reader, stack.namespace, checkpoint)


def weighed(stack: Stack, checkpoint: str, root: Path, **more: Any) -> WeighedLineage:
    found = weigh_lineage(tree_of(stack, checkpoint), root, POLICY, **more)
    assert found is not None
    return found


def result_of(stack: Stack, checkpoint: str, node: str) -> LineageEntry:
    (found,) = (
        each
        for each in tree_of(stack, checkpoint).entries
        if (each.node_id, each.entry_kind) == (node, EntryKind.EXPERIMENT_RESULT)
    )
    return found


def writer(stack: Stack, checkpoint: str, node: str) -> LineageWriter:
    return LineageWriter(
        ports(stack), Node(namespace=stack.namespace, checkpoint_id=checkpoint, node_id=node), lambda: NOW
    )


def rerun(stack: Stack, entry: LineageEntry, status: Reproduction, node: str, at: str = NOW) -> Written:
    """Say, as a node, what came of reproducing an entry."""
    return writer(stack, entry.checkpoint_id, node).report_rerun(
        str(entry.id), status, Draft(text=f"rerun {status}"), observed_at=at
    )


def erase(stack: Stack, target: object) -> None:
    request = ErasureRequest(target=str(target), reason=ErasureReason.LICENCE_WITHDRAWN, incident="case-1")
    stack.officer.finish(stack.officer.begin(request))


def lineage(stack: Stack, checkpoint: str | None = None) -> Lineage:
    stores = stack.stores
    return Lineage(stores.ledger, stores.artifacts, stack.namespace, SentenceTransformerEmbedder, checkpoint)


def connected(stack: Stack) -> Connection:
    """Return a connection for commands that only look: to ask for whoever writes is an error."""

    @contextmanager
    def opened() -> Iterator[OpenStores]:
        yield stack.stores

    def never(_stores: OpenStores) -> Any:
        raise AssertionError("nobody who writes may be looked for")

    return Connection(opened, list, never, never)
