"""What the benchmarks compute from timings, and the records that they make up. No figure is compared with a limit."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter

import pytest
from typer.testing import CliRunner

from evaluation.bench import corpus, studies
from evaluation.bench.measuring import Alternative, Ratio, Timings, significant, take_turns
from memory.evidence import bundle_records
from policies.bundles import cross_validate
from policies.contrasts import tabulate
from policies.distillation_policy import distillation_policy
from policies.distiller import judge
from records.canonical import digest_bytes
from records.evidence import Experience, VerifiedEvidenceBundle
from records.ids import EvidenceSnapshotId, RunId
from records.knowledge import DecisionKind
from records.values import ActionKind
from vrm.cli.app import app


def test_a_ratio_is_the_median_of_the_rounds_with_its_extremes() -> None:
    assert Ratio.of([2.0, 9.0, 4.0], [4.0, 3.0, 4.0]) == Ratio(middle=1.0, low=0.5, high=3.0)


def test_timings_count_units_of_work() -> None:
    timings = Timings(yields=4, rounds=[[1.0, 3.0], [2.0, 2.0, 4.0]], cpu=[1.0, 4.0])
    assert timings.rates == [2.0, 1.5]
    assert timings.middles == [2.0, 2.0]
    assert timings.milliseconds(50) == 2000.0
    assert timings.summary() == {
        "per_second": 1.75, "p50_ms": 2000.0, "p99_ms": 3960.0, "client_cpu_ms_each": 250.0, "n": 20,
    }  # fmt: skip


def test_alternatives_take_turns_and_the_first_round_is_not_counted() -> None:
    seen: list[tuple[str, int]] = []
    pair = [
        Alternative(name="a", act=lambda number: seen.append(("a", number)), repeats=2),
        Alternative(name="b", act=lambda number: seen.append(("b", number)), repeats=1),
    ]
    told: list[tuple[int, int]] = []
    found = take_turns(pair, 2, lambda done, total: told.append((done, total)))
    assert seen == [("b", 0), ("a", 0), ("a", 1), ("a", 2), ("a", 3), ("b", 1), ("b", 2), ("a", 4), ("a", 5)]
    assert {name: [len(turn) for turn in timings.rounds] for name, timings in found.items()} == {
        "a": [2, 2], "b": [1, 1],
    }  # fmt: skip
    assert told == [(1, 3), (2, 3), (3, 3)]


@pytest.mark.parametrize(("value", "shown"), [(0.123456, 0.1235), (98765.4, 98770.0), (0.0, 0.0)])
def test_figures_have_four_digits(value: float, shown: float) -> None:
    assert significant(value) == shown


def test_made_up_evidence_cross_validates() -> None:
    records = corpus.bundle(7)
    experience = records[-1]
    assert isinstance(experience, Experience)
    assert isinstance(cross_validate(experience, {str(each.id): each for each in records}), VerifiedEvidenceBundle)


def test_made_up_records_differ_and_can_be_made_again() -> None:
    snapshot = EvidenceSnapshotId.derive({"bench": 1})
    rules = [corpus.rule(number, snapshot)[1] for number in range(1200)]
    assert len({rule.id for rule in rules}) == len({rule.scope_variant_id for rule in rules}) == 1200
    assert rules[5].id == corpus.rule(5, snapshot)[1].id
    assert len({corpus.hypothesis(number).id for number in range(300)}) == 300


def test_made_up_texts_use_the_words_of_the_catalog() -> None:
    rule = corpus.rule(0, EvidenceSnapshotId.derive({"bench": 1}))[1]
    assert corpus.CATALOG.knobs[rule.target.knob.name].summary in rule.claim
    assert rule.target.catalog_digest == corpus.CATALOG.digest != digest_bytes(b"")


@pytest.mark.parametrize(("command", "option", "field"), [("ledger", "--appends", "appends"),
                                                          ("recall", "--records", "records"),
                                                          ("protocol", "--decisions", "decisions"),
                                                          ("distil", "--experiences", "experiences")])  # fmt: skip
def test_too_few_operations_are_refused_before_anything_is_started(command: str, option: str, field: str) -> None:
    result = CliRunner().invoke(app, ["bench", command, option, "1", "--json"])
    assert result.exit_code == 2
    error = json.loads(result.stdout)
    assert error["field"] == field
    assert error["error"] == "InvalidInputError"


def test_help_loads_neither_stores_nor_libraries() -> None:
    code = (
        "import sys; from typer.testing import CliRunner; from vrm.cli.app import app; "
        "assert CliRunner().invoke(app, ['bench', 'ledger', '--help']).exit_code == 0; "
        "print(sorted({'numpy', 'psycopg', 'bm25s', 'evaluation.bench', 'ray'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_made_up_studies_cross_validate_and_their_verdicts_differ() -> None:
    """In every study the first change and the second are told apart from the third and the fourth."""
    bundles = []
    for number in range(2 * studies.TRIALS):
        records = bundle_records(studies.trial(number, RunId.derive({"bench": 1})).trial)
        found = cross_validate(records[-1], {str(each.id): each for each in records})  # type: ignore[arg-type]
        assert isinstance(found, VerifiedEvidenceBundle)
        bundles.append(found)
    policy = distillation_policy()
    verdicts = judge(tabulate(bundles, policy), policy).values()
    assert Counter(each.verdict.decision for each in verdicts) == {
        DecisionKind.PROMOTED_ACTIVE: 4, DecisionKind.REJECTED: 2, DecisionKind.DEFERRED: 2,
    }  # fmt: skip
    actions = [each.verdict.action for each in verdicts if each.verdict.action]
    assert Counter(actions) == {ActionKind.AVOID: 3, ActionKind.RECOMMEND: 1}
