"""Named invariants of deciding and of the whole, R08 and O04 to O06, over real recall and the real planner."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from rich.console import Console

from memory.evidence import Trial, bundle_records
from memory.fsck import fsck
from policies.planner import exploration_order, open_actions
from records.appends import Append
from records.decisions import DecisionIntent, RecallContext, citation_id
from records.errors import IdentityConflictError, VrmError
from records.evidence import Attempt, Experience, Verification
from records.flows import Authority, Transition
from records.ids import AttemptId, EventId, ExperienceId, IntentId, OutcomeId
from records.knowledge import EvidenceLink, MemoryRecord
from records.outcomes import CardReason, CardVerdict, NoCommitReason, OutcomeAttemptLink, RecallOutcome, SourceStatus
from records.values import Disposition, RecallRequirement
from tests.support.stack import GOOD, Stack, record_of
from tests.support.stack_decisions import CATALOG, Study, learn, tokenizer
from tests.support.stores import evidence_append, expect
from tests.support.trials import digest, make_task
from vrm.mainjob.job import Job, pinned_policies

pytestmark = pytest.mark.parametrize(
    ("ledger", "runtime"), [("memory", "memory"), ("postgres", "postgres")], indirect=True
)


@pytest.fixture
def memory_arm(stack: Stack) -> Study:
    return Study(stack, "pair-1", "memory", learn(stack, GOOD))


def of_run(study: Study, noun: str) -> list[Any]:
    """Return the records of a kind that belong to a study's Run."""
    found = study.stack.stores.ledger.find(noun, study.stack.namespace, run_id=str(study.run_id))
    return [item.load() for item in found]


class TestVrmR08:
    """An adopted citation maps to the intervention and configuration that provenance saw executed.

    A later issue adds procedures, whose steps map to tool receipts, and claims.
    """

    def test_vrm_r08_the_adopted_card_is_what_was_executed(self, memory_arm: Study) -> None:
        outcome = memory_arm.decide()
        (disposition,) = outcome.dispositions
        assert disposition.verdict is CardVerdict.ADOPTED
        (link,) = memory_arm.stack.load("outcome-attempt-link")
        experience = expect(Experience, record_of(memory_arm.stack, link.experience_id))
        intervention = cast("Any", record_of(memory_arm.stack, str(experience.intervention_id)))
        provenance = cast("Any", record_of(memory_arm.stack, str(experience.provenance_id)))
        assert (disposition.action_knob, disposition.action_value) == (
            intervention.knob.name,
            intervention.knob.to_value,
        )
        assert outcome.effective_config_digest == provenance.config_digest == intervention.config_digest

    @pytest.mark.parametrize(
        "wrong",
        [
            {"config_digest": digest("another configuration")},
            {"change": ("C", 1, 10)},
            {"change": ("scaler", "none", "robust")},
            {"task": make_task("another")},
            {"recall_context_id": None},
        ],
        ids=["another configuration", "another knob", "another value", "another task", "without the context"],
    )
    def test_vrm_r08_a_link_to_what_was_not_decided_is_refused(self, memory_arm: Study, wrong: dict[str, Any]) -> None:
        """The experiment that was run differs from the decision in configuration, knob, value, task or context."""
        link, records = self.linked(memory_arm, **wrong)
        self.refuse(memory_arm, link, records)

    def test_vrm_r08_a_link_into_another_run_is_refused(self, memory_arm: Study) -> None:
        other = memory_arm.stack.admit("another-study")
        link, records = self.linked(memory_arm, run_id=other)
        self.refuse(memory_arm, link, records)

    def test_vrm_r08_a_link_that_claims_another_digest_is_refused(self, memory_arm: Study) -> None:
        link, records = self.linked(memory_arm)
        self.refuse(memory_arm, link.model_copy(update={"config_digest": digest("claimed")}), records)

    def test_vrm_r08_a_link_to_the_experience_of_another_attempt_is_refused(self, memory_arm: Study) -> None:
        link, records = self.linked(memory_arm)
        other = memory_arm.stack.load("experience")[0]
        self.refuse(memory_arm, link.model_copy(update={"experience_id": other.id}), records)

    def linked(self, study: Study, **wrong: Any) -> tuple[OutcomeAttemptLink, tuple[Any, ...]]:
        """Decide up to the outcome, but execute something else; return the link that would join the two."""

        class Diverted(Study):
            def trial(self, answer: Any, context: Any) -> Trial:
                return replace(super().trial(answer, context), **wrong)

        study = Diverted(study.stack, study.key, study.arm, study.recall_input)
        executed: list[Any] = []
        study_decide(study, executed)
        (outcome,) = of_run(study, "recall-decision-outcome")
        attempt = next(record for record in executed if isinstance(record, Attempt))
        link = OutcomeAttemptLink(
            namespace=study.stack.namespace,
            created_at=outcome.created_at,
            outcome_id=OutcomeId(outcome.id),
            attempt_id=AttemptId(attempt.id),
            experience_id=ExperienceId(executed[-1].id),
            config_digest=attempt.config_digest,
        )
        return link, tuple(executed)

    def refuse(self, study: Study, link: OutcomeAttemptLink, records: tuple[Any, ...]) -> None:
        (stored,) = study.stack.coordinator.append_direct([evidence_append(records, f"executed/{records[-1].id}")])
        assert not isinstance(stored, VrmError), stored
        before = study.stack.journal()
        append = Append.direct(Transition.LINK_ATTEMPT, f"link/{link.outcome_id}", (link,))
        (answer,) = study.stack.coordinator.append_direct([append])
        assert isinstance(answer, IdentityConflictError), answer
        assert study.stack.journal() == before


