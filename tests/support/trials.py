"""Trials and their evidence records, made the way every source makes them: `memory.evidence.bundle_records`."""

from __future__ import annotations

import hashlib
from typing import Any

from memory.evidence import TaskIdentity, Trial, bundle_records
from records.base import Record
from records.evidence import EvaluationContract, VerificationKind
from records.ids import RunId
from records.values import ArtifactRef, Direction, MetricSpec

NOW = "2025-03-01T12:00:00.000000Z"
BALANCED_ACCURACY = MetricSpec(name="balanced_accuracy", direction=Direction.MAXIMIZE, unit="share")


def digest(text: str) -> str:
    """Return some digest that is the same for the same text."""
    return hashlib.sha256(text.encode()).hexdigest()


def make_contract(namespace: str = "test", **changes: Any) -> EvaluationContract:
    """Return an Evaluation Contract."""
    fields: dict[str, Any] = {
        "namespace": namespace,
        "created_at": NOW,
        "name": "tabular-accuracy",
        "version": "1",
        "domain": "tabular",
        "primary_metric": BALANCED_ACCURACY,
        "guardrail_metrics": (),
        "metric_low": "0",
        "metric_high": "1",
        "equivalence_margin": "0.005",
        "verification_kind": VerificationKind.RECOMPUTED,
        "evaluator": "experiments.evaluator",
        "evaluator_digest": digest("evaluator"),
        "timeout_seconds": 60,
        "required_artifacts": ("predictions",),
    }
    return EvaluationContract.build(**(fields | changes))


def make_task(name: str = "iris", root: str | None = None) -> TaskIdentity:
    """Return a task; without a root it is its own."""
    return TaskIdentity(
        name=name,
        root=root or name,
        domain="tabular",
        attributes={"problem": "multiclass", "size": "small"},
        dataset_digest=digest(f"rows of {name}"),
    )


def make_trial(namespace: str = "test", **changes: Any) -> Trial:
    """Return a valid changed trial; give `change=None` for a baseline, `seed`, `task`, `verified` ... for others."""
    seed = changes.get("seed", 0)
    change = changes.get("change", ("scaler", "none", "standard"))
    task = changes.get("task", make_task())
    config = digest(f"config {change}")
    fields: dict[str, Any] = {
        "namespace": namespace,
        "task": task,
        "contract": make_contract(namespace),
        "catalog_digest": digest("catalog"),
        "run_id": RunId.derive({"namespace": namespace, "run": "campaign"}),
        "iteration": 0,
        "seed": seed,
        "change": change,
        "mechanism": "feature_scaling",
        "config_digest": config,
        "baseline_config_digest": digest("config None"),
        "source_digest": digest("source"),
        "environment_digest": digest("environment"),
        "model_family": "svc",
        "budget_class": "small",
        "artifacts": (ArtifactRef(role="predictions", sha256=digest(f"{task.name} {seed} {change}"), size_bytes=12),),
        "verified": {"balanced_accuracy": 0.75},
        "violations": (),
        "times": (NOW, NOW, NOW),
    }
    return Trial(**(fields | changes))


def make_evidence(namespace: str = "test", **changes: Any) -> tuple[Record, ...]:
    """Return the eight records of `make_trial`."""
    return bundle_records(make_trial(namespace, **changes))
