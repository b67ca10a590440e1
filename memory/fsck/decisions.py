"""Decisions: one outcome per intent and never two, which fits intent, context and authority (spec 9.7, VRM-R03 to R08).

A rule between records is checked where the later one stands; what cannot be read is found where its own row is checked.
The rules of the guards are written a second time here on purpose: a checker that asked the writer's own guards could
not find a mistake in them. What a card says is no rule but a product: it is made again from its source, by the one
builder of cards (`memory.recall.cards`), and must come out as it stands.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Final

from memory.card_guards import source_of
from memory.evidence import bundles_of
from memory.fsck.case import Case, Chunk
from memory.fsck.codes import Code
from memory.proofs import require_proofs
from memory.recall.cards import Queried
from policies.episodes import Episode
from records.base import Record
from records.cards import EpisodicCard
from records.control import RunFacts
from records.decisions import Card, ContextItem, DecisionIntent, RecallContext, citation_id, memory_binding
from records.errors import NotFoundError, VrmError
from records.evidence import Attempt, Experience, Intervention, VerifiedEvidenceBundle
from records.flows import Authority
from records.ids import ExperienceId
from records.ingestion import EvidenceSnapshot
from records.knowledge import MemoryRecord
from records.outcomes import CLOSURE_ONLY, OF_THE_INTENT, OutcomeAttemptLink, RecallOutcome, SourceStatus
from records.procedures import ProcedureRecord
from records.snapshots import KnowledgeSnapshot, RecallInput
from records.states import Machine
from records.values import RecallRequirement
from store.recent import Recent

_NOTHING: Final = Queried({}, 0, None)
_SOURCES: Final = {"semantic": MemoryRecord, "procedure": ProcedureRecord, "episodic": Experience}
_EVIDENCE: Final = {"cancelled": "CANCEL_EVENT", "actor_failed": "RUNTIME_FAILURE"}


class DecisionCheck:
    """Checks intents, contexts, outcomes and attempt links; keeps the members of the snapshots used last."""

    def __init__(self) -> None:
        self._inputs: Recent[str, Queried] = Recent(2)

    def check(self, case: Case, chunk: Chunk) -> None:
        """Check the decisions of a stretch of journal."""
        _check_intents(case, chunk)
        self._check_contexts(case, chunk)
        _check_outcomes(case, chunk)
        _check_links(case, chunk)

    def _check_contexts(self, case: Case, chunk: Chunk) -> None:
        contexts = chunk.of(RecallContext)
        intents = case.read((context.intent_id for context in contexts.values()), DecisionIntent)
        cards = [item.card for each in contexts.values() for item in each.items]
        sources = case.load(source_of(each) for each in cards)
        bundles = bundles_of(case.load, (each for each in sources.values() if isinstance(each, Experience)))
        for key, context in contexts.items():
            intent = intents.get(str(context.intent_id))
            if intent is not None and intent.governance.recall_requirement is not RecallRequirement.REQUIRED:
                case.findings.add(Code.OUTCOME_ILLEGAL, key, "a registered control intent takes no context")
            queried = self._queried(case, context) if context.items else _NOTHING
            for item in context.items:
                made = sources.get(str(source_of(item.card)))
                faults = [*_place_faults(context, item, intent), *_source_faults(item.card, queried, made)]
                whole = bundles.get(ExperienceId(made.id)) if isinstance(made, Experience) else made
                if not faults and _is_otherwise(item.card, queried, whole):
                    faults.append(f"it says something else than {source_of(item.card)}")
                for broken in faults:
                    case.findings.add(Code.CARD_SOURCE, key, f"card {item.ordinal}: {broken}")

    def _queried(self, case: Case, context: RecallContext) -> Queried:
        """Return what the input of a context was composed of."""
        key = str(context.recall_input_id)
        if key not in self._inputs:
            queried = case.read([key], RecallInput).get(key)
            name = None if queried is None else str(queried.knowledge_snapshot_id)
            snapshot = case.read([name], KnowledgeSnapshot).get(str(name))
            members = () if snapshot is None else snapshot.members
            shown = None if queried is None else queried.evidence_snapshot_id
            self._inputs.put(key, Queried(
                members={one.memory_id: one for one in members},
                as_of=0 if snapshot is None else snapshot.lifecycle_position,
                episodes=next(iter(case.read([shown], EvidenceSnapshot).values()), None),
            ))  # fmt: skip
        return self._inputs[key]


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


def _place_faults(context: RecallContext, item: ContextItem, intent: DecisionIntent | None) -> Iterator[str]:
    card = item.card
    if item.card_id != card.card_id or item.memory_id != card.memory_id:
        yield "its id does not follow from its content"
    if item.citation_id != citation_id(context.intent_id, context.recall_input_id, item.card_id, item.ordinal):
        yield "its citation does not follow from its place"
    if not isinstance(card, EpisodicCard) or intent is None:
        return
    if (card.run_id, card.arm, card.pair) != (intent.run_id, intent.arm, intent.pair):
        yield "it is an episode of another Run, arm or pair"


def _source_faults(card: Card, queried: Queried, record: Record | None) -> Iterator[str]:
    if isinstance(card, EpisodicCard):
        digest, is_member = card.experience_digest, _is_episode(card, queried.episodes)
    else:
        digest, member = card.memory_digest, queried.members.get(card.memory_id)
        head = None if member is None else (member.event_id, member.disposition, member.scope_variant_id)
        is_member = head == (card.event_id, card.disposition, card.scope_variant_id)
    if not is_member:
        yield "it is no member of the snapshot that was queried"
    if record is not None and (digest != record.payload_digest or not isinstance(record, _SOURCES[card.source_kind])):
        yield f"it was made from other bytes than {source_of(card)} has"


def _is_episode(card: EpisodicCard, snapshot: EvidenceSnapshot | None) -> bool:
    """Tell whether a card is of a member of an episodic snapshot, and of the Run, arm and pair that it is for."""
    if snapshot is None:
        return False
    said = (card.evidence_snapshot_id, card.evidence_position, card.run_id, card.arm, card.pair)
    own = (snapshot.id, snapshot.evidence_position, snapshot.visibility, snapshot.arm, snapshot.pair)
    members = {one.experience_id: one.bundle_digest for one in snapshot.members}
    return said == own and members.get(card.experience_id) == card.bundle_digest


def _is_otherwise(card: Card, queried: Queried, source: object) -> bool:
    """Tell whether a card is not what is made of its source; a source that is not whole is found where its row is."""
    match source:
        case VerifiedEvidenceBundle():
            return not queried.makes(card, Episode(source))
        case MemoryRecord() | ProcedureRecord():
            return not queried.makes(card, source)
        case _:
            return False


def _check_outcomes(case: Case, chunk: Chunk) -> None:
    outcomes = chunk.of(RecallOutcome)
    names = {str(outcome.intent_id) for outcome in outcomes.values()}
    intents = case.read(names, DecisionIntent)
    found = case.find(RecallContext, chunk.namespace, "intent_id", names)
    contexts = {str(context.intent_id): context for context in found.values()}
    answers = chunk.answers(outcomes)
    controls = _controls(case, outcomes.values())
    for key, outcome in outcomes.items():
        intent, context = intents.get(str(outcome.intent_id)), contexts.get(str(outcome.intent_id))
        _check_context(case, key, outcome, context)
        receipt = answers.get(key)
        faults = list(_proof_faults(case, outcome))
        if intent is not None:
            faults += _intent_faults(outcome, intent, context)
        if receipt is not None and (outcome.decision_status in CLOSURE_ONLY) != (
            receipt.authority is Authority.RUNTIME_CLOSURE
        ):
            faults.append(f"{outcome.decision_status} was written by authority {receipt.authority}")
        faults += _evidence_faults(outcome, controls)
        for fault in faults:
            case.findings.add(Code.OUTCOME_ILLEGAL, key, fault)


def _controls(case: Case, outcomes: Iterable[RecallOutcome]) -> dict[str, set[str]] | None:
    """Return the control events of the Runs in which closure wrote an outcome, by Run; None without a Runtime."""
    if case.runtime is None:
        return None
    closed = {str(outcome.run_id) for outcome in outcomes if outcome.terminal_evidence_digest is not None}
    found: dict[str, set[str]] = {}
    for run_id, run in (case.runtime.subjects(Machine.RUN, closed) if closed else {}).items():
        try:
            facts = RunFacts.load(run.facts)
        except VrmError:
            continue
        found[run_id] = {ref.digest for ref in (facts.control, facts.superseded) if ref is not None}
    return found


def _evidence_faults(outcome: RecallOutcome, controls: dict[str, set[str]] | None) -> Iterator[str]:
    """Yield what is wrong with the event that an outcome says it ended by."""
    kind, digest = outcome.terminal_evidence_kind, outcome.terminal_evidence_digest
    if (kind.value if kind else None) != _EVIDENCE.get(outcome.decision_status.value):
        yield f"{outcome.decision_status} is not what {kind} ends with"
    if digest is not None and controls is not None and digest not in controls.get(str(outcome.run_id), set()):
        yield f"{digest} is no control event of its Run"


def _check_context(case: Case, key: str, outcome: RecallOutcome, context: RecallContext | None) -> None:
    own = None if context is None else str(context.id)
    named = None if outcome.context_id is None else str(outcome.context_id)
    if named != own:
        case.findings.add(Code.OUTCOME_CONTEXT, key, f"it names {named}, its intent has {own}")
    cards = sorted(item.citation_id for item in context.items) if context else []
    if sorted(entry.citation_id for entry in outcome.dispositions) != cards:
        met = f"{len(outcome.dispositions)} dispositions for {len(cards)} cards, or for others"
        case.findings.add(Code.DISPOSITIONS, key, met)


def _intent_faults(outcome: RecallOutcome, intent: DecisionIntent, context: RecallContext | None) -> Iterator[str]:
    """Yield what an outcome says otherwise than its intent, or than what its actor was given (spec 9.7)."""
    for name in OF_THE_INTENT:
        if getattr(outcome, name) != getattr(intent, name):
            yield f"{name} is not its intent's"
    control = intent.governance.recall_requirement is not RecallRequirement.REQUIRED
    if (outcome.source_status is SourceStatus.NOT_REQUESTED) != control:
        yield f"{outcome.source_status} is not what its intent was registered for"
    if context is not None and context.status.value != outcome.source_status.value:
        yield f"it says {outcome.source_status}, its context {context.status}"
    given = outcome.memory_binding_digest
    if given is not None and given != memory_binding(intent, context).canonical_digest:
        yield "its actor was given other memory than this decision's"


def _proof_faults(case: Case, outcome: RecallOutcome) -> Iterator[str]:
    """Yield what is wrong with what an outcome rests on; bytes that are not there are another finding."""
    if case.artifacts is None:
        return
    try:
        require_proofs(case.artifacts, [outcome])
    except NotFoundError:
        return
    except VrmError as error:
        yield str(error)


def _check_links(case: Case, chunk: Chunk) -> None:
    """What an outcome led to must be what it decided (VRM-R08)."""
    links = chunk.of(OutcomeAttemptLink)
    if not links:
        return
    named = case.load(
        each for link in links.values() for each in (link.outcome_id, link.attempt_id, link.experience_id)
    )
    intents = case.read((each.intent_id for each in named.values() if isinstance(each, RecallOutcome)), DecisionIntent)
    attempts = {str(link.attempt_id) for link in links.values()}
    done: dict[str, list[Intervention]] = defaultdict(list)
    for found in case.find(Intervention, chunk.namespace, "attempt_id", attempts).values():
        done[str(found.attempt_id)].append(found)
    for key, link in links.items():
        outcome, attempt = named.get(str(link.outcome_id)), named.get(str(link.attempt_id))
        experience = named.get(str(link.experience_id))
        if isinstance(outcome, RecallOutcome) and isinstance(attempt, Attempt) and isinstance(experience, Experience):
            intent = intents.get(str(outcome.intent_id))
            faults = list(_link_faults(link, outcome, attempt))
            faults += _done_faults(outcome, done[str(attempt.id)])
            if experience.attempt_id != attempt.id:
                faults.append("the experience is of another attempt")
            if intent is not None and intent.evaluation_task_id != attempt.evaluation_task_id:
                faults.append("the attempt is on another task than the decision")
            for fault in faults:
                case.findings.add(Code.ATTEMPT_LINK, key, fault)


def _link_faults(link: OutcomeAttemptLink, outcome: RecallOutcome, attempt: Attempt) -> Iterator[str]:
    if (outcome.run_id, outcome.context_id) != (attempt.run_id, attempt.recall_context_id):
        yield "the attempt was made in another Run or with another context"
    if not link.config_digest == attempt.config_digest == outcome.effective_config_digest:
        yield "the executed configuration is not the decided one"


def _done_faults(outcome: RecallOutcome, done: list[Intervention]) -> Iterator[str]:
    if outcome.intervention_id is not None and outcome.intervention_id not in [each.id for each in done]:
        yield "the executed intervention is not the one that the outcome names"
    knobs = [(each.knob.name, each.knob.to_value) for each in done if each.knob is not None]
    if outcome.proposed_knob is not None and (outcome.proposed_knob, outcome.proposed_value) not in knobs:
        yield "the executed intervention is not the decided one"
