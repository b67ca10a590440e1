"""A real search imported, consolidated, audited and erased, on both stores."""

from __future__ import annotations

import os
import shutil
import socket
from pathlib import Path

import pytest

from importers.node_report.importing import Consolidating
from importers.node_report.reasons import RefusalCode
from memory.erasing import ErasureRequest
from memory.garbage import collect
from memory.lineage.files import FileFault, UnreadableFileError, hash_below
from memory.lineage.writing import Draft, Writing
from records.errors import ErasedError, VrmError
from records.lineage import (
    EntryIntegrity,
    EntryKind,
    Integrity,
    NodeStatus,
    RepairCode,
    Reproduction,
)
from records.retention import ErasureReason
from store.artifacts import ArtifactStore
from store.ledger.memory import MemoryLedger
from store.runtime.memory import MemoryRuntime
from tests.support.lineage_stack import DECLARED, HOW, audited, imported, outcomes, report_of, writer
from tests.support.lineage_tree import (
    METRIC,
    change_report,
    digest_of,
    predictions,
    rerun_matches,
    run_search,
    score,
    value_of,
)
from tests.support.stack import Crash, Faults, Stack, Stores
from tests.support.stack_control import checked

BOTH = pytest.mark.parametrize(("ledger", "runtime"), [("memory", "memory"), ("postgres", "postgres")], indirect=True)


@BOTH
def test_a_real_search_is_imported_consolidated_and_checked(stack: Stack, tmp_path: Path) -> None:
    run = run_search(tmp_path / "trees")
    found = imported(stack, run)
    assert set(outcomes(found).values()) == {"added"}
    scaled = report_of(found["node_scaled_c"])
    assert scaled.ancestors == ("node_root", "node_scaled")
    assert scaled.parent_report_id == report_of(found["node_scaled"]).id
    assert stack.stores.artifacts.read(scaled.report_digest) == (run / "node_scaled_c/node_report.json").read_bytes()
    assert {each.integrity for each in scaled.artifacts} == {Integrity.VERIFIED}
    config = {"scaler": "standard", "C": 10, "class_weight": "none", "kernel": "rbf", "tol": 0.001, "shrinking": True}
    assert value_of(scaled, METRIC) == score(predictions(config, 0)), "scikit-learn says the same again"
    assert all(rerun_matches(run / name) for name in found if name != "node_failed")
    kinds = {name: [written.entry.entry_kind.value for written in each.entries] for name, each in found.items()}
    assert kinds == {
        "node_root": ["experiment_result", "reflection"], "node_scaled": ["experiment_result"],
        "node_scaled_c": ["experiment_result", "reflection"], "node_failed": ["failure_case"],
    }  # fmt: skip
    failed = found["node_failed"].entries[0].entry
    assert "wavelet" in failed.text, "what scikit-learn said"
    assert report_of(found["node_failed"]).status is NodeStatus.FAILED
    result = found["node_scaled"].entries[0].entry
    assert result.metric is not None
    assert (result.metric.name, result.metric.unit) == (METRIC, "share")
    assert float(result.metric.value) == value_of(report_of(found["node_scaled"]), METRIC)
    audit = audited(stack, tmp_path / "trees", "run_0")
    assert audit.is_whole
    assert audit.counts[Integrity.VERIFIED] == len(audit.files) > 10
    report = checked(stack)
    assert report.clean, report.text()


@BOTH
def test_importing_again_is_a_replay_whatever_became_of_the_files(stack: Stack, tmp_path: Path) -> None:
    run = run_search(tmp_path)
    imported(stack, run)
    before = stack.state(), set(stack.stores.artifacts.digests())
    (run / "node_root" / "predictions.csv").write_text("changed")
    again = imported(stack, run / "node_root", run)
    assert set(outcomes(again).values()) == {"replayed"}
    assert {written.writing for each in again.values() for written in each.entries} == {Writing.REPLAYED}
    assert (stack.state(), set(stack.stores.artifacts.digests())) == before
    change_report(run / "node_root", what_was_done="something else")
    assert outcomes(imported(stack, run))["node_root"] == RefusalCode.REPORT_CHANGED.value
    assert stack.state() == before[0]


@BOTH
def test_the_gate_leaves_entries_out_and_a_later_import_adds_them(stack: Stack, tmp_path: Path) -> None:
    run = run_search(tmp_path)
    off = Consolidating(policy=HOW.policy, declared=DECLARED, is_on=False)
    assert not any(each.entries for each in imported(stack, run, how=off).values())
    assert stack.counts() == {"node-report": 4}
    imported(stack, run)
    assert stack.counts() == {"node-report": 4, "lineage-entry": 6}
    assert checked(stack).clean


@BOTH
def test_nothing_of_a_tree_is_evidence(stack: Stack, tmp_path: Path) -> None:
    imported(stack, run_search(tmp_path))
    head = stack.stores.ledger.namespace_head(stack.namespace)
    assert (head.evidence, head.lifecycle, head.retention) == (0, 0, 0)
    assert head.position == 10


