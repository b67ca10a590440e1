"""From evidence to knowledge on both adapters, through every owner: new evidence supersedes, retracts, and replays."""

from __future__ import annotations

from typing import Any

import pytest

from memory.evidence import bundle_records
from memory.fsck import fsck
from memory.ports import all_good
from records.evidence import Corpus, VerificationKind
from records.ingestion import DistillationReceipt, ReceiptDisposition, WorkOutcome
from records.knowledge import GENESIS, DecisionKind, EventType, RelationKind
from records.values import ActionKind, Disposition
from tests.support.stack import CHANGE, GOOD, NULL, Stack, effects, quiet
from tests.support.stores import evidence_append
from tests.support.trials import make_contract, make_trial

MORE = {"e": 0.06, "f": 0.055}
AGAINST = {"g": -0.06, "h": -0.05, "i": -0.07, "j": -0.06, "k": -0.05, "l": -0.055}
NOTHING = {"a": 0.001, "b": -0.001, "c": 0.0, "d": 0.001}

pytestmark = pytest.mark.parametrize(
    ("ledger", "runtime"), [("memory", "memory"), ("postgres", "postgres")], indirect=True
)


def require_clean(stack: Stack) -> None:
    """The integrity check finds nothing, and every authorization is settled."""
    with stack.stores.ledger.reading() as reader:
        report = fsck(reader, stack.stores.runtime, None)
    mine = [found for found in report.violations if found.record in {row.id for row in stack.journal()}]
    assert not mine
    assert not stack.granted()


def heads(stack: Stack) -> list[Any]:
    return list(stack.stores.ledger.variant_heads(stack.namespace).values())


class TestWholePath:
    def test_from_evidence_to_an_active_rule(self, stack: Stack) -> None:
        assert not stack.study("first", effects(stack, "first", GOOD))
        (rule,) = stack.load("memory-record")
        (candidate,) = stack.load("knowledge-candidate")
        (decision,) = stack.load("distillation-decision")
        (event,) = stack.load("knowledge-lifecycle-event")
        (head,) = heads(stack)
        assert (rule.action, rule.prior_memory_id, rule.candidate_id) == (ActionKind.RECOMMEND, None, candidate.id)
        assert (decision.decision, decision.memory_id) == (DecisionKind.PROMOTED_ACTIVE, rule.id)
        assert (event.event_type, event.expected_prior) == (EventType.PROMOTED_ACTIVE, GENESIS)
        assert (head.event_id, head.memory_id, head.disposition) == (event.id, rule.id, "active")
        require_clean(stack)

    def test_every_step_leaves_its_record_for_every_experience(self, stack: Stack) -> None:
        """Each Experience: one receipt, one item, one sidecar, one assignment, one batch, report and completion."""
        stack.study("first", effects(stack, "first", GOOD))
        counts = stack.counts()
        for noun in (
            "experience", "distillation-receipt", "distillation-work-item", "enqueue-transaction",
            "distillation-work-assignment", "distillation-batch", "distillation-work-disposition",
            "distillation-report", "distillation-work-completion",
        ):  # fmt: skip
            assert counts[noun] == 8, noun
        assert stack.phases() == {
            ("run", "COMPLETED"): 9,
            ("activity", "COMMITTED"): 8,
            ("activity", "READY"): 1,
            ("handoff", "BOUND"): 8,
            ("authorization", "COMMITTED"): 16,
        }
        covering = {(item.candidate_id, item.decision_id) for item in stack.load("distillation-work-disposition")}
        assert covering == {(stack.load("knowledge-candidate")[0].id, stack.load("distillation-decision")[0].id)}

    def test_completion_binds_its_own_authorization_batch_and_report(self, stack: Stack) -> None:
        stack.study("first", effects(stack, "first", GOOD))
        reports = {report.id: report for report in stack.load("distillation-report")}
        batches = {batch.id: batch for batch in stack.load("distillation-batch")}
        journal = {row.id: row for row in stack.journal()}
        for completion in stack.load("distillation-work-completion"):
            report, batch = reports[completion.report_id], batches[completion.batch_id]
            assert report.batch_id == batch.id
            assert completion.work_item_id == report.work_item_id == batch.work_item_id
            assert journal[completion.id].permit_key == journal[report.id].permit_key == completion.authorization_id
            receipt = stack.stores.ledger.receipt(stack.namespace, completion.authorization_id)
            assert receipt is not None
            assert receipt.permit_digest == completion.authorization_digest
            assert receipt.record_ids[0] == batch.id
            assert receipt.record_ids[-1] == completion.id

    def test_a_null_is_found_and_never_becomes_a_rule(self, stack: Stack) -> None:
        stack.study("first", effects(stack, "first", GOOD) + effects(stack, "first", NOTHING, change=NULL)[1::2])
        decided = {item.candidate_id: item.decision for item in stack.load("distillation-decision")}
        knobs = {item.target.knob.name: decided[item.id] for item in stack.load("knowledge-candidate")}
        assert knobs == {"scaler": DecisionKind.PROMOTED_ACTIVE, "tol": DecisionKind.REJECTED}
        assert [rule.target.knob.name for rule in stack.load("memory-record")] == ["scaler"]
        assert len(heads(stack)) == 1
        require_clean(stack)


