"""From the nodes of a tree to trials: what is evidence of a search, and what holds the rest back (spec 003; spec 8.1).

Rules kept here: a declaration brings the labels and says where each node keeps what it is evaluated by
(`policies.lineage.promotion`); the metric is computed here and again, never taken from a report; a file is read below
its node's folder and has the digest that the report claims; times are the report's, so that promoting twice is a
replay.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from importers.node_report.declaration import MAX_BYTES, Declaration, by_row, csv_rows
from importers.node_report.reasons import Refused
from importers.node_report.values import document_of, moment
from memory.evidence import TaskIdentity, Trial
from memory.lineage.files import UnreadableFileError, hash_below, read_below
from memory.lineage.writing import node_folder
from policies.lineage.promotion import HeldBack, NodeFacts, Promoted, TrialFile, promote
from records.canonical import digest_bytes, domain_digest
from records.errors import InvalidRecordError, UnavailableError, VrmError
from records.evidence import EvaluationContract, VerificationKind
from records.lineage import Integrity, NodeReport
from records.runtime import RunBody
from records.values import ArtifactRef
from store.artifacts import ArtifactStore

REPORT: Final = "node-report"
TRIAL: Final = "trial"
PREDICTIONS: Final = "predictions"
LABELS: Final = "labels"
_MACHINE: Final = ("executor", "cpu_info", "mem_total_kb", "compilers", "execution_env", "compute_env")
"""What a report says of where it ran; names of hosts and jobs say nothing of the measurement."""
_BELOW: Final = "environment"
"""Where newer reports say it; older ones say it at the top."""


@dataclass(frozen=True)
class NodeTrial:
    """A node with the trial that it is, or with what holds it back."""

    report: NodeReport
    trial: Trial | HeldBack


def contract(declaration: Declaration, namespace: str) -> EvaluationContract:
    """Return the Evaluation Contract of a declaration."""
    told = declaration.evaluation
    return EvaluationContract.build(
        namespace=namespace,
        created_at=told.published_at,
        name=told.name,
        version=told.version,
        domain=declaration.catalog.domain,
        primary_metric=told.metric,
        guardrail_metrics=(),
        metric_low=told.metric_low,
        metric_high=told.metric_high,
        equivalence_margin=told.equivalence_margin,
        verification_kind=VerificationKind.RECOMPUTED,
        evaluator="importers.node_report.declaration",
        evaluator_digest=declaration.evaluator_digest,
        timeout_seconds=0,  # files are read, no program is run
        required_artifacts=(PREDICTIONS, TRIAL, LABELS),
    )


def promotion_run(declaration: Declaration, namespace: str, checkpoint_id: str) -> RunBody:
    """Return the Run in whose name the nodes of a tree become evidence; one per tree and declaration."""
    return RunBody.build(
        namespace=namespace,
        run_kind="SCIENTIFIC",
        admission_key=f"node-reports/{domain_digest('node-tree', [checkpoint_id, declaration.digest])}",
        specification_digest=declaration.digest,
        admitted_at=declaration.evaluation.published_at,
    )


def node_trials(
    declaration: Declaration, reports: Sequence[NodeReport], root: Path, artifacts: ArtifactStore
) -> Iterator[NodeTrial]:
    """Yield every node of one tree with its trial or what holds it back; what a trial left behind is published.

    Args:
        declaration: what is evaluated, and how.
        reports: of one checkpoint, parents before children.
        root: the folder of all trees.
        artifacts: where files of trials go.

    Raises:
        UnavailableError: the artifact store cannot be read or written.
    """
    for node, found in _judge(declaration, reports, root, artifacts):
        yield NodeTrial(node.report, found if isinstance(found, HeldBack) else node.trial(found))


def judged(
    declaration: Declaration, reports: Sequence[NodeReport], root: Path, artifacts: ArtifactStore
) -> dict[str, Promoted | HeldBack]:
    """Return by node what `node_trials` would find; nothing is published.

    Raises:
        UnavailableError: the artifact store cannot be read.
    """
    return {node.report.node_id: found for node, found in _judge(declaration, reports, root, artifacts)}


def _judge(
    declaration: Declaration, reports: Sequence[NodeReport], root: Path, artifacts: ArtifactStore
) -> Iterator[tuple[_Node, Promoted | HeldBack]]:
    told = declaration.evaluation
    read = {each.node_id: _Node(declaration, each, root, artifacts) for each in reports}
    for node in read.values():
        named = told.baselines.get(node.report.node_id, node.report.parent_node_id)
        baseline = read.get(named) if named is not None else None
        compared = None if baseline is None else baseline.facts
        yield node, promote(node.facts, compared, told, declaration.catalog, declaration.labels)


class _Node:
    """One node: its report, its files, its machine."""

    def __init__(self, declaration: Declaration, report: NodeReport, root: Path, artifacts: ArtifactStore) -> None:
        self._declaration = declaration
        self.report = report
        self._folder = node_folder(root, report.checkpoint_id, report.node_id)
        self._artifacts = artifacts
        self._files: dict[str, bytes] = {}

    @cached_property
    def facts(self) -> NodeFacts:
        told, fault = self._declaration.evaluation, None
        trial = predicted = program = machine = None
        self._started: str | None = None
        try:
            document = document_of(self._artifacts.read(self.report.report_digest))
            machine = _machine(document)
            self._started = moment(document.get("started_at"), "started_at")
            trial = _trial(self._file(told.trial))
            predicted = by_row(csv_rows(self._file(told.predictions), ("row", "predicted")))
            program = self._program(told.program)
        except UnavailableError:
            raise  # nothing follows of a node from what cannot be read now
        except Refused as refused:
            fault = str(refused.error("report"))
        except (ValueError, csv.Error, VrmError) as error:
            fault = str(error)
        return NodeFacts(
            report=self.report, trial=trial, predicted=predicted, program=program, environment=machine, fault=fault
        )

    def _file(self, path: str) -> bytes:
        """Return the bytes of a file that the report claims a digest for, if they have it, now as then."""
        named = next((each for each in self.report.artifacts if each.relative_path == path), None)
        if named is None or named.integrity is not Integrity.VERIFIED:
            raise ValueError(f"{path}: {'not an artifact' if named is None else named.integrity.value}")
        try:
            data, _ = read_below(self._folder, path, MAX_BYTES)
        except UnreadableFileError as error:
            raise ValueError(f"{path}: {error.fault.value}") from error
        if digest_bytes(data) != named.claimed:
            raise ValueError(f"{path}: mismatch")
        self._files[path] = data
        return data

    def _program(self, path: str) -> str:
        claimed = [each.after for each in self.report.files_changed if each.relative_path == path]
        try:
            found = hash_below(self._folder, path).sha256
        except UnreadableFileError as error:
            raise ValueError(f"{path}: {error.fault.value}") from error
        if claimed[:1] != [found]:
            raise ValueError(f"{path}: {'mismatch' if claimed[:1] not in ([], [None]) else 'unhashed'}")
        return found

    def trial(self, found: Promoted) -> Trial:
        """Return the trial of a node, with its files published."""
        told, report = self._declaration.evaluation, self.report
        change, catalog = found.change, self._declaration.catalog
        made = contract(self._declaration, report.namespace)
        run = promotion_run(self._declaration, report.namespace, report.checkpoint_id)
        started = self._started or report.created_at
        return Trial(
            namespace=report.namespace,
            task=TaskIdentity(
                name=found.task.name,
                root=found.task.root,
                domain=catalog.domain,
                attributes=found.task.attributes,
                dataset_digest=found.task.dataset_digest,
            ),
            contract=made,
            catalog_digest=catalog.digest,
            run_id=run.id,
            iteration=len(report.ancestors),
            seed=found.seed,
            change=None if change is None else (change.knob, change.from_value, change.to_value),
            mechanism="baseline" if change is None else change.mechanism,
            config_digest=catalog.config_digest(found.config),
            baseline_config_digest=catalog.config_digest(found.before),
            source_digest=domain_digest("node-program", self.facts.program),
            environment_digest=self.facts.environment or "",  # `promote` holds back what has none
            model_family=told.model_family,
            budget_class=told.budget_class,
            artifacts=self._published(),
            claimed={name: float(each.value) for each in report.metrics if (name := each.name) == told.metric.name},
            verified=found.verified,
            violations=found.violations,
            times=(started, report.created_at, report.created_at),
        )

    def _published(self) -> tuple[ArtifactRef, ...]:
        told = self._declaration.evaluation
        parts = {
            TRIAL: self._files[told.trial],
            PREDICTIONS: self._files[told.predictions],
            LABELS: self._declaration.labels_data,
        }
        digests = self._artifacts.publish_many(list(parts.values()))
        own = tuple(
            ArtifactRef(role=role, sha256=digest, size_bytes=len(data))
            for (role, data), digest in zip(parts.items(), digests, strict=True)
        )
        report = self.report.report
        return (*own, ArtifactRef(role=REPORT, sha256=report.sha256, size_bytes=report.size_bytes))


def _machine(document: Mapping[str, Any]) -> str | None:
    """Return the digest of what a report says of its machine; None where it says nothing of it."""
    below = document.get(_BELOW)
    told = {**document, **below} if isinstance(below, dict) else document
    found = [told.get(name) for name in _MACHINE]
    known = any(_says(value) for name, value in zip(_MACHINE, found, strict=True) if name != "executor")
    return domain_digest("node-environment", found) if known else None


def _says(value: object) -> bool:
    if isinstance(value, dict):
        return any(map(_says, value.values()))
    return any(map(_says, value)) if isinstance(value, list) else value not in (None, "", 0)


def _trial(data: bytes) -> TrialFile:
    try:
        return TrialFile.load(data)
    except InvalidRecordError as error:
        raise ValueError(f"{error.field}: {error.value}. {error.remedy}") from error
