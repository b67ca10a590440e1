"""What an erasure takes of a source, on both stores: bytes, text, indexes and rendered contexts (spec 4.15, 15)."""

from __future__ import annotations

from pathlib import Path

import pytest

from memory.index.embedding import SentenceTransformerEmbedder
from memory.reference.context import (
    rendered_references,
)
from records.errors import ErasedError
from records.reference import ReferenceIndexBuild
from records.states import Phase
from tests.support.references import (
    FILES,
    add,
    erased,
    frozen,
    held,
    index,
    opened,
    sources,
    written,
)
from tests.support.stack import Stack
from tests.support.stack_control import checked
from tests.support.stores import expect

BOTH = pytest.mark.parametrize(("ledger", "runtime"), [("memory", "memory"), ("postgres", "postgres")], indirect=True)


@pytest.fixture(scope="module")
def model() -> SentenceTransformerEmbedder:
    return SentenceTransformerEmbedder()


@BOTH
def test_an_erasure_takes_a_source_with_all_that_was_made_of_it(
    stack: Stack, tmp_path: Path, model: SentenceTransformerEmbedder
) -> None:
    artifacts = stack.stores.artifacts
    mine = {name: f"{text}\nOf {stack.namespace}.\n" for name, text in FILES.items()}
    paths = written(tmp_path / "in", **mine)
    add(stack, paths)
    build, made = expect(ReferenceIndexBuild, index(stack, model)), frozen(stack, model)
    ridge, forest = sources(stack)["ridge.md"].source, sources(stack)["forest.md"].source
    intent, tombstone = erased(stack, ridge.id)
    gone = {ridge.content.sha256, build.artifact.sha256, build.vectors.sha256, made.record.rendered.sha256}
    assert set(intent.erased_bytes) == gone
    assert not gone & set(artifacts.digests())
    assert (held(stack, ridge), held(stack, forest)) == ({Phase.RELEASED}, {Phase.ACTIVE})
    assert tombstone.target_id == ridge.id
    assert sources(stack)["ridge.md"].is_denied
    with pytest.raises(ErasedError):
        sources(stack)["ridge.md"].text(artifacts)
    with stack.stores.ledger.reading() as reader, pytest.raises(ErasedError, match="compose a new one"):
        rendered_references(reader, artifacts, made.record)
    again = opened(stack, model)
    assert {held.source.facts.title for held, _ in again.places.values()} == {"forest.md", "scale.py"}
    assert again.search("ridge regression L2 penalty", 9) == []
    report = checked(stack)
    assert report.clean, report.text()
    (refused,) = add(stack, paths[:1])
    assert isinstance(refused.error, ErasedError), "erased bytes do not come back"
    expect(ReferenceIndexBuild, index(stack, model))
    assert frozen(stack, model).record.id != made.record.id
    assert checked(stack).clean
    assert erased(stack, ridge.id) == (intent, tombstone)


@BOTH
def test_bytes_of_two_sources_go_with_the_second(
    stack: Stack, tmp_path: Path, model: SentenceTransformerEmbedder
) -> None:
    text = f"The same words, of {stack.namespace}.\n"
    paths = written(tmp_path / "in", **{"ridge.md": text, "forest.md": text})
    add(stack, paths)
    index(stack, model)
    first, second = (sources(stack)[name].source for name in ("ridge.md", "forest.md"))
    assert first.content.sha256 == second.content.sha256
    erased(stack, first.id)
    assert stack.stores.artifacts.holds(first.content.sha256)
    assert [hit.quote.card.facts.title for hit in opened(stack, model).search("the same words", 1)] == ["forest.md"]
    erased(stack, second.id)
    assert not stack.stores.artifacts.holds(first.content.sha256)
    assert checked(stack).clean


@BOTH
def test_an_erasure_takes_no_vectors_of_another_index(
    stack: Stack, tmp_path: Path, model: SentenceTransformerEmbedder
) -> None:
    """One text under two addresses, and the same file in another namespace: each index has bytes of its own."""
    paths = written(tmp_path / "in", **dict.fromkeys(("ridge.md", "forest.md"), f"Shared, of {stack.namespace}.\n"))
    spaces = f"{stack.namespace}_other", stack.namespace
    for space in spaces:
        stack = Stack(stack.stores, space)
        assert [each.error for each in add(stack, paths)] == [None] * len(paths)
        expect(ReferenceIndexBuild, index(stack, model))
    erased(stack, sources(stack)["ridge.md"].source.id)
    for space, left in zip(spaces, (len(paths), len(paths) - 1), strict=True):
        stack = Stack(stack.stores, space)
        build = expect(ReferenceIndexBuild, index(stack, model))
        assert stack.stores.artifacts.holds(build.vectors.sha256)
        assert len(opened(stack, model).places) == left


@BOTH
def test_the_bytes_themselves_can_be_erased(stack: Stack, tmp_path: Path, model: SentenceTransformerEmbedder) -> None:
    mine = {name: f"{text}\nBytes of {stack.namespace}.\n" for name, text in FILES.items()}
    add(stack, written(tmp_path / "in", **mine))
    build = expect(ReferenceIndexBuild, index(stack, model))
    source = sources(stack)["scale.py"].source
    intent, _ = erased(stack, source.content.sha256)
    assert set(intent.erased_bytes) >= {source.content.sha256, build.artifact.sha256, build.vectors.sha256}
    assert sources(stack)["scale.py"].is_denied
    assert held(stack, source) == {Phase.RELEASED}
    assert checked(stack).clean
