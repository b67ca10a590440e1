"""The journal of each namespace: gapless, chained, with the frontiers and the head that follow from it.

The chain formula is written here a second time on purpose: a checker that called the writer's own function could not
find a mistake in it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice

from memory.fsck.case import Case, Chunk
from memory.fsck.report import Code
from memory.fsck.rows import CHUNK, read_chunk
from records.appends import JournalRow, NamespaceHead
from records.base import KINDS, Frontier

ChunkCheck = Callable[[Case, Chunk], None]


def check_namespace(case: Case, namespace: str, checks: tuple[ChunkCheck, ...]) -> None:
    """Walk one journal, give each stretch of it to the checks, and compare the end with the stored head."""
    stored = case.reader.namespace_head(namespace)
    reached = NamespaceHead(namespace=namespace)
    for rows in _stretches(case.scan.journal(namespace)):
        for row in rows:
            reached = _step(case, reached, row)
        chunk = read_chunk(case, rows)
        for check in checks:
            check(case, chunk)
        case.findings.checked["journal rows"] += len(rows)
        case.findings.checked["records"] += len(chunk.records)
        case.progress(f"journal of {namespace}", reached.position, stored.position)
    _compare(case, reached, stored)


def _stretches(rows: Iterator[JournalRow]) -> Iterator[tuple[JournalRow, ...]]:
    while stretch := tuple(islice(rows, CHUNK)):
        yield stretch


def _step(case: Case, before: NamespaceHead, row: JournalRow) -> NamespaceHead:
    if row.position != before.position + 1:
        missing = f"positions {before.position + 1} to {row.position - 1} of {row.namespace} are missing"
        case.findings.add(Code.JOURNAL_GAP, row.id, missing)
    elif _chained(before.chain_digest, row) != row.chain_digest:
        case.findings.add(Code.CHAIN_BROKEN, row.id, f"position {row.position} does not follow from its predecessor")
    # Going on from what is stored tells where the chain breaks, and not that everything after it differs.
    after = replace(before, position=row.position, chain_digest=row.chain_digest)
    kind = KINDS.get(row.noun)
    if kind is not None and kind.frontier is not None:
        after = _advance(after, kind.frontier, row.position)
    return after


def _advance(head: NamespaceHead, frontier: Frontier, position: int) -> NamespaceHead:
    match frontier:
        case Frontier.EVIDENCE:
            return replace(head, evidence=position)
        case Frontier.LIFECYCLE:
            return replace(head, lifecycle=position)
        case Frontier.RETENTION:
            return replace(head, retention=position)


def _chained(previous: str, row: JournalRow) -> str:
    facts = [previous, row.namespace, str(row.position), row.noun, row.id, row.payload_digest]
    return hashlib.sha256(b"vrm/ledger-chain/v1" + bytes(1) + "\n".join(facts).encode()).hexdigest()


def _compare(case: Case, reached: NamespaceHead, stored: NamespaceHead) -> None:
    if (reached.position, reached.chain_digest) != (stored.position, stored.chain_digest):
        met = f"the head is at {stored.position} ({stored.chain_digest[:12]}…), the journal at {reached.position}"
        case.findings.add(Code.NAMESPACE_HEAD, stored.namespace, f"{met} ({reached.chain_digest[:12]}…)")
    for name in ("evidence", "lifecycle", "retention"):
        if getattr(reached, name) != getattr(stored, name):
            met = f"{name} frontier {getattr(stored, name)}, the journal gives {getattr(reached, name)}"
            case.findings.add(Code.FRONTIER, stored.namespace, met)
