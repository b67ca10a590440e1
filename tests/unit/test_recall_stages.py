"""The stages in their order, over a Ledger and an artifact store in which reading what is forbidden raises (spec 8.2).

A retriever that opened an artifact before the retention check, or read a member that a hard filter refused, would not
end in another answer: it would end in `ForbiddenReadError`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from memory.guards import GUARDS
from memory.index.embedding import HashEmbedder, TextKind
from memory.recall.context import Recall
from memory.recall.loaded import UnusableInput
from memory.recall.retriever import DecisionPointRetriever
from memory.tokens import Tokenizer
from policies.retrieval_policy import retrieval_policy
from records.appends import Append, StoredRecord
from records.decisions import AllowedAction, BlockedProposal, BlockedReason, BlockedTarget
from records.flows import Authority, Transition
from records.ids import RecallInputId
from records.knowledge import EventType, MemoryRecord
from records.models import noun_of
from records.snapshots import RecallInput
from records.values import ActionKind, DecisionPoint, RecallRequirement, SourceKind
from store.artifacts import ArtifactStore
from store.ledger.memory import MemoryLedger
from store.ledger.port import Asked, LedgerReader
from tests.unit.recall_support import NOW, SCOPE, SPACE, effect, intent, request, rule
from tests.unit.recall_world import World, context, proof
from tests.unit.test_recall_lanes import RUN, SITUATION, TOOLS, captured, composed, episode, procedure


class ForbiddenReadError(Exception):
    """Something was read that may not be read at that stage; no code here catches it."""


@dataclass
class Watch:
    """What may not be read, and what was read, in order: nouns of records, `retention`, `artifact`."""

    forbidden: set[str] = field(default_factory=set)
    read: list[str] = field(default_factory=list)

    def see(self, names: Iterable[str]) -> None:
        for name in names:
            self.read.append(noun_of(name) if ":" in name else "artifact")
            if name in self.forbidden:
                raise ForbiddenReadError(name)


class WatchedReader:
    """A reader that tells the watch what it is asked for."""

    def __init__(self, reader: LedgerReader, watch: Watch) -> None:
        self._reader, self._watch = reader, watch

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reader, name)

    def get(self, record_id: str) -> StoredRecord | None:
        self._watch.see([str(record_id)])
        return self._reader.get(record_id)

    def get_many(self, record_ids: Iterable[str]) -> dict[str, StoredRecord]:
        wanted = [str(each) for each in record_ids]
        self._watch.see(wanted)
        return self._reader.get_many(wanted)

    def namespace_head(self, namespace: str) -> Any:
        self._watch.read.append("retention")
        return self._reader.namespace_head(namespace)

    def both(self, first: Asked[Any], second: Asked[Any]) -> tuple[Any, Any]:
        answers = [getattr(self, asked.getter)(*asked.given, **asked.equal) for asked in (first, second)]
        return answers[0], answers[1]


@dataclass
class WatchedLedger:
    ledger: MemoryLedger
    watch: Watch

    @contextmanager
    def reading(self) -> Iterator[Any]:
        with self.ledger.reading() as reader:
            yield WatchedReader(reader, self.watch)


class WatchedArtifacts(ArtifactStore):
    """The store itself, telling the watch what it reads."""

    watch: Watch

    def read(self, digest: str) -> bytes:
        self.watch.see([digest])
        return super().read(digest)

    def mapped(self, digest: str) -> bytes | memoryview:
        self.watch.see([digest])
        return super().mapped(digest)


@dataclass
class Scene:
    """A world with its retriever under watch."""

    world: World
    source: RecallInput
    watch: Watch = field(default_factory=Watch)
    denied: tuple[BlockedTarget, ...] = ()
    embedder: HashEmbedder = field(default_factory=lambda: HashEmbedder(32))

    def retriever(self) -> DecisionPointRetriever:
        artifacts = WatchedArtifacts(str(self.world.folder / "artifacts"))
        artifacts.watch = self.watch
        ledger: Any = WatchedLedger(self.world.ledger, self.watch)
        return DecisionPointRetriever(
            ledger, artifacts, self.embedder, Tokenizer(), retrieval_policy(),
            denials=lambda _reader, _head: self.denied, test_index=True,
        )  # fmt: skip

    def ask(self, decision: Any = None, **changes: Any) -> Recall | BlockedProposal:
        retriever, asked = self.retriever(), decision or self.world.admit(intent(run_id=RUN))
        loaded = retriever.load(RecallInputId(self.source.id))
        return retriever.propose(asked, request(asked, RecallInputId(self.source.id), **changes), loaded, now=NOW)

    def artifacts(self) -> set[str]:
        stored = [self.world.ledger.get(each.index_build_id) for each in self.source.index_builds]
        return {record.load().as_json()["artifact"]["sha256"] for record in stored if record is not None}

    def members(self) -> set[str]:
        rows = self.world.ledger.find("memory-record", SPACE) + self.world.ledger.find("experience", SPACE)
        return {row.id for row in rows}


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    """A world with a rule, a procedure and an episode, all of which an answer could show."""
    world = World(tmp_path)
    procedure(world)
    world.learn(rule())
    world.experience(episode(5, ("C", 1, 10)))
    return Scene(world, composed(world, captured(world)))


@pytest.mark.parametrize(
    "changes",
    [
        {"max_items": 3, "prior_config": (AllowedAction(knob="C", value="1"), AllowedAction(knob="C", value="10"))},
        {"allowed_actions": (AllowedAction(knob="C", value="1"),) * 2},
    ],
)
def test_stage_1_an_invalid_request_reads_no_content(scene: Scene, changes: dict[str, Any]) -> None:
    """What blocks by form blocks whatever was loaded; the proposal itself reads nothing at all."""
    retriever, decision = scene.retriever(), scene.world.admit(intent(run_id=RUN))
    loaded = retriever.load(RecallInputId(scene.source.id))
    scene.watch.read.clear()
    scene.watch.forbidden |= scene.members() | scene.artifacts()
    asked = request(decision, RecallInputId(scene.source.id), **changes)
    assert proof(retriever.propose(decision, asked, loaded, now=NOW)).blocked_reason is BlockedReason.REQUEST_INVALID
    assert scene.watch.read == []


def test_stage_1_a_control_intent_reads_nothing(scene: Scene) -> None:
    control = intent().governance.model_copy(update={"recall_requirement": RecallRequirement.REGISTERED_NOT_REQUESTED})
    retriever, decision = scene.retriever(), scene.world.admit(intent(run_id=RUN, governance=control))
    loaded = retriever.load(RecallInputId(scene.source.id))
    scene.watch.read.clear()
    asked = request(decision, RecallInputId(scene.source.id))
    assert proof(retriever.propose(decision, asked, loaded, now=NOW)).blocked_reason is BlockedReason.REQUEST_INVALID
    assert scene.watch.read == []


def test_vrm_r02_stage_2_retention_comes_before_any_artifact_or_member(scene: Scene) -> None:
    """Each source that can be denied (input, snapshots, build, artifact, rule, event, episode) blocks unopened."""
    scene.watch.forbidden |= scene.members() | scene.artifacts()
    retriever = scene.retriever()
    clean = Scene(scene.world, scene.source).retriever().load(RecallInputId(scene.source.id))
    assert not isinstance(clean, UnusableInput)
    nouns = {noun_of(each) if ":" in each else "artifact" for each in clean.sources}
    assert nouns == {"recall-input-snapshot", "knowledge-snapshot", "evidence-snapshot", "memory-index-build",
                     "memory-record", "knowledge-lifecycle-event", "experience", "artifact"}  # fmt: skip
    for target in sorted(clean.sources):
        scene.denied = (BlockedTarget(target_id=target, digest="9" * 64),)
        loaded = retriever.load(RecallInputId(scene.source.id))
        assert isinstance(loaded, UnusableInput), target
        decision = intent(run_id=RUN)
        scene.world.ledger.get(str(decision.id)) or scene.world.admit(decision)
        asked = request(decision, RecallInputId(scene.source.id))
        found = proof(retriever.propose(decision, asked, loaded, now=NOW))
        assert found.blocked_reason is BlockedReason.RETENTION_REVOKED, target


def test_the_watch_would_notice(scene: Scene) -> None:
    """The same request without a denial does read artifacts and members, and raises if they are forbidden."""
    assert isinstance(scene.ask(), Recall)
    assert {"artifact", "memory-record"} <= set(scene.watch.read)
    for forbidden in (scene.artifacts(), scene.members()):
        scene.watch.forbidden = forbidden
        with pytest.raises(ForbiddenReadError):
            scene.ask(scene.world.admit(intent(len(scene.watch.read), run_id=RUN)))


def test_stages_1_to_6_are_read_in_their_order(scene: Scene) -> None:
    """Metadata, then retention, then artifacts, then retention again for the request, then members."""
    assert isinstance(scene.ask(), Recall)
    order = list(dict.fromkeys(scene.watch.read))
    assert order[0] == "recall-input-snapshot"
    metadata = {"recall-input-snapshot", "knowledge-snapshot", "evidence-snapshot", "memory-index-build"}
    assert set(order[: order.index("retention")]) == metadata
    assert order.index("retention") < order.index("artifact") < order.index("memory-record")
    last_check = len(scene.watch.read) - 1 - scene.watch.read[::-1].index("retention")
    contents = [at for at, name in enumerate(scene.watch.read) if name in {"memory-record", "experience"}]
    assert last_check < min(contents)


def test_what_words_and_structure_find_is_read_while_the_query_is_embedded(scene: Scene) -> None:
    """The vector is waited for once everything is done that needs none, and each member is read once all the same."""

    class Telling(HashEmbedder):
        def embed(self, texts: Sequence[str], *, kind: TextKind = "passage") -> NDArray[np.float32]:
            scene.watch.read.append("embedded")
            return super().embed(texts, kind=kind)

    scene.embedder = Telling(32)
    point = DecisionPoint.EXPERIMENT_DESIGN
    decision = scene.world.admit(intent(run_id=RUN, decision_point=point))
    assert isinstance(scene.ask(decision, decision_point=point, situation=SITUATION, tools=TOOLS), Recall)
    before, after = scene.watch.read[: (at := scene.watch.read.index("embedded"))], scene.watch.read[at + 1 :]
    assert before.count("memory-record") == 2  # the rule and the procedure
    assert not {"embedded", "memory-record", "experience"} & set(after)


def test_stage_3_a_foreign_arm_blocks_before_any_member(scene: Scene) -> None:
    scene.watch.forbidden |= scene.members()
    found = proof(scene.ask(scene.world.admit(intent(run_id=RUN, arm="control"))))
    assert found.blocked_reason is BlockedReason.CONTAMINATION


def test_stage_3_private_members_block_before_any_member(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.learn(rule(scope=SCOPE.model_copy(update={"visibility": "evaluator_private"})))
    world.learn(rule("C", "100"))
    scene = Scene(world, world.ready())
    scene.watch.forbidden |= scene.members()
    assert proof(scene.ask()).blocked_reason is BlockedReason.PRIVATE_EXPOSURE


REFUSED: list[tuple[str, dict[str, Any]]] = [
    ("domain_mismatch", {"scope": SCOPE.model_copy(update={"domain": "tabular-regression"})}),
    ("dataset_mismatch", {"scope": SCOPE.model_copy(update={"dataset_digest": "c" * 64})}),
    ("source_mismatch", {"scope": SCOPE.model_copy(update={"source_digest": "c" * 64})}),
    ("model_family_mismatch", {"scope": SCOPE.model_copy(update={"model_family": "mlp"})}),
    ("environment_mismatch", {"scope": SCOPE.model_copy(update={"environment_digest": "c" * 64})}),
    ("contract_mismatch", {"scope": SCOPE.model_copy(update={"contract_digest": "c" * 64})}),
    ("budget_class_mismatch", {"scope": SCOPE.model_copy(update={"budget_class": "ten-fits"})}),
    ("other_visibility", {"scope": SCOPE.model_copy(update={"visibility": "another-team"})}),
    ("action_kind_not_admitted", {"action": ActionKind.ABSTAIN, "mechanism": "kernel_shape"}),
    ("decision_point_mismatch", {"decision_point": DecisionPoint.DIAGNOSIS}),
    ("catalog_mismatch", {"catalog_digest": "c" * 64}),
]


def test_vrm_r02_stage_4_no_refused_member_is_ever_read(tmp_path: Path) -> None:
    """One rule for each hard filter beside one that applies; the text of none but the last is touched."""
    world = World(tmp_path)
    good, _ = world.learn(rule())
    bad: list[MemoryRecord] = [world.learn(rule(claim=reason, **fields))[0] for reason, fields in REFUSED]
    bad.append(world.learn(rule("C", "1000", claim="not allowed"))[0])
    bad.append(world.learn(rule("C", "100", start="10", claim="another start"))[0])
    scene = Scene(world, world.ready())
    scene.watch.forbidden |= {str(each.id) for each in bad}
    made = context(scene.ask())
    assert [item.memory_id for item in made.items] == [good.id]
    counted = {entry.reason: entry.count for entry in made.filtered}
    expected = dict.fromkeys([reason for reason, _ in REFUSED], 1)
    assert counted == expected | {"action_not_allowed": 1, "prior_config_mismatch": 1}


def test_vrm_r02_stage_4_refused_procedures_and_episodes_are_never_read(scene: Scene) -> None:
    """Without the tools, and for an episode of a task of other data: counted, not opened."""
    world = scene.world
    decision = world.admit(intent(run_id=RUN, decision_point=DecisionPoint.EXPERIMENT_DESIGN))
    rules = {row.id for row in world.ledger.find("memory-record", SPACE, record_kind="semantic")}
    scene.watch.forbidden |= scene.members() - rules
    elsewhere = request(decision, RecallInputId(scene.source.id)).scope.model_copy(update={"dataset_digest": "c" * 64})
    made = context(
        scene.ask(decision, decision_point=DecisionPoint.EXPERIMENT_DESIGN, situation=SITUATION, scope=elsewhere)
    )
    assert [item.card.source_kind for item in made.items] == ["semantic"]
    counted = {entry.reason: entry.count for entry in made.filtered}
    assert counted["procedure.tool_not_allowed"] == 1
    assert counted["episodic.dataset_mismatch"] == 1


def test_stage_5_members_that_are_no_head_are_in_no_index(tmp_path: Path) -> None:
    """Candidates, provisional, superseded and retracted records are read by nothing from the snapshot on."""
    world = World(tmp_path)
    old, started = world.learn(rule())
    ended = world.end(old, EventType.SUPERSEDED, started)
    world.learn(rule(claim="Sharper."), prior=str(ended.id))
    gone, began = world.learn(rule("scaler", '"standard"', start='"none"', mechanism="feature_scaling"))
    world.end(gone, EventType.RETRACTED, began)
    early, _ = world.learn(rule("tol", "0.01", start="0.001"), EventType.PROMOTED_PROVISIONAL)
    scene = Scene(world, world.ready())
    candidates = {row.id for row in world.ledger.find("knowledge-candidate", SPACE)}
    scene.watch.forbidden |= {str(old.id), str(gone.id), str(early.id)} | candidates
    assert len(context(scene.ask()).items) == 1


def test_stages_6_to_9_read_nothing_more(scene: Scene) -> None:
    """Ranking, budget and abstention work on what was read; a budget of nothing is an empty answer, no other read."""
    whole = context(scene.ask())
    reads = list(scene.watch.read)
    scene.watch.read.clear()
    nothing = context(scene.ask(scene.world.admit(intent(1, run_id=RUN)), token_budget=0))
    assert whole.items
    assert nothing.items == ()
    assert scene.watch.read == reads


def test_stage_10_the_transaction_reads_the_sources_of_cards_alone(scene: Scene) -> None:
    """The context's guard makes the retention check again, and reads no member but those that are shown."""
    decision = scene.world.admit(intent(run_id=RUN, decision_point=DecisionPoint.EXPERIMENT_DESIGN))
    other, _ = scene.world.learn(rule("C", "100", effect=effect(0.0001)))
    scene.source = composed(scene.world, captured(scene.world, "again"))
    asked = {"decision_point": DecisionPoint.EXPERIMENT_DESIGN, "situation": SITUATION, "tools": TOOLS}
    made = context(scene.ask(decision, **asked))
    kinds = {item.card.source_kind for item in made.items}
    assert kinds == {kind.value for kind in SourceKind}
    shown = {str(item.memory_id or item.card.as_json()["experience_id"]) for item in made.items}
    watch = Watch(forbidden=(scene.members() - shown) | scene.artifacts())
    append = Append(namespace=SPACE, transition=Transition.APPEND_CONTEXT, authority=Authority.NORMAL,
                    permit_key="authorization:" + "1" * 64, permit_digest="0" * 64, records=(made,))  # fmt: skip
    with scene.world.ledger.reading() as reader:
        watched: Any = WatchedReader(reader, watch)
        assert GUARDS[Transition.APPEND_CONTEXT](watched, append) is None
    assert "retention" in watch.read
    assert str(other.id) not in shown


def test_stage_11_a_blocked_proposal_holds_ids_and_digests_only(scene: Scene) -> None:
    """No text of any member, and no context or card in the Ledger."""
    scene.denied = (BlockedTarget(target_id=str(scene.source.id), digest="9" * 64),)
    found = proof(scene.ask())
    text = found.canonical.decode()
    for row in scene.world.ledger.find("memory-record", SPACE):
        assert row.load().as_json()["scope_description"] not in text
    assert scene.world.ledger.find("decision-recall-context", SPACE) == []
