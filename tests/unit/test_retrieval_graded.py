"""Figures over ranked lists, graded sets, and the product's index beside implementations that share no code with it."""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.metrics import ndcg_score

from evaluation.retrieval.evaluate import SCIFACT
from evaluation.retrieval.graded import DEVELOPMENT, REPORT, half_of, read_graded
from evaluation.retrieval.measures import mean_of, ndcg, precision, recall, share_of
from evaluation.retrieval.sources import report_graded, search_graded
from evaluation.retrieval.vectors import KeptVectors
from memory.index.embedding import HashEmbedder, TextKind
from policies.retrieval_policy import Fusion
from records.errors import InvalidInputError

FUSION = Fusion(lexical=3, semantic=6, structured=1, semantic_floor=400)


def test_ndcg_by_hand() -> None:
    """Gains 7, 3, 1 for grades 3, 2, 1: (3 + 0 + 7 / log2 4) of (7 + 3 / log2 3 + 1 / log2 4)."""
    grades = {"a": 3, "b": 2, "c": 1}
    assert ndcg(["b", "x", "a"], grades, 3) == pytest.approx(6.5 / (7 + 3 / math.log2(3) + 0.5))
    assert ndcg(["a", "b", "c"], grades, 3) == 1.0
    assert ndcg([], grades, 3) == 0.0
    assert ndcg(["x", "y", "z", "a"], grades, 3) == 0.0


def test_ndcg_is_that_of_scikit_learn() -> None:
    drawn = np.random.default_rng(20_260_301)
    for _ in range(50):
        gains = 2.0 ** drawn.integers(0, 4, 30) - 1.0
        scores = drawn.permutation(30).astype(float)
        grades = {str(at): int(np.log2(gain + 1.0)) for at, gain in enumerate(gains)}
        found = [str(at) for at in np.argsort(-scores)]
        assert ndcg(found, grades, 10) == pytest.approx(ndcg_score(gains[None], scores[None], k=10))


def test_recall_and_precision_by_hand() -> None:
    assert recall(["a", "x", "b"], {"a", "b", "c", "d"}, 3) == pytest.approx(2 / 3)  # three places can hold three
    assert recall(["a"], {"a"}, 3) == 1.0
    assert precision(["a", "x"], {"a", "b"}) == 0.5
    assert precision([], {"a"}) == 0.0


def test_intervals_are_those_of_the_textbook() -> None:
    """Wilson 1927: 8 of 10 is 0.490 to 0.943; a bootstrap of equal values has no width."""
    share = share_of(8, 10)
    assert (share["low"], share["high"]) == (pytest.approx(0.4902, abs=1e-4), pytest.approx(0.9433, abs=1e-4))
    same = mean_of([0.5] * 7)
    assert (same["low"], same["value"], same["high"], same["denominator"]) == (0.5, 0.5, 0.5, 7)
    half = mean_of([0.0, 1.0] * 200)
    assert half["high"] - half["low"] == pytest.approx(2 * 1.96 * 0.5 / 20, abs=0.01)


def test_the_extract_is_what_its_provenance_says() -> None:
    graded = read_graded(SCIFACT)
    assert (len(graded.documents), len(graded.queries)) == (240, 60)
    assert sum(len(found) for found in graded.grades.values()) == 74
    assert all(document in graded.documents for found in graded.grades.values() for document in found)
    assert {half_of(query) for query in graded.queries} == {DEVELOPMENT, REPORT}


def test_our_lists_score_as_independent_ones_do() -> None:
    """Integers here, floats there: the same words through bm25s, the same vectors through a float32 matrix.

    0.8703 was computed once with nothing of this project: bm25s 0.3.16 over its own words, without English stop words,
    by Porter's stems, and scikit-learn's `ndcg_score` at 10.
    """
    found = report_graded(search_graded(read_graded(SCIFACT), HashEmbedder(384), FUSION), {})
    assert found["bm25s_own_words"]["value"] == pytest.approx(0.8703, abs=5e-4)
    assert found["lexical"]["value"] == pytest.approx(0.8703, abs=0.01)
    for source, check in found["independent"].items():
        assert check["passed"], (source, check)
    assert found["lexical"]["denominator"] == 60