def study_decide(study: Study, executed: list[Any]) -> None:
    """Take a decision whose outcome names the decided configuration, and note what was executed instead."""
    honest = Study(study.stack, study.key, study.arm, study.recall_input)
    study.stack.admit(f"{study.key}/{study.arm}", "trial")
    honest.carry(Transition.APPEND_INTENT, Authority.ADMISSION, honest.view, honest.intent)
    context = honest.context()
    answer = honest.answer(context)
    decided = honest.execute(answer, context)
    executed += bundle_records(study.trial(answer, context))
    honest.carry(Transition.APPEND_OUTCOME, Authority.NORMAL, honest.outcome(context, answer, decided))


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"event_id": EventId.derive({"x": 1})}, "not of a snapshot member"),
        ({"disposition": Disposition.CONTESTED}, "not of a snapshot member"),
        ({"memory_digest": digest("other")}, "other bytes"),
        ({}, "do not follow from their content"),
    ],
    ids=["another event", "another disposition", "another record", "another citation"],
)
def test_vrm_r06_a_card_that_is_no_member_is_refused(memory_arm: Study, changes: dict[str, Any], rule: str) -> None:
    """The Ledger takes a context only if each card is the exact member of the snapshot that was queried (spec 9.6)."""
    twin = Study(memory_arm.stack, "pair-2", "memory", memory_arm.recall_input)
    twin.decide()
    (context,) = memory_arm.stack.load("decision-recall-context")
    study = memory_arm
    study.stack.admit(f"{study.key}/{study.arm}", "trial")
    study.carry(Transition.APPEND_INTENT, Authority.ADMISSION, study.view, study.intent)
    intent_id = IntentId(study.intent.id)
    card = context.items[0].card.model_copy(update=changes)
    cited = citation_id(intent_id, context.recall_input_id, card.card_id, 1 if changes else 2)
    item = context.items[0].model_copy(update={"card": card, "card_id": card.card_id, "citation_id": cited})
    forged = context.model_copy(update={"intent_id": intent_id, "items": (item,)})
    (receipt,) = study.stack.spine.carry([study.proposal(Transition.APPEND_CONTEXT, Authority.NORMAL, forged)])
    assert not isinstance(receipt, VrmError)
    assert receipt.reason is NoCommitReason.PRECONDITION_CONFLICT
    (refused,) = study.stack.load("no-commit-receipt")
    assert rule in refused.detail
    study.carry(Transition.APPEND_CONTEXT, Authority.NORMAL, _recited(context, intent_id))


def _recited(context: RecallContext, intent_id: IntentId) -> RecallContext:
    """Return the context as another intent of the same question would have got it."""
    items = tuple(
        item.model_copy(
            update={"citation_id": citation_id(intent_id, context.recall_input_id, item.card_id, item.ordinal)}
        )
        for item in context.items
    )
    return context.model_copy(update={"intent_id": intent_id, "items": items})


