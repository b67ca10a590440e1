"""Records of real shape for benchmarks; what they say is made up, and they are stored nowhere but in a bench.

Texts use the words of the packaged Intervention Catalog, so that the length of words and the frequency of terms are
those of real rules. Number `i` always gives the same record.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import product
from typing import Any, Final

from memory.evidence import TaskIdentity, Trial, bundle_records
from policies.catalog import Change, InterventionCatalog, load_catalog, value_text
from policies.distillation_policy import distillation_policy
from records.base import Record
from records.canonical import digest_bytes, metric_text
from records.evidence import EvaluationContract, Hypothesis, VerificationKind
from records.ids import CandidateId, EvidenceSnapshotId, RunId, TaskScopeId
from records.knowledge import KnowledgeCandidate, MemoryRecord, family_id, scope_variant_id
from records.values import (
    ActionKind,
    ArtifactRef,
    DecisionPoint,
    DecisionTarget,
    Direction,
    EffectEstimate,
    EvidenceStrength,
    Grade,
    Interval,
    Knob,
    MemoryScope,
    MetricSpec,
)

SPACE: Final = "bench"
NOW: Final = "2026-01-01T00:00:00.000000Z"
METRIC: Final = MetricSpec(name="macro_f1", direction=Direction.MAXIMIZE, unit="share")
CATALOG: Final[InterventionCatalog] = load_catalog("tabular-svm-v1")
BUDGET: Final = "one-fit"
MODEL_FAMILY: Final = "svm"
_ATTRIBUTES: Final = {
    "rows": ("tiny", "small", "medium", "large"),
    "balance": ("balanced", "skewed", "rare"),
    "features": ("numeric", "categorical", "mixed"),
    "problem": ("binary", "multiclass"),
}
_SCOPES: Final = tuple(dict(zip(_ATTRIBUTES, values, strict=True)) for values in product(*_ATTRIBUTES.values()))

CONTRACT: Final = EvaluationContract(
    namespace=SPACE,
    created_at=NOW,
    name="tabular-macro-f1",
    version="1",
    domain=CATALOG.domain,
    primary_metric=METRIC,
    guardrail_metrics=(),
    metric_low="0",
    metric_high="1",
    equivalence_margin="0.005",
    verification_kind=VerificationKind.RECOMPUTED,
    evaluator="evaluator",
    evaluator_digest=digest_bytes(b"evaluator"),
    timeout_seconds=60,
    required_artifacts=("predictions",),
)


def task(number: int) -> TaskIdentity:
    """Return a task; tasks whose numbers are equal modulo the number of scopes differ in their collection only."""
    attributes = dict(_SCOPES[number % len(_SCOPES)])
    if number >= len(_SCOPES):
        attributes["collection"] = f"c{number // len(_SCOPES)}"
    name = f"dataset-{number}"
    return TaskIdentity(
        name=name,
        root=name,
        domain=CATALOG.domain,
        attributes=attributes,
        dataset_digest=digest_bytes(name.encode()),
    )


def hypothesis(number: int) -> Hypothesis:
    """Return a record of one row: what a governed append of a single record writes."""
    return Hypothesis.build(**hypothesis_values(number))


def hypothesis_values(number: int) -> dict[str, Any]:
    """Return the values of `hypothesis`, which nobody has validated yet."""
    change = _change(number)
    scope, described = _scope(number % len(_SCOPES))
    return {
        "namespace": SPACE,
        "created_at": NOW,
        "task_scope_id": scope,
        "statement": f"{_claim(change)} Checked as statement {number} on {described}.",
        "mechanism": change.mechanism,
        "expected_metric": METRIC,
    }


def bundle(number: int) -> tuple[Record, ...]:
    """Return the eight records of one verified trial."""
    change = _change(number)
    settings = {change.knob: change.to_value}
    return bundle_records(
        Trial(
            namespace=SPACE,
            task=task(number),
            contract=CONTRACT,
            catalog_digest=CATALOG.digest,
            run_id=RunId.derive({"bench": "evidence"}),
            iteration=1,
            seed=number,
            change=(change.knob, change.from_value, change.to_value),
            mechanism=change.mechanism,
            config_digest=CATALOG.config_digest(CATALOG.effective_config(settings)),
            baseline_config_digest=CATALOG.config_digest(CATALOG.baseline),
            source_digest=digest_bytes(b"source"),
            environment_digest=digest_bytes(b"environment"),
            model_family=MODEL_FAMILY,
            budget_class=BUDGET,
            artifacts=(ArtifactRef(role="predictions", sha256=digest_bytes(str(number).encode()), size_bytes=64),),
            verified={METRIC.name: 0.5 + number % 400 / 1000},
            violations=(),
            times=(NOW, NOW, NOW),
        )
    )


def rule(number: int, snapshot: EvidenceSnapshotId, crowd: int = 0) -> tuple[KnowledgeCandidate, MemoryRecord]:
    """Return a candidate and the rule that it became; every number has a scope variant of its own.

    Args:
        number: which rule.
        snapshot: what it rests on.
        crowd: rules below this number are all about the first task, so that one request may see them all; they differ
            in mechanism and wording. The others are spread over tasks, as many on each as there are contrasts.
    """
    shared = _content(number, crowd)
    policy = distillation_policy().identity
    family = family_id(SPACE, shared["target"], METRIC.name, shared["mechanism"])
    variant = scope_variant_id(SPACE, family, shared["scope"], shared["target"])
    candidate = KnowledgeCandidate(
        **shared,
        proposed_family_id=family,
        proposed_scope_variant_id=variant,
        evidence_snapshot_id=snapshot,
        experience_ids=(),
        drafting_adapter="bench",
        policy=policy,
        findings=(),
    )
    record = MemoryRecord(
        **shared,
        family_id=family,
        scope_variant_id=variant,
        prior_memory_id=None,
        candidate_id=CandidateId(candidate.id),
        scope_description=_subject(number, crowd).scope_description,
        action=ActionKind.RECOMMEND,
        strength=_strength(number),
        distillation_policy=policy,
    )
    return candidate, record


def _content(number: int, crowd: int) -> dict[str, Any]:
    change = _change(number)
    case = number // len(CATALOG.contrasts) if number < crowd else None
    return {
        "namespace": SPACE,
        "created_at": NOW,
        "scope": rule_scope(_subject(number, crowd)),
        "target": DecisionTarget(
            decision_point=DecisionPoint.INTERVENTION,
            knob=Knob(name=change.knob, from_value=value_text(change.from_value), to_value=value_text(change.to_value)),
            catalog_digest=CATALOG.digest,
        ),
        "mechanism": change.mechanism if case is None else f"{change.mechanism}_{case}",
        "claim": _claim(change) if case is None else f"{_claim(change)} Seen in {case_words(case)}.",
        "effect": _effect(number),
        "links": (),
    }


def rule_scope(subject: TaskIdentity) -> MemoryScope:
    """Return the scope of a rule about every task like `subject`."""
    return MemoryScope(
        task_scope_id=subject.task_scope_id,
        evaluation_task_id=None,
        domain=CATALOG.domain,
        dataset_digest=None,
        source_digest=None,
        model_family=MODEL_FAMILY,
        environment_digest=None,
        contract_digest=CONTRACT.comparability_digest,
        budget_class=BUDGET,
        visibility="public",
    )


@lru_cache(maxsize=len(_SCOPES))
def _scope(number: int) -> tuple[TaskScopeId, str]:
    """Return id and words of a scope; making them is no part of an append, so it is done once."""
    subject = task(number)
    return subject.task_scope_id, subject.scope_description


def case_words(number: int) -> str:
    """Return a few made-up words, of which low numbers are common and high ones rare, as with real words."""
    return " ".join(f"case{number % each}" for each in (7, 101, 1009))


def _subject(number: int, crowd: int) -> TaskIdentity:
    if number < crowd:
        return task(0)
    return task((number - crowd) // len(CATALOG.contrasts) + (1 if crowd else 0))


def _change(number: int) -> Change:
    return CATALOG.contrasts[number % len(CATALOG.contrasts)]


def _claim(change: Change) -> str:
    summary = CATALOG.knobs[change.knob].summary
    return f"Moving {change.knob} from {change.from_value} to {change.to_value} raises {METRIC.name}. {summary}"


def _effect(number: int) -> EffectEstimate:
    mean = 0.01 + number % 40 / 1000
    interval = Interval(low=metric_text(round(mean - 0.005, 6)), high=metric_text(round(mean + 0.005, 6)), level="0.95")
    return EffectEstimate(
        metric=METRIC,
        baseline_mean="0.8",
        changed_mean=metric_text(round(0.8 + mean, 6)),
        mean_delta=metric_text(round(mean, 6)),
        method="t-mean-and-prediction",
        mean_interval=interval,
        prediction_interval=interval,
        unit_range=(interval.low, interval.high),
        unit_count=12,
        pair_count=60,
        improved_count=11,
        worsened_count=1,
        tied_count=0,
        p_value="0.001",
        adjusted_p_value="0.01",
        guardrails=(),
    )


def _strength(number: int) -> EvidenceStrength:
    return EvidenceStrength(
        grade=Grade.STRONG,
        support_count=5 + number % 20,
        counter_count=1,
        paired_comparison_count=60,
        effect_consistency="0.9",
        uncertainty_method="t-mean-and-prediction",
        reasons=("sign_replicated",),
    )
