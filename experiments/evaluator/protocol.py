"""What the evaluator is asked and what it answers: two JSON files, both machine-read and both checked.

Rules kept here:

- every model is frozen, strict and closed; NaN and infinities have no place in a result;
- a result says of each request either a full set of finite metrics or at least one violation, in request order;
- an answer names the digest of the code that gave it.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from typing import Annotated, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from experiments.fingerprint import source_set_digest
from records.canonical import DIGEST_PATTERN, domain_digest

MetricName = Literal["accuracy", "balanced_accuracy"]
SplitName = Literal["validation", "test"]
Digest = Annotated[str, Field(pattern=DIGEST_PATTERN)]

SPLITS: Final[tuple[SplitName, ...]] = ("validation", "test")
SOURCE_FILES: Final = (
    "experiments/archive.py",
    "experiments/evaluator/__main__.py",
    "experiments/evaluator/protocol.py",
    "experiments/evaluator/scoring.py",
    "experiments/fingerprint.py",
    "records/canonical.py",
    "records/errors.py",
)
_MODEL: Final = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class Bounds(BaseModel):
    """The closed interval that a valid metric lies in."""

    model_config = _MODEL

    minimum: float
    maximum: float

    @model_validator(mode="after")
    def _is_an_interval(self) -> Self:
        if self.minimum > self.maximum:
            raise ValueError("the minimum lies above the maximum")
        return self


def _shares() -> dict[MetricName, Bounds]:
    """Both metrics are shares of rows."""
    share = Bounds(minimum=0.0, maximum=1.0)
    return {"accuracy": share, "balanced_accuracy": share}


class EvaluatorSettings(BaseModel):
    """The part of an Evaluation Contract that the evaluator obeys.

    Attributes:
        primary_metric: the metric that decides; higher is better.
        guardrail_metrics: metrics that are computed beside it.
        bounds: metric name to the interval it must lie in, on every split.
        timeout_seconds: how long one evaluator process may run before it is killed.
    """

    model_config = _MODEL

    primary_metric: MetricName = "balanced_accuracy"
    guardrail_metrics: Annotated[tuple[MetricName, ...], Field(strict=False)] = ("accuracy",)
    bounds: dict[MetricName, Bounds] = Field(default_factory=_shares)
    timeout_seconds: Annotated[float, Field(gt=0)] = 120.0

    @model_validator(mode="after")
    def _metrics_are_distinct(self) -> Self:
        if len(set(self.metrics)) != len(self.metrics) or not set(self.bounds) <= set(self.metrics):
            raise ValueError("a metric is named twice, or has bounds and is not computed")
        return self

    @property
    def metrics(self) -> tuple[MetricName, ...]:
        """Every metric that is computed, the primary one first."""
        return (self.primary_metric, *self.guardrail_metrics)

    @property
    def metric_keys(self) -> frozenset[str]:
        """The keys of a full set of metrics: split and metric joined by an underscore."""
        return frozenset(f"{split}_{metric}" for split, metric in product(SPLITS, self.metrics))

    @property
    def digest(self) -> str:
        """SHA-256 over the canonical settings, in lower-case hex."""
        return domain_digest("evaluator-settings", self.model_dump(mode="json"))


class EvaluationRequest(BaseModel):
    """One set of predictions to judge.

    Attributes:
        observation_key: the caller's name for the run; the answer carries it back.
        predictions_path: inside the artifact folder, absolute or relative to it.
        predictions_sha256: the digest that the predictions had when the run ended.
        labels_path: inside the private folder, absolute or relative to it.
        labels_sha256: the digest that the custodian gave the labels.
    """

    model_config = _MODEL

    observation_key: Annotated[str, Field(min_length=1)]
    predictions_path: Annotated[str, Field(min_length=1)]
    predictions_sha256: Digest
    labels_path: Annotated[str, Field(min_length=1)]
    labels_sha256: Digest


class EvaluationResult(BaseModel):
    """What the evaluator found for one request.

    Attributes:
        observation_key: as asked.
        predictions_sha256: the digest of the judged predictions, as asked.
        metrics: `<split>_<metric>` to a finite number; empty when predictions or labels could not be judged.
        violations: codes such as `artifact_changed`, sorted; none means valid.
    """

    model_config = _MODEL

    observation_key: str
    predictions_sha256: Digest
    metrics: dict[str, float]
    violations: Annotated[tuple[str, ...], Field(strict=False)] = ()

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if not self.metrics and not self.violations:
            raise ValueError("a result has metrics or violations")
        return self

    @property
    def valid(self) -> bool:
        """Tell whether the metrics may be used."""
        return not self.violations


class RequestFile(BaseModel):
    """Everything that one evaluator process is asked."""

    model_config = _MODEL

    schema_version: Literal[1] = 1
    settings: EvaluatorSettings
    artifact_dir: str
    private_dir: str
    requests: tuple[EvaluationRequest, ...]


class ResultFile(BaseModel):
    """Everything that one evaluator process answers."""

    model_config = _MODEL

    schema_version: Literal[1] = 1
    evaluator_digest: Digest
    results: Annotated[tuple[EvaluationResult, ...], Field(strict=False)]


def evaluator_digest() -> str:
    """Return the digest over the source files that define an evaluation."""
    return source_set_digest(SOURCE_FILES)


def duplicates(keys: Iterable[str]) -> list[str]:
    """Return the keys that occur more than once, sorted."""
    seen: set[str] = set()
    return sorted({key for key in keys if key in seen or seen.add(key)})  # type: ignore[func-returns-value]
