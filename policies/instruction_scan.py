"""Texts of records that read like instructions: found, counted, labelled, never obeyed (spec 13, 15, VRM-R09).

Rules kept here (docs/adr/0061):

- a finding is a closed code of the policy file and a number. It decides nothing: escaping and the actor's own checks
  are what keeps text data, and a text that no pattern knows has no more authority than one that is known;
- a text is scanned whole, however little of it is shown, and read as a reader would: in compatibility form, casefolded,
  without control characters and whatever Unicode lets a display leave out; what is hidden is a finding of its own,
  whether or not the file lists its character (docs/adr/0064);
- every gap in a pattern is bounded, so that no text can make the scan slow.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from typing import Annotated, Final

from pydantic import Field, field_validator

from policies.escaping import IGNORABLE
from policies.loading import Policy, PolicyPart, packaged_policy
from records.fields import Name, Text
from records.values import PolicyIdentity, ReasonCount

_INVISIBLE: Final = frozenset({"Cf", "Cc"})
_SPACE: Final = re.compile(r"\s+")
_HIDDEN: Final = "hidden"
"""The code of a text with a character that a display may leave out."""


class ScanPattern(PolicyPart):
    """One pattern and the code of what it finds; several patterns may share a code."""

    code: Name
    pattern: Text

    @field_validator("pattern")
    @classmethod
    def _compiles(cls, pattern: str) -> str:
        try:
            re.compile(pattern)
        except re.error as error:
            raise ValueError(f"give a regular expression: {error}") from error
        return pattern


class InstructionScan(Policy):
    """One version of the policy.

    Attributes:
        patterns: applied to the text as a reader sees it.
        raw: applied to the text as it is.
    """

    patterns: Annotated[tuple[ScanPattern, ...], Field(min_length=1)]
    raw: tuple[ScanPattern, ...]

    def findings(self, texts: Iterable[str]) -> tuple[ReasonCount, ...]:
        """Return how many of the texts each code was found in, sorted by code; nothing where there is nothing."""
        found: Counter[str] = Counter()
        for text in texts:
            found.update(_codes(self, text))
        return tuple(ReasonCount(reason=code, count=count) for code, count in sorted(found.items()))


def instruction_scan(version: str = "1") -> InstructionScan:
    """Return the packaged policy of a version.

    Raises:
        InvalidInputError: no such version ships.
    """
    return packaged_policy(InstructionScan, "instruction-scan", version)


def pinned_scan(pinned: PolicyIdentity) -> InstructionScan:
    """Return the packaged policy that an identity names.

    Raises:
        InvalidInputError: no such version ships.
        ValueError: the version that ships is of another content.
    """
    found = packaged_policy(InstructionScan, pinned.policy_id, pinned.version)
    if found.identity != pinned:
        raise ValueError(f"{pinned.policy_id} {pinned.version} is not the one that was pinned")
    return found


@lru_cache(maxsize=4096)  # every decision meets the same texts
def _codes(policy: InstructionScan, text: str) -> frozenset[str]:
    text = _said(text)
    seen = as_read(text)
    found = {each.code for each in policy.patterns if re.search(each.pattern, seen)}
    found |= {each.code for each in policy.raw if re.search(each.pattern, text)}
    return frozenset(found | ({_HIDDEN} if IGNORABLE.search(text) else set()))


def _said(text: str) -> str:
    """Return what a value of a procedure says: kept as JSON, it would hide line ends and control characters."""
    if text[:1] != '"':
        return text
    try:
        said = json.loads(text)
    except ValueError:
        return text
    return said if isinstance(said, str) else text


def as_read(text: str) -> str:
    """Return a text as a reader sees it: compatibility form, casefolded, nothing invisible, single spaces."""
    visible = "".join(
        " " if character.isspace() else character
        for character in unicodedata.normalize("NFKC", IGNORABLE.sub("", text))
        if character.isspace() or unicodedata.category(character) not in _INVISIBLE
    )
    return _SPACE.sub(" ", visible.casefold())
