"""One decision that used a rule: intent, context with its card, and the outcome that adopted it."""

from __future__ import annotations

from importers.published_table import contract, task_identities
from memory.leases import admission, completion
from memory.ports import all_good
from memory.recall.cards import make_card
from policies.retention import check_retention
from records.appends import Proposal
from records.base import Record
from records.decisions import (
    ContextItem,
    ContextStatus,
    DecisionContractView,
    DecisionIntent,
    RecallContext,
    citation_id,
    memory_binding,
)
from records.flows import Authority, Transition
from records.ids import (
    ContextId,
    ContractId,
    ContractViewId,
    IntentId,
    RecallInputId,
    RunId,
)
from records.knowledge import MemoryRecord
from records.outcomes import (
    CardDisposition,
    CardReason,
    CardVerdict,
    DecisionStatus,
    ExecutedActor,
    OutcomeReason,
    RecallOutcome,
    SourceStatus,
)
from records.runtime import RunBody, activity_id
from records.snapshots import KnowledgeSnapshot, RecallInput
from records.states import Machine
from records.values import (
    ActorIdentity,
    DecisionPoint,
)
from tests.data.stage import NOW, World, digest
from tests.support.governance import manifest, publish_admitted


def decide(world: World, recall_input: RecallInput, rule: MemoryRecord) -> None:
    """Admit a Run, take one decision in it with the rule's card, and complete it."""
    body = RunBody(
        namespace=world.namespace,
        run_kind="SCIENTIFIC",
        admission_key="study-1",
        specification_digest=manifest().canonical_digest,
        admitted_at=NOW,
    )
    publish_admitted(world.artifacts)
    all_good(world.owner.apply([admission(body, ["decide"])]))
    view, intent = _make_intent(world, body, rule)
    _propose(world, Transition.APPEND_INTENT, body.id, intent, view, intent)
    context = _context(world, intent, recall_input, rule)
    _propose(world, Transition.APPEND_CONTEXT, body.id, intent, context)
    _propose(world, Transition.APPEND_OUTCOME, body.id, intent, _outcome(world, intent, context, rule))
    all_good(world.owner.apply([completion(body.id)]))


def _make_intent(world: World, body: RunBody, rule: MemoryRecord) -> tuple[DecisionContractView, DecisionIntent]:
    """Return the first decision of a Run, in the scope of a rule."""
    terms = contract(world.table, world.namespace)
    view = DecisionContractView(
        **world.head,
        contract_id=ContractId(terms.id),
        contract_digest=terms.comparability_digest,
        primary_metric=terms.primary_metric,
        guardrail_metrics=(),
        equivalence_margin=terms.equivalence_margin,
        budget_class="small",
    )
    intent = DecisionIntent(
        **world.head,
        run_id=body.id,
        activity_id=activity_id(body.id, "decide"),
        iteration=0,
        generation=1,
        arm="memory",
        pair="pair-1",
        evaluation_task_id=next(iter(task_identities(world.table).values())).evaluation_task_id,
        task_scope_id=rule.scope.task_scope_id,
        research_context_digest=digest("context"),
        contract_view_id=ContractViewId(view.id),
        decision_point=DecisionPoint.INTERVENTION,
        decision_slot="intervention",
        artifact_kind="plan",
        catalog_digest=world.table.catalog.digest,
        allowed_action_digest=digest("actions"),
        planned_actor=_actor(rule),
        governance=manifest().binding("memory"),
    )
    return view, intent


def _propose(world: World, transition: Transition, run_id: RunId, intent: DecisionIntent, *records: Record) -> None:
    """Carry a proposal about a decision through the spine; it must commit."""
    subject = world.runtime.subject(Machine.DECISION, str(intent.id))
    proposal = Proposal(
        namespace=world.namespace,
        transition=transition,
        authority=Authority.ADMISSION if transition is Transition.APPEND_INTENT else Authority.NORMAL,
        machine=Machine.DECISION,
        subject_id=str(intent.id),
        run_id=run_id,
        generation=subject.generation if subject else 1,
        fence=subject.fence if subject else 1,
        records=Proposal.bodies(records),
    )
    (receipt,) = all_good(world.spine.carry([proposal]))
    assert receipt.committed, receipt


def _context(world: World, intent: DecisionIntent, recall_input: RecallInput, rule: MemoryRecord) -> RecallContext:
    stored = world.ledger.get(recall_input.knowledge_snapshot_id)
    snapshot = None if stored is None else stored.load()
    assert isinstance(snapshot, KnowledgeSnapshot)
    (member,) = [each for each in snapshot.members if each.memory_id == rule.id]
    card = make_card(rule, member, snapshot.lifecycle_position, "cards/v1")
    input_id = RecallInputId(recall_input.id)
    item = ContextItem(
        ordinal=1,
        citation_id=citation_id(IntentId(intent.id), input_id, card.card_id, 1),
        card_id=card.card_id,
        memory_id=card.memory_id,
        card=card,
        score=(),
        token_count=90,
    )
    return RecallContext(
        **world.head,
        intent_id=IntentId(intent.id),
        request_digest=digest("request"),
        recall_input_id=input_id,
        query_vector_digest=world.artifacts.publish(b"a query vector"),
        retention=check_retention(world.ledger.namespace_head(world.namespace), ()),
        status=ContextStatus.OK,
        status_reason="ok_cards_returned",
        items=(item,),
        rendered_digest=digest("rendered"),
        token_count=90,
        candidates=(),
        filtered=(),
    )


def _actor(rule: MemoryRecord) -> ActorIdentity:
    return ActorIdentity(
        model="planner",
        config_digest=digest("planner"),
        template_digest=digest("template"),
        policy=rule.distillation_policy,
    )


def _outcome(world: World, intent: DecisionIntent, context: RecallContext, rule: MemoryRecord) -> RecallOutcome:
    (item,) = context.items
    disposition = CardDisposition(
        citation_id=item.citation_id,
        card_id=item.card_id,
        verdict=CardVerdict.ADOPTED,
        reason=CardReason.ADOPTED_APPLICABLE,
        action_knob=rule.target.knob.name,
        action_value=rule.target.knob.to_value,
    )
    return RecallOutcome(
        **world.head,
        intent_id=IntentId(intent.id),
        run_id=intent.run_id,
        activity_id=intent.activity_id,
        iteration=intent.iteration,
        arm=intent.arm,
        pair=intent.pair,
        source_status=SourceStatus.OK,
        outcome_reason=OutcomeReason.CARDS_RETURNED.value,
        context_id=ContextId(context.id),
        decision_status=DecisionStatus.COMPLETED,
        terminal_reason=None,
        decision_slot=intent.decision_slot,
        artifact_kind=intent.artifact_kind,
        artifact_committed=True,
        artifact_digest=digest("plan"),
        memory_binding_digest=memory_binding(intent, context).canonical_digest,
        dispositions=(disposition,),
        proposed_knob=rule.target.knob.name,
        proposed_value=rule.target.knob.to_value,
        hypothesis_id=None,
        intervention_id=None,
        effective_config_digest=digest("effective"),
        blocked_proof_digest=None,
        closure_event_digest=None,
        terminal_evidence_kind=None,
        terminal_evidence_digest=None,
        planned_actor=intent.planned_actor,
        executed_actor=ExecutedActor(model="planner", response_digest=digest("plan"), rendered_prompt_digest=None),
    )
