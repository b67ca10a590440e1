"""The tabular domain as the Ledger sees it: its contract, its tasks' public identities, one trial as evidence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from actors.fits import Fit
from experiments.evaluator.protocol import EvaluationResult, EvaluatorSettings, evaluator_digest
from experiments.fingerprint import environment_digest
from experiments.tabular.pipelines import source_digest
from experiments.tabular.tasks import load_task
from memory.evidence import TaskIdentity, Trial
from policies.catalog import Config, InterventionCatalog, KnobValue
from records.evidence import Corpus, EvaluationContract, VerificationKind
from records.ids import ContextId, RunId
from records.values import Direction, MetricSpec
from vrm.domain import BUDGET_CLASS, MODEL_FAMILY
from vrm.mainjob.plan import PUBLISHED_AT

PRIMARY: Final = MetricSpec(name="test_balanced_accuracy", direction=Direction.MAXIMIZE, unit="share")
STEERING: Final = "validation_balanced_accuracy"
"""The metric that a trial chooses by; the primary one, on rows that nothing chose by, only judges."""

EVALUATOR: Final = EvaluatorSettings()


def contract_of(namespace: str, domain: str) -> EvaluationContract:
    """Return the Evaluation Contract under which every tabular result is verified.

    Accuracy is verified beside balanced accuracy, but is no guardrail: weighting the classes trades the one for the
    other by design, so that a guardrail would forbid what the contract measures (docs/adr/0031).
    """
    return EvaluationContract(
        namespace=namespace,
        created_at=PUBLISHED_AT,
        name="tabular-classification",
        version="2",
        domain=domain,
        primary_metric=PRIMARY,
        guardrail_metrics=(),
        metric_low="0",
        metric_high="1",
        equivalence_margin="0.005",
        verification_kind=VerificationKind.RECOMPUTED,
        evaluator="experiments.evaluator",
        evaluator_digest=evaluator_digest(),
        timeout_seconds=int(EVALUATOR.timeout_seconds),
        required_artifacts=("predictions", "config", "environment", "dataset"),
    )


@lru_cache(maxsize=256)
def identity_of(task_name: str, domain: str) -> TaskIdentity:
    """Return the public identity of a task."""
    task = load_task(task_name).task
    return TaskIdentity(
        name=task.name,
        root=task.root,
        domain=domain,
        attributes=task.public_attributes,
        dataset_digest=task.data_digest,
    )


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What was run: on which task and seed, from which configuration, with which one change."""

    task: str
    seed: int
    before: Mapping[str, KnobValue]
    change: tuple[str, KnobValue] | None
    iteration: int
    run_id: RunId
    corpus: Corpus = Corpus.DEVELOPMENT
    arm: str | None = None
    pair: str | None = None
    recall_context_id: ContextId | None = None

    @property
    def config(self) -> Config:
        """The effective configuration."""
        return dict(self.before) | ({} if self.change is None else {self.change[0]: self.change[1]})


def trial_of(
    setting: Setting, fit: Fit, result: EvaluationResult, catalog: InterventionCatalog, contract: EvaluationContract
) -> Trial:
    """Join a fit with the evaluator's finding; what the runner says of itself verifies nothing."""
    change = setting.change
    return Trial(
        namespace=contract.namespace,
        task=identity_of(setting.task, catalog.domain),
        contract=contract,
        catalog_digest=catalog.digest,
        run_id=setting.run_id,
        iteration=setting.iteration,
        seed=setting.seed,
        change=None if change is None else (change[0], setting.before[change[0]], change[1]),
        mechanism="baseline" if change is None else catalog.knobs[change[0]].mechanism,
        config_digest=catalog.config_digest(setting.config),
        baseline_config_digest=catalog.config_digest(setting.before),
        source_digest=source_digest(),
        environment_digest=environment_digest(),
        model_family=MODEL_FAMILY,
        budget_class=BUDGET_CLASS,
        artifacts=fit.artifacts,
        verified=result.metrics if result.valid else {},
        violations=result.violations,
        times=(fit.started_at, fit.completed_at, fit.completed_at),
        corpus=setting.corpus,
        arm=setting.arm,
        pair=setting.pair,
        recall_context_id=setting.recall_context_id,
        claimed={"converged": 1.0 if fit.converged else 0.0},
    )
