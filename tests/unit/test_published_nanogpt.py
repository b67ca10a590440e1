"""The speed-run's arms as evidence: the right answers are the authors' own tables, and scipy on the bare file."""

from __future__ import annotations

import csv
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import pytest
from scipy import stats

from policies.contrasts import stratum_of
from policies.distillation_policy import StratumField
from policies.distiller import VariantVerdict
from policies.effects import Classification, UncertaintyMethod
from policies.variants import experience_of
from records.evidence import VerifiedEvidenceBundle
from records.knowledge import DecisionKind
from records.values import ActionKind, Direction
from tests.support.published import DATA, POLICY, judged

TABLE: Final = "nanogpt_arms"
AUTHORS: Final = Path(__file__).parents[1] / "data" / "nanogpt_published"
BAR: Final = 3.28
TIME, LOSS = "train_time_ms", "final_val_loss"
Arms = Mapping[tuple[str, str], Sequence[Mapping[str, str]]]


class Compared(NamedTuple):
    """Two arms of one record that share steps and machine, by the names in the file."""

    record: str
    baseline: str
    changed: str


SAME_LENGTH: Final = (
    Compared("2025-12-31_GatesToCompiledAdam", "12-29-baseline", "12-31-gates-to-adam"),
    Compared("2026-01-24_ImprovedLMHead", "baseline_retime", "record"),
    Compared("2026-02-16_FlattenForward", "baseline", "pr233"),
    Compared("2026-02-16_FlattenForward", "baseline", "prior"),
    Compared("2026-02-28_TransposeCopyBackward", "baseline", "this_pr"),
    Compared("2026-03-22_VarlenMaxDocs", "baseline", "max_num_docs"),
    Compared("2026-03-22_VarlenMaxDocs", "baseline", "muon-beta2"),
    Compared("2026-03-22_VarlenMaxDocs", "baseline", "combined"),
    Compared("2026-04-29_XSAGatedLayers", "baseline-s1410", "this_pr_v1-s1410"),
    Compared("2026-05-20_BigramsSignTrick", "baseline", "pr299"),
    Compared("2026-05-27-MuddGatedAndDC", "xsa-baseline-s1335", "this_pr_v1"),
    Compared("2026-07-13_PrefixTokenPrediction", "baseline-1375", "prefix-1375"),
)
STEPS, MACHINE = StratumField.BUDGET_CLASS, StratumField.ENVIRONMENT
CONFOUNDED: Final = {
    ("2025-12-21_SmoothedScalars", "12-21-Smoothed-Scalars"): (STEPS,),
    ("2025-12-31_GatesToCompiledAdam", "12-31-gates-to-adam-20stps"): (STEPS,),
    ("2026-01-18_UnifiedOptimizers", "unified-optimizer"): (STEPS,),
    ("2026-05-19_FP8MLPUpProj", "this_record"): (STEPS,),
    ("2026-05-27-MuddGatedAndDC", "this_pr_v2"): (STEPS,),
    ("2026-05-27-MuddGatedAndDC", "this_pr_v3"): (STEPS, MACHINE),
    ("2026-06-11_RecursiveFromBest", "this_pr"): (STEPS,),
    ("2026-07-13_PrefixTokenPrediction", "prefix-1375-8x"): (STEPS,),
}
"""The arms that change their number of steps too; v3 stands on another base besides, and on another machine."""


@pytest.fixture(scope="module")
def arms() -> Arms:
    """The file, read with the standard library alone."""
    found: dict[tuple[str, str], list[dict[str, str]]] = defaultdict(list)
    with (DATA / TABLE / "runs.csv").open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            found[row["record"], row["arm"]].append(row)
    return found


def _values(rows: Sequence[Mapping[str, str]], metric: str) -> list[float]:
    return [float(row[metric]) for row in rows]


def _imported() -> Mapping[tuple[str, str], list[VerifiedEvidenceBundle]]:
    """Return the imported runs by record and arm; rows and bundles come in one order."""
    here = judged(TABLE)
    found: dict[tuple[str, str], list[VerifiedEvidenceBundle]] = defaultdict(list)
    for row, bundle in zip(here.table.rows, here.bundles, strict=True):
        assert row.arm is not None
        found[row.arm.record, row.arm.arm].append(bundle)
    return found


