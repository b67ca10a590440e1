"""The artifact: byte-identical rebuilds, exact restricted search, no change unseen, no copy made."""

from __future__ import annotations

import hashlib
import random
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from memory.index.artifact import IndexDocument, IndexIdentity, LoadedIndex, build_index
from memory.index.embedding import HashEmbedder, TextKind
from memory.index.framing import pack, unpack
from memory.index.lexical import TERMS_VERSION
from memory.index.packed import PackedTexts
from records.canonical import domain_digest
from records.errors import IntegrityError, InvalidInputError, InvalidRecordError, NotFoundError

_EMBEDDER = HashEmbedder(16)
_TEXT = st.text("ab c_.1é", max_size=12)
_DOCUMENTS = st.dictionaries(st.text("abcdé𝄞:", min_size=1, max_size=5), _TEXT, max_size=9).map(
    lambda texts: [IndexDocument(found, text) for found, text in texts.items()]
)
_CORPUS = [
    IndexDocument("rule:3", "raise class_weight to balanced on imbalanced tables"),
    IndexDocument("rule:1", "standard scaler before an rbf kernel"),
    IndexDocument("rule:2", "scaler has no effect on trees"),
    IndexDocument("rule:4", ""),
]


def _small() -> bytes:
    return build_index(_CORPUS, _EMBEDDER).data


def _query(text: str) -> NDArray[np.float32]:
    return np.asarray(_EMBEDDER.embed([text], kind="query")[0])


