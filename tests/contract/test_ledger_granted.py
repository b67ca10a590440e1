"""Granted appends on both adapters: one receipt for ever, typed refusals, and heads that move by compare-and-swap."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from policies.retention import check_retention
from records.appends import Append, AppendReceipt
from records.base import Record, load_record
from records.conflicts import CommitConflict, HeadConflict, NoCommit, RetentionConflict
from records.decisions import BlockedTarget, DecisionIntent, RecallContext, RetentionCheck, memory_binding
from records.errors import IdentityConflictError, InvalidRecordError
from records.flows import Authority, Transition
from records.ids import EventId, ExperienceId, MemoryId
from records.knowledge import EventType, LifecycleEvent, MemoryRecord, MemoryRelation, RelationKind
from records.outcomes import NoCommitReason, NoCommitReceipt, ObservedHead, RecallOutcome
from records.values import Disposition, RecallRequirement
from store.ledger.port import LedgerReader, LedgerStore, Refusal
from tests.support.decision_samples import governed_item, make_intent, sample_records
from tests.support.samples import POLICY, Common, authorization_id, baseline_records, make_event, make_memory
from tests.support.stores import Writer, evidence_append, expect, granted

A, S = Disposition.ACTIVE, Disposition.SUPERSEDED


@dataclass
class Rules:
    """A namespace with evidence, ready for rules about one scope variant."""

    writer: Writer
    records: dict[str, Record]

    @classmethod
    def begin(cls, store: LedgerStore) -> Rules:
        writer = Writer.claim(store)
        records = sample_records(writer.namespace)
        writer.good(
            evidence_append([*baseline_records(writer.namespace), *list(records.values())[1:8]]),
            Append.direct(
                Transition.CAPTURE_SNAPSHOT, "capture", (records["evidence-snapshot"], records["capture-operation"])
            ),
        )
        return cls(writer, records)

    def rule(self, claim: str) -> tuple[Record, MemoryRecord]:
        comparator = ExperienceId(baseline_records(self.writer.namespace)[-1].id)
        return make_memory(Common(self.writer.namespace), self.records, comparator, claim)

    def event(self, memory: MemoryRecord, kind: EventType, to: Disposition, prior: str = "GENESIS") -> LifecycleEvent:
        return make_event(Common(self.writer.namespace), memory, kind, to, prior)

    def commit(self, name: str, *records: Record) -> AppendReceipt:
        (answer,) = self.writer.commit(granted(Transition.COMMIT_DISTILLATION, records, name))
        receipt: AppendReceipt = expect(AppendReceipt, answer)
        return receipt

    def head(self) -> Any:
        (head,) = self.writer.store.variant_heads(self.writer.namespace).values()
        return head

    def started(self) -> tuple[MemoryRecord, LifecycleEvent]:
        candidate, memory = self.rule("first")
        event = self.event(memory, EventType.PROMOTED_ACTIVE, A)
        assert self.commit("first", candidate, memory, event).committed
        return memory, event


@pytest.fixture
def rules(ledger: LedgerStore) -> Rules:
    return Rules.begin(ledger)


def refusal_of(rules: Rules, receipt: AppendReceipt) -> NoCommit:
    """Return the one proof of a no-commit after checking that it is all that was written."""
    assert not receipt.committed
    assert receipt.record_ids == (str(receipt.no_commit_id),)
    stored = rules.writer.store.get(str(receipt.no_commit_id))
    assert stored is not None
    record = stored.load()
    assert isinstance(record, NoCommitReceipt | CommitConflict)
    assert (str(record.authorization_id), record.authorization_digest) == (receipt.permit_key, receipt.permit_digest)
    assert record.reason is receipt.reason
    mine = [row for row in rules.writer.journal() if row.permit_key == receipt.permit_key]
    own = {NoCommitReason.RETENTION_REVOKED, NoCommitReason.LIFECYCLE_HEAD_STALE}
    noun = "distillation-commit-conflict" if record.reason in own else "no-commit-receipt"
    assert [row.noun for row in mine] == [noun] == [receipt.record_ids[0].partition(":")[0]]
    return record


def revoking(reader: LedgerReader, append: Append) -> Refusal:
    """Deny whatever is asked."""
    target = BlockedTarget(target_id=str(append.records[0].id), digest=append.records[0].payload_digest)
    check = check_retention(reader.namespace_head(append.namespace), [target])
    return Refusal(NoCommitReason.RETENTION_REVOKED, "denied", retention=check)


class TestHeads:
    def test_first_event_moves_from_genesis(self, rules: Rules) -> None:
        memory, event = rules.started()
        head = rules.head()
        assert (head.event_id, head.memory_id, head.disposition, head.version) == (
            str(event.id),
            str(memory.id),
            "active",
            1,
        )
        assert rules.writer.store.namespace_head(rules.writer.namespace).lifecycle == len(rules.writer.journal())

    def test_replacement_is_a_chain_of_two_events_in_one_append(self, rules: Rules) -> None:
        first, start = rules.started()
        candidate, second = rules.rule("second")
        ended = rules.event(first, EventType.SUPERSEDED, S, str(start.id))
        begun = rules.event(second, EventType.PROMOTED_ACTIVE, A, str(ended.id))
        assert rules.commit("second", candidate, second, ended, begun).committed
        head = rules.head()
        assert (head.event_id, head.memory_id, head.version) == (str(begun.id), str(second.id), 3)

    def test_stale_head_is_refused_with_what_was_there(self, rules: Rules) -> None:
        _, start = rules.started()
        candidate, rival = rules.rule("rival")
        receipt = rules.commit("rival", candidate, rival, rules.event(rival, EventType.PROMOTED_ACTIVE, A))
        proof = refusal_of(rules, receipt)
        assert isinstance(proof, HeadConflict)
        assert proof.retention is None
        assert [(head.expected, head.observed) for head in proof.heads] == [("GENESIS", str(start.id))]
        assert rules.head().version == 1

    def test_two_rivals_in_one_group_one_wins(self, rules: Rules) -> None:
        appends = []
        for name in ("one", "two"):
            candidate, memory = rules.rule(name)
            event = rules.event(memory, EventType.PROMOTED_ACTIVE, A)
            appends.append(granted(Transition.COMMIT_DISTILLATION, [candidate, memory, event], name))
        first, second = rules.writer.good(*appends)
        assert (first.committed, second.committed) == (True, False)
        assert second.reason is NoCommitReason.LIFECYCLE_HEAD_STALE

    @pytest.mark.parametrize("guarded", [True, False])
    def test_chain_that_does_not_hold_together_is_rejected_for_good(self, rules: Rules, guarded: bool) -> None:
        first, start = rules.started()
        candidate, second = rules.rule("second")
        ended = rules.event(first, EventType.SUPERSEDED, S, str(start.id))
        astray = rules.event(second, EventType.PROMOTED_ACTIVE, A, str(start.id))
        append = granted(Transition.COMMIT_DISTILLATION, [candidate, second, ended, astray], "astray")
        guard: dict[str, Callable[[LedgerReader, Append], Refusal | None]]
        guard = {} if guarded else {"guard": lambda _r, _a: None}
        receipt: AppendReceipt = expect(AppendReceipt, rules.writer.commit(append, **guard)[0])
        assert refusal_of(rules, receipt).reason is NoCommitReason.AUTHORIZED_PAYLOAD_REJECTED
        assert rules.head().event_id == str(start.id)

    def test_illegal_arrow_is_rejected(self, rules: Rules) -> None:
        first, start = rules.started()
        again = rules.event(first, EventType.PROMOTED_CONTESTED, Disposition.CONTESTED, str(start.id))
        assert rules.commit("again", again).reason is NoCommitReason.AUTHORIZED_PAYLOAD_REJECTED

    def test_record_that_left_the_chain_never_comes_back(self, rules: Rules) -> None:
        first, start = rules.started()
        candidate, second = rules.rule("second")
        ended = rules.event(first, EventType.SUPERSEDED, S, str(start.id))
        begun = rules.event(second, EventType.PROMOTED_ACTIVE, A, str(ended.id))
        rules.commit("second", candidate, second, ended, begun)
        out = rules.event(second, EventType.SUPERSEDED, S, str(begun.id))
        back = rules.event(first, EventType.PROMOTED_ACTIVE, A, str(out.id))
        assert rules.commit("back", out, back).reason is NoCommitReason.AUTHORIZED_PAYLOAD_REJECTED


class TestReceipts:
    def test_refusal_is_the_answer_for_ever(self, rules: Rules) -> None:
        rules.started()
        candidate, rival = rules.rule("rival")
        records = (candidate, rival, rules.event(rival, EventType.PROMOTED_ACTIVE, A))
        first = rules.commit("rival", *records)
        before = rules.writer.state()
        assert rules.commit("rival", *records) == first
        assert rules.writer.state() == before

    def test_refused_permit_cannot_succeed_with_another_body(self, rules: Rules) -> None:
        rules.started()
        candidate, rival = rules.rule("rival")
        rules.commit("rival", candidate, rival, rules.event(rival, EventType.PROMOTED_ACTIVE, A))
        append = granted(Transition.COMMIT_DISTILLATION, [candidate], "rival", body="other")
        before = rules.writer.state()
        (answer,) = rules.writer.commit(append)
        assert isinstance(answer, IdentityConflictError)
        assert rules.writer.state() == before

    def test_successful_permit_cannot_be_refused_later(self, rules: Rules) -> None:
        candidate, memory = rules.rule("first")
        records = (candidate, memory, rules.event(memory, EventType.PROMOTED_ACTIVE, A))
        first = rules.commit("first", *records)
        append = granted(Transition.COMMIT_DISTILLATION, records, "first")
        assert rules.writer.commit(append, guard=revoking) == [first]

    def test_record_that_is_stored_already_is_a_conflict(self, rules: Rules) -> None:
        candidate, memory = rules.rule("first")
        assert rules.commit("one", candidate, memory).committed
        receipt = rules.commit("two", candidate, memory)
        assert refusal_of(rules, receipt).reason is NoCommitReason.CANONICAL_RECORD_CONFLICT

    def test_row_that_the_tables_refuse_is_a_rejected_payload(self, rules: Rules) -> None:
        _, memory = rules.rule("no candidate")  # its candidate is not stored
        receipt = rules.commit("orphan", memory)
        assert refusal_of(rules, receipt).reason is NoCommitReason.AUTHORIZED_PAYLOAD_REJECTED
        assert rules.writer.store.get(memory.id) is None
        candidate, memory = rules.rule("next")
        assert rules.commit("next", candidate, memory).committed
        positions = [row.position for row in rules.writer.journal()]
        assert positions == list(range(1, len(positions) + 1))

    def test_precedence_of_reasons(self, rules: Rules) -> None:
        rules.started()
        candidate, rival = rules.rule("rival")
        append = granted(
            Transition.COMMIT_DISTILLATION,
            [candidate, rival, rules.event(rival, EventType.PROMOTED_ACTIVE, A)],
            "both",
        )
        (answer,) = rules.writer.commit(append, guard=revoking)
        proof = refusal_of(rules, expect(AppendReceipt, answer))
        assert isinstance(proof, RetentionConflict)
        assert (proof.heads, [target.target_id for target in proof.retention.blocked]) == (None, [str(candidate.id)])
        late = lambda _r, _a: Refusal(NoCommitReason.PRECONDITION_CONFLICT, "late")  # noqa: E731  # a guard in a word
        append = granted(Transition.COMMIT_DISTILLATION, append.records, "other")
        (answer,) = rules.writer.commit(append, guard=late)
        assert expect(AppendReceipt, answer).reason is NoCommitReason.LIFECYCLE_HEAD_STALE

    def test_a_revocation_that_does_not_say_what_is_denied_is_an_error_and_writes_nothing(self, rules: Rules) -> None:
        append = granted(Transition.COMMIT_DISTILLATION, rules.rule("first"), "first")
        before = rules.writer.state()
        bare = lambda _r, _a: Refusal(NoCommitReason.RETENTION_REVOKED, "bare")  # noqa: E731  # as above
        (answer,) = rules.writer.commit(append, guard=bare)
        assert isinstance(answer, InvalidRecordError)
        assert rules.writer.state() == before

    def test_a_no_commit_receipt_of_a_stale_head_as_it_was_written_before_is_still_read(self, rules: Rules) -> None:
        """Earlier programs wrote a no-commit receipt for every reason."""
        proof = NoCommitReceipt(
            namespace=rules.writer.namespace,
            created_at=rules.records["attempt"].created_at,
            authorization_id=authorization_id(rules.writer.namespace, "old"),
            authorization_digest="1" * 64,
            transition=Transition.COMMIT_DISTILLATION.value,
            reason=NoCommitReason.LIFECYCLE_HEAD_STALE,
            detail="1 expected heads have moved on",
            heads=(ObservedHead(scope_variant_id="v", expected="GENESIS", observed="e"),),
        )
        assert load_record("no-commit-receipt", proof.payload) == proof


class TestDecisions:
    """The guards of intent, context and outcome (memory/guards.py) against real stores."""

    @pytest.fixture
    def opened(self, rules: Rules) -> Rules:
        records = rules.records
        rule = [records[noun] for noun in ("knowledge-candidate", "memory-record", "knowledge-lifecycle-event")]
        rules.writer.good(
            granted(Transition.COMMIT_DISTILLATION, rule, "rule"),
            Append.direct(Transition.FREEZE_KNOWLEDGE, "freeze", (records["knowledge-snapshot"],)),
            Append.direct(Transition.INDEX_RECEIPT, "index", (records["memory-index-build"],)),
            Append.direct(Transition.COMPOSE_RECALL_INPUT, "input", (records["recall-input-snapshot"],)),
        )
        view, intent = make_intent(Common(rules.writer.namespace), records)
        rules.writer.good(granted(Transition.APPEND_INTENT, [view, intent], "intent", Authority.ADMISSION))
        return rules

    def context(self, rules: Rules, name: str = "context", **changes: Any) -> AppendReceipt:
        context = rules.records["decision-recall-context"]
        assert isinstance(context, RecallContext)
        check = check_retention(rules.writer.store.namespace_head(rules.writer.namespace), ())
        context = context.model_copy(
            update={"retention": check, "items": (governed_item(rules.records, context),), **changes}
        )
        rules.records["decision-recall-context"] = context
        (answer,) = rules.writer.commit(granted(Transition.APPEND_CONTEXT, [context], name))
        receipt: AppendReceipt = expect(AppendReceipt, answer)
        return receipt

    def outcome(self, rules: Rules, name: str = "outcome", **changes: Any) -> AppendReceipt:
        outcome = rules.records["recall-decision-outcome"]
        assert isinstance(outcome, RecallOutcome)
        intent, context = rules.records["decision-intent"], rules.records["decision-recall-context"]
        assert isinstance(intent, DecisionIntent)
        assert isinstance(context, RecallContext)
        given = memory_binding(intent, context).canonical_digest
        own = {"citation_id": context.items[0].citation_id, "card_id": context.items[0].card_id}
        fates = tuple(each.model_copy(update=own) for each in outcome.dispositions)
        bound = {"context_id": context.id, "memory_binding_digest": given, "dispositions": fates}
        outcome = outcome.model_copy(update=bound | changes)
        (answer,) = rules.writer.commit(granted(Transition.APPEND_OUTCOME, [outcome], name))
        receipt: AppendReceipt = expect(AppendReceipt, answer)
        return receipt

    def test_context_then_outcome(self, opened: Rules) -> None:
        assert self.context(opened).committed
        assert self.outcome(opened).committed

    def test_an_outcome_of_an_actor_that_was_given_other_memory_is_refused(self, opened: Rules) -> None:
        self.context(opened)
        assert self.outcome(opened, memory_binding_digest="9" * 64).reason is NoCommitReason.PRECONDITION_CONFLICT

    def test_stale_retention_check(self, opened: Rules) -> None:
        stale = RetentionCheck(frontier=7, tombstone_set_digest="0" * 64, blocked=())
        assert self.context(opened, retention=stale).reason is NoCommitReason.RETENTION_FRONTIER_STALE

    def test_only_one_context_and_one_outcome(self, opened: Rules) -> None:
        self.context(opened)
        self.outcome(opened)
        context = self.context(opened, "second", token_count=91)
        assert context.reason is NoCommitReason.PRECONDITION_CONFLICT
        again = self.outcome(opened, "again", artifact_digest="1" * 64)
        assert not again.committed

    def test_outcome_must_dispose_of_every_card(self, opened: Rules) -> None:
        self.context(opened)
        assert self.outcome(opened, dispositions=()).reason is NoCommitReason.PRECONDITION_CONFLICT

    def test_outcome_of_another_authority(self, opened: Rules) -> None:
        self.context(opened)
        outcome = opened.records["recall-decision-outcome"]
        assert isinstance(outcome, RecallOutcome)
        outcome = outcome.model_copy(update={"context_id": opened.records["decision-recall-context"].id})
        append = granted(Transition.APPEND_OUTCOME, [outcome], "closure", Authority.RUNTIME_CLOSURE)
        (answer,) = opened.writer.commit(append)
        assert expect(AppendReceipt, answer).reason is NoCommitReason.PRECONDITION_CONFLICT

    def test_control_intent_takes_no_context(self, opened: Rules) -> None:
        view, intent = make_intent(
            Common(opened.writer.namespace), opened.records, 1, RecallRequirement.REGISTERED_NOT_REQUESTED
        )
        assert isinstance(intent, DecisionIntent)
        append = granted(Transition.APPEND_INTENT, [view, intent], "control", Authority.ADMISSION)
        assert opened.writer.good(append)[0].committed
        assert self.context(opened, intent_id=intent.id).reason is NoCommitReason.PRECONDITION_CONFLICT

    def test_intent_is_admitted_once(self, opened: Rules) -> None:
        view, intent = make_intent(Common(opened.writer.namespace), opened.records)
        append = granted(Transition.APPEND_INTENT, [view, intent], "again", Authority.ADMISSION)
        assert opened.writer.good(append)[0].reason is NoCommitReason.CANONICAL_RECORD_CONFLICT


@pytest.mark.parametrize("kind", sorted(set(RelationKind) - {RelationKind.CONTESTS}))
def test_directed_relations_have_no_circles(rules: Rules, kind: RelationKind) -> None:
    first, start = rules.started()
    made = [rules.rule(claim) for claim in ("second", "third")]
    (_, second), (_, third) = made
    assert rules.commit("rules", *(record for pair in made for record in pair)).committed

    def edge(source: MemoryRecord, target: MemoryRecord, relation: RelationKind = kind) -> MemoryRelation:
        return MemoryRelation(
            **Common(rules.writer.namespace).head, source_memory_id=MemoryId(source.id), relation=relation,
            target_memory_id=MemoryId(target.id), event_id=EventId(start.id), policy=POLICY,
        )  # fmt: skip

    assert rules.commit("one", edge(second, first), edge(third, second)).committed
    for name, edges in {
        "back": (edge(first, second),),
        "far back": (edge(first, third),),
        "within": (edge(first, third), edge(third, first)),
    }.items():
        receipt = rules.commit(name, *edges)
        assert refusal_of(rules, receipt).reason is NoCommitReason.AUTHORIZED_PAYLOAD_REJECTED
    other = next(each for each in RelationKind if each not in {kind, RelationKind.CONTESTS})
    low, high = sorted((first, third), key=lambda record: record.id)
    assert rules.commit("other", edge(first, third, other), edge(low, high, RelationKind.CONTESTS)).committed


def test_a_new_record_may_be_related_and_not_in_a_circle(rules: Rules) -> None:
    first, start = rules.started()
    candidate, second = rules.rule("second")
    there = MemoryRelation(
        **Common(rules.writer.namespace).head, source_memory_id=MemoryId(second.id), event_id=EventId(start.id),
        target_memory_id=MemoryId(first.id), relation=RelationKind.SUPERSEDES, policy=POLICY,
    )  # fmt: skip
    back = there.model_copy(update={"source_memory_id": first.id, "target_memory_id": second.id})
    refused = rules.commit("circle", candidate, second, there, back)
    assert refusal_of(rules, refused).reason is NoCommitReason.AUTHORIZED_PAYLOAD_REJECTED
    assert rules.commit("line", candidate, second, there).committed


def test_relation_and_prior_must_be_stored(rules: Rules) -> None:
    candidate, memory = rules.rule("alone")
    orphan = memory.model_copy(update={"prior_memory_id": MemoryId.derive({"nobody": 1})})
    assert rules.commit("orphan", candidate, orphan).reason is NoCommitReason.AUTHORIZED_PAYLOAD_REJECTED
