"""How the check reads: under the stored id and bytes, and in stretches that keep memory bounded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from memory.fsck import journal
from memory.fsck.case import Case
from memory.fsck.reading import is_illegal, read_stored
from memory.fsck.report import Findings
from records.appends import JournalRow, StoredRecord
from records.base import KINDS, load_record
from records.canonical import canonical_bytes, parse_canonical
from records.errors import VrmError
from store.ledger.audit import open_scan
from store.ledger.memory import MemoryLedger
from store.recent import Recent
from tests.support.decision_samples import sample_records
from tests.support.trials import make_evidence


@pytest.fixture(scope="module")
def samples() -> list[tuple[str, str]]:
    """Noun and payload of a record of every kind that there is a sample of."""
    return [(record.kind.noun, record.payload.decode()) for record in sample_records().values()]


def test_a_stored_record_keeps_the_id_that_it_is_stored_under(samples: list[tuple[str, str]]) -> None:
    noun, payload = next(sample for sample in samples if sample[0] == "hypothesis")
    other = f"hypothesis:{'0' * 64}"
    row = StoredRecord(noun=noun, id=other, namespace="test", position=1, payload=payload + " ")
    assert read_stored(row).id == other
    assert read_stored(row).payload == payload.encode() + b" "


@pytest.mark.parametrize(
    ("change", "illegal"),
    [
        ({"valid": False}, True),
        ({"valid": "no"}, False),
        ({"observation_id": "observation:7"}, False),
        ({"rumour": 1}, False),
    ],
)
def test_a_rule_that_is_broken_is_told_from_a_form_that_is(
    samples: list[tuple[str, str]], change: dict[str, Any], *, illegal: bool
) -> None:
    payload = next(text for noun, text in samples if noun == "verification")
    broken = canonical_bytes(parse_canonical(payload) | change).decode()
    with pytest.raises(VrmError) as refused:
        load_record("verification", broken)
    assert is_illegal(refused.value) is illegal


def test_what_is_remembered_is_bounded() -> None:
    recent: Recent[int, int] = Recent(3)
    for number in (1, 2, 3, 1, 4):
        recent.put(number, number)
    assert list(recent) == [3, 1, 4]


def _rows(permits: str) -> Iterator[JournalRow]:
    for position, permit in enumerate(permits, start=1):
        yield JournalRow(namespace="test", position=position, noun="hypothesis", id=f"hypothesis:{position}",
                         payload_digest="", chain_digest="", permit_key=permit)  # fmt: skip


class _Sizes:
    """A scan that knows only how large records are."""

    def __init__(self, size: int) -> None:
        self._size = size

    def sizes(self, record_ids: Mapping[str, Sequence[str]]) -> dict[str, int]:
        return {key: self._size for ids in record_ids.values() for key in ids}


def _cut(monkeypatch: pytest.MonkeyPatch, permits: str, size: int = 1) -> list[str]:
    monkeypatch.setattr(journal, "CHUNK", 4)
    monkeypatch.setattr(journal, "LIMIT", 8)
    monkeypatch.setattr(journal, "BYTES", 100)
    ledger = MemoryLedger()
    case = Case(reader=ledger, scan=open_scan(ledger), runtime=None, artifacts=None, findings=Findings(),
                progress=lambda *_: None)  # fmt: skip
    object.__setattr__(case, "scan", _Sizes(size))
    return ["".join(row.permit_key for row in rows) for rows in journal._stretches(case, _rows(permits))]


def test_a_stretch_ends_where_an_append_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _cut(monkeypatch, "aabbbbccd") == ["aabbbb", "ccd"]
    assert _cut(monkeypatch, "abcdefgh") == ["abcd", "efgh"]


def test_a_stretch_is_cut_in_any_case(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _cut(monkeypatch, "a" * 20) == ["a" * 8, "a" * 8, "a" * 4]


def test_large_payloads_make_short_stretches(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _cut(monkeypatch, "aabb", size=30) == ["aa", "bb"]
    assert _cut(monkeypatch, "abcd", size=40) == ["ab", "cd"]
    assert _cut(monkeypatch, "aaaab", size=400) == ["aaaa", "b"]


def test_no_kind_holds_floats() -> None:
    """No kind of today holds one, which the short way rests on for its speed and not for being right."""
    assert not [noun for noun, kind in KINDS.items() if "'type': 'number'" in str(kind.model.model_json_schema())]


def test_a_row_under_another_id_does_not_change_what_its_bytes_are_elsewhere() -> None:
    """Equal bytes are parsed once a process; what the check notes of one row stays with that row."""
    record = make_evidence("demo")[-1]
    other = str(record.kind.id_class.derive({"some": "other"}))
    row = StoredRecord(noun=record.kind.noun, id=other, namespace="demo", position=1, payload=record.payload.decode())
    assert str(read_stored(row).id) == other
    assert str(load_record(record.kind.noun, record.payload).id) == str(record.id)
    assert str(read_stored(replace(row, id=str(record.id))).id) == str(record.id)
