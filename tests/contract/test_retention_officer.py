"""The retention officer on both stores: what an erasure takes, what it leaves, and that it ends from wherever it stood.

What is expected is spec 4.15 and 15: the intent first, then the bytes, then typed proofs, then one tombstone; the rows
of the Ledger stay.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from memory.erasing import ErasureRequest
from memory.erasing.officer import unfinished
from memory.evidence import Trial
from memory.garbage import collect
from memory.ports import all_good
from memory.retention import denials
from records.canonical import canonical_bytes, digest_bytes, parse_canonical
from records.control import ControlCause
from records.errors import (
    AmbiguousIdError,
    ErasedError,
    IdentityConflictError,
    IllegalTransitionError,
    InvalidInputError,
    InvalidRecordError,
    NotFoundError,
    StaleError,
    VrmError,
)
from records.retention import ErasureIntent, ErasureProof, ErasureReason, RetentionTombstone, TargetKind
from records.runtime import Command, Create, Move, Subject, reference_id
from records.states import Event, Machine, Phase
from records.values import Disposition
from store.artifacts import ArtifactStore
from store.ledger.memory import MemoryLedger
from store.ledger.port import LedgerStore
from store.runtime.memory import MemoryRuntime
from store.runtime.port import RuntimeStore
from tests.support.incidents import Incident
from tests.support.stack import GOOD, Crash, Faults, Interrupted, Stack, Stores, effects
from tests.support.stack_control import checked, closure, commands, run_of
from tests.support.stack_decisions import CATALOG, learn
from tests.support.stores import expect, fresh_namespace, ticking_clock

BOTH = pytest.mark.parametrize(("ledger", "runtime"), [("memory", "memory"), ("postgres", "postgres")], indirect=True)
CLOCK = ticking_clock()
"""One clock for all who take part: nobody finds the time that another one had."""

WHY = ErasureReason.PRIVACY_REQUEST


@pytest.fixture
def learned(stack: Stack) -> Incident:
    """A rule that recall can find; the bytes of its evidence are those of no other test's."""
    deltas = {f"{stack.namespace}-{root}": value for root, value in GOOD.items()}
    return Incident(stack, learn(stack, deltas), stack.admit("erasure"))


def request(target: object, **changes: Any) -> ErasureRequest:
    fields: dict[str, Any] = {"target": str(target), "reason": WHY, "incident": "incident-7"}
    return ErasureRequest(**(fields | changes))


def erased(stack: Stack, target: object, **changes: Any) -> tuple[ErasureIntent, RetentionTombstone]:
    intent = stack.officer.begin(request(target, **changes))
    return intent, stack.officer.finish(intent)


def evidence(stack: Stack, key: str, root: str = "") -> Any:
    """Append one bundle to a Run of its own, and return its observation; its bytes are no other test's."""
    stack.admit(key)
    stack.evidence(effects(stack, key, {root or f"{stack.namespace}-{key}": 0.05})[:1])
    return stack.load("observation")[-1]


def experience_of(stack: Stack, observation: Any) -> Any:
    (stored,) = stack.stores.ledger.find("experience", stack.namespace, observation_id=str(observation.id))
    return stored.load()


ELSEWHERE = {TargetKind.REFERENCE, TargetKind.NODE_REPORT, TargetKind.LINEAGE_ENTRY}
"""What a learned store has none of: `test_references` and `test_lineage` erase some."""


def target_of(stack: Stack, kind: TargetKind) -> tuple[str, set[str]]:
    """Return a target and the digests of its own bytes."""
    observation = stack.load("observation")[-1]
    own = {artifact.sha256 for artifact in observation.artifacts}
    match kind:
        case TargetKind.EXPERIENCE:
            return str(experience_of(stack, observation).id), own
        case TargetKind.OBSERVATION:
            return str(observation.id), own
        case TargetKind.ARTIFACT:
            return min(own), own
        case _:
            return str(stack.load(kind.value)[-1].id), set()


