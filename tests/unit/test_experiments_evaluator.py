"""The independent evaluator: what it computes, and what it objects to, one request at a time."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.archive import Array, archive_bytes, write_bytes
from experiments.evaluator import scoring
from experiments.evaluator.client import evaluate
from experiments.evaluator.protocol import Bounds, EvaluationRequest, EvaluatorSettings
from experiments.evaluator.scoring import judge, metric_violations
from records.errors import InvalidInputError

SETTINGS = EvaluatorSettings()
VALIDATION = np.array([0, 0, 0, 0, 0, 0, 1, 1], dtype="<i2")
TEST = np.array([0, 0, 0, 0, 1, 1, 2, 2, 2, 2], dtype="<i2")
KEYS = {"validation_accuracy", "validation_balanced_accuracy", "test_accuracy", "test_balanced_accuracy"}


@dataclass(frozen=True)
class Bench:
    """Two folders with one file of hidden labels."""

    artifacts: Path
    private: Path
    labels_sha256: str

    def request(self, key: str, data: bytes | None, **changes: str) -> EvaluationRequest:
        """Store predictions and ask for their evaluation."""
        sha256 = "0" * 64 if data is None else write_bytes(self.artifacts / f"{key}.npz", data)
        fields = {
            "observation_key": key,
            "predictions_path": f"{key}.npz",
            "predictions_sha256": sha256,
            "labels_path": "labels.npz",
            "labels_sha256": self.labels_sha256,
        }
        return EvaluationRequest(**(fields | changes))

    def judge(self, request: EvaluationRequest, settings: EvaluatorSettings = SETTINGS) -> tuple[str, ...]:
        """Judge in this process and return the violations."""
        return judge(request, settings, self.artifacts, self.private).violations


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    labels: dict[str, Array] = {"n_classes": np.array(3, dtype="<i2"), "y_validation": VALIDATION, "y_test": TEST}
    (tmp_path / "artifacts").mkdir()
    sha256 = write_bytes(tmp_path / "private" / "labels.npz", archive_bytes(labels))
    return Bench(tmp_path / "artifacts", tmp_path / "private", sha256)


def _predictions(validation: Array = VALIDATION, test: Array = TEST) -> bytes:
    return archive_bytes({"validation": validation, "test": test})


def test_metrics_are_those_worked_out_by_hand(bench: Bench) -> None:
    test = np.array([0, 0, 0, 1, 1, 0, 2, 2, 2, 0], dtype="<i2")  # recalls 3/4, 1/2, 3/4; 7 of 10 right
    request = bench.request("run", _predictions(np.zeros(8, dtype="<i2"), test))  # recalls 1, 0; 6 of 8 right
    result = judge(request, SETTINGS, bench.artifacts, bench.private)
    assert result.violations == ()
    assert result.valid
    assert result.metrics == pytest.approx(
        {
            "validation_accuracy": 0.75,
            "validation_balanced_accuracy": 0.5,
            "test_accuracy": 0.7,
            "test_balanced_accuracy": 2 / 3,
        }
    )


@given(data=st.data())
def test_balanced_accuracy_is_the_mean_recall_over_occurring_classes(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    size = data.draw(st.integers(1, 30))
    draw = st.lists(st.integers(0, 3), min_size=size, max_size=size)
    truth, guess = data.draw(draw), data.draw(draw)
    recalls = [
        sum(g == c for t, g in zip(truth, guess, strict=True) if t == c) / truth.count(c) for c in sorted(set(truth))
    ]
    folder = tmp_path_factory.mktemp("judge")
    y = np.array(truth, dtype="<i2")
    labels: dict[str, Array] = {"n_classes": np.array(4, dtype="<i2"), "y_validation": y, "y_test": y}
    sha256 = write_bytes(folder / "private" / "labels.npz", archive_bytes(labels))
    bench = Bench(folder / "artifacts", folder / "private", sha256)
    guesses = np.array(guess, dtype="<i2")
    metrics = judge(
        bench.request("run", _predictions(guesses, guesses)), SETTINGS, bench.artifacts, bench.private
    ).metrics
    assert metrics["test_balanced_accuracy"] == pytest.approx(sum(recalls) / len(recalls))


def test_one_process_judges_good_and_bad_requests_apart(bench: Bench, tmp_path: Path) -> None:
    outside = tmp_path / "outside.npz"
    sha256 = write_bytes(outside, _predictions())
    (bench.artifacts / "link.npz").symlink_to(outside)
    asked = {
        "good": (bench.request("good", _predictions()), ()),
        "missing": (bench.request("missing", None), ("artifact_missing",)),
        "changed": (bench.request("changed", _predictions(), predictions_sha256="1" * 64), ("artifact_changed",)),
        "unreadable": (bench.request("unreadable", b"not an archive"), ("artifact_unreadable",)),
        "link": (
            bench.request("link", None, predictions_sha256=sha256),
            ("artifact_outside_root",),
        ),
        "short": (bench.request("short", _predictions(test=TEST[:-1])), ("wrong_length:test",)),
        "unknown": (bench.request("unknown", _predictions(test=TEST + 1)), ("unknown_label:test",)),
        "negative": (bench.request("negative", _predictions(VALIDATION - 1)), ("unknown_label:validation",)),
        "floats": (bench.request("floats", _predictions(test=TEST * 1.0)), ("label_not_integer:test",)),
        "hidden": (bench.request("hidden", _predictions(), labels_sha256="2" * 64), ("private_data_changed",)),
    }
    results = evaluate(
        [request for request, _ in asked.values()],
        contract=SETTINGS,
        private_dir=bench.private,
        artifact_dir=bench.artifacts,
        workdir=tmp_path / "work",
    )
    assert {result.observation_key: result.violations for result in results} == {
        key: violations for key, (_, violations) in asked.items()
    }
    assert results[0].metrics == dict.fromkeys(KEYS, 1.0)
    assert all(result.metrics == {} for result in results[1:])
    assert list((tmp_path / "work").iterdir()) == []


def test_labels_that_are_missing_elsewhere_or_of_another_shape(bench: Bench) -> None:
    assert bench.judge(bench.request("a", _predictions(), labels_path="x.npz")) == ("private_data_missing",)
    assert bench.judge(bench.request("b", _predictions(), labels_path="../artifacts/b.npz")) == (
        "private_data_outside_root",
    )
    for number, y in enumerate((TEST[:0], TEST + 9, TEST * 1.0, TEST.reshape(5, 2))):
        labels: dict[str, Array] = {"n_classes": np.array(3, dtype="<i2"), "y_validation": VALIDATION, "y_test": y}
        sha256 = write_bytes(bench.private / f"{number}.npz", archive_bytes(labels))
        request = bench.request("c", _predictions(), labels_path=f"{number}.npz", labels_sha256=sha256)
        assert bench.judge(request) == ("private_data_unreadable",)


def test_predictions_that_change_during_the_evaluation_are_seen(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    request = bench.request("run", _predictions())

    def overwrite_and_score(_truth: Array, _predicted: Array) -> float:
        (bench.artifacts / "run.npz").write_bytes(_predictions(test=TEST[::-1].copy()))
        return 1.0

    monkeypatch.setitem(scoring._METRICS, "accuracy", overwrite_and_score)
    result = judge(request, SETTINGS, bench.artifacts, bench.private)
    assert (result.violations, result.metrics) == (("artifact_changed",), {})


def test_bounds_are_applied_per_split(bench: Bench) -> None:
    settings = EvaluatorSettings(
        bounds={"accuracy": Bounds(minimum=0.9, maximum=1.0), "balanced_accuracy": Bounds(minimum=0.0, maximum=0.99)}
    )
    request = bench.request("run", _predictions(np.zeros(8, dtype="<i2")))
    assert bench.judge(request, settings) == (
        "metric_above_maximum:test_balanced_accuracy",
        "metric_below_minimum:validation_accuracy",
    )


def test_metrics_that_are_missing_or_not_finite_are_violations() -> None:
    metrics = {"test_balanced_accuracy": float("nan"), "test_accuracy": float("inf"), "validation_accuracy": 0.5}
    assert metric_violations(metrics, SETTINGS) == (
        "metric_not_finite:test_accuracy",
        "metric_not_finite:test_balanced_accuracy",
        "missing_primary_metric:validation_balanced_accuracy",
    )


def test_two_requests_of_one_key_are_refused(bench: Bench, tmp_path: Path) -> None:
    request = bench.request("run", _predictions())
    with pytest.raises(InvalidInputError, match="observation_key"):
        evaluate(
            [request, request],
            contract=SETTINGS,
            private_dir=bench.private,
            artifact_dir=bench.artifacts,
            workdir=tmp_path,
        )


def test_nothing_asked_is_nothing_answered(tmp_path: Path) -> None:
    assert evaluate([], contract=SETTINGS, private_dir=tmp_path, artifact_dir=tmp_path, workdir=tmp_path) == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"guardrail_metrics": ("balanced_accuracy",)},
        {"primary_metric": "f1"},
        {"bounds": {"accuracy": {"minimum": 1.0, "maximum": 0.0}}},
        {"timeout_seconds": 0.0},
        {"timeout_seconds": float("nan")},
    ],
)
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="validation error"):
        EvaluatorSettings.model_validate(wrong)
