"""Whole requests at scale: the pool of replicas, the real model, both durable appends, over real Ray processes.

A request begins with its intent admitted and ends with its outcome settled: the answer of the pool, with the query's
vector by the real model; the context proposed, granted, appended and settled; the answer of a planner; the outcome
likewise. Left out are the Run, the Recall Input, the intent and the experiment, as in `evaluation.bench.deciding`.

Three fifths of the rules are a crowd about one task, so that every request about it may see tens of thousands of rows;
the other requests see as many as the catalog has contrasts. Requests take turns between the two kinds. No two have the
same words, so each one's vector is computed.

Vectors of the rules: those of the real model for a claim and its scope, moved by a little noise that follows from the
text. To embed a hundred thousand texts takes three quarters of an hour, and what a search costs does not depend on what
the numbers say. Nothing here measures quality.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from actors.handles import Owners, owners_of
from actors.settings import Settings, now
from evaluation.bench import corpus
from evaluation.bench.corpus import CATALOG, NOW, SPACE
from evaluation.bench.deciding import Decisions
from evaluation.bench.decision import (
    MANIFEST,
    PROFILE,
    SLOT,
    Preparation,
    contract_view,
    intent_of,
    request_of,
)
from evaluation.bench.measuring import significant
from evaluation.bench.protocol import write_transactions
from evaluation.bench.references import RawInserts
from evaluation.bench.server import Bench
from memory.commands import RunCommands
from memory.index.embedding import SentenceTransformerEmbedder, TextKind
from memory.recall.context import Recall
from memory.recall.document import query_text
from memory.spine import Spine
from records.decisions import BlockedProposal, DecisionIntent, RecallContext, RecallRequest
from records.errors import IntegrityError
from records.flows import Authority, Transition
from records.ids import RecallInputId
from records.runtime import RunBody
from store.runtime.port import RuntimeStore

_NOISE: Final = 0.02
_WARM: Final = 12
_RUN: Final = RunBody(
    namespace=SPACE,
    run_kind="SCIENTIFIC",
    admission_key="bench-recall",
    specification_digest=MANIFEST.canonical_digest,
    admitted_at=NOW,
)

Told = Callable[[int, int], None]


class SpreadEmbedder:
    """The real model for queries; for passages its vectors of what many share, each moved by noise of its own."""

    def __init__(self, model: SentenceTransformerEmbedder) -> None:
        """Use `model`."""
        self._model = model
        self._shared: dict[str, NDArray[np.float32]] = {}

    @property
    def id(self) -> str:
        """The model's id, since its queries are compared with these vectors."""
        return self._model.id

    @property
    def dimensions(self) -> int:
        """The length of a vector."""
        return self._model.dimensions

    def embed(self, texts: Sequence[str], *, kind: TextKind = "passage") -> NDArray[np.float32]:
        """Return one unit vector a text."""
        if kind == "query":
            return self._model.embed(texts, kind=kind)
        rows = [self._spread(text) for text in texts]
        return np.array(rows, dtype=np.float32).reshape(len(texts), self.dimensions)

    def _spread(self, text: str) -> NDArray[np.float32]:
        shared = text.partition(" Seen in ")[0].partition("\n")[0]
        if shared not in self._shared:
            self._shared[shared] = self._model.embed([shared])[0]
        seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
        moved = self._shared[shared] + _NOISE * np.random.default_rng(seed).standard_normal(self.dimensions)
        return np.asarray(moved / np.linalg.norm(moved), dtype=np.float32)


class Requests(Decisions):
    """Carries requests through the actors.

    Attributes:
        recall_input: what they query.
    """

    def __init__(self, scene: Scene, owners: Owners) -> None:
        """Admit the Run, append the experiments, and hand the index to the replicas."""
        bench, runtime, composed = scene.bench, scene.runtime, scene.composed
        self._runtime, self._artifacts, self._owners = runtime, bench.artifacts, owners
        self._coordinator, self.recall_input = owners.coordinator, composed.recall_input_id
        self._spine = Spine(bench.artifacts, owners.run_owner, owners.coordinator)
        bench.artifacts.publish_many([PROFILE.canonical, MANIFEST.canonical])
        RunCommands(runtime, bench.artifacts, owners.run_owner, now).drive_run(_RUN, [SLOT])
        owners.retrievers.load(composed.recall_input_id, composed.index)
        self._tasks = scene.tasks
        self._executed = {}
        for change in CATALOG.contrasts:
            self._execute(change)
        self.spent = {"recall": [], "context": [], "outcome": []}

    def asked(self, number: int) -> tuple[DecisionIntent, RecallRequest]:
        """Return request `number`: an even one is about the task of the crowd, an odd one about one of the others."""
        return asked_of(number, self.recall_input, self._tasks)

    def admit(self, numbers: range) -> None:
        """Register the decisions of requests; this is before anything that is measured."""
        for number in numbers:
            intent, _ = self.asked(number)
            attempt = self._attempt(intent)
            self._granted(attempt, Transition.APPEND_INTENT, Authority.ADMISSION, contract_view(), intent)

    def carry_request(self, number: int) -> None:
        """Take one request from its question to its settled outcome."""
        intent, request = self.asked(number)
        attempt = self._attempt(intent)
        with self._timed("recall"):
            context = self._answer(intent, request)
        with self._timed("context"):
            self._granted(attempt, Transition.APPEND_CONTEXT, Authority.NORMAL, context)
        with self._timed("outcome"):
            outcome = self._decide(intent, context)
            self._granted(attempt, Transition.APPEND_OUTCOME, Authority.NORMAL, outcome)

    def _answer(self, intent: DecisionIntent, request: RecallRequest) -> RecallContext:
        (answer,) = self._owners.retrievers.propose([(intent, request)])
        return cards_of(answer).context


