"""Snapshots: eligibility, the capture key, one head per variant, identities that depend on their sources alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from memory.index.embedding import HashEmbedder
from memory.snapshots import (
    EvidenceSnapshotBuilder,
    FreezeEvidence,
    KnowledgeSnapshotBuilder,
    RecallInputSnapshotBuilder,
    build_index,
)
from memory.snapshots.evidence import EPOCH
from policies.distillation_policy import distillation_policy
from policies.loading import load_policy
from policies.retrieval_policy import retrieval_policy
from policies.selection_policy import SelectionPolicy, selection_policy
from records.errors import IdentityConflictError, IntegrityError, InvalidInputError
from records.evidence import Corpus, VerificationKind
from records.knowledge import EventType
from records.values import Disposition, Grade
from tests.unit.recall_support import CONTRACT, SPACE, rule, strength, trial
from tests.unit.recall_world import World

CHANGE = ("C", 1, 10)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_vrm_l04_base_snapshot_leaves_out_what_evaluation_and_arms_produced(world: World) -> None:
    """Every source of exclusion is counted under its reason, and none is a member."""
    kept = world.experience(trial(1, CHANGE))
    world.experience(trial(2, CHANGE, corpus=Corpus.EVALUATION))
    world.experience(trial(3, CHANGE, arm="memory", pair="p"))
    world.experience(trial(4, CHANGE, verified={}, violations=("missing_primary_metric:macro_f1",)))
    attested = CONTRACT.model_copy(update={"name": "attested", "verification_kind": VerificationKind.ATTESTED})
    world.experience(trial(5, CHANGE, contract=attested))
    world.experience(trial(6, CHANGE), provenance_id=None)
    snapshot = world.capture("k")
    assert [member.experience_id for member in snapshot.members] == [kept.id]
    assert {entry.reason: entry.count for entry in snapshot.excluded} == {
        "evaluation_corpus": 1,
        "bound_to_an_arm": 1,
        "attempt_not_completed": 1,
        "verification_kind_not_admitted": 1,
        "missing_trial_provenance": 1,
    }


def test_capture_key_gives_the_first_snapshot_again(world: World) -> None:
    """A retry is not a new look, a new key is; the key does not enter the snapshot's id (spec 4.12)."""
    world.experience(trial(1))
    first = world.capture("one")
    twin = world.capture("two")
    assert twin.payload == first.payload
    world.experience(trial(2))
    assert world.capture("one").payload == first.payload
    later = world.capture("three")
    assert later.id != first.id
    assert later.evidence_position > first.evidence_position


def test_capture_key_is_for_one_request(world: World) -> None:
    """The same key under another policy is a conflict, and nothing is frozen."""
    world.capture("one")
    other = distillation_policy("1")
    with world.ledger.reading() as reader, pytest.raises(IdentityConflictError, match="operation_key"):
        EvidenceSnapshotBuilder(other).freeze(reader, FreezeEvidence(namespace=SPACE, operation_key="one"))


def test_times_come_from_the_sources(world: World) -> None:
    """Frozen from nothing: the epoch; else the newest member, whenever it is built."""
    empty = world.freeze()
    assert empty.created_at == EPOCH
    assert world.index(empty)[0].created_at == EPOCH
    assert world.capture("empty").created_at == EPOCH
    world.experience(trial(1))
    world.experience(trial(2))
    assert world.capture("full").created_at == "2026-02-03T00:00:02.000000Z"
    _, event = world.learn(rule())
    assert world.freeze().created_at == event.created_at


def test_vrm_l02_one_head_per_scope_variant(world: World) -> None:
    """A replaced rule is out, its replacement is in, under one scope variant."""
    old, started = world.learn(rule())
    ended = world.end(old, EventType.SUPERSEDED, started)
    assert world.freeze().members == ()
    new, _ = world.learn(rule(claim="A larger C raises macro F1 by more."), prior=str(ended.id))
    (member,) = world.freeze().members
    assert new.scope_variant_id == old.scope_variant_id
    assert member.memory_id == new.id