class TestNewEvidence:
    def test_more_of_it_supersedes(self, stack: Stack) -> None:
        stack.study("first", effects(stack, "first", GOOD))
        assert not stack.study("second", effects(stack, "second", MORE, seed=1))
        old, new = stack.load("memory-record")
        begun, ended, again = stack.load("knowledge-lifecycle-event")
        (relation,) = stack.load("memory-relation")
        (head,) = heads(stack)
        assert (new.prior_memory_id, new.scope_variant_id, new.effect.unit_count) == (old.id, old.scope_variant_id, 6)
        assert (ended.event_type, ended.memory_id, ended.expected_prior) == (EventType.SUPERSEDED, old.id, begun.id)
        assert (again.event_type, again.memory_id, again.expected_prior) == (
            EventType.PROMOTED_ACTIVE,
            new.id,
            ended.id,
        )
        assert (relation.source_memory_id, relation.target_memory_id) == (new.id, old.id)
        assert (relation.relation, relation.event_id) == (RelationKind.SUPERSEDES, ended.id)
        assert (head.event_id, head.memory_id, head.version) == (again.id, new.id, 3)
        require_clean(stack)

    def test_vrm_w07_evidence_that_no_longer_carries_the_rule_retracts_it(self, stack: Stack) -> None:
        """Counter-evidence is never without effect (VRM-W07), and what is retracted stays readable (VRM-L01)."""
        stack.study("first", effects(stack, "first", GOOD))
        before = stack.stores.ledger.get(stack.load("memory-record")[0].id)
        assert not stack.study("second", effects(stack, "second", AGAINST, seed=1))
        (rule,) = stack.load("memory-record")
        _, ended = stack.load("knowledge-lifecycle-event")
        (head,) = heads(stack)
        assert (ended.event_type, ended.disposition, ended.memory_id) == (
            EventType.RETRACTED,
            Disposition.RETRACTED,
            rule.id,
        )
        assert head.disposition == "retracted"
        assert stack.stores.ledger.get(rule.id) == before
        last = stack.load("distillation-decision")[-1]
        assert last.decision is DecisionKind.DEFERRED
        assert last.memory_id is None
        require_clean(stack)

    def test_an_unrelated_scope_moves_nothing(self, stack: Stack) -> None:
        stack.study("first", effects(stack, "first", GOOD))
        before = heads(stack)
        stack.study("second", effects(stack, "second", GOOD, change=NULL, size="large"))
        assert [head for head in heads(stack) if head in before] == before
        assert len(heads(stack)) == 2

    def test_the_same_evidence_again_adds_no_support(self, stack: Stack) -> None:
        """The same predictions under another Run: a disposition each, no support, no new rule (VRM-W06)."""
        stack.study("first", effects(stack, "first", GOOD))
        rules = stack.ids()["memory-record"]
        assert not stack.study("second", effects(stack, "second", GOOD))
        assert stack.counts()["experience"] == 16
        assert stack.ids()["memory-record"] == rules
        (rule,) = stack.load("memory-record")
        assert (rule.strength.support_count, rule.effect.pair_count) == (4, 4)
        found = stack.load("distillation-work-disposition")
        assert len(found) == 16
        assert {item.outcome for item in found} <= {WorkOutcome.COVERED, WorkOutcome.NO_CANDIDATE}
        assert len({item.decision_id for item in found if item.decision_id}) == 1
        require_clean(stack)


