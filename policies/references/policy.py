"""The Reference Policy: every number that cuts, finds and shows sources (policies/files/reference-v*.yaml)."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from policies.loading import Policy, PolicyPart, packaged_policy
from records.errors import InvalidInputError
from records.fields import Name
from records.values import Count, DecisionPoint

Positive = Annotated[int, Field(ge=1, le=2**53 - 1)]


class PdfLimits(PolicyPart):
    """What reading one PDF may take.

    Attributes:
        pages: most pages.
        stream_bytes: most bytes that one stream of it may unfold into.
        text_bytes: most bytes of its text.
        seconds: most processor time; twice as much by the clock.
        memory_bytes: most memory of the process that reads it.
    """

    pages: Positive
    stream_bytes: Positive
    text_bytes: Positive
    seconds: Annotated[int, Field(ge=1, le=3600)]
    memory_bytes: Positive


class FileLimits(PolicyPart):
    """What may be read.

    Attributes:
        max_bytes: the largest file.
        pdf: what reading a PDF may take.
    """

    max_bytes: Positive
    pdf: PdfLimits


class ChunkLimits(PolicyPart):
    """How texts are cut.

    Attributes:
        rule: the identity of the algorithm; a policy that names another one is not for this code.
        tokens: most tokens of a chunk.
        smallest: a chunk of fewer tokens does not end where a part of the structure does.
    """

    rule: Name
    tokens: Annotated[int, Field(ge=4, le=100_000)]
    smallest: Count


class ReferenceFloor(PolicyPart):
    """How near a chunk must be to be found at all; it is if it reaches one of the two.

    Attributes:
        meaning: its cosine to the words that were looked for, in thousandths.
        words: the share of those words that it holds, in thousandths.
    """

    meaning: Annotated[int, Field(ge=0, le=1000)]
    words: Annotated[int, Field(ge=1, le=1000)]


class ReferenceSearchLimits(PolicyPart):
    """How chunks are found: the longest candidate list, most hits of one source, and how near one must be."""

    candidates: Positive
    per_source: Positive
    floor: ReferenceFloor


class ReferenceRendering(PolicyPart):
    """How cards are shown.

    Attributes:
        renderer: the identity of the layout.
        tokenizer: the identity of the tokenizer that measures it, without its release.
        id_digits: digits of an id that are shown.
        text_limit: most characters of a quotation or of a label.
        max_cards: most cards of a context.
        token_budget: most tokens of a whole section.
    """

    renderer: Name
    tokenizer: Name
    id_digits: Annotated[int, Field(ge=4, le=64)]
    text_limit: Positive
    max_cards: Positive
    token_budget: Positive


class ReferencePolicy(Policy):
    """One version of the policy (docs/adr/0063 says why).

    Attributes:
        adjacent_to: the decision points that may be given a Reference Context beside their Evidence Cards.
    """

    adjacent_to: tuple[DecisionPoint, ...]
    files: FileLimits
    chunks: ChunkLimits
    search: ReferenceSearchLimits
    rendering: ReferenceRendering

    def require_adjacent(self, point: str) -> None:
        """Refuse what is no decision point, or one that takes no Reference Context.

        Raises:
            InvalidInputError: the policy does not name it.
        """
        if point not in self.adjacent_to:
            legal = ", ".join(self.adjacent_to)
            raise InvalidInputError("decision_point", point, f"A Reference Context stands beside: {legal}.")


def reference_policy(version: str = "1") -> ReferencePolicy:
    """Return the packaged policy of a version.

    Raises:
        InvalidInputError: no such version ships.
    """
    return packaged_policy(ReferencePolicy, "reference", version)