def test_vrm_o04_from_a_rule_to_its_verified_outcome_by_ids_alone(memory_arm: Study) -> None:
    """Write, recall, adoption, executed change, verified outcome: each step is an id that the one before gives.

    A later issue adds whether the verified outcome changed the rule in turn, and mediation over many decisions.
    """
    memory_arm.decide()
    stack = memory_arm.stack
    namespace = stack.namespace

    def one(noun: str, **equal: str) -> Any:
        (found,) = stack.stores.ledger.find(noun, namespace, **equal)
        return found.load()

    (rule,) = stack.load("memory-record")  # the only thing that is not followed from an id
    contexts = [context for context in stack.load("decision-recall-context") if _cites(context, rule)]
    (context,) = contexts
    (item,) = [item for item in context.items if item.memory_id == rule.id]
    outcome = one("recall-decision-outcome", intent_id=context.intent_id)
    (disposition,) = [entry for entry in outcome.dispositions if entry.citation_id == item.citation_id]
    link = one("outcome-attempt-link", outcome_id=outcome.id)
    experience = expect(Experience, record_of(stack, link.experience_id))
    attempt = expect(Attempt, record_of(stack, link.attempt_id))
    verification = expect(Verification, record_of(stack, str(experience.verification_id)))

    assert item.card.memory_digest == rule.payload_digest
    assert disposition.reason is CardReason.ADOPTED_APPLICABLE
    assert (disposition.action_knob, disposition.action_value) == (
        rule.target.knob.name,
        rule.target.knob.to_value,
    )
    assert outcome.effective_config_digest == attempt.config_digest == link.config_digest
    assert attempt.recall_context_id == context.id == outcome.context_id
    assert experience.attempt_id == attempt.id
    assert verification.valid
    assert verification.metric("balanced_accuracy") == 0.75

    evidence: list[EvidenceLink] = list(rule.links)
    assert {entry.experience_id for entry in evidence} == set(item.card.supporting) | set(item.card.contradicting)
    for entry in evidence:
        assert stack.stores.ledger.get(entry.experience_id) is not None
    (event,) = [record for record in stack.load("knowledge-lifecycle-event") if record.memory_id == rule.id]
    assert item.card.event_id == event.id


def _cites(context: RecallContext, rule: MemoryRecord) -> bool:
    return any(item.memory_id == rule.id for item in context.items)


class TestVrmO05:
    """A registered path without memory, which explores by the same seed.

    The ideation profile of a later issue adds that ideas are generated without memory as well, and reports how diverse
    they are beside how good; a decision of this issue is one knob change, so there is no diversity to report.
    """

    def control(self, memory_arm: Study) -> Study:
        return Study(memory_arm.stack, memory_arm.key, "control", memory_arm.recall_input)

    def test_vrm_o05_the_control_arm_is_registered_and_takes_no_memory(self, memory_arm: Study) -> None:
        control = self.control(memory_arm)
        outcome = control.decide()
        intent = expect(DecisionIntent, record_of(memory_arm.stack, str(control.intent.id)))
        assert intent.governance.recall_requirement is RecallRequirement.REGISTERED_NOT_REQUESTED
        assert outcome.source_status is SourceStatus.NOT_REQUESTED
        assert (outcome.context_id, outcome.dispositions) == (None, ())
        assert not memory_arm.stack.load("decision-recall-context")
        (attempt,) = of_run(control, "attempt")
        assert (attempt.arm, attempt.pair, attempt.recall_context_id) == ("control", memory_arm.key, None)

    def test_vrm_o05_no_context_can_be_attached_to_it(self, memory_arm: Study) -> None:
        """The grant may be had; the Ledger refuses the append by what the stored intent says (spec 9.7)."""
        memory_arm.decide()
        (context,) = memory_arm.stack.load("decision-recall-context")
        control = self.control(memory_arm)
        memory_arm.stack.admit(f"{control.key}/control", "trial")
        control.carry(Transition.APPEND_INTENT, Authority.ADMISSION, control.view, control.intent)
        moved = context.model_copy(update={"intent_id": control.intent.id})
        proposal = control.proposal(Transition.APPEND_CONTEXT, Authority.NORMAL, moved)
        (receipt,) = memory_arm.stack.spine.carry([proposal])
        assert not isinstance(receipt, VrmError)
        assert receipt.reason is NoCommitReason.PRECONDITION_CONFLICT
        assert len(memory_arm.stack.load("decision-recall-context")) == 1

    def test_vrm_o05_nobody_can_say_afterwards_that_memory_was_not_asked(self, memory_arm: Study) -> None:
        """A REQUIRED intent is not closed as a control (spec 9.7)."""
        study = memory_arm
        study.stack.admit(f"{study.key}/{study.arm}", "trial")
        study.carry(Transition.APPEND_INTENT, Authority.ADMISSION, study.view, study.intent)
        answer = study.answer(None)
        claimed = study.outcome(None, answer, study.verified(answer, None))
        assert claimed.source_status is SourceStatus.NOT_REQUESTED
        (receipt,) = study.stack.spine.carry([study.proposal(Transition.APPEND_OUTCOME, Authority.NORMAL, claimed)])
        assert not isinstance(receipt, VrmError)
        assert receipt.reason is NoCommitReason.PRECONDITION_CONFLICT

    @pytest.mark.parametrize("seed", range(4))
    def test_vrm_o05_both_arms_explore_alike_without_cards(self, memory_arm: Study, seed: int) -> None:
        """With one seed the control takes the very action that the memory arm would without cards."""
        actions = open_actions(CATALOG, CATALOG.baseline, frozenset())
        first = exploration_order(actions, seed)[0]
        for arm in ("control", "memory"):
            study = Study(memory_arm.stack, f"seed-{seed}", arm, memory_arm.recall_input, seed)
            assert study.answer(None).action == first
        outcome = Study(memory_arm.stack, f"seed-{seed}", "control", memory_arm.recall_input, seed).decide()
        assert (outcome.proposed_knob, outcome.proposed_value) == (first.knob, first.value)


