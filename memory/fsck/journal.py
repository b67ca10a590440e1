"""The journal of each namespace: gapless, chained, with the frontiers and the head that follow from it.

The chain formula is written here a second time on purpose: a checker that called the writer's own function could not
find a mistake in it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from memory.fsck.case import Case, Chunk
from memory.fsck.codes import Code
from memory.fsck.receipts import read_receipts
from memory.fsck.rows import by_noun, read_records
from records.appends import JournalRow, NamespaceHead
from records.base import KINDS

ChunkCheck = Callable[[Case, Chunk], None]

CHUNK: Final = 1000
"""Journal rows that are read and checked together; a stretch is cut where an append ends."""
LIMIT: Final = 20 * CHUNK
"""Where a stretch is cut in any case."""
BYTES: Final = 8_000_000
"""Payload that is held together; a record, or what one permit wrote, may be more by itself."""

_CHAIN: Final = b"vrm/ledger-chain/v1" + bytes(1)


def check_namespace(case: Case, namespace: str, checks: tuple[ChunkCheck, ...]) -> None:
    """Walk one journal, give each stretch of it to the checks, and compare the end with the stored head."""
    stored = case.reader.namespace_head(namespace)
    walk = _Walk(case)
    for rows in _stretches(case, case.scan.journal(namespace)):
        for row in rows:
            walk.step(row)
        records = read_records(case, rows)
        chunk = Chunk(namespace, rows, records, read_receipts(case, rows))
        for check in checks:
            check(case, chunk)
        case.findings.checked["journal rows"] += len(rows)
        case.findings.checked["records"] += len(records)
        case.progress(f"journal of {namespace}", walk.position, stored.position)
    walk.compare(stored)


def _stretches(case: Case, rows: Iterable[JournalRow]) -> Iterator[tuple[JournalRow, ...]]:
    held: list[JournalRow] = []
    for row in rows:
        ended = bool(held) and row.permit_key != held[-1].permit_key
        if (ended and len(held) >= CHUNK) or len(held) >= LIMIT:
            yield from _within_bytes(case, tuple(held))
            held.clear()
        held.append(row)
    if held:
        yield from _within_bytes(case, tuple(held))


def _within_bytes(case: Case, rows: tuple[JournalRow, ...]) -> Iterator[tuple[JournalRow, ...]]:
    sizes = case.scan.sizes(by_noun(rows))
    if sum(sizes.values()) <= BYTES:
        yield rows
        return
    held: list[JournalRow] = []
    size = 0
    for _, group in groupby(rows, key=lambda row: row.permit_key):
        append = list(group)
        more = sum(sizes.get(row.id, 0) for row in append)
        if held and size + more > BYTES:
            yield tuple(held)
            held, size = [], 0
        held += append
        size += more
    yield tuple(held)


@dataclass
class _Walk:
    """Where a walk along one journal has come to."""

    case: Case
    position: int = 0
    chain: str = "0" * 64

    def __post_init__(self) -> None:
        self.frontiers = {"evidence": 0, "lifecycle": 0, "retention": 0}

    def step(self, row: JournalRow) -> None:
        """Take one row; a break is told where it is, because the walk goes on from what is stored."""
        if row.position != self.position + 1:
            missing = f"positions {self.position + 1} to {row.position - 1} of {row.namespace} are missing"
            self.case.findings.add(Code.JOURNAL_GAP, row.id, missing)
        elif _chained(self.chain, row) != row.chain_digest:
            met = f"position {row.position} does not follow from its predecessor"
            self.case.findings.add(Code.CHAIN_BROKEN, row.id, met)
        self.position, self.chain = row.position, row.chain_digest
        kind = KINDS.get(row.noun)
        if kind is not None and kind.frontier is not None:
            self.frontiers[kind.frontier.value] = row.position

    def compare(self, stored: NamespaceHead) -> None:
        """Compare where the journal ends with what its head says."""
        if (self.position, self.chain) != (stored.position, stored.chain_digest):
            met = f"the head is at {stored.position} ({stored.chain_digest[:12]}…), the journal at {self.position}"
            self.case.findings.add(Code.NAMESPACE_HEAD, stored.namespace, f"{met} ({self.chain[:12]}…)")
        for name, reached in self.frontiers.items():
            if reached != getattr(stored, name):
                met = f"{name} frontier {getattr(stored, name)}, the journal gives {reached}"
                self.case.findings.add(Code.FRONTIER, stored.namespace, met)


def _chained(previous: str, row: JournalRow) -> str:
    facts = f"{previous}\n{row.namespace}\n{row.position}\n{row.noun}\n{row.id}\n{row.payload_digest}"
    return hashlib.sha256(_CHAIN + facts.encode()).hexdigest()
