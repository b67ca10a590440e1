"""The seam itself: adapters that draft, and how a candidate's wording comes of what they say. Pure but for the adapter.

Rules kept here:

- only a promoted verdict with a direction is drafted; all else is worded by the template;
- what an adapter says is taken if it passes `policies.drafting.checks`, or is the template's own sentence. Else the
  template words the candidate, and a finding `draft_refused_<reason>` says why: a draft can fail, a commit cannot;
- a wording says who made it. Nothing but claim, adapter and findings depends on the draft.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

from policies.distiller import VariantVerdict
from policies.drafting.checks import WHY, DraftedText, RefusalReason, can_be_drafted, refusal
from policies.drafting.facts import DraftFacts, facts_of
from policies.drafting.template import TEMPLATE
from records.knowledge import DecisionKind, Finding

REFUSED: Final = "draft_refused_"
"""With what the code of a finding about a refused draft begins."""


@dataclass(frozen=True)
class Answer:
    """What an adapter gave: a draft or the reason why there is none, and the digest of what was said, if it is kept."""

    draft: DraftedText | RefusalReason
    exchange: str | None = None


class KnowledgeDraftingAdapter(Protocol):
    """Words facts; decides nothing (spec 8.1)."""

    @property
    def identity(self) -> str:
        """Adapter, model and the digest of the prompt, in the form of a name."""

    def draft(self, facts: DraftFacts) -> Answer:
        """Return a draft of facts, or why there is none; never raises for what a model or its server does."""


class StructuredTemplate:
    """The deterministic adapter: the one sentence that the facts make, whoever reads them."""

    identity = TEMPLATE

    def draft(self, facts: DraftFacts) -> Answer:
        """Return the sentence that the facts make."""
        return Answer(DraftedText(claim=facts.plain, mechanism_explanation="", experience_ids=facts.evidence_ids))


@dataclass(frozen=True, kw_only=True)
class Wording:
    """The words of one candidate, the identity of who made them, and what was found about drafting."""

    claim: str
    adapter: str
    findings: tuple[Finding, ...] = ()


def worded(verdict: VariantVerdict, adapter: KnowledgeDraftingAdapter) -> Wording:
    """Return the wording of a verdict."""
    facts = facts_of(verdict)
    if verdict.verdict.decision in {DecisionKind.REJECTED, DecisionKind.DEFERRED} or not can_be_drafted(facts):
        return Wording(claim=verdict.claim, adapter=TEMPLATE)
    answer = adapter.draft(facts)
    if not isinstance(answer.draft, DraftedText):
        return _refused(verdict, adapter, (facts, answer), answer.draft)
    draft = answer.draft
    if draft.claim == facts.plain and not draft.mechanism_explanation:
        return Wording(claim=draft.claim, adapter=adapter.identity)
    reason = refusal(draft, facts)
    if reason is not None:
        return _refused(verdict, adapter, (facts, answer), reason)
    why = draft.mechanism_explanation
    explained = (Finding(code="draft_mechanism_explanation", detail=why),) if why else ()
    return Wording(claim=draft.claim, adapter=adapter.identity, findings=(*explained, _told(facts, answer)))


def _refused(
    verdict: VariantVerdict,
    adapter: KnowledgeDraftingAdapter,
    said: tuple[DraftFacts, Answer],
    reason: RefusalReason,
) -> Wording:
    why = Finding(code=f"{REFUSED}{reason.value}", detail=f"{adapter.identity}: {WHY[reason]}.")
    return Wording(claim=verdict.claim, adapter=TEMPLATE, findings=(why, _told(*said)))


def _told(facts: DraftFacts, answer: Answer) -> Finding:
    """Say which facts were told, and under which digest the exchange is kept."""
    kept = f", exchange {answer.exchange}" if answer.exchange else ""
    return Finding(code="draft_exchange", detail=f"facts {facts.canonical_digest}{kept}")
