"""Importing a published table: the same bundles as for experiments; times come from the manifest, not the clock.

What an import left undone is done by the reader that began it, or not at all: a table in two contracts would compare
half of its rows with nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from importers.published_table import contract, import_run, read_published_table, trials
from memory.evidence import bundle_records
from memory.spine import GROUP, chunks
from records.appends import Append, AppendReceipt
from records.canonical import domain_digest
from records.errors import StaleError
from records.evidence import EvaluationContract
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
        StaleError: another version of the reader imported some of its rows; nothing is added to them.
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
        if waiting:
            _require_reader(job, contract(table, job.namespace), known.values())
        for group in chunks(waiting, GROUP):
            appends = [Append.direct(Transition.APPEND_EVIDENCE, key, bundle_records(trial)) for key, trial in group]
            require(job.spine.direct(appends))
            advance(len(group))
    return body.id


def _require_reader(job: Job, own: EvaluationContract, known: Iterable[AppendReceipt]) -> None:
    """Refuse to go on where rows were imported under another contract than the reader here makes."""
    for receipt in known:
        if own.id not in receipt.record_ids:
            stored = job.stores.ledger.get_many(receipt.record_ids)
            loaded = (each.load() for each in stored.values())
            began = next((each for each in loaded if isinstance(each, EvaluationContract)), None)
            met = "no contract" if began is None else f"evaluator {began.evaluator_digest}"
            remedy = (
                f"The rest would come under another contract (evaluator {own.evaluator_digest}): finish the import "
                "with the version that began it, or import the table into a namespace of its own."
            )
            raise StaleError("published table", met, remedy)
