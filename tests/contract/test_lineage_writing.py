"""Who may write to lineage memory, and what the transaction and the integrity check refuse, on both stores."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from memory.fsck import Code, fsck
from memory.lineage.writing import Claim, Draft, LineageWriter, Measured, Node, Writing, Written
from records.appends import Append, AppendReceipt
from records.errors import InvalidInputError, InvalidRecordError, NotFoundError, VrmError
from records.flows import Transition
from records.lineage import (
    ArtifactRole,
    EntryIntegrity,
    EntryKind,
    MetricPointer,
    NodeReport,
    Reproduction,
)
from store.artifacts import ArtifactStore
from store.ledger.memory import MemoryLedger
from store.ledger.port import Request
from store.runtime.memory import MemoryRuntime
from tests.support.lineage_samples import entry_fields, make_entry, make_report, make_rerun
from tests.support.lineage_stack import append, imported, lineage, writer
from tests.support.lineage_tree import (
    digest_of,
    run_search,
)
from tests.support.stack import Stack, Stores
from tests.support.stack_control import checked
from tests.support.stores import expect, ticking_clock

BOTH = pytest.mark.parametrize(("ledger", "runtime"), [("memory", "memory"), ("postgres", "postgres")], indirect=True)


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
    wrong_number = MetricPointer(name="accuracy", value="0.99", unit="share", direction=None)
    wrong_file = entry_fields(child)["artifacts"][0].model_copy(update={"sha256": "00" * 32})
    for otherwise in ({"metric": wrong_number}, {"artifacts": (wrong_file,)}):
        for ref_of in ({}, {"node_report_id": None, "report_ref": None}):
            fields: dict[str, Any] = {**otherwise, **ref_of}
            refused = append(stack, entry, make_entry(child, **fields))
            assert isinstance(refused, VrmError), otherwise
            assert "contradicts its report" in str(refused)
    lied = make_entry(child, node_id="node_new", ancestors=("node_a",), node_report_id=None, report_ref=None)
    assert isinstance(append(stack, entry, lied), VrmError), "the parent's report says that it is no root"
    expect(AppendReceipt, append(stack, entry, made))
    rerun = make_rerun(made, child)
    expect(AppendReceipt, append(stack, entry, rerun))
    for event in (make_rerun(made, other), make_rerun(make_entry(child, text="never appended"), child)):
        assert isinstance(append(stack, entry, event), VrmError), event
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
    reports: tuple[tuple[dict[str, Any], str], ...] = (
        ({"ancestors": ("a", "a"), "parent_node_id": "a", "parent_report_id": root.id}, "named once"),
        ({"ancestors": ("node_root",), "parent_node_id": "node_root", "parent_report_id": root.id}, "own ancestors"),
        ({"ancestors": ("a",)}, "last ancestor is the parent"),
        ({"ancestors": ("a",), "parent_node_id": "a"}, "named with its report"),
        ({"report_digest": "00" * 32}, "that of its artifact"),
        ({"metrics": root.metrics * 2}, "sorted by name"),
    )
    for changes, said in reports:
        with pytest.raises(InvalidRecordError, match=said):
            make_report(**changes)
    entries: tuple[tuple[dict[str, Any], str], ...] = (
        ({"report_ref": None}, "by its record and by its content"),
        ({"node_id": "node_b"}, "its own node"),
        ({"confidence": "2"}, "from 0 to 1"),
        ({"text": ""}, "text"),
        ({"target_id": make_entry(root).id}, "target_id"),
        ({"kind": EntryKind.REPRODUCIBILITY_EVENT}, "entry_kind"),
    )
    for changes, said in entries:
        with pytest.raises(InvalidRecordError, match=said):
            make_entry(root, **changes)
