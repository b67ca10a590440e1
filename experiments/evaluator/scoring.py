"""Judge one set of predictions against labels that only the evaluator reads.

Rules kept here:

- the bytes whose digest was checked are the bytes that are judged; the predictions are hashed again afterwards, so
  that a change during the evaluation is seen;
- paths are resolved through links and must lie in their folder;
- what is wrong with one request is a violation of that request and never an error for the others;
- balanced accuracy is the mean of the recalls over the classes that occur in the labels (scikit-learn's
  `balanced_accuracy_score`), accuracy the share of equal labels (`accuracy_score`).

Violations: artifact_outside_root, artifact_missing, artifact_changed, artifact_unreadable, private_data_outside_root,
private_data_missing, private_data_changed, private_data_unreadable, wrong_length:<split>, label_not_integer:<split>,
unknown_label:<split>, missing_primary_metric:<key>, metric_not_finite:<key>, metric_below_minimum:<key>,
metric_above_maximum:<key>.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sklearn.metrics import accuracy_score, balanced_accuracy_score

from experiments.archive import Array, parse_archive
from experiments.evaluator.protocol import SPLITS, EvaluationRequest, EvaluationResult, EvaluatorSettings, MetricName
from records.canonical import digest_bytes
from records.errors import InvalidSourceError

_PREDICTIONS: Final = frozenset(SPLITS)
_LABELS: Final = frozenset({"n_classes", "y_validation", "y_test"})
_METRICS: Final[dict[MetricName, Callable[[Array, Array], float]]] = {
    "accuracy": accuracy_score,
    "balanced_accuracy": balanced_accuracy_score,
}


class _ViolationError(Exception):
    """A request cannot be judged; the arguments are its violations."""


@dataclass(frozen=True)
class _File:
    """Where one of the two files lies, what it must be, and how its violations begin."""

    root: Path
    path: str
    sha256: str
    names: frozenset[str]
    noun: str


def judge(
    request: EvaluationRequest, settings: EvaluatorSettings, artifact_dir: Path, private_dir: Path
) -> EvaluationResult:
    """Return the metrics of one request, or the violations that forbid them."""
    predicted = _File(artifact_dir, request.predictions_path, request.predictions_sha256, _PREDICTIONS, "artifact")
    hidden = _File(private_dir, request.labels_path, request.labels_sha256, _LABELS, "private_data")
    metrics: dict[str, float] = {}
    try:
        predictions, labels = _read(predicted), _read(hidden)
        _check_predictions(predictions, labels)
        computed = dict(_metrics(predictions, labels, settings))
        _bytes(predicted)
        violations = metric_violations(computed, settings)
        metrics = {key: value for key, value in computed.items() if math.isfinite(value)}
    except _ViolationError as error:
        violations = tuple(str(code) for code in error.args)
    return EvaluationResult(
        observation_key=request.observation_key,
        predictions_sha256=request.predictions_sha256,
        metrics=metrics,
        violations=violations,
    )


def metric_violations(metrics: Mapping[str, float], settings: EvaluatorSettings) -> tuple[str, ...]:
    """Return what the settings object to in a set of metrics, sorted; nothing means valid."""
    return tuple(sorted(_metric_violations(metrics, settings)))


def _metric_violations(metrics: Mapping[str, float], settings: EvaluatorSettings) -> Iterator[str]:
    for split in SPLITS:
        if f"{split}_{settings.primary_metric}" not in metrics:
            yield f"missing_primary_metric:{split}_{settings.primary_metric}"
        for metric in settings.metrics:
            key = f"{split}_{metric}"
            value, bounds = metrics.get(key), settings.bounds.get(metric)
            if value is None:
                continue
            if not math.isfinite(value):
                yield f"metric_not_finite:{key}"
            elif bounds is not None and value < bounds.minimum:
                yield f"metric_below_minimum:{key}"
            elif bounds is not None and value > bounds.maximum:
                yield f"metric_above_maximum:{key}"


def _metrics(
    predictions: Mapping[str, Array], labels: Mapping[str, Array], settings: EvaluatorSettings
) -> Iterator[tuple[str, float]]:
    with warnings.catch_warnings():
        # A predicted class that a small split lacks is legitimate; it counts as an error of that row.
        warnings.simplefilter("ignore", UserWarning)
        for split in SPLITS:
            for metric in settings.metrics:
                yield f"{split}_{metric}", float(_METRICS[metric](labels[f"y_{split}"], predictions[split]))


def _check_predictions(predictions: Mapping[str, Array], labels: Mapping[str, Array]) -> None:
    n_classes = int(labels["n_classes"])
    violations: list[str] = []
    for split in SPLITS:
        predicted = predictions[split]
        if predicted.shape != labels[f"y_{split}"].shape:
            violations.append(f"wrong_length:{split}")
        elif predicted.dtype.kind not in "iu":
            violations.append(f"label_not_integer:{split}")
        elif predicted.min() < 0 or predicted.max() >= n_classes:
            violations.append(f"unknown_label:{split}")
    if violations:
        raise _ViolationError(*sorted(violations))


def _read(file: _File) -> dict[str, Array]:
    data = _bytes(file)
    try:
        arrays = parse_archive(data, file.names, file.noun)
    except InvalidSourceError as error:
        raise _ViolationError(f"{file.noun}_unreadable") from error
    if file.names == _LABELS and not _labels_are_sound(arrays):
        raise _ViolationError(f"{file.noun}_unreadable")
    return arrays


def _labels_are_sound(arrays: Mapping[str, Array]) -> bool:
    count = arrays["n_classes"]
    if count.shape != () or count.dtype.kind not in "iu":
        return False
    splits = [arrays[f"y_{split}"] for split in SPLITS]
    return all(y.ndim == 1 and y.size and y.dtype.kind in "iu" and y.min() >= 0 and y.max() < count for y in splits)


def _bytes(file: _File) -> bytes:
    root = file.root.resolve()
    path = (root / file.path).resolve()
    if not path.is_relative_to(root):
        raise _ViolationError(f"{file.noun}_outside_root")
    try:
        data = path.read_bytes()
    except OSError as error:
        raise _ViolationError(f"{file.noun}_missing") from error
    if digest_bytes(data) != file.sha256:
        raise _ViolationError(f"{file.noun}_changed")
    return data
