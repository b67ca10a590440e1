"""The Embedding Policy: which model turns texts into vectors (spec 14, VRM-O01, O02).

Rules kept here: a model is named together with the SHA-256 of its weights, never by its name alone; what else decides
its bits, from the tokenizer to the libraries, is found where it runs and is part of the embedder's id. An installation
uses the packaged policy, or a file of its own, which `VRM_EMBEDDING_POLICY` names.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import StringConstraints

from policies.loading import Policy, packaged_policy
from records.fields import Digest, Text


class EmbeddingPolicy(Policy):
    """One version of the policy.

    Attributes:
        model: `bundled:all-MiniLM-L6-v2`, a folder, or a name whose files are in the local Hugging Face cache.
        weights_sha256: the SHA-256 of its one safetensors file.
        query_prompt: text put before each query, for models that were trained so.
        passage_prompt: text put before each passage.
    """

    model: Text
    weights_sha256: Digest
    query_prompt: Annotated[str, StringConstraints(max_length=1000)]
    passage_prompt: Annotated[str, StringConstraints(max_length=1000)]


def embedding_policy(version: str = "1") -> EmbeddingPolicy:
    """Return the packaged policy of a version.

    Raises:
        InvalidInputError: no such version ships.
    """
    return packaged_policy(EmbeddingPolicy, "embedding", version)
