"""The real model: it knows what is alike, and gives the same bits again, in any company and in another process."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from memory.index.artifact import IndexDocument, LoadedIndex, build_index
from memory.index.embedding import BUNDLED_WEIGHTS_SHA256, ModelSettings, SentenceTransformerEmbedder
from memory.index.vectors import quantise, scores
from records.errors import UnavailableError

_ROOT = Path(__file__).resolve().parents[2]
_TEXTS = [
    "Standardise the features before an RBF kernel.",
    "Raise the class weight of the rare class.",
    "Deeper trees overfit on small tables.",
    "",
    "accuracy " * 300,
]
_SCRIPT = """
import hashlib, sys
from memory.index.embedding import SentenceTransformerEmbedder
embedder = SentenceTransformerEmbedder()
texts = sys.stdin.read().split("\\x1f")
print(embedder.id, hashlib.sha256(embedder.embed(texts).tobytes()).hexdigest())
"""


@pytest.fixture(scope="module")
def model() -> SentenceTransformerEmbedder:
    return SentenceTransformerEmbedder()


@pytest.mark.parametrize(
    ("query", "like", "unlike"),
    [
        # Pairs of the similarity examples of the Sentence-Transformers documentation and paraphrases of our own domain.
        ("A man is eating food.", "A man is eating a piece of bread.", "Someone in a gorilla costume plays drums."),
        ("The cat sits outside.", "The cat plays in the garden.", "The new movie is awesome."),
        ("scale the inputs to unit variance", _TEXTS[0], _TEXTS[1]),
        ("the minority label is underrepresented", _TEXTS[1], _TEXTS[2]),
    ],
)
def test_what_is_alike_is_nearer(model: SentenceTransformerEmbedder, query: str, like: str, unlike: str) -> None:
    stored = quantise(model.embed([like, unlike]))
    near, far = scores(stored, quantise(model.embed([query], kind="query"))).tolist()
    assert near > far


def test_vectors_are_unit_float32(model: SentenceTransformerEmbedder) -> None:
    vectors = model.embed(_TEXTS)
    assert vectors.shape == (5, 384)
    assert vectors.dtype == np.float32
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    assert model.embed([]).shape == (0, 384)


def test_bits_do_not_depend_on_company_or_threads(model: SentenceTransformerEmbedder) -> None:
    together = model.embed(_TEXTS)
    with ThreadPoolExecutor(4) as pool:
        alone = list(pool.map(lambda text: model.embed([text])[0], _TEXTS))
    assert np.array_equal(np.stack(alone), together)


def test_another_process_gives_the_same_bits(model: SentenceTransformerEmbedder) -> None:
    done = subprocess.run(  # the project's own code
        [sys.executable, "-c", _SCRIPT],
        input="\x1f".join(_TEXTS),
        capture_output=True,
        text=True,
        check=True,
        cwd=_ROOT,
    )
    assert done.stdout.split() == [model.id, hashlib.sha256(model.embed(_TEXTS).tobytes()).hexdigest()]


def test_vrm_o01_an_index_by_the_real_model_is_rebuilt_byte_for_byte(model: SentenceTransformerEmbedder) -> None:
    documents = [IndexDocument(f"rule:{at}", text) for at, text in enumerate(_TEXTS)]
    built = build_index(documents, model)
    assert build_index(documents[::-1], SentenceTransformerEmbedder()) == built
    found = LoadedIndex.from_bytes(built.data).semantic(
        model.embed(["shallow trees generalise"], kind="query")[0], limit=1
    )
    assert [hit.id for hit in found] == ["rule:2"]


def test_a_folder_whose_weights_do_not_parse_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"not weights")
    with pytest.raises(UnavailableError, match="damaged"):
        SentenceTransformerEmbedder(ModelSettings(str(tmp_path))).embed(["text"])


def test_a_name_that_is_not_in_the_local_cache_is_unavailable() -> None:
    settings = ModelSettings("nobody/no-such-model", weights_sha256=BUNDLED_WEIGHTS_SHA256)
    with pytest.raises(UnavailableError, match="nobody/no-such-model"):
        SentenceTransformerEmbedder(settings).embed(["text"])
