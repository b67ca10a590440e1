"""The weights of the Retrieval Policy, fitted on development halves alone.

    python -m evaluation.retrieval.fit [--seeds N] [--vectors FILE] [--graded DIR]... [--json]

Rules kept here:

- candidate lists first: for every graded set, weight in tenths and floor, the development half's nDCG@10. Of the
  fusions under which no set lies below its best single source, neither there nor one step of the grid away, the one
  with the best mean; where there is none, the one whose largest loss is smallest. A bound that holds at the edge of a
  cliff does not hold for other queries. Ties go to weights that are nearest to each other, then to the lower floor;
- then the ranker: one weight after another, each over its own grid, while anything improves; a tie keeps what is there.
  What is improved is the mean over the four strata of what an answer is worth: for a question with something to recall
  the mean of family recall, precision, nDCG and required evidence, for one without 1 for nothing and 0 for a card; a
  forbidden card makes either 0;
- the retriever is asked once; its candidates are ranked again for each set of weights by the policy's own ranker;
- nothing is drawn: the same halves give the same weights. The policy's file is written by hand from what is printed.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, Final

from evaluation.retrieval.asking import Answer
from evaluation.retrieval.gold import Corpus, Sizes, answered, corpora
from evaluation.retrieval.graded import DEVELOPMENT, GradedSet, half_of, read_graded
from evaluation.retrieval.measures import ndcg, precision, recall
from evaluation.retrieval.questions import MOST, Act, Stratum
from evaluation.retrieval.sources import DEPTH, Lists, lists_of
from evaluation.retrieval.vectors import KeptVectors
from memory.index.embedding import SentenceTransformerEmbedder
from memory.recall.candidates import join
from policies.ranker import Candidate, rank
from policies.retrieval_policy import Fusion, RetrievalProfile, retrieval_policy
from records.knowledge import MemoryRecord
from records.values import DecisionPoint

TENTHS: Final = 10
FLOORS: Final = (0, 100, 200, 300, 350, 400, 450, 500)
"""Cosines, in thousandths, below which the semantic list counts for nothing."""
GRIDS: Final[Mapping[str, tuple[int, ...]]] = {
    "weights.gain": (1, 2, 4, 8, 16),
    "weights.downside": (0, 1, 2, 4, 8),
    "weights.counter": (0, 1, 2, 4, 8, 16),
    "weights.relevance": (0, 1, 2, 4, 8),
    "weights.grade": (0, 500, 1000, 2000, 4000),
    "weights.support": (0, 25, 50, 100, 200),
    "weights.applicability": (0, 100, 200, 400),
    "avoid_share": (0, 50, 100, 250, 500, 1000),
    "thresholds.min_gain": (1, 250, 500, 1000, 1500, 2000),
    "thresholds.min_total": (0, 2000, 4000, 6000, 8000, 10_000, 12_000),
}
"""What is tried of each number, in the order in which they are tried."""
_ROUNDS: Final = 6


@dataclass(frozen=True)
class Case:
    """One development question with the candidates of its answer."""

    answer: Answer
    candidates: tuple[Candidate, ...]
    margin: str

    @classmethod
    def of(cls, answer: Answer) -> Case:
        """Return the case of an answer."""
        hits = () if answer.gathered is None else answer.gathered.hits
        pairs = zip(hits, answer.candidates, strict=True)
        candidates = tuple(
            Candidate(record=record, relevance=answer.relevance(hit), ranks=hit.ranks) for hit, record in pairs
        )
        return cls(answer, candidates, answer.question.contract.equivalence_margin)


def worth(case: Case, profile: RetrievalProfile) -> float:
    """Return what the answer under a profile is worth, in 0 .. 1."""
    question = case.answer.question
    chosen = rank(case.candidates, profile, case.margin, MOST).chosen
    acts = [Act.of(item.record) for item in chosen if isinstance(item.record, MemoryRecord)]
    if any(act in question.forbidden or (question.strict and act not in question.grades) for act in acts):
        return 0.0
    if not question.is_eligible:
        return float(not acts)
    names, right = [str(act) for act in acts], {str(act): grade for act, grade in question.grades.items()}
    cited = all(any(act in group for act in acts) for group in question.required)
    return fmean(
        (
            recall(names, right, MOST, len(question.best)),
            precision(names, right),
            ndcg(names, right, MOST, question.best.values()),
            float(cited),
        )
    )


def objective(cases: Sequence[Case], profile: RetrievalProfile) -> float:
    """Return the mean over strata of the mean worth."""
    by_stratum: dict[Stratum, list[float]] = {}
    for case in cases:
        by_stratum.setdefault(case.answer.question.stratum, []).append(worth(case, profile))
    return round(fmean(map(fmean, by_stratum.values())), 9)


def fitted(cases: Sequence[Case], profile: RetrievalProfile, told: Callable[[str], None]) -> RetrievalProfile:
    """Return the profile with the best numbers that one-at-a-time search finds."""
    best = objective(cases, profile)
    told(f"start: {best:.6f}")
    for _ in range(_ROUNDS):
        before = best
        for name, grid in GRIDS.items():
            for value in grid:
                tried = changed(profile, name, value)
                found = objective(cases, tried)
                if found > best:
                    best, profile = found, tried
                    told(f"{name} {value}: {best:.6f}")
        if best == before:
            break
    return profile


def changed(profile: RetrievalProfile, name: str, value: int) -> RetrievalProfile:
    """Return a profile with one number changed; `weights.gain` is the gain of its weights."""
    section, dot, field = name.partition(".")
    new = getattr(profile, section).model_copy(update={field: value}) if dot else value
    return profile.model_copy(update={section: new})


Searched = Mapping[str, tuple[GradedSet, Lists]]


def fusions() -> Iterator[Fusion]:
    """Yield every fusion that is tried: the structured list counts one tenth, for no graded set has one."""
    for floor in FLOORS:
        for lexical in range(1, TENTHS - 1):
            semantic = TENTHS - 1 - lexical
            yield Fusion(lexical=lexical, semantic=semantic, structured=1, semantic_floor=floor)


def above_best(searched: Searched, fusion: Fusion) -> dict[str, tuple[float, float]]:
    """Return by set the development nDCG@10 of a fusion, and how far it is above the best single source."""
    found = {}
    for name, (graded, lists) in searched.items():
        half = [query for query in lists if half_of(query) == DEVELOPMENT]
        fused = _mean(graded, {query: [hit.id for hit in join(lists[query], fusion)] for query in half})
        single = max(
            _mean(graded, {query: [each for each, _ in lists[query][source]] for query in half})
            for source in ("lexical", "semantic")
        )
        found[name] = (round(fused, 9), round(fused - single, 9))
    return found


def best_fusion(searched: Searched, told: Callable[[str], None]) -> Fusion:
    """Return the fusion that is nowhere below a single source, or least so, and best on average."""
    table = [(fusion, above_best(searched, fusion)) for fusion in fusions()]
    for fusion, found in table:
        shown = ", ".join(f"{name} {value:.4f} ({above:+.4f})" for name, (value, above) in found.items())
        told(f"lexical {fusion.lexical}, semantic {fusion.semantic}, floor {fusion.semantic_floor}: {shown}")
    return chosen_fusion(table)


def chosen_fusion(table: Sequence[tuple[Fusion, Mapping[str, tuple[float, float]]]]) -> Fusion:
    """Return the best fusion of a table of what `above_best` says of each."""
    losses = {_step(fusion): min(0.0, *(above for _, above in found.values())) for fusion, found in table}

    def key(entry: tuple[Fusion, Mapping[str, tuple[float, float]]]) -> tuple[float, float, int]:
        fusion, found = entry
        floor, lexical = _step(fusion)
        near = (losses.get((floor + up, lexical + more), 0.0) for up in (-1, 0, 1) for more in (-1, 0, 1))
        mean = round(fmean(value for value, _ in found.values()), 9)
        return min(near), mean, -abs(fusion.lexical - fusion.semantic)

    return max(table, key=key)[0]


def _step(fusion: Fusion) -> tuple[int, int]:
    """Return where a fusion stands in the grid: the place of its floor, and its lexical weight."""
    return FLOORS.index(fusion.semantic_floor), fusion.lexical


def _mean(graded: GradedSet, found: Mapping[str, Sequence[str]]) -> float:
    return fmean(ndcg(ids, graded.grades[query], DEPTH) for query, ids in found.items())


def _cases(found: Iterator[Corpus]) -> Iterator[Case]:
    for corpus in found:
        yield from (Case.of(each) for each in answered(corpus) if each.question.half == DEVELOPMENT)


def main() -> None:
    """Fit and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=2, help="corpora of the gold set")
    parser.add_argument("--vectors", type=Path, help="a file in which vectors are kept")
    parser.add_argument("--graded", type=Path, action="append", default=[], help="a graded set for the fusion")
    given = parser.parse_args()
    embedder, policy = KeptVectors(SentenceTransformerEmbedder(), given.vectors), retrieval_policy()
    found: dict[str, Any] = {}
    if given.graded:
        sets = {graded.name: graded for graded in map(read_graded, given.graded)}
        lists = {name: (graded, lists_of(graded, embedder)) for name, graded in sets.items()}
        found["fusion"] = best_fusion(lists, _told).as_json()
    profile = policy.require_profile(DecisionPoint.INTERVENTION)
    cases = list(_cases(corpora(Sizes(seeds=given.seeds), embedder, policy, lambda *_: None)))
    fit = fitted(cases, profile, _told)
    found |= {name: fit.as_json()[name] for name in ("weights", "thresholds", "avoid_share")}
    found |= {"questions": len(cases), "before": objective(cases, profile), "after": objective(cases, fit)}
    sys.stdout.write(f"{json.dumps(found)}\n")


def _told(line: str) -> None:
    sys.stderr.write(f"{line}\n")


if __name__ == "__main__":
    main()
