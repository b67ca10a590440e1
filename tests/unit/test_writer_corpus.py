"""The planted groups: the same for the same seed, with truths that an independent computation finds in the numbers."""

from __future__ import annotations

import csv
import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from statistics import NormalDist, fmean, quantiles, stdev

import pytest
from scipy.stats import kstest, norm

from evaluation.writer import ranges
from evaluation.writer.corpus import corpus
from evaluation.writer.groups import Group, PlannedRun, beyond
from evaluation.writer.kinds import KINDS, Stratum
from records.errors import InvalidInputError

SEEDS = range(3)
HPOBENCH = Path(__file__).parents[2] / "importers/data/hpobench_mlp/trials.csv"
BASELINE = ("0.000035938137", "25", "2", "0.0016681006", "101")


@cache
def every_group() -> list[Group]:
    return [group for seed in SEEDS for group in corpus(seed, 120)]


def differences(group: Group, runs: Iterable[PlannedRun]) -> dict[str, list[float]]:
    """Return changed minus baseline by root, paired by seed, from the numbers alone."""
    baselines = {(run.root, run.seed, run.place): run.value for run in group.runs if run.change is None}
    found = defaultdict(list)
    for run in runs:
        if run.change is not None and (run.root, run.seed, run.place) in baselines:
            found[run.root].append(run.value - baselines[run.root, run.seed, run.place])
    return found


class TestSeeds:
    def test_the_same_seed_gives_the_same_groups(self) -> None:
        assert list(corpus(7, 150)) == list(corpus(7, 150))

    def test_another_seed_gives_other_numbers(self) -> None:
        first, second = ({run.value for group in corpus(seed, 40) for run in group.runs} for seed in (1, 2))
        assert len(first & second) < len(first) / 100

    def test_more_groups_begin_with_fewer(self) -> None:
        assert list(corpus(1, 130))[:50] == list(corpus(1, 50))

    def test_a_group_depends_on_kind_number_and_seed_alone(self) -> None:
        for group in corpus(2, 120):
            assert KINDS[group.kind].group(group.number, 2) == group

    @pytest.mark.parametrize(("seed", "groups"), [(-1, 10), (0, 0)])
    def test_what_is_no_corpus_is_refused(self, seed: int, groups: int) -> None:
        with pytest.raises(InvalidInputError):
            next(corpus(seed, groups))


class TestCoverage:
    def test_a_corpus_holds_what_the_reference_asks_for(self) -> None:
        """Per stratum: 20 groups, 10 that must become active, 5 that must not (reference 1.3)."""
        groups, gold = Counter[Stratum](), Counter[Stratum]()
        for group in corpus(0, 120):
            groups[KINDS[group.kind].stratum] += 1
            gold[KINDS[group.kind].stratum] += bool(group.gold)
        assert sum(groups.values()) == 120
        for stratum in Stratum:
            assert groups[stratum] >= 20
            assert gold[stratum] >= 10
            assert groups[stratum] - gold[stratum] >= 5

    def test_every_kind_is_there_and_says_what_it_is(self) -> None:
        assert {group.kind for group in corpus(0, 120)} == set(KINDS)
        assert all(kind.meaning for kind in KINDS.values())

    def test_names_are_unique(self) -> None:
        named = [group.name for group in every_group()]
        assert len(set(named)) == len(named)


