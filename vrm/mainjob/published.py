"""Importing a published table: the same bundles as for experiments; times come from the manifest, not the clock."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from importers.published_table import import_run, read_published_table, trials
from memory.evidence import bundle_records
from memory.spine import GROUP, chunks
from records.appends import Append
from records.canonical import domain_digest
from records.flows import Transition
from records.ids import RunId
from vrm.mainjob.job import Job, require

SLOT: Final = "import"
SHIPPED: Final = Path(__file__).resolve().parent.parent.parent / "importers" / "data" / "hpobench_mlp"
"""The extract of HPOBench's MLP table that ships with the project; its provenance lies beside it."""


def import_table(job: Job, folder: Path = SHIPPED) -> RunId:
    """Import a table whole or not at all per row group; importing it again is a replay.

    Raises:
        InvalidSourceError: the table is damaged, incomplete or of another shape; nothing is imported.
    """
    table = read_published_table(folder)
    body = import_run(table, job.namespace)
    job.admit([body], SLOT)
    rows = list(trials(table, job.namespace, job.stores.artifacts))
    keys = [f"published/{domain_digest('published-row', [body.id, place])}" for place in range(len(rows))]
    known = job.stores.ledger.receipts(job.namespace, keys)
    with job.step("Published table: rows imported", len(rows)) as advance:
        advance(len(known))
        waiting = [(key, trial) for key, trial in zip(keys, rows, strict=True) if key not in known]
        for group in chunks(waiting, GROUP):
            appends = [Append.direct(Transition.APPEND_EVIDENCE, key, bundle_records(trial)) for key, trial in group]
            require(job.spine.direct(appends))
            advance(len(group))
    return body.id
