"""Lineage memory written, on both stores: a real search imported, consolidated, audited, erased; and who may write."""

from __future__ import annotations

import os
import shutil
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from importers.node_report.importing import Consolidating, ImportedReport, ImportPorts, import_reports
from importers.node_report.reasons import RefusalCode
from importers.node_report.tree import locate
from memory.erasing import ErasureRequest
from memory.fsck import Code, fsck
from memory.garbage import collect
from memory.lineage.audit import ArtifactAudit, audit_artifacts
from memory.lineage.files import FileFault, UnreadableFileError, hash_below
from memory.lineage.writing import Claim, Draft, LineagePorts, LineageWriter, Measured, Node, Writing, Written
from policies.lineage.policy import HeadlineMetric, consolidation_policy
from records.appends import Append, AppendReceipt
from records.base import Record
from records.errors import ErasedError, InvalidInputError, InvalidRecordError, NotFoundError, VrmError
from records.flows import Transition
from records.lineage import (
    ArtifactRole,
    EntryIntegrity,
    EntryKind,
    Integrity,
    NodeReport,
    NodeStatus,
    RepairCode,
    Reproduction,
)
from records.retention import ErasureReason
from records.values import Direction
from store.artifacts import ArtifactStore
from store.ledger.memory import MemoryLedger
from store.ledger.port import Request
from store.runtime.memory import MemoryRuntime
from tests.support.lineage_samples import entry_fields, make_entry, make_report, make_rerun
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
from tests.support.stores import expect, ticking_clock

BOTH = pytest.mark.parametrize(("ledger", "runtime"), [("memory", "memory"), ("postgres", "postgres")], indirect=True)
DECLARED = HeadlineMetric(name=METRIC, unit="share", direction=Direction.MAXIMIZE)
HOW = Consolidating(policy=consolidation_policy(), declared=DECLARED)


def lineage(stack: Stack) -> LineagePorts:
    return LineagePorts(ledger=stack.stores.ledger, coordinator=stack.coordinator)


def imported(stack: Stack, *paths: Path, how: Consolidating = HOW) -> dict[str, ImportedReport]:
    ports = ImportPorts(lineage=lineage(stack), artifacts=stack.stores.artifacts, namespace=stack.namespace)
    return {each.located.node_id: each for each in import_reports(ports, locate(paths), how)}


def outcomes(found: dict[str, ImportedReport]) -> dict[str, str]:
    return {name: each.outcome.value if each.code is None else each.code.value for name, each in found.items()}


def report_of(each: ImportedReport) -> NodeReport:
    return expect(NodeReport, each.report)  # type: ignore[no-any-return]  # it is of that class


def audited(stack: Stack, root: Path, checkpoint: str | None = None) -> ArtifactAudit:
    with stack.stores.ledger.reading() as reader:
        return audit_artifacts(reader, stack.namespace, root, checkpoint)


def writer(stack: Stack, node: str = "node_scaled", root: Path | None = None) -> LineageWriter:
    who = Node(namespace=stack.namespace, checkpoint_id="run_0", node_id=node)
    return LineageWriter(lineage(stack), who, ticking_clock(), None if root is None else root / "run_0" / node)


def append(stack: Stack, transition: Transition, *records: Record) -> object:
    (answer,) = stack.coordinator.append_direct([Append.direct(transition, str(records[0].id), records)])
    return answer


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
def test_a_node_writes_under_its_own_name_alone(stack: Stack, tmp_path: Path) -> None:
    run = run_search(tmp_path)
    imported(stack, run)
    before = stack.state()
    with pytest.raises(InvalidInputError, match="node: node_root") as refused:
        writer(stack).add(EntryKind.OBSERVATION, Draft(text="x", node_id="node_root"))
    assert "node_scaled, alone" in refused.value.remedy
    with pytest.raises(InvalidInputError, match="ancestors"):
        writer(stack).add(EntryKind.OBSERVATION, Draft(text="x", ancestors=("node_failed",)))
    assert stack.state() == before
    written = writer(stack, root=tmp_path).add(
        EntryKind.OBSERVATION,
        Draft(
            text="cafe\u0301",
            node_id="node_scaled",
            artifacts=(
                Claim(path="run.log", role=ArtifactRole.LOG),
                Claim(path="trial.json", sha256=digest_of(run / "node_scaled" / "trial.json")),
            ),
            metric=Measured(name="seconds", value=-0.0, unit="s"),
            confidence=0.5,
            attributes={"b": "2", "a": "1"},
        ),
    )
    entry = written.entry
    assert (written.writing, entry.text, entry.ancestors) == (Writing.ADDED, "caf\u00e9", ("node_root",))
    assert [each.integrity for each in entry.artifacts] == [EntryIntegrity.UNVERIFIED, EntryIntegrity.VERIFIED]
    assert entry.report_ref is not None
    assert entry.report_ref.digest == digest_of(run / "node_scaled" / "node_report.json")
    assert entry.metric is not None
    assert (entry.metric.value, entry.metric.direction) == ("0", None)
    assert checked(stack).clean


