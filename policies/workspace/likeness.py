"""When two claims say the same, and when they contradict each other (spec 004; reference 3.2).

Rules kept here:

- two texts say the same if they have the same words in the same order; sets would take "a calls b" for "b calls a";
- two contradict each other if they share most of their words, negations left out, and one of them is negated; or if
  they have the same words and one of their numbers is another;
- confidence, trust and order of arrival are not asked here.

Pure: what the words of a text are comes in as a function.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from policies.workspace.policy import Likeness

Words = Callable[[str], Sequence[str]]
"""Gives the words of a text in order, as stems."""

_SHORTENED: Final = re.compile(r"\b(ca|wo|sha|\w+?)n['\u2019]t\b", re.IGNORECASE)
_WHOLE: Final = {"ca": "can", "wo": "will", "sha": "shall"}
_CANNOT: Final = re.compile(r"\bcannot\b", re.IGNORECASE)
_NUMBER: Final = re.compile(r"\d+(?:\.\d+)?(?:e[-+]?\d+)?")


@dataclass(frozen=True, slots=True)
class Said:
    """What a text says.

    Attributes:
        words: all of them, in order.
        subject: those that are neither negation nor number.
        numbers: sorted, repeats kept.
        negated: whether an odd number of negations turns it round.
    """

    words: tuple[str, ...]
    subject: frozenset[str]
    numbers: tuple[str, ...]
    negated: bool


def said(text: str, words: Words, rules: Likeness) -> Said:
    """Return what a text says."""
    spelled = _CANNOT.sub("can not", _SHORTENED.sub(_spelled, text))
    found = tuple(words(spelled))
    turns = frozenset(rules.negations)
    numbers = tuple(sorted(word for word in found if _NUMBER.fullmatch(word)))
    subject = frozenset(word for word in found if word not in turns and not _NUMBER.fullmatch(word))
    return Said(found, subject, numbers, sum(word in turns for word in found) % 2 == 1)


def _spelled(found: re.Match[str]) -> str:
    return f"{_WHOLE.get(found[1].lower(), found[1])} not"


def is_same(one: Said, other: Said) -> bool:
    """Tell whether two texts say the same."""
    return one.words == other.words


def contradicts(one: Said, other: Said, rules: Likeness) -> bool:
    """Tell whether two texts contradict each other."""
    if one.negated != other.negated:
        mine, theirs = one.subject | set(one.numbers), other.subject | set(other.numbers)
        return bool(mine) and 100 * len(mine & theirs) >= rules.overlap_percent * len(mine | theirs)
    if not rules.numbers_contradict or not one.numbers or not other.numbers:
        return False
    own, others = Counter(one.numbers), Counter(other.numbers)
    one_apart = (own - others).total() == (others - own).total() == 1  # two that differ speak of something else
    return bool(one.subject) and one.subject == other.subject and one_apart
