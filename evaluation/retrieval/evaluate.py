"""Graded sets, gold set and transformations, with one report."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from evaluation.retrieval.asking import Answer
from evaluation.retrieval.gold import ASKING, Corpus, Sizes, answered, corpora, only, rows
from evaluation.retrieval.graded import DEVELOPMENT, REPORT, GradedSet, read_graded
from evaluation.retrieval.score import Row, figures, report
from evaluation.retrieval.sources import report_graded, search_graded
from evaluation.retrieval.transformations import PLANTED, blocked_rows, planted_row
from evaluation.retrieval.untrusted import injected_row
from evaluation.retrieval.vectors import KeptVectors
from memory.index.embedding import ModelSettings, SentenceTransformerEmbedder
from policies.retrieval_policy import RetrievalPolicy, retrieval_policy
from records.errors import InvalidInputError

Told = Callable[[str, int, int], None]
TRANSFORMING: Final = "transformations"
SCIFACT: Final = Path(__file__).parent / "data" / "scifact"
"""The extract that ships."""
PUBLISHED: Final = {"scifact": {"lexical": 0.679, "semantic": 0.645}}
"""nDCG@10 of whole sets as published: BM25 by Anserini's BEIR regressions, all-MiniLM-L6-v2 by the MTEB tables."""
_WHOLE: Final = {"scifact": 5183}
"""Documents of a set that published figures are about."""


_WHOLE_SET: Final = Sizes()


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What is to be evaluated.

    Attributes:
        graded: folders of graded sets.
        vectors: a file in which vectors are kept from one run to the next.
        robust: whether the transformations are carried out.
    """

    sizes: Sizes = _WHOLE_SET
    graded: Sequence[Path] = (SCIFACT,)
    vectors: Path | None = None
    robust: bool = True


def evaluate_retrieval(wanted: Wanted, told: Told, policy: RetrievalPolicy | None = None) -> dict[str, Any]:
    """Evaluate and return the report as JSON values.

    Args:
        wanted: what is to be evaluated.
        told: what is done, how far, of how much.
        policy: the Retrieval Policy, the packaged one by default.

    Raises:
        InvalidInputError: fewer than one seed, or a folder is not a graded set.
        UnavailableError: the model is not installed, or a file cannot be read or written.
    """
    if wanted.sizes.seeds < 1:
        raise InvalidInputError("seeds", wanted.sizes.seeds, "Give a whole number from 1 on.")
    sets = [read_graded(folder) for folder in wanted.graded]
    begun, used = time.perf_counter(), policy or retrieval_policy()
    embedder = KeptVectors(SentenceTransformerEmbedder(), wanted.vectors)
    embedder.told = lambda done, total: told("vectors", done, total)
    graded = [_graded(each, embedder, used) for each in sets]
    counted, robust = _gold(wanted, embedder, used, told)
    found = report(counted)
    failed = [found["reason"]] if found["reason"] else []
    failed += [row["name"] for row in robust if not row["passed"]]
    failed += [f"{each['set']}: {name}" for each in graded for name in each["failed"]]
    return {
        "evaluation": "retrieval",
        **found,
        "status": "fail" if failed else "pass",
        "reason": ", ".join(failed),
        "graded": graded,
        "transformations": robust,
        "policy": used.identity.as_json(),
        "model": embedder.id,
        "seeds": wanted.sizes.seeds,
        "seconds": round(time.perf_counter() - begun, 1),
    }


def _gold(
    wanted: Wanted, embedder: KeptVectors, policy: RetrievalPolicy, told: Told
) -> tuple[list[Row], list[dict[str, Any]]]:
    counted: list[Row] = []
    robust: list[dict[str, Any]] = []
    for place, corpus in enumerate(corpora(wanted.sizes, embedder, policy, told)):
        answers = answered(corpus)
        counted += rows(corpus, answers)
        told(ASKING, place + 1, wanted.sizes.seeds + len(wanted.sizes.tables))
        if wanted.robust and not place:
            robust = _transformed(corpus, answers, told)
    return counted, robust


def _transformed(corpus: Corpus, answers: Sequence[Answer], told: Told) -> list[dict[str, Any]]:
    """Return the rows of all transformations of one corpus: its reporting half, and all of it for the payloads."""
    half, count = only(corpus.clean, REPORT), len(PLANTED) + 2
    base = figures([row for row in rows(corpus, answers) if row.question.half == REPORT])
    found = []
    for place, transformation in enumerate(PLANTED):
        told(TRANSFORMING, place, count)
        found.append(planted_row(half, base, transformation))
    told(TRANSFORMING, len(PLANTED), count)
    found.append(injected_row(corpus.clean, answers))
    told(TRANSFORMING, len(PLANTED) + 1, count)
    found += blocked_rows(half, SentenceTransformerEmbedder(ModelSettings(query_prompt="query: ")))
    told(TRANSFORMING, count, count)
    return found


def _graded(graded: GradedSet, embedder: KeptVectors, policy: RetrievalPolicy) -> dict[str, Any]:
    """Return the figures of one set with what failed: nothing that was measured may lie below its best source."""
    whole = len(graded.documents) == _WHOLE.get(graded.name)
    found = report_graded(search_graded(graded, embedder, policy.fusion), PUBLISHED[graded.name] if whole else {})
    failed = [f"independent {name}" for name, check in found["independent"].items() if not check["passed"]]
    failed += [f"published {name}" for name, check in found["published"].items() if not check["passed"]]
    halves = ((half, found["fused_minus_best"][half]["value"]) for half in (DEVELOPMENT, REPORT))
    failed += [f"fused below its best source, {half}" for half, value in halves if value is None or value < 0]
    return {**found, "whole": whole, "failed": failed}
