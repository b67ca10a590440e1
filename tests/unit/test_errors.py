"""Every error keeps its fields across processes and says what to do."""

from __future__ import annotations

import copy
import pickle

import pytest

from records import errors
from records.errors import VrmError

EVERY = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, VrmError)]


def test_family_is_the_one_drawn_in_the_module() -> None:
    drawn = {line.split("─ ")[1].split()[0] for line in (errors.__doc__ or "").splitlines() if "─ " in line}
    assert {kind.__name__ for kind in EVERY} == drawn | {"VrmError"}


@pytest.mark.parametrize("kind", EVERY)
def test_survives_pickling(kind: type[VrmError]) -> None:
    error = kind("seed", 7, "Give a seed.")
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):  # noqa: S301  # our own bytes
        assert type(again) is kind
        assert (again.field, again.value, again.remedy) == ("seed", "7", "Give a seed.")
        assert str(again) == "seed: 7. Give a seed."
        assert again.as_dict() == {
            "error": kind.__name__,
            "field": "seed",
            "value": "7",
            "remedy": "Give a seed.",
        }


def test_long_values_are_cut_and_pickle_the_same() -> None:
    error = VrmError("payload", "x" * 1000, "Shorten it.")
    assert len(error.value) < 200
    assert "1000 characters" in error.value
    assert pickle.loads(pickle.dumps(error)).value == error.value  # noqa: S301  # our own bytes


@pytest.mark.parametrize("kind", EVERY)
def test_says_what_it_is(kind: type[VrmError]) -> None:
    assert kind.__doc__
    assert kind.__name__.endswith("Error")
