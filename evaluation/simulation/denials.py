"""What must hold of an erasure after every step.

Rules checked here:

- a context is written under the retention frontier at which it stands, and no other;
- nothing that is distilled, drawn or captured names what was denied before it: the evidence that is erased, and the
  experiences that are made of it. What merely follows an erased rule may name it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from evaluation.bench.corpus import SPACE
from evaluation.simulation.world import World
from records.appends import JournalRow
from records.canonical import parse_canonical
from records.retention import TargetKind

_RETENTION: Final = frozenset({"retention-erasure-intent", "memory-retention-tombstone"})
_RESTING: Final = frozenset({"distillation-batch", "knowledge-candidate", "memory-record", "evidence-snapshot"})


class DenialCheck:
    """Follows what is denied."""

    def __init__(self, world: World) -> None:
        """Follow the Ledger of a world in which nothing is denied yet."""
        self._world = world
        self._frontier = 0
        self._denied: set[str] = set()

    def check(self, rows: Iterable[JournalRow]) -> None:
        """Check new rows, in their order."""
        for row in rows:
            payload = self._world.ledger.content.records[row.id].payload
            for broken in self._of(row, payload):
                self._world.complain(f"{row.id} at {row.position}: {broken}")

    def _of(self, row: JournalRow, payload: str) -> Iterator[str]:
        if row.noun in _RETENTION:
            self._frontier = row.position
            self._deny(parse_canonical(payload))
        elif row.noun == "decision-recall-context":
            frontier = parse_canonical(payload)["retention"]["frontier"]
            if frontier != self._frontier:
                yield f"it was made at retention frontier {frontier}, and that is at {self._frontier}"
        elif row.noun in _RESTING:
            yield from (f"it rests on {each}, which is denied" for each in sorted(self._denied) if each in payload)

    def _deny(self, fact: dict[str, Any]) -> None:
        if fact["target_kind"] == TargetKind.MEMORY.value:
            return
        self._denied.add(fact["target_id"])
        content = self._world.ledger.content
        for each in content.by_kind.get(("experience", SPACE), []):
            if fact["target_id"] in content.records[each].payload:
                self._denied.add(each)
