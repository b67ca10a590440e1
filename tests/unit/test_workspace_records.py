"""Claims as records: what is refused, and that the plane is apart from evidence by type and by frontier."""

from __future__ import annotations

from typing import Any

import pytest

from records.base import KINDS
from records.claim_traces import TraceEnding
from records.errors import InvalidRecordError
from records.workspace import (
    ClaimEvent,
    ClaimReason,
    ConfigValue,
    EvidenceCertificate,
    FileHash,
    GitRevision,
    PredicateFinding,
    PredicateOutcome,
    WorkspaceClaim,
)
from tests.support.trials import digest
from tests.support.workspace_samples import (
    evidence,
    make_claim,
    make_claim_event,
    make_item,
    make_receipt,
    make_trace,
    workspace_samples,
)
from tests.unit.test_references_apart import ids_in

OURS = {"workspace-claim", "claim-event", "claim-trace", "claim-receipt"}


def test_no_kind_of_this_plane_moves_a_frontier() -> None:
    assert set(workspace_samples()) == OURS
    assert {KINDS[noun].frontier for noun in OURS} == {None}


def test_vrm_w03_no_record_of_another_plane_can_name_a_claim() -> None:
    for noun, kind in KINDS.items():
        for model in {kind.model, *kind.variants.values()}:
            found = set(ids_in(model, frozenset()))
            assert noun in OURS or not found & OURS, (noun, found & OURS)
            assert noun not in OURS or found <= OURS, (noun, found - OURS)


@pytest.mark.parametrize(
    "path", ["", "/etc/passwd", "../secret", "a/../../secret", "a/./b", "a//b", "a/", "a\0b", "..", "."]
)
def test_a_path_stays_in_its_workspace(path: str) -> None:
    with pytest.raises(InvalidRecordError, match="path"):
        FileHash.build(path=path, sha256=digest("x"))
    with pytest.raises(InvalidRecordError, match="path"):
        ConfigValue.build(path=path, key=("a",), sha256=digest("x"))


@pytest.mark.parametrize("revision", ["HEAD", "main", "0" * 39, "0" * 41, "G" * 40, "A" * 40, "-" + "0" * 39])
def test_a_revision_is_a_whole_commit_id(revision: str) -> None:
    with pytest.raises(InvalidRecordError, match="revision"):
        GitRevision.build(revision=revision)


@pytest.mark.parametrize("confidence", ["-0.1", "1.1", "nan", "0.50"])
def test_confidence_is_a_share(confidence: str) -> None:
    claim = make_claim()
    fields = {name: getattr(claim, name) for name in WorkspaceClaim.model_fields}
    with pytest.raises(InvalidRecordError, match="confidence"):
        WorkspaceClaim.build(**(fields | {"confidence": confidence}))


def test_an_event_of_evidence_has_one_content() -> None:
    twice = (*evidence("run-1"), *evidence("run-1=other"))
    with pytest.raises(InvalidRecordError, match="one content"):
        EvidenceCertificate.build(extractor_version="r/1", claim_schema_version="1", evidence=twice)


def test_the_time_of_a_claim_is_no_part_of_its_id() -> None:
    later = make_claim(created_at="2026-05-01T00:00:00.000000Z")
    assert (later.id, later.payload) == (make_claim().id, later.payload)
    assert later.payload != make_claim().payload
    assert make_claim(predicates=(GitRevision(revision="0" * 40),)).id != make_claim().id
    assert make_claim(events=evidence("config-read-1=other")).id != make_claim().id


FINDING = PredicateFinding(ordinal=1, outcome=PredicateOutcome.DIFFERS)


@pytest.mark.parametrize(
    ("reason", "changes", "words"),
    [
        (ClaimReason.CONTRADICTED, {}, "names another claim"),
        (ClaimReason.ADDED, {"counterpart": "other"}, "names another claim"),
        (ClaimReason.CONTRADICTED, {"counterpart": "self"}, "no counterpart of itself"),
        (ClaimReason.NEW_EVIDENCE, {}, "needs new evidence"),
        (ClaimReason.RELEASED, {}, "needs new evidence"),
        (ClaimReason.PREDICATE_FAILED, {}, "findings"),
        (ClaimReason.ADDED, {"findings": (FINDING,)}, "findings"),
        (
            ClaimReason.PREDICATE_FAILED,
            {"findings": (PredicateFinding(ordinal=1, outcome=PredicateOutcome.HOLDS),)},
            "holds",
        ),
    ],
)
def test_an_event_says_what_its_reason_needs(reason: ClaimReason, changes: dict[str, Any], words: str) -> None:
    claim, names = make_claim(), {"other": make_claim("Requests are never tried again"), "self": make_claim()}
    if "counterpart" in changes:
        changes = changes | {"counterpart": names[changes["counterpart"]].id}
    fields = {name: getattr(make_claim_event(claim), name) for name in ClaimEvent.model_fields}
    with pytest.raises(InvalidRecordError, match=words):
        ClaimEvent.build(**(fields | {"reason": reason} | changes))


def test_a_trace_ends_as_it_says() -> None:
    item = make_item(make_claim_event(make_claim()))
    with pytest.raises(ValueError, match="abstains exactly"):
        make_trace("test", item, ending=TraceEnding.NOTHING_RELEVANT)
    with pytest.raises(ValueError, match="within its budget"):
        make_trace("test", item, token_count=601)
    with pytest.raises(ValueError, match="among"):
        make_trace("test", item, considered=0)


def test_a_receipt_is_the_same_whenever_it_is_written() -> None:
    trace = make_trace("test", make_item(make_claim_event(make_claim())))
    assert make_receipt(trace).id == make_receipt(trace).id
    assert make_receipt(trace, passed=False).id != make_receipt(trace).id
    assert make_receipt(trace, "trial-2").id != make_receipt(trace).id
