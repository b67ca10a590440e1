"""Whether a node's report completes to a verified trial, and if not, what holds it back: pure (spec 003, design.md 7).

Rules kept here:

- a report says nothing about its metric that counts: the metric is computed again, from the node's predictions and
  labels that the declaration brings, which no node wrote. A value that the report claims and that differs makes the
  trial invalid;
- only files whose digest the report claims, and that were read with it, are looked at; a file that nobody claimed a
  digest for proves nothing;
- a node is compared with its parent, or with the node that is declared in its place: same task, same seed, same
  program, same machine, and one change that the catalog knows. A root is a baseline and is compared with nothing;
- what is not a trial has one reason code, of those that hold Experiences back (`policies.distillation_policy`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Final, Literal

from pydantic import Field

from policies.catalog import Change, InterventionCatalog
from policies.distillation_policy import CandidateReason
from policies.loading import PolicyPart
from records.errors import InvalidInputError
from records.evidence import Seed
from records.fields import Digest, Metric, Name, Timestamp
from records.lineage import EvaluationStatus, NodeName, NodeReport, NodeStatus, SafePath
from records.values import MetricSpec

_TOLERANCE: Final = 1e-9
"""Relative difference up to which a claimed value is the computed one: rounding, and nothing else."""


class Measure(StrEnum):
    """What is computed from predictions and labels."""

    ACCURACY = "accuracy"
    BALANCED_ACCURACY = "balanced_accuracy"


class DeclaredTask(PolicyPart):
    """A task of the search, by its public identity; the digest is that of its data."""

    name: Name
    root: Name
    attributes: dict[Name, Name]
    dataset_digest: Digest


class DeclaredLabels(PolicyPart):
    """The labels of the rows that were held out, as CSV with task, seed, row, label: a name beside the declaration."""

    name: SafePath
    sha256: Digest


class LineageEvaluation(PolicyPart):
    """The Evaluation Contract of a search, and where each node keeps what it is evaluated by.

    Attributes:
        published_at: when it was declared; the time that its contract carries.
        catalog: the Intervention Catalog that governs the changes, by name.
        metric: the metric as reports claim it; measure: how it is computed.
        trial: the node's file with task, seed and config; predictions: CSV with row, predicted; program: what ran.
        baselines: a node to compare with in place of the parent, by node.
    """

    layout: Literal["lineage-evaluation/1"]
    name: Name
    version: Name
    published_at: Timestamp
    catalog: Name
    model_family: Name
    budget_class: Name
    metric: MetricSpec
    measure: Measure
    metric_low: Metric
    metric_high: Metric
    equivalence_margin: Metric
    trial: SafePath
    predictions: SafePath
    program: SafePath
    labels: DeclaredLabels
    tasks: Annotated[tuple[DeclaredTask, ...], Field(min_length=1)]
    baselines: dict[NodeName, NodeName]


class TrialFile(PolicyPart):
    """What a node ran with; knobs that are not named have the catalog's defaults."""

    task: Name
    seed: Seed
    config: dict[Name, str | bool | int | float]


Labels = Mapping[tuple[str, int], Mapping[int, str]]
"""The label of every row that was held out, by task and seed."""


@dataclass(frozen=True, kw_only=True)
class NodeFacts:
    """What was read of a node, each file with the digest that its report claims; a fault says why it was not.

    Attributes:
        program: the digest of the program that ran.
        environment: the digest of what the report says of its machine; null where it says nothing of it.
    """

    report: NodeReport
    trial: TrialFile | None
    predicted: Mapping[int, str] | None
    program: str | None
    environment: str | None
    fault: str | None


@dataclass(frozen=True)
class HeldBack:
    """Why a node is no trial: a reason code and what was met."""

    reason: CandidateReason
    detail: str


@dataclass(frozen=True, kw_only=True)
class Promoted:
    """A node as a trial: what it ran, what changed, what was found.

    Attributes:
        change: None for a baseline.
        before: the configuration that it is compared with; its own, for a baseline.
        verified: the metric as computed; empty if a violation makes the trial invalid.
    """

    task: DeclaredTask
    seed: int
    config: Mapping[str, object]
    before: Mapping[str, object]
    change: Change | None
    verified: Mapping[str, float]
    violations: tuple[str, ...]


