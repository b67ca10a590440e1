"""What the integrity check says of erasures: each way in which one can be untrue is told by its own code."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from memory.erasing import ErasureRequest
from memory.erasing.officer import tombstone_of
from memory.fsck import Code
from records.appends import Append
from records.evidence import Observation
from records.flows import Authority, Transition
from records.retention import ErasureIntent, ErasureReason, RetentionTombstone
from records.values import ProofRef
from store.artifacts import ArtifactStore
from store.ledger.memory import MemoryLedger
from store.ledger.port import Request
from store.runtime.memory import MemoryRuntime
from tests.support.fsck_damage import ERASURES
from tests.support.fsck_scene import named
from tests.support.incidents import proofs_of
from tests.support.stack import Stack, Stores, effects
from tests.support.stack_control import checked
from tests.support.stores import expect, granted


@pytest.fixture
def stack(tmp_path: Path) -> Stack:
    return Stack(Stores(MemoryLedger(), MemoryRuntime(), ArtifactStore(str(tmp_path))), "space")


def begun(stack: Stack) -> ErasureIntent:
    """Begin the erasure of an observation with two artifacts' worth of evidence around it."""
    stack.admit("first")
    stack.evidence(effects(stack, "first", {"a": 0.05}))
    target = str(stack.load("observation")[0].id)
    return stack.officer.begin(ErasureRequest(target=target, reason=ErasureReason.LEGAL_ORDER, incident="case-1"))


def test_an_open_erasure_is_a_note_whatever_is_gone_of_it(stack: Stack) -> None:
    intent = begun(stack)
    for _ in range(2):
        report = checked(stack)
        assert report.clean, report.text()
        assert [(note.code, note.record) for note in report.notes] == [("erasure", str(intent.id))]
        stack.stores.artifacts.erase(intent.erased_bytes[0])
    stack.officer.finish(intent)
    report = checked(stack)
    assert (report.violations, report.notes) == ((), ())


def test_bytes_that_no_intent_names_are_missing_even_if_they_are_marked_as_erased(stack: Stack) -> None:
    """The artifact store does not say what was lawful; the Ledger does."""
    begun(stack)
    observation = expect(Observation, stack.load("observation")[1])
    stack.stores.artifacts.erase(observation.artifacts[0].sha256)
    report = checked(stack)
    assert named(report, Code.ARTIFACT_MISSING) == {str(observation.id)}


def back(stack: Stack, intent: ErasureIntent, _tombstone: RetentionTombstone) -> None:
    """Somebody copies the bytes into the folder, past the store."""
    Path(stack.stores.artifacts.location(intent.erased_bytes[0])).write_bytes(b"predictions")


def lost(stack: Stack, _intent: ErasureIntent, tombstone: RetentionTombstone) -> None:
    """A proof is gone."""
    stack.stores.artifacts.drop(tombstone.acknowledgements[0].proof.digest, float("inf"))


DAMAGE: dict[Code, Callable[[Stack, ErasureIntent, RetentionTombstone], None]] = {
    Code.ERASED_PRESENT: back,
    Code.ERASURE_UNPROVED: lost,
}


@pytest.mark.parametrize("code", DAMAGE)
def test_what_was_changed_afterwards_is_found(stack: Stack, code: Code) -> None:
    intent = begun(stack)
    tombstone = stack.officer.finish(intent)
    DAMAGE[code](stack, intent, tombstone)
    assert named(checked(stack), code) == {str(tombstone.id)}


def forged(stack: Stack, intent: ErasureIntent, made: RetentionTombstone) -> RetentionTombstone:
    """Write a tombstone past every guard, under a grant that nobody gave."""
    for digest in intent.erased_bytes:
        stack.stores.artifacts.erase(digest)
    append = granted(Transition.CLOSE_ERASURE, [made], "forged", Authority.RETENTION)
    epoch = stack.stores.ledger.claim("forger", "test")
    expect(object, stack.stores.ledger.commit(epoch, [Request(append)])[0])
    assert isinstance(append, Append)
    return made


def refs(stack: Stack, intent: ErasureIntent, **changes: object) -> list[ProofRef]:
    """Publish proofs with changes, and return what a tombstone names them by."""
    proofs = proofs_of(intent, **changes)
    stack.stores.artifacts.publish_many([proof.canonical for proof in proofs])
    return [ProofRef(ref=proof.object_ref, digest=proof.canonical_digest) for proof in proofs]


AT = "2025-03-02T12:00:00.000000Z"


def test_a_tombstone_of_another_incident_is_found(stack: Stack) -> None:
    intent = begun(stack)
    proofs = refs(stack, intent, incident="case-2")
    made = forged(stack, intent, tombstone_of(intent, proofs, AT).model_copy(update={"incident": "case-2"}))
    assert named(checked(stack), Code.ERASURE_MISMATCH) == {str(made.id)}


def test_a_tombstone_that_acknowledges_less_is_found(stack: Stack) -> None:
    intent = begun(stack)
    made = forged(
        stack, intent, tombstone_of(intent, refs(stack, intent), AT).model_copy(update={"acknowledgements": ()})
    )
    assert named(checked(stack), Code.ERASURE_MISMATCH) == {str(made.id)}


@pytest.mark.parametrize("changes", [{"generation": 9}, {"target_digest": "0" * 64}, {"namespace": "elsewhere"}])
def test_a_tombstone_with_proofs_of_something_else_is_found(stack: Stack, changes: dict[str, object]) -> None:
    intent = begun(stack)
    made = forged(stack, intent, tombstone_of(intent, refs(stack, intent, **changes), AT))
    assert named(checked(stack), Code.ERASURE_UNPROVED) == {str(made.id)}


def test_every_code_of_erasures_is_brought_about_here() -> None:
    assert set(DAMAGE) | {Code.ERASURE_MISMATCH} == ERASURES
