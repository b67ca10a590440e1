"""What an actor needs to open its own stores; plain values, so that it travels between processes."""

from __future__ import annotations

import hashlib
import os
import socket
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Final

from memory.trace.log import open_log
from policies.embedding_policy import EmbeddingPolicy, embedding_policy

PACKAGES: Final = ("records", "policies", "store", "memory", "actors", "experiments", "importers", "evaluation", "vrm")


@dataclass(frozen=True)
class Settings:
    """Addresses of the stores; two installations on one cluster differ in them, and so do the names of their actors.

    Attributes:
        ledger_dsn, runtime_dsn: the application roles' addresses.
        artifacts_url: the artifact store.
        embedding: which model the embedder holds.
        events: the file that events are written to, where the installation has one; empty for none. It is no part of
            the names.
    """

    ledger_dsn: str
    runtime_dsn: str
    artifacts_url: str
    embedding: EmbeddingPolicy = field(default_factory=embedding_policy)
    events: str = ""

    def actor_name(self, role: str) -> str:
        """Return the name under which an actor of this installation is found."""
        key = f"{self.ledger_dsn}\n{self.runtime_dsn}\n{self.artifacts_url}\n{self.embedding.identity.digest}"
        return f"{role}@{hashlib.sha256(key.encode()).hexdigest()[:12]}"

    def watch(self) -> None:
        """Write the events of this process where the installation keeps them."""
        if self.events:
            open_log(Path(self.events))

    def holder(self, role: str) -> str:
        """Return who claims, for the server's activity view."""
        return f"{role} {socket.gethostname()} {os.getpid()}"


def now() -> str:
    """Read the clock as a record timestamp."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


@lru_cache(maxsize=1)
def code_digest() -> str:
    """Return the digest of the project's sources, by which a running owner of older code is told apart."""
    root = Path(__file__).resolve().parent.parent
    digest = hashlib.sha256()
    for package in PACKAGES:
        for path in sorted((root / package).rglob("*")):
            if path.suffix in {".py", ".yaml"} and path.is_file():
                digest.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()
