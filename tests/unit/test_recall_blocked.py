"""Recall that is refused: each blocked reason with its proof, never told as an empty result."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from memory.index.artifact import IndexDocument, build_index
from memory.index.embedding import HashEmbedder
from memory.recall.context import Recall
from memory.recall.loaded import LoadedInput, UnusableInput
from memory.recall.memory_index import MemoryIndex, pack_memory_index
from memory.recall.validation import parse_request
from memory.snapshots import RecallInputSnapshotBuilder, recall_input_key
from policies.retrieval_policy import retrieval_policy
from records.canonical import digest_bytes
from records.decisions import (
    AllowedAction,
    BlockedProposal,
    BlockedReason,
    BlockedTarget,
)
from records.flows import Transition
from records.ids import ContractViewId, IntentId, RecallInputId
from records.knowledge import MemoryRecord
from records.values import DecisionPoint, Disposition, RecallRequirement
from store.ledger.port import LedgerReader
from tests.unit.recall_support import (
    ASKED,
    NOW,
    SCOPE,
    intent,
    request,
    rule,
    view,
)
from tests.unit.recall_world import World, answer, context, proof, without_fallback


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_vrm_o03_other_namespaces_never_come_back(world: World) -> None:
    """Neither through a shared Ledger, nor by naming another namespace's Recall Input, nor with a foreign member."""
    world.learn(rule(namespace="elsewhere"))
    foreign = world.ready(namespace="elsewhere")
    decision = world.admit(intent())
    assert context(answer(world, decision=decision)).items == ()
    refused = proof(answer(world, foreign, decision=decision))
    assert refused.blocked_reason is BlockedReason.CONTAMINATION
    loaded = world.retriever().load(RecallInputId(world.ready().id))
    assert isinstance(loaded, LoadedInput)
    stranger = rule(namespace="elsewhere")
    poisoned = _with_rows(loaded, [(stranger, Disposition.ACTIVE)])
    asked = request(decision, RecallInputId(loaded.recall_input.id))
    found = proof(world.retriever().propose(decision, asked, poisoned, now=NOW))
    assert found.blocked_reason is BlockedReason.CONTAMINATION
    assert found.evidence.as_json()["members"] == [digest_bytes(str(stranger.id).encode())]


def test_vrm_r11_evaluator_private_members_block(world: World) -> None:
    """One such member blocks the whole input; the proof names it by a digest only."""
    hidden, _ = world.learn(rule(scope=SCOPE.model_copy(update={"visibility": "evaluator_private"})))
    world.learn(rule("C", "100"))
    found = proof(answer(world))
    assert found.blocked_reason is BlockedReason.PRIVATE_EXPOSURE
    assert found.evidence.as_json()["members"] == [digest_bytes(str(hidden.id).encode())]


@pytest.mark.parametrize(
    ("changes", "fields"),
    [
        ({"decision_point": DecisionPoint.WRITING, "policy": retrieval_policy("1")}, ["decision_point"]),
        ({"prior_config": (AllowedAction(knob="C", value="1"), AllowedAction(knob="C", value="10"))}, ["prior_config"]),
        ({"allowed_actions": (AllowedAction(knob="C", value="1"),) * 2}, ["allowed_actions"]),
    ],
)
def test_vrm_r11_invalid_requests_block(world: World, changes: dict[str, Any], fields: list[str]) -> None:
    found = proof(answer(world, **changes))
    assert found.blocked_reason is BlockedReason.REQUEST_INVALID
    assert found.evidence.as_json()["fields"] == fields


def test_vrm_r11_a_control_intent_cannot_ask(world: World) -> None:
    control = intent().governance.model_copy(update={"recall_requirement": RecallRequirement.REGISTERED_NOT_REQUESTED})
    found = proof(answer(world, decision=world.admit(intent(governance=control))))
    assert found.evidence.as_json()["fields"] == ["intent.governance.recall_requirement"]


def test_vrm_r11_incomplete_bytes_block_under_their_own_digest() -> None:
    """What is no request is blocked by field names alone; text from outside does not enter the proof."""
    decision, policy = intent(), retrieval_policy()
    data = b'{"max_items": 9, "a\\nb <evil>": 1}'
    found = parse_request(decision, data, policy)
    assert isinstance(found, BlockedProposal)
    assert found.request_digest == digest_bytes(data)
    fields = found.evidence.as_json()["fields"]
    assert "request.max_items" in fields
    assert "request.intent_id" in fields
    assert "request.a_b__evil_" in fields
    whole = request(decision, RecallInputId.derive({}))
    assert parse_request(decision, whole.canonical, policy) == whole


def test_vrm_r01_a_request_is_of_its_own_intent(world: World) -> None:
    """Another intent, task, action set, contract view or Recall Input is an identity mismatch with both sides named."""
    world.learn(rule())
    source, decision = world.ready(), world.admit(intent())
    other = {
        "intent_id": IntentId.derive({"other": 1}),
        "scope": ASKED.model_copy(update={"evaluation_task_id": None}),
        "allowed_actions": request(decision, RecallInputId(source.id)).allowed_actions[1:],
    }
    for name, value in other.items():
        found = proof(answer(world, source, decision=decision, **{name: value}))
        assert found.blocked_reason is BlockedReason.IDENTITY_MISMATCH, name
    loaded = world.retriever().load(RecallInputId(source.id))
    asked = request(decision, RecallInputId.derive({"another": 1}))
    found = proof(world.retriever().propose(decision, asked, loaded, now=NOW))
    assert found.evidence.as_json()["observed"] == str(source.id)
    unseen = intent(1, contract_view_id=ContractViewId.derive({"unseen": 1}))
    assert proof(answer(world, source, decision=unseen)).blocked_reason is BlockedReason.IDENTITY_MISMATCH
    margin = view(equivalence_margin="0.01", primary_metric=view().primary_metric.model_copy(update={"name": "auc"}))
    elsewhere = world.admit(intent(2, contract_view_id=ContractViewId(margin.id)), margin)
    assert proof(answer(world, source, decision=elsewhere)).blocked_reason is BlockedReason.IDENTITY_MISMATCH


