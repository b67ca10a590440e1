"""Ideation searches: no two of them share a seed, whatever is asked for; one that was cut short goes on as it began."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.ideation import Branch
from records.runtime import Subject
from records.states import Machine, Phase
from vrm.mainjob.plan import SMALL, Round
from vrm.mainjob.searches import FIRST_SEED, Place, next_search

ROUND = Round(namespace="world", number=3, size=SMALL)
TASKS = ("breast_cancer", "phoneme")


def runs_of(place: Place, phase: Phase = Phase.COMPLETED) -> list[Subject]:
    """Return the Runs of a search as the Runtime holds them."""
    bodies = [
        place.round.run_body(f"ideation/{task}/{seed}/{branch}", "0" * 64)
        for task, seed, branch in product(place.tasks, place.seeds, Branch)
    ]
    return [
        Subject(
            machine=Machine.RUN, id=body.id, run_id=body.id, phase=phase, version=1, generation=1, fence=1,
            body=body.canonical.decode(), facts="{}",
        )
        for body in bodies
    ]  # fmt: skip


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 2), st.booleans()), max_size=6))
@settings(deadline=None)
def test_vrm_o05_no_two_searches_share_a_seed(asked: list[tuple[int, int, bool]]) -> None:
    """Each has its own number of seeds and tasks; some were given up by a command, and their seeds were used too."""
    runs: list[Subject] = []
    seen: set[int] = set()
    for number, (seeds, tasks, given_up) in enumerate(asked):
        place = next_search(runs, ROUND, TASKS[:tasks], seeds)
        assert (place.round.number, len(place.seeds)) == (number, seeds)
        assert seen.isdisjoint(place.seeds)
        seen.update(place.seeds)
        runs += runs_of(place, Phase.CANCELLED if given_up else Phase.COMPLETED)


def test_the_first_search_has_the_first_seeds() -> None:
    assert next_search([], ROUND, TASKS, 2).seeds == (FIRST_SEED, FIRST_SEED + 1)


@pytest.mark.parametrize("asked", [1, 2, 3])
def test_a_search_that_was_cut_short_goes_on_with_all_that_it_began_with(asked: int) -> None:
    """A shorter request completes what was planned; a longer one adds seeds that nobody had."""
    begun = next_search(runs_of(next_search([], ROUND, TASKS, 1)), ROUND, TASKS, 2)
    runs = runs_of(begun)
    runs[-1] = runs[-1].model_copy(update={"phase": Phase.RUNNING})
    goes_on = next_search(runs, ROUND, TASKS[:1], asked)
    assert goes_on.round == begun.round
    assert set(goes_on.tasks) == set(TASKS)
    assert goes_on.seeds == tuple(range(FIRST_SEED + 1, FIRST_SEED + 1 + max(2, asked)))


def test_a_search_of_which_a_run_was_cancelled_is_over() -> None:
    begun = next_search([], ROUND, TASKS, 1)
    runs = runs_of(begun, Phase.RUNNING)
    runs[0] = runs[0].model_copy(update={"phase": Phase.CANCELLING})
    following = next_search(runs, ROUND, TASKS, 1)
    assert (following.round.number, following.seeds) == (1, (FIRST_SEED + 1,))


def test_other_namespaces_and_other_runs_are_no_searches() -> None:
    foreign = next_search([], Round(namespace="other", number=0, size=SMALL), TASKS, 2)
    sweep = ROUND.run_body("sweep", "0" * 64)
    runs = [*runs_of(foreign), runs_of(foreign)[0].model_copy(update={"body": sweep.canonical.decode()})]
    assert next_search(runs, ROUND, TASKS, 1).seeds == (FIRST_SEED,)
