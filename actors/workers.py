"""Workers and replicas: they own nothing, propose or answer, and may die at any time."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import ray

from actors.settings import Settings, code_digest, now
from memory.distillation.distiller import DistillationRequest, KnowledgeDistiller
from memory.distillation.view import Policies
from memory.index.embedding import Embedder, SentenceTransformerEmbedder
from policies.distillation_policy import distillation_policy
from policies.lifecycle_policy import lifecycle_policy
from records.appends import Proposal
from store.ledger.postgres import PostgresLedger

if TYPE_CHECKING:
    from numpy.typing import NDArray


class DistillationWorkerActor:
    """Proposes; holds the view of the snapshots that it was asked about."""

    def __init__(self, settings: Settings) -> None:
        """Open the Ledger to read."""
        policies = Policies(distillation=distillation_policy(), lifecycle=lifecycle_policy())
        self._distiller = KnowledgeDistiller(PostgresLedger(settings.ledger_dsn, "distiller"), policies, now)

    @ray.method
    def propose(self, requests: Sequence[DistillationRequest]) -> list[Proposal]:
        """Return one proposal per request."""
        return self._distiller.propose(requests)

    @ray.method(concurrency_group="health")
    def version(self) -> str:
        """Return the digest of the code that runs here."""
        return code_digest()


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
