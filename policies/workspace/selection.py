"""Which relevant claims are shown: in the order of their scores, by quota of their type and by budget (spec 004).

Rules kept here:

- a claim is relevant by the share of the objective's words that it has, or by its cosine; nothing relevant is an
  abstention, not the least bad;
- a type takes no more of the budget than its quota; what it leaves is for others;
- the whole section stays within the budget: claims go from the end until it fits. Each that is not shown says why;
- no learned weight comes in here (spec 004, "Outcome receipts and shadow learning").

Pure: words and tokens come in as functions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from policies.workspace.likeness import Words
from policies.workspace.recall import ClaimRecallPolicy, ClaimSearch
from policies.workspace.rendering import fit_claims, render_claim
from records.claim_traces import TraceReason
from records.workspace import WorkspaceClaim


def content_words(text: str, words: Words, rule: ClaimSearch) -> frozenset[str]:
    """Return the words of a text that say what it is about."""
    return frozenset(words(text)) - frozenset(rule.stop_words)


def is_relevant(wanted: Collection[str], found: Collection[str], cosine_thousandths: int, rule: ClaimSearch) -> bool:
    """Tell whether a claim is about an objective.

    Args:
        wanted: the objective's words.
        found: those of the claim.
        cosine_thousandths: of the two texts; below zero where it was not among the nearest.
        rule: what counts as relevant.
    """
    shared = len(set(wanted) & set(found))
    by_words = bool(wanted) and 100 * shared >= rule.shared_words_percent * len(wanted)
    return by_words or cosine_thousandths >= rule.cosine_thousandths


@dataclass(frozen=True, slots=True)
class Chosen:
    """What was decided about each relevant claim, and the section of those that are shown.

    Attributes:
        reasons: one for each claim, in their order; `tokens` are those of its entry.
    """

    reasons: tuple[TraceReason, ...]
    tokens: tuple[int, ...]
    rendered: str
    token_count: int


def select(
    claims: Sequence[WorkspaceClaim], policy: ClaimRecallPolicy, budget: int, count: Callable[[str], int]
) -> Chosen:
    """Return which claims are shown.

    Args:
        claims: the relevant ones, best first.
        policy: quotas and rendering.
        budget: most tokens of the whole section.
        count: counts the tokens of a text.
    """
    entries = [render_claim(claim, policy.rendering) for claim in claims]
    tokens = [count(entry) for entry in entries]
    spent: Counter[str] = Counter()
    reasons: list[TraceReason] = []
    taken: list[int] = []
    for place, claim in enumerate(claims):
        within = spent[claim.claim_type] + tokens[place] <= policy.quotas.tokens(claim.claim_type, budget)
        if not within:
            reasons.append(TraceReason.QUOTA)
        elif len(taken) == policy.rendering.max_claims:
            reasons.append(TraceReason.LIMIT)
        else:
            spent[claim.claim_type] += tokens[place]
            reasons.append(TraceReason.SELECTED)
            taken.append(place)
    made = fit_claims([entries[place] for place in taken], budget, count)
    for place in taken[made.shown :]:
        reasons[place] = TraceReason.BUDGET
    return Chosen(tuple(reasons), tuple(tokens), made.text, made.token_count)