def test_vrm_l02_only_admitted_dispositions_and_grades(world: World) -> None:
    """Provisional, contested, retracted and weak heads stay out of the active profile; a contested profile asks."""
    kept, _ = world.learn(rule())
    world.learn(rule("C", "100"), EventType.PROMOTED_PROVISIONAL)
    contested, _ = world.learn(
        rule("kernel", '"linear"', start='"rbf"', strength=strength(Grade.CONTESTED)), EventType.PROMOTED_CONTESTED
    )
    retracted, started = world.learn(rule("scaler", '"robust"', start='"none"'))
    world.end(retracted, EventType.RETRACTED, started)
    world.learn(rule("tol", "0.01", start="0.001", strength=strength(Grade.SINGLE)))
    assert [member.memory_id for member in world.freeze().members] == [kept.id]
    asking = selection_policy().model_copy(
        update={"version": "2", "dispositions": (Disposition.CONTESTED,), "grades": (Grade.CONTESTED,)}
    )
    assert [member.memory_id for member in world.freeze(asking).members] == [contested.id]


def test_no_policy_selects_what_has_ended() -> None:
    text = 'policy_id: selection\nversion: "9"\nkinds: [semantic]\ndispositions: [superseded]\ngrades: [strong]\n'
    with pytest.raises(InvalidInputError, match="never selected"):
        load_policy(SelectionPolicy, text, "file")


def test_vrm_l05_unrelated_growth_and_retrieval_leave_identity_alone(world: World) -> None:
    """More evidence, more snapshots, other indexes: the same bytes. A lifecycle event: another snapshot."""
    world.learn(rule())
    first = world.freeze()
    world.experience(trial(7))
    world.capture("more")
    world.index(first)
    world.index(first, HashEmbedder(16))
    assert world.freeze().payload == first.payload
    world.learn(rule("C", "100"))
    assert world.freeze().id != first.id
    other = selection_policy().model_copy(update={"version": "9"})
    with world.ledger.reading() as reader:
        assert KnowledgeSnapshotBuilder(other).freeze(reader, SPACE).id != world.freeze().id


def test_fold_must_agree_with_the_heads(world: World) -> None:
    """A head that the events do not lead to stops the freeze."""
    world.learn(rule())
    variants = world.ledger._state.variants
    variants.clear()
    with world.ledger.reading() as reader, pytest.raises(IntegrityError, match="heads"):
        KnowledgeSnapshotBuilder(selection_policy()).freeze(reader, SPACE)


def test_vrm_o01_index_is_rebuilt_to_the_same_receipt(world: World) -> None:
    """Delete it and build it again: the same bytes, the same receipt; another embedder, another build."""
    world.learn(rule())
    world.learn(rule("scaler", '"standard"', start='"none"', mechanism="feature_scaling", claim="Scaling helps."))
    snapshot = world.freeze()
    build, data = world.index(snapshot)
    again, rebuilt = world.index(snapshot)
    assert (again.payload, rebuilt) == (build.payload, data)
    other, _ = world.index(snapshot, HashEmbedder(16))
    assert other.id != build.id
    assert other.identity_digest != build.identity_digest
    assert build.document_count == 2


def test_vrm_o02_hash_vectors_are_refused(world: World) -> None:
    """Without the word of a test no index comes from hash vectors, and with it the receipt says so."""
    snapshot = world.freeze()
    with world.ledger.reading() as reader, pytest.raises(InvalidInputError, match="non_semantic_test_index"):
        build_index(reader, snapshot, HashEmbedder(8))
    assert world.index(snapshot)[0].semantic is False


def test_vrm_o03_a_snapshot_is_of_one_namespace(world: World) -> None:
    """The rules of one namespace are not in another one's snapshot."""
    world.learn(rule())
    world.learn(rule(namespace="elsewhere"))
    (member,) = world.freeze().members
    (foreign,) = world.freeze(namespace="elsewhere").members
    assert member.memory_id != foreign.memory_id


def test_recall_input_is_of_its_own_snapshot(world: World) -> None:
    """Builds of another snapshot do not compose; composing twice is a replay."""
    world.learn(rule())
    old = world.freeze()
    build, _ = world.index(old)
    builder = RecallInputSnapshotBuilder(retrieval_policy())
    first = builder.compose(old, [build])
    assert builder.compose(old, [build]).payload == first.payload
    world.learn(rule("C", "100"))
    with pytest.raises(InvalidInputError, match="another snapshot"):
        builder.compose(world.freeze(), [build])
    with pytest.raises(InvalidInputError, match="one build of the rules"):
        builder.compose(old, [])
