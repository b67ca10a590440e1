"""Legacy records: they keep any bytes exactly, stand in their own namespace, and can be a member of nothing."""

from __future__ import annotations

import base64
import hashlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.snapshots import EvidenceSnapshotBuilder, FreezeEvidence, KnowledgeSnapshotBuilder
from policies.distillation_policy import distillation_policy
from policies.selection_policy import selection_policy
from records.appends import Append
from records.base import KINDS, load_record
from records.errors import InvalidInputError, InvalidRecordError
from records.fields import UNSCOPED
from records.flows import FLOWS, Transition
from records.legacy import LegacyRecord, LegacySystem, LegacyTable, legacy_key
from store.ledger.memory import MemoryLedger
from tests.support.decision_samples import sample_records
from tests.support.legacy_samples import CONTENT, every_sample, legacy_record, legacy_samples
from tests.support.stores import Writer

LEGACY = {"legacy-record", "legacy-import"}


def _keep(data: bytes, legacy_id: str = "r") -> LegacyRecord:
    return LegacyRecord(
        created_at="2026-07-25T17:00:00.000000Z",
        source_system=LegacySystem.AI_RESEARCHER,
        source_table=LegacyTable.OBSERVATIONS,
        legacy_id=legacy_key(legacy_id),
        content=base64.b64encode(data).decode(),
        sha256=hashlib.sha256(data).hexdigest(),
        sources=(),
    )


@given(st.binary(max_size=200), st.text(min_size=1, max_size=50))
def test_any_bytes_and_any_id_are_kept(data: bytes, legacy_id: str) -> None:
    record = _keep(data, legacy_id)
    read = load_record("legacy-record", record.payload)
    assert isinstance(read, LegacyRecord)
    assert (read.data, read.id, read.sha256) == (data, record.id, hashlib.sha256(data).hexdigest())


def test_the_same_row_found_again_is_the_same_record() -> None:
    assert _keep(b"{}").id == _keep(b"{}").id
    assert len({_keep(b"{}").id, _keep(b"{ }").id, _keep(b"{}", "other").id}) == 3


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("content", "e30"),
        ("content", "e30=\n"),
        ("content", "not base64!"),
        ("sha256", "0" * 64),
        ("source_table", "knowledge_sources"),
        ("source_table", "somebody_elses"),
        ("legacy_id", ""),
        ("legacy_id", "é"),
        ("namespace", "demo"),
    ],
)
def test_what_does_not_fit_is_refused(field: str, value: str) -> None:
    good = _keep(b"{}").as_json()
    load_record("legacy-record", _keep(b"{}").payload)
    with pytest.raises(InvalidRecordError):
        LegacyRecord.load(json.dumps(good | {field: value}))


def test_base64_with_stray_bits_is_refused() -> None:
    """`e31=` decodes to the same bytes as `e30=` does: two texts for one content would be two records."""
    assert base64.b64decode("e31=") == base64.b64decode("e30=") == b"{}"
    with pytest.raises(InvalidRecordError):
        LegacyRecord.load(_keep(b"{}").payload.replace(b"e30=", b"e31="))


def test_no_other_kind_stands_in_the_namespace_of_legacy_records() -> None:
    for noun, record in every_sample().items():
        elsewhere = record.as_json() | {"namespace": "demo" if noun in LEGACY else UNSCOPED}
        with pytest.raises(InvalidRecordError, match=r"legacy|literal") as caught:
            load_record(noun, json.dumps(elsewhere))
        assert UNSCOPED in str(caught.value) or noun in LEGACY
    assert {noun for noun, kind in KINDS.items() if kind.unscoped} == LEGACY


def test_legacy_kinds_advance_no_frontier_and_are_written_by_their_flow_alone() -> None:
    assert all(KINDS[noun].frontier is None for noun in LEGACY)
    flows = [flow for flow in FLOWS.values() if flow.writes & LEGACY]
    assert [flow.transition for flow in flows] == [Transition.IMPORT_LEGACY]
    assert flows[0].writes == LEGACY
    ledger = MemoryLedger()
    writer = Writer.claim(ledger)
    writer.good(Append.direct(Transition.IMPORT_LEGACY, "one", tuple(legacy_samples().values())))
    head = ledger.namespace_head(UNSCOPED)
    assert (head.position, head.evidence, head.lifecycle, head.retention) == (2, 0, 0, 0)
    stored = ledger.get(str(legacy_record().id))
    assert stored is not None
    assert base64.b64decode(json.loads(stored.payload)["content"]) == CONTENT.encode()


def test_snapshots_of_the_namespace_are_refused() -> None:
    ledger = MemoryLedger()
    writer = Writer.claim(ledger)
    writer.good(Append.direct(Transition.IMPORT_LEGACY, "one", tuple(legacy_samples().values())))
    request = FreezeEvidence(namespace=UNSCOPED, operation_key="k")
    with ledger.reading() as reader:
        with pytest.raises(InvalidInputError, match=UNSCOPED):
            EvidenceSnapshotBuilder(distillation_policy()).freeze(reader, request)
        with pytest.raises(InvalidInputError, match=UNSCOPED):
            KnowledgeSnapshotBuilder(selection_policy()).freeze(reader, UNSCOPED)


def test_a_legacy_id_is_no_member_of_any_snapshot() -> None:
    for noun, path, name in (
        ("evidence-snapshot", "members", "experience_id"),
        ("knowledge-snapshot", "members", "memory_id"),
    ):
        payload = sample_records()[noun].as_json()
        payload[path][0][name] = str(legacy_record().id)
        with pytest.raises(InvalidRecordError, match="expected an id of the form"):
            load_record(noun, json.dumps(payload))