@BOTH
@pytest.mark.parametrize("kind", [kind for kind in TargetKind if kind not in ELSEWHERE])
def test_an_erasure_takes_its_own_bytes_and_those_of_every_index_that_holds_it(
    learned: Incident, kind: TargetKind
) -> None:
    stack, artifacts = learned.stack, learned.stack.stores.artifacts
    target, own = target_of(stack, kind)
    (build,) = learned.builds
    gone = own | {build.artifact.sha256}  # type: ignore[attr-defined]  # it is a build
    before, rows = set(artifacts.digests()), stack.counts()
    intent, tombstone = erased(stack, target)
    assert (intent.target_kind, intent.target_id, intent.incident) == (kind, target, "incident-7")
    assert [str(part.index_build_id) for part in intent.affected_indexes] == [str(build.id)]
    assert set(intent.erased_bytes) == gone
    assert before - set(artifacts.digests()) == gone
    added = {"retention-erasure-intent": 1, "memory-retention-tombstone": 1}
    if kind is TargetKind.MEMORY:
        added["knowledge-lifecycle-event"] = rows["knowledge-lifecycle-event"] + 1
        (head,) = stack.stores.ledger.variant_heads(stack.namespace).values()
        assert (head.event_id, head.disposition) == (str(intent.retraction_event_id), Disposition.RETRACTED.value)
    assert stack.counts() == rows | added, "the rows of the Ledger stay"
    assert learned.phase(intent) is Phase.CLOSED
    denied = {target.target_id for target in denials(stack.stores.ledger, stack.namespace)}
    assert denied == {target, str(build.id), *gone}
    stack.complete(learned.run_id)
    subject = expect(Subject, stack.stores.runtime.subject(Machine.ERASURE, str(intent.id)))
    assert run_of(stack, str(subject.run_id)).phase is Phase.COMPLETED
    journal = stack.journal()
    assert stack.officer.finish(intent) == tombstone
    assert stack.officer.begin(request(target)) == intent
    assert stack.journal() == journal
    report = checked(stack)
    assert (report.violations, report.notes) == ((), ())
    assert report.checked["erasures"] == 1


@BOTH
def test_the_proofs_say_what_became_of_each_object(learned: Incident) -> None:
    stack = learned.stack
    intent, tombstone = erased(stack, learned.rule.id)
    read = [ErasureProof.load(stack.stores.artifacts.read(proof.digest)) for proof in tombstone.proofs]
    (build,) = learned.builds
    (index,) = (part.sha256 for part in intent.affected_artifacts)
    assert [(proof.object_ref, proof.operation, proof.state, proof.sequence) for proof in read] == [
        (str(learned.rule.id), "ERASED", "GONE", 1),
        (str(build.id), "INVALIDATED", "DENIED", 2),
        (index, "ERASED", "GONE", 3),
    ]
    for proof in read:
        named = (proof.namespace, proof.incident, proof.intent_id, proof.target_id, proof.target_digest)
        assert named == (stack.namespace, "incident-7", intent.id, learned.rule.id, learned.rule.payload_digest)
        assert proof.generation == intent.material.generation


def sharing(stack: Stack, key: str) -> list[Trial]:
    """Return two trials with one and the same artifact, told apart by their seeds."""
    one, two = (effects(stack, key, {f"{stack.namespace}-x": 0.05}, seed=seed)[1] for seed in (0, 1))
    return [one, replace(two, artifacts=one.artifacts)]


@BOTH
@pytest.mark.parametrize("whole", [0, 1], ids=["an experience first", "an observation first"])
def test_bytes_that_another_record_needs_stay_until_that_is_erased(stack: Stack, whole: int) -> None:
    stack.admit("first")
    stack.evidence(sharing(stack, "first"))
    one, two = stack.load("observation")
    (shared,) = (artifact.sha256 for artifact in one.artifacts)
    assert {artifact.sha256 for artifact in two.artifacts} == {shared}
    targets = [one.id, two.id]
    targets[whole] = experience_of(stack, (one, two)[whole]).id
    planned = stack.officer.plan(request(targets[0]))
    assert [(need.digest, need.holder) for need in planned.kept] == [(shared, str(two.id))]
    intent, _ = erased(stack, targets[0])
    assert (intent.erased_bytes, stack.stores.artifacts.holds(shared)) == ([], True)
    intent, _ = erased(stack, targets[1])
    assert (intent.erased_bytes, stack.stores.artifacts.holds(shared)) == ([shared], False)
    assert checked(stack).clean


@BOTH
def test_bytes_that_another_namespace_needs_are_waited_for(stack: Stack) -> None:
    mine = evidence(stack, "y", f"{stack.namespace}-y")
    other = Stack(stack.stores, fresh_namespace())
    theirs = evidence(other, "y", f"{stack.namespace}-y")
    (shared,) = (artifact.sha256 for artifact in mine.artifacts)
    with pytest.raises(InvalidInputError, match="say in which namespace"):
        other.officer.plan(request(shared))
    intent = other.officer.begin(request(shared, namespace=stack.namespace))
    with pytest.raises(StaleError, match=str(theirs.id)):
        other.officer.finish(intent)
    assert other.stores.artifacts.holds(shared)
    assert [note.code for note in checked(stack).notes] == ["erasure"]
    assert checked(stack).clean
    second = other.officer.begin(request(shared, namespace=other.namespace))
    for each in (intent, second):
        other.officer.finish(each)
    assert not other.stores.artifacts.holds(shared)
    assert checked(stack).clean
    assert checked(other).clean