def test_parents_come_first_and_what_contradicts_them_is_refused(stack: Stack, tmp_path: Path) -> None:
    run = run_search(tmp_path)
    change_report(run / "node_scaled_c", ancestor_ids=["node_scaled"], depth=1)
    found = imported(stack, run)
    assert outcomes(found)["node_scaled_c"] == RefusalCode.ANCESTORS_CONTRADICT.value
    change_report(run / "node_scaled_c", ancestor_ids=None, depth=7)
    assert outcomes(imported(stack, run))["node_scaled_c"] == RefusalCode.DEPTH_CONTRADICTS.value
    change_report(run / "node_scaled_c", depth=2)
    made = report_of(imported(stack, run)["node_scaled_c"])
    assert made.ancestors == ("node_root", "node_scaled")
    assert [(each.code, each.field) for each in made.repairs] == [(RepairCode.ANCESTORS_FROM_PARENT, "ancestor_ids")]
    assert checked(stack).clean


def test_without_its_parent_or_in_a_circle_no_node_is_taken(stack: Stack, tmp_path: Path) -> None:
    run = run_search(tmp_path)
    assert outcomes(imported(stack, run / "node_scaled_c")) == {"node_scaled_c": RefusalCode.PARENT_MISSING.value}
    change_report(run / "node_root", parent_id="node_scaled_c", ancestor_ids=None, depth=None)
    for name in ("node_scaled", "node_scaled_c"):
        change_report(run / name, ancestor_ids=None, depth=None)
    assert set(outcomes(imported(stack, run / "node_root", run / "node_scaled", run / "node_scaled_c")).values()) == {
        RefusalCode.CIRCLE.value
    }
    shutil.rmtree(run / "node_root")
    assert set(outcomes(imported(stack, run)).values()) == {RefusalCode.PARENT_MISSING.value}
    assert stack.counts() == {}


def test_a_report_counts_where_it_says_it_stands(stack: Stack, tmp_path: Path) -> None:
    run = run_search(tmp_path)
    (run / "node_root").rename(run / "node_other")
    assert outcomes(imported(stack, run / "node_other")) == {"node_other": RefusalCode.ELSEWHERE.value}


def test_files_that_lead_out_of_the_folder_or_are_no_files_refuse_the_report(stack: Stack, tmp_path: Path) -> None:
    """Defect 2.5(6): the original joined folder and path without a look."""
    run = run_search(tmp_path / "trees")
    folder, outside = run / "node_root", tmp_path / "secret.txt"
    outside.write_text("not of this node")
    (folder / "linked.txt").symlink_to(outside)
    (folder / "up").symlink_to(tmp_path)
    os.mkfifo(folder / "pipe")
    (folder / "sub").mkdir()
    with socket.socket(socket.AF_UNIX) as bound:
        here = Path.cwd()
        os.chdir(folder)  # the name of a socket is short
        bound.bind("sock")
        os.chdir(here)
        for path, code in (
            ("../secret.txt", RefusalCode.UNSAFE_PATH),
            (str(outside), RefusalCode.UNSAFE_PATH),
            ("linked.txt", RefusalCode.LINK),
            ("up/secret.txt", RefusalCode.LINK),
            ("pipe", RefusalCode.NOT_REGULAR),
            ("sock", RefusalCode.NOT_REGULAR),
            ("sub", RefusalCode.NOT_REGULAR),
        ):
            change_report(folder, artifacts=[{"filename": path, "role": "log"}])
            assert outcomes(imported(stack, folder)) == {"node_root": code.value}, path
    (folder / "node_report.json").rename(folder / "real.json")
    (folder / "node_report.json").symlink_to(folder / "real.json")
    assert outcomes(imported(stack, folder)) == {"node_root": RefusalCode.LINK.value}
    assert stack.counts() == {}


def test_verified_is_only_what_was_claimed_and_read(stack: Stack, tmp_path: Path) -> None:
    """Defect 2.5(1): a digest that nobody claimed, or that nobody read, verified a file in the original."""
    run = run_search(tmp_path)
    folder = run / "node_root"
    named = [
        {"filename": "predictions.csv", "role": "data_output", "sha256": digest_of(folder / "predictions.csv")},
        {"filename": "trial.json", "role": "data_output"},
        {"filename": "run.log", "role": "log", "sha256": "00" * 32},
        {"filename": "gone.csv", "role": "data_output", "sha256": "11" * 32},
    ]
    change_report(folder, artifacts=named)
    found = imported(stack, folder)["node_root"]
    made = {each.relative_path: each for each in report_of(found).artifacts}
    assert {name: each.integrity.value for name, each in made.items()} == {
        "predictions.csv": "verified", "trial.json": "unhashed", "run.log": "mismatch", "gone.csv": "missing",
    }  # fmt: skip
    assert (made["trial.json"].claimed, made["trial.json"].computed) == (None, digest_of(folder / "trial.json"))
    assert [(each.relative_path, each.integrity) for each in found.entries[0].entry.artifacts] == [
        ("predictions.csv", EntryIntegrity.VERIFIED), ("trial.json", EntryIntegrity.UNVERIFIED),
    ]  # fmt: skip


