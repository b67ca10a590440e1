"""Procedures through every owner, on both adapters: compiled, superseded, retracted, frozen, and left out by recall."""

from __future__ import annotations

import json
from typing import Any

import pytest

from memory.fsck import fsck
from memory.index.embedding import HashEmbedder
from memory.procedures.reading import considered, implemented, read_procedure, stored_procedures
from memory.recall.loaded import LoadedInput, load_input
from memory.snapshots import (
    KnowledgeSnapshotBuilder,
    RecallInputSnapshotBuilder,
    build_index,
    index_key,
    knowledge_key,
    recall_input_key,
)
from policies.procedures.policy import ProcedureReason
from policies.retrieval_policy import retrieval_policy
from policies.selection_policy import SelectionPolicy, selection_policy
from records.appends import Append
from records.errors import NotFoundError
from records.flows import Transition
from records.ids import RecallInputId
from records.ingestion import WorkOutcome
from records.knowledge import DecisionKind, EventType, MemoryRecord, RelationKind
from records.procedures import ProcedureCandidate, ProcedureRecord
from tests.support.procedure_samples import GOOD, Scores, chains
from tests.support.stack import Stack

MORE: Scores = {"d": (0.5, 0.58, 0.69), "e": (0.55, 0.63, 0.76)}
AGAINST: Scores = dict.fromkeys("fghijkl", (0.8, 0.7, 0.5))

pytestmark = pytest.mark.parametrize(
    ("ledger", "runtime"), [("memory", "memory"), ("postgres", "postgres")], indirect=True
)


LATER = "2025-03-02T12:00:00.000000Z"


def study(stack: Stack, key: str, scores: Scores, **fields: Any) -> None:
    """Run a study of trajectories, and carry it to knowledge."""
    trials = chains(scores, namespace=stack.namespace, run_id=stack.body(key).id, **fields)
    assert not stack.study(key, trials)


def procedures(stack: Stack) -> list[ProcedureRecord]:
    return [record for record in stack.load("memory-record") if isinstance(record, ProcedureRecord)]


def head(stack: Stack, record: ProcedureRecord) -> Any:
    return stack.stores.ledger.variant_heads(stack.namespace)[record.scope_variant_id]


def require_clean(stack: Stack) -> None:
    """The integrity check finds nothing, and every authorization is settled."""
    with stack.stores.ledger.reading() as reader:
        report = fsck(reader, stack.stores.runtime, None)
    mine = [found for found in report.violations if found.record in {row.id for row in stack.journal()}]
    assert not mine
    assert not stack.granted()


class TestCompiled:
    def test_vrm_w05_verified_trajectories_become_an_active_procedure(self, stack: Stack) -> None:
        study(stack, "first", GOOD)
        (record,) = procedures(stack)
        assert (head(stack, record).memory_id, head(stack, record).disposition) == (record.id, "active")
        assert record.procedure.trigger.decision_point.value == "experiment_design"
        assert [step.action.operation for step in record.procedure.steps] == ["set_knob", "set_knob"]
        candidates = {each.id: each for each in stack.load("knowledge-candidate")}
        assert isinstance(candidates[record.candidate_id], ProcedureCandidate)
        require_clean(stack)

    def test_the_run_that_closes_a_trajectory_leads(self, stack: Stack) -> None:
        study(stack, "first", GOOD)
        (record,) = procedures(stack)
        experiences = [each.id for each in stack.load("experience")]
        items = {each.id: each.experience_id for each in stack.load("distillation-work-item")}
        found = {items[each.work_item_id]: each for each in stack.load("distillation-work-disposition")}
        assert {each.outcome for each in found.values()} == {WorkOutcome.COVERED}
        covered = {key for key, each in found.items() if each.candidate_id == record.candidate_id}
        assert covered == set(experiences[2::3])

    def test_it_implements_the_live_rules_about_its_steps(self, stack: Stack) -> None:
        study(stack, "first", GOOD)
        (record,) = procedures(stack)
        (rule,) = [each for each in stack.load("memory-record") if isinstance(each, MemoryRecord)]
        (relation,) = stack.load("memory-relation")
        assert (relation.relation, relation.source_memory_id, relation.target_memory_id) == (
            RelationKind.PROCEDURE_IMPLEMENTS,
            record.id,
            rule.id,
        )
        assert rule.target.knob.name == "scaler"
        with stack.stores.ledger.reading() as reader:
            assert implemented(reader, record) == [rule.id]

    def test_one_trajectory_alone_is_deferred_with_its_reason(self, stack: Stack) -> None:
        study(stack, "first", {"a": GOOD["a"]})
        assert not procedures(stack)
        with stack.stores.ledger.reading() as reader:
            (found,) = considered(reader, stack.namespace)
        assert found.decision == DecisionKind.DEFERRED.value
        assert ProcedureReason.TOO_FEW_UNITS.value in found.reasons
        require_clean(stack)


