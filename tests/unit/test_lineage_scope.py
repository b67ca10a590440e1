"""A node reads its ancestors and nobody else, whatever the tree; and what counts of several reruns."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory.index.embedding import HashEmbedder
from memory.lineage.retrieval import LineageAnswer, LineageQuestion, retrieve
from memory.lineage.tree import Tree
from policies.lineage.reading_policy import lineage_reading_policy
from policies.lineage.scope import Wanted, ancestors_of, read_entries
from policies.lineage.standing import latest_events, status_of
from records.errors import IntegrityError, InvalidInputError, NotFoundError
from records.lineage import (
    EntryKind,
    LineageEntry,
    NodeReport,
    ReproducibilityEvent,
    Reproduction,
)
from tests.support.lineage_samples import make_entry, make_report, make_rerun
from tests.support.lineage_trees import entries_of, parents, reports_of, reruns_of
from tests.support.trials import NOW

POLICY, HASHES = lineage_reading_policy(), HashEmbedder(32)


def tree_of(reports: list[NodeReport], entries: list[LineageEntry], events: list[Any] | None = None) -> Tree:
    by_node = {each.node_id: each for each in reports}
    return Tree("test", reports[0].checkpoint_id, by_node, entries, events or [], frozenset(), frozenset())


def ask(tree: Tree, node: str, text: str | None = "n1 result", **more: Any) -> LineageAnswer:
    question = LineageQuestion(node=node, text=text, limit=more.pop("limit", 100), **more)
    return retrieve(tree, question, HASHES, POLICY, test_index=True)


def above(shape: list[int | None], node: int) -> list[int]:
    """Return the ancestors of a node by walking up, apart from the code under test."""
    found: list[int] = []
    at = shape[node]
    while at is not None:
        found.insert(0, at)
        at = shape[at]
    return found


@settings(max_examples=60, deadline=None)
@given(parents, st.data())
def test_nothing_leaks_whatever_the_tree(shape: list[int | None], data: st.DataObject) -> None:
    """All of a lineage comes back, in its order, and neither a sibling nor another checkpoint."""
    node = data.draw(st.integers(min_value=0, max_value=len(shape) - 1))
    reports, other = reports_of(shape), reports_of(shape, "run-2")
    entries = [*entries_of(other), *entries_of(reports)]
    expected = [f"n{each}" for each in above(shape, node)]
    by_node = {each.node_id: each for each in reports}
    assert list(ancestors_of(by_node, f"n{node}")) == expected
    found = read_entries(entries, "run-1", expected, Wanted())
    assert [each.node_id for each in found] == [name for name in expected for _ in range(7)]
    assert {each.checkpoint_id for each in found} <= {"run-1"}


@settings(max_examples=40, deadline=None)
@given(parents, st.data())
def test_what_the_rest_of_the_tree_says_changes_no_byte_of_an_answer(
    shape: list[int | None], data: st.DataObject
) -> None:
    """Not even through word weights or reruns: without all that is no ancestor, the answer is the same."""
    node = data.draw(st.integers(min_value=0, max_value=len(shape) - 1))
    reports = reports_of(shape)
    entries = entries_of(reports)
    lineage = {f"n{each}" for each in above(shape, node)}
    tellers = data.draw(st.sets(st.integers(min_value=0, max_value=len(shape) - 1)))
    events: list[Any] = reruns_of([reports[each] for each in sorted(tellers)], entries)
    whole = ask(tree_of(reports, entries, events), f"n{node}")
    alone = ask(
        tree_of(
            [each for each in reports if each.node_id in lineage | {f"n{node}"}],
            [each for each in entries if each.node_id in lineage],
            [each for each in events if each.node_id in lineage],
        ),
        f"n{node}",
    )
    assert whole == alone
    assert {hit.entry.node_id for hit in whole.hits} == lineage


def test_a_filter_takes_kinds_and_files_that_were_verified() -> None:
    reports = reports_of([None, 0])
    plain = make_entry(reports[0], EntryKind.OBSERVATION, artifacts=(), text="without a file")
    tree = tree_of(reports, [*entries_of(reports), plain])
    results = ask(tree, "n1", wanted=Wanted(kinds=frozenset({EntryKind.FAILURE_CASE, EntryKind.OBSERVATION})))
    assert [hit.entry.text for hit in results.hits] == ["run-1 n0 observation", "run-1 n0 failure_case", plain.text]
    backed = ask(tree, "n1", wanted=Wanted(artifact_backed=True))
    assert plain not in [hit.entry for hit in backed.hits]
    assert len(backed.hits) == 7
    assert (backed.provenance.artifact_backed, backed.provenance.kinds) == (True, ())


def test_an_answer_says_how_it_was_made_and_is_in_the_order_of_the_lineage_or_of_relevance() -> None:
    reports = reports_of([None, 0, 1, 2])
    tree = tree_of(reports, entries_of(reports, [EntryKind.OBSERVATION]))
    found = ask(tree, "n3", "n2 observation", limit=2)
    told = found.provenance
    assert (told.candidate_count, told.returned_count, told.limit, told.deterministic) == (3, 2, 2, True)
    assert told.model == HASHES.id
    assert told.ranking == "bm25+cosine/reciprocal-rank-60, root-to-parent/1"
    assert told.ancestors == ("n0", "n1", "n2")
    assert [hit.rank for hit in found.hits][-1] == 1, "the parent says it, and stands last"
    best_first = ask(tree, "n3", "n2 observation", limit=2, best_first=True)
    assert [hit.rank for hit in best_first.hits] == [1, 2]
    assert {hit.entry.id for hit in best_first.hits} == {hit.entry.id for hit in found.hits}
    everything = ask(tree, "n3", None, limit=2)
    assert [hit.entry.node_id for hit in everything.hits] == ["n1", "n2"], "the nearest, from the root on"
    assert everything.provenance.query_digest is None
    with pytest.raises(InvalidInputError, match="semantic"):
        retrieve(tree, LineageQuestion(node="n3", text="x"), HASHES, POLICY)
    with pytest.raises(InvalidInputError, match="limit"):
        ask(tree, "n3", limit=0)


def test_a_node_that_has_not_reported_reads_by_its_parent_and_an_unknown_one_reads_nothing() -> None:
    reports = {each.node_id: each for each in reports_of([None, 0, 1])}
    assert ancestors_of(reports, "new", "n2") == ("n0", "n1", "n2")
    with pytest.raises(NotFoundError):
        ancestors_of(reports, "new")
    with pytest.raises(NotFoundError):
        ancestors_of(reports, "new", "nobody")
    with pytest.raises(InvalidInputError, match="names n1"):
        ancestors_of(reports, "n2", "n0")


def test_reports_that_contradict_each_other_are_not_read() -> None:
    root, child, grandchild = reports_of([None, 0, 1])
    stranger = make_report("test", "n1", make_report("test", "elsewhere"))
    with pytest.raises(IntegrityError, match="run fsck"):
        ancestors_of({"n0": root, "n1": stranger, "n2": grandchild}, "n2")
    assert ancestors_of({"n2": grandchild}, "n2") == ("n0", "n1"), "an ancestor that was erased keeps its place"
    claimed = make_entry(child, ancestors=("elsewhere",))
    assert read_entries([claimed], "run-1", ["n0", "n1"], Wanted()) == []


def at(second: int) -> str:
    return NOW[:17] + f"{second:02d}.000000Z"


def test_of_several_reruns_the_latest_counts_and_of_one_moment_the_last_appended() -> None:
    """An event that comes in late is no later finding."""
    (report,) = reports_of([None])
    entry = make_entry(report)
    passed = make_rerun(entry, report, observed_at=at(2))
    failed = make_rerun(entry, report, observed_at=at(3), status=Reproduction.RERUN_FAILED)
    late = make_rerun(entry, report, observed_at=at(1), status=Reproduction.PAPER_ONLY_REPRODUCED)
    same = make_rerun(entry, report, observed_at=at(3), status=Reproduction.RERUN_PASSED)
    key = str(entry.id)
    assert status_of(key, latest_events([])) is Reproduction.UNVERIFIED
    assert status_of(key, latest_events([passed, failed, late])) is Reproduction.RERUN_FAILED
    assert status_of(key, latest_events([failed, same])) is Reproduction.RERUN_PASSED
    assert status_of(key, latest_events([same, failed])) is Reproduction.RERUN_FAILED


@given(st.lists(st.tuples(st.integers(0, 5), st.sampled_from(Reproduction)), min_size=1, max_size=8))
def test_the_fold_is_the_last_of_a_stable_sort(drawn: list[tuple[int, Reproduction]]) -> None:
    (report,) = reports_of([None])
    entry = make_entry(report)
    events: list[ReproducibilityEvent] = [
        make_rerun(entry, report, observed_at=at(second), status=status) for second, status in drawn
    ]
    ordered = sorted(drawn, key=lambda each: each[0])
    assert status_of(str(entry.id), latest_events(events)) is ordered[-1][1]
