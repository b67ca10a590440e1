"""From ranked rules to the complete Recall Context and its section (spec 8.2, stages 8 and 9; 9.6).

Rules kept here: the section is rendered first and the context says what is in it, card by card; the status follows from
what was shown and whether the search was whole; every candidate and every refusal is counted once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from memory.recall.candidates import Gathered
from memory.recall.loaded import LoadedInput
from policies.ranker import Ranking, Source
from policies.rendering import CardPlace, Section, findings, fit_section
from policies.retrieval_policy import Rendering, RetrievalPolicy, RetrievalProfile
from records.canonical import digest_bytes
from records.decisions import (
    Card,
    ContextItem,
    ContextStatus,
    DecisionIntent,
    RecallContext,
    RecallRequest,
    RetentionCheck,
    citation_id,
)
from records.ids import IntentId, RecallInputId
from records.outcomes import OutcomeReason
from records.values import ReasonCount, SourceKind

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
    """A request that nothing blocks, with all that its stages need.

    Attributes:
        margin: the contract's equivalence margin.
        registered: whether the Ledger holds the intent; otherwise somebody only asks, and no decision follows.
    """

    intent: DecisionIntent
    request: RecallRequest
    loaded: LoadedInput
    policy: RetrievalPolicy
    retention: RetentionCheck
    margin: str
    registered: bool

    @property
    def profile(self) -> RetrievalProfile:
        """The profile of the decision point, which the check of the form has found."""
        return self.policy.require_profile(self.request.decision_point)


@dataclass(frozen=True, slots=True)
class Searched:
    """What filters and search found, by kind of source; whether any row was eligible, and whether a list is missing.

    `vector` is that of the query as it is kept, little-endian float32; None where there is none.
    """

    lanes: Mapping[SourceKind, Gathered]
    refused: Mapping[SourceKind, tuple[ReasonCount, ...]]
    vector: bytes | None
    eligible: bool
    degraded: bool

    @property
    def candidates(self) -> tuple[ReasonCount, ...]:
        """How many candidates each list gave; those of another kind than rules under its name."""
        return _named({kind: gathered.counts for kind, gathered in self.lanes.items()})

    @property
    def filtered(self) -> tuple[ReasonCount, ...]:
        """How many rows each hard filter refused; those of another kind than rules under its name."""
        return _named(self.refused)

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
    *,
    count: Callable[[str], int],
    now: str,
) -> Recall:
    """Return the context of the ranked rules that fit the budget, and their section."""
    style, budget = admitted.policy.rendering, admitted.request.token_budget
    places = _places(admitted, ranking, style.renderer)
    section = fit_section(places, style, budget, count, lambda cards: _NOTES[searched.reason(cards)])
    dropped = (ReasonCount(reason="token_budget", count=section.dropped),) if section.dropped else ()
    reason = searched.reason(len(section.card_tokens))
    context = RecallContext(
        namespace=admitted.intent.namespace,
        created_at=now,
        intent_id=IntentId(admitted.intent.id),
        request_digest=admitted.request.canonical_digest,
        recall_input_id=RecallInputId(admitted.loaded.recall_input.id),
        query_vector_digest=None if searched.vector is None else digest_bytes(searched.vector),
        retention=admitted.retention,
        status=_STATUS[reason],
        status_reason=reason.value,
        items=_items(places, section),
        rendered_digest=digest_bytes(section.text.encode()),
        token_count=section.token_count,
        candidates=(*searched.candidates, *_marked(places[: len(section.card_tokens)], style)),
        filtered=(*searched.filtered, *ranking.refused, *dropped),
    )
    return Recall(context, section.text)


def _named(counts: Mapping[SourceKind, Sequence[ReasonCount]]) -> tuple[ReasonCount, ...]:
    return tuple(
        each if kind is SourceKind.SEMANTIC else ReasonCount(reason=f"{kind.value}.{each.reason}", count=each.count)
        for kind, found in counts.items()
        for each in found
    )


def _places(admitted: Admitted, ranking: Ranking, renderer: str) -> list[CardPlace]:
    loaded = admitted.loaded
    places = []
    for ordinal, scored in enumerate(ranking.chosen, start=1):
        card = _card(scored.record, loaded, renderer)
        cited = citation_id(IntentId(admitted.intent.id), RecallInputId(loaded.recall_input.id), card.card_id, ordinal)
        places.append(CardPlace(ordinal=ordinal, citation=cited, card=card, score=scored.parts))
    return places


def _card(record: Source, loaded: LoadedInput, renderer: str) -> Card:
    made = loaded.queried.card_of(record, renderer)
    if made is None:
        raise ValueError(f"{record.id} was ranked and is no member of what was queried")
    return made


def _marked(places: Sequence[CardPlace], style: Rendering) -> tuple[ReasonCount, ...]:
    """Return how many of the cards shown are labelled because a text of theirs reads like instructions."""
    marked = sum(bool(findings(place.card, style)) for place in places)
    return (ReasonCount(reason="reads_like_instructions", count=marked),) if marked else ()


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
