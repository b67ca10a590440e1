"""The facts of a round: every figure is known from how the world was written, none from the code under test."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from store.ledger.memory import MemoryLedger
from tests.data.tables import TASKS
from tests.data.world import World, active_rules
from tests.unit.facts_world import FIRST, ROUND, SECOND, filled_world
from vrm.mainjob.facts import RoundFacts, facts_of
from vrm.mainjob.facts.shapes import ArmFacts, TrialFacts
from vrm.mainjob.plan import Round


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return filled_world(tmp_path_factory.mktemp("world"))


@pytest.fixture(scope="module")
def facts(world: World) -> RoundFacts:
    return _read(world)


def _read(world: World) -> RoundFacts:
    with world.ledger.reading() as reader:
        return facts_of(reader, ROUND, seconds={"a step": 1.5}, versions={"python": "3.11"})


def _trial(facts: RoundFacts, task: str) -> TrialFacts:
    return next(trial for trial in facts.held_out.trials if trial.task == task)


def _arms(facts: RoundFacts, task: str) -> tuple[ArmFacts, ArmFacts]:
    trial = _trial(facts, task)
    return trial.control, trial.memory


def test_a_rule_has_one_effect_per_root_and_their_mean(facts: RoundFacts, world: World) -> None:
    (rule,) = facts.rules
    assert rule.memory_id == str(active_rules(world)[0].id)
    # write_table adds 0.1 and a thousandth per place to the score of each of six tasks, in both seeds.
    assert [root.root for root in rule.effect.by_root] == [f"root-{task}" for task in TASKS]
    assert [root.effect for root in rule.effect.by_root] == pytest.approx([0.1 + n / 1000 for n in range(6)])
    assert rule.effect.mean == pytest.approx(0.1025)
    assert (rule.disposition, rule.is_head, rule.action) == ("active", True, "recommend")
    assert (rule.effect.roots, rule.effect.pairs) == (6, 12)
    assert (rule.effect.improved, rule.effect.worsened, rule.effect.tied) == (6, 0, 0)
    assert rule.effect.tested_in_family == 1
    assert [(each.name, each.count, each.of) for each in rule.verifications] == [("published_record", 12, 12)]
    assert (rule.change.knob, rule.change.from_value, rule.change.to_value) == ("step", "0.1", "0.2")
    assert facts.refused == ()


def test_intervals_of_a_rule_are_those_of_the_textbook(facts: RoundFacts) -> None:
    effect = facts.rules[0].effect
    assert effect.mean_interval is not None
    assert effect.prediction_interval is not None
    # s of 0, 1, ..., 5 is sqrt(3.5); t(0.975, 5) = 2.5706 from any table.
    half = 2.5706 * 3.5**0.5 / 1000
    assert effect.mean_interval.high - effect.mean == pytest.approx(half / 6**0.5, rel=1e-4)
    assert effect.prediction_interval.high - effect.mean == pytest.approx(half * (7 / 6) ** 0.5, rel=1e-4)


def test_evidence_is_counted_stage_by_stage_with_denominators(facts: RoundFacts) -> None:
    evidence = facts.evidence
    # 24 rows of the table; 3 + 3 + 2 + 1 held-out results, of which two are invalid; those have no receipt.
    assert (evidence.experiences, evidence.waiting) == (33, 9)
    assert {(each.name, each.count, each.of) for each in evidence.by_corpus} == {
        ("development", 24, 33),
        ("evaluation", 9, 33),
    }
    assert {(each.name, each.count) for each in evidence.by_verification} == {
        ("published_record", 24),
        ("recomputed", 9),
    }
    assert {(each.name, each.count) for each in evidence.by_validity} == {("valid", 31), ("not_valid", 2)}
    assert [(each.name, each.count, each.of) for each in evidence.by_violation] == [("predictions_missing", 2, 33)]
    assert [(each.name, each.count, each.of) for each in evidence.by_receipt] == [("queued_for_comparison", 24, 24)]
    assert [(each.name, each.count, each.of) for each in evidence.by_outcome] == [("covered_by_decision", 24, 24)]
    assert (evidence.items, evidence.open_items) == (24, 0)


def test_what_chose_better_is_in_effect(facts: RoundFacts) -> None:
    control, memory = _arms(facts, FIRST)
    assert control.path == (0.6, 0.7, 0.7)
    assert memory.path == (0.6, 0.8, 0.75)
    assert [each.kept for each in control.decisions] == [True, False]
    assert [each.kept for each in memory.decisions] == [True, True]
    second = control.decisions[1]
    assert (second.test_before, second.tried_test, second.test_after) == (0.7, 0.9, 0.7)
    assert (second.steering_before, second.tried_steering, second.steering_after) == (0.6, 0.55, 0.6)
    assert (control.final, control.mean_over_decisions) == pytest.approx((0.7, 0.7))
    assert (memory.final, memory.mean_over_decisions) == pytest.approx((0.75, 0.775))


def test_failures_and_what_was_not_taken_stay_in_the_account(facts: RoundFacts) -> None:
    control, memory = _arms(facts, SECOND)
    assert (control.final, control.mean_over_decisions, control.path) == (None, None, (None, None, None))
    assert control.decisions[0].violations == ("predictions_missing",)
    assert control.decisions[0].attempt_status == "invalid"
    assert control.decisions[1].decision_status == "no_op"
    assert control.decisions[1].terminal_reason == "NO_APPLICABLE_ACTION"
    assert (memory.path, memory.final, memory.mean_over_decisions) == ((0.4, 0.4), 0.4, 0.4)
    assert (facts.held_out.planned, facts.held_out.with_outcome) == (8, 7)


def test_cards_and_their_fate(facts: RoundFacts, world: World) -> None:
    _, memory = _arms(facts, FIRST)
    (adopted,), (ignored,) = (each.cards for each in memory.decisions)
    assert (adopted.verdict, adopted.reason) == ("adopted", "adopted_applicable")
    assert (ignored.verdict, ignored.reason) == ("not_considered", "not_considered_budget")
    assert adopted.memory_id == str(active_rules(world)[0].id)
    assert [(each.name, each.count, each.of) for each in facts.held_out.by_card] == [
        ("adopted: adopted_applicable", 1, 2),
        ("not_considered: not_considered_budget", 1, 2),
    ]
    assert {(each.name, each.count, each.of) for each in facts.held_out.by_source} == {
        ("ok: ok_cards_returned", 2, 3),
        ("empty: empty_no_eligible_evidence", 1, 3),
    }
    assert memory.decisions[0].change is not None
    assert memory.decisions[0].change.from_value == '"none"'
    assert memory.decisions[0].source_status == "ok"
    assert _arms(facts, FIRST)[0].decisions[0].source_status == "not_requested"


def test_comparisons_by_intention_to_treat(facts: RoundFacts) -> None:
    found = {(item.tasks, item.outcome): item for item in facts.held_out.comparisons}
    assert (_trial(facts, FIRST).rule_in_scope, _trial(facts, SECOND).rule_in_scope) == (True, False)
    final = found["all", "final"].effect
    assert final is not None
    assert final == facts.primary
    assert {task.task: task.delta for task in final.tasks} == {FIRST: pytest.approx(0.05), SECOND: pytest.approx(0.4)}
    assert final.mean_delta == pytest.approx(0.225)
    assert (final.failed_control, final.failed_memory, final.interval) == (1, 0, None)
    on_the_way = found["all", "mean_over_decisions"].effect
    assert on_the_way is not None
    assert on_the_way.mean_delta == pytest.approx((0.075 + 0.4) / 2)
    only = found["rule_in_scope", "final"].effect
    assert only is not None
    assert [task.task for task in only.tasks] == [FIRST]
    assert {item.tasks for item in facts.held_out.comparisons if item.exploratory} == {
        "rule_in_scope",
        "no_rule_in_scope",
    }


def test_journal_is_told_as_it_stands(facts: RoundFacts, world: World) -> None:
    rows = world.ledger.journal(world.namespace, 0, 10_000)
    assert facts.journal.position == len(rows) == sum(each.count for each in facts.journal.records)
    assert facts.journal.chain_digest == rows[-1].chain_digest
    assert {each.of for each in facts.journal.records} == {len(rows)}
    assert {policy.policy_id for policy in facts.policies} >= {"distillation", "lifecycle", "planner"}
    (used,) = facts.recall_inputs
    assert (used.rules, used.tokenizer) == (1, "cl100k_base")


def test_facts_survive_json_and_are_the_same_when_read_again(facts: RoundFacts, world: World) -> None:
    text = facts.model_dump_json()
    assert RoundFacts.model_validate_json(text) == facts
    again = _read(world).model_dump_json()
    assert hashlib.sha256(again.encode()).digest() == hashlib.sha256(text.encode()).digest()


def test_a_round_that_has_not_begun_has_facts_too() -> None:
    round_ = Round(namespace="nothing", number=0, size=ROUND.size)
    with MemoryLedger().reading() as reader:
        facts = facts_of(reader, round_, seconds={}, versions={})
    assert (facts.rules, facts.journal.position, facts.held_out.with_outcome) == ((), 0, 0)
    assert facts.primary is not None
    assert (facts.primary.n_tasks, facts.primary.failed_control, facts.primary.mean_delta) == (2, 2, 0)


def test_reading_leaves_the_ledger_as_it_was(world: World, tmp_path: Path) -> None:
    before = world.ledger.namespace_head(world.namespace)
    _read(world)
    assert world.ledger.namespace_head(world.namespace) == before
    assert not list(tmp_path.iterdir())