def _metric(bundles: Sequence[VerifiedEvidenceBundle], metric: str) -> list[float]:
    return [value for bundle in bundles if (value := bundle.verification.metric(metric)) is not None]


def _verdicts() -> Mapping[tuple[str, str], list[VariantVerdict]]:
    """Return every verdict by the knob and the setting that its change goes to."""
    found: dict[tuple[str, str], list[VariantVerdict]] = defaultdict(list)
    for verdict in judged(TABLE).verdicts.values():
        knob = verdict.variant.target.knob
        found[knob.name, knob.to_value.strip('"')].append(verdict)
    return found


def _of_one_task(pair: Compared) -> VariantVerdict | None:
    knob = re.split(r"[_-]", pair.record)[-1]
    found = [each for each in _verdicts()[knob, pair.changed] if each.variant.of_one_task]
    assert len(found) <= 1
    return found[0] if found else None


# --- what the authors published of single arms ------------------------------------------------------------------------


@pytest.mark.parametrize("arm", ["baseline_pr299", "this_pr"])
def test_the_authors_statistics_file_is_met_run_by_run(arm: str) -> None:
    text = (AUTHORS / f"published_statistics_2026-06-11_{arm}.md").read_text(encoding="utf-8")
    runs = re.findall(r"^\| ([0-9a-f]{8}) \| ([\d.]+) \| (\d+)ms \|$", text, re.MULTILINE)
    here = judged(TABLE)
    lines = {
        row.data.decode().split(",")[2][:8]: bundle
        for row, bundle in zip(here.table.rows, here.bundles, strict=True)
        if row.arm is not None and (row.arm.record, row.arm.arm) == ("2026-06-11_RecursiveFromBest", arm)
    }
    assert [(run, float(loss), float(time)) for run, loss, time in runs] == [
        (run, *_metric([bundle], LOSS), *_metric([bundle], TIME)) for run, bundle in sorted(lines.items())
    ]
    for metric, name in ((LOSS, "val_loss"), (TIME, r"train_time \(ms\)")):
        row = re.search(rf"^\| {name} \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \|$", text, re.MULTILINE)
        assert row is not None
        values = np.array(_metric(list(lines.values()), metric))
        for told, found in zip(
            row.groups(), (values.mean(), values.std(ddof=1), values.min(), values.max()), strict=True
        ):
            assert found == pytest.approx(float(told), abs=_half(told))
    p_value = stats.ttest_1samp(_metric(list(lines.values()), LOSS), BAR, alternative="less").pvalue
    (told,) = re.findall(r"n=\d+ .*p\(mean<3\.28\)=([\d.]+)", text)
    assert p_value == pytest.approx(float(told), abs=_half(told))


def test_the_authors_tables_are_met_arm_by_arm() -> None:
    imported = _imported()
    with (AUTHORS / "published_figures.csv").open(newline="", encoding="utf-8") as file:
        told = list(csv.DictReader(file))
    assert len(told) == 22
    for row in told:
        bundles = imported[row["record"], row["arm"]]
        seconds, losses = np.array(_metric(bundles, TIME)) / 1000, np.array(_metric(bundles, LOSS))
        found = {
            "time_mean_s": seconds.mean(), "time_sd_s": seconds.std(ddof=1),
            "loss_mean": losses.mean(), "loss_sd": losses.std(ddof=1),
            "loss_p": stats.ttest_1samp(losses, BAR, alternative="less").pvalue,
        }  # fmt: skip
        assert len(bundles) == int(row["runs"])
        for name, value in found.items():
            if row[name]:
                assert value == pytest.approx(float(row[name]), abs=_half(row[name])), (row["record"], row["arm"], name)
        steps = {bundle.attempt.budget_class.rpartition(":")[2] for bundle in bundles}
        assert not row["steps"] or steps == {row["steps"]}


def _half(told: str) -> float:
    """Half a unit of the last digit that was told, and a little, for a figure may have been cut."""
    digits, _, power = told.partition("e")
    return 0.51 * 10.0 ** (int(power or 0) - len(digits.partition(".")[2]))


# --- what is compared with what ---------------------------------------------------------------------------------------


