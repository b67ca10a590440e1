"""What retention denies, on both stores: recall, distillation, captures and snapshots (spec 4.15, 8.1, 8.2, 15)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from memory.distillation.distiller import DistillationRequest
from memory.ports import all_good
from memory.recall.context import Recall
from memory.recall.loaded import LoadedInput, UnusableInput
from memory.retention import denials
from memory.snapshots import KnowledgeSnapshotBuilder
from policies.selection_policy import selection_policy
from records.appends import Append, Proposal
from records.conflicts import RetentionConflict
from records.decisions import RetentionEvidence
from records.errors import IdentityConflictError
from records.flows import Authority, Transition
from records.ingestion import EvidenceSnapshot
from records.knowledge import MemoryRecord
from records.outcomes import NoCommitReason
from records.retention import ErasureIntent
from records.values import Disposition
from tests.support.incidents import Incident
from tests.support.stack import effects, quiet, record_of
from tests.support.stack_decisions import CATALOG, Study
from tests.support.stores import expect
from tests.support.trials import NOW

pytestmark = pytest.mark.parametrize(
    ("ledger", "runtime"), [("memory", "memory"), ("postgres", "postgres")], indirect=True
)


def test_an_open_intent_and_a_tombstone_both_deny(incident: Incident) -> None:
    """The rule, the index builds that hold it and the artifacts named as affected."""
    retriever, rule = incident.retriever(), incident.rule
    assert isinstance(retriever.load(incident.recall_input), LoadedInput)
    assert denials(incident.stack.stores.ledger, incident.stack.namespace) == ()
    intent = incident.opened(*incident.of_rule())
    denied = {str(rule.id), *intent.affected}
    for _ in range(2):
        found = denials(incident.stack.stores.ledger, incident.stack.namespace)
        assert {target.target_id for target in found} == denied
        answer = retriever.load(incident.recall_input)
        assert isinstance(answer, UnusableInput)
        assert isinstance(answer.evidence, RetentionEvidence)
        check = answer.evidence.check
        assert check.frontier == incident.stack.stores.ledger.namespace_head(incident.stack.namespace).retention
        assert str(rule.id) in {target.target_id for target in check.blocked}
        incident.publish(intent)
        incident.close(intent)


def test_a_context_that_was_proposed_before_is_refused_after(incident: Incident) -> None:
    study = Study(incident.stack, "pair-1", "memory", incident.recall_input)
    run = incident.stack.admit("pair-1/memory", "trial")
    assert run == study.run_id
    study.carry(Transition.APPEND_INTENT, Authority.ADMISSION, study.view, study.intent)
    retriever = incident.retriever()
    recall = retriever.propose(study.intent, study.request, retriever.load(incident.recall_input), now=NOW)
    assert isinstance(recall, Recall)
    incident.opened(*incident.of_rule())
    proposal = study.proposal(Transition.APPEND_CONTEXT, Authority.NORMAL, recall.context)
    (receipt,) = all_good(incident.stack.spine.carry([proposal]))
    assert receipt.reason is NoCommitReason.RETENTION_FRONTIER_STALE
    again = retriever.propose(study.intent, study.request, retriever.load(incident.recall_input), now=NOW)
    assert not isinstance(again, Recall)


class Interrupted:
    """A distiller after whose proposals an erasure begins."""

    def __init__(self, incident: Incident, intent: ErasureIntent) -> None:
        self.incident, self.intent = incident, intent

    def propose(self, requests: Sequence[DistillationRequest]) -> list[Proposal]:
        made = self.incident.stack.distiller.propose(requests)
        if self.incident.phase(self.intent) is None:
            self.incident.opened(self.intent)
        return made


def test_a_distillation_that_rests_on_what_was_denied_meanwhile_writes_one_conflict(incident: Incident) -> None:
    """The proposal-time check is never the linearization point (spec 8.1)."""
    stack = incident.stack
    run_id = stack.admit("second")
    stack.evidence(effects(stack, "second", {"e": 0.05, "f": 0.05}, change=("tol", 0.001, 0.01)))
    assert not stack.campaigns.ingest(run_id, quiet)
    assert not stack.campaigns.project(quiet)
    intent = incident.of_observation(-1)
    before = stack.counts()
    failures = stack.campaigns.distil(stack.capture(), Interrupted(incident, intent), quiet)
    assert failures
    conflicts = stack.load("distillation-commit-conflict")
    assert conflicts
    for conflict in conflicts:
        assert isinstance(conflict, RetentionConflict)
        assert [target.target_id for target in conflict.retention.blocked] == [intent.target_id]
    counts = stack.counts()
    assert counts["distillation-work-completion"] < counts["distillation-work-item"]
    assert counts["memory-record"] == before["memory-record"]
    phases = stack.phases()
    others = stack.load("no-commit-receipt")  # of items that a refused Decision was to cover
    assert phases["authorization", "RETIRED_NO_COMMIT"] == len(conflicts) + len(others)
    assert {proof.reason for proof in others} <= {NoCommitReason.PRECONDITION_CONFLICT}
    assert not phases["activity", "COMMITTING"]


def test_a_rule_may_be_learnt_anew_after_the_one_before_it_was_erased(incident: Incident) -> None:
    """Its evidence is not denied, and to come after a record is not to rest on it."""
    stack, erased = incident.stack, incident.rule
    incident.opened(*incident.of_rule())
    base, scaled = (CATALOG.config_digest(CATALOG.baseline | {"scaler": value}) for value in ("none", "standard"))
    own: dict[str, Any] = {"catalog_digest": CATALOG.digest, "baseline_config_digest": base, "configs": (base, scaled)}
    assert not stack.study("again", effects(stack, "again", {"e": 0.05, "f": 0.052}, **own))
    (head,) = stack.stores.ledger.variant_heads(stack.namespace).values()
    learnt = expect(MemoryRecord, record_of(stack, head.memory_id))
    assert head.disposition == Disposition.ACTIVE.value
    assert (learnt.id != erased.id, learnt.prior_memory_id) == (True, erased.id)
    with stack.stores.ledger.reading() as reader:
        frozen = KnowledgeSnapshotBuilder(selection_policy()).freeze(reader, stack.namespace)
    assert [member.memory_id for member in frozen.members] == [learnt.id]
    append = Append.direct(Transition.FREEZE_KNOWLEDGE, "anew", (frozen,))
    all_good(stack.spine.direct([append]))


def test_what_is_captured_frozen_or_built_afterwards_leaves_it_out(incident: Incident) -> None:
    stack = incident.stack
    earlier = expect(EvidenceSnapshot, record_of(stack, stack.capture()))
    observation = stack.load("observation")[0]
    (experience,) = stack.stores.ledger.find("experience", stack.namespace, observation_id=str(observation.id))
    incident.opened(incident.of_observation())
    with stack.stores.ledger.reading() as reader:
        frozen = KnowledgeSnapshotBuilder(selection_policy()).freeze(reader, stack.namespace)
    assert frozen.members == (), "the rule rests on the observation"
    stack.evidence(effects(stack, "erasure", {"z": 0.05}))
    later = expect(EvidenceSnapshot, record_of(stack, stack.capture()))
    assert experience.id in {member.experience_id for member in earlier.members}
    assert experience.id not in {member.experience_id for member in later.members}
    assert ("retention_revoked", 1) in [(item.reason, item.count) for item in later.excluded]


def test_what_rests_on_it_is_not_published(incident: Incident) -> None:
    stack = incident.stack
    (snapshot,), (build,) = stack.load("knowledge-snapshot"), incident.builds
    (composed,) = stack.load("recall-input-snapshot")
    incident.opened(incident.of_observation())
    again = {
        Transition.FREEZE_KNOWLEDGE: snapshot.model_copy(update={"lifecycle_position": 0}),
        Transition.INDEX_RECEIPT: build.model_copy(update={"identity": "another"}),
        Transition.COMPOSE_RECALL_INPUT: composed.model_copy(update={"renderer": "another"}),
    }
    before = stack.journal()
    for transition, record in again.items():
        (answer,) = stack.spine.direct([Append.direct(transition, f"late/{transition}", (record,))])
        assert isinstance(answer, IdentityConflictError), transition
    assert stack.journal() == before
