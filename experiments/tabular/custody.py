"""The custodian: who may see which label.

Rules kept here:

- a table is split by class into 60 % train, 20 % validation and 20 % test; the split is a function of the table's
  digest and the seed alone, so paired runs of one seed meet the same rows;
- the PUBLIC problem file holds every feature and the training labels; validation and test labels are written only
  to the PRIVATE file, in another folder that only its owner can read;
- both files have deterministic bytes, so their digests identify the split on every run.

Not handled here: who computes a metric (`experiments.evaluator`).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from sklearn.model_selection import train_test_split

from experiments.archive import Array, archive_bytes, write_bytes
from experiments.tabular.tasks import LoadedTask
from records.errors import InvalidInputError

PROBLEM_ARRAYS: Final = frozenset({"X_train", "X_validation", "X_test", "y_train"})
LABEL_ARRAYS: Final = frozenset({"n_classes", "y_validation", "y_test"})
TRAIN_SHARE: Final = 0.6
VALIDATION_SHARE: Final = 0.2
_MAX_SEED: Final = 2**31 - 1


@dataclass(frozen=True)
class CustodyReceipt:
    """What the custodian wrote for one task and seed.

    Attributes:
        task_name: the task.
        seed: the seed of the split.
        problem_path: the public file; `problem_sha256` is the digest of its bytes.
        labels_path: the private file; `labels_sha256` is the digest of its bytes.
        n_train: rows that are fitted.
        n_validation: rows whose labels steer decisions.
        n_test: rows whose labels only judge.
    """

    task_name: str
    seed: int
    problem_path: Path
    problem_sha256: str
    labels_path: Path
    labels_sha256: str
    n_train: int
    n_validation: int
    n_test: int


def take_custody(task: LoadedTask, seed: int, public_dir: Path, private_dir: Path) -> CustodyReceipt:
    """Split a task for a seed and write the public problem and the private labels.

    Writing again gives the same bytes in the same place.

    Raises:
        InvalidInputError: the seed is not in [0, 2^31), or one folder is or contains the other.
    """
    if isinstance(seed, bool) or not 0 <= seed <= _MAX_SEED:
        raise InvalidInputError("seed", seed, f"Give an integer in [0, {_MAX_SEED}].")
    _check_apart(public_dir.resolve(), private_dir.resolve())
    parts = _split(task, seed)
    problem, labels = _contents(task, *parts)
    private_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    stem = f"{task.task.name}.seed-{seed}"
    problem_path, labels_path = public_dir / f"{stem}.problem.npz", private_dir / f"{stem}.labels.npz"
    return CustodyReceipt(
        task_name=task.task.name,
        seed=seed,
        problem_path=problem_path,
        problem_sha256=write_bytes(problem_path, archive_bytes(problem)),
        labels_path=labels_path,
        labels_sha256=write_bytes(labels_path, archive_bytes(labels), mode=0o600),
        n_train=len(parts[0]),
        n_validation=len(parts[1]),
        n_test=len(parts[2]),
    )


def split_seed(data_digest: str, seed: int) -> int:
    """Return the 32-bit seed of a split, derived from the table's content and the run's seed."""
    return int.from_bytes(hashlib.sha256(f"tabular-split-v1/{data_digest}/{seed}".encode("ascii")).digest()[:4], "big")


def _split(task: LoadedTask, seed: int) -> tuple[Array, Array, Array]:
    derived = split_seed(task.task.data_digest, seed)
    rows = np.arange(task.task.n_rows)
    train, rest = train_test_split(rows, train_size=TRAIN_SHARE, random_state=derived, stratify=task.labels)
    share = VALIDATION_SHARE / (1 - TRAIN_SHARE)
    validation, test = train_test_split(rest, train_size=share, random_state=derived, stratify=task.labels[rest])
    return np.sort(train), np.sort(validation), np.sort(test)


def _contents(
    task: LoadedTask, train: Array, validation: Array, test: Array
) -> tuple[dict[str, Array], dict[str, Array]]:
    x, y = task.features, task.labels.astype("<i2")
    problem = {"X_train": x[train], "X_validation": x[validation], "X_test": x[test], "y_train": y[train]}
    classes = np.array(task.task.n_classes, dtype="<i2")
    return problem, {"n_classes": classes, "y_validation": y[validation], "y_test": y[test]}


def _check_apart(public: Path, private: Path) -> None:
    if public.is_relative_to(private) or private.is_relative_to(public):
        raise InvalidInputError("private_dir", str(private), "Keep private labels outside the public folder.")
