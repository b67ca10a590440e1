"""Decisions: one outcome per intent of an ended Run and never two; cards, dispositions (VRM-R03, R07, R08)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from memory.fsck.case import Case, Chunk
from memory.fsck.report import Code
from records.decisions import ContextItem, DecisionIntent, RecallContext, citation_id
from records.knowledge import MemoryRecord
from records.outcomes import RecallOutcome
from records.states import Machine


def check_decisions(case: Case, chunk: Chunk) -> None:
    """Check the intents, contexts and outcomes of a stretch of journal."""
    _check_intents(case, chunk)
    _check_contexts(case, chunk)
    _check_outcomes(case, chunk)


def _check_intents(case: Case, chunk: Chunk) -> None:
    intents = chunk.of(DecisionIntent)
    if not intents:
        return
    outcomes: dict[str, list[str]] = defaultdict(list)
    for key, outcome in case.find(RecallOutcome, chunk.namespace, "intent_id", intents).items():
        outcomes[str(outcome.intent_id)].append(key)
    known: set[str] | None = None
    if case.runtime is not None:
        known = set(case.runtime.subjects(Machine.RUN, {str(intent.run_id) for intent in intents.values()}))
    for key, intent in intents.items():
        if len(outcomes[key]) > 1:
            case.findings.add(Code.OUTCOME_REPEATED, key, ", ".join(sorted(outcomes[key])))
        if known is not None and str(intent.run_id) not in known:
            case.findings.add(Code.RUN_UNKNOWN, key, f"the Runtime knows no {intent.run_id}")
        if not outcomes[key] and str(intent.run_id) in case.ended:
            case.findings.add(Code.OUTCOME_MISSING, key, f"{intent.run_id} is over and this intent has no outcome")


def _check_contexts(case: Case, chunk: Chunk) -> None:
    contexts = chunk.of(RecallContext)
    items = [(key, context, item) for key, context in contexts.items() for item in context.items]
    records = case.read((item.memory_id for _, _, item in items), MemoryRecord)
    for key, context, item in items:
        for broken in _card_faults(context, item, records.get(str(item.memory_id))):
            case.findings.add(Code.CARD_SOURCE, key, f"card {item.ordinal}: {broken}")


def _card_faults(context: RecallContext, item: ContextItem, record: MemoryRecord | None) -> Iterator[str]:
    if item.card_id != item.card.card_id or item.memory_id != item.card.memory_id:
        yield "its id does not follow from its content"
    if item.citation_id != citation_id(context.intent_id, context.recall_input_id, item.card_id, item.ordinal):
        yield "its citation does not follow from its place"
    if record is not None and item.card.memory_digest != record.payload_digest:
        yield f"it was made from other bytes than {item.memory_id} has"


def _check_outcomes(case: Case, chunk: Chunk) -> None:
    outcomes = chunk.of(RecallOutcome)
    intents = {str(outcome.intent_id) for outcome in outcomes.values()}
    found = case.find(RecallContext, chunk.namespace, "intent_id", intents)
    contexts = {str(context.intent_id): (key, context) for key, context in found.items()}
    for key, outcome in outcomes.items():
        own_id, context = contexts.get(str(outcome.intent_id), (None, None))
        named = None if outcome.context_id is None else str(outcome.context_id)
        if named != own_id:
            case.findings.add(Code.OUTCOME_CONTEXT, key, f"it names {named}, its intent has {own_id}")
        cards = sorted(item.citation_id for item in context.items) if context else []
        if sorted(entry.citation_id for entry in outcome.dispositions) != cards:
            met = f"{len(outcome.dispositions)} dispositions for {len(cards)} cards, or for others"
            case.findings.add(Code.DISPOSITIONS, key, met)
