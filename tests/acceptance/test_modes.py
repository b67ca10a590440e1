"""Every mode as a user runs it, at the small size, one after the other in one home; then what the Ledger holds of it.

The order is that of a rollout with a way back: first nothing, then evidence alone, the shadow, memory, frozen memory,
the earlier design, and evidence alone again (specification 18).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from policies.retrieval_policy import confirmatory_policy, retrieval_policy
from records.base import Record
from records.decisions import ContextStatus, DecisionIntent, RecallContext
from records.envelopes import PlannerEnvelope
from records.evidence import Attempt
from records.governance import ArmManifest, FrozenMemoryProfile, MemoryProfile, Mode, read_profile
from records.legacy_recall import LegacyRecall
from records.outcomes import CardReason, CardVerdict, DecisionStatus, RecallOutcome, SourceStatus, TerminalReason
from records.snapshots import RecallInput
from records.values import RecallRequirement
from tests.acceptance.conftest import Product
from tests.support.model_server import completion, model_server
from vrm.bootstrap import Stores, stores
from vrm.home import Home
from vrm.mainjob.plan import SMALL, held_out_tasks

TASKS = len(held_out_tasks(SMALL))
DECISIONS = TASKS * SMALL.decisions
FITS = TASKS * (1 + SMALL.decisions)
NS = "modes"
MEMORY_KINDS = ("memory-record", "knowledge-lifecycle-event", "knowledge-candidate", "distillation-decision",
                "distillation-work-item", "knowledge-snapshot", "memory-index-build", "recall-input-snapshot",
                "evidence-snapshot")  # fmt: skip


@dataclass(frozen=True)
class Ran:
    """What one command printed, and how many records of each kind its namespace had before and after it."""

    told: dict[str, Any]
    before: Counter[str]
    after: Counter[str]

    @property
    def new(self) -> Counter[str]:
        """What it added."""
        return self.after - self.before


@dataclass(frozen=True)
class Rollout:
    """The home with everything that was run in it."""

    product: Product
    stores: Stores
    ran: dict[str, Ran]

    def found(self, model: type[Record], mode: str) -> list[Any]:
        """Return the records of a kind that the Runs of a mode have."""
        runs = self.runs(mode)
        every: list[Any] = [each.load() for each in self.stores.ledger.find(model.kind.noun, NS)]
        return [each for each in every if each.run_id in runs]

    def runs(self, mode: str) -> set[str]:
        """Return the Runs whose intents have a profile of a mode."""
        return {
            str(each.run_id)
            for stored in self.stores.ledger.find("decision-intent", NS)
            if isinstance(each := stored.load(), DecisionIntent) and self.profile(each).mode == mode
        }

    def profile(self, intent: DecisionIntent) -> MemoryProfile:
        """Return the profile that an intent is bound to, as it was published."""
        digest = intent.governance.profile_digest
        return read_profile(self.stores.artifacts.read(digest), digest)

    def envelopes(self, mode: str) -> list[PlannerEnvelope]:
        """Return what the actors of a mode answered, as it was published before anything was executed."""
        outcomes = [each for each in self.found(RecallOutcome, mode) if each.executed_actor is not None]
        return [
            PlannerEnvelope.load(self.stores.artifacts.read(each.executed_actor.response_digest)) for each in outcomes
        ]


def _counted(opened: Stores) -> Counter[str]:
    head = opened.ledger.namespace_head(NS).position
    return Counter(row.noun for row in opened.ledger.journal(NS, 0, head + 1))


@pytest.fixture(scope="module")
def rollout(product: Product) -> Iterator[Rollout]:
    """Run every mode once, in the order of a rollout."""
    product.call("up")
    with stores(Home(product.home)) as opened:
        ran: dict[str, Ran] = {}

        def call(name: str, *arguments: str) -> dict[str, Any]:
            before = _counted(opened)
            told: dict[str, Any] = product.json(*arguments, "--namespace", NS)
            ran[name] = Ran(told, before, _counted(opened))
            return told

        def run(name: str, *arguments: str) -> dict[str, Any]:
            return call(name, "run", "--size", "small", *arguments)

        run("off", "--mode", "off")
        run("record_only", "--mode", "record_only")
        run("memory_shadow", "--mode", "memory_shadow")
        memory = run("decision_memory", "--mode", "decision_memory")
        (queried,) = memory["facts"]["recall_inputs"]
        frozen = queried["recall_input_id"].partition(":")[2][:12]
        run("frozen_memory", "--mode", "frozen_memory", "--recall-input", frozen)
        composed = call("composed", "distil", "--for", "confirmatory")
        run("confirmatory", "--mode", "frozen_memory", "--recall-input", composed["recall_input"])
        run("legacy_recall", "--mode", "legacy_recall")
        run("back", "--mode", "record_only")
        yield Rollout(product, opened, ran)


def test_off_leaves_nothing_and_runs_the_same_explorer(rollout: Rollout) -> None:
    ran = rollout.ran["off"]
    assert not ran.after
    assert {each["arm"] for each in ran.told["trials"]} == {"control"}
    assert all(len(each["path"]) == 1 + SMALL.decisions for each in ran.told["trials"])


def test_record_only_records_and_neither_distils_nor_recalls(rollout: Rollout) -> None:
    for name in ("record_only", "back"):
        new = rollout.ran[name].new
        assert new["experience"] >= FITS
        assert new["distillation-receipt"] == new["experience"]
        assert (new["decision-intent"], new["recall-decision-outcome"]) == (DECISIONS, DECISIONS)
        assert new["decision-recall-context"] == 0
        assert not set(MEMORY_KINDS) & set(new), name
    assert {each.source_status for each in rollout.found(RecallOutcome, Mode.RECORD_ONLY)} == {
        SourceStatus.NOT_REQUESTED
    }
    receipts = [each.load() for each in rollout.stores.ledger.find("distillation-receipt", NS)]
    assert any(getattr(each, "reasons", ()) == ("distillation_off",) for each in receipts)


def test_a_shadow_is_computed_and_stored_and_shown_to_nobody(rollout: Rollout) -> None:
    new = rollout.ran["memory_shadow"].new
    assert new["memory-record"] > 0
    assert new["decision-recall-context"] == DECISIONS
    outcomes = rollout.found(RecallOutcome, Mode.MEMORY_SHADOW)
    acting = [each for each in outcomes if each.arm == "control"]
    shadow = [each for each in outcomes if each.arm == "shadow"]
    assert (len(acting), len(shadow)) == (DECISIONS, DECISIONS)
    assert {each.source_status for each in acting} == {SourceStatus.NOT_REQUESTED}
    assert any(each.source_status is SourceStatus.OK for each in shadow), "the shadow had cards that nobody saw"
    for each in shadow:
        assert each.decision_status is DecisionStatus.REJECTED
        assert (each.executed_actor, each.memory_binding_digest, each.effective_config_digest) == (None, None, None)
        assert {card.reason for card in each.dispositions} <= {CardReason.NOT_CONSIDERED_BUDGET}
    assert all(each.memory.binding == "none" and not each.steered for each in rollout.envelopes(Mode.MEMORY_SHADOW))
    attempts = [each for each in rollout.found(Attempt, Mode.MEMORY_SHADOW) if each.arm is not None]
    assert {(each.arm, each.recall_context_id) for each in attempts} == {("control", None)}


def test_a_shadow_is_asked_what_the_acting_arm_decides(rollout: Rollout) -> None:
    """The same situation, decision by decision: what the actor saw of it, and which actions were open."""
    by_arm: dict[str, dict[tuple[Any, int], tuple[str, str]]] = {"control": {}, "shadow": {}}
    for each in rollout.found(DecisionIntent, Mode.MEMORY_SHADOW):
        by_arm[each.arm][each.pair, each.iteration] = (each.research_context_digest, each.allowed_action_digest)
    assert by_arm["control"] == by_arm["shadow"]


def test_decision_memory_exposes_what_it_recalled(rollout: Rollout) -> None:
    new = rollout.ran["decision_memory"].new
    assert new["decision-recall-context"] == DECISIONS
    outcomes = [each for each in rollout.found(RecallOutcome, Mode.DECISION_MEMORY) if each.arm == "memory"]
    adopted = [card for each in outcomes for card in each.dispositions if card.verdict is CardVerdict.ADOPTED]
    assert adopted
    assert {each.memory.binding for each in rollout.envelopes(Mode.DECISION_MEMORY)} == {"none", "required"}
    assert all(each.legacy_recall is None for each in rollout.envelopes(Mode.DECISION_MEMORY))


def test_frozen_memory_queries_one_input_and_changes_no_memory(rollout: Rollout) -> None:
    """Each decision queries the input of its profile, under the policy that the input pins and the profile names."""
    profiles = {}
    for name in ("frozen_memory", "confirmatory"):
        new = rollout.ran[name].new
        assert not set(MEMORY_KINDS) & set(new)
        assert new["decision-recall-context"] == DECISIONS
        assert new["experience"] >= FITS
    for each in rollout.found(DecisionIntent, Mode.FROZEN_MEMORY):
        if each.arm == "memory":
            profiles[str(each.id)] = rollout.profile(each)
    assert len(profiles) == 2 * DECISIONS
    policies = set()
    for stored in rollout.stores.ledger.find("decision-recall-context", NS):
        made = stored.load()
        if not isinstance(made, RecallContext) or str(made.intent_id) not in profiles:
            continue
        profile = profiles.pop(str(made.intent_id))
        queried = rollout.stores.ledger.get(made.recall_input_id)
        record = None if queried is None else queried.load()
        assert isinstance(profile, FrozenMemoryProfile)
        assert isinstance(record, RecallInput)
        assert (profile.recall_input_id, profile.retrieval_policy) == (record.id, record.retrieval_policy)
        assert made.status is not ContextStatus.DEGRADED
        policies.add(record.retrieval_policy)
    assert not profiles
    assert policies == {retrieval_policy().identity, confirmatory_policy().identity}


def test_legacy_recall_gives_lessons_and_no_cards(rollout: Rollout) -> None:
    new = rollout.ran["legacy_recall"].new
    assert new["decision-recall-context"] == 0
    assert not set(MEMORY_KINDS) & set(new)
    given = rollout.envelopes(Mode.LEGACY_RECALL)
    assert len(given) == DECISIONS
    for each in given:
        assert each.memory.binding == "none"
        assert each.legacy_recall is not None
        lessons = LegacyRecall.load(rollout.stores.artifacts.read(each.legacy_recall))
        assert lessons.intent_id == each.intent_id
        assert len(lessons.items) <= 3
        assert lessons.token_count <= 1200
        assert not each.dispositions
    intents = rollout.found(DecisionIntent, Mode.LEGACY_RECALL)
    assert {each.governance.recall_requirement for each in intents} == {RecallRequirement.REGISTERED_NOT_REQUESTED}


def test_no_decision_of_any_mode_has_two_memories(rollout: Rollout) -> None:
    for stored in rollout.stores.ledger.find("decision-intent", NS):
        intent = stored.load()
        assert isinstance(intent, DecisionIntent)
        manifest = intent.governance.assignment_manifest_digest
        admitted = ArmManifest.read(rollout.stores.artifacts.read(manifest), manifest)
        assert admitted.binding(intent.arm) == intent.governance
        if intent.governance.recall_requirement is RecallRequirement.REQUIRED:
            assert rollout.profile(intent).mode is not Mode.LEGACY_RECALL
    for mode in Mode:
        for envelope in rollout.envelopes(mode):
            assert (envelope.legacy_recall is not None) == (mode is Mode.LEGACY_RECALL)


def test_going_back_deletes_nothing_and_the_store_is_sound(rollout: Rollout) -> None:
    before = Counter[str]()
    for ran in rollout.ran.values():
        assert not ran.before - ran.after
        assert ran.before == before
        before = ran.after
    rules = json.dumps(rollout.product.json("knowledge", "list", "--namespace", NS))
    assert "class_weight" in rules
    assert rollout.product.json("fsck")["clean"]


def test_modes_that_do_not_go_together_are_refused(rollout: Rollout) -> None:
    product = rollout.product
    for arguments in (
        ("--mode", "sometimes"),
        ("--mode", "off", "--mode", "legacy_recall"),
        ("--mode", "frozen_memory"),
        ("--mode", "decision_memory", "--recall-input", "3fa2"),
        ("--mode", "frozen_memory", "--recall-input", "not-hex"),
    ):
        error = product.json("run", "--size", "small", *arguments, code=2)
        assert error["field"] in {"--mode", "--recall-input"}, arguments


def test_vrm_o05_ideas_with_memory_and_from_a_fresh_start(rollout: Rollout) -> None:
    """A real search over three held-out tasks: both branches registered, executed, and reported with intervals."""
    before = _counted(rollout.stores)
    report = rollout.product.json("evaluate", "ideation", "--namespace", NS, "--tasks", "3")
    new = _counted(rollout.stores) - before
    ideas = report["searches"] * report["proposals"]
    assert (report["searches"], report["tasks"]) == (3, 3)
    assert new["decision-intent"] == new["recall-decision-outcome"] == 2 * ideas
    assert new["decision-recall-context"] == ideas
    assert new["experience"] == 2 * (ideas + report["searches"])
    assert new["memory-record"] == 0
    memory, fresh = report["branches"]["with_memory"], report["branches"]["fresh_start"]
    assert (fresh["cards"], fresh["steered"], fresh["dependence"]["mean"]) == (0, 0, 0.0)
    assert memory["cards"] > 0
    assert memory["steered"] > 0
    assert report["memory_dependence"]["within_cap"]
    for branch in (memory, fresh):
        assert branch["ideas"] == {"planned": ideas, "had": ideas, "valid": ideas}
        assert 0 < branch["coverage"]["mean"] <= 1
        assert branch["coverage"]["low"] <= branch["coverage"]["mean"] <= branch["coverage"]["high"]
    assert report["claim"].startswith("none")
    arms = {
        each.arm
        for stored in rollout.stores.ledger.find("decision-intent", NS)
        if isinstance(each := stored.load(), DecisionIntent)
    }
    assert {"with_memory", "fresh_start"} <= arms
    assert rollout.product.json("fsck")["clean"]


def test_a_model_that_answers_for_no_card_fails_where_it_was_given_one(rollout: Rollout) -> None:
    """In a namespace of its own: the pair stays, with what was in effect before; arms without cards propose nothing."""
    said = completion(json.dumps({"proposal": None, "cards": [], "explanation": ""}))
    with model_server([said]) as server:
        told = rollout.product.json(
            "run", "--size", "small", "--namespace", "modelled", "--actor", "llm", "--llm-url", server.url,
            "--llm-model", "stub",
        )  # fmt: skip
    outcomes = [each.load() for each in rollout.stores.ledger.find("recall-decision-outcome", "modelled")]
    reasons = Counter((each.arm, each.terminal_reason) for each in outcomes if isinstance(each, RecallOutcome))
    assert reasons["control", TerminalReason.NO_APPLICABLE_ACTION] == DECISIONS
    assert reasons["memory", TerminalReason.ACTOR_OUTPUT_MALFORMED] > 0
    assert {reason for _, reason in reasons} == {
        TerminalReason.NO_APPLICABLE_ACTION, TerminalReason.ACTOR_OUTPUT_MALFORMED,
    }  # fmt: skip
    assert len(told["trials"]) == 2 * TASKS
    for each in rollout.stores.ledger.find("decision-intent", "modelled"):
        intent = each.load()
        assert isinstance(intent, DecisionIntent)
        assert intent.planned_actor.model.startswith("llm-actor/v1:stub:")
    assert rollout.product.json("fsck", "--namespace", "modelled")["clean"]
