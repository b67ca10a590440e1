"""Workers and replicas: they own nothing, propose or answer, and may die at any time."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import numpy as np
import ray

from actors.settings import Settings, code_digest, now
from memory.distillation.distiller import DistillationRequest
from memory.distillation.pinned import PinnedDistillers
from memory.index.ahead import AheadEmbedder, EagerEmbedder
from memory.index.embedding import Embedder, ModelSettings, SentenceTransformerEmbedder
from memory.recall.context import Recall
from memory.recall.document import query_text
from memory.recall.loaded import LoadedInput, UnusableInput
from memory.recall.retriever import DecisionPointRetriever
from memory.tokens import Tokenizer
from policies.retrieval_policy import retrieval_policy, shipped_policies
from records.appends import Proposal
from records.decisions import BlockedProposal, DecisionIntent, RecallRequest, RetentionEvidence
from records.errors import VrmError
from records.ids import RecallInputId
from store.artifacts import ArtifactStore
from store.ledger.postgres import PostgresLedger

if TYPE_CHECKING:
    from numpy.typing import NDArray

Asked = tuple[DecisionIntent, RecallRequest]
_KEPT: Final = 2


class DistillationWorkerActor:
    """Proposes; holds the view of the snapshots that it was asked about."""

    def __init__(self, settings: Settings) -> None:
        """Open the Ledger to read."""
        settings.watch()
        self._distillers = PinnedDistillers(PostgresLedger(settings.ledger_dsn, "distiller"), now)

    @ray.method
    def propose(self, requests: Sequence[DistillationRequest]) -> list[Proposal]:
        """Return one proposal per request."""
        return self._distillers.propose(requests)

    @ray.method(concurrency_group="health")
    def version(self) -> str:
        """Return the digest of the code that runs here."""
        return code_digest()


class Readiness(NamedTuple):
    """What a replica says of itself.

    Attributes:
        state: `idle` before anything was loaded, `loading` until what was asked for is loaded and warm, `ready` then.
        recall_input_id: what is loaded or being loaded.
    """

    state: Literal["idle", "loading", "ready"]
    recall_input_id: RecallInputId | None


class RetrieverReplicaActor:
    """Loaded Recall Inputs that answer requests; an index lies in memory that all replicas of a node share."""

    def __init__(self, settings: Settings, embedder: EagerEmbedder) -> None:
        """Open the stores to read; `embedder` is the one process that holds the model."""
        settings.watch()
        self._embedder, self._tokenizer = AheadEmbedder(embedder), Tokenizer()
        self._retriever = DecisionPointRetriever(
            PostgresLedger(settings.ledger_dsn, "retriever"),
            ArtifactStore(settings.artifacts_url),
            self._embedder,
            self._tokenizer,
            retrieval_policy(),
            also=shipped_policies(),
        )
        self._loaded: dict[RecallInputId, LoadedInput] = {}
        self._standing = Readiness("idle", None)

    @ray.method
    def load(self, recall_input_id: RecallInputId, index: NDArray[np.uint8] | None) -> Readiness:
        """Load a Recall Input, verify it, and use once all that a request uses.

        Args:
            recall_input_id: which input.
            index: its index bytes, which are used in place; None to map them from the artifact store.
        """
        self._load(recall_input_id, index)
        return self._standing

    def _load(self, recall_input_id: RecallInputId, index: NDArray[np.uint8] | None) -> LoadedInput | UnusableInput:
        """Load an input and keep it; what cannot be used may be whole again at the next request, and is not kept."""
        self._standing = Readiness("loading", recall_input_id)
        self._loaded.pop(recall_input_id, None)
        known = self._retriever.load(recall_input_id, None if index is None else index.data)
        if isinstance(known, LoadedInput):
            self._warm(known)
            self._keep(recall_input_id, known)
        self._standing = Readiness("ready", recall_input_id)
        return known

    @ray.method(max_task_retries=0)  # the pool has somebody else at hand, who answers before this one is back
    def propose(self, asked: Sequence[Asked]) -> list[Recall | BlockedProposal]:
        """Return one complete proposal per request, in order."""
        with self._embedder.ahead([query_text(request) for _, request in asked]):
            return [self._proposed(intent, request) for intent, request in asked]

    def _proposed(self, intent: DecisionIntent, request: RecallRequest) -> Recall | BlockedProposal:
        """Answer one request; an input that retention denies leaves this memory with its mapped bytes."""
        answer = self._retriever.propose(intent, request, self._input(request), now=now())
        if isinstance(answer, BlockedProposal) and isinstance(answer.evidence, RetentionEvidence):
            self._loaded.pop(request.recall_input_id, None)
        return answer

    @ray.method(concurrency_group="health")
    def readiness(self) -> Readiness:
        """Return how far this replica is, also while it loads or answers."""
        return self._standing

    @ray.method(concurrency_group="health")
    def version(self) -> str:
        """Return the digest of the code that runs here."""
        return code_digest()

    def _input(self, request: RecallRequest) -> LoadedInput | UnusableInput:
        """Return the loaded input; one that was not handed over, as after a restart, is read from the store."""
        known = self._loaded.get(request.recall_input_id)
        return self._load(request.recall_input_id, None) if known is None else known

    def _keep(self, recall_input_id: RecallInputId, known: LoadedInput) -> None:
        """Remember an input as the newest; of older ones a few are kept, for arms that take turns."""
        self._loaded[recall_input_id] = known
        while len(self._loaded) > _KEPT:
            del self._loaded[next(iter(self._loaded))]

    def _warm(self, known: LoadedInput) -> None:
        index, text = known.index, "warm"
        self._tokenizer.count(text)
        index.standing.foremost(np.arange(index.search.size), 1)
        index.search.lexical(text, limit=1)
        with suppress(VrmError):  # without the model, or with another one, a request says what comes of it
            index.search.semantic(self._embedder.embed([text], kind="query")[0], limit=1)


class EmbedderActor:
    """Holds the embedding model, which takes seconds to load and half a gigabyte."""

    def __init__(self, settings: Settings) -> None:
        """Load nothing yet; the model is loaded on first use."""
        self._settings = settings

    @cached_property
    def _embedder(self) -> Embedder:
        return SentenceTransformerEmbedder(ModelSettings.of(self._settings.embedding))

    @ray.method
    def identity(self) -> str:
        """Return the embedder's id; weights that may not be loaded have one too."""
        return self._embedder.id

    @ray.method
    def width(self) -> int:
        """Return the number of dimensions."""
        return self._embedder.dimensions

    @ray.method
    def embed(self, texts: Sequence[str], kind: str) -> NDArray[np.float32]:
        """Return one unit vector per text, shape (n, dimensions)."""
        return self._embedder.embed(texts, kind=kind)  # type: ignore[arg-type]  # the handle passes one of the two kinds

    @ray.method(concurrency_group="health")
    def version(self) -> str:
        """Return the digest of the code that runs here."""
        return code_digest()
