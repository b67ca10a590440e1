"""Repetition adds nothing: no kind of it moves a support count, an effect or a verdict (VRM-W06)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.contrasts import tabulate
from policies.distiller import judge
from records.evidence import VerifiedEvidenceBundle
from records.ids import RunId
from tests.unit.comparisons import POLICY, arms, left_behind, paired, roots, run, task

OTHER = ("tol", 0.001, 0.01)


def shown(bundles: Sequence[VerifiedEvidenceBundle]) -> dict[str, Any]:
    """Return what was decided, with every figure, by scope variant; which of equal runs is cited is left out."""
    verdicts = judge(tabulate(bundles, POLICY), POLICY)
    return {
        key: (
            verdict.effect,
            verdict.strength,
            verdict.verdict,
            verdict.gate,
            sorted((link.relation.value, link.support_unit_id) for link in verdict.links),
            verdict.findings,
        )
        for key, verdict in verdicts.items()
    }


def again(bundle: VerifiedEvidenceBundle, label: str, *, later: bool, seed: int | None = None) -> Any:
    """Return the same evidence as another import has it: another run, another attempt, perhaps earlier in time."""
    time = "2026-01-01T00:00:00.000000Z" if later else "2020-01-01T00:00:00.000000Z"
    attempt = bundle.attempt.model_copy(
        update={
            "run_id": RunId.derive({"import": label}),
            "iteration": bundle.attempt.iteration + 1,
            "created_at": time,
            "seed": bundle.attempt.seed if seed is None else seed,
        }
    )
    experience = bundle.experience.model_copy(update={"attempt_id": attempt.id, "created_at": time})
    return bundle.model_copy(update={"attempt": attempt, "experience": experience})


WORLDS: dict[str, list[Any]] = {
    "roots": roots({"a": 0.05, "b": 0.07, "c": 0.03, "d": -0.01}) + roots({"a": 0.0, "b": 0.01}, change=OTHER),
    "seeds": paired((0.05, 0.04, 0.06, 0.05, 0.045, -0.01)),
    "arms": arms((0.6, 0.61, 0.62, 0.59, 0.605, 0.49), (0.5, 0.51, 0.49, 0.505, 0.5)),
    "mixed": [
        *paired((0.1, 0.12, 0.11), task=task("p")),
        *arms((0.6, 0.62), (0.5, 0.51, 0.52), task=task("u")),
        run("rerun of a baseline", 0.52, seed=0, change=None, task=task("p")),
        run("rerun of a change", 0.66, seed=0, task=task("p")),
    ],
}


@pytest.mark.parametrize("world", WORLDS)
@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_repeating_evidence_changes_nothing(world: str, data: st.DataObject) -> None:
    """The same bundle twice, the same evidence under another run and attempt, before or after, in any order."""
    bundles = WORLDS[world]
    repeated = data.draw(st.lists(st.sampled_from(bundles), max_size=8), label="imported again")
    twice = data.draw(st.lists(st.sampled_from(bundles), max_size=4), label="given twice")
    later = data.draw(st.booleans(), label="later")
    copies = [again(bundle, str(at), later=later) for at, bundle in enumerate(repeated)]
    shuffled = data.draw(st.permutations([*bundles, *copies, *twice]), label="order")
    assert shown(shuffled) == shown(bundles)


@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_runs_without_a_logged_seed_count_once_however_they_are_named(data: st.DataObject) -> None:
    """An importer gives such a run a seed made of its id; imported under another id it has another seed."""
    bundles = WORLDS["arms"]
    repeated = data.draw(st.lists(st.sampled_from(bundles), min_size=1, max_size=8))
    copies = [again(each, str(at), later=True, seed=5000 + at) for at, each in enumerate(repeated)]
    assert shown(data.draw(st.permutations([*bundles, *copies]))) == shown(bundles)


def test_nine_byte_identical_attempts_count_once() -> None:
    """As found in a published ledger: nine attempts, one outcome; each under a run and a seed of its own."""
    nine = [
        each
        for at in range(9)
        for each in (
            run(f"b{at}", 0.5, seed=at, change=None, artifacts=left_behind("baseline")),
            run(f"c{at}", 0.6, seed=at, artifacts=left_behind("changed")),
        )
    ]
    table = tabulate(nine, POLICY)
    (verdict,) = judge(table, POLICY).values()
    assert (verdict.effect.unit_count, verdict.effect.pair_count) == (1, 1)
    assert len(table.duplicates) == 16
    assert not table.unpaired


def test_every_bundle_is_in_one_place() -> None:
    for bundles in WORLDS.values():
        copies = [again(bundle, "x", later=True) for bundle in bundles]
        table = tabulate([*bundles, *copies], POLICY)
        places = (table.variants_of, table.unpaired, table.inert, table.duplicates, table.failed, table.refused)
        found = [each for place in places for each in place]
        assert len(found) == len(set(found)) == 2 * len(bundles)
