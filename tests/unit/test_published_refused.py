"""Published tables that must give no active rule, and the reasons that the policy gives for each."""

from __future__ import annotations

import csv
import gzip
import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from importers.published_table import PublishedTable, trials
from memory.coordinator import CommitCoordinator
from memory.evidence import bundle_records
from memory.ports import all_good
from memory.snapshots.evidence import EvidenceSnapshotBuilder, FreezeEvidence
from policies.distillation_policy import CandidateReason, StratumField
from policies.effects import PairedDelta, effect_units
from policies.variants import experience_of
from records.appends import Append
from records.evidence import Manipulation, VerificationKind
from records.flows import Transition
from records.knowledge import DecisionKind
from records.values import Direction
from store.artifacts import ArtifactStore
from store.ledger.memory import MemoryLedger
from store.runtime.memory import MemoryRuntime
from tests.support.published import DATA, POLICY, judged

RAW: Final = Path(__file__).parents[1] / "data" / "vq_published"
ALL: Final = ("tabm", "openml_pimp", "vq_beta_sweep", "vq_one_layer")


@pytest.mark.parametrize("name", ALL)
def test_nothing_becomes_active_or_provisional(name: str) -> None:
    decided = {verdict.verdict.decision for verdict in judged(name).verdicts.values()}
    assert decided <= {DecisionKind.DEFERRED, DecisionKind.REJECTED}
    assert not [verdict for verdict in judged(name).verdicts.values() if verdict.verdict.action is not None]


def _reasons(name: str) -> Counter[str]:
    """Count the reason that holds back each Experience of a table: of its contrast, or why it is in none."""
    here = judged(name)
    found: Counter[str] = Counter()
    for bundle in here.bundles:
        reason = here.contrasts.why_not(experience_of(bundle))
        if reason is None:
            key = here.contrasts.variants_of[experience_of(bundle)][0]
            reason = here.verdicts[key].verdict.reason_codes[0]
        found[reason.value] += 1
    return found


# --- models that were tuned apart -------------------------------------------------------------------------------------


def test_two_tuned_models_are_not_comparable_and_say_so() -> None:
    here = judged("tabm")
    assert not here.verdicts
    assert _reasons("tabm") == {"non_comparable_evidence": 900}
    changed = [each for each in here.bundles if each.intervention.manipulation is Manipulation.CHANGED]
    assert len(changed) == 675
    assert {each.intervention.knob and each.intervention.knob.name for each in changed} == {"model"}
    # Task, data, contract and budget are the same: only what the change starts from was never run.
    assert {here.contrasts.apart[experience_of(each)] for each in changed} == {(StratumField.BASELINE,)}


