"""The Workspace Recall Policy: how claims are checked, found and shown (policies/files/workspace-recall-v*.yaml)."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from policies.loading import Policy, PolicyPart, packaged_policy
from records.fields import Name
from records.workspace import ClaimType

Positive = Annotated[int, Field(ge=1, le=2**53 - 1)]
Hundredths = Annotated[int, Field(ge=0, le=100)]


class PredicateLimits(PolicyPart):
    """How predicates are checked.

    Attributes:
        max_bytes: the largest file that is hashed.
        max_config_bytes: the largest file that is read whole, such as a configuration.
        seconds: most time for one file.
        settle_ms: how long a file must have been seen unchanged before its digest is remembered.
    """

    max_bytes: Positive
    max_config_bytes: Positive
    seconds: Positive
    settle_ms: Positive


class ClaimSearch(PolicyPart):
    """How claims are found.

    Attributes:
        candidates: the longest candidate list.
        shared_words_percent: the share of the objective's words that makes a claim relevant, in hundredths.
        cosine_thousandths: the cosine that makes a claim relevant, in thousandths.
        stop_words: words, as stems, that say nothing about what a text is about.
    """

    candidates: Positive
    shared_words_percent: Annotated[int, Field(ge=1, le=100)]
    cosine_thousandths: Annotated[int, Field(ge=0, le=1000)]
    stop_words: tuple[Name, ...]


class Quotas(PolicyPart):
    """Most of the token budget that claims of one type may take, in hundredths."""

    fact: Hundredths
    configuration: Hundredths
    command: Hundredths
    constraint: Hundredths

    def tokens(self, claim_type: ClaimType, budget: int) -> int:
        """Return the most tokens that claims of a type may take of a budget."""
        return int(getattr(self, claim_type.value)) * budget // 100


class ClaimRendering(PolicyPart):
    """How claims are shown.

    Attributes:
        renderer: the identity of the layout.
        tokenizer: the identity of the tokenizer that measures it, without its release.
        id_digits: digits of an id that are shown.
        text_limit: most characters of a claim that are shown.
        max_claims: most claims of a section.
        token_budget: most tokens of a whole section.
    """

    renderer: Name
    tokenizer: Name
    id_digits: Annotated[int, Field(ge=4, le=64)]
    text_limit: Positive
    max_claims: Positive
    token_budget: Positive


class ClaimRecallPolicy(Policy):
    """One version of the policy (docs/adr/0085 says why)."""

    predicates: PredicateLimits
    search: ClaimSearch
    quotas: Quotas
    rendering: ClaimRendering


def claim_recall_policy(version: str = "1") -> ClaimRecallPolicy:
    """Return the packaged policy of a version.

    Raises:
        InvalidInputError: no such version ships.
    """
    return packaged_policy(ClaimRecallPolicy, "workspace-recall", version)
