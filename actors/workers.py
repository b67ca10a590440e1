"""Workers and replicas: they own nothing, propose or answer, and may die at any time."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import ray

from actors.settings import Settings, code_digest, now
from memory.distillation.distiller import DistillationRequest
from memory.distillation.pinned import PinnedDistillers
from memory.index.embedding import Embedder, SentenceTransformerEmbedder
from memory.recall.context import Recall
from memory.recall.loaded import LoadedInput, UnusableInput
from memory.recall.retriever import DecisionPointRetriever
from memory.tokens import Tokenizer
from policies.retrieval_policy import retrieval_policy, shipped_policies
from records.appends import Proposal
from records.decisions import BlockedProposal, DecisionIntent, RecallRequest
from records.ids import RecallInputId
from store.artifacts import ArtifactStore
from store.ledger.postgres import PostgresLedger

if TYPE_CHECKING:
    from numpy.typing import NDArray

Asked = tuple[DecisionIntent, RecallRequest]


class DistillationWorkerActor:
    """Proposes; holds the view of the snapshots that it was asked about."""

    def __init__(self, settings: Settings) -> None:
        """Open the Ledger to read."""
        self._distillers = PinnedDistillers(PostgresLedger(settings.ledger_dsn, "distiller"), now)

    @ray.method
    def propose(self, requests: Sequence[DistillationRequest]) -> list[Proposal]:
        """Return one proposal per request."""
        return self._distillers.propose(requests)

    @ray.method(concurrency_group="health")
    def version(self) -> str:
        """Return the digest of the code that runs here."""
        return code_digest()


class RetrieverReplicaActor:
    """A loaded Recall Input that answers requests; the index lies in shared memory, once per node."""

    def __init__(self, settings: Settings, embedder: Embedder) -> None:
        """Open the stores to read; `embedder` is the one process that holds the model."""
        self._retriever = DecisionPointRetriever(
            PostgresLedger(settings.ledger_dsn, "retriever"),
            ArtifactStore(settings.artifacts_url),
            embedder,
            Tokenizer(),
            retrieval_policy(),
            also=shipped_policies(),
        )
        self._loaded: dict[RecallInputId, LoadedInput | UnusableInput] = {}

    @ray.method
    def load(self, recall_input_id: RecallInputId, index: NDArray[np.uint8]) -> None:
        """Load a Recall Input whose index bytes are given; the array is used in place, and verified."""
        self._loaded = {recall_input_id: self._retriever.load(recall_input_id, index.data)}

    @ray.method
    def propose(self, asked: Sequence[Asked]) -> list[Recall | BlockedProposal]:
        """Return one complete proposal per request, in order."""
        return [self._retriever.propose(intent, request, self._input(request), now=now()) for intent, request in asked]

    @ray.method(concurrency_group="health")
    def version(self) -> str:
        """Return the digest of the code that runs here."""
        return code_digest()

    def _input(self, request: RecallRequest) -> LoadedInput | UnusableInput:
        """Return the loaded input; one that was not handed over, as after a restart, is read from the store."""
        known = self._loaded.get(request.recall_input_id)
        if known is None:
            known = self._retriever.load(request.recall_input_id)
            self._loaded = {request.recall_input_id: known}
        return known


class EmbedderActor:
    """Holds the embedding model, which takes seconds to load and half a gigabyte."""

    def __init__(self, settings: Settings) -> None:
        """Load nothing yet; the model is loaded on first use."""
        self._settings = settings

    @cached_property
    def _embedder(self) -> Embedder:
        return SentenceTransformerEmbedder()

    @ray.method
    def identity(self) -> tuple[str, int]:
        """Return the embedder's id and its number of dimensions."""
        return self._embedder.id, self._embedder.dimensions

    @ray.method
    def embed(self, texts: Sequence[str], kind: str) -> NDArray[np.float32]:
        """Return one unit vector per text, shape (n, dimensions)."""
        return self._embedder.embed(texts, kind=kind)  # type: ignore[arg-type]  # the handle passes one of the two kinds

    @ray.method(concurrency_group="health")
    def version(self) -> str:
        """Return the digest of the code that runs here."""
        return code_digest()
