"""What must hold inside the Ledger transaction, per flow: the preconditions of an append (spec 6.3, 8.2, 9.7).

A guard reads the state under the namespace lock and returns a typed refusal or nothing. It is asked for granted and
direct appends alike; for the latter a refusal becomes an error.
"""

from __future__ import annotations

from typing import Final

from memory.card_guards import card_rules, own_members, source_of
from memory.conflict_guards import guard_conflicts
from memory.erasure_guards import guard_begin, guard_close
from memory.guard_rules import Rules, first_broken, held, of, precondition, read, rejected
from memory.lineage.guards import guard_lineage
from memory.reference.guards import guard_references
from memory.retention import check_input, revoked
from memory.work_guards import guard_abandon, guard_completion, guard_enqueue, guard_give_up, guard_receipt, rests_on
from memory.workspace.guards import guard_claims, guard_receipts, guard_traces
from policies.bundles import NotABundle, cross_validate
from policies.lifecycle_policy import LifecycleFact, LifecycleHead, advance
from policies.manipulation import manipulation_check
from records.appends import Append, Head
from records.base import Record
from records.decisions import DecisionIntent, RecallContext, memory_binding
from records.errors import IllegalTransitionError, IntegrityError
from records.evidence import Attempt, Experience, Intervention, TrialProvenance
from records.flows import Authority, Transition
from records.ingestion import EvidenceSnapshot
from records.knowledge import GovernedRecord, LifecycleEvent, MemoryRelation, RelationKind
from records.outcomes import (
    CLOSURE_ONLY,
    NoCommitReason,
    OutcomeAttemptLink,
    RecallOutcome,
    SourceStatus,
    terminal_evidence,
)
from records.snapshots import IndexBuild
from records.values import Disposition, RecallRequirement
from store.ledger.port import Guard, LedgerReader, Refusal, matching, records


def _evidence(_reader: LedgerReader, append: Append) -> Refusal | None:
    """A complete bundle must cross-validate before it is stored; an incomplete one stays episodic (VRM-W03)."""
    experiences = list(of(append, Experience))
    rows = {str(record.id): record for record in append.records} if experiences else {}
    for experience in experiences:
        complete = experience.verification_id and experience.intervention_id and experience.provenance_id
        checked = cross_validate(experience, rows) if complete else None
        if isinstance(checked, NotABundle):
            return precondition(f"the bundle does not cross-validate: {checked.detail}")
    return None


def _context(reader: LedgerReader, append: Append) -> Refusal | None:
    for context in of(append, RecallContext):
        shown = [source_of(item.card) for item in context.items]
        stored, outcomes = reader.both(
            records([context.intent_id, context.recall_input_id, *shown]),
            matching("recall-decision-outcome", append.namespace, intent_id=str(context.intent_id)),
        )
        intent = held(stored, context.intent_id, DecisionIntent)
        if intent is None:
            return precondition("the intent is not in the Ledger")
        if intent.governance.recall_requirement is not RecallRequirement.REQUIRED:
            return precondition("a registered control intent takes no context")
        if outcomes:
            return precondition("the intent has its outcome already")
        if check_input(reader, append.namespace, context.recall_input_id) != context.retention:
            return Refusal(NoCommitReason.RETENTION_FRONTIER_STALE, "the retention frontier has moved on")
        refused = first_broken(card_rules(reader, context, stored), precondition)
        if refused is not None:
            return refused
    return None


def _outcome(reader: LedgerReader, append: Append) -> Refusal | None:
    for outcome in of(append, RecallOutcome):
        stored, contexts = reader.both(
            records([outcome.intent_id]),
            matching("decision-recall-context", append.namespace, intent_id=str(outcome.intent_id)),
        )
        intent = held(stored, outcome.intent_id, DecisionIntent)
        if intent is None:
            return precondition("the intent is not in the Ledger")
        context = contexts[0].load() if contexts else None
        refused = first_broken(_outcome_rules(append, outcome, intent, context), precondition)
        if refused is not None:
            return refused
    return None