class TestPlantedTruth:
    def test_roots_scatter_around_the_planted_mean_as_planted(self) -> None:
        """Standardised by what was planted, all roots of all groups are one standard normal sample."""
        standard = []
        for group in every_group():
            if KINDS[group.kind].stratum not in {Stratum.EFFECT, Stratum.SUPPORT}:
                continue
            for effect in group.effects:
                if 0 < effect.against < 0.5:
                    spread = abs(effect.mean) / -norm.ppf(effect.against)
                    standard += [(does - effect.mean) / spread for does in effect.roots.values()]
        assert len(standard) > 500
        assert kstest(standard, "norm").pvalue > 0.001

    def test_the_numbers_of_a_root_scatter_around_what_the_change_does_to_it(self) -> None:
        for group in every_group():
            if group.kind not in {"promote", "avoid", "minimise", "one_seed", "uneven_seeds", "split", "supersede"}:
                continue
            for effect in group.effects:
                mine = [run for run in group.runs if run.place == effect.place]
                for root, found in differences(group, mine).items():
                    error = abs(fmean(found) - effect.roots[root])
                    assert error < 5 * ranges.NOISE[1] / len(found) ** 0.5 + 1e-5

    def test_gold_is_what_the_definition_says(self) -> None:
        for group in every_group():
            for gold in group.gold:
                (planted,) = [each for each in group.effects if (each.change, each.place) == (gold.change, gold.place)]
                assert beyond(planted)
                assert abs(planted.mean) > ranges.MARGIN
                assert len(planted.roots) >= 3
                assert (planted.mean > 0) == ((gold.action.value == "recommend") != group.minimize)
                roots = {run.root for run in group.runs if run.taint is None and run.failure is None and run.change}
                assert len(roots) >= 3

    def test_the_share_of_roots_against_is_that_of_the_normal_distribution(self) -> None:
        for group in every_group():
            if group.kind == "heterogeneous":
                (effect,) = group.effects
                assert not group.gold
                assert ranges.AGAINST < effect.against < 0.5
        inside = NormalDist(1, ranges.SPREAD[1]).cdf(0)
        assert inside < ranges.AGAINST < NormalDist(1, ranges.WIDE[0]).cdf(0)

    def test_copies_are_the_same_evidence(self) -> None:
        for group in every_group():
            alone = group.without_copies()
            assert {(run.root, run.seed, run.change, run.value) for run in alone.runs} == {
                (run.root, run.seed, run.change, run.value) for run in group.runs
            }
            assert (len(alone.runs) < len(group.runs)) == (KINDS[group.kind].stratum is Stratum.IDENTITY)

    def test_a_disputed_root_has_two_camps_clear_of_each_other(self) -> None:
        for group in every_group():
            if group.kind in {"contest", "contradiction"}:
                found = differences(group, group.runs)["divided"]
                up = [each for each in found if each > 0]
                assert len(up) == len(found) - len(up) == ranges.CAMP_SEEDS
                assert min(map(abs, found)) > ranges.MARGIN

    def test_a_failed_or_flattering_run_claims_what_it_does_not_show(self) -> None:
        for run in itertools.chain.from_iterable(group.runs for group in every_group()):
            assert run.claimed is None or run.claimed != run.value


class TestRanges:
    """What is taken from the published extract is what the extract holds."""

    def cells(self) -> tuple[dict[str, list[list[float]]], list[str]]:
        rows = list(csv.DictReader(HPOBENCH.read_text().splitlines()))
        knobs = ("alpha", "batch_size", "depth", "learning_rate_init", "width")
        values = {(row["task"], row["seed"], tuple(row[knob] for knob in knobs)): float(row["val_acc"]) for row in rows}
        tasks = sorted({task for task, _, _ in values})
        changes = sorted({config for _, _, config in values if config != BASELINE})
        seeds = sorted({seed for _, seed, _ in values})
        return {
            task: [[values[task, seed, change] - values[task, seed, BASELINE] for seed in seeds] for change in changes]
            for task in tasks
        }, tasks

    def test_noise_is_the_middle_half_of_the_cells(self) -> None:
        cells, tasks = self.cells()
        spreads = [stdev(cell) for task in tasks for cell in cells[task]]
        low, _, high = quantiles(spreads, n=4, method="inclusive")
        assert len(spreads) == 48
        assert (low, high) == pytest.approx(ranges.NOISE, abs=0.0006)

    def test_the_quietest_root_is_as_quiet_as_said(self) -> None:
        cells, tasks = self.cells()
        quietest = sorted(min((cells[task] for task in tasks), key=lambda found: fmean(map(stdev, found))), key=stdev)
        assert sum(stdev(cell) <= ranges.QUIET[1] for cell in quietest) >= 4

    def test_a_change_that_does_nothing_spreads_as_said(self) -> None:
        cells, tasks = self.cells()
        by_change = [[fmean(cells[task][place]) for task in tasks] for place in range(ranges.TRIES)]
        assert min(map(stdev, by_change)) <= ranges.NULL_SPREAD[1] + 1e-4
        assert ranges.ROOTS[0] == len(tasks)

    def test_the_smallest_effect_is_that_of_the_larger_step(self) -> None:
        cells, tasks = self.cells()
        largest = max(abs(fmean(fmean(cells[task][place]) for task in tasks)) for place in range(ranges.TRIES))
        assert largest == pytest.approx(ranges.EFFECT[0], abs=0.001)
