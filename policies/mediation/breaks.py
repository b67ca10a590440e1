"""Which links of a decision's chain are missing or contradict each other (VRM-R06, R07, R08). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from policies.mediation.shapes import Action, Break
from policies.mediation.told import DecisionRecords, action, digest_of, executed_action, named_by, target_of
from records.decisions import ContextItem, RecallContext
from records.evidence import Intervention, TrialProvenance
from records.outcomes import CardDisposition, CardVerdict, DecisionStatus, RecallOutcome
from records.values import ActionKind

Found = Iterator[tuple[Break, str]]


def breaks_of(told: DecisionRecords) -> Found:
    """Yield every break of a decision, with the id or digest that it is about."""
    outcome = told.outcome
    yield from _citations(told)
    if outcome is None:
        yield Break.NO_OUTCOME, str(told.intent.id)
        return
    if outcome.context_id is not None and (told.context is None or told.context.id != outcome.context_id):
        yield Break.CONTEXT_MISSING, str(outcome.context_id)
    yield from _dispositions(told.context, outcome)
    if outcome.decision_status is DecisionStatus.COMPLETED:
        yield from _execution(told, outcome)


def _citations(told: DecisionRecords) -> Found:
    """Yield what a card names and the Ledger does not hold, or holds with another content (VRM-R06)."""
    for item in told.context.items if told.context else ():
        sources, evidence = named_by(item)
        for each in dict.fromkeys((*sources, *evidence)):
            if each not in told.digests:
                yield Break.CITATION_UNRESOLVED, each
        digest = digest_of(item)
        for each in sources:
            if digest is not None and told.digests.get(each, digest) != digest:
                yield Break.SOURCE_DIFFERS, each


def _dispositions(context: RecallContext | None, outcome: RecallOutcome) -> Found:
    """Yield cards without exactly one disposition, and adopted ones whose mapping is not what was proposed."""
    items = {item.citation_id: item for item in context.items} if context else {}
    decided = [each.citation_id for each in outcome.dispositions]
    for citation in sorted({*items, *decided}):
        if citation not in items or decided.count(citation) != 1:
            yield Break.DISPOSITIONS_DIFFER, str(citation)
    proposed = action(outcome.proposed_knob, outcome.proposed_value)
    for each in outcome.dispositions:
        if each.citation_id in items and not _maps(each, items[each.citation_id], proposed):
            yield Break.MAPPING_DIFFERS, str(each.citation_id)


def _maps(fate: CardDisposition, item: ContextItem, proposed: Action | None) -> bool:
    """Tell whether an adopted card leads to the proposal: it is what the card recommends, or not what it warns of."""
    if fate.verdict is not CardVerdict.ADOPTED:
        return True
    body = item.card.as_json()
    mapped, target = action(fate.action_knob, fate.action_value), target_of(body)
    if mapped is None or mapped != proposed:
        return False
    match body.get("action"):
        case ActionKind.RECOMMEND:
            return target == mapped
        case ActionKind.AVOID:
            return target != mapped
    return True


def _execution(told: DecisionRecords, outcome: RecallOutcome) -> Found:
    """Yield what is missing or differs between a completed decision and what ran (VRM-R08)."""
    link, run = told.link, told.executed
    if link is None or run is None:
        yield Break.LINK_MISSING, str(outcome.id)
        return
    attempt, intervention, provenance = run.attempt, run.intervention, run.provenance
    if attempt is None or run.experience is None or intervention is None or provenance is None:
        yield Break.EVIDENCE_MISSING, str(link.experience_id)
        return
    yield from _configurations(outcome, (link.config_digest, attempt.config_digest), (intervention, provenance))
    proposed, ran = action(outcome.proposed_knob, outcome.proposed_value), executed_action(intervention)
    same = str(intervention.id) == str(provenance.intervention_id) == str(outcome.intervention_id)
    same = same and run.experience.attempt_id == link.attempt_id
    if not same or ran != proposed or intervention.catalog_digest != told.intent.catalog_digest:
        yield Break.INTERVENTION_DIFFERS, str(provenance.intervention_id)
    if attempt.recall_context_id != outcome.context_id:
        yield Break.CONTEXT_DIFFERS, str(link.attempt_id)
    if run.verification is None:
        yield Break.NOT_VERIFIED, str(link.experience_id)


def _configurations(outcome: RecallOutcome, others: Iterable[str], ran: tuple[Intervention, TrialProvenance]) -> Found:
    digests = {*others, *(each.config_digest for each in ran)}
    for digest in sorted(digests - {outcome.effective_config_digest}):
        yield Break.CONFIG_DIFFERS, digest
