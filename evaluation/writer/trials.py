"""Planned runs as the records of a Verified Evidence Bundle, sound or damaged in the way that was planned.

Every run goes through `memory.evidence.bundle_records`. What is damaged is damaged afterwards: a record is made again
with other content, and whatever names it is made again after it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, Final

from evaluation.bench.corpus import CATALOG
from evaluation.writer.evidence import FORBIDDEN
from evaluation.writer.groups import EVALUATOR, PRIVATE, SPACE, Failure, Group, Place, PlannedRun, Taint
from evaluation.writer.ranges import MARGIN
from memory.evidence import Trial, bundle_records
from records.base import Record
from records.canonical import digest_bytes, metric_text
from records.evidence import AttemptStatus, Corpus, EvaluationContract, VerificationKind
from records.governance import ArmManifest
from records.ids import RunId
from records.models import Id
from records.runtime import RunBody
from records.values import ArtifactRef, Direction, MetricSpec

METRIC: Final = "score"
GUARDRAIL: Final = "recall_of_the_rare_class"
_BEGUN: Final = "2026-01-{day:02d}T00:00:00.000000Z"
_ROLE: Final = "predictions"
_STATUS: Final = {
    Failure.ENVIRONMENT: AttemptStatus.FAILED,
    Failure.EXECUTION: AttemptStatus.FAILED,
    Failure.EVALUATION: AttemptStatus.INVALID,
    Failure.BUDGET: AttemptStatus.CANCELLED,
}


def source_run(namespace: str, label: str, manifest: ArmManifest) -> RunBody:
    """Return the specification of the Run that planned runs of a label belong to."""
    return RunBody(
        namespace=namespace,
        run_kind="SCIENTIFIC",
        admission_key=label,
        specification_digest=manifest.canonical_digest,
        admitted_at=_BEGUN.format(day=1),
    )


def space_of(run: PlannedRun) -> str:
    """Return the namespace that a run is recorded in."""
    return PRIVATE if run.taint is Taint.PRIVATE else SPACE


def records_of(group: Group, run: PlannedRun, run_id: RunId) -> tuple[Record, ...]:
    """Return the records of one planned run, parents first and the Experience last."""
    made = bundle_records(_trial(group, run, run_id))
    if run.taint is Taint.NAMES_EVALUATOR:
        made = _amended(made, hypothesis={"conditions": (run.prose,)})
    elif run.copy_of > 0 or run.prose:
        said = f" Imported as number {run.copy_of}." if run.copy_of > 0 else ""
        made = _amended(made, hypothesis={"statement": f"{_said(made[1], 'statement')}{said} {run.prose}".strip()})
        made = _amended(made, experience={"analysis": f"{_said(made[-1], 'analysis')}{said} {run.prose}".strip()})
    if run.failure is not None:
        exit_code = 0 if run.failure is Failure.EVALUATION else 1
        made = _amended(made, attempt={"status": _STATUS[run.failure]})
        made = _amended(made, observation={"exit_code": exit_code, "error": f"failed: {run.failure.value}"})
    return _damaged(made, run.taint)


def _damaged(made: tuple[Record, ...], taint: Taint | None) -> tuple[Record, ...]:
    match taint:
        case Taint.UNVERIFIED:
            return _without(made, "verification", "verification_id")
        case Taint.NO_PROVENANCE:
            return _without(made, "trial-provenance", "provenance_id")
        case Taint.FORGED:
            return _amended(made, trial_provenance={"evidence_digest": digest_bytes(b"never left behind")})
        case _:
            return made


def _trial(group: Group, run: PlannedRun, run_id: RunId) -> Trial:
    namespace, place = space_of(run), run.place
    baseline = digest_bytes(f"configuration {place.baseline}".encode())
    config = baseline if run.change is None else digest_bytes(f"{baseline} with {run.change}".encode())
    time = _BEGUN.format(day=2 + max(run.copy_of, 0))
    bytes_of = f"{group.name} {run.root} {run.seed} {run.change} {place} {run.label} {run.value}".encode()
    change = None if run.change is None else (run.change.knob, run.change.from_value, run.change.to_value)
    measured = {METRIC: run.value} | ({} if run.guardrail is None else {GUARDRAIL: run.guardrail})
    return Trial(
        namespace=namespace,
        task=group.task(run.root),
        contract=_contract(group, run),
        catalog_digest=CATALOG.digest,
        run_id=run_id,
        iteration=0 if run.change is None else 1,
        seed=run.seed,
        change=change,
        mechanism="baseline" if run.change is None else run.change.mechanism,
        config_digest=config,
        baseline_config_digest=baseline,
        source_digest=digest_bytes(place.source.encode()),
        environment_digest=digest_bytes(place.environment.encode()),
        model_family=place.model_family,
        budget_class=place.budget,
        artifacts=(ArtifactRef(role=_ROLE, sha256=digest_bytes(bytes_of), size_bytes=len(bytes_of)),),
        verified={} if run.failure else measured,
        violations=() if run.failure is None else (f"failed_{run.failure.value}",),
        times=(time, time, time),
        corpus=Corpus.EVALUATION if run.taint is Taint.EVALUATION else Corpus.DEVELOPMENT,
        arm="arm" if run.taint is Taint.ARM_BOUND else None,
        pair="pair" if run.taint is Taint.ARM_BOUND else None,
        claimed={METRIC: run.value if run.claimed is None else run.claimed},
    )


def _contract(group: Group, run: PlannedRun) -> EvaluationContract:
    kind = VerificationKind.ATTESTED if run.taint is Taint.ATTESTED else VerificationKind.RECOMPUTED
    return _contract_of(space_of(run), run.place.contract, kind, minimize=group.minimize, guarded=group.guarded)


def contract_at(group: Group, place: Place) -> EvaluationContract:
    """Return the contract of a place."""
    kind = VerificationKind.RECOMPUTED
    return _contract_of(SPACE, place.contract, kind, minimize=group.minimize, guarded=group.guarded)


def comparability(group: Group, place: Place) -> str:
    """Return the digest by which a scope names the contract of a place."""
    return contract_at(group, place).comparability_digest


@cache
def _contract_of(
    namespace: str, version: str, kind: VerificationKind, *, minimize: bool, guarded: bool
) -> EvaluationContract:
    direction = Direction.MINIMIZE if minimize else Direction.MAXIMIZE
    guardrail = MetricSpec(name=GUARDRAIL, direction=Direction.MAXIMIZE, unit="share")
    return EvaluationContract(
        namespace=namespace,
        created_at=_BEGUN.format(day=1),
        name="planted",
        version=version,
        domain=CATALOG.domain,
        primary_metric=MetricSpec(name=METRIC, direction=direction, unit="share"),
        guardrail_metrics=(guardrail,) if guarded else (),
        metric_low="0",
        metric_high="1",
        equivalence_margin=metric_text(MARGIN),
        verification_kind=kind,
        evaluator=EVALUATOR,
        evaluator_digest=digest_bytes(f"evaluator {version}".encode()),
        timeout_seconds=60,
        required_artifacts=(_ROLE,),
    )


def is_forbidden(knob: str) -> bool:
    """Tell whether a rule speaks about the change that the catalog does not allow."""
    return knob == FORBIDDEN.knob


def _said(record: Record, name: str) -> str:
    return str(getattr(record, name))


def _amended(made: Sequence[Record], **changes: dict[str, Any]) -> tuple[Record, ...]:
    """Make the records of some kinds again with other content, and after them whatever names one of them."""
    renamed: dict[str, Id] = {}
    found: list[Record] = []
    for record in made:
        fields = {name: getattr(record, name) for name in type(record).model_fields}
        update = {name: renamed[value] for name, value in fields.items() if isinstance(value, Id) and value in renamed}
        update |= changes.get(record.kind.noun.replace("-", "_"), {})
        fresh = record.model_copy(update=update) if update else record
        renamed[str(record.id)] = fresh.id
        found.append(fresh)
    return tuple(found)


def _without(made: Sequence[Record], noun: str, name: str) -> tuple[Record, ...]:
    """Leave a record out, and let the Experience name none."""
    kept = tuple(record for record in made if record.kind.noun != noun)
    return _amended(kept, experience={name: None})
