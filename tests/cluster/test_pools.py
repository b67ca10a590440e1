"""Workers and replicas on a real cluster: whole campaigns with crashes between the steps, order, and the real model."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Semaphore
from typing import Any, cast

import numpy as np
import pytest

from actors.cluster import ClusterInfo
from actors.settings import now
from importers.published_table import PublishedTable, read_published_table
from memory.campaigns import CampaignPorts, Campaigns
from memory.distillation.policies import Policies
from memory.index.embedding import SentenceTransformerEmbedder
from memory.leases import completion
from memory.ports import all_good
from memory.recall.context import Recall
from memory.run_owner import RunOwner
from memory.snapshots import RecallInputSnapshotBuilder, recall_input_key
from policies.distillation_policy import distillation_policy
from policies.lifecycle_policy import lifecycle_policy
from policies.retrieval_policy import retrieval_policy
from records.appends import Proposal
from records.canonical import digest_bytes
from records.decisions import DecisionIntent, RecallRequest
from records.flows import Transition
from records.ids import RecallInputId
from records.values import Disposition
from store.artifacts import ArtifactStore
from store.ledger.memory import MemoryLedger
from store.ledger.port import LedgerStore
from store.ledger.postgres import PostgresLedger
from store.runtime.memory import MemoryRuntime
from store.runtime.port import RuntimeStore
from store.server import DatabaseUrls
from tests.cluster.installation import Installation, installed, until
from tests.data import world as worlds
from tests.data.tables import write_table
from tests.data.world import World, build_world
from tests.support.stores import fresh_namespace
from tests.unit import recall_world
from tests.unit.recall_support import NOW, intent, request, rule
from vrm.home import Home

ROOT = Path(__file__).parents[2]
TEXTS = [f"Standard scaling helps {word} on small tables." for word in ("much", "little", "not", "often", "rarely")]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> PublishedTable:
    return read_published_table(write_table(tmp_path_factory.mktemp("table")))


def kill_everything(place: Installation) -> None:
    """End every process of the owners and workers, without notice."""
    for pid in place.pids():
        os.kill(pid, signal.SIGKILL)


class Recorded:
    """A distiller pool, with what went in and out."""

    def __init__(self, pool: Any) -> None:
        self.pool = pool
        self.pairs: list[tuple[str, str]] = []

    def propose(self, requests: Any) -> list[Proposal]:
        proposals: list[Proposal] = self.pool.propose(requests)
        again = self.pool.propose(requests)
        assert [each.subject_id for each in again] == [each.subject_id for each in proposals]
        self.pairs += [(left.activity.id, right.subject_id) for left, right in zip(requests, proposals, strict=True)]
        return proposals


@pytest.mark.slow
def test_campaign_with_every_owner_killed_between_the_steps(
    place: Installation, table: PublishedTable, tmp_path: Path
) -> None:
    owners, space = place.owners, fresh_namespace()
    world = World(
        cast("LedgerStore", place.ledger),
        cast("RuntimeStore", place.runtime),
        place.artifacts,
        table,
        space,
        cast("RunOwner", owners.run_owner),
        place.spine,
    )
    policies = Policies(distillation=distillation_policy(), lifecycle=lifecycle_policy())
    ports = CampaignPorts(
        ledger=place.ledger,
        runtime=place.runtime,
        artifacts=place.artifacts,
        owner=owners.run_owner,
        spine=place.spine,
        heads=owners.heads,
        clock=now,
        holder="test",
    )
    campaigns = Campaigns(ports, policies, worlds.PROFILE, space)
    run_id = worlds._import(world)
    kill_everything(place)
    assert not campaigns.ingest(run_id, lambda _: None)
    assert not campaigns.project(lambda _: None)
    snapshot, distillers = worlds._capture(world, policies), Recorded(owners.distillers)
    kill_everything(place)
    assert not campaigns.distil(snapshot, distillers, lambda _: None)
    all_good(owners.run_owner.apply([completion(run_id)]))

    assert len(distillers.pairs) == 24
    assert all(asked == answered for asked, answered in distillers.pairs), "the pool keeps the order"
    report = place.fsck()
    assert report.clean, report.text()
    quiet = build_world(MemoryLedger(), MemoryRuntime(), ArtifactStore(str(tmp_path)), table, space)
    assert nouns(world) == nouns(quiet)
    assert active(world) == active(quiet) != []


def nouns(world: World) -> Counter[str]:
    """Return how many records of evidence and distillation there are of each kind."""
    recalled = {"knowledge-snapshot", "memory-index-build", "recall-input-snapshot", "decision-contract-view",
                "decision-intent", "decision-recall-context", "recall-decision-outcome"}  # fmt: skip
    found = Counter(row.noun for row in world.ledger.journal(world.namespace, limit=100_000))
    return Counter({noun: count for noun, count in found.items() if noun not in recalled})


def active(world: World) -> list[str]:
    heads = world.ledger.variant_heads(world.namespace).values()
    return sorted(head.memory_id for head in heads if head.disposition == Disposition.ACTIVE.value)


@dataclass(frozen=True)
class Library:
    """An installation with rules to recall, indexed by the real model in the embedder's process."""

    place: Installation
    world: recall_world.World
    recall_input: RecallInputId
    index: bytes

    @property
    def asked(self) -> list[tuple[DecisionIntent, RecallRequest]]:
        """Five questions, each of a decision of its own."""
        decisions = [intent(iteration) for iteration in range(5)]
        return [(each, request(each, self.recall_input)) for each in decisions]