def _outcome_rules(append: Append, outcome: RecallOutcome, intent: DecisionIntent, context: Record | None) -> Rules:
    required = intent.governance.recall_requirement is RecallRequirement.REQUIRED
    cards = [item.citation_id for item in context.items] if isinstance(context, RecallContext) else []
    closure = append.authority is Authority.RUNTIME_CLOSURE
    same_place = (outcome.run_id, outcome.activity_id, outcome.iteration, outcome.decision_slot)
    yield same_place == (intent.run_id, intent.activity_id, intent.iteration, intent.decision_slot), "another decision"
    yield outcome.planned_actor == intent.planned_actor, "the planned actor is not the intent's"
    registered = (outcome.arm, outcome.pair, outcome.artifact_kind)
    yield (
        registered == (intent.arm, intent.pair, intent.artifact_kind),
        "arm, pair or kind is not the intent's",
    )
    given = memory_binding(intent, context if isinstance(context, RecallContext) else None).canonical_digest
    yield outcome.memory_binding_digest in (None, given), "the actor was given other memory than this decision's"
    yield (outcome.source_status is SourceStatus.NOT_REQUESTED) == (not required), "not_requested is for control arms"
    yield outcome.context_id == (context.id if context else None), "the context is not the intent's"
    yield (
        (not isinstance(context, RecallContext) or context.status.value == outcome.source_status.value),
        "the source status is not the context's",
    )
    yield (
        (sorted(entry.citation_id for entry in outcome.dispositions) == sorted(cards)),
        "every returned card needs exactly one disposition",
    )
    yield (outcome.decision_status in CLOSURE_ONLY) == closure, "this status belongs to the other authority"
    evidence = terminal_evidence(outcome.decision_status)
    yield outcome.terminal_evidence_kind is evidence, "the terminal evidence does not belong to the status"


def _link(reader: LedgerReader, append: Append) -> Refusal | None:
    """An adopted action must be the one that provenance saw executed (VRM-R08)."""
    for link in of(append, OutcomeAttemptLink):
        outcome = read(reader, link.outcome_id, RecallOutcome)
        attempt = read(reader, link.attempt_id, Attempt)
        experience = read(reader, link.experience_id, Experience)
        if outcome is None or attempt is None or experience is None:
            return precondition("outcome, attempt or experience is not in the Ledger")
        refused = first_broken(_link_rules(reader, link, outcome, attempt, experience), precondition)
        if refused is not None:
            return refused
    return None


def _link_rules(
    reader: LedgerReader, link: OutcomeAttemptLink, outcome: RecallOutcome, attempt: Attempt, experience: Experience
) -> Rules:
    """Say what a link must be, and that the manipulation check of what it ties together is passed."""
    intent = read(reader, outcome.intent_id, DecisionIntent)
    yield experience.attempt_id == attempt.id, "the experience is of another attempt"
    same_task = intent is not None and intent.evaluation_task_id == attempt.evaluation_task_id
    yield same_task, "the attempt is on another task than the decision"
    yield attempt.recall_context_id == outcome.context_id, "the attempt was not made with the decision's context"
    decided = link.config_digest == attempt.config_digest == outcome.effective_config_digest
    yield outcome.run_id == attempt.run_id and decided, "the executed configuration is not the decided one"
    done = [each.load() for each in reader.find("intervention", outcome.namespace, attempt_id=str(attempt.id))]
    named = outcome.intervention_id is None or outcome.intervention_id in [each.id for each in done]
    yield named, "the executed intervention is not the one that the outcome names"
    seen = [each.load() for each in reader.find("trial-provenance", outcome.namespace, attempt_id=str(attempt.id))]
    check = manipulation_check(
        outcome,
        attempt,
        next((each for each in done if isinstance(each, Intervention)), None),
        next((each for each in seen if isinstance(each, TrialProvenance)), None),
    )
    yield not check.faults, "; ".join(check.faults)


def _capture(reader: LedgerReader, append: Append) -> Refusal | None:
    for snapshot in of(append, EvidenceSnapshot):
        if snapshot.evidence_position > reader.namespace_head(append.namespace).evidence:
            return precondition("the snapshot claims evidence that is not there")
        foreign = first_broken(own_members(reader, snapshot), precondition)
        if foreign is not None:
            return foreign
    return _publication(reader, append)


def _publication(reader: LedgerReader, append: Append) -> Refusal | None:
    """What rests on something that retention denies is not published (spec 4.15)."""
    check = revoked(reader, append)
    return None if check is None else precondition(f"retention denies {check.blocked[0].target_id}")


def _index(reader: LedgerReader, append: Append) -> Refusal | None:
    """A build must not hold what retention denies; that a build failed may always be told."""
    return _publication(reader, append) if any(of(append, IndexBuild)) else None


def _distillation(reader: LedgerReader, append: Append) -> Refusal | None:
    """Nothing that it rests on is denied, every event is a legal step, and the work is accounted for (VRM-W08, L01)."""
    check = revoked(reader, append)
    if check is not None:
        detail = f"retention denies {check.blocked[0].target_id}"
        return Refusal(NoCommitReason.RETENTION_REVOKED, detail, retention=check)
    return (
        _legal_steps(reader, append)
        or _acyclic(reader, append)
        or guard_conflicts(reader, append)
        or guard_completion(reader, append)
    )


