"""Named invariants of writing, W01, W03 and W09, through every owner and on both adapters."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from psycopg import sql

from memory.assignments import campaign_admission, campaign_run
from memory.campaigns import CampaignPorts, Campaigns
from memory.derive import profile_owner
from memory.evidence import bundle_records, resolve_bundles
from records.appends import Append
from records.errors import EvidenceError, IdentityConflictError, VrmError
from records.evidence import Experience, VerifiedEvidenceBundle
from records.flows import Transition
from records.ids import EvidenceSnapshotId, WorkItemId
from records.ingestion import (
    CaptureOperation,
    DistillationReceipt,
    EvidenceSnapshot,
    ReceiptDisposition,
    SnapshotMember,
)
from records.runtime import handoff_id, reference_id
from records.states import Machine, Phase
from tests.support.samples import PROFILE
from tests.support.stack import GOOD, POLICIES, Stack, effects, quiet
from tests.support.stores import Addresses, evidence_append
from tests.support.trials import NOW, digest, make_trial

EVIDENCE = (
    "evaluation-contract", "hypothesis", "attempt", "observation", "verification", "intervention", "trial-provenance",
    "experience",
)  # fmt: skip

pytestmark = pytest.mark.parametrize(
    ("ledger", "runtime"), [("memory", "memory"), ("postgres", "postgres")], indirect=True
)


def evidence_bytes(stack: Stack) -> dict[str, tuple[int, str]]:
    """Return position and payload of every evidence record."""
    found = [item for noun in EVIDENCE for item in stack.stores.ledger.find(noun, stack.namespace)]
    return {item.id: (item.position, item.payload) for item in found}


def test_vrm_w01_distillation_changes_no_evidence_byte(stack: Stack) -> None:
    """Promotion, supersession and retraction leave every evidence record where and as it was.

    The database itself refuses a change below. Erasure, which replaces bytes by a tombstone under its own authority, is
    a later issue's.
    """
    batches = {
        "first": GOOD,
        "second": {"e": 0.06, "f": 0.055},
        "third": dict.fromkeys("ghijkl", -0.06),
    }
    written: dict[str, tuple[int, str]] = {}
    for seed, (key, deltas) in enumerate(batches.items()):
        run_id = stack.admit(key)
        stack.evidence(effects(stack, key, deltas, seed=seed))
        before = evidence_bytes(stack)
        assert written.items() <= before.items()
        assert not stack.campaign(run_id)
        written = evidence_bytes(stack)
        assert written == before
    assert [event.event_type.value for event in stack.load("knowledge-lifecycle-event")] == [
        "promoted_active",
        "superseded",
        "promoted_active",
        "retracted",
    ]


@pytest.mark.parametrize("noun", EVIDENCE)
@pytest.mark.parametrize("verb", ["UPDATE {} SET payload = '{{}}' WHERE id = %s", "DELETE FROM {} WHERE id = %s"])
def test_vrm_w01_the_database_refuses(stack: Stack, noun: str, verb: str, request: pytest.FixtureRequest) -> None:
    """Not even the superuser changes or deletes an evidence record; erasure will come with its own right to."""
    records = {record.kind.noun: record for record in bundle_records(make_trial(stack.namespace))}
    stack.coordinator.append_direct([evidence_append(list(records.values()))])
    before = evidence_bytes(stack)
    if type(stack.stores.ledger).__name__ == "MemoryLedger":
        assert not {name for name in dir(stack.stores.ledger) if "update" in name or "delete" in name}
        return
    addresses: Addresses = request.getfixturevalue("ledger_database")
    statement = sql.SQL(verb).format(sql.Identifier("ledger", records[noun].kind.table))
    with psycopg.connect(addresses.superuser, autocommit=True) as link:
        assert link.execute(
            sql.SQL("SELECT 1 FROM {} WHERE id = %s").format(sql.Identifier("ledger", records[noun].kind.table)),
            [str(records[noun].id)],
        ).fetchone()
        with pytest.raises(psycopg.errors.RaiseException, match="append-only"):
            link.execute(statement, [str(records[noun].id)])
    assert evidence_bytes(stack) == before


class TestVrmW03:
    """Every edge of promotion resolves through a bundle of authoritative rows.

    `tests/unit/test_bundles.py` breaks each tie. Evidence that several Experiences share in nested copies comes with
    the legacy records of the ledger issue; nothing here holds a copy.
    """

    def test_vrm_w03_every_edge_resolves_to_authoritative_rows(self, stack: Stack) -> None:
        stack.study("first", effects(stack, "first", GOOD))
        experiences = stack.load("experience")
        bundles = resolve_bundles(stack.stores.ledger, experiences)
        (rule,) = stack.load("memory-record")
        assert len(rule.links) == 4
        for link in rule.links:
            changed, base = bundles[link.experience_id], bundles[link.comparator_id]
            assert isinstance(changed, VerifiedEvidenceBundle)
            assert isinstance(base, VerifiedEvidenceBundle)
            assert (link.observation_id, link.verification_id, link.intervention_id, link.provenance_id) == (
                changed.observation.id,
                changed.verification.id,
                changed.intervention.id,
                changed.provenance.id,
            )
            assert changed.verification.valid
            assert base.verification.valid

    def test_vrm_w03_a_bundle_that_contradicts_itself_is_not_stored(self, stack: Stack) -> None:
        *records, provenance, experience = bundle_records(make_trial(stack.namespace))
        broken = provenance.model_copy(update={"source_digest": digest("another source")})
        pointing = experience.model_copy(update={"provenance_id": broken.id})
        before = stack.journal()
        (answer,) = stack.coordinator.append_direct([evidence_append([*records, broken, pointing])])
        assert isinstance(answer, IdentityConflictError)
        assert "source digests differ" in str(answer)
        assert stack.journal() == before

    def test_vrm_w03_a_member_that_is_not_what_was_captured_stops_distillation(self, stack: Stack) -> None:
        run_id = stack.admit("first")
        stack.evidence(effects(stack, "first", GOOD))
        stack.campaigns.ingest(run_id, quiet)
        stack.campaigns.project(quiet)
        experience = stack.load("experience")[0]
        snapshot_id = _capture(stack, SnapshotMember(experience_id=experience.id, bundle_digest=digest("other")))
        before = stack.journal()
        with pytest.raises(EvidenceError, match=experience.id):
            stack.campaigns.distil(snapshot_id, stack.distiller, quiet)
        assert stack.journal() == before

    def test_vrm_w03_what_lacks_a_part_never_becomes_support(self, stack: Stack) -> None:
        run_id = stack.admit("first")
        trials = effects(stack, "first", GOOD)
        stack.evidence(trials[2:])
        for number, trial in enumerate(trials[:2]):
            *records, experience = bundle_records(trial)
            assert isinstance(experience, Experience)
            bare = experience.model_copy(update={"verification_id": None})
            stack.coordinator.append_direct([evidence_append([*records, bare], f"bare-{number}")])
        assert not stack.campaign(run_id)
        (rule,) = stack.load("memory-record")
        assert len(rule.links) == 3
        held_back = [item for item in stack.load("distillation-receipt") if item.reasons == ("missing_verification",)]
        assert len(held_back) == 2


class TestVrmW09:
    """One receipt, one item, one campaign, one completion, whatever crashes or repeats.

    Crashes at every call are in `test_spine_crashes.py`, the orphan proofs of an enqueue that was cut short in
    `test_handoffs.py`, its abandonment in `test_handoffs_ended.py`, the release of the profile reference in
    `test_handoffs_released.py`. A later issue adds dead letters, cancellation and failure of a campaign, and the exact
    coverage that a terminal campaign proves.
    """

    def queued(self, stack: Stack) -> Any:
        run_id = stack.admit("first")
        stack.evidence(effects(stack, "first", GOOD))
        assert not stack.campaigns.ingest(run_id, quiet)
        return run_id

    def test_vrm_w09_a_queued_receipt_and_its_item_are_one_transaction(self, stack: Stack) -> None:
        self.queued(stack)
        journal = {row.id: row for row in stack.journal()}
        items = {item.id: item for item in stack.load("distillation-work-item")}
        sidecars = {item.work_item_id: item for item in stack.load("enqueue-transaction")}
        receipts = stack.load("distillation-receipt")
        assert len(receipts) == len(items) == len(sidecars) == 8
        for receipt in receipts:
            assert receipt.disposition is ReceiptDisposition.QUEUED
            rows = [journal[items[receipt.work_item_id].id], journal[receipt.id]]
            rows.append(journal[sidecars[receipt.work_item_id].id])
            assert len({row.permit_key for row in rows}) == 1
            assert [row.position for row in rows] == list(range(rows[0].position, rows[0].position + 3))

    def test_vrm_w09_an_item_is_never_written_without_its_receipt(self, stack: Stack) -> None:
        """A receipt that is there already refuses the whole enqueue."""
        run_id = stack.admit("first")
        stack.evidence(effects(stack, "first", GOOD))
        taken = stack.load("experience")[0]
        receipt = DistillationReceipt(
            namespace=stack.namespace, created_at=taken.created_at, experience_id=taken.id,
            disposition=ReceiptDisposition.NOT_REQUIRED, reasons=("by-hand",),
            policy=POLICIES.distillation.identity, work_item_id=None,
        )  # fmt: skip
        experiences = stack.campaigns.without_receipt(run_id)
        stack.coordinator.append_direct([_direct(Transition.RECEIPT_NOT_QUEUED, receipt)])
        stack.campaigns.without_receipt = lambda source_run: experiences  # type: ignore[method-assign]  # noqa: ARG005 - the port names it
        failures = stack.campaigns.ingest(run_id, quiet)
        assert len(failures) == 1
        assert taken.id not in {item.experience_id for item in stack.load("distillation-work-item")}
        assert len(stack.load("distillation-work-item")) == len(stack.load("enqueue-transaction")) == 7

    def test_vrm_w09_the_profile_is_held_and_the_handoff_bound(self, stack: Stack) -> None:
        """The source Run's end releases neither."""
        run_id = self.queued(stack)

        def held() -> list[tuple[Phase, Phase]]:
            found = []
            for item in stack.load("distillation-work-item"):
                work_item_id = WorkItemId(item.id)
                reference = reference_id(profile_owner(work_item_id), item.campaign_profile_digest)
                subjects = (
                    stack.stores.runtime.subject(Machine.REFERENCE, reference),
                    stack.stores.runtime.subject(Machine.HANDOFF, handoff_id(work_item_id)),
                )
                assert subjects[0] is not None
                assert subjects[1] is not None
                found.append((subjects[0].phase, subjects[1].phase))
            return found

        assert held() == [(Phase.ACTIVE, Phase.BOUND)] * 8
        assert stack.stores.artifacts.read(PROFILE.canonical_digest) == PROFILE.canonical
        assert not stack.campaign(run_id)
        stack.complete(run_id)
        assert held() == [(Phase.ACTIVE, Phase.BOUND)] * 8

    def test_vrm_w09_projectors_converge_on_one_run_activity_and_assignment(self, stack: Stack) -> None:
        """Two that see the same unassigned items, and a third after a restart, make the same campaign."""
        self.queued(stack)
        items = stack.campaigns.unassigned()
        assert not stack.campaigns.project(quiet)
        before = stack.state()
        late = Stack(stack.stores, stack.namespace)
        late.campaigns.unassigned = lambda: items  # type: ignore[method-assign]
        assert not late.campaigns.project(quiet)
        assert Stack(stack.stores, stack.namespace).campaigns.unassigned() == []
        assert stack.state() == before
        assignments = stack.load("distillation-work-assignment")
        assert len({item.run_id for item in assignments}) == len({item.activity_id for item in assignments}) == 8
        assert {item.work_item_id for item in assignments} == {item.id for item in items}

    def test_vrm_w09_an_item_has_one_campaign_specification(self, stack: Stack) -> None:
        """Another configuration under the same item reads and keeps the winner; it never makes a second Run."""
        self.queued(stack)
        items = stack.campaigns.unassigned()
        assert not stack.campaigns.project(quiet)
        other = PROFILE.model_copy(update={"budget_class": "huge"})
        ports = CampaignPorts(
            ledger=stack.stores.ledger, runtime=stack.stores.runtime, artifacts=stack.stores.artifacts,
            owner=stack.owner, spine=stack.spine, heads=stack.heads, clock=lambda: NOW, holder="rival",
        )  # fmt: skip
        rival = Campaigns(ports, POLICIES, other, stack.namespace)
        rival.unassigned = lambda: items  # type: ignore[method-assign]
        before = stack.state()
        assert not rival.project(quiet)
        assert stack.state() == before
        (refused,) = stack.owner.apply([campaign_admission(campaign_run(items[0], other))])
        assert isinstance(refused, IdentityConflictError)
        assert stack.state() == before

    def test_vrm_w09_the_source_run_gets_no_new_activity(self, stack: Stack) -> None:
        """Distillation is a Run of its own, before and after the source Run has ended."""
        run_id = self.queued(stack)
        stack.complete(run_id)
        assert not stack.campaign(run_id)
        activities = stack.stores.runtime.find(Machine.ACTIVITY, run_id=run_id)
        assert len(activities) == 1
        runs = {item.run_id for item in stack.load("distillation-work-assignment")}
        assert run_id not in runs
        assert {len(stack.stores.runtime.find(Machine.ACTIVITY, run_id=each)) for each in runs} == {1}

    def test_vrm_w09_one_completion_that_resolves(self, stack: Stack) -> None:
        run_id = self.queued(stack)
        assert not stack.campaign(run_id)
        before = stack.state()
        for _ in range(2):
            assert not Stack(stack.stores, stack.namespace).campaign(run_id)
        assert stack.state() == before
        completions = {item.work_item_id: item for item in stack.load("distillation-work-completion")}
        assert set(completions) == {item.id for item in stack.load("distillation-work-item")}
        batches = {batch.id: batch for batch in stack.load("distillation-batch")}
        for item in stack.load("distillation-work-item"):
            batch = batches[completions[item.id].batch_id]
            assert item.experience_id in batch.experience_ids
            assert batch.distillation_policy == item.distillation_policy
            assert batch.lifecycle_policy == item.lifecycle_policy


def _direct(transition: Transition, *records: Any) -> Any:
    return Append.direct(transition, f"{transition}/{records[-1].id}", records)


def _capture(stack: Stack, member: SnapshotMember) -> EvidenceSnapshotId:
    """Append a snapshot whose member claims another bundle than there is."""
    head: dict[str, Any] = {"namespace": stack.namespace, "created_at": "2026-01-01T00:00:00.000000Z"}
    position = stack.stores.ledger.namespace_head(stack.namespace).evidence
    snapshot = EvidenceSnapshot(
        **head, evidence_position=position, eligibility_policy=POLICIES.distillation.identity,
        visibility=stack.namespace, arm=None, pair=None, members=(member,), excluded=(),
    )  # fmt: skip
    snapshot_id = EvidenceSnapshotId(snapshot.id)
    operation = CaptureOperation(
        **head, operation_key="forged", request_digest=digest("r"), snapshot_id=snapshot_id,
        evidence_position=position,
    )  # fmt: skip
    (answer,) = stack.coordinator.append_direct([_direct(Transition.CAPTURE_SNAPSHOT, snapshot, operation)])
    assert not isinstance(answer, VrmError), answer
    return snapshot_id
