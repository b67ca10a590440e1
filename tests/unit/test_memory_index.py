"""The parts of a Recall Input's index: columns from a stream, the structured order, bytes that are mapped."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.recall.memory_index import ColumnBuilder, Standing
from policies.hard_filters import Column
from records.canonical import domain_digest, domain_digest_list
from records.errors import IntegrityError, NotFoundError
from store.artifacts import ArtifactStore

_FACT = st.integers(0, 3)


@given(st.lists(st.none() | st.text("abé𝄞", max_size=2), max_size=20))
def test_a_column_from_a_stream_is_that_of_the_whole(texts: list[str | None]) -> None:
    builder = ColumnBuilder()
    for text in texts:
        builder.add(text)
    packed, codes = builder.finish()
    whole = Column.of(texts)
    assert list(packed) == list(whole.values)
    assert codes.tolist() == whole.codes.tolist()


@given(st.lists(st.none() | st.sampled_from("abcdefg"), max_size=12), st.sets(st.sampled_from("abcdefgh")))
def test_columns_answer_alike_whether_they_are_read_or_not(texts: list[str | None], wanted: set[str]) -> None:
    column = Column.of(texts)
    assert column.holds(wanted).tolist() == [text in wanted for text in texts]
    for one in (*wanted, None):
        assert column.allows(one).tolist() == [text is None or text == one for text in texts]


@given(st.lists(st.tuples(_FACT, _FACT, _FACT), max_size=25), st.data())
def test_the_foremost_rows_are_those_of_sorting(facts: list[tuple[int, int, int]], data: st.DataObject) -> None:
    standing = Standing(*(np.array(part, dtype=np.int64) for part in zip(*facts, strict=True))) if facts else None
    if standing is None:
        return
    rows = data.draw(st.lists(st.integers(0, len(facts) - 1), unique=True).map(sorted))
    limit = data.draw(st.integers(0, 6))
    expected = sorted(rows, key=lambda row: ([-fact for fact in facts[row]], row))[:limit]
    assert standing.foremost(np.array(rows, dtype=np.int64), limit).tolist() == expected


@pytest.mark.parametrize("count", [0, 1, 4096, 4097, 9000])
def test_the_digest_of_a_long_list_is_that_of_the_list(count: int) -> None:
    items = [[f"rule:{each}", each] for each in range(count)]
    assert domain_digest_list("memory-index-members", iter(items)) == domain_digest("memory-index-members", items)


def test_mapped_bytes_are_proved_as_read_ones_are(tmp_path: Path) -> None:
    store = ArtifactStore(str(tmp_path))
    digest, empty = store.publish(b"index" * 1000), store.publish(b"")
    mapped = store.mapped(digest)
    assert bytes(mapped) == store.read(digest)
    assert isinstance(mapped, memoryview)
    assert mapped.readonly
    assert bytes(store.mapped(empty)) == b""
    Path(store.location(digest)).write_bytes(b"other" * 1000)
    with pytest.raises(IntegrityError, match="artifact"):
        store.mapped(digest)
    Path(store.location(digest)).unlink()
    with pytest.raises(NotFoundError, match="artifact"):
        store.mapped(digest)