def promote(
    facts: NodeFacts,
    baseline: NodeFacts | None,
    declared: LineageEvaluation,
    catalog: InterventionCatalog,
    labels: Labels,
) -> Promoted | HeldBack:
    """Return the trial that a node is, or what holds it back; `baseline` is what it is compared with, if anything."""
    own = _complete(facts, declared, catalog)
    if isinstance(own, HeldBack):
        return own
    task, seed, config = own
    change, before = None, config
    if facts.report.parent_node_id is not None or facts.report.node_id in declared.baselines:
        compared = _compared(facts, own, baseline, declared, catalog)
        if isinstance(compared, HeldBack):
            return compared
        change, before = compared
    truth = labels.get((task.name, seed))
    if truth is None:
        return HeldBack(CandidateReason.MISSING_VERIFICATION, f"no labels for task {task.name}, seed {seed}")
    value, violations = _verify(facts, truth, declared)
    verified = {} if violations or value is None else {declared.metric.name: value}
    return Promoted(
        task=task, seed=seed, config=config, before=before, change=change, verified=verified, violations=violations
    )


_Complete = tuple[DeclaredTask, int, Mapping[str, object]]


def _complete(facts: NodeFacts, declared: LineageEvaluation, catalog: InterventionCatalog) -> _Complete | HeldBack:
    """Return task, seed and configuration of a node that left what it is evaluated by."""
    report, trial = facts.report, facts.trial
    if report.status is not NodeStatus.SUCCESS:
        return HeldBack(CandidateReason.MISSING_VERIFICATION, f"the node ended as {report.status.value}")
    if report.evaluation_status not in (None, EvaluationStatus.VALID):
        return HeldBack(CandidateReason.MISSING_VERIFICATION, f"its evaluation is {report.evaluation_status.value}")
    if facts.fault is not None or trial is None or facts.predicted is None or facts.program is None:
        return HeldBack(CandidateReason.MISSING_TRIAL_PROVENANCE, facts.fault or "a file is missing")
    if facts.environment is None:
        return HeldBack(
            CandidateReason.MISSING_TRIAL_PROVENANCE, "the report says nothing of the machine that it ran on"
        )
    task = next((each for each in declared.tasks if each.name == trial.task), None)
    if task is None:
        return HeldBack(CandidateReason.NON_COMPARABLE_EVIDENCE, f"the task {trial.task} is not declared")
    try:
        return task, trial.seed, catalog.effective_config(trial.config)
    except InvalidInputError as error:
        return HeldBack(CandidateReason.MISSING_TYPED_ACTION, str(error))


def _compared(
    facts: NodeFacts,
    own: _Complete,
    baseline: NodeFacts | None,
    declared: LineageEvaluation,
    catalog: InterventionCatalog,
) -> tuple[Change, Mapping[str, object]] | HeldBack:
    """Return the one change from the baseline, with the configuration that it was made to."""
    if baseline is None:
        return HeldBack(CandidateReason.NON_COMPARABLE_EVIDENCE, "the node that it is compared with is not there")
    name = baseline.report.node_id
    other = _complete(baseline, declared, catalog)
    if isinstance(other, HeldBack):
        return HeldBack(CandidateReason.NON_COMPARABLE_EVIDENCE, f"the baseline {name}: {other.detail}")
    pairs = (
        ("task", own[0].name, other[0].name),
        ("seed", own[1], other[1]),
        ("program", facts.program, baseline.program),
        ("environment", facts.environment, baseline.environment),
    )
    for what, mine, theirs in pairs:
        if mine != theirs:
            return HeldBack(CandidateReason.NON_COMPARABLE_EVIDENCE, f"another {what} than the baseline {name}")
    change = catalog.one_knob_difference(other[2], own[2])
    if change is None:
        detail = f"the catalog knows no one change that leads from {name} to it"
        return HeldBack(CandidateReason.MISSING_TYPED_ACTION, detail)
    return change, other[2]


def _verify(
    facts: NodeFacts, truth: Mapping[int, str], declared: LineageEvaluation
) -> tuple[float | None, tuple[str, ...]]:
    """Compute the metric; a claim that differs, or rows that are not those held out, make the trial invalid."""
    predicted = facts.predicted or {}
    if predicted.keys() != truth.keys():
        return None, ("rows_not_held_out",)
    value = measured(declared.measure, truth, predicted)
    name = declared.metric.name
    claimed = next((float(each.value) for each in facts.report.metrics if each.name == name), None)
    if claimed is None:
        return value, (f"missing_primary_metric:{name}",)
    if not math.isclose(claimed, value, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE):
        return value, (f"claimed_metric_differs:{name}",)
    return value, ()


def measured(measure: Measure, truth: Mapping[int, str], predicted: Mapping[int, str]) -> float:
    """Return a metric of predictions for the rows of `truth`, of which there is at least one."""
    right = Counter(label for row, label in truth.items() if predicted[row] == label)
    there = Counter(truth.values())
    if measure is Measure.ACCURACY:
        return right.total() / there.total()
    return math.fsum(right[label] / count for label, count in there.items()) / len(there)
