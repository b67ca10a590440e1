"""Ideation searches: no two of them share a seed, whatever is asked for; one that was cut short goes on as it began."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.ideation import Branch
from records.runtime import RunBody, Subject
from records.states import Machine, Phase
from vrm.mainjob.plan import FULL, SMALL, Round, Size
from vrm.mainjob.searches import FIRST_SEED, Place, next_search

ROUND = Round(namespace="world", number=3, size=SMALL)
TASKS = ("breast_cancer", "phoneme")


def seed_of(run: Subject) -> int:
    """Return the seed in the admission key of a Run."""
    return int(RunBody.load(run.body).admission_key.split("/")[-2])


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


class Asked(NamedTuple):
    """One command: its size and scope, how many of its Runs were admitted, and how each of those stands."""

    size: Size
    seeds: int
    tasks: int
    admitted: int
    phase: Phase


ASKED = st.builds(
    Asked, st.sampled_from([SMALL, FULL]), st.integers(1, 3), st.integers(1, 2), st.integers(1, 12),
    st.sampled_from([Phase.COMPLETED, Phase.CANCELLED, Phase.RUNNING]),
)  # fmt: skip


@given(st.lists(ASKED, max_size=8))
@settings(deadline=None)
def test_vrm_o05_no_two_searches_share_a_seed(commands: list[Asked]) -> None:
    """Commands of two sizes, cut short after any Run, in any order, given up or gone on with by another request."""
    runs: dict[str, Subject] = {}
    seen: dict[int, tuple[str, int]] = {}
    for asked in commands:
        place = next_search(runs.values(), replace(ROUND, size=asked.size), TASKS[: asked.tasks], asked.seeds)
        search = (asked.size.name, place.round.number)
        assert len(place.seeds) == len(set(place.seeds)) >= asked.seeds
        admitted = runs_of(place, asked.phase)[: asked.admitted]
        for seed in {seed_of(run) for run in admitted}:
            assert seed in place.seeds
        assert {seed: seen[seed] for seed in place.seeds if seed in seen and seen[seed] != search} == {}
        seen |= {seed_of(run): search for run in admitted}
        runs |= {run.id: run for run in admitted}


def test_a_search_that_goes_on_takes_no_seed_that_another_size_took_meanwhile() -> None:
    """It was cut short with one seed; another size took the next ones, and it was cut short again behind them."""
    large = replace(ROUND, size=FULL)
    begun = runs_of(next_search([], ROUND, TASKS[:1], 1), Phase.RUNNING)
    other = runs_of(next_search(begun, large, TASKS[:1], 2))
    again = runs_of(next_search([*begun, *other], ROUND, TASKS[:1], 2), Phase.RUNNING)
    place = next_search([*again, *other], ROUND, TASKS[:1], 2)
    assert place.seeds == (FIRST_SEED, FIRST_SEED + 3)


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
