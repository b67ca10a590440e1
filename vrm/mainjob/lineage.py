"""Nodes of a search become evidence: bundles as for experiments, receipts and campaigns as for any other Run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from importers.node_report.declaration import Declaration
from importers.node_report.evidence import NodeTrial, node_trials, promotion_run
from memory.evidence import Trial, bundle_records
from memory.lineage.tree import open_tree
from memory.spine import GROUP, chunks
from policies.lineage.promotion import HeldBack
from records.appends import Append
from records.canonical import domain_digest
from records.errors import NotFoundError
from records.flows import Transition
from records.ids import RunId
from records.lineage import NodeReport
from store.ledger.port import LedgerReader
from vrm.mainjob import steps
from vrm.mainjob.job import Job, require

SLOT: Final = "promote"


@dataclass(frozen=True)
class Promotion:
    """What became of the nodes of a tree; `run_id` is null where none of them is a trial."""

    run_id: RunId | None
    nodes: tuple[NodeTrial, ...]


def reports_of(reader: LedgerReader, namespace: str, checkpoint_id: str) -> list[NodeReport]:
    """Return the reports of a tree that retention does not deny, parents before children; `reader` is of one moment.

    Raises:
        NotFoundError: there is none.
    """
    found = list(open_tree(reader, namespace, checkpoint_id).reports.values())
    if not found:
        remedy = f"{namespace} has no report of it; `vrm import node-report` imports some."
        raise NotFoundError("checkpoint", checkpoint_id, remedy)
    return found


def promote_tree(job: Job, declaration: Declaration, root: Path, checkpoint_id: str) -> Promotion:
    """Append the bundle of every node that is a trial, and give each its receipt; again it is a replay.

    Raises:
        NotFoundError: the tree has no report.
        VrmError: a store or an owner cannot be used; what was appended stays, and the same call goes on.
    """
    with job.stores.ledger.reading() as reader:
        reports = reports_of(reader, job.namespace, checkpoint_id)
    nodes = tuple(node_trials(declaration, reports, root, job.stores.artifacts))
    trials = [(each.report, each.trial) for each in nodes if isinstance(each.trial, Trial)]
    if not trials:
        return Promotion(None, nodes)
    body = promotion_run(declaration, job.namespace, checkpoint_id)
    job.admit([body], SLOT)
    with job.step("Nodes of the search: trials appended", len(trials)) as advance:
        for group in chunks(trials, GROUP):
            require(job.spine.direct([_append(body.id, report, trial) for report, trial in group]))
            advance(len(group))
    steps.ingest(job, [body.id])
    return Promotion(body.id, nodes)


def _append(run_id: RunId, report: NodeReport, trial: Trial) -> Append:
    key = f"node-trial/{domain_digest('node-trial', [run_id, str(report.id)])}"
    return Append.direct(Transition.APPEND_EVIDENCE, key, bundle_records(trial))


def told(nodes: tuple[NodeTrial, ...]) -> list[tuple[str, str | None, str]]:
    """Return of each node its name, the reason code that holds it back if one does, and what was found."""
    return [(each.report.node_id, *_found(each.trial)) for each in nodes]


def _found(trial: Trial | HeldBack) -> tuple[str | None, str]:
    if isinstance(trial, HeldBack):
        return trial.reason.value, trial.detail
    what = "baseline" if trial.change is None else f"{trial.change[0]} {trial.change[1]} to {trial.change[2]}"
    if trial.violations:
        return None, f"{what}: invalid ({', '.join(trial.violations)})"
    return None, f"{what}: {', '.join(f'{name} {value:.6g}' for name, value in trial.verified.items())}"
