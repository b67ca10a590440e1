"""What holds each Experience back, on evidence that was ingested, captured and distilled as in a round."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memory.evidence import Trial, bundle_records
from memory.standing import Standing, State, standings
from memory.work_closure import closure_completion
from policies.completion import Hold
from policies.distillation_policy import CandidateReason
from records.appends import AppendReceipt
from records.base import Record
from records.control import ControlCause, ControlEvent, ControlKind
from records.evidence import Corpus, Experience, VerificationKind
from records.flows import Authority, Transition
from records.ids import EventId
from records.ingestion import WorkAssignment, WorkCompletion
from records.knowledge import DecisionKind, EventType, LifecycleEvent
from records.retention import OtherErasureIntent
from records.values import Disposition
from store.ledger.port import no_guard
from tests.data.distilled import Distilled
from tests.support.samples import Common
from tests.support.stores import Writer, expect, granted
from tests.support.trials import NOW, digest, make_contract, make_task, make_trial
from tests.support.variant_samples import make_evidence_intent

NAMESPACE = "distilled"
BASELINE = digest("config None")
WRITTEN_BY = {
    WorkCompletion: (Transition.CLOSE_WORK_ITEM, Authority.RUNTIME_CLOSURE),
    LifecycleEvent: (Transition.COMMIT_DISTILLATION, Authority.NORMAL),
    OtherErasureIntent: (Transition.BEGIN_ERASURE, Authority.RETENTION),
}


@pytest.fixture
def world(tmp_path: Path) -> Distilled:
    """A world without evidence."""
    return Distilled(tmp_path)


def trial(world: Distilled, root: str, value: float, *, seed: int = 0, **changes: Any) -> Trial:
    """Return a changed trial on a root of its own."""
    fields: dict[str, Any] = {
        "task": make_task(root),
        "seed": seed,
        "verified": {"balanced_accuracy": value},
        "run_id": world.run_id,
    }
    return make_trial(NAMESPACE, **(fields | changes))


def base(world: Distilled, root: str, *, seed: int = 0, **changes: Any) -> Trial:
    """Return a baseline trial at 0.5."""
    return trial(world, root, 0.5, seed=seed, **({"change": None} | changes))


def pairs(world: Distilled, deltas: dict[str, float], seed: int = 0) -> Iterator[Trial]:
    """Yield baseline and changed trial of each root."""
    for root, delta in deltas.items():
        yield base(world, root, seed=seed)
        yield trial(world, root, round(0.5 + delta, 9), seed=seed)


def asked(world: Distilled, *ids: str) -> list[Standing]:
    """Return the standings of Experiences, of all without ids, from a reader of one moment."""
    stores = world.world
    with stores.ledger.reading() as reader:
        loaded = [item.load() for item in reader.find("experience", NAMESPACE)]
        wanted = [each for each in loaded if isinstance(each, Experience) and (not ids or each.id in ids)]
        return standings(reader, stores.artifacts, wanted)


def test_nothing_is_asked_and_nothing_is_answered(world: Distilled) -> None:
    with world.world.ledger.reading() as reader:
        assert standings(reader, world.world.artifacts, []) == []


def test_from_the_import_to_an_active_rule(world: Distilled) -> None:
    world.append(pairs(world, {"a": 0.05, "b": 0.07, "c": 0.03, "d": 0.05}))
    assert {(each.state, each.codes) for each in asked(world)} == {(State.WAITING, (Hold.WITHOUT_RECEIPT,))}
    world.ingest()
    assert {(each.state, each.codes) for each in asked(world)} == {(State.WAITING, (Hold.WAITING_FOR_CAMPAIGN,))}
    world.distil()
    told = asked(world)
    assert {(each.state, each.codes, each.remedies) for each in told} == {(State.ACTIVE, (), ())}
    (rules,) = {each.rules for each in told}
    (head,) = world.world.ledger.variant_heads(NAMESPACE).values()
    assert rules == (head.memory_id,)


def test_an_item_that_has_a_campaign_waits_for_it(world: Distilled) -> None:
    world.append(pairs(world, {"a": 0.05}))
    world.ingest()
    assert not world.campaigns.project(lambda _: None)
    assert {each.codes for each in asked(world)} == {(Hold.WAITING_FOR_DISTILLATION,)}


def test_one_root_needs_two_more(world: Distilled) -> None:
    world.append(pairs(world, {"a": 0.05}))
    world.ingest()
    world.distil()
    for each in asked(world):
        assert each.state is State.DEFERRED
        assert each.codes[0] == CandidateReason.INSUFFICIENT_INDEPENDENT_SUPPORT
        assert each.remedies[0] == "1 of 3 dataset roots; needs 2 more dataset roots of the same task scope."
        assert each.decision is not None
        assert each.decision.decision is DecisionKind.DEFERRED


def test_two_roots_of_one_sign_are_provisional_and_say_what_an_active_rule_needs(world: Distilled) -> None:
    world.append(pairs(world, {"a": 0.05, "b": 0.04}))
    world.ingest()
    world.distil()
    for each in asked(world):
        assert each.state is State.PROVISIONAL
        assert each.remedies[0] == "2 of 3 dataset roots; needs 1 more dataset root of the same task scope."
        assert len(each.rules) == 1


def test_evidence_that_came_later_is_told_from_what_was_decided(world: Distilled) -> None:
    """The same variant, decided again: the Experiences of the first decision stand where the second one put them."""
    first = world.append(pairs(world, {"a": 0.05}))
    world.ingest()
    world.distil()
    assert {each.state for each in asked(world, *first)} == {State.DEFERRED}
    world.append(pairs(world, {"b": 0.07, "c": 0.03, "d": 0.05}))
    world.ingest()
    world.distil()
    assert {each.state for each in asked(world, *first)} == {State.ACTIVE}


def test_a_run_without_a_baseline_is_told_its_seed(world: Distilled) -> None:
    (alone,) = world.append([trial(world, "a", 0.6, seed=7)])
    world.append([base(world, "b")])
    world.ingest()
    world.distil()
    (told,) = asked(world, alone)
    assert (told.state, told.codes) == (State.NO_CANDIDATE, (CandidateReason.NON_COMPARABLE_EVIDENCE,))
    assert "No baseline with seed 7 in its stratum" in told.remedies[0]


def test_a_change_that_changed_nothing_asks_for_another_knob(world: Distilled) -> None:
    (inert,) = world.append([trial(world, "a", 0.6, config_digest=BASELINE)])
    world.append([base(world, "a")])
    world.ingest()
    world.distil()
    (told,) = asked(world, inert)
    assert (told.state, told.codes) == (State.NO_CANDIDATE, (CandidateReason.GENERIC_OR_NON_ACTIONABLE,))
    assert told.remedies == (
        "The change left the configuration as it was: no evidence can make a rule of it. Vary another knob.",
    )


def test_what_was_not_queued_says_why(world: Distilled) -> None:
    contract = make_contract(NAMESPACE, verification_kind=VerificationKind.ATTESTED)
    (attested,) = world.append([trial(world, "a", 0.6, contract=contract)])
    (held_out,) = world.append([trial(world, "b", 0.6, corpus=Corpus.EVALUATION)])
    (invalid,) = world.append([trial(world, "c", 0.6, verified={}, violations=("predictions_missing",))])
    (bare,) = world.append_records([_without(world, "verification_id")])
    (loose,) = world.append_records([_without(world, "provenance_id", seed=1)])
    world.ingest()
    told = {str(each.experience.id): each for each in asked(world)}
    assert {each.state for each in told.values()} == {State.NOT_QUEUED}
    assert told[attested].codes == (Hold.ATTESTED,)
    assert "recomputed or published_record" in told[attested].remedies[0]
    assert told[held_out].codes == (Hold.EVALUATION_CORPUS,)
    assert told[invalid].codes == (Hold.INVALID_VERIFICATION,)
    assert told[invalid].remedies[0].startswith("Met: predictions_missing. ")
    assert told[bare].codes == (CandidateReason.MISSING_VERIFICATION,)
    assert told[loose].codes == (CandidateReason.MISSING_TRIAL_PROVENANCE,)
    assert (
        told[loose].remedies[0].startswith("Met: the experience names no trial provenance. It needs a Trial Provenance")
    )


def test_what_was_given_up_says_what_ended_it(world: Distilled) -> None:
    dead, cancelled = world.append(pairs(world, {"a": 0.05}))
    world.ingest()
    assert not world.campaigns.project(lambda _: None)
    end(world, dead, ControlKind.RUNTIME_FAILURE, ControlCause.WORK_REJECTED, "the proposal was refused for good")
    end(world, cancelled, ControlKind.CANCEL_EVENT, ControlCause.COMMAND, "")
    (told,) = asked(world, dead)
    assert (told.state, told.codes) == (State.GIVEN_UP, (Hold.DEAD_LETTER,))
    assert told.remedies[0].startswith("Met: WORK_REJECTED; the proposal was refused for good. ")
    (told,) = asked(world, cancelled)
    assert (told.state, told.codes) == (State.GIVEN_UP, (Hold.CANCELLED,))
    assert told.remedies[0].startswith("Met: COMMAND. ")


def test_what_stood_behind_a_rule_that_has_ended_says_how_it_ended(world: Distilled) -> None:
    world.append(pairs(world, {"a": 0.05, "b": 0.07, "c": 0.03, "d": 0.05}))
    world.ingest()
    world.distil()
    (stored,) = world.world.ledger.find("knowledge-lifecycle-event", NAMESPACE)
    started = expect(LifecycleEvent, stored.load())
    changes: dict[str, Any] = {
        "event_type": EventType.RETRACTED,
        "disposition": Disposition.RETRACTED,
        "reasons": ("provenance_lost",),
    }
    written(world, LifecycleEvent(**(dict_of(started) | changes | {"expected_prior": EventId(stored.id)})))
    for each in asked(world):
        assert (each.state, each.codes) == (State.ENDED, (Hold.RULE_ENDED,))
        assert each.remedies[0].startswith("Met: retracted: provenance_lost. ")


def test_what_is_erased_is_completed_by_nothing(world: Distilled) -> None:
    first, second = world.append(pairs(world, {"a": 0.05}))
    (observation, _) = world.world.ledger.find("observation", NAMESPACE)
    written(world, make_evidence_intent(Common(NAMESPACE), observation.load()))
    states = {str(each.experience.id): each.state for each in asked(world)}
    assert sorted(states.values()) == [State.ERASED, State.WAITING]
    (told,) = (each for each in asked(world) if each.state is State.ERASED)
    assert told.experience.observation_id == observation.id
    assert told.codes == (Hold.RETENTION_REVOKED,)
    assert {first, second} == states.keys()


def end(world: Distilled, experience: str, kind: ControlKind, cause: ControlCause, words: str) -> None:
    """End the item of an Experience as closure does."""
    ledger = world.world.ledger
    (item,) = ledger.find("distillation-work-item", NAMESPACE, experience_id=experience)
    (stored,) = ledger.find("distillation-work-assignment", NAMESPACE, work_item_id=item.id)
    assignment = expect(WorkAssignment, stored.load())
    event = ControlEvent(namespace=NAMESPACE, run_id=assignment.run_id, kind=kind, cause=cause, detail=words, at=NOW)
    world.world.artifacts.publish(event.canonical)
    written(world, closure_completion(assignment, event))


def written(world: Distilled, record: Record) -> None:
    """Append one record without asking its guard."""
    ledger = world.world.ledger
    writer = Writer(ledger, NAMESPACE, ledger.claim("test", "test"))
    transition, authority = WRITTEN_BY[type(record)]
    (answer,) = writer.commit(granted(transition, (record,), str(record.id), authority), guard=no_guard)
    assert isinstance(answer, AppendReceipt), answer


def dict_of(record: Record) -> dict[str, Any]:
    """Return the fields of a record."""
    return {name: getattr(record, name) for name in type(record).model_fields}


def _without(world: Distilled, field: str, seed: int = 0) -> tuple[Record, ...]:
    """Return evidence whose Experience leaves out one of its parts."""
    *parts, experience = bundle_records(trial(world, "d", 0.6, seed=seed))
    return (*parts, type(experience)(**(dict_of(experience) | {field: None})))