def asked_of(number: int, recall_input: RecallInputId, tasks: int) -> tuple[DecisionIntent, RecallRequest]:
    """Return request `number`: an even one is about the task of the crowd, an odd one about one of `tasks` others."""
    subject = corpus.task(0 if number % 2 == 0 else 1 + number // 2 % tasks)
    intent = intent_of(_RUN.id, number, subject)
    return intent, request_of(intent, recall_input, subject, f"{corpus.case_words(number)} number {number}")


def cards_of(answer: Recall | BlockedProposal) -> Recall:
    """Return an answer that has cards; without them nothing was measured."""
    if not isinstance(answer, Recall) or not answer.context.items:
        raise IntegrityError("benchmark request", type(answer).__name__, "It got no cards; report this.")
    return answer


class Scene:
    """A store of rules with everything that requests need, on a server and a cluster that run already."""

    def __init__(
        self, bench: Bench, runtime: RuntimeStore, records: int, told: Callable[[str, int, int], None]
    ) -> None:
        """Fill the store and build the index."""
        self.bench, self.runtime, self.records, self._told = bench, runtime, records, told
        self.model = SentenceTransformerEmbedder()
        self.preparation = Preparation(bench)
        self.preparation.fill(records, lambda done, total: told("rules", done, total), crowd_of(records))
        told("index", 0, 1)
        begun = time.perf_counter()
        self.composed = self.preparation.compose(SpreadEmbedder(self.model))
        self.index_seconds = time.perf_counter() - begun
        told("index", 1, 1)

    @property
    def tasks(self) -> int:
        """How many tasks there are besides that of the crowd."""
        return (self.records - crowd_of(self.records)) // len(CATALOG.contrasts)

    @contextmanager
    def owners(self) -> Iterator[Owners]:
        """Return the actors of the store; they are ended afterwards."""
        owners = owners_of(self.settings)
        try:
            yield owners
        finally:
            for handle in owners.handles().values():
                handle.kill()

    @cached_property
    def settings(self) -> Settings:
        """What actors open."""
        return Settings(self.bench.urls.ledger_app, self.bench.urls.runtime_app, self.bench.artifacts.url)


def crowd_of(records: int) -> int:
    """Return how many rules are about one task: more than half, so that of 100,000 more than 50,000 are searched."""
    return records * 3 // 5


def measure_requests(scene: Scene, requests: int, told: Told) -> dict[str, Any]:
    """Time requests beside their floor, one after the other, and return the figures."""
    with scene.owners() as owners:
        carried = Requests(scene, owners)
        carried.admit(range(_WARM + requests))
        before = write_transactions(scene.bench.admin)
        for number in range(_WARM):
            carried.carry_request(number)
        commits = round((write_transactions(scene.bench.admin) - before) / _WARM)
        for spent in carried.spent.values():
            spent.clear()
        floor = _Floor(scene, commits)
        taken: list[float] = []
        for place in range(requests):
            number = _WARM + place
            begun = time.perf_counter()
            carried.carry_request(number)
            taken.append(time.perf_counter() - begun)
            floor.measure(carried, number)
            told(place + 1, requests)
    return _figures(taken, carried.spent, floor)


class _Floor:
    """What a request cannot do without: its text embedded here, alone, and as many raw commits as it makes."""

    def __init__(self, scene: Scene, commits: int) -> None:
        self.commits = commits
        self._model, self._raw, self._rows = scene.model, RawInserts(scene.bench.admin), 0
        self.embedding: list[float] = []
        self.whole: list[float] = []
        self.of_two: list[float] = []

    def measure(self, carried: Requests, number: int) -> None:
        intent, request = carried.asked(number)
        text, payload = query_text(request), intent.payload.decode()
        begun = time.perf_counter()
        self._model.embed([text], kind="query")
        embedded = time.perf_counter()
        ends = []
        for _ in range(self.commits):
            self._rows += 1
            self._raw.insert(self._rows, f"raw:{self._rows}", payload)
            ends.append(time.perf_counter())
        self.embedding.append(embedded - begun)
        self.whole.append(ends[-1] - begun)
        self.of_two.append(ends[1] - begun)


def _figures(taken: list[float], spent: dict[str, list[float]], floor: _Floor) -> dict[str, Any]:
    kinds = {"mixed": taken, "many_rows": taken[0::2], "few_rows": taken[1::2]}
    least, of_two = float(np.median(floor.whole)), float(np.median(floor.of_two))
    found: dict[str, Any] = {}
    for percent in (50, 95, 99):
        each = {kind: float(np.percentile(seconds, percent)) for kind, seconds in kinds.items()}
        found[f"p{percent}_ms"] = significant(each["mixed"] * 1e3)
        found[f"p{percent}_vs_floor"] = significant(each["mixed"] / least)
        found[f"p{percent}_vs_floor_by_kind"] = {kind: significant(value / least) for kind, value in each.items()}
        found[f"p{percent}_vs_floor_of_two_commits"] = significant(each["mixed"] / of_two)
    whole = sum(taken)
    return found | {
        "floor_ms": significant(least * 1e3),
        "floor_p95_ms": significant(float(np.percentile(floor.whole, 95)) * 1e3),
        "floor_commits": floor.commits,
        "query_embedding_ms": significant(float(np.median(floor.embedding)) * 1e3),
        "shares": {part: significant(sum(seconds) / whole) for part, seconds in spent.items()},
        "stage_p50_ms": {part: significant(float(np.median(seconds)) * 1e3) for part, seconds in spent.items()},
        "requests": len(taken),
    }