@BOTH
def test_an_audit_reads_every_file_again(stack: Stack, tmp_path: Path) -> None:
    run = run_search(tmp_path / "trees")
    change_report(run / "node_root", artifacts=[{"filename": "trial.json", "role": "data_output"}])
    imported(stack, run)
    first = audited(stack, tmp_path / "trees")
    assert (first.is_whole, first.counts[Integrity.UNHASHED]) == (True, 2), "in the report and in the entry"
    (run / "node_root" / "trial.json").write_text("{}")
    (run / "node_scaled" / "run.log").unlink()
    folder = run / "node_scaled_c"
    folder.rename(tmp_path / "moved")
    folder.symlink_to(tmp_path / "moved")
    audit = audited(stack, tmp_path / "trees", "run_0")
    told = {(each.node_id, each.relative_path): (each.status.value, each.detail) for each in audit.files}
    assert told["node_root", "trial.json"] == ("mismatch", "")
    assert told["node_scaled", "run.log"] == ("missing", "missing")
    assert told["node_scaled_c", "run.log"] == ("missing", "link"), "a folder that became a link leads nowhere"
    assert told["node_scaled", "predictions.csv"] == ("verified", "")
    assert not audit.is_whole
    assert audited(stack, tmp_path / "trees", "run_9").files == ()


@BOTH
def test_an_erased_report_stays_away_and_its_children_stay(stack: Stack, tmp_path: Path) -> None:
    run = run_search(tmp_path / stack.namespace, seed=7, run="run_0")
    for name in ("node_root", "node_scaled", "node_scaled_c", "node_failed"):
        change_report(run / name, original_direction=f"of {stack.namespace}")  # what one test erases is gone for all
    found = imported(stack, run)
    root = report_of(found["node_root"])
    request = ErasureRequest(target=str(root.id), reason=ErasureReason.PRIVACY_REQUEST, incident="case-1")
    stack.officer.finish(stack.officer.begin(request))
    with pytest.raises(ErasedError):
        stack.stores.artifacts.read(root.report_digest)
    again = outcomes(imported(stack, run))
    assert again == {
        "node_root": "denied", "node_scaled": "replayed", "node_scaled_c": "replayed", "node_failed": "replayed",
    }  # fmt: skip
    with pytest.raises(VrmError, match="retention denies"):
        writer(stack, "node_root").add(EntryKind.OBSERVATION, Draft(text="about what is gone"))
    entry = found["node_scaled"].entries[0].entry
    request = ErasureRequest(target=str(entry.id), reason=ErasureReason.PRIVACY_REQUEST, incident="case-2")
    stack.officer.finish(stack.officer.begin(request))
    with pytest.raises(VrmError, match="retention denies"):
        writer(stack).report_rerun(str(entry.id), Reproduction.RERUN_PASSED, Draft(text="of what is gone"))
    report = checked(stack)
    assert report.clean, report.text()


def test_nothing_that_a_report_rests_on_is_garbage(stack: Stack, tmp_path: Path) -> None:
    found = imported(stack, run_search(tmp_path))
    stores = stack.stores
    collect(stores.ledger, stores.runtime, stores.artifacts, published_before=float("inf"), remove=True)
    assert all(stores.artifacts.holds(report_of(each).report_digest) for each in found.values())
    assert checked(stack).clean


def test_an_import_that_was_cut_short_goes_on(tmp_path: Path) -> None:
    """At every call into a store or an owner, before and after it took effect."""
    run = run_search(tmp_path / "trees")
    for after in (False, True):
        for at in range(1, 40):
            stores = Stores(MemoryLedger(), MemoryRuntime(), ArtifactStore(str(tmp_path / f"{after}{at}")))
            broken = Stack(stores, "space", Faults(at=at, after=after))
            try:
                imported(broken, run)
            except Crash:
                whole = Stack(stores, "space")
                assert set(outcomes(imported(whole, run)).values()) <= {"added", "replayed"}
                assert whole.counts() == {"node-report": 4, "lineage-entry": 6}
                assert checked(whole).clean
            else:
                assert at > 2, "nothing was broken"
                break
        else:
            pytest.fail("more calls than were counted")


def test_reading_below_a_folder_says_why_it_cannot(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    assert hash_below(tmp_path, "a").sha256 == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    for path, fault in (("b", FileFault.MISSING), ("a/b", FileFault.MISSING), ("./a", FileFault.UNSAFE_PATH)):
        with pytest.raises(UnreadableFileError) as refused:
            hash_below(tmp_path, path)
        assert refused.value.fault is fault


def test_a_file_that_changes_while_it_is_hashed_has_no_digest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of one content and half of another is the digest of neither."""
    (tmp_path / "log").write_bytes(b"first")
    real = os.fstat
    looked: list[os.stat_result] = []

    def meanwhile(descriptor: int) -> os.stat_result:
        found = real(descriptor)
        if len(looked) == 1:  # it was opened and looked at, and somebody writes on before it is read
            with (tmp_path / "log").open("ab") as longer:
                longer.write(b" and second")
        looked.append(found)
        return found

    monkeypatch.setattr("memory.lineage.files.os.fstat", meanwhile)
    with pytest.raises(UnreadableFileError, match="changes"):
        hash_below(tmp_path, "log")