def test_vrm_r11_another_policy_or_embedder_blocks(world: World) -> None:
    """A Recall Input is only for the policy it was composed for, an index only for the embedder it was built with."""
    world.learn(rule())
    source, decision = world.ready(), world.admit(intent())
    policy = proof(answer(world, source, decision=decision, policy=without_fallback()))
    assert policy.blocked_reason is BlockedReason.POLICY_MISMATCH
    embedder = proof(answer(world, source, decision=decision, embedder=HashEmbedder(16)))
    assert embedder.blocked_reason is BlockedReason.POLICY_MISMATCH
    assert embedder.evidence.as_json()["observed"] == HashEmbedder(16).id


def test_vrm_r11_damaged_input_blocks_and_is_never_empty(world: World) -> None:
    """A missing input, missing bytes, a byte too few and a changed byte: corrupt, with what was attempted."""
    world.learn(rule())
    snapshot = world.freeze()
    build, data = world.index(snapshot)
    source, decision = world.ready(), world.admit(intent())
    missing = RecallInputId.derive({"none": 1})
    loaded = world.retriever().load(missing)
    found = proof(world.retriever().propose(decision, request(decision, missing), loaded, now=NOW))
    assert (found.blocked_reason, found.recall_input_id) == (BlockedReason.CORRUPT_INPUT, None)
    path = Path(world.artifacts.location(build.artifact.sha256))
    for damage in (data[:-1], data[:-100] + b"x" + data[-99:]):
        path.write_bytes(damage)
        broken = proof(answer(world, source, decision=decision))
        assert broken.blocked_reason is BlockedReason.CORRUPT_INPUT
        assert broken.recall_input_id == source.id
    path.unlink()
    gone = proof(answer(world, source, decision=decision))
    assert gone.evidence.as_json() == {
        "reason": "blocked_corrupt_input", "attempted": build.artifact.sha256, "finding": "artifact",
    }  # fmt: skip


def test_vrm_r11_a_receipt_for_other_members_blocks(world: World) -> None:
    """An index that is sound in itself but holds other rows than the snapshot is refused."""
    world.learn(rule())
    snapshot = world.freeze()
    build, data = world.index(snapshot)
    index = MemoryIndex.from_bytes(data)
    assert list(index.search.ids) == [member.memory_id for member in snapshot.members]
    lie = build.model_copy(update={"member_digest": "0" * 64})
    world.direct(Transition.INDEX_RECEIPT, "lie", lie)
    composed = RecallInputSnapshotBuilder(retrieval_policy()).compose(snapshot, [lie])
    world.direct(Transition.COMPOSE_RECALL_INPUT, recall_input_key(composed), composed)
    found = proof(answer(world, composed))
    assert found.evidence.as_json()["finding"] == "memory-index.receipt"


def test_vrm_r06_a_changed_record_blocks(world: World) -> None:
    """The payload that comes back must be the one that was indexed."""
    record, _ = world.learn(rule())
    source, decision = world.ready(), world.admit(intent())
    rows = world.ledger._state.records
    row = rows[str(record.id)]
    rows[str(record.id)] = replace(row, payload=row.payload.replace("raises", "lowers"))
    found = proof(answer(world, source, decision=decision))
    assert found.evidence.as_json()["finding"] == "memory-record.payload"


@dataclass
class Denying:
    """Retention that denies what it is told to, from the moment it is told."""

    targets: tuple[BlockedTarget, ...] = ()

    def __call__(self, _reader: LedgerReader, _namespace: str) -> tuple[BlockedTarget, ...]:
        return self.targets


def test_vrm_r02_retention_revokes_a_frozen_and_a_loaded_input(world: World) -> None:
    """A denial blocks before the artifact is opened, and blocks an input that was loaded before it; others go on."""
    record, _ = world.learn(rule())
    source, decision = world.ready(), world.admit(intent())
    denials = Denying()
    retriever = world.retriever(denials=denials)
    loaded = retriever.load(RecallInputId(source.id))
    asked = request(decision, RecallInputId(source.id))
    denials.targets = (BlockedTarget(target_id=str(rule("tol", "0.01").id), digest="9" * 64),)
    assert isinstance(retriever.propose(decision, asked, loaded, now=NOW), Recall)
    denials.targets = (BlockedTarget(target_id=str(record.id), digest=record.payload_digest),)
    found = proof(retriever.propose(decision, asked, loaded, now=NOW))
    assert found.blocked_reason is BlockedReason.RETENTION_REVOKED
    world.artifacts.publish(b"")
    Path(world.artifacts.location(world.index(world.freeze())[0].artifact.sha256)).unlink()
    again = retriever.load(RecallInputId(source.id))
    assert isinstance(again, UnusableInput)
    assert proof(retriever.propose(decision, asked, again, now=NOW)).evidence == found.evidence


def _with_rows(loaded: LoadedInput, rows: list[tuple[MemoryRecord, Disposition]]) -> LoadedInput:
    """Return a loaded input whose columns claim other rows: what a corrupted build could put there."""
    search = build_index([IndexDocument(str(record.id), "x") for record, _ in rows], HashEmbedder(32)).data
    data = pack_memory_index(loaded.index.snapshot_id, rows, search)
    return replace(loaded, index=MemoryIndex.from_bytes(data))
