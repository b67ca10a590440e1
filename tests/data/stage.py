"""A world as tests hold it: its stores, its owners, and short ways to look into it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from importers.published_table import PublishedTable
from memory.run_owner import RunOwner
from memory.spine import Spine
from records.canonical import digest_bytes
from records.knowledge import MemoryRecord
from records.values import (
    Disposition,
)
from store.artifacts import ArtifactStore
from store.ledger.port import LedgerStore
from store.runtime.port import RuntimeStore

NOW = "2026-01-01T00:00:00.000000Z"


def digest(text: str) -> str:
    """Return a digest that stands for something outside this world."""
    return digest_bytes(text.encode())


@dataclass(frozen=True)
class World:
    """Stores with their owners, and what was written into one namespace."""

    ledger: LedgerStore
    runtime: RuntimeStore
    artifacts: ArtifactStore
    table: PublishedTable
    namespace: str
    owner: RunOwner
    spine: Spine

    @property
    def head(self) -> dict[str, Any]:
        """The two fields that every record begins with."""
        return {"namespace": self.namespace, "created_at": NOW}


def active_rules(world: World) -> list[MemoryRecord]:
    """Return the rules whose heads are active, in the order of their variants."""
    heads = world.ledger.variant_heads(world.namespace).values()
    ids = [head.memory_id for head in heads if head.disposition == Disposition.ACTIVE.value]
    loaded = [stored.load() for stored in world.ledger.get_many(ids).values()]
    return [record for record in loaded if isinstance(record, MemoryRecord)]


def one(world: World, noun: str) -> str:
    """Return the id of the first record of a kind."""
    return world.ledger.find(noun, world.namespace)[0].id