def test_what_a_node_cannot_write_is_refused_by_field_and_leaves_nothing(stack: Stack, tmp_path: Path) -> None:
    run = run_search(tmp_path)
    imported(stack, run)
    before, own = stack.state(), writer(stack, root=tmp_path)
    (run / "node_scaled" / "link").symlink_to("trial.json")
    cases: tuple[tuple[dict[str, Any], str], ...] = (
        ({"text": ""}, "text"),
        ({"text": "x" * 100_001}, "text"),
        ({"text": "x", "confidence": 1.5}, "confidence"),
        ({"text": "x", "confidence": float("nan")}, "metric"),
        ({"text": "x", "metric": Measured(name="m", value=float("inf"), unit="s")}, "metric"),
        ({"text": "x", "metric": Measured(name="m", value=1, unit="")}, "unit"),
        ({"text": "x", "artifacts": (Claim(path="../node_root/run.log"),)}, "unsafe_path"),
        ({"text": "x", "artifacts": (Claim(path="link"),)}, "link"),
        ({"text": "x", "artifacts": (Claim(path="gone"),)}, "missing"),
        ({"text": "x", "artifacts": (Claim(path="run.log", sha256="00" * 32),)}, "Claimed was 0000"),
    )
    for fields, said in cases:
        with pytest.raises(InvalidInputError, match=said):
            own.add(EntryKind.OBSERVATION, Draft(**fields))
    with pytest.raises(InvalidInputError, match="reproducibility_event"):
        own.add(EntryKind.REPRODUCIBILITY_EVENT, Draft(text="x"))
    with pytest.raises(NotFoundError, match="node_new"):
        writer(stack, "node_new").add(EntryKind.OBSERVATION, Draft(text="x"))
    assert stack.state() == before
    lone = writer(stack, "node_new").add(EntryKind.PROCEDURE, Draft(text="x" * 100_000, ancestors=("node_root",)))
    assert (lone.entry.node_report_id, lone.entry.report_ref) == (None, None)


@BOTH
def test_thirty_two_identical_writes_at_once_leave_one_record(stack: Stack, tmp_path: Path) -> None:
    imported(stack, run_search(tmp_path))
    before = stack.counts()["lineage-entry"]
    clock, together = ticking_clock(), threading.Barrier(32)
    who = Node(namespace=stack.namespace, checkpoint_id="run_0", node_id="node_scaled")

    def write(_number: int) -> Written:
        own = LineageWriter(lineage(stack), who, clock)
        together.wait()
        return own.add(EntryKind.OBSERVATION, Draft(text="Flat from step 400 on."))

    with ThreadPoolExecutor(32) as pool:
        done = list(pool.map(write, range(32)))
    assert len({str(each.entry.id) for each in done}) == 1
    assert len({each.entry.created_at for each in done}) == 1, "the first time that was persisted stays"
    assert [each.writing for each in done].count(Writing.ADDED) == 1
    assert stack.counts()["lineage-entry"] == before + 1
    assert checked(stack).clean


@BOTH
def test_a_rerun_is_an_event_about_an_entry_that_stays_as_it_is(stack: Stack, tmp_path: Path) -> None:
    found = imported(stack, run_search(tmp_path))
    target = found["node_root"].entries[0].entry
    own = writer(stack)
    moment = "2026-07-01T00:00:00.000000Z"
    passed = own.report_rerun(str(target.id), Reproduction.RERUN_PASSED, Draft(text="the same"), moment)
    again = own.report_rerun(str(target.id), Reproduction.RERUN_PASSED, Draft(text="the same"), moment)
    assert (passed.writing, again.writing, again.entry) == (Writing.ADDED, Writing.REPLAYED, passed.entry)
    own.report_rerun(str(target.id), Reproduction.RERUN_FAILED, Draft(text="other"), moment)
    later = own.report_rerun(str(target.id), Reproduction.RERUN_PASSED, Draft(text="the same"))
    assert (later.writing, later.entry.id != passed.entry.id) == (Writing.ADDED, True), "what passes again is told anew"
    stored = expect(object, stack.stores.ledger.get(str(target.id)))
    assert stored.load() == target
    with pytest.raises(NotFoundError):
        own.report_rerun(str(passed.entry.id), Reproduction.RERUN_PASSED, Draft(text="of an event"))
    with pytest.raises(NotFoundError):
        own.report_rerun(str(make_entry(make_report("other")).id), Reproduction.RERUN_PASSED, Draft(text="nowhere"))
    assert checked(stack).clean


