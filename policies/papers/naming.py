"""Where a text names a metric: by the words of the metric's own name, however a writer spells them.

Rules kept here:

- a name is its words in their order, in lower case, each as the policy keeps it; `_`, `-`, space and case are one, and
  `/` is *per*: `GB_per_s` is named by "GB/s";
- words at the end that are the unit, and words that the policy calls qualifiers, may be left out, but never the whole
  name;
- of two names at one place the longer one counts: "balanced accuracy" does not name `accuracy` where both are known.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from policies.papers.policy import PaperPolicy

_WORD: Final = re.compile(r"[A-Za-z]+|\d+|/")
_CAMEL: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")


class Mention(NamedTuple):
    """A place where metrics are named: its first character, the one after its last, and the names it stands for."""

    start: int
    end: int
    names: frozenset[str]


def words_of(name: str, policy: PaperPolicy) -> tuple[str, ...]:
    """Return the words of a name, as names are compared."""
    return tuple(_word(found[0], policy) for found in _WORD.finditer(_CAMEL.sub(" ", name)))


def _word(text: str, policy: PaperPolicy) -> str:
    lower = text.lower()
    return "per" if lower == "/" else policy.word_names.get(lower, lower)


def unit_of(name: str, policy: PaperPolicy) -> str | None:
    """Return the unit that the end of a name tells, if it does."""
    known = {words_of(way, policy): unit for way, unit in policy.unit_names.items()}
    words = words_of(name, policy)
    found = (known[words[at:]] for at in range(len(words)) if words[at:] in known)
    return next(found, None)


class Names:
    """The metrics that a text may name."""

    def __init__(self, names: Iterable[str], policy: PaperPolicy, aliases: Mapping[str, str] | None = None) -> None:
        """Take metrics by name; `aliases` are further words for them, with the name."""
        self._policy = policy
        self._ways: dict[tuple[str, ...], set[str]] = {}
        for name in sorted(set(names)):
            for way in self._variants(name):
                self._ways.setdefault(way, set()).add(name)
        for words, name in (aliases or {}).items():
            self._ways.setdefault(words_of(words, policy), set()).add(name)
        self._ways.pop((), None)
        self._longest = max(map(len, self._ways), default=0)

    def _variants(self, name: str) -> Iterable[tuple[str, ...]]:
        words = words_of(name, self._policy)
        yield words
        units = {words_of(way, self._policy) for way in self._policy.unit_names}
        short = next((words[:at] for at in range(1, len(words)) if words[at:] in units), words)
        yield short
        while len(short) > 1 and short[0] in self._policy.qualifiers:
            short = short[1:]
            yield short
        while len(short) > 1 and short[-1] in self._policy.qualifiers:
            short = short[:-1]
            yield short

    def mentions(self, shown: str, start: int, end: int) -> list[Mention]:
        """Return where a stretch of a text names metrics, in order; no two overlap."""
        places = [(found.start(), found.end(), found[0]) for found in _WORD.finditer(shown, start, end)]
        words = [_word(text, self._policy) for _, _, text in places]
        found, at = [], 0
        while at < len(words):
            for size in range(min(self._longest, len(words) - at), 0, -1):
                names = self._ways.get(tuple(words[at : at + size]))
                if names is not None:
                    found.append(Mention(places[at][0], places[at + size - 1][1], frozenset(names)))
                    at += size - 1
                    break
            at += 1
        return found
