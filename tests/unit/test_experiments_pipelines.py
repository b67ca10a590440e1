"""Fits: what scikit-learn gives for the same pipeline, twice the same, and refusals."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from experiments.archive import parse_archive
from experiments.fingerprint import environment, environment_digest
from experiments.tabular.custody import CustodyReceipt, take_custody
from experiments.tabular.pipelines import build_pipeline, fit_predict, predictions_bytes, source_digest
from experiments.tabular.tasks import load_task
from policies.catalog import load_catalog
from records.canonical import is_digest
from records.errors import InvalidInputError, InvalidSourceError

CATALOG = load_catalog("tabular-svm-v1")


@pytest.fixture(scope="module")
def custody(tmp_path_factory: pytest.TempPathFactory) -> CustodyReceipt:
    folder = tmp_path_factory.mktemp("custody")
    return take_custody(load_task("vehicle0"), 3, folder / "public", folder / "private")


def test_baseline_predicts_what_a_plain_svc_predicts(custody: CustodyReceipt) -> None:
    got = fit_predict(custody.problem_path, CATALOG.baseline, 3, custody.problem_sha256)
    with np.load(custody.problem_path) as problem:
        plain = SVC().fit(problem["X_train"], problem["y_train"])
        np.testing.assert_array_equal(got.test, plain.predict(problem["X_test"]))
        np.testing.assert_array_equal(got.validation, plain.predict(problem["X_validation"]))


def test_knobs_reach_the_pipeline(custody: CustodyReceipt) -> None:
    config = CATALOG.effective_config({"scaler": "standard", "C": 10, "class_weight": "balanced"})
    got = fit_predict(custody.problem_path, config, 3)
    with np.load(custody.problem_path) as problem:
        scaler = StandardScaler().fit(problem["X_train"])
        svc = SVC(C=10, class_weight="balanced").fit(scaler.transform(problem["X_train"]), problem["y_train"])
        np.testing.assert_array_equal(got.test, svc.predict(scaler.transform(problem["X_test"])))


@pytest.mark.parametrize("contrast", CATALOG.contrasts, ids=lambda change: f"{change.knob}={change.to_value}")
def test_every_contrast_fits_and_repeats_byte_for_byte(custody: CustodyReceipt, contrast: object) -> None:
    config = CATALOG.effective_config({contrast.knob: contrast.to_value})  # type: ignore[attr-defined]
    one, two = (fit_predict(custody.problem_path, config, 3) for _ in range(2))
    assert predictions_bytes(one) == predictions_bytes(two)
    arrays = parse_archive(predictions_bytes(one), frozenset({"validation", "test"}), "predictions")
    assert arrays["test"].shape == (custody.n_test,)
    assert arrays["validation"].shape == (custody.n_validation,)


def test_a_capped_fit_says_so(custody: CustodyReceipt) -> None:
    config = dict(CATALOG.baseline) | {"max_iter": 1}
    assert not fit_predict(custody.problem_path, config, 3).converged
    assert fit_predict(custody.problem_path, CATALOG.baseline, 3).converged


@pytest.mark.parametrize("wrong", [{"scaler": "minmax"}, {"unknown": 1}])
def test_a_configuration_of_another_kind_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidInputError):
        build_pipeline(dict(CATALOG.baseline) | wrong, 0, 10)


def test_a_problem_file_that_changed_is_refused(custody: CustodyReceipt, tmp_path: Path) -> None:
    copy = tmp_path / "problem.npz"
    copy.write_bytes(custody.problem_path.read_bytes() + b" ")
    with pytest.raises(InvalidSourceError, match=r"problem\.npz"):
        fit_predict(copy, CATALOG.baseline, 3, custody.problem_sha256)
    with pytest.raises(InvalidSourceError, match=r"absent\.npz"):
        fit_predict(tmp_path / "absent.npz", CATALOG.baseline, 3)


def test_private_labels_are_no_problem_file(custody: CustodyReceipt) -> None:
    with pytest.raises(InvalidSourceError):
        fit_predict(custody.labels_path, CATALOG.baseline, 3)


def test_fingerprints_hold_versions_and_nothing_of_the_machine() -> None:
    assert is_digest(environment_digest())
    assert is_digest(source_digest())
    assert environment()["numpy"] == np.__version__
    assert set(environment()) == {
        "implementation", "machine", "numpy", "python", "scikit-learn", "scipy", "system", "threadpoolctl",
    }  # fmt: skip