@pytest.fixture(scope="module")
def library(
    ray_cluster: ClusterInfo, postgres_urls: DatabaseUrls, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Library]:
    assert ray_cluster.address
    with installed(postgres_urls, tmp_path_factory.mktemp("library")) as place:
        ledger = PostgresLedger(place.settings.ledger_dsn, "librarian")
        world = recall_world.World(place.folder, cast("MemoryLedger", ledger))
        world.artifacts = place.artifacts
        world.learn(rule())
        world.learn(rule("class_weight", '"balanced"', start='"none"', mechanism="class_weighting"))
        for each in range(5):
            world.admit(intent(each))
        snapshot = world.freeze()
        build, index = world.index(snapshot, place.owners.embedder)
        composed = RecallInputSnapshotBuilder(retrieval_policy()).compose(snapshot, [build])
        world.direct(Transition.COMPOSE_RECALL_INPUT, recall_input_key(composed), composed)
        yield Library(place, world, RecallInputId(composed.id), index)
        ledger.close()


@pytest.mark.slow
def test_embedder_gives_the_bits_of_the_model_in_this_process(library: Library) -> None:
    there, here = library.place.owners.embedder, SentenceTransformerEmbedder()
    assert (there.id, there.dimensions) == (here.id, here.dimensions)
    for text in TEXTS:
        assert there.embed([text], kind="query").tobytes() == here.embed([text], kind="query").tobytes()
    assert np.allclose(there.embed(TEXTS), here.embed(TEXTS), atol=1e-6)


