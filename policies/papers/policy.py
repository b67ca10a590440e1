"""The Paper Audit Policy: words and units by which numbers of a text are read (policies/files/paper-audit-v*.yaml)."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from policies.loading import Policy, packaged_policy
from records.fields import Text
from records.models import once

Words = Annotated[tuple[Text, ...], Field(min_length=1)]


class PaperPolicy(Policy):
    """One version of the policy (docs/adr/0081 says why).

    Attributes:
        bibliography: headings of parts that are left out, in lower case.
        pointers: words whose number names a part of a text.
        abbreviations: words that end in a full stop and no sentence.
        setting_mark: what a comment says whose line holds settings and no results.
        units: each as it is kept, with further ways to write it.
        shares: units of numbers that can be written in per cent.
        words: each as it is kept, with further ways to write it, for the names of metrics.
        qualifiers: words of a metric's name that a text may leave out.
        spreads: words of a metric that tells how much another one spreads.
        joiners: what stands between numbers of one kind.
        not_counted: words after a whole number that do not make it a count.
        reach: how many words before a number a metric may be named for another value to contradict it.
    """

    bibliography: Words
    pointers: Words
    abbreviations: Words
    setting_mark: Text
    units: tuple[Words, ...]
    shares: Words
    words: tuple[Words, ...]
    qualifiers: Words
    spreads: Words
    joiners: Words
    not_counted: Words
    reach: Annotated[int, Field(ge=0, le=1_000)]

    @once
    def unit_names(self) -> dict[str, str]:
        """Every way to write a unit, with the unit."""
        return {way: ways[0] for ways in self.units for way in ways}

    @once
    def word_names(self) -> dict[str, str]:
        """Every way to write a word of a metric's name, with the word."""
        return {way: ways[0] for ways in self.words for way in ways}


def paper_policy(version: str = "1") -> PaperPolicy:
    """Return the packaged policy of a version.

    Raises:
        InvalidInputError: no such version ships.
    """
    return packaged_policy(PaperPolicy, "paper-audit", version)