@BOTH
def test_bytes_under_an_active_reference_are_waited_for(stack: Stack) -> None:
    observation = evidence(stack, "z")
    (digest,) = (artifact.sha256 for artifact in observation.artifacts)
    name = reference_id("AUDIT:1", digest)
    body = canonical_bytes({"owner": "AUDIT:1", "digest": digest}).decode()
    made = Create(machine=Machine.REFERENCE, id=name, run_id=None, phase=Phase.ACTIVE, body=body)
    all_good(stack.owner.apply([Command(key=(Machine.REFERENCE, name), creates=(made,))]))
    intent = stack.officer.begin(request(observation.id))
    with pytest.raises(StaleError, match="release it"):
        stack.officer.finish(intent)
    assert stack.stores.artifacts.holds(digest)
    move = Move(machine=Machine.REFERENCE, id=name, event=Event.RELEASE, generation=1, fence=1)
    all_good(stack.owner.apply([Command(moves=(move,))]))
    stack.officer.finish(intent)
    assert not stack.stores.artifacts.holds(digest)


@BOTH
def test_what_cannot_be_erased_is_refused_by_type_and_nothing_is_written(learned: Incident) -> None:
    stack = learned.stack
    (authorization, *_) = stack.stores.runtime.find(Machine.AUTHORIZATION)
    (item, *_) = stack.load("distillation-work-item")
    erased(stack, stack.load("observation")[0].id)
    again = stack.load("observation")[0].id
    bad: list[tuple[Any, type[VrmError]]] = [
        (request("f" * 64), NotFoundError),
        (request("observation:" + "f" * 12), NotFoundError),
        (request("observation:"), AmbiguousIdError),
        (request(item.id), InvalidInputError),
        (request("no id at all!"), InvalidInputError),
        (request(item.campaign_profile_digest), InvalidInputError),
        (request(parse_canonical(authorization.body)["proposal_digest"]), InvalidInputError),
        (request(again, incident="incident-8"), StaleError),
        (request(again, reason=ErasureReason.LEGAL_ORDER), IdentityConflictError),
        (request(learned.rule.id, incident="not a name"), InvalidRecordError),
        (request(learned.rule.id, namespace="elsewhere"), NotFoundError),
    ]
    before = stack.state()
    for asked, error in bad:
        with pytest.raises(error):
            stack.officer.begin(asked)
    assert stack.state() == before


@BOTH
def test_a_rule_that_the_policy_cannot_retract_is_not_erased(learned: Incident) -> None:
    """Superseded by a later one of its variant: the diagram has no arrow from there (spec 10)."""
    stack, rule = learned.stack, learned.rule
    more = {f"{stack.namespace}-{root}": 0.05 for root in "efgh"}
    base, scaled = (CATALOG.config_digest(CATALOG.baseline | {"scaler": value}) for value in ("none", "standard"))
    own: dict[str, Any] = {"catalog_digest": CATALOG.digest, "baseline_config_digest": base, "configs": (base, scaled)}
    assert not stack.study("more", effects(stack, "more", more, **own))
    (head,) = stack.stores.ledger.variant_heads(stack.namespace).values()
    assert head.memory_id != rule.id
    before = stack.state()
    with pytest.raises(IllegalTransitionError):
        stack.officer.begin(request(rule.id))
    assert stack.state() == before
    erased(stack, head.memory_id)


@BOTH
def test_erased_bytes_do_not_come_back(learned: Incident, tmp_path: Path) -> None:
    stack, artifacts = learned.stack, learned.stack.stores.artifacts
    digest, _ = target_of(stack, TargetKind.ARTIFACT)
    data = artifacts.read(digest)
    assert digest_bytes(data) == digest
    erased(stack, digest)
    with pytest.raises(ErasedError):
        artifacts.read(digest)
    for _ in range(2):
        with pytest.raises(ErasedError):
            artifacts.publish_many([b"innocent", data])
        assert not artifacts.holds(digest)
    stores = stack.stores
    for each in artifacts.ages():
        os.utime(Path(artifacts.location(each.name)), (0, 0))
    garbage = collect(stores.ledger, stores.runtime, artifacts, published_before=1_000_000.0, remove=True)
    assert digest not in {each.name for each in garbage.found}
    assert ArtifactStore(str(tmp_path)).erased(digest), "the mark is no garbage"
    stack.complete(learned.run_id)
    assert checked(stack).clean