@given(_DOCUMENTS, st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_rebuild_is_byte_identical_whatever_the_order(documents: list[IndexDocument], chance: random.Random) -> None:
    first = build_index(documents, _EMBEDDER)
    shuffled = documents.copy()
    chance.shuffle(shuffled)
    assert build_index(shuffled, _EMBEDDER) == first


@given(_DOCUMENTS, _TEXT, st.sets(st.integers(0, 8)))
@settings(max_examples=60, deadline=None)
def test_restricted_search_is_the_whole_search_filtered(
    documents: list[IndexDocument], query: str, chosen: set[int]
) -> None:
    index = LoadedIndex.from_bytes(build_index(documents, _EMBEDDER).data)
    rows = [row for row in chosen if row < index.size]
    for whole, part in (
        (index.lexical(query, limit=99), index.lexical(query, rows, limit=99)),
        (index.semantic(_query(query), limit=99), index.semantic(_query(query), rows, limit=99)),
    ):
        assert part == [hit for hit in whole if hit.row in rows]


@given(_DOCUMENTS, _TEXT, st.integers(0, 9))
@settings(max_examples=60, deadline=None)
def test_hits_are_ordered_by_score_then_id(documents: list[IndexDocument], query: str, limit: int) -> None:
    index = LoadedIndex.from_bytes(build_index(documents, _EMBEDDER).data)
    hits = index.semantic(_query(query), limit=99)
    assert hits == sorted(hits, key=lambda hit: (-hit.score, hit.id))
    assert [hit.id for hit in hits] == [index.ids[hit.row] for hit in hits]
    assert index.semantic(_query(query), limit=limit) == hits[:limit]
    assert index.lexical(query, limit=limit) == index.lexical(query, limit=99)[:limit]


def test_search_finds_what_was_meant() -> None:
    index = LoadedIndex.from_bytes(_small())
    assert [hit.id for hit in index.lexical("scaler kernel", limit=2)] == ["rule:1", "rule:2"]
    assert [hit.id for hit in index.lexical("weight", limit=5)] == ["rule:3"]
    assert index.semantic(_query("scaler has no effect on trees"), limit=1)[0].id == "rule:2"


def test_rows_and_ids() -> None:
    index = LoadedIndex.from_bytes(_small())
    assert list(index.ids) == ["rule:1", "rule:2", "rule:3", "rule:4"]
    assert index.row("rule:3") == 2
    assert index.rows(["rule:4", "rule:1", "rule:4"]).tolist() == [0, 3]
    assert index.text_digest(3) == hashlib.sha256(b"").hexdigest()
    for absent in ("rule:0", "rule:9", "", "\ud800"):
        with pytest.raises(NotFoundError):
            index.row(absent)


def test_the_empty_index_is_legal() -> None:
    built = build_index([], _EMBEDDER)
    index = LoadedIndex.from_bytes(built.data, digest=built.digest)
    assert index.size == 0
    assert index.lexical("anything", limit=5) == []
    assert index.semantic(_query("anything"), limit=5) == []
    assert index.semantic(_query("anything"), [], limit=5) == []


def test_digests_name_what_they_cover() -> None:
    built = build_index(_CORPUS, _EMBEDDER)
    renamed = build_index([IndexDocument(f"x{document.id}", document.text) for document in _CORPUS], _EMBEDDER)
    other = build_index(_CORPUS, HashEmbedder(17))
    assert built.digest == hashlib.sha256(built.data).hexdigest()
    members = [
        [document.id, hashlib.sha256(document.text.encode()).hexdigest()]
        for document in sorted(_CORPUS, key=lambda document: document.id)
    ]
    assert built.members_digest == domain_digest("memory-index-members", members)
    assert renamed.vector_digest == built.vector_digest
    assert renamed.members_digest != built.members_digest
    assert other.members_digest == built.members_digest
    assert other.vector_digest != built.vector_digest
    assert other.identity.digest != built.identity.digest


def test_every_changed_byte_is_seen() -> None:
    data = bytearray(_small())
    for at in range(len(data)):
        data[at] ^= 0x10
        with pytest.raises(IntegrityError):
            LoadedIndex.from_bytes(data)
        data[at] ^= 0x10
    assert LoadedIndex.from_bytes(data).size == 4


def test_every_truncation_and_extension_is_seen() -> None:
    data = _small()
    for length in [*range(0, len(data), 7), len(data) - 1]:
        with pytest.raises(IntegrityError):
            LoadedIndex.from_bytes(data[:length])
    with pytest.raises(IntegrityError, match=r"index\.length"):
        LoadedIndex.from_bytes(data + bytes(64))


@pytest.mark.parametrize("part", ["ids", "terms", "posting_impacts", "codes", "multipliers"])
def test_a_damaged_part_is_named(part: str) -> None:
    data = np.frombuffer(_small(), dtype=np.uint8).copy()
    held = unpack(data).parts[part]
    offset = held.__array_interface__["data"][0] - data.__array_interface__["data"][0]
    data[offset] ^= 1
    with pytest.raises(IntegrityError, match=rf"index\.{part}: its SHA-256 differs"):
        LoadedIndex.from_bytes(data)


def test_another_artifact_than_the_receipt_names_is_refused() -> None:
    with pytest.raises(IntegrityError, match=r"index\.digest"):
        LoadedIndex.from_bytes(_small(), digest="0" * 64)


def _forged(**changed: NDArray[Any]) -> bytes:
    """Return an artifact whose hashes hold and whose arrays do not."""
    frame = unpack(_small())
    return pack(frame.meta, {**frame.parts, **changed})


_POSTINGS = 21  # what the small corpus has


@pytest.mark.parametrize(
    ("part", "value", "reason"),
    [
        ("posting_rows", np.full(_POSTINGS, 9, dtype=np.int32), "a row that is not there"),
        ("posting_rows", np.zeros(_POSTINGS, dtype=np.int32), "not ascending"),
        ("posting_rows", np.zeros(3, dtype=np.int32), "differ in length"),
        ("posting_impacts", np.full(_POSTINGS, -1, dtype=np.int32), "a negative impact"),
        ("posting_starts", np.zeros(2, dtype=np.int64), "differ in length"),
        ("id_starts", np.array([0, 6, 3, 18, 24], dtype=np.int64), "do not cover the blob"),
        ("id_starts", np.zeros(2, dtype=np.int64), "index.id_starts"),
        ("ids", np.frombuffer(b"rule:2rule:1rule:3rule:4", dtype=np.uint8), "not sorted"),
        ("ids", np.frombuffer(b"rule:1rule:2rule:3rule:\xff", dtype=np.uint8), "not UTF-8"),
        ("ids", np.frombuffer(b"rule:1rule:2rule:3rule:5", dtype=np.uint8), "members differ"),
        ("terms", np.zeros(0, dtype=np.uint8), "do not cover the blob"),
        ("codes", np.zeros((4, 15), dtype=np.int8), "index.codes"),
        ("codes", np.zeros((4, 16), dtype=np.int8), "vectors differ"),
        ("multipliers", np.zeros(4, dtype=np.int64), "index.multipliers"),
        ("extra", np.zeros(1, dtype=np.uint8), "index.parts"),
    ],
)
def test_arrays_that_contradict_each_other_are_refused(part: str, value: NDArray[Any], reason: str) -> None:
    with pytest.raises(IntegrityError, match=reason):
        LoadedIndex.from_bytes(_forged(**{part: value}))


@pytest.mark.parametrize("field", sorted(set(IndexIdentity.model_fields) - {"embedder_id", "dimensions"}))
def test_an_index_of_another_release_is_refused(field: str) -> None:
    frame = unpack(_small())
    meta = {**frame.meta, "identity": {**frame.meta["identity"], field: "other/2"}}
    with pytest.raises(IntegrityError, match=rf"index\.identity\.{field}.*Build the index again"):
        LoadedIndex.from_bytes(pack(meta, frame.parts))


def test_meta_of_another_shape_is_refused() -> None:
    with pytest.raises(IntegrityError, match=r"index\.meta"):
        LoadedIndex.from_bytes(pack({"size": -1}, unpack(_small()).parts))


def test_shared_memory_is_viewed_and_never_written() -> None:
    built = build_index(_CORPUS, _EMBEDDER)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "index"
        file.write_bytes(built.data)
        shared = np.memmap(file, dtype=np.uint8, mode="r")
        index = LoadedIndex.from_bytes(shared, digest=built.digest)
        for held in (index._quantised.codes, index._postings.rows, index._ids.blob):
            assert np.shares_memory(held, shared)
            assert not held.flags.writeable
        assert index.lexical("scaler", limit=9) == LoadedIndex.from_bytes(built.data).lexical("scaler", limit=9)
        del index, held, shared


@pytest.mark.parametrize(
    ("documents", "field"),
    [
        ([IndexDocument("a", "x"), IndexDocument("a", "y")], "once"),
        ([IndexDocument("", "x")], "canonical id"),
        ([IndexDocument("a", "\ud800")], "Unicode"),
    ],
)
def test_bad_documents_are_refused(documents: list[IndexDocument], field: str) -> None:
    with pytest.raises(InvalidInputError, match=field):
        build_index(documents, _EMBEDDER)


def test_an_id_that_is_not_nfc_is_refused() -> None:
    with pytest.raises(InvalidRecordError, match="NFC"):
        build_index([IndexDocument("e\u0301", "x")], _EMBEDDER)


class _Crooked(HashEmbedder):
    """An embedder that breaks its promise."""

    def __init__(self, answer: NDArray[np.float32]) -> None:
        super().__init__(16)
        self._answer = answer

    def embed(self, texts: Sequence[str], *, kind: TextKind = "passage") -> NDArray[np.float32]:  # noqa: ARG002
        return self._answer


@pytest.mark.parametrize("answer", [np.zeros((3, 16)), np.zeros((4, 15)), np.zeros((4, 16)), np.full((4, 16), np.nan)])
def test_an_embedder_that_breaks_its_promise_is_refused(answer: NDArray[np.float64]) -> None:
    with pytest.raises(InvalidInputError):
        build_index(_CORPUS, _Crooked(answer.astype(np.float32)))


@pytest.mark.parametrize("vector", [np.ones(15), np.ones(16), np.full(16, np.nan), np.zeros((1, 16))])
def test_a_query_vector_that_is_not_one_is_refused(vector: NDArray[np.float64]) -> None:
    with pytest.raises(InvalidInputError):
        LoadedIndex.from_bytes(_small()).semantic(vector.astype(np.float32), limit=1)


@pytest.mark.parametrize("rows", [[4], [-1], [0.5], [[0]]])
def test_rows_outside_the_index_are_a_caller_error(rows: Any) -> None:
    with pytest.raises(ValueError, match="rows must"):
        LoadedIndex.from_bytes(_small()).lexical("scaler", rows, limit=1)


def test_a_negative_limit_is_a_caller_error() -> None:
    with pytest.raises(ValueError, match="limit"):
        LoadedIndex.from_bytes(_small()).lexical("scaler", limit=-1)


def test_only_known_types_are_framed() -> None:
    with pytest.raises(ValueError, match="dtype"):
        pack({}, {"floats": np.zeros(1, dtype=np.float32)})


def test_identity_binds_each_rule() -> None:
    identity = IndexIdentity(embedder_id="e", dimensions=3)
    assert identity.words == TERMS_VERSION
    for field in ("index_schema", "build_tool", "lexical_adapter", "semantic_adapter", "words", "embedder_id"):
        assert identity.model_copy(update={field: "other"}).digest != identity.digest


@given(st.sets(st.text(st.characters(exclude_categories=["Cs"]), max_size=5), max_size=12), st.text(max_size=5))
def test_packed_texts_find_what_a_list_finds(texts: set[str], wanted: str) -> None:
    ordered = sorted(texts)
    packed = PackedTexts.pack(ordered)
    assert list(packed) == ordered
    assert packed.flaw() is None
    assert [packed.find(text) for text in ordered] == list(range(len(ordered)))
    assert packed.find(wanted) == (ordered.index(wanted) if wanted in texts else None)