def test_a_dense_source_that_knows_nothing_costs_nothing() -> None:
    """Vectors at random: plain reciprocal rank loses much of what words alone find, weighted shares lose nothing."""
    graded, noise = read_graded(SCIFACT), _Noise()
    plain = report_graded(search_graded(graded, noise, None), {})
    shares = report_graded(search_graded(graded, noise, FUSION), {})
    assert plain["fused_minus_lexical"]["all"]["high"] < -0.05
    assert shares["fused_minus_lexical"]["all"]["value"] >= 0.0


class _Noise:
    """Unit vectors that have nothing to do with their texts."""

    id, dimensions = "noise", 384

    def embed(self, texts: Sequence[str], *, kind: TextKind = "passage") -> NDArray[np.float32]:
        drawn = np.random.default_rng([len(texts), len(kind)]).normal(size=(len(texts), self.dimensions))
        return np.asarray(drawn / np.linalg.norm(drawn, axis=1, keepdims=True), dtype=np.float32)


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("qrels.tsv", "query-id\tcorpus-id\tscore\nq\td\t2\nq\te\t0\n"),
        ("qrels.txt", "q 0 d 2\nq 0 e 0\n"),
        ("qrels.jsonl", '{"query-id": "q", "corpus-id": "d", "score": 2}\n'),
    ],
)
def test_every_layout_of_grades_is_read(tmp_path: Path, name: str, lines: str) -> None:
    _write(tmp_path)
    (tmp_path / name).write_text(lines, encoding="utf-8")
    graded = read_graded(tmp_path)
    assert graded.documents == {"d": "A title\nand text", "e": "only text"}
    assert (graded.queries, graded.grades) == ({"q": "what"}, {"q": {"d": 2}})


def test_a_damaged_set_names_file_and_line(tmp_path: Path) -> None:
    _write(tmp_path)
    with pytest.raises(InvalidInputError, match="no qrels"):
        read_graded(tmp_path)
    (tmp_path / "qrels.tsv").write_text("q d one\n", encoding="utf-8")
    with pytest.raises(InvalidInputError, match=r"qrels\.tsv:1"):
        read_graded(tmp_path)
    (tmp_path / "qrels.tsv").write_text("other d 1\n", encoding="utf-8")
    with pytest.raises(InvalidInputError, match="no query with a relevant document"):
        read_graded(tmp_path)


def _write(folder: Path) -> None:
    documents = [{"_id": "d", "title": "A title", "text": "and text"}, {"_id": "e", "title": "", "text": "only text"}]
    with gzip.open(folder / "corpus.jsonl.gz", "wt", encoding="utf-8") as out:
        out.writelines(f"{json.dumps(each)}\n" for each in documents)
    (folder / "queries.jsonl").write_text('{"_id": "q", "text": "what"}\n', encoding="utf-8")


def test_kept_vectors_are_those_of_the_model_and_survive_a_crash(tmp_path: Path) -> None:
    file, model = tmp_path / "vectors", HashEmbedder(16)
    first = KeptVectors(model, file)
    texts = ["one two", "three", "one two"]
    assert (first.embed(texts) == model.embed(texts)).all()
    assert file.stat().st_size == 2 * (32 + 4 * 16)
    with file.open("ab") as out:
        out.write(b"half an entry")
    again = KeptVectors(_Silent(model), file)
    assert (again.embed(["three"]) == model.embed(["three"])).all()
    assert file.stat().st_size == 2 * (32 + 4 * 16)
    with pytest.raises(AssertionError):
        again.embed(["three"], kind="query")  # what a text is for is part of its key


class _Silent:
    def __init__(self, model: HashEmbedder) -> None:
        self.id, self.dimensions = model.id, model.dimensions

    def embed(self, texts: Sequence[str], *, kind: TextKind = "passage") -> NDArray[np.float32]:
        raise AssertionError((texts, kind))