class TestReceipts:
    def test_what_is_not_comparable_is_told_by_its_reason(self, stack: Stack) -> None:
        run_id = stack.admit("mixed")
        attested = make_contract(stack.namespace, name="attested", verification_kind=VerificationKind.ATTESTED)
        base: dict[str, Any] = {"run_id": run_id}
        stack.evidence(
            [
                make_trial(stack.namespace, seed=0, **base),
                make_trial(stack.namespace, seed=1, corpus=Corpus.EVALUATION, arm="memory", pair="p", **base),
                make_trial(stack.namespace, seed=2, verified={}, violations=("timeout",), **base),
                make_trial(stack.namespace, seed=3, contract=attested, **base),
            ]
        )
        assert not stack.campaign(run_id)
        decided = sorted((item.disposition.value, item.reasons) for item in stack.load("distillation-receipt"))
        assert decided == [
            ("deferred_ineligible", ("invalid_verification", "timeout")),
            ("deferred_ineligible", ("verification_attested",)),
            ("not_required", ("evaluation_corpus",)),
            ("queued_for_comparison", ()),
        ]
        (disposition,) = stack.load("distillation-work-disposition")
        assert disposition.outcome is WorkOutcome.NO_COMPARATOR
        assert not stack.load("memory-record")

    def test_an_incomplete_experience_says_what_it_lacks(self, stack: Stack) -> None:
        run_id = stack.admit("thin")
        *records, experience = _bundle(stack, run_id)
        bare = experience.model_copy(update={"provenance_id": None})
        _append(stack, *records, bare)
        assert not stack.campaign(run_id)
        (receipt,) = stack.load("distillation-receipt")
        assert isinstance(receipt, DistillationReceipt)
        assert (receipt.disposition, receipt.reasons) == (ReceiptDisposition.DEFERRED, ("missing_trial_provenance",))


class TestReplay:
    def test_every_step_again_changes_nothing(self, stack: Stack) -> None:
        trials = effects(stack, "first", GOOD)
        stack.study("first", trials)
        before = stack.state()
        assert not stack.study("first", trials)
        assert not stack.recover()
        assert stack.state() == before

    def test_a_successor_repeats_nothing(self, stack: Stack) -> None:
        trials = effects(stack, "first", GOOD)
        stack.study("first", trials)
        before = stack.state()
        successor = Stack(stack.stores, stack.namespace)
        assert not successor.study("first", trials)
        assert successor.state() == before

    def test_a_head_that_rests_on_this_evidence_stands(self, stack: Stack) -> None:
        """Unrelated evidence makes a new snapshot; the rule is not made again (spec 8.1)."""
        stack.study("first", effects(stack, "first", GOOD))
        before = heads(stack)
        trials = effects(stack, "second", {"a": 0.05, "b": 0.06}, change=("kernel", "rbf", "poly"), seed=7)
        assert not stack.study("second", trials)
        assert before[0] in heads(stack)
        assert len(stack.load("memory-record")) == len(heads(stack)) == 2

    def test_steps_may_be_cut_anywhere(self, stack: Stack) -> None:
        """Each step over half of the evidence, then all of them over all of it."""
        run_id = stack.admit("first")
        trials = effects(stack, "first", GOOD)
        stack.evidence(trials[:4])
        assert not stack.campaigns.ingest(run_id, quiet)
        stack.evidence(trials)
        assert not stack.campaigns.project(quiet)
        assert not stack.campaign(run_id)
        assert not stack.campaigns.unassigned()
        assert not stack.campaigns.waiting()
        (rule,) = stack.load("memory-record")
        assert rule.effect.unit_count == 4
        require_clean(stack)


def _bundle(stack: Stack, run_id: Any) -> Any:
    return bundle_records(make_trial(stack.namespace, run_id=run_id, change=CHANGE))


def _append(stack: Stack, *records: Any) -> None:
    all_good(stack.spine.direct([evidence_append(records)]))
