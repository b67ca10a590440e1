"""Heads as folds: every scope variant's head must be what its lifecycle events lead to (VRM-L01)."""

from __future__ import annotations

from collections import defaultdict

from memory.fsck.case import Case, Chunk
from memory.fsck.report import Code
from policies.lifecycle_policy import LifecycleFact, LifecycleHead, fold
from records.errors import VrmError
from records.knowledge import GovernedRecord, LifecycleEvent


class LifecycleCheck:
    """Collects one namespace's events while its journal is walked, then folds them."""

    def __init__(self) -> None:
        self._chains: dict[str, list[LifecycleFact]] = defaultdict(list)

    def collect(self, case: Case, chunk: Chunk) -> None:
        """Take the events of a stretch of journal, comparing each with the record it is about."""
        events = chunk.of(LifecycleEvent)
        records = case.read((event.memory_id for event in events.values()), GovernedRecord)
        for key, event in events.items():
            fact = LifecycleFact.of(event)
            self._chains[str(event.scope_variant_id)].append(fact)
            record = records.get(str(event.memory_id))
            if record is not None and record.scope_variant_id != event.scope_variant_id:
                case.findings.add(Code.EVENT_RECORD, key, f"{event.memory_id} belongs to {record.scope_variant_id}")

    def finish(self, case: Case, namespace: str) -> None:
        """Compare the folds with the stored heads, in both directions."""
        stored = case.reader.variant_heads(namespace)
        folded: dict[str, LifecycleHead] = {}
        for variant, chain in sorted(self._chains.items()):
            try:
                folded[variant] = fold(chain)[variant]
            except VrmError as error:
                case.findings.add(Code.LIFECYCLE_CHAIN, variant, str(error))
                stored.pop(variant, None)
        for variant in sorted(stored.keys() | folded.keys()):
            head, wanted = stored.get(variant), folded.get(variant)
            found = None if head is None else (head.event_id, head.memory_id, head.disposition, head.version)
            follows = None
            if wanted is not None:
                follows = (wanted.event_id, wanted.memory_id, wanted.disposition.value, wanted.length)
            if found != follows:
                case.findings.add(Code.HEAD_NOT_FOLD, variant, f"the head is {found}, the events lead to {follows}")
        case.findings.checked["heads"] += len(stored)
