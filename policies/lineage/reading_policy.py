"""The Lineage Reading Policy: what grounds, what is claimed, how it is shown (files/lineage-reading-v*.yaml)."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from policies.loading import Policy, PolicyPart, packaged_policy
from records.fields import Name, Text
from records.lineage import ArtifactRole, EntryKind

Positive = Annotated[int, Field(ge=1, le=2**53 - 1)]
Kinds = Annotated[tuple[EntryKind, ...], Field(min_length=1)]


class GroundingRule(PolicyPart):
    """Which files can hold a measurement.

    Attributes:
        roles: the roles that can.
        source_suffixes: ends of names, in lower case, that are code whatever their role.
    """

    roles: Annotated[tuple[ArtifactRole, ...], Field(min_length=1)]
    source_suffixes: tuple[Text, ...]


class ContextRule(PolicyPart):
    """What a verified context is made of: the kinds that claim, those that limit, and the metric that a judge gives."""

    claims: Kinds
    limitations: Kinds
    judge: Text


class LineageSearch(PolicyPart):
    """How entries are found: the longest candidate list."""

    candidates: Positive


class GroundedRendering(PolicyPart):
    """How usable claims are shown.

    Attributes:
        renderer: the identity of the layout; a policy that names another one is not for this code.
        tokenizer: the identity of the tokenizer that measures it, without its release.
        id_digits: digits of an id or a digest that are shown.
        text_limit: most characters of a text.
        files: most files of a claim that are named.
        token_budget: most tokens of the whole section.
    """

    renderer: Name
    tokenizer: Name
    id_digits: Annotated[int, Field(ge=4, le=64)]
    text_limit: Positive
    files: Positive
    token_budget: Positive


class WorkingRendering(PolicyPart):
    """How a working context is shown; `conclusions` are the kinds that a node concludes with."""

    renderer: Name
    conclusions: Kinds
    text_limit: Positive
    token_budget: Positive


class LineageReadingPolicy(Policy):
    """One version of the policy (docs/adr/0081 says why)."""

    grounding: GroundingRule
    context: ContextRule
    search: LineageSearch
    rendering: GroundedRendering
    working: WorkingRendering


def lineage_reading_policy(version: str = "1") -> LineageReadingPolicy:
    """Return the packaged policy of a version.

    Raises:
        InvalidInputError: no such version ships.
    """
    return packaged_policy(LineageReadingPolicy, "lineage-reading", version)
