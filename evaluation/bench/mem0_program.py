"""mem0 as it is searched: run by the Python of an environment that holds it, and nothing of this project.

Rules kept here: one JSON value a line, in and out; the collection is made by mem0 itself, and its rows are written by
the caller; a vector is given and never computed; no language model is asked, and nothing is sent anywhere.
"""

from __future__ import annotations

import importlib
import json
import sys
from importlib import metadata
from typing import Any


class Given:
    """An embedder that knows the vectors of the texts that will be asked."""

    def __init__(self) -> None:
        """Know none yet."""
        self.vectors: dict[str, list[float]] = {}

    def embed(self, text: str, memory_action: str | None = None) -> list[float]:  # noqa: ARG002  # mem0 gives both
        """Return the vector of a text."""
        return self.vectors[text]


def opened(dsn: str, dimensions: int, embedder: Given) -> Any:
    """Return a memory over a collection of a database, made if it is not there; its search is exact."""
    store = {
        "connection_string": dsn,
        "collection_name": "memories",
        "embedding_model_dims": dimensions,
        "hnsw": False,
        "diskann": False,
    }
    nobody = {"provider": "openai", "config": {"api_key": "none"}}  # made, as mem0 wants it, and never asked
    memory = importlib.import_module("mem0").Memory.from_config(
        {
            "vector_store": {"provider": "pgvector", "config": store},
            "llm": nobody,
            "embedder": nobody,
            "history_db_path": ":memory:",
        }
    )
    memory.embedding_model = embedder
    memory.vector_store.search(query="", vectors=[0.0] * dimensions, top_k=1)
    return memory


def main() -> None:
    """Open the memory that the first line names, learn the questions of the second, and answer one a line by number."""
    first = json.loads(sys.stdin.readline())
    embedder = Given()
    memory = opened(first["dsn"], first["dimensions"], embedder)
    answer({"version": metadata.version("mem0ai")})
    asked = json.loads(sys.stdin.readline())
    embedder.vectors = {each["text"]: each["vector"] for each in asked}
    answer({"asked": len(asked)})
    for line in sys.stdin:
        each = asked[json.loads(line)]
        found = memory.search(each["text"], filters={"user_id": each["task"]}, top_k=first["top_k"], threshold=0.0)
        answer({"found": len(found["results"])})


def answer(value: Any) -> None:
    """Write one line."""
    print(json.dumps(value), flush=True)  # noqa: T201  # what the caller reads


if __name__ == "__main__":
    main()