def test_every_run_is_one_experience_with_a_seed_of_its_own() -> None:
    bundles = judged(TABLE).bundles
    assert len(bundles) == len({bundle.experience.id for bundle in bundles}) == 304
    assert len({bundle.attempt.seed for bundle in bundles}) == 304
    assert Counter(bundle.attempt.dataset_root for bundle in bundles) == {"fineweb": 304}
    contrasts = [each for variant in judged(TABLE).contrasts.variants.values() for each in variant.contrasts]
    assert contrasts
    assert not any(contrast.paired for contrast in contrasts)


def test_only_arms_of_one_record_machine_and_length_are_compared(arms: Arms) -> None:
    expected = {(pair.record, pair.baseline, pair.changed) for pair in SAME_LENGTH}
    found = set()
    names = {bundle.experience.id: arm for arm, bundles in _imported().items() for bundle in bundles}
    for variant in judged(TABLE).contrasts.variants.values():
        for contrast in variant.contrasts:
            record, changed = names[contrast.changed.experience.id]
            for run in contrast.baselines.runs:
                assert names[run.experience.id][0] == record
                found.add((record, names[run.experience.id][1], changed))
            assert len(contrast.baselines.runs) == len(arms[names[contrast.baselines.runs[0].experience.id]])
    assert found == expected


def test_confounded_arms_say_by_what() -> None:
    here = judged(TABLE).contrasts
    told = {
        arm: {here.apart.get(experience_of(bundle)) for bundle in bundles}
        for arm, bundles in _imported().items()
        if any(bundle.intervention.knob is not None for bundle in bundles)
        and not any(experience_of(bundle) in here.variants_of for bundle in bundles)
    }
    assert told == {arm: {fields} for arm, fields in CONFOUNDED.items()}


def test_one_gpu_and_eight_never_share_a_stratum() -> None:
    imported = _imported()
    record = "2026-07-13_PrefixTokenPrediction"
    eight, one = (
        {stratum_of(bundle, POLICY) for arm in names for bundle in imported[record, arm]}
        for names in (("baseline-1390-8x", "prefix-1375-8x"), ("baseline-1375", "baseline-1390", "prefix-1375"))
    )
    assert eight.isdisjoint(one)
    # Their times are far apart, so that one pool of them would show whatever its mixture was.
    assert min(_metric(imported[record, "prefix-1375"], TIME)) > 7 * max(
        _metric(imported[record, "prefix-1375-8x"], TIME)
    )


def test_one_program_in_two_records_is_no_pool() -> None:
    """The baselines of 2026-05-19 and 2026-05-20 are one program; on two machines it took 0.8 s longer on the other."""
    imported = _imported()
    first, second = imported["2026-05-19_FP8MLPUpProj", "baseline"], imported["2026-05-20_BigramsSignTrick", "baseline"]
    assert {stratum_of(run, POLICY) for run in first}.isdisjoint(stratum_of(run, POLICY) for run in second)
    assert np.mean(_metric(second, TIME)) - np.mean(_metric(first, TIME)) > 700


# --- effects ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pair", SAME_LENGTH, ids=lambda pair: f"{pair.record}-{pair.changed}")
def test_effects_and_intervals_are_those_of_scipy(pair: Compared, arms: Arms) -> None:
    changed, baseline = arms[pair.record, pair.changed], arms[pair.record, pair.baseline]
    verdict = _of_one_task(pair)
    if min(len(changed), len(baseline)) < 5:
        assert verdict is None  # too few runs a side to speak for one task
        return
    assert verdict is not None
    (guardrail,) = verdict.guardrails
    assert guardrail.estimate is not None
    for metric, summary in ((TIME, verdict.summary), (LOSS, guardrail.estimate.summary)):
        test = stats.ttest_ind(_values(changed, metric), _values(baseline, metric), equal_var=False)
        interval = test.confidence_interval(0.95)
        assert summary.method is UncertaintyMethod.WELCH
        assert summary.direction is Direction.MINIMIZE
        assert summary.mean == pytest.approx(np.mean(_values(changed, metric)) - np.mean(_values(baseline, metric)))
        assert summary.mean_interval is not None
        assert (summary.mean_interval.low, summary.mean_interval.high) == pytest.approx((interval.low, interval.high))
        assert summary.p_value == pytest.approx(test.pvalue)
    assert float(verdict.effect.baseline_mean) == pytest.approx(np.mean(_values(baseline, TIME)))


