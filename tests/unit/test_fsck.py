"""The integrity check over the in-memory adapters: a clean world, and what lies between Ledger and Runtime."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from importers.published_table import read_published_table
from memory.fsck import Code, FsckReport, fsck
from memory.fsck.authorizations import RuntimeBefore
from memory.fsck.report import LISTED_PER_CODE, Findings
from memory.run_owner import RunOwner
from policies.retention import check_retention
from records.appends import Append, Proposal
from records.canonical import canonical_bytes
from records.decisions import BlockedTarget, DecisionIntent
from records.flows import Authority, Transition
from records.ids import AuthorizationId
from records.models import noun_of
from records.outcomes import NoCommitReason
from records.states import Machine, Phase
from store.artifacts import ArtifactStore
from store.ledger.memory import MemoryLedger
from store.ledger.port import Refusal, Request
from store.runtime.memory import MemoryRuntime
from tests.data.tables import write_table
from tests.data.world import NOW, World, build_world, digest

PROOFS = ("no-commit-receipt", "distillation-commit-conflict")


@pytest.fixture(scope="module")
def table_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_table(tmp_path_factory.mktemp("table"))


@pytest.fixture
def world(table_folder: Path, tmp_path: Path) -> World:
    table = read_published_table(table_folder)
    return build_world(MemoryLedger(), MemoryRuntime(), ArtifactStore(str(tmp_path)), table)


def _check(world: World, *, runtime: bool = True) -> FsckReport:
    with world.ledger.reading() as reader:
        return fsck(reader, world.runtime if runtime else None, world.artifacts)


def _memory(world: World) -> tuple[MemoryLedger, MemoryRuntime]:
    assert isinstance(world.ledger, MemoryLedger)
    assert isinstance(world.runtime, MemoryRuntime)
    return world.ledger, world.runtime


def test_a_world_written_by_its_owners_is_clean(world: World) -> None:
    report = _check(world)
    assert report.clean, report.text()
    assert report.exit_code == 0
    assert report.notes == ()
    ledger, _ = _memory(world)
    assert report.checked["records"] == sum(ledger.table_counts().values())
    assert report.checked["bundles"] == 24
    assert report.text().endswith("Clean.")


def test_an_empty_store_is_clean(tmp_path: Path) -> None:
    with MemoryLedger().reading() as reader:
        report = fsck(reader, MemoryRuntime(), ArtifactStore(str(tmp_path)))
    assert (report.clean, report.counts) == (True, {})


def test_a_receipt_without_its_authorization_is_found(world: World) -> None:
    _, runtime = _memory(world)
    subject = runtime.find(Machine.AUTHORIZATION)[0]
    del runtime._subjects[Machine.AUTHORIZATION, subject.id]
    report = _check(world)
    assert report.counts == {Code.AUTHORIZATION_UNKNOWN.value: 1}
    assert report.violations[0].record == subject.id


def test_an_authorization_that_contradicts_its_receipt_is_found(world: World) -> None:
    _, runtime = _memory(world)
    one, two = runtime.find(Machine.AUTHORIZATION)[:2]
    runtime._subjects[Machine.AUTHORIZATION, one.id] = one.model_copy(update={"phase": Phase.RETIRED_NO_COMMIT})
    runtime._subjects[Machine.AUTHORIZATION, two.id] = two.model_copy(update={"body": one.body})
    report = _check(world)
    assert report.counts.keys() == {Code.AUTHORIZATION_MISMATCH.value}
    assert {violation.record for violation in report.violations} == {one.id, two.id}


def test_an_intent_of_an_unknown_run_is_found(world: World) -> None:
    ledger, runtime = _memory(world)
    intent = ledger.find("decision-intent", world.namespace)[0].load()
    assert isinstance(intent, DecisionIntent)
    del runtime._subjects[Machine.RUN, str(intent.run_id)]
    assert _check(world).counts == {Code.RUN_UNKNOWN.value: 1}


def test_an_unresolved_grant_is_a_note_and_recovery_removes_it(world: World) -> None:
    """A coordinator that died between grant and append leaves exactly this behind."""
    owner = RunOwner(world.runtime, world.ledger, world.artifacts, lambda: NOW, "test")
    ledger, runtime = _memory(world)
    stored = ledger.find("decision-intent", world.namespace)[0].load()
    assert isinstance(stored, DecisionIntent)
    intent = DecisionIntent.load(canonical_bytes(stored.as_json() | {"iteration": 1}))
    run = runtime.subject(Machine.RUN, str(stored.run_id))
    assert run is not None
    runtime._subjects[Machine.RUN, run.id] = run.model_copy(update={"phase": Phase.RUNNING})
    proposal = Proposal(
        namespace=world.namespace,
        transition=Transition.APPEND_INTENT,
        authority=Authority.ADMISSION,
        machine=Machine.DECISION,
        subject_id=str(intent.id),
        run_id=stored.run_id,
        generation=1,
        fence=1,
        records=Proposal.bodies((intent,)),
    )
    (grant,) = owner.grant([world.artifacts.publish(proposal.canonical)])
    assert not isinstance(grant, Exception)
    report = _check(world)
    assert report.clean, report.text()
    assert [(note.code, note.record) for note in report.notes] == [("unresolved", str(grant.id))]


def _refused(world: World, noun: str) -> str:
    """Write a typed no-commit, proved by a record of `noun`, for an authorization that only the Ledger knows."""
    conflict = noun == "distillation-commit-conflict"
    stored = world.ledger.find("distillation-batch" if conflict else "decision-intent", world.namespace)[0].load()
    permit = AuthorizationId.derive({"name": "refused"})
    append = Append(
        namespace=world.namespace,
        transition=Transition.COMMIT_DISTILLATION if conflict else Transition.APPEND_INTENT,
        authority=Authority.NORMAL if conflict else Authority.ADMISSION,
        permit_key=str(permit),
        permit_digest=digest("refused"),
        records=(stored,),
    )
    target = BlockedTarget(target_id=str(stored.id), digest=stored.payload_digest)
    check = check_retention(world.ledger.namespace_head(world.namespace), [target])
    revoked = Refusal(NoCommitReason.RETENTION_REVOKED, "for a test", retention=check)
    refusal = revoked if conflict else Refusal(NoCommitReason.PRECONDITION_CONFLICT, "for a test")
    epoch = world.ledger.claim("commit-coordinator/0", "test")
    (receipt,) = world.ledger.commit(epoch, [Request(append, lambda _reader, _append: refusal)])
    assert not isinstance(receipt, Exception)
    assert not receipt.committed
    assert [noun_of(name) for name in receipt.record_ids] == [noun]
    return str(permit)


@pytest.mark.parametrize("noun", PROOFS)
def test_a_no_commit_stands_alone(world: World, noun: str) -> None:
    permit = _refused(world, noun)
    assert _check(world, runtime=False).clean
    ledger, _ = _memory(world)
    key = (world.namespace, permit)
    receipt = ledger._state.receipts[key]
    other = ledger.journal(world.namespace)[0]
    ledger._state.receipts[key] = replace(
        receipt, record_ids=(*receipt.record_ids, other.id), positions=(*receipt.positions, other.position)
    )
    report = _check(world, runtime=False)
    assert Code.PERMIT_ANSWERED_TWICE.value in report.counts


@pytest.mark.parametrize("noun", PROOFS)
def test_a_no_commit_beside_a_success_is_found(world: World, noun: str) -> None:
    permit = _refused(world, noun)
    ledger, _ = _memory(world)
    key = (world.namespace, permit)
    other = ledger.journal(world.namespace)[0]
    ledger._state.receipts[key] = replace(
        ledger._state.receipts[key], record_ids=(other.id,), positions=(other.position,), no_commit_id=None, reason=None
    )
    assert Code.PERMIT_ANSWERED_TWICE.value in _check(world, runtime=False).counts


def test_the_place_where_a_chain_breaks_is_told_once(world: World) -> None:
    ledger, _ = _memory(world)
    journal = ledger._state.journals[world.namespace]
    journal[9] = journal[9]._replace(chain_digest="0" * 64)
    report = _check(world)
    # Row 10 does not follow from row 9, and row 11 not from the changed row 10; everything after it does.
    assert report.counts == {Code.CHAIN_BROKEN.value: 2}
    assert [violation.record for violation in report.violations] == [journal[9].id, journal[10].id]


def test_the_report_is_json_and_counts_what_it_does_not_list() -> None:
    findings = Findings()
    for number in range(LISTED_PER_CODE + 5):
        findings.add(Code.CHILD_STRAY, f"observation:{number}", "rows without their record")
    findings.add(Code.FRONTIER, "main", 3)
    report = findings.report()
    data = json.loads(report.canonical)
    assert data["counts"] == {"child_stray": LISTED_PER_CODE + 5, "frontier": 1}
    assert len(data["violations"]) == LISTED_PER_CODE + 1
    assert "5 more are counted" in report.text()
    assert (report.exit_code, report.clean) == (1, False)
    assert all(code.remedy.endswith(".") for code in Code)


def test_a_run_that_is_over_needs_its_outcomes_and_a_missing_one_is_told_once(world: World) -> None:
    ledger, _ = _memory(world)
    outcome = ledger.find("recall-decision-outcome", world.namespace)[0]
    ledger._state.by_kind["recall-decision-outcome", world.namespace].clear()
    del ledger._state.records[outcome.id]
    report = _check(world)
    assert report.counts[Code.OUTCOME_MISSING.value] == report.counts[Code.ROW_MISSING.value] == 1


def test_many_authorizations_go_through_a_file_and_not_through_memory(world: World) -> None:
    with RuntimeBefore(world.runtime, None, Findings()) as before:
        listed = list(before.proposals())
        assert listed == list(before.proposals())  # it can be read again
    assert len(listed) == len(world.runtime.find(Machine.AUTHORIZATION))
    with RuntimeBefore(world.runtime, "other", Findings()) as elsewhere:
        assert list(elsewhere.proposals()) == []


def test_owners_that_were_forgotten_are_found(world: World) -> None:
    ledger, _ = _memory(world)
    ledger._state.owners["commit-coordinator/0"] = 0
    assert _check(world).counts == {Code.OWNER_EPOCH.value: 1}
    ledger._state.owners.clear()
    assert _check(world).violations[0].record == "owners"
