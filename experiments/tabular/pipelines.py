"""Fit one pipeline configuration on one public problem file and predict the rows whose labels are hidden.

Rules kept here:

- the only inputs are the problem file, the configuration and the seed; the same three give the same predictions in
  the same environment (`experiments.fingerprint.environment_digest`);
- one thread, no output, no clock in the predictions: `predictions_bytes` holds labels alone;
- a fit that reaches the iteration cap is used as it stands and says so in `converged`.

Not handled here: metrics; this process has no labels to compute them from.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import QuantileTransformer, RobustScaler, StandardScaler
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]  # it publishes no types

from experiments.archive import Array, archive_bytes, parse_archive
from experiments.fingerprint import source_set_digest
from experiments.tabular.custody import PROBLEM_ARRAYS
from records.canonical import digest_bytes
from records.errors import InvalidInputError, InvalidSourceError

SOURCE_FILES: Final = ("experiments/archive.py", "experiments/tabular/pipelines.py")
_SETTINGS: Final = frozenset(
    {"scaler", "C", "class_weight", "kernel", "tol", "shrinking", "gamma", "degree", "coef0", "cache_mb", "max_iter"}
)
_MOST_QUANTILES: Final = 1000


@dataclass(frozen=True)
class Predictions:
    """What one fit predicted.

    Attributes:
        validation: int16, shape (n_validation,), class numbers.
        test: int16, shape (n_test,), class numbers.
        seconds: wall time of fit and predict; never part of an identity.
        converged: whether the solver stopped by its tolerance rather than by the iteration cap.
    """

    validation: NDArray[np.int16]
    test: NDArray[np.int16]
    seconds: float
    converged: bool


def fit_predict(problem_path: Path, config: Mapping[str, object], seed: int, sha256: str | None = None) -> Predictions:
    """Fit the configured pipeline and predict validation and test rows.

    Args:
        problem_path: a public problem file of the custodian.
        config: a full run configuration of catalog `tabular-svm`.
        seed: seed of whatever is random in the pipeline.
        sha256: the digest that the problem file must have; None takes the file as it is.

    Raises:
        InvalidSourceError: the file is missing, damaged or has another digest.
        InvalidInputError: the configuration is none of the catalog's.
    """
    problem = _read_problem(problem_path, sha256)
    pipeline = build_pipeline(config, seed, rows=len(problem["y_train"]))
    with threadpool_limits(limits=1), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        start = time.perf_counter()
        pipeline.fit(problem["X_train"], problem["y_train"])
        validation = pipeline.predict(problem["X_validation"])
        test = pipeline.predict(problem["X_test"])
        seconds = time.perf_counter() - start
    capped = any(issubclass(warning.category, ConvergenceWarning) for warning in caught)
    return Predictions(validation.astype("<i2"), test.astype("<i2"), seconds, not capped)


def build_pipeline(config: Mapping[str, object], seed: int, rows: int) -> Pipeline:
    """Return the unfitted pipeline of a configuration; `rows` bounds the number of quantiles.

    Raises:
        InvalidInputError: a setting is missing, unknown or of a value that the pipeline does not have.
    """
    if config.keys() != _SETTINGS:
        wrong = sorted(config.keys() ^ _SETTINGS)
        raise InvalidInputError("config", wrong, f"The pipeline takes exactly {', '.join(sorted(_SETTINGS))}.")
    settings: dict[str, Any] = dict(config)
    weight = settings["class_weight"]
    classifier = SVC(
        C=settings["C"],
        kernel=settings["kernel"],
        class_weight=None if weight == "none" else weight,
        gamma=settings["gamma"],
        degree=settings["degree"],
        coef0=settings["coef0"],
        tol=settings["tol"],
        shrinking=settings["shrinking"],
        cache_size=settings["cache_mb"],
        max_iter=settings["max_iter"],
        random_state=seed,
    )
    return make_pipeline(*_scaler(settings["scaler"], seed, rows), classifier)


def predictions_bytes(predictions: Predictions) -> bytes:
    """Return the bytes of the predictions artifact: an archive of `validation` and `test`, and nothing else."""
    return archive_bytes({"validation": predictions.validation, "test": predictions.test})


def source_digest() -> str:
    """Return the digest over the source files that define a fit."""
    return source_set_digest(SOURCE_FILES)


def _scaler(name: str, seed: int, rows: int) -> list[Any]:
    match name:
        case "none":
            return []
        case "standard":
            return [StandardScaler()]
        case "robust":
            return [RobustScaler()]
        case "quantile":
            quantiles = min(_MOST_QUANTILES, rows)
            return [QuantileTransformer(n_quantiles=quantiles, output_distribution="normal", random_state=seed)]
        case _:
            raise InvalidInputError("config scaler", name, "Give none, standard, robust or quantile.")


def _read_problem(path: Path, sha256: str | None) -> dict[str, Array]:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InvalidSourceError(path.name, str(error), "Let the custodian write the problem file again.") from error
    if sha256 is not None and digest_bytes(data) != sha256:
        raise InvalidSourceError(path.name, digest_bytes(data), f"The custodian wrote {sha256}; write it again.")
    return parse_archive(data, PROBLEM_ARRAYS, path.name)
