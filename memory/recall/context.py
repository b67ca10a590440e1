"""From ranked rules to the complete Recall Context and its section (spec 8.2, stages 8 and 9; 9.6).

Rules kept here: the section is rendered first and the context says what is in it, card by card; the status follows from
what was shown and whether the search was whole; every candidate and every refusal is counted once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from memory.recall.cards import make_card
from memory.recall.loaded import LoadedInput
from policies.ranker import Ranking
from policies.rendering import CardPlace, Section, fit_section
from policies.retrieval_policy import Rendering, RetrievalProfile
from records.canonical import digest_bytes
from records.decisions import (
    ContextItem,
    ContextStatus,
    DecisionIntent,
    RecallContext,
    RecallRequest,
    RetentionCheck,
    citation_id,
)
from records.ids import IntentId, MemoryId, RecallInputId
from records.outcomes import OutcomeReason
from records.values import ReasonCount

_NOTES: Final = {
    OutcomeReason.CARDS_RETURNED: "Verified rules that apply to this decision, best first.",
    OutcomeReason.NO_ELIGIBLE_EVIDENCE: "No verified rule applies to this decision.",
    OutcomeReason.BELOW_THRESHOLD: "Verified rules apply, but none of them can be shown within thresholds and budget.",
    OutcomeReason.ADAPTER_FALLBACK: "Search by meaning was not available; found by words and structure alone.",
}
_STATUS: Final = {
    OutcomeReason.CARDS_RETURNED: ContextStatus.OK,
    OutcomeReason.NO_ELIGIBLE_EVIDENCE: ContextStatus.EMPTY,
    OutcomeReason.BELOW_THRESHOLD: ContextStatus.EMPTY,
    OutcomeReason.ADAPTER_FALLBACK: ContextStatus.DEGRADED,
}


@dataclass(frozen=True, slots=True)
class Recall:
    """A context proposal and the section that it stands for; both are complete, neither is in the Ledger yet."""

    context: RecallContext
    rendered: str


@dataclass(frozen=True, slots=True)
class Admitted:
    """A request that nothing blocks, with all that its stages need; `margin` is the contract's equivalence margin."""

    intent: DecisionIntent
    request: RecallRequest
    loaded: LoadedInput
    profile: RetrievalProfile
    retention: RetentionCheck
    margin: str


@dataclass(frozen=True, slots=True)
class Searched:
    """What filters and search found: counts, whether any row was eligible, and whether the search was whole."""

    candidates: tuple[ReasonCount, ...]
    filtered: tuple[ReasonCount, ...]
    vector_digest: str | None
    eligible: bool
    degraded: bool

    def reason(self, cards: int) -> OutcomeReason:
        """Return the reason of an answer with so many cards."""
        if self.degraded:
            return OutcomeReason.ADAPTER_FALLBACK
        if cards:
            return OutcomeReason.CARDS_RETURNED
        return OutcomeReason.BELOW_THRESHOLD if self.eligible else OutcomeReason.NO_ELIGIBLE_EVIDENCE


def compose_recall(
    admitted: Admitted,
    searched: Searched,
    ranking: Ranking,
    style: Rendering,
    *,
    count: Callable[[str], int],
    now: str,
) -> Recall:
    """Return the context of the ranked rules that fit the budget, and their section."""
    places = _places(admitted, ranking, style.renderer)
    budget = admitted.request.token_budget
    section = fit_section(places, style, budget, count, lambda cards: _NOTES[searched.reason(cards)])
    dropped = (ReasonCount(reason="token_budget", count=section.dropped),) if section.dropped else ()
    reason = searched.reason(len(section.card_tokens))
    context = RecallContext(
        namespace=admitted.intent.namespace,
        created_at=now,
        intent_id=IntentId(admitted.intent.id),
        request_digest=admitted.request.canonical_digest,
        recall_input_id=RecallInputId(admitted.loaded.recall_input.id),
        query_vector_digest=searched.vector_digest,
        retention=admitted.retention,
        status=_STATUS[reason],
        status_reason=reason.value,
        items=_items(places, section),
        rendered_digest=digest_bytes(section.text.encode()),
        token_count=section.token_count,
        candidates=searched.candidates,
        filtered=(*searched.filtered, *ranking.refused, *dropped),
    )
    return Recall(context, section.text)


def _places(admitted: Admitted, ranking: Ranking, renderer: str) -> list[CardPlace]:
    loaded = admitted.loaded
    as_of = loaded.metadata.snapshot.lifecycle_position
    places = []
    for ordinal, scored in enumerate(ranking.chosen, start=1):
        card = make_card(scored.record, loaded.members[MemoryId(scored.record.id)], as_of, renderer)
        cited = citation_id(IntentId(admitted.intent.id), RecallInputId(loaded.recall_input.id), card.card_id, ordinal)
        places.append(CardPlace(ordinal=ordinal, citation=cited, card=card, score=scored.parts))
    return places


def _items(places: Sequence[CardPlace], section: Section) -> tuple[ContextItem, ...]:
    return tuple(
        ContextItem(
            ordinal=place.ordinal,
            citation_id=place.citation,
            card_id=place.card.card_id,
            memory_id=place.card.memory_id,
            card=place.card,
            score=place.score,
            token_count=tokens,
        )
        for place, tokens in zip(places, section.card_tokens, strict=False)  # cards beyond the budget have no tokens
    )
