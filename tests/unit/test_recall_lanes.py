"""Procedures and episodes beside rules: what is built, what is filtered, what a card says, who may see it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from memory.distillation.view import read_view
from memory.evidence import Trial
from memory.guards import GUARDS
from memory.index.embedding import HashEmbedder
from memory.recall.candidates import find
from memory.recall.context import Recall
from memory.recall.loaded import LoadedInput
from memory.snapshots import (
    EpisodicSnapshotBuilder,
    FreezeEpisodes,
    RecallInputSnapshotBuilder,
    build_episode_index,
    build_procedure_index,
    capture_key,
    index_key,
    recall_input_key,
)
from memory.tokens import Tokenizer
from policies.distillation_policy import distillation_policy
from policies.episodes import episodic_policy
from policies.retrieval_policy import RetrievalPolicy, confirmatory_policy, retrieval_policy
from policies.selection_policy import SelectionPolicy, selection_policy
from records.appends import Append
from records.cards import EpisodicCard, ProcedureCard
from records.decisions import (
    AllowedAction,
    AllowedTool,
    BlockedProposal,
    BlockedReason,
    ContextStatus,
    DecisionIntent,
    citation_id,
)
from records.errors import EvidenceError, IdentityConflictError, InvalidInputError
from records.evidence import Corpus
from records.flows import Authority, Transition
from records.ids import CandidateId, EvidenceSnapshotId, IntentId, RecallInputId, RunId
from records.ingestion import EvidenceSnapshot
from records.knowledge import EventType, LinkRelation, variant_under
from records.procedures import (
    Action,
    Check,
    Comparison,
    CostBound,
    CostEnvelope,
    FailureMode,
    Parameter,
    Procedure,
    ProcedureCandidate,
    ProcedureRecord,
    Step,
    ToolRequirement,
    Trigger,
    TypedValue,
    ValueType,
    procedure_family_id,
)
from records.snapshots import IndexBuild, KnowledgeSnapshot, RecallInput
from records.values import DecisionPoint, SourceKind
from tests.unit.recall_support import CATALOG, METRIC, NOW, SCOPE, SPACE, intent, link, request, rule, strength, trial
from tests.unit.recall_world import World, answer, context, lifecycle_event, proof

BOTH = SelectionPolicy.load(
    json.dumps(selection_policy().as_json() | {"version": "9", "kinds": ["semantic", "procedure"]})
)
SITUATION = f"configuration:{CATALOG.config_digest(CATALOG.baseline)}"
TOOLS = (AllowedTool(tool="experiments.tabular", version="1.2.0"),)
RUN = RunId.derive({"run": "own"})


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def check(name: str, value: str, after: str | None = None) -> Check:
    expected = TypedValue(type=ValueType.NUMBER, value=value)
    return Check(name=name, observable=f"gain_over_start.{METRIC.name}", comparison=Comparison.ABOVE, expected=expected,
                 after_step=after)  # fmt: skip


def step(place: int, knob: str, start: str, value: str, version: str = "1.2.0") -> Step:
    given = (("from", start), ("knob", json.dumps(knob)), ("to", value))
    typed = {'"': ValueType.TEXT}
    parameters = tuple(
        Parameter(name=name, value=TypedValue(type=typed.get(text[0], ValueType.INTEGER), value=text))
        for name, text in given
    )
    action = Action(tool="experiments.tabular", version=version, operation="set_knob", parameters=parameters)
    return Step(name=f"step-{place}", purpose=f"Change {knob}.", action=action)


def procedure(world: World, **changes: Any) -> ProcedureRecord:
    """Append an active procedure: scale, then regularise less."""
    baseline, changed = world.experience(trial(1)), world.experience(trial(2, ("C", 1, 10)))
    cited = link(changed, baseline, LinkRelation.SUPPORTS)
    content: dict[str, Any] = {
        "trigger": Trigger(
            decision_point=DecisionPoint.EXPERIMENT_DESIGN, situation=SITUATION, goal="raise:macro_f1", metric=METRIC
        ),
        "catalog_digest": CATALOG.digest,
        "preconditions": (check("known-start", "0"),),
        "steps": (step(1, "scaler", '"none"', '"standard"'), step(2, "C", "1", "10")),
        "tools": (ToolRequirement(tool="experiments.tabular", versions=("1.1.0", "1.2.0")),),
        "success_checks": (check("better", "0.005", "step-2"),),
        "manipulation_checks": (),
        "early_stop_checks": (check("no-harm", "-0.005", "step-1"),),
        "rollback_checks": (check("not-below", "0"),),
        "failure_modes": (FailureMode(code="too_slow", detail="It no longer learns.", experience_ids=()),),
        "counterexamples": (),
        "cost": CostEnvelope(
            budget_class="one-fit",
            bounds=(CostBound(resource="experiments", unit="runs", expected="3", limit="3"),),
        ),
        "artifacts": (),
    }
    made = Procedure(**(content | changes))
    family = procedure_family_id(SPACE, made.trigger, "scale_then_fit")
    variant = variant_under(SPACE, family, SCOPE, made.catalog_digest)
    snapshot = EvidenceSnapshotId(world.capture("procedures").id)
    shared: dict[str, Any] = {"namespace": SPACE, "created_at": "2026-02-10T00:00:00.000000Z"}
    candidate = ProcedureCandidate(
        **shared, proposed_family_id=family, proposed_scope_variant_id=variant, evidence_snapshot_id=snapshot,
        experience_ids=(), scope=SCOPE, mechanism="scale_then_fit", links=(cited,), drafting_adapter="trajectories",
        policy=rule().distillation_policy, findings=(), procedure=made,
    )  # fmt: skip
    record = ProcedureRecord(
        **shared, family_id=family, scope_variant_id=variant, prior_memory_id=None,
        candidate_id=CandidateId(candidate.id), scope=SCOPE, scope_description="rows small",
        mechanism="scale_then_fit", strength=strength(), links=(cited,),
        distillation_policy=rule().distillation_policy, procedure=made,
    )  # fmt: skip
    started = lifecycle_event(record, EventType.PROMOTED_ACTIVE, "GENESIS", snapshot)
    world.granted(Transition.COMMIT_DISTILLATION, Authority.NORMAL, candidate, record, started)
    return record


def composed(
    world: World, evidence: EvidenceSnapshot | None = None, policy: RetrievalPolicy | None = None
) -> RecallInput:
    """Freeze rules and procedures, build every index, compose and append."""
    snapshot = world.freeze(BOTH)
    builds = [world.index(snapshot)[0], built(world, snapshot)]
    if evidence is not None:
        builds.append(built(world, snapshot, evidence))
    made = RecallInputSnapshotBuilder(policy or retrieval_policy()).compose(snapshot, builds, evidence)
    world.direct(Transition.COMPOSE_RECALL_INPUT, recall_input_key(made), made)
    return made


def built(world: World, snapshot: KnowledgeSnapshot, evidence: EvidenceSnapshot | None = None) -> IndexBuild:
    with world.ledger.reading() as reader:
        if evidence is None:
            build, data = build_procedure_index(reader, snapshot, HashEmbedder(32), test_index=True)
        else:
            build, data = build_episode_index(reader, snapshot, HashEmbedder(32), evidence, test_index=True)
    world.artifacts.publish(data)
    world.direct(Transition.INDEX_RECEIPT, index_key(build), build)
    return build


def captured(world: World, key: str = "episodes", **changes: Any) -> EvidenceSnapshot:
    own: dict[str, Any] = {"run_id": RUN, "arm": "memory", "pair": "pair-1"}
    asked = FreezeEpisodes(namespace=SPACE, operation_key=key, **(own | changes))
    with world.ledger.reading() as reader:
        snapshot, operation = EpisodicSnapshotBuilder(episodic_policy()).freeze(reader, asked)
    world.direct(Transition.CAPTURE_SNAPSHOT, capture_key(operation), snapshot, operation)
    return snapshot


def episode(seed: int, change: tuple[str, object, object] | None = None, **changes: Any) -> Trial:
    own: dict[str, Any] = {"run_id": RUN, "arm": "memory", "pair": "pair-1", "corpus": Corpus.EVALUATION}
    return replace(trial(seed, change), **(own | changes))


def at(point: DecisionPoint, **changes: Any) -> DecisionIntent:
    return intent(decision_point=point, run_id=RUN, **changes)


def design(world: World, source: RecallInput, **changes: Any) -> Recall | BlockedProposal:
    asked = {"situation": SITUATION, "tools": TOOLS} | changes
    decision = asked.pop("decision", None) or world.admit(at(DecisionPoint.EXPERIMENT_DESIGN))
    return answer(world, source, decision=decision, decision_point=DecisionPoint.EXPERIMENT_DESIGN, **asked)


class TestProcedures:
    def test_a_procedure_is_recalled_beside_a_rule(self, world: World) -> None:
        """Its card names the member, shows steps with tool and version, and the Ledger takes the context."""
        record = procedure(world)
        best, _ = world.learn(rule())
        found = design(world, composed(world))
        made = context(found)
        assert {item.memory_id for item in made.items} == {record.id, best.id}
        card = next(item.card for item in made.items if isinstance(item.card, ProcedureCard))
        assert (card.memory_digest, card.steps) == (record.payload_digest, record.procedure.steps)
        assert card.supporting == tuple(each.experience_id for each in record.links)
        assert isinstance(found, Recall)
        assert ": procedure [citation " in found.rendered
        first = 'set_knob of experiments.tabular: from "none"; knob "scaler"; to "standard"'
        assert f'step 1: "Change scaler."; {first}' in found.rendered
        assert "tools: experiments.tabular at 1.1.0; 1.2.0" in found.rendered
        assert "cost: one-fit; experiments 3, at most 3 runs" in found.rendered
        assert made.token_count == Tokenizer().count(found.rendered) <= 1200
        counted = {entry.reason: entry.count for entry in made.candidates}
        assert (counted["eligible"], counted["procedure.eligible"]) == (1, 1)
        world.granted(Transition.APPEND_CONTEXT, Authority.NORMAL, made)

    @pytest.mark.parametrize(
        ("changes", "reason"),
        [
            ({"situation": "configuration:other"}, "situation_mismatch"),
            ({"situation": None}, "situation_mismatch"),
            ({"tools": None}, "tool_not_allowed"),
            ({"tools": (AllowedTool(tool="experiments.tabular", version="2.0.0"),)}, "tool_version_mismatch"),
        ],
    )
    def test_vrm_r02_trigger_and_tools_are_hard_filters(
        self, world: World, changes: dict[str, Any], reason: str
    ) -> None:
        procedure(world)
        made = context(design(world, composed(world), **changes))
        assert made.items == ()
        assert {entry.reason: entry.count for entry in made.filtered} == {f"procedure.{reason}": 1}

    def test_vrm_r02_every_step_must_be_an_allowed_action(self, world: World) -> None:
        """A step towards a value that the decision may not choose keeps the whole procedure out."""
        procedure(world, steps=(step(1, "scaler", '"none"', '"standard"'), step(2, "C", "1", "7")))
        made = context(design(world, composed(world)))
        assert {entry.reason for entry in made.filtered} == {"procedure.action_not_allowed"}
        assert AllowedAction(knob="C", value="7") not in request(intent(), RecallInputId.derive({})).allowed_actions

    def test_a_point_whose_profile_has_no_procedures_never_opens_them(self, world: World) -> None:
        procedure(world)
        world.learn(rule())
        made = context(answer(world, composed(world), decision=world.admit(intent(run_id=RUN))))
        assert [item.card.source_kind for item in made.items] == ["semantic"]
        assert not any(entry.reason.startswith("procedure") for entry in (*made.candidates, *made.filtered))

    def test_an_index_without_the_procedures_is_still_read(self, world: World) -> None:
        """As every index was before there was one of procedures: they are members, and are not recalled."""
        procedure(world)
        world.learn(rule())
        snapshot = world.freeze(BOTH)
        build, _ = world.index(snapshot)
        old = RecallInputSnapshotBuilder(retrieval_policy()).compose(snapshot, [build])
        world.direct(Transition.COMPOSE_RECALL_INPUT, recall_input_key(old), old)
        assert [item.card.source_kind for item in context(design(world, old)).items] == ["semantic"]


class TestEpisodes:
    def test_an_episode_of_the_own_run_is_recalled_and_labelled(self, world: World) -> None:
        """It has no memory id, names snapshot, bundle and verification, and says that it is no rule."""
        tried = world.experience(episode(2, ("C", 1, 10)))
        evidence = captured(world)
        found = answer(world, composed(world, evidence), decision=world.admit(intent(run_id=RUN)))
        made = context(found)
        (item,) = made.items
        assert isinstance(item.card, EpisodicCard)
        assert (item.memory_id, item.card.family_id, item.card.disposition) == (None, None, None)
        assert item.card.experience_id == tried.id
        assert item.card.evidence_snapshot_id == evidence.id
        assert item.card.bundle_digest == evidence.members[0].bundle_digest
        assert item.card.verification_id == tried.verification_id
        assert item.card.evidence_position == evidence.evidence_position == world.ledger.namespace_head(SPACE).evidence
        assert isinstance(found, Recall)
        assert "card 1: episodic, one verified experience [citation " in found.rendered
        assert "change: C from 1 to 10 at intervention" in found.rendered
        assert "no rule, no lifecycle" in found.rendered
        world.granted(Transition.APPEND_CONTEXT, Authority.NORMAL, made)

    @pytest.mark.parametrize(
        "changes",
        [{"arm": "control"}, {"pair": "pair-2"}, {"arm": None, "pair": None}, {"run_id": RunId.derive({"x": 1})}],
    )
    def test_vrm_l04_nothing_of_another_run_arm_or_pair_is_captured(
        self, world: World, changes: dict[str, Any]
    ) -> None:
        world.experience(episode(2, ("C", 1, 10), **changes))
        mine = world.experience(episode(3, ("C", 1, 100)))
        assert [member.experience_id for member in captured(world).members] == [mine.id]

    @pytest.mark.parametrize("changes", [{"arm": "control"}, {"pair": "pair-2"}, {"run_id": RunId.derive({"x": 1})}])
    def test_vrm_o03_the_episodes_of_another_arm_block(self, world: World, changes: dict[str, Any]) -> None:
        """A Recall Input with somebody else's episodes is contaminated as a whole; nothing of it is shown."""
        world.experience(episode(2, ("C", 1, 10)))
        source = composed(world, captured(world))
        other = world.admit(intent(**({"run_id": RUN} | changes)))
        found = proof(answer(world, source, decision=other))
        assert found.blocked_reason is BlockedReason.CONTAMINATION
        assert found.evidence.as_json()["rule"] == "arm_isolation"

    def test_vrm_l04_episodes_never_enter_base_evidence(self, world: World) -> None:
        """What an arm has done in evaluation is an episode for itself, and nothing for distillation."""
        world.experience(episode(2, ("C", 1, 10)))
        episodes = captured(world)
        assert episodes.members
        assert world.capture("base").members == ()
        with world.ledger.reading() as reader, pytest.raises(EvidenceError, match="one Run"):
            read_view(reader, EvidenceSnapshotId(episodes.id), distillation_policy())

    def test_vrm_l04_the_transaction_refuses_a_snapshot_with_a_foreign_member(self, world: World) -> None:
        """A capture that claims somebody else's run as its own is not written."""
        world.experience(episode(2, ("C", 1, 10), arm="control"))
        theirs = captured(world, arm="control")
        claimed = theirs.model_copy(update={"arm": "memory"})
        with pytest.raises(IdentityConflictError, match="another Run"):
            world.direct(Transition.CAPTURE_SNAPSHOT, "claimed", claimed)

    def test_vrm_l04_the_transaction_refuses_a_context_with_a_foreign_episode(self, world: World) -> None:
        world.experience(episode(2, ("C", 1, 10)))
        source = composed(world, captured(world))
        made = context(answer(world, source, decision=world.admit(intent(run_id=RUN))))
        other = world.admit(intent(1, run_id=RUN, arm="control"))
        (item,) = made.items
        cited = citation_id(IntentId(other.id), made.recall_input_id, item.card_id, 1)
        moved = item.model_copy(update={"citation_id": cited})
        stolen = made.model_copy(update={"intent_id": IntentId(other.id), "items": (moved,)})
        append = Append(namespace=SPACE, transition=Transition.APPEND_CONTEXT, authority=Authority.NORMAL,
                        permit_key="authorization:" + "1" * 64, permit_digest="0" * 64, records=(stolen,))  # fmt: skip
        with world.ledger.reading() as reader:
            refusal = GUARDS[Transition.APPEND_CONTEXT](reader, append)
        assert refusal is not None
        assert "own Run" in refusal.detail

    def test_capture_is_one_operation(self, world: World) -> None:
        """The same key gives the same snapshot however much was done since; another request is a conflict."""
        world.experience(episode(2, ("C", 1, 10)))
        first = captured(world)
        world.experience(episode(3, ("C", 1, 100)))
        assert captured(world) == first
        assert len(captured(world, "later").members) == 2
        with pytest.raises(IdentityConflictError):
            captured(world, arm="control")

    def test_the_newest_episode_comes_first(self, world: World) -> None:
        """The structured list puts the last thing that the Run did first; an intervention shows one card."""
        for seed, value in ((2, 10), (3, 100), (4, 0.1)):
            last = world.experience(episode(seed, ("C", 1, value)))
        source = composed(world, captured(world))
        loaded = world.retriever().load(RecallInputId(source.id))
        assert isinstance(loaded, LoadedInput)
        rows = np.arange(3, dtype=np.int64)
        assert [hit.id for hit in find(loaded.lanes[SourceKind.EPISODIC], rows, "", 1).gather(None).hits] == [last.id]
        assert len(context(answer(world, source, decision=world.admit(intent(run_id=RUN)))).items) == 1

    def test_diagnosis_finds_the_same_failure_and_refuses_others(self, world: World) -> None:
        alike = world.experience(episode(2, ("C", 1, 10), verified={}, violations=("evaluator_timeout",)))
        world.experience(episode(3, ("C", 1, 100), verified={}, violations=("label_leak",)))
        decision = world.admit(at(DecisionPoint.DIAGNOSIS))
        made = context(
            answer(world, composed(world, captured(world)), decision=decision, decision_point=DecisionPoint.DIAGNOSIS,
                   failure_signature="budget/evaluator_timeout", prior_observation="the evaluator ran out of time",
                   no_prior_observation_reason=None)
        )  # fmt: skip
        assert [item.card.as_json()["experience_id"] for item in made.items] == [alike.id]
        assert {entry.reason: entry.count for entry in made.filtered}["episodic.other_failure"] == 1

    def test_the_confirmatory_policy_refuses_the_lane(self, world: World) -> None:
        world.experience(episode(2, ("C", 1, 10)))
        with pytest.raises(InvalidInputError, match="index_builds"):
            composed(world, captured(world), confirmatory_policy())

    def test_vrm_o01_every_index_is_rebuilt_with_the_same_digests(self, world: World) -> None:
        procedure(world)
        world.experience(episode(2, ("C", 1, 10)))
        world.learn(rule())
        evidence = captured(world)
        snapshot = world.freeze(BOTH)
        assert built(world, snapshot) == built(world, snapshot)
        assert built(world, snapshot, evidence) == built(world, snapshot, evidence)

    def test_a_replay_gives_the_same_bytes(self, world: World) -> None:
        """All three kinds in one context, made twice."""
        procedure(world)
        world.learn(rule())
        world.experience(episode(2, ("C", 1, 10)))
        source, decision = composed(world, captured(world)), world.admit(at(DecisionPoint.EXPERIMENT_DESIGN))
        first = context(design(world, source, decision=decision))
        assert {item.card.source_kind for item in first.items} == {"semantic", "procedure", "episodic"}
        assert first.status is ContextStatus.OK
        assert context(design(world, source, decision=decision)).payload == first.payload
        world.granted(Transition.APPEND_CONTEXT, Authority.NORMAL, first)
        loaded = world.retriever().load(RecallInputId(source.id))
        assert isinstance(loaded, LoadedInput)
        assert set(loaded.lanes) == set(SourceKind)
        assert first.created_at == NOW
