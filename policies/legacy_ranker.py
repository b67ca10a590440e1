"""The recall of the earlier design, exactly: which lessons it showed, in which order, for how many of its tokens.

Pure, and for comparison arms only (docs/adr/0072): no mode but `legacy_recall` asks it, and what it returns is no
Evidence Card. Facts: the public program LIHUA919/AI-Researcher (Apache-2.0); the tests compute the score breakdown of
every item of its published phase-3 recall contexts again, to the last of their eight places.

Rules kept here:

- scope is task (unless `cross_task`), domain, data set and model family, letter by letter;
- score = 0.5 relevance + 0.15 outcome utility + 0.2 provenance + 0.05 recency - 0.1 redundancy; relevance is the
  Jaccard index of lower-cased word sets, where a word is a run of word characters and dashes, two or longer, and the
  words of a lesson are those of its text and its conditions; redundancy compares them with the words of the lessons
  taken before;
- recency is epoch seconds / 2e9 and so is practically the same for all. Ties go by id;
- lessons are taken one by one and scored anew after each; one that exceeds the budget is passed over. A lesson costs a
  quarter of its UTF-8 bytes, rounded up.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from policies.legacy_gate import LegacyKnowledge, LegacyOutcome

DEFAULT_ITEMS: Final = 8
DEFAULT_TOKENS: Final = 3000
MATCHED_ITEMS: Final = 3
MATCHED_TOKENS: Final = 1200
"""The budget of arm C2, which is that of the cards it is compared with (reference 1.3)."""

_WORD: Final = re.compile(r"[\w-]{2,}")
_WEIGHTS: Final = {
    "relevance": 0.5,
    "outcome_utility": 0.15,
    "provenance_quality": 0.2,
    "recency": 0.05,
    "redundancy": 0.1,
}
_UTILITY: Final = {LegacyOutcome.POSITIVE: 1.0, LegacyOutcome.NEGATIVE: 0.9}
_PLACES: Final = 8
_EPOCH_SCALE: Final = 2e9


@dataclass(frozen=True, kw_only=True)
class LegacyRequest:
    """What is asked: for which task, domain, data and model, and how much may come back."""

    task_id: str
    domain: str
    dataset_id: str
    model_family: str
    query: str
    max_items: int = DEFAULT_ITEMS
    token_budget: int = DEFAULT_TOKENS
    include_negative: bool = True
    cross_task: bool = False


@dataclass(frozen=True, kw_only=True)
class LegacyItem:
    """A lesson that is shown; score and parts are rounded to eight places, redundancy is negative."""

    knowledge: LegacyKnowledge
    score: float
    breakdown: Mapping[str, float]
    token_count: int


def legacy_recall(request: LegacyRequest, lessons: Iterable[LegacyKnowledge]) -> tuple[LegacyItem, ...]:
    """Return the lessons for a request, in the order in which they are taken."""
    remaining = {each.knowledge_id: each for each in lessons if _in_scope(each, request)}
    words = {key: words_of(" ".join([each.lesson, *each.conditions])) for key, each in remaining.items()}
    query = words_of(request.query)
    taken: list[LegacyItem] = []
    shown: list[frozenset[str]] = []
    left = request.token_budget
    while remaining and left > 0 and len(taken) < request.max_items:
        parts = {key: _parts(remaining[key], query, words[key], shown) for key in remaining}
        best = min(parts, key=lambda key: (-_score(parts[key]), key))
        lesson, found = remaining.pop(best), parts[best]
        tokens = token_count(lesson.lesson)
        if tokens <= left:
            taken.append(_item(lesson, found, tokens))
            shown.append(words_of(lesson.lesson))
            left -= tokens
    return tuple(taken)


def words_of(text: str) -> frozenset[str]:
    """Return the words by which texts are compared."""
    return frozenset(_WORD.findall(text.lower()))


def token_count(text: str) -> int:
    """Return what a lesson costs."""
    return max(1, math.ceil(len(text.encode()) / 4))


def _in_scope(lesson: LegacyKnowledge, request: LegacyRequest) -> bool:
    place = (lesson.domain, lesson.dataset_id, lesson.model_family)
    return (
        place == (request.domain, request.dataset_id, request.model_family)
        and (request.cross_task or lesson.task_id == request.task_id)
        and (request.include_negative or lesson.outcome is not LegacyOutcome.NEGATIVE)
    )


def _parts(
    lesson: LegacyKnowledge, query: frozenset[str], words: frozenset[str], shown: Iterable[frozenset[str]]
) -> dict[str, float]:
    sources = min(1.0, len(lesson.source_experience_ids) / 3)
    return {
        "relevance": _overlap(query, words),
        "outcome_utility": _UTILITY[lesson.outcome],
        "provenance_quality": min(1.0, 0.7 * lesson.confidence + 0.3 * sources),
        "recency": min(1.0, datetime.fromisoformat(lesson.created_at).timestamp() / _EPOCH_SCALE),
        "redundancy": -max((_overlap(words, each) for each in shown), default=0.0),
    }


def _score(parts: Mapping[str, float]) -> float:
    return sum(weight * parts[name] for name, weight in _WEIGHTS.items())


def _item(lesson: LegacyKnowledge, parts: Mapping[str, float], tokens: int) -> LegacyItem:
    rounded = {name: round(value, _PLACES) for name, value in parts.items()}
    return LegacyItem(knowledge=lesson, score=round(_score(parts), _PLACES), breakdown=rounded, token_count=tokens)


def _overlap(one: frozenset[str], other: frozenset[str]) -> float:
    return len(one & other) / len(one | other) if one and other else 0.0
