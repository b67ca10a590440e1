"""From a finished trial to the records of a Verified Evidence Bundle, and back from the Ledger (spec 8.1).

One way in for every source: experiments that ran here and rows of published tables become a `Trial`, and
`bundle_records` makes the eight records of it. One way out: `resolve_bundles` reads the authoritative rows and
cross-validates them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from policies.bundles import NotABundle, cross_validate, evidence_digest
from policies.catalog import value_text
from records.base import Record
from records.canonical import metric_text
from records.errors import InvalidRecordError
from records.evidence import (
    Attempt,
    AttemptStatus,
    Corpus,
    EvaluationContract,
    Experience,
    Hypothesis,
    Intervention,
    Manipulation,
    Observation,
    TrialProvenance,
    Verification,
    VerifiedEvidenceBundle,
)
from records.ids import (
    AttemptId,
    ContextId,
    ContractId,
    EvaluationTaskId,
    ExperienceId,
    HypothesisId,
    InterventionId,
    ObservationId,
    ProvenanceId,
    RunId,
    TaskScopeId,
    VerificationId,
)
from records.models import refusing
from records.values import ArtifactRef, DecisionPoint, Knob, NamedMetric
from store.ledger.port import LedgerReader


@dataclass(frozen=True, kw_only=True)
class TaskIdentity:
    """A task by its public identity: what it is, which scope it belongs to, which root its rows come from."""

    name: str
    root: str
    domain: str
    attributes: Mapping[str, str]
    dataset_digest: str

    @property
    def evaluation_task_id(self) -> EvaluationTaskId:
        """The id of the concrete task."""
        return EvaluationTaskId.derive({"domain": self.domain, "name": self.name, "root": self.root})

    @property
    def task_scope_id(self) -> TaskScopeId:
        """The id of the public taxonomy node that the declared attributes give (reference 1.2)."""
        return TaskScopeId.derive({"taxonomy": f"{self.domain}/v1", "attributes": dict(self.attributes)})

    @property
    def scope_description(self) -> str:
        """The scope in words, attribute by attribute."""
        return ", ".join(f"{name} {value}" for name, value in sorted(self.attributes.items()))


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One finished trial with its independent verification, from whatever source.

    Attributes:
        change: knob, old and new value of the one change; None for the baseline configuration.
        artifacts: what the trial left behind; the roles that the contract requires must be among them.
        claimed: the trial's own metrics, which nothing relies on.
        verified: metrics that the evaluator found; empty if the trial is invalid.
        times: start, end and record time as record timestamps.
    """

    namespace: str
    task: TaskIdentity
    contract: EvaluationContract
    catalog_digest: str
    run_id: RunId
    iteration: int
    seed: int
    change: tuple[str, object, object] | None
    mechanism: str
    config_digest: str
    baseline_config_digest: str
    source_digest: str
    environment_digest: str
    model_family: str
    budget_class: str
    artifacts: tuple[ArtifactRef, ...]
    verified: Mapping[str, float]
    violations: tuple[str, ...]
    times: tuple[str, str, str]
    corpus: Corpus = Corpus.DEVELOPMENT
    arm: str | None = None
    pair: str | None = None
    recall_context_id: ContextId | None = None
    claimed: Mapping[str, float] = field(default_factory=dict)


@refusing()
def bundle_records(trial: Trial) -> tuple[Record, ...]:
    """Return contract, hypothesis, attempt, observation, verification, intervention, provenance and experience.

    Raises:
        InvalidRecordError: a value of the trial is not what its record field takes; the field is named.
    """
    hypothesis = _hypothesis(trial)
    attempt = _attempt(trial, HypothesisId(hypothesis.id))
    observation = _observation(trial, AttemptId(attempt.id))
    verification = _verification(trial, ObservationId(observation.id))
    intervention = _intervention(trial, AttemptId(attempt.id), HypothesisId(hypothesis.id))
    provenance = TrialProvenance(
        namespace=trial.namespace,
        created_at=trial.times[2],
        attempt_id=AttemptId(attempt.id),
        observation_id=ObservationId(observation.id),
        intervention_id=InterventionId(intervention.id),
        source_digest=trial.source_digest,
        config_digest=trial.config_digest,
        environment_digest=trial.environment_digest,
        dataset_digest=trial.task.dataset_digest,
        contract_digest=trial.contract.comparability_digest,
        evaluator_digest=trial.contract.evaluator_digest,
        evidence_digest=evidence_digest(trial.artifacts),
    )
    experience = Experience(
        namespace=trial.namespace,
        created_at=trial.times[2],
        hypothesis_id=HypothesisId(hypothesis.id),
        attempt_id=AttemptId(attempt.id),
        observation_id=ObservationId(observation.id),
        verification_id=VerificationId(verification.id),
        intervention_id=InterventionId(intervention.id),
        provenance_id=ProvenanceId(provenance.id),
        analysis=_analysis(trial),
    )
    return (trial.contract, hypothesis, attempt, observation, verification, intervention, provenance, experience)


def resolve_bundles(
    reader: LedgerReader, experiences: Iterable[Experience]
) -> dict[ExperienceId, VerifiedEvidenceBundle | NotABundle]:
    """Read the authoritative rows behind experiences and cross-validate each bundle (VRM-W03)."""
    return bundles_of(
        lambda ids: {record_id: stored.load() for record_id, stored in reader.get_many(ids).items()}, experiences
    )


