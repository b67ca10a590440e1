"""Archives with stable bytes, and the custodian that keeps labels apart."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.archive import archive_bytes, parse_archive, write_bytes
from experiments.tabular.custody import CustodyReceipt, take_custody
from experiments.tabular.tasks import load_task
from records.errors import InvalidInputError, InvalidSourceError

TASK = "ecoli1"
PROGRAM = """
import sys
from pathlib import Path
from experiments.tabular.custody import take_custody
from experiments.tabular.tasks import load_task
receipt = take_custody(load_task("ecoli1"), 7, Path(sys.argv[1]), Path(sys.argv[2]))
print(receipt.problem_sha256, receipt.labels_sha256)
"""


@pytest.fixture
def receipt(tmp_path: Path) -> CustodyReceipt:
    return take_custody(load_task(TASK), 7, tmp_path / "public", tmp_path / "private")


@given(values=st.lists(st.integers(-100, 100), min_size=1, max_size=20))
def test_an_archive_is_read_back_by_numpy_and_by_us(values: list[int]) -> None:
    arrays = {"b": np.array(values, dtype="<i2"), "a": np.array(3, dtype="<i2"), "c": np.eye(2)[:, ::-1]}
    data = archive_bytes(arrays)
    assert data == archive_bytes(dict(reversed(arrays.items())))
    ours = parse_archive(data, frozenset("abc"), "x.npz")
    with np.load(io.BytesIO(data), allow_pickle=False) as theirs:
        for name, array in arrays.items():
            np.testing.assert_array_equal(theirs[name], array)
            np.testing.assert_array_equal(ours[name], array)
            assert ours[name].shape == array.shape


def test_objects_are_never_written() -> None:
    with pytest.raises(ValueError, match="only numbers"):
        archive_bytes({"a": np.array([{}], dtype=object)})


def test_every_truncation_of_an_archive_is_refused() -> None:
    data = archive_bytes({"a": np.arange(20, dtype="<i2")})
    for length in range(len(data)):
        with pytest.raises(InvalidSourceError, match=r"x\.npz"):
            parse_archive(data[:length], frozenset("a"), "x.npz")


def test_pickles_text_and_other_entries_are_refused() -> None:
    buffer = io.BytesIO()
    np.savez(buffer, a=np.array([{}], dtype=object))
    text = io.BytesIO()
    np.savez(text, a=np.array(["x"]))
    for data in (buffer.getvalue(), text.getvalue(), archive_bytes({"b": np.arange(2)}), b"\x80\x04N.", b""):
        with pytest.raises(InvalidSourceError):
            parse_archive(data, frozenset("a"), "x.npz")


def test_an_interrupted_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    write_bytes(tmp_path / "x", b"old")
    with pytest.raises(TypeError):
        write_bytes(tmp_path / "x", "new")  # type: ignore[arg-type]
    assert [path.name for path in tmp_path.iterdir()] == ["x"]
    assert (tmp_path / "x").read_bytes() == b"old"


def test_the_three_parts_hold_every_row_once(receipt: CustodyReceipt) -> None:
    task = load_task(TASK)
    with np.load(receipt.problem_path) as problem, np.load(receipt.labels_path) as labels:
        x = np.vstack([problem["X_train"], problem["X_validation"], problem["X_test"]])
        y = np.concatenate([problem["y_train"], labels["y_validation"], labels["y_test"]])
    got = sorted(map(tuple, np.column_stack([x, y]).tolist()))
    assert got == sorted(map(tuple, np.column_stack([task.features, task.labels]).tolist()))
    assert (receipt.n_train, receipt.n_validation, receipt.n_test) == (201, 67, 68)  # 336 rows in 60, 20 and 20 %


def test_each_part_keeps_the_share_of_each_class(receipt: CustodyReceipt) -> None:
    share = load_task(TASK).labels.mean()
    with np.load(receipt.problem_path) as problem, np.load(receipt.labels_path) as labels:
        for part in (problem["y_train"], labels["y_validation"], labels["y_test"]):
            assert abs(part.sum() - share * len(part)) <= 1


def test_the_public_file_holds_no_hidden_label(receipt: CustodyReceipt) -> None:
    with np.load(receipt.problem_path) as problem:
        assert sorted(problem.files) == ["X_test", "X_train", "X_validation", "y_train"]
    assert receipt.labels_path.stat().st_mode & 0o077 == 0
    assert receipt.labels_path.parent.stat().st_mode & 0o077 == 0


def test_seeds_differ_and_repeat(receipt: CustodyReceipt, tmp_path: Path) -> None:
    again = take_custody(load_task(TASK), 7, tmp_path / "public", tmp_path / "private")
    other = take_custody(load_task(TASK), 8, tmp_path / "public", tmp_path / "private")
    assert again == receipt
    assert other.problem_sha256 != receipt.problem_sha256


def test_another_process_writes_the_same_bytes(receipt: CustodyReceipt, tmp_path: Path) -> None:
    environment = os.environ | {"PYTHONHASHSEED": "12345", "TZ": "Asia/Tokyo"}
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "a"), str(tmp_path / "b")]
    answer = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=120)
    assert answer.stdout.split() == [receipt.problem_sha256, receipt.labels_sha256]


@pytest.mark.parametrize("seed", [-1, 2**31, True])
def test_a_seed_out_of_range_is_refused(seed: int, tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="seed"):
        take_custody(load_task(TASK), seed, tmp_path / "public", tmp_path / "private")


@pytest.mark.parametrize(("public", "private"), [("x", "x"), ("x", "x/private"), ("x/public", "x"), ("x", "y/../x")])
def test_hidden_labels_are_never_inside_the_public_folder(public: str, private: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="private_dir"):
        take_custody(load_task(TASK), 7, tmp_path / public, tmp_path / private)