def test_the_other_knobs_of_a_tuned_model_differ_in_the_published_file() -> None:
    """Read it with the standard library: no model of the extract has the settings of mlp on any split."""
    with gzip.open(DATA / "tabm" / "runs.csv.gz", "rt", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    knobs = ("lr", "wd", "n_blocks", "d_block", "dropout", "k")
    tuned = {row["dataset"]: tuple(row[knob] for knob in knobs) for row in rows if row["model"] == "mlp"}
    for row, compared in zip(rows, judged("tabm").table.rows, strict=True):
        differing = sum(row[knob] != was for knob, was in zip(knobs, tuned[row["dataset"]], strict=True))
        assert len(compared.differs) == (0 if row["model"] == "mlp" else differing + 1)
        assert len(compared.differs) != 1


def test_splits_of_one_data_set_are_one_root() -> None:
    here = judged("tabm")
    splits: dict[str, set[str]] = defaultdict(set)
    for row, bundle in zip(here.table.rows, here.bundles, strict=True):
        splits[bundle.attempt.dataset_root].add(row.task)
        if "/" in row.task:
            assert row.task.rpartition("-")[2].lower() == bundle.attempt.dataset_root.replace("magic-t", "magict")
    assert {root: len(tasks) for root, tasks in splits.items()} == {
        "adult": 1, "churn": 1, "magic-telescope": 3, "phoneme": 5, "wine": 5,
    }  # fmt: skip
    units = effect_units(_as_if_paired(here.table))
    assert [(unit.root, len(unit.strata), unit.n_pairs) for unit in units] == [
        ("adult", 1, 15), ("churn", 1, 15), ("magic-telescope", 3, 45), ("phoneme", 5, 75), ("wine", 5, 75),
    ]  # fmt: skip


def _as_if_paired(table: PublishedTable) -> Iterator[PairedDelta]:
    """Yield what a reader would compare who overlooked the tuning: tabm beside mlp, seed by seed."""
    roots = {task.name: task.root for task in table.manifest.tasks}
    score = {(row.task, row.seed, row.config["model"]): row.metrics["test"] for row in table.rows}
    for (task, seed, model), value in score.items():
        if model == "tabm":
            yield PairedDelta(roots[task], task, seed, score[task, seed, "mlp"], value)


# --- random settings --------------------------------------------------------------------------------------------------


def test_random_settings_have_no_comparator_and_their_neighbours_no_repeat() -> None:
    here = judged("openml_pimp")
    assert len(here.verdicts) == 11
    for verdict in here.verdicts.values():
        assert (verdict.summary.n_units, verdict.summary.mean_interval, verdict.summary.p_value) == (1, None, None)
        assert verdict.verdict.reason_codes == (CandidateReason.INSUFFICIENT_INDEPENDENT_SUPPORT,)
    assert _reasons("openml_pimp") == {"non_comparable_evidence": 578, "insufficient_independent_support": 22}


def test_the_neighbours_are_those_of_the_published_file() -> None:
    """Find them with the standard library: rows of one task that share everything but one column."""
    lines = (DATA / "openml_pimp" / "random_forest.arff").read_text(encoding="utf-8").split("@DATA\n")[1].split()
    rows = [line.split(",") for line in lines]
    near = {
        late
        for late, row in enumerate(rows)
        if any(
            row[11] == other[11] and sum(a != b for a, b in zip(row[:10], other[:10], strict=True)) == 1
            for other in rows[:late]
        )
    }
    found = {place for place, row in enumerate(judged("openml_pimp").table.rows) if row.change is not None}
    assert len(rows) == 600
    assert len(found) == 11
    assert found == near


# --- vector quantisation ----------------------------------------------------------------------------------------------


def test_the_sweep_is_the_published_summary() -> None:
    told = json.loads((RAW / "beta_ablation_summary.json").read_text(encoding="utf-8"))
    rows = judged("vq_beta_sweep").table.rows
    assert {row.config["beta"]: dict(row.metrics) for row in rows} == {
        float(beta): {
            name: each["final_test_metrics"][name] for name in ("test_loss", "test_recon_loss", "test_perplexity")
        }
        for beta, each in told.items()
    }


def test_one_run_a_value_stays_below_active_and_shows_the_opposing_guardrail() -> None:
    told = json.loads((RAW / "beta_ablation_summary.json").read_text(encoding="utf-8"))
    verdicts = judged("vq_beta_sweep").verdicts.values()
    assert len(verdicts) == 4
    for verdict in verdicts:
        beta = float(verdict.variant.target.knob.to_value)
        moved = {
            name: told[str(beta)]["final_test_metrics"][name] - told["0.25"]["final_test_metrics"][name]
            for name in ("test_loss", "test_perplexity")
        }
        assert verdict.summary.mean == pytest.approx(moved["test_loss"])
        (guard,) = [each for each in verdict.effect.guardrails if each.metric.name == "test_perplexity"]
        assert float(guard.mean_delta) == pytest.approx(moved["test_perplexity"])
        assert any("test_perplexity" in finding.detail for finding in verdict.findings)
        if beta > 0.25:
            assert moved["test_loss"] < 0
            assert moved["test_perplexity"] < -100
        assert verdict.verdict.reason_codes == (CandidateReason.INSUFFICIENT_INDEPENDENT_SUPPORT,)


def test_the_report_is_the_published_one_and_its_primary_metric_shows_nothing() -> None:
    told = json.loads((RAW / "paired_report.json").read_text(encoding="utf-8"))
    here = judged("vq_one_layer")
    for row in here.table.rows:
        published = told["verified_metrics"][str(row.seed)][row.config["method"]]
        assert dict(row.metrics) == {name: published[name] for name in row.metrics}
    (verdict,) = here.verdicts.values()
    assert {contrast.changed.attempt.seed for contrast in verdict.variant.contrasts} == set(told["seeds"])
    assert all(contrast.paired for contrast in verdict.variant.contrasts)
    assert verdict.summary.mean == told["summary"]["mean_paired_delta"]["codebook_utilization"] == 0
    for guard in verdict.effect.guardrails:
        # The report signs its differences so that more is better; here they are changed minus baseline.
        sign = 1 if guard.metric.direction is Direction.MAXIMIZE else -1
        assert float(guard.mean_delta) == pytest.approx(sign * told["summary"]["mean_paired_delta"][guard.metric.name])


def test_a_report_without_its_runs_is_attested_and_stays_episodic() -> None:
    table = judged("vq_one_layer").table
    bundles = judged("vq_one_layer").bundles
    assert {bundle.verification.verification_kind for bundle in bundles} == {VerificationKind.ATTESTED}
    ledger = MemoryLedger()
    _append(ledger, table)
    request = FreezeEvidence(namespace="test", operation_key="one")
    snapshot, _ = EvidenceSnapshotBuilder(POLICY).freeze(ledger, request)
    assert not snapshot.members
    assert {each.reason: each.count for each in snapshot.excluded} == {"verification_kind_not_admitted": 6}


def _append(ledger: MemoryLedger, table: PublishedTable) -> None:
    artifacts = ArtifactStore("memory://attested")
    appends = []
    for trial in trials(table, "test", artifacts):
        records = bundle_records(trial)
        appends.append(Append.direct(Transition.APPEND_EVIDENCE, f"import/{records[-1].id}", records))
    all_good(CommitCoordinator(ledger, MemoryRuntime(), artifacts, "test").append_direct(appends))