@pytest.mark.slow
def test_replicas_answer_in_order_with_the_bytes_of_one_process(library: Library, session_home: Home) -> None:
    """The index is handed over by a driver that is gone by the time of the questions."""
    settings = library.place.settings
    program = (
        "import os\n"
        "from actors.cluster import ClusterInfo, attach, connect\n"
        "from actors.handles import owners_of\n"
        "from actors.settings import Settings\n"
        "from records.ids import RecallInputId\n"
        "from store.artifacts import ArtifactStore\n"
        "from pathlib import Path\n"
        f"connect(attach(Path({str(session_home.ray)!r})))\n"
        f"settings = Settings({settings.ledger_dsn!r}, {settings.runtime_dsn!r}, {settings.artifacts_url!r})\n"
        f"index = ArtifactStore(settings.artifacts_url).read({digest_bytes(library.index)!r})\n"
        f"owners_of(settings).retrievers.load(RecallInputId({str(library.recall_input)!r}), index)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True, text=True, timeout=300, check=False, cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    answers = library.place.owners.retrievers.propose(library.asked)
    again = library.place.owners.retrievers.propose(list(reversed(library.asked)))
    retriever = library.world.retriever(embedder=library.place.owners.embedder)
    loaded = retriever.load(library.recall_input)
    for (asked, question), answer, repeated in zip(library.asked, answers, reversed(again), strict=True):
        single = retriever.propose(asked, question, loaded, now=NOW)
        assert isinstance(answer, Recall)
        assert isinstance(single, Recall)
        assert isinstance(repeated, Recall)
        assert answer.context.intent_id == asked.id
        assert answer.rendered == single.rendered == repeated.rendered != ""
        assert str(answer.context.id) == str(single.context.id) == str(repeated.context.id)


@pytest.mark.slow
def test_replicas_and_model_that_were_killed_come_back_by_themselves(library: Library) -> None:
    pool = library.place.owners.retrievers
    before = pool.propose(library.asked)
    kill_everything(library.place)  # the input is read from the store this time
    library.place.owners.embedder.handle.kill()  # the replicas look it up again
    after = pool.propose(library.asked)
    assert [each.context.id for each in after if isinstance(each, Recall)] == [
        each.context.id for each in before if isinstance(each, Recall)
    ]
    assert pool.propose([]) == []


def retriever_pids(place: Installation) -> set[int]:
    """Return the processes of the replicas that have opened the Ledger."""
    with place.watch() as link:
        rows = link.execute(
            "SELECT application_name FROM pg_stat_activity WHERE datname = current_database() "
            "AND application_name ~ '^vrm retriever'"
        ).fetchall()
    return {int(str(name).rsplit(" ", 1)[1]) for (name,) in rows} & place.pids()


@pytest.mark.slow
def test_a_replica_killed_in_the_middle_of_requests_fails_none_of_them(library: Library) -> None:
    pool = library.place.owners.retrievers
    pool.load(library.recall_input, library.index)
    assert [each.state for each in pool.readiness()] == ["ready", "ready"]
    assert {each.recall_input_id for each in pool.readiness()} == {library.recall_input}
    expected = {asked.id: answer for (asked, _), answer in zip(library.asked, pool.propose(library.asked), strict=True)}
    asked = [library.asked[each % 5] for each in range(60)]
    victim = min(retriever_pids(library.place))
    answered = Semaphore(0)

    def ask(one: tuple[DecisionIntent, RecallRequest]) -> Any:
        (answer,) = pool.propose([one])
        answered.release()
        return answer

    with ThreadPoolExecutor(6) as threads:
        waiting = [threads.submit(ask, one) for one in asked]
        for _ in range(10):
            assert answered.acquire(timeout=120)
        os.kill(victim, signal.SIGKILL)  # with requests in its hands and in its queue
        answers = [each.result() for each in waiting]
    for (one, _), answer in zip(asked, answers, strict=True):
        same = expected[one.id]
        assert isinstance(answer, Recall)
        assert isinstance(same, Recall)
        assert (answer.rendered, answer.context.id) == (same.rendered, same.context.id)
    until(lambda: {each.state for each in pool.readiness()} == {"ready"} and all(each.ready for each in pool._places))
    assert victim not in retriever_pids(library.place)


@pytest.mark.slow
def test_a_replica_says_what_it_has_loaded(library: Library) -> None:
    """A process of its own, so that nobody has loaded anything into it."""
    place = library.place.again()
    try:
        pool = place.owners.retrievers
        replica = pool.replicas[0]
        assert replica.call("readiness") == ("idle", None)
        assert replica.call("load", library.recall_input, None) == ("ready", library.recall_input)
        assert replica.call("readiness").state == "ready"
    finally:
        for handle in place.owners.handles().values():
            handle.kill()
