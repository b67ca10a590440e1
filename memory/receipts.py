"""Which Experiences of a Run still need something before it may end (spec 6.3, VRM-W09).

Rules kept here:

- every Experience of a Run has its own receipt, whatever it says; nothing waits for what comes of it later;
- behind a receipt that says queued there is a BOUND handoff, which holds the profile bytes by an ACTIVE reference.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from memory.known import load
from records.canonical import parse_canonical
from records.errors import IntegrityWaitError, StaleError, VrmError
from records.evidence import Attempt, Experience
from records.ids import HandoffId
from records.ingestion import ExperienceReceipt
from records.runtime import handoff_id
from records.states import Machine, Phase
from store.ledger.port import LedgerReader
from store.runtime.port import RuntimeReader

Receipts = Mapping[str, ExperienceReceipt]
"""By Experience."""


def unreceipted(reader: LedgerReader, namespace: str, run_ids: Iterable[str]) -> dict[str, list[Experience]]:
    """Return by Run the Experiences that have no receipt, in journal order; a Run without any is left out."""
    runs, receipts = _of_runs(reader, namespace, run_ids)
    missing = {run: [each for each in found if each.id not in receipts] for run, found in runs.items()}
    return {run: found for run, found in missing.items() if found}


def unclosed(
    runtime: RuntimeReader, reader: LedgerReader, namespace: str, run_ids: Iterable[str]
) -> dict[str, VrmError]:
    """Return by Run what keeps it from ending; a Run whose Experiences are all accounted for is left out."""
    runs, receipts = _of_runs(reader, namespace, run_ids)
    holding = _holding(runtime, receipts)
    errors: dict[str, VrmError] = {}
    for run, found in runs.items():
        for experience in found:
            error = _wanting(experience, receipts.get(experience.id), holding)
            if error is not None:
                errors[run] = error
                break
    return errors


def _of_runs(
    reader: LedgerReader, namespace: str, run_ids: Iterable[str]
) -> tuple[dict[str, list[Experience]], Receipts]:
    runs: dict[str, list[Experience]] = {run: [] for run in sorted(run_ids)}
    attempts = [load(each) for each in reader.find("attempt", namespace, run_id=list(runs))] if runs else []
    owner = {str(each.id): each.run_id for each in attempts if isinstance(each, Attempt)}
    stored = reader.find("experience", namespace, attempt_id=sorted(owner)) if owner else []
    for record in map(load, stored):
        if isinstance(record, Experience):
            runs[owner[record.attempt_id]].append(record)
    wanted: Sequence[str] = [each.id for found in runs.values() for each in found]
    given = reader.find("distillation-receipt", namespace, experience_id=wanted) if wanted else []
    receipts = [record for record in map(load, given) if isinstance(record, ExperienceReceipt)]
    return runs, {str(each.experience_id): each for each in receipts}


def _holding(runtime: RuntimeReader, receipts: Receipts) -> frozenset[HandoffId]:
    """Return the handoffs of queued Experiences that are BOUND with an ACTIVE reference."""
    wanted = [handoff_id(each.work_item_id) for each in receipts.values() if each.work_item_id is not None]
    handoffs = runtime.subjects(Machine.HANDOFF, wanted) if wanted else {}
    bound = {
        key: parse_canonical(each.body)["reference_id"] for key, each in handoffs.items() if each.phase is Phase.BOUND
    }
    references = runtime.subjects(Machine.REFERENCE, sorted(set(bound.values()))) if bound else {}
    active = {key for key, each in references.items() if each.phase is Phase.ACTIVE}
    return frozenset(HandoffId(key) for key, reference in bound.items() if reference in active)


def _wanting(
    experience: Experience, receipt: ExperienceReceipt | None, holding: frozenset[HandoffId]
) -> VrmError | None:
    if receipt is None:
        return StaleError("run", f"experience {experience.id}", "It has no receipt; ingest it before the Run ends.")
    if receipt.work_item_id is not None and handoff_id(receipt.work_item_id) not in holding:
        return IntegrityWaitError("handoff", receipt.work_item_id, "It is queued, and nothing holds its profile.")
    return None