class TestVrmO06:
    """Costs are recorded apart: prompt tokens by context, wall time by step, evidence of a decision by its Run.

    `tests/unit/test_costs.py` has the statements of cost and their sums. Not attributed: processor seconds of a single
    proposal, storage, money, and the costs of a language model.
    """

    def test_vrm_o06_prompt_tokens_are_those_of_the_section_that_was_shown(self, memory_arm: Study) -> None:
        memory_arm.decide()
        (context,) = memory_arm.stack.load("decision-recall-context")
        shown = memory_arm.stack.stores.artifacts.read(context.rendered_digest).decode()
        assert context.token_count == tokenizer().count(shown)
        assert 0 < sum(item.token_count for item in context.items) < context.token_count <= 1200

    def test_vrm_o06_a_control_decision_costs_no_prompt_tokens(self, memory_arm: Study) -> None:
        control = Study(memory_arm.stack, memory_arm.key, "control", memory_arm.recall_input)
        control.decide()
        assert not memory_arm.stack.load("decision-recall-context")

    def test_vrm_o06_downstream_runs_are_told_from_distillation_runs(self, memory_arm: Study) -> None:
        """Whose work it was is in every Run: the kind, and for a campaign the item that it is about."""
        memory_arm.decide()
        campaigns = {item.run_id for item in memory_arm.stack.load("distillation-work-assignment")}
        decided = {item.run_id for item in memory_arm.stack.load("decision-intent")}
        tried = {item.run_id for item in memory_arm.stack.load("attempt")}
        assert not campaigns & (decided | tried)
        assert decided <= tried

    def test_vrm_o06_each_step_has_its_own_seconds(self, memory_arm: Study) -> None:
        job = Job(
            stores=cast("Any", memory_arm.stack.stores),
            owners=cast("Any", SimpleNamespace(run_owner=None)),
            round=cast("Any", None),
            policies=pinned_policies(),
            console=Console(quiet=True),
            holder="test",
            quiet=True,
        )
        with job.step("distillation", 1) as advance:
            advance(1)
        with job.step("index", 1), job.step("recall", 1):
            pass
        first = dict(job.seconds)
        with job.step("index", 1):
            pass
        assert set(first) == {"distillation", "index", "recall"}
        assert job.seconds["index"] > first["index"] >= first["recall"] >= 0
        assert (job.seconds["distillation"], job.seconds["recall"]) == (first["distillation"], first["recall"])

    def test_vrm_o06_a_step_that_fails_is_timed_too(self, memory_arm: Study) -> None:
        job = Job(
            stores=cast("Any", memory_arm.stack.stores),
            owners=cast("Any", SimpleNamespace(run_owner=None)),
            round=cast("Any", None),
            policies=pinned_policies(),
            console=Console(quiet=True),
            holder="test",
            quiet=True,
        )
        with pytest.raises(ZeroDivisionError), job.step("recall", 1):
            _ = 1 / 0
        assert "recall" in job.seconds


def test_a_store_with_decisions_of_both_arms_is_whole(memory_arm: Study) -> None:
    outcomes: list[RecallOutcome] = [
        Study(memory_arm.stack, memory_arm.key, arm, memory_arm.recall_input).decide() for arm in ("control", "memory")
    ]
    assert [outcome.source_status for outcome in outcomes] == [SourceStatus.NOT_REQUESTED, SourceStatus.OK]
    with memory_arm.stack.stores.ledger.reading() as reader:
        report = fsck(reader, memory_arm.stack.stores.runtime, None)
    mine = {row.id for row in memory_arm.stack.journal()}
    assert not [found for found in report.violations if found.record in mine]
