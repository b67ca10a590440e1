"""Cards that say something else than the records they name: refused in the transaction, found in the store."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from memory.fsck import Code, fsck
from memory.guards import GUARDS
from records.appends import Append, StoredRecord
from records.decisions import DecisionIntent, RecallContext, citation_id
from records.flows import Authority, Transition
from records.ids import FamilyId, IntentId, RunId
from records.values import ActionKind, Grade
from store.ledger.port import Request
from tests.unit.recall_support import SPACE, effect, intent, rule, strength
from tests.unit.recall_world import World, answer, context
from tests.unit.test_recall_lanes import RUN, captured, composed, design, episode, procedure


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def retold(made: RecallContext, intent_id: str, changes: dict[str, Any]) -> RecallContext:
    """Return a context for an intent whose one card says something else, with the ids that follow from it."""
    (item,) = made.items
    card = item.card.model_copy(update=changes)
    cited = citation_id(IntentId(intent_id), made.recall_input_id, card.card_id, 1)
    moved = item.model_copy(update={"card": card, "card_id": card.card_id, "citation_id": cited})
    return made.model_copy(update={"intent_id": IntentId(intent_id), "items": (moved,)})


def appended(made: RecallContext) -> Append:
    return Append(namespace=SPACE, transition=Transition.APPEND_CONTEXT, authority=Authority.NORMAL,
                  permit_key="authorization:" + "1" * 64, permit_digest="0" * 64, records=(made,))  # fmt: skip


def refused(world: World, made: RecallContext) -> str:
    """Return why the transaction would refuse a context; empty where it would not."""
    with world.ledger.reading() as reader:
        refusal = GUARDS[Transition.APPEND_CONTEXT](reader, appended(made))
    return "" if refusal is None else refusal.detail


def found_after(world: World, made: RecallContext) -> dict[str, str]:
    """Write a context past the guards, and return what a check of the store says of it."""
    world.ledger.commit(world.epoch, [Request(appended(made))])
    with world.ledger.reading() as reader:
        report = fsck(reader, None, world.artifacts)
    return {each.code: each.met for each in report.violations if each.record == made.id}


def otherwise(world: World, forged: RecallContext) -> None:
    """Check that a card with other words is refused in the transaction, and named by the check once it is stored."""
    assert "something else" in refused(world, forged)
    assert "card 1: it " in found_after(world, forged)[Code.CARD_SOURCE]


def test_members_of_a_snapshot_are_read_once_a_process(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred thousand members took most of a request's time when every context read them anew."""
    world.experience(episode(2, ("C", 1, 10)))
    made = context(answer(world, composed(world, captured(world)), decision=world.admit(intent(run_id=RUN))))
    asked: list[str] = []
    with world.ledger.reading() as reader:
        get_many = reader.get_many

        def counted(record_ids: Iterable[str]) -> dict[str, StoredRecord]:
            wanted = list(record_ids)
            asked.extend(each for each in wanted if each.startswith("knowledge-snapshot:"))
            return get_many(wanted)

        monkeypatch.setattr(reader, "get_many", counted)
        for _ in range(3):
            assert GUARDS[Transition.APPEND_CONTEXT](reader, appended(made)) is None
    assert len(asked) <= 1


@pytest.mark.parametrize("rewritten", [{"arm": "control"}, {"pair": "pair-2"}, {"run_id": RunId.derive({"x": 1})}])
def test_vrm_l04_an_episode_cannot_be_made_ones_own_by_saying_so(world: World, rewritten: dict[str, Any]) -> None:
    """The card says Run, arm and pair of the decision; the snapshot that it is from says whose it is (VRM-O03)."""
    world.experience(episode(2, ("C", 1, 10)))
    made = context(answer(world, composed(world, captured(world)), decision=world.admit(intent(run_id=RUN))))
    other: DecisionIntent = world.admit(intent(1, **({"run_id": RUN} | rewritten)))
    stolen = retold(made, other.id, rewritten)
    assert "own Run" in refused(world, stolen)
    assert Code.CARD_SOURCE in found_after(world, stolen)


@pytest.mark.parametrize(
    "forged",
    [
        {"effect": effect(0.9)},
        {"claim": "C of 10 always helps."},
        {"action": ActionKind.AVOID},
        {"strength": strength(Grade.STRONG, 99, 0)},
        {"family_id": FamilyId.derive({"x": 1})},
        {"as_of_position": 10_000},
    ],
)
def test_vrm_r06_a_rules_card_says_what_its_record_says(world: World, forged: dict[str, Any]) -> None:
    world.learn(rule())
    made = context(answer(world, composed(world), decision=world.admit(intent(run_id=RUN))))
    assert refused(world, made) == ""
    otherwise(world, retold(made, made.intent_id, forged))


@pytest.mark.parametrize("forged", [{"steps": ()}, {"mechanism": "other"}, {"strength": strength(Grade.STRONG, 99, 0)}])
def test_vrm_r06_a_procedures_card_says_what_its_record_says(world: World, forged: dict[str, Any]) -> None:
    procedure(world)
    made = context(design(world, composed(world)))
    assert refused(world, made) == ""
    otherwise(world, retold(made, made.intent_id, forged))


@pytest.mark.parametrize(
    "forged", [{"hypothesis": "It is so."}, {"value": "0.999"}, {"signature": "x/y"}, {"change": None}]
)
def test_vrm_r06_an_episodes_card_says_what_its_bundle_says(world: World, forged: dict[str, Any]) -> None:
    world.experience(episode(2, ("C", 1, 10)))
    made = context(answer(world, composed(world, captured(world)), decision=world.admit(intent(run_id=RUN))))
    assert refused(world, made) == ""
    otherwise(world, retold(made, made.intent_id, forged))


def test_a_context_as_it_was_made_is_sound(world: World) -> None:
    """The check makes every kind of card again and finds each as it stands."""
    procedure(world)
    world.learn(rule())
    world.experience(episode(2, ("C", 1, 10)))
    made = context(design(world, composed(world, captured(world))))
    assert {item.card.source_kind for item in made.items} == {"semantic", "procedure", "episodic"}
    assert found_after(world, made) == {}