def _acyclic(reader: LedgerReader, append: Append) -> Refusal | None:
    """No directed relation leads back to where it began; what is new here, only this append can point at."""
    relations = [each for each in of(append, MemoryRelation) if each.relation is not RelationKind.CONTESTS]
    new = {str(record.id) for record in of(append, GovernedRecord)}
    ends = {str(each.target_memory_id) for each in relations} - new
    if ends and (missing := ends - reader.get_many(sorted(ends)).keys()):
        return precondition(f"{min(missing)} is not in the Ledger yet")
    for relation in relations:
        kind, seen, reached = relation.relation, set[str](), {str(relation.target_memory_id)}
        while reached:
            if relation.source_memory_id in reached:
                return rejected(f"{kind} would lead in a circle")
            seen |= reached
            rows: list[MemoryRelation] = [each for each in relations if each.relation is kind]
            if relation.source_memory_id not in new:
                stored = reader.find(
                    "memory-relation", append.namespace, relation=kind.value, source_memory_id=sorted(reached)
                )
                rows += [row for item in stored if isinstance(row := item.load(), MemoryRelation)]
            reached = {str(row.target_memory_id) for row in rows if row.source_memory_id in reached} - seen
    return None


def _legal_steps(reader: LedgerReader, append: Append) -> Refusal | None:
    """Every lifecycle event must be a legal step of its variant's chain."""
    events = list(of(append, LifecycleEvent))
    stored = reader.variant_heads(append.namespace, {str(event.scope_variant_id) for event in events}) if events else {}
    heads = {variant: _lifecycle_head(head) for variant, head in stored.items()}
    for event in events:
        variant = str(event.scope_variant_id)
        before = heads.get(variant)
        try:
            heads[variant] = advance(before, LifecycleFact.of(event))
        except (IllegalTransitionError, IntegrityError) as error:
            return rejected(str(error))
        enters = before is None or before.memory_id != event.memory_id
        if enters and reader.find("knowledge-lifecycle-event", append.namespace, memory_id=str(event.memory_id)):
            return rejected("a record that left the chain never comes back")
    return None


def _begin_erasure(reader: LedgerReader, append: Append) -> Refusal | None:
    return _legal_steps(reader, append) or guard_begin(reader, append)


def _lifecycle_head(head: Head) -> LifecycleHead:
    return LifecycleHead(
        scope_variant_id=head.scope_variant_id,
        event_id=head.event_id,
        memory_id=head.memory_id,
        disposition=Disposition(head.disposition),
        length=head.version,
    )


def foreseen(append: Append) -> tuple[str, ...]:
    """Name the records that the guard of an append will ask for, where a group of appends asks for many."""
    return tuple(rests_on(append)) if append.transition is Transition.COMMIT_DISTILLATION else ()


GUARDS: Final[dict[Transition, Guard]] = {
    Transition.APPEND_EVIDENCE: _evidence,
    Transition.APPEND_CONTEXT: _context,
    Transition.APPEND_OUTCOME: _outcome,
    Transition.LINK_ATTEMPT: _link,
    Transition.CAPTURE_SNAPSHOT: _capture,
    Transition.RECEIPT_NOT_QUEUED: guard_receipt,
    Transition.ENQUEUE_DISTILLATION: guard_enqueue,
    Transition.ABANDON_ENQUEUE: guard_abandon,
    Transition.COMMIT_DISTILLATION: _distillation,
    Transition.CLOSE_WORK_ITEM: guard_give_up,
    Transition.FREEZE_KNOWLEDGE: _publication,
    Transition.INDEX_RECEIPT: _index,
    Transition.COMPOSE_RECALL_INPUT: _publication,
    Transition.BEGIN_ERASURE: _begin_erasure,
    Transition.CLOSE_ERASURE: guard_close,
    Transition.ADD_REFERENCE: guard_references,
    Transition.INDEX_REFERENCES: guard_references,
    Transition.FREEZE_REFERENCES: guard_references,
    Transition.ADD_NODE_REPORT: guard_lineage,
    Transition.ADD_LINEAGE_ENTRY: guard_lineage,
    Transition.APPEND_CLAIMS: guard_claims,
    Transition.TRACE_CLAIMS: guard_traces,
    Transition.RECEIPT_CLAIMS: guard_receipts,
}
"""The guard of each flow that needs one."""
