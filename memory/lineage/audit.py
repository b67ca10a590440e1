"""Whether the files that lineage memory names are still what it says (spec 003; reference.md 2.2, 2.5(1) and (6)).

Rules kept here: every file of every report and entry is read again, below its node's folder and nowhere else; what was
said once is not believed. A digest that nobody claimed is compared too, for bytes that changed are not what was
reported, but a match of it verifies nothing: it stays unhashed. What cannot be read is missing, with why.
What retention denies, and what a node wrote whose report it denies, is not looked at: those files are to be gone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from memory.lineage.files import Hashed, UnreadableFileError, hash_below
from memory.lineage.tree import denial_test
from records.lineage import EntryArtifact, EntryIntegrity, Integrity, LineageEntry, NodeReport
from records.models import Id
from store.ledger.port import FindValue, LedgerReader

_Named = tuple[str, str | None, str | None]
"""A path, the digest that was claimed for it, and the one that was computed."""
BROKEN: Final = frozenset({Integrity.MISSING, Integrity.MISMATCH})
"""What an audit does not pass over."""


@dataclass(frozen=True, kw_only=True)
class AuditedFile:
    """One file of one record.

    Attributes:
        record_id: the report or the entry that names it.
        expected: the digest that the record holds; null where it holds none.
        found: the digest of the bytes that are there now; null where none can be read.
        detail: why none can be read; empty where they were.
    """

    checkpoint_id: str
    node_id: str
    record_id: Id
    relative_path: str
    status: Integrity
    expected: str | None
    found: str | None
    detail: str


@dataclass(frozen=True)
class ArtifactAudit:
    """Every file that was looked at, in the order of the records, and how many records there are."""

    files: tuple[AuditedFile, ...]
    records: int

    @property
    def counts(self) -> dict[Integrity, int]:
        """How many files there are of each status."""
        counted = Counter(each.status for each in self.files)
        return {status: counted[status] for status in Integrity}

    @property
    def is_whole(self) -> bool:
        """Whether no file is missing and none has other bytes."""
        return not any(each.status in BROKEN for each in self.files)


def audit_artifacts(
    reader: LedgerReader,
    namespace: str,
    root: Path,
    checkpoint_id: str | None = None,
    *,
    progress: Callable[[str, int, int], None] = lambda _what, _done, _total: None,
) -> ArtifactAudit:
    """Read again every file that reports and entries of a namespace name.

    Args:
        reader: the Ledger.
        namespace: where the records are.
        root: the folder of all trees; a node's own is `<root>/<checkpoint>/<node>`.
        checkpoint_id: the only tree to look at; null is every one.
        progress: is told how far it is.
    """
    equal: dict[str, FindValue] = {} if checkpoint_id is None else {"checkpoint_id": checkpoint_id}
    nouns = (NodeReport.kind.noun, LineageEntry.kind.noun)
    rows = [each for noun in nouns for each in reader.find(noun, namespace, **equal)]
    disk, found = _Disk(root), list[AuditedFile]()
    is_denied, erased, looked_at = denial_test(reader, namespace), set[tuple[str, str]](), 0
    for done, row in enumerate(rows, start=1):  # reports before entries
        record = row.load()
        if isinstance(record, NodeReport | LineageEntry):
            node = (record.checkpoint_id, record.node_id)
            if is_denied(row.id):
                erased |= {node} if isinstance(record, NodeReport) else set()
            elif node not in erased:
                looked_at += 1
                found += _audit(record, _named_by(record), disk)
        progress("records", done, len(rows))
    return ArtifactAudit(tuple(found), looked_at)


def _named_by(record: NodeReport | LineageEntry) -> list[_Named]:
    if isinstance(record, NodeReport):
        return [(each.relative_path, each.claimed, each.computed) for each in record.artifacts]
    return [_named(each) for each in record.artifacts]


def _named(each: EntryArtifact) -> _Named:
    verified = each.integrity is EntryIntegrity.VERIFIED
    return each.relative_path, each.sha256 if verified else None, each.sha256


@dataclass
class _Disk:
    """The files of all nodes, each read once."""

    root: Path
    _read: dict[tuple[str, str, str], Hashed | str] = field(default_factory=dict)

    def look(self, checkpoint_id: str, node_id: str, path: str) -> Hashed | str:
        """Return the digest of a file, or why it cannot be read."""
        key = (checkpoint_id, node_id, path)
        if key not in self._read:
            try:
                self._read[key] = hash_below(self.root, path, (checkpoint_id, node_id))
            except UnreadableFileError as error:
                self._read[key] = error.fault.value
        return self._read[key]


def _audit(record: NodeReport | LineageEntry, named: Sequence[_Named], disk: _Disk) -> Iterator[AuditedFile]:
    for path, claimed, computed in named:
        looked = disk.look(record.checkpoint_id, record.node_id, path)
        found = looked.sha256 if isinstance(looked, Hashed) else None
        yield AuditedFile(
            checkpoint_id=record.checkpoint_id,
            node_id=record.node_id,
            record_id=record.id,
            relative_path=path,
            status=_status(found, claimed, computed),
            expected=claimed or computed,
            found=found,
            detail="" if isinstance(looked, Hashed) else looked,
        )


def _status(found: str | None, claimed: str | None, computed: str | None) -> Integrity:
    if found is None:
        return Integrity.MISSING
    if claimed is not None:
        return Integrity.VERIFIED if found == claimed else Integrity.MISMATCH
    return Integrity.UNHASHED if computed in (None, found) else Integrity.MISMATCH