@BOTH
def test_an_erasure_ends_in_a_run_that_was_cancelled_and_then_the_run_does(stack: Stack) -> None:
    intent = stack.officer.begin(request(evidence(stack, "c").id))
    subject = expect(Subject, stack.stores.runtime.subject(Machine.ERASURE, str(intent.id)))
    commands(stack).fail_run(subject.run_id, ControlCause.INFRASTRUCTURE)
    with pytest.raises(StaleError):
        closure(stack).close(subject.run_id)
    stack.officer.finish(intent)
    assert closure(stack).close(subject.run_id) is Phase.FAILED
    assert checked(stack).clean


def carried(stack: Stack, target: object) -> int:
    """Carry an erasure from its beginning to its end under faults, and return how many calls that took."""
    faults = Faults()
    erased(Stack(stack.stores, stack.namespace, faults, CLOCK), target)
    return len(faults.calls)


def ended_once(stack: Stack, target: str) -> None:
    """There is one intent and one tombstone, the bytes are gone, nothing is unresolved, both stores are whole."""
    (intent,) = (each for each in stack.load("retention-erasure-intent") if each.target_id == target)
    tombstones = [each for each in stack.load("memory-retention-tombstone") if each.intent_id == intent.id]
    assert len(tombstones) == 1
    assert intent.erased_bytes
    assert not any(stack.stores.artifacts.holds(digest) for digest in intent.erased_bytes)
    assert unfinished(stack.stores.runtime) == []
    report = checked(stack)
    assert (report.violations, report.notes) == ((), ())
    assert not stack.granted()


@pytest.mark.slow
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@BOTH
def test_an_erasure_survives_a_crash_at_every_call(
    ledger: LedgerStore, runtime: RuntimeStore, tmp_path: Path, after: bool
) -> None:
    """Whoever comes after it recovers, and where it had not begun, begins it."""
    stores = Stores(ledger, runtime, ArtifactStore(str(tmp_path)))
    stack = Stack(stores, fresh_namespace())
    calls = carried(stack, evidence(stack, "private").id)
    assert calls > 15
    for at in range(1, calls + 1):
        stack, faults = Stack(stores, fresh_namespace()), Faults(at, after)
        target = str(evidence(stack, "private").id)
        with pytest.raises(Crash):
            erased(Stack(stores, stack.namespace, faults, CLOCK), target)
        successor = Stack(stores, stack.namespace, clock=CLOCK)
        swept = successor.recovery.sweep()
        assert not [each for sweep in swept for each in sweep.waiting], faults.calls[-1]
        erased(successor, target)
        ended_once(successor, target)


@pytest.mark.slow
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_the_erasure_of_a_rule_survives_a_crash_at_every_call(tmp_path: Path, after: bool) -> None:
    """In memory: the retraction, the index and the proofs of both."""

    def scene(name: str) -> Stack:
        stack = Stack(Stores(MemoryLedger(), MemoryRuntime(), ArtifactStore(str(tmp_path / name))), "space")
        learn(stack, GOOD)
        return stack

    reference = scene("reference")
    calls = carried(reference, reference.load("memory-record")[0].id)
    for at in range(1, calls + 1):
        stack = scene(f"cut-{at}")
        target = str(stack.load("memory-record")[0].id)
        with pytest.raises(Crash):
            erased(Stack(stack.stores, "space", Faults(at, after), CLOCK), target)
        successor = Stack(stack.stores, "space", clock=CLOCK)
        successor.recovery.sweep()
        erased(successor, target)
        ended_once(successor, target)
        assert len(successor.load("knowledge-lifecycle-event")) == 2


def test_two_officers_at_once_make_one_erasure(tmp_path: Path) -> None:
    """Whatever the call at which the second one comes and does all of it."""
    stores = Stores(MemoryLedger(), MemoryRuntime(), ArtifactStore(str(tmp_path)))

    def raced(place: int) -> int:
        namespace, faults = fresh_namespace(), Interrupted()
        target = str(evidence(Stack(stores, namespace), "private").id)
        racing = Stack(stores, namespace, faults, CLOCK)
        faults.at, faults.other = place, lambda: erased(racing, target)
        erased(racing, target)
        ended_once(Stack(stores, namespace), target)
        return len(faults.calls)

    for place in range(1, raced(0) + 1):
        raced(place)