@BOTH
def test_the_transaction_refuses_what_contradicts_the_ledger(stack: Stack) -> None:
    """Records that no writer of this project makes, offered to the coordinator itself."""
    space, report, entry = stack.namespace, Transition.ADD_NODE_REPORT, Transition.ADD_LINEAGE_ENTRY
    root = make_report(space)
    child = make_report(space, "node_a", root)
    assert isinstance(append(stack, report, child), VrmError), "no parent"
    expect(AppendReceipt, append(stack, report, root))
    expect(AppendReceipt, append(stack, report, child))
    other = make_report(space, "node_x", checkpoint_id="run-2")
    expect(AppendReceipt, append(stack, report, other))
    grown = make_report(space, "node_b", child).model_copy(update={"ancestors": ("node_a",)})
    foreign = make_report(space, "node_c", other, checkpoint_id="run-1")
    second = make_report(space, raw_label="Another")
    for wrong in (grown, foreign, second):
        assert isinstance(append(stack, report, wrong), VrmError), wrong
    made = make_entry(child)
    ref = entry_fields(child)["report_ref"]
    for changes in (
        {"ancestors": ()},
        {"report_ref": ref.model_copy(update={"digest": "00" * 32})},
        {"node_id": "node_root", "ancestors": (), "report_ref": ref.model_copy(update={"node_id": "node_root"})},
    ):
        assert isinstance(append(stack, entry, make_entry(child, **changes)), VrmError), changes
    bare = {"node_report_id": None, "report_ref": None}
    lied = make_entry(child, node_id="node_new", ancestors=("node_a",), **bare)
    assert isinstance(append(stack, entry, lied), VrmError), "the parent's report says that it is no root"
    expect(AppendReceipt, append(stack, entry, made))
    rerun = make_rerun(made, child)
    expect(AppendReceipt, append(stack, entry, rerun))
    for wrong in (make_rerun(made, other), make_rerun(make_entry(child, text="never appended"), child)):
        assert isinstance(append(stack, entry, wrong), VrmError), wrong
    about_an_event = rerun.model_copy(update={"target_id": rerun.id})
    assert isinstance(append(stack, entry, about_an_event), VrmError)
    assert stack.counts() == {"node-report": 3, "lineage-entry": 2}


def test_the_integrity_check_finds_what_does_not_fit(tmp_path: Path) -> None:
    """Records that the coordinator would have refused, written past its guards."""
    stack = Stack(Stores(MemoryLedger(), MemoryRuntime(), ArtifactStore(str(tmp_path))), "space")
    root = make_report("space")
    other = make_report("space", "node_x", checkpoint_id="run-2")
    strange = make_report("space", "node_a", root, ancestors=("node_y", "node_root"))
    made, elsewhere = make_entry(root), make_entry(other)
    ref = entry_fields(root)["report_ref"].model_copy(update={"digest": "00" * 32})
    lied, far = make_entry(root, text="lied", report_ref=ref), make_rerun(elsewhere, root)
    for each in (root, other, strange):
        stack.stores.artifacts.publish(f"the report of {each.node_id}".encode())
    ledger = stack.stores.ledger
    epoch = ledger.claim("commit-coordinator/0", "forger")
    for record in (root, other, strange, made, elsewhere, lied, far):
        flow = Transition.ADD_NODE_REPORT if isinstance(record, NodeReport) else Transition.ADD_LINEAGE_ENTRY
        (answer,) = ledger.commit(epoch, [Request(Append.direct(flow, str(record.id), (record,)))])
        expect(AppendReceipt, answer)
    with ledger.reading() as reader:
        report = fsck(reader, stack.stores.runtime, stack.stores.artifacts)
    found = {each.record for each in report.violations if each.code is Code.LINEAGE_MISMATCH}
    assert found == {str(strange.id), str(lied.id), str(far.id)}, report.text()


def test_the_records_themselves_refuse_what_does_not_fit() -> None:
    root = make_report()
    for changes, said in (
        ({"ancestors": ("a", "a"), "parent_node_id": "a", "parent_report_id": root.id}, "named once"),
        ({"ancestors": ("node_root",), "parent_node_id": "node_root", "parent_report_id": root.id}, "own ancestors"),
        ({"ancestors": ("a",)}, "last ancestor is the parent"),
        ({"ancestors": ("a",), "parent_node_id": "a"}, "named with its report"),
        ({"report_digest": "00" * 32}, "that of its artifact"),
        ({"metrics": root.metrics * 2}, "sorted by name"),
    ):
        with pytest.raises(InvalidRecordError, match=said):
            make_report(**changes)
    for changes, said in (
        ({"report_ref": None}, "by its record and by its content"),
        ({"node_id": "node_b"}, "its own node"),
        ({"confidence": "2"}, "from 0 to 1"),
        ({"text": ""}, "text"),
        ({"target_id": make_entry(root).id}, "target_id"),
        ({"kind": EntryKind.REPRODUCIBILITY_EVENT}, "entry_kind"),
    ):
        with pytest.raises(InvalidRecordError, match=said):
            make_entry(root, **changes)


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