class TestNewEvidence:
    def test_more_of_it_supersedes(self, stack: Stack) -> None:
        study(stack, "first", GOOD)
        study(stack, "second", MORE)
        old, new = procedures(stack)
        assert (new.prior_memory_id, new.strength.support_count) == (old.id, 5)
        assert head(stack, new).memory_id == new.id
        kinds = [each.relation for each in stack.load("memory-relation") if each.source_memory_id == new.id]
        assert RelationKind.SUPERSEDES in kinds
        require_clean(stack)

    def test_vrm_w07_evidence_that_no_longer_carries_it_retracts_it(self, stack: Stack) -> None:
        study(stack, "first", GOOD)
        study(stack, "second", AGAINST)
        (record,) = procedures(stack)
        assert head(stack, record).disposition == "retracted"
        events = [each for each in stack.load("knowledge-lifecycle-event") if each.memory_id == record.id]
        assert [each.event_type for each in events] == [EventType.PROMOTED_ACTIVE, EventType.RETRACTED]
        require_clean(stack)

    def test_vrm_w06_the_same_trajectories_again_add_nothing(self, stack: Stack) -> None:
        study(stack, "first", GOOD)
        before = procedures(stack)
        first = {each.id for each in stack.load("experience")}
        study(stack, "second", GOOD, times=(LATER, LATER, LATER))  # of what shows the same the earliest counts
        assert procedures(stack) == before
        again = {each.id for each in stack.load("distillation-work-item") if each.experience_id not in first}
        found = [each for each in stack.load("distillation-work-disposition") if each.work_item_id in again]
        assert len(found) == len(again) == sum(map(len, GOOD.values()))
        assert {each.outcome for each in found} == {WorkOutcome.NO_CANDIDATE}
        require_clean(stack)

    def test_every_step_again_changes_nothing(self, stack: Stack) -> None:
        study(stack, "first", GOOD)
        before = stack.state()
        study(stack, "first", GOOD)
        assert stack.state() == before


class TestSnapshots:
    def test_the_first_selection_policy_takes_rules_alone(self, stack: Stack) -> None:
        study(stack, "first", GOOD)
        with stack.stores.ledger.reading() as reader:
            snapshot = KnowledgeSnapshotBuilder(selection_policy("1")).freeze(reader, stack.namespace)
        (record,) = procedures(stack)
        assert record.id not in [member.memory_id for member in snapshot.members]

    def test_a_snapshot_may_hold_one_and_recall_leaves_it_out(self, stack: Stack) -> None:
        """Its index holds the rules alone, and neither recall nor the integrity check stumbles over the rest."""
        study(stack, "first", GOOD)
        body = selection_policy().as_json() | {"version": "9", "kinds": ["semantic", "procedure"]}
        both = SelectionPolicy.load(json.dumps(body))
        with stack.stores.ledger.reading() as reader:
            snapshot = KnowledgeSnapshotBuilder(both).freeze(reader, stack.namespace)
            build, data = build_index(reader, snapshot, HashEmbedder(32), test_index=True)
        stack.stores.artifacts.publish(data)
        composed = RecallInputSnapshotBuilder(retrieval_policy()).compose(snapshot, [build])
        for kind, key, made in (
            (Transition.FREEZE_KNOWLEDGE, knowledge_key(snapshot), snapshot),
            (Transition.INDEX_RECEIPT, index_key(build), build),
            (Transition.COMPOSE_RECALL_INPUT, recall_input_key(composed), composed),
        ):
            (receipt,) = stack.spine.direct([Append.direct(kind, key, (made,))])
            assert receipt.committed  # type: ignore[union-attr]
        (record,) = procedures(stack)
        assert record.id in [member.memory_id for member in snapshot.members]
        assert (len(snapshot.members), build.document_count) == (2, 1)
        loaded = load_input(stack.stores.ledger, stack.stores.artifacts, RecallInputId(composed.id))
        assert isinstance(loaded, LoadedInput)
        assert record.id not in loaded.index.search.ids
        require_clean(stack)


class TestReading:
    def test_procedures_are_found_by_a_beginning_of_their_id(self, stack: Stack) -> None:
        study(stack, "first", GOOD)
        (record,) = procedures(stack)
        with stack.stores.ledger.reading() as reader:
            (listed,) = stored_procedures(reader, stack.namespace, every=False)
            found = read_procedure(reader, str(record.id)[:30])
            assert found == listed
            assert found.active
            with pytest.raises(NotFoundError, match="No procedure begins so"):
                read_procedure(reader, next(str(each.id) for each in stack.load("memory-record") if each != record))