IMPROVED: Final = {
    ("GatesToCompiledAdam", "12-31-gates-to-adam"): -292.1,
    ("FlattenForward", "pr233"): -965.5,
    ("TransposeCopyBackward", "this_pr"): -441.0,
    ("VarlenMaxDocs", "max_num_docs"): -497.7,
    ("VarlenMaxDocs", "combined"): -515.4,
    ("BigramsSignTrick", "pr299"): -964.8,
}
"""What the authors say they gained at equal length, in ms: the column "Time +/-" of their tables."""


def test_time_improves_where_the_authors_say_so_and_loss_shows_no_effect() -> None:
    recommended = set()
    for (knob, setting), gain in IMPROVED.items():
        for verdict in _verdicts()[knob, setting]:
            assert verdict.summary.mean == pytest.approx(gain, abs=0.11)
            if verdict.variant.of_one_task:
                assert verdict.summary.classification is Classification.IMPROVES
                assert verdict.guardrails[0].estimate is not None
                assert verdict.guardrails[0].estimate.summary.classification is Classification.NO_EFFECT
                assert verdict.guardrails[0].estimate.summary.equivalence_margin == 0.005
                recommended.add((knob, setting, verdict.verdict.decision, verdict.verdict.action))
    active = (DecisionKind.PROMOTED_ACTIVE, ActionKind.RECOMMEND)
    # pr233 and max_num_docs have four runs a side: below what one task needs to speak for itself.
    assert recommended == {
        (*arm, *active) for arm in IMPROVED.keys() - {("FlattenForward", "pr233"), ("VarlenMaxDocs", "max_num_docs")}
    }


def test_what_the_authors_call_no_gain_is_recommended_to_nobody() -> None:
    """muon-beta2 alone gains no time (p 0.93 by their own table); prefix tokens pay in steps, not at equal length."""
    recommended = {
        arm
        for arm, verdicts in _verdicts().items()
        if any(verdict.verdict.action is ActionKind.RECOMMEND for verdict in verdicts)
    }
    assert ("VarlenMaxDocs", "muon-beta2") not in recommended
    assert ("PrefixTokenPrediction", "prefix-1375") not in recommended
    assert recommended <= IMPROVED.keys()


def test_what_buys_loss_with_time_shows_both() -> None:
    """The authors of v1 publish its loss at equal length: 0.00763 lower, two-sided Welch p = 1.44e-08."""
    pair = next(each for each in SAME_LENGTH if each.changed == "this_pr_v1")
    verdict = _of_one_task(pair)
    assert verdict is not None
    assert verdict.summary.classification is Classification.HARMS
    assert verdict.guardrails[0].estimate is not None
    loss = verdict.guardrails[0].estimate.summary
    assert loss.mean == pytest.approx(-0.00763, abs=5e-6)
    assert loss.p_value == pytest.approx(1.44e-08, rel=0.005)
    assert loss.classification is Classification.IMPROVES
    assert any(finding.code == "guardrail_improves" for finding in verdict.findings)


def test_a_trade_of_time_for_loss_is_no_lesson_to_avoid() -> None:
    """Both were taken as records, for the loss is then cashed for fewer steps: "avoid" would be wrong."""
    for name in ("this_pr_v1", "this_pr_v1-s1410"):
        verdict = _of_one_task(next(each for each in SAME_LENGTH if each.changed == name))
        assert verdict is not None
        assert (verdict.verdict.decision, verdict.verdict.action) == (DecisionKind.REJECTED, None)


def test_one_data_set_supports_no_rule_for_a_task_scope() -> None:
    verdicts = judged(TABLE).of_task_scope()
    assert len(verdicts) == len(SAME_LENGTH)
    assert {verdict.verdict.decision for verdict in verdicts} == {DecisionKind.DEFERRED}
    for verdict in judged(TABLE).of_one_task():
        assert verdict.variant.scope.evaluation_task_id is not None
        assert verdict.variant.scope.budget_class.startswith("speedrun/")