def bundles_of(
    load: Callable[[Iterable[str]], Mapping[str, Record]], experiences: Iterable[Experience]
) -> dict[ExperienceId, VerifiedEvidenceBundle | NotABundle]:
    """Cross-validate the bundles of experiences from the rows that `load` reads, by id (VRM-W03)."""
    wanted = list(experiences)
    ids = {
        str(part)
        for each in wanted
        for part in (each.hypothesis_id, each.attempt_id, each.observation_id, each.verification_id,
                     each.intervention_id, each.provenance_id)
        if part is not None
    }  # fmt: skip
    rows = dict(load(ids))
    rows |= load({str(row.contract_id) for row in rows.values() if isinstance(row, Attempt)})
    return {ExperienceId(each.id): cross_validate(each, rows) for each in wanted}


def _hypothesis(trial: Trial) -> Hypothesis:
    metric = trial.contract.primary_metric
    if trial.change is None:
        statement = f"The baseline configuration gives the reference {metric.name} of this task scope."
    else:
        knob, old, new = trial.change
        statement = f"Changing {knob} from {value_text(old)} to {value_text(new)} changes {metric.name}."
    return Hypothesis(
        namespace=trial.namespace,
        created_at=trial.contract.created_at,
        task_scope_id=trial.task.task_scope_id,
        statement=statement,
        mechanism=trial.mechanism,
        expected_metric=metric,
        conditions=(trial.task.scope_description,),
    )


def _attempt(trial: Trial, hypothesis_id: HypothesisId) -> Attempt:
    return Attempt(
        namespace=trial.namespace,
        created_at=trial.times[2],
        run_id=trial.run_id,
        iteration=trial.iteration,
        hypothesis_id=hypothesis_id,
        contract_id=ContractId(trial.contract.id),
        evaluation_task_id=trial.task.evaluation_task_id,
        task_scope_id=trial.task.task_scope_id,
        dataset_root=trial.task.root,
        dataset_digest=trial.task.dataset_digest,
        source_digest=trial.source_digest,
        config_digest=trial.config_digest,
        model_family=trial.model_family,
        budget_class=trial.budget_class,
        seed=trial.seed,
        corpus=trial.corpus,
        arm=trial.arm,
        pair=trial.pair,
        recall_context_id=trial.recall_context_id,
        status=AttemptStatus.INVALID if trial.violations else AttemptStatus.COMPLETED,
    )


def _observation(trial: Trial, attempt_id: AttemptId) -> Observation:
    return Observation(
        namespace=trial.namespace,
        created_at=trial.times[2],
        attempt_id=attempt_id,
        exit_code=0,
        claimed_metrics=_metrics(trial.claimed),
        artifacts=trial.artifacts,
        environment_digest=trial.environment_digest,
        error=None,
        started_at=trial.times[0],
        completed_at=trial.times[1],
    )


def _verification(trial: Trial, observation_id: ObservationId) -> Verification:
    required = set(trial.contract.required_artifacts)
    return Verification(
        namespace=trial.namespace,
        created_at=trial.times[2],
        observation_id=observation_id,
        contract_id=ContractId(trial.contract.id),
        verification_kind=trial.contract.verification_kind,
        evaluator_digest=trial.contract.evaluator_digest,
        valid=not trial.violations,
        verified_metrics=_metrics(trial.verified),
        violations=trial.violations,
        evidence_digests=tuple(sorted(ref.sha256 for ref in trial.artifacts if ref.role in required)),
    )


def _intervention(trial: Trial, attempt_id: AttemptId, hypothesis_id: HypothesisId) -> Intervention:
    knob, manipulation = None, Manipulation.BASELINE
    if trial.change is not None:
        name, old, new = trial.change
        knob = Knob(name=name, from_value=value_text(old), to_value=value_text(new))
        same = trial.config_digest == trial.baseline_config_digest
        manipulation = Manipulation.NO_EFFECT if same else Manipulation.CHANGED
    return Intervention(
        namespace=trial.namespace,
        created_at=trial.times[2],
        attempt_id=attempt_id,
        hypothesis_id=hypothesis_id,
        decision_point=DecisionPoint.INTERVENTION,
        catalog_digest=trial.catalog_digest,
        knob=knob,
        baseline_config_digest=trial.baseline_config_digest,
        config_digest=trial.config_digest,
        manipulation=manipulation,
    )


def _metrics(values: Mapping[str, float]) -> tuple[NamedMetric, ...]:
    return tuple(NamedMetric(name=name, value=metric_text(value)) for name, value in sorted(values.items()))


def _analysis(trial: Trial) -> str:
    what = "baseline" if trial.change is None else f"{trial.change[0]} set to {value_text(trial.change[2])}"
    if trial.violations:
        return f"{what} on {trial.task.name}, seed {trial.seed}: invalid ({', '.join(trial.violations)})"
    metric = trial.contract.primary_metric.name
    if metric not in trial.verified:
        raise InvalidRecordError("trial.verified", metric, "A valid trial has its primary metric; name the violation.")
    return f"{what} on {trial.task.name}, seed {trial.seed}: {metric} {metric_text(trial.verified[metric])}"
