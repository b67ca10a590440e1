"""Filing what was read: records appended, read back and compared, and a receipt written last.

Rules kept here:

- artifact bytes are published before a record names them;
- records go in batches whose operation key follows from their ids: a batch that was appended before is a replay, so an
  import that was cut short goes on where it stopped, and importing again adds nothing;
- every record is read back from the Ledger, and its bytes must have the digest that the source's had;
- the receipt is appended only then. Without it an import is not finished, and it can always be finished.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from importers.ai_researcher.content import LegacyContent
from memory.ports import CoordinatorPort, all_good
from memory.spine import chunks
from records.appends import Append
from records.base import Record
from records.canonical import digest_bytes, domain_digest
from records.errors import IntegrityError
from records.fields import UNSCOPED
from records.flows import Transition
from records.ids import LegacyImportId
from records.legacy import LegacyRecord
from store.artifacts import ArtifactStore
from store.ledger.port import LedgerReader

Progress = Callable[[str, int, int], None]

_BATCH: Final = 100
_BATCH_BYTES: Final = 4 * 2**20
_GROUP: Final = 8
"""Batches that share one physical commit."""
_READ: Final = 100


@dataclass(frozen=True)
class Filed:
    """What an import did: its receipt, and how many records and receipts were new."""

    import_id: LegacyImportId
    new_records: int
    repeated: bool


def file_content(
    content: LegacyContent,
    ledger: LedgerReader,
    coordinator: CoordinatorPort,
    artifacts: ArtifactStore,
    progress: Progress = lambda _what, _done, _total: None,
) -> Filed:
    """File a source that was read whole; safe to repeat at any time.

    Raises:
        IntegrityError: the Ledger gives back other bytes than the source had; the receipt is not written.
        IdentityConflictError: the Ledger holds one of the records with another payload.
    """
    receipt = content.receipt
    repeated = ledger.get(str(receipt.id)) is not None
    before = ledger.namespace_head(UNSCOPED).position
    artifacts.publish_many(content.files)
    records = list(content.records.values())
    appends = [_append(batch) for batch in _batches(records)]
    done = 0
    for group in chunks(appends, _GROUP):
        all_good(coordinator.append_direct(group))
        done += sum(len(append.records) for append in group)
        progress("records filed", done, len(records))
    _read_back(records, ledger, progress)
    all_good(coordinator.append_direct([_append([receipt])]))
    if ledger.get(str(receipt.id)) is None:
        raise IntegrityError("legacy-import", str(receipt.id), "The Ledger does not give it back; run fsck.")
    return Filed(LegacyImportId(receipt.id), ledger.namespace_head(UNSCOPED).position - before, repeated)


def _append(records: Sequence[Record]) -> Append:
    ids = [str(record.id) for record in records]
    return Append.direct(
        Transition.IMPORT_LEGACY, f"import-legacy/{domain_digest('legacy-batch', ids)}", tuple(records)
    )


def _batches(records: Sequence[LegacyRecord]) -> Iterator[list[LegacyRecord]]:
    batch: list[LegacyRecord] = []
    size = 0
    for record in records:
        if batch and (len(batch) == _BATCH or size + len(record.content) > _BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(record)
        size += len(record.content)
    if batch:
        yield batch


def _read_back(records: Sequence[LegacyRecord], ledger: LedgerReader, progress: Progress) -> None:
    for start in range(0, len(records), _READ):
        part = records[start : start + _READ]
        found = ledger.get_many([str(record.id) for record in part])
        for record in part:
            stored = found.get(str(record.id))
            kept = None if stored is None else stored.load()
            if not isinstance(kept, LegacyRecord) or digest_bytes(kept.data) != record.sha256:
                raise IntegrityError(str(record.id), "other bytes than were imported", "Run fsck on the ledger.")
        progress("records read back", start + len(part), len(records))
