"""A legacy ledger file: what is whole is read byte by byte, anything else is refused with table, row and field."""

from __future__ import annotations

import shutil
import sqlite3
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from importers.ai_researcher import LegacyContent, read_ledger
from importers.ai_researcher.report import report
from records.errors import InvalidSourceError, UnavailableError
from records.legacy import LegacyReason, LegacyTable
from tests.data.legacy import (
    Row,
    experience,
    full_rows,
    hypothesis,
    intervention,
    intervention_row,
    observation,
    provenance,
    published,
    real_rows,
    schema_of,
    text_of,
    write_ledger,
)

Edit = Callable[[list[Row]], object]


def _payloads(path: Path) -> dict[tuple[str, str], bytes]:
    """Read every payload with the standard library alone."""
    with closing(sqlite3.connect(path)) as link:
        link.text_factory = bytes
        names = [row[0].decode() for row in link.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {
            (name, row[0].decode()): row[1]
            for name in names
            if name != "knowledge_sources"
            for row in link.execute(f"SELECT record_id, payload_json FROM {name}")
        }


def _kept(content: LegacyContent) -> dict[tuple[str, str], bytes]:
    return {(record.source_table.value, record.legacy_id): record.data for record in content.records.values()}


@pytest.mark.parametrize("wal", [False, True])
def test_every_published_payload_is_kept_byte_by_byte(tmp_path: Path, *, wal: bool) -> None:
    path = write_ledger(tmp_path / "ledger.sqlite", real_rows(), revision=1, wal=wal)
    content = read_ledger(path)
    assert _kept(content) == _payloads(path)
    lists = published()
    rows = {count.table.value: count.rows for count in content.tables}
    assert rows["knowledge_records"] == len(lists["knowledge_records"]) == 32
    assert rows["verification_records"] == len(lists["verification_records"]) == 34
    assert rows["recall_contexts"] == len({each["snapshot_id"] for each in lists["recall_contexts"]})
    assert rows["knowledge_sources"] == sum(len(each["source_experience_ids"]) for each in lists["knowledge_records"])
    ids = report(content, None)["ids"]
    assert ids["knowledge_records"] == {"recomputed": 32, "rules": {"knowledge": 32}, "not_recomputed": 0}
    assert ids["verification_records"]["recomputed"] == 34
    assert {reason.value: count for reason, count in content.reasons.items()} == dict.fromkeys(
        ("missing_trial_provenance", "missing_typed_action"), len(content.records)
    )


def test_the_time_of_a_record_is_its_own(tmp_path: Path) -> None:
    content = read_ledger(write_ledger(tmp_path / "l", full_rows()))
    times = {record.source_table: record.created_at for record in content.records.values()}
    assert times.pop(LegacyTable.OBSERVATIONS) == "2026-07-25T17:00:01.500000Z"  # it has no created_at
    assert set(times.values()) == {"2026-07-25T17:00:00.000000Z"}
    assert content.receipt.created_at == "2026-07-25T17:00:01.500000Z"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-07-25T19:00:00+02:00", "2026-07-25T17:00:00.000000Z"),
        ("2026-07-25T17:00:00", "2026-07-25T17:00:00.000000Z"),
        ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00.000000Z"),
    ],
)
def test_times_are_brought_to_utc(tmp_path: Path, text: str, expected: str) -> None:
    content = read_ledger(write_ledger(tmp_path / "l", [hypothesis("h", created_at=text)]))
    assert [record.created_at for record in content.records.values()] == [expected]


def test_a_complete_trial_is_held_back_by_its_namespace_alone(tmp_path: Path) -> None:
    content = read_ledger(write_ledger(tmp_path / "l", full_rows()))
    assert content.revision == 2
    assert content.reasons == {LegacyReason.UNSCOPED: len(content.records)}
    found = report(content, None)["ids"]
    for table in ("knowledge_records", "promotion_decisions", "intervention_records", "trial_provenance_records"):
        assert found[table]["recomputed"] == 1


def test_what_a_trial_lacks_is_said(tmp_path: Path) -> None:
    rows = [row for row in full_rows() if row[0] != "trial_provenance_records"]
    content = read_ledger(write_ledger(tmp_path / "l", rows))
    said = {content.records[each.record_id].source_table: each.reasons for each in content.members}
    assert said.pop(LegacyTable.INTERVENTIONS) == (LegacyReason.MISSING_PROVENANCE,)
    assert set(said.values()) == {(LegacyReason.MISSING_PROVENANCE, LegacyReason.MISSING_ACTION)}


def test_the_file_is_not_changed_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    path = write_ledger(tmp_path / "ledger.sqlite", full_rows(), wal=True)
    link = sqlite3.connect(path)  # keeps the write-ahead log from being folded in
    try:
        link.execute("PRAGMA wal_autocheckpoint = 0")
        late = hypothesis("late")[1]
        link.execute("INSERT INTO hypotheses VALUES (?, ?)", list(late.values()))
        link.commit()
        before = {each.name: each.read_bytes() for each in tmp_path.iterdir()}
        assert before["ledger.sqlite-wal"]
        content = read_ledger(path)
        assert {each.name: each.read_bytes() for each in tmp_path.iterdir()} == before
    finally:
        link.close()
    assert ("hypotheses", "late") in _kept(content)


def test_a_folder_that_nothing_can_be_written_to_is_enough(tmp_path: Path) -> None:
    folder = tmp_path / "closed"
    folder.mkdir()
    path = write_ledger(folder / "ledger.sqlite", full_rows(), wal=True)
    folder.chmod(0o500)
    try:
        assert read_ledger(path).records
    finally:
        folder.chmod(0o700)


def test_a_ledger_that_somebody_writes_to_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_ledger(tmp_path / "ledger.sqlite", full_rows())
    real = shutil.copyfile

    def copy(source: str, target: str) -> None:
        real(source, target)
        write_ledger(path, [hypothesis("late")], statements=[])

    monkeypatch.setattr("importers.ai_researcher.database.shutil.copyfile", copy)
    with pytest.raises(UnavailableError, match="writing to it"):
        read_ledger(path)


def test_moving_compacting_and_migrating_a_ledger_changes_no_record(tmp_path: Path) -> None:
    path = write_ledger(tmp_path / "one", real_rows(), revision=1)
    first = read_ledger(path)
    with closing(sqlite3.connect(path)) as link:
        link.execute("VACUUM")
    assert read_ledger(path.rename(tmp_path / "two")).receipt == first.receipt
    with closing(sqlite3.connect(tmp_path / "two")) as link:
        for statement in schema_of(2)[9:]:
            link.execute(statement)
        link.commit()
    migrated = read_ledger(tmp_path / "two")
    assert (migrated.revision, migrated.records) == (2, first.records)


@pytest.mark.parametrize(
    "statement", ['{"metrics":NaN}', "e\u0301", "\u2028", "\\u0000 kept as an escape", "\U0001d518"]
)
def test_any_text_the_program_could_write_is_kept(tmp_path: Path, statement: str) -> None:
    row = hypothesis("h" + statement, statement=statement)
    (record,) = read_ledger(write_ledger(tmp_path / "l", [row])).records.values()
    assert record.data == row[1]["payload_json"].encode()


def test_a_metric_that_is_no_number_is_kept(tmp_path: Path) -> None:
    name, columns = observation("o", "a")
    columns["payload_json"] = columns["payload_json"].replace("0.5", "NaN")
    rows = [row if row[0] != name else (name, columns) for row in full_rows()]
    kept = _kept(read_ledger(write_ledger(tmp_path / "l", rows)))
    assert b'"metrics":{"score":NaN}' in kept["observations", "o"]


# -- refused: the schema

_TABLE = "CREATE TABLE hypotheses ("
_SCHEMAS: tuple[tuple[str, Callable[[list[str]], object], str, str], ...] = (
    ("no table", lambda made: made.__setitem__(slice(None), ["PRAGMA user_version = 2"]), "ledger", "no table"),
    ("foreign", lambda made: made.__setitem__(slice(None), ["CREATE TABLE notes (id)"]), "ledger", "notes"),
    ("a table missing", lambda made: made.pop(3), "verification_records", "missing"),
    ("half of revision 2", lambda made: (made.pop(12), made.pop(10)), "trial_provenance_records", "missing"),
    ("a further table", lambda made: made.append("CREATE TABLE extra (id)"), "extra", "does not have"),
    ("a view", lambda made: made.append("CREATE VIEW v AS SELECT 1"), "v", "view"),
    (
        "a trigger",
        lambda made: made.append("CREATE TRIGGER t AFTER INSERT ON hypotheses BEGIN SELECT 1; END"),
        "t",
        "trigger",
    ),
    ("version 1", lambda made: made.append("PRAGMA user_version = 1"), "user_version", "1"),
    ("version 3", lambda made: made.append("PRAGMA user_version = 3"), "user_version", "3"),
    ("revision 2 called 1", lambda made: made.append("PRAGMA user_version = 0"), "intervention_records", "not have"),
    ("an index missing", lambda made: made.pop(12), "trial_provenance_records: indexes", "none"),
)  # fmt: skip


def _swapped(old: str, new: str) -> Callable[[list[str]], object]:
    def edit(made: list[str]) -> None:
        (place,) = [number for number, text in enumerate(made) if old in text]
        made[place] = made[place].replace(old, new, 1)

    return edit


_COLUMNS: tuple[tuple[str, Callable[[list[str]], object], str, str], ...] = (
    ("a column missing", _swapped(f"{_TABLE}record_id TEXT PRIMARY KEY, payload_json TEXT NOT NULL",
                                  f"{_TABLE}record_id TEXT PRIMARY KEY"), "hypotheses: payload_json", "missing"),
    ("a further column", _swapped(_TABLE, f"{_TABLE}mood TEXT, "), "hypotheses: record_id", "mood"),
    ("another order", _swapped("outcome TEXT, valid INTEGER NOT NULL", "valid INTEGER NOT NULL, outcome TEXT"),
     "experience_records: outcome", "valid"),
    ("another type", _swapped("valid INTEGER", "valid TEXT"), "experience_records: valid", "TEXT"),
    ("nullable", _swapped(f"{_TABLE}record_id TEXT PRIMARY KEY, payload_json TEXT NOT NULL",
                          f"{_TABLE}record_id TEXT PRIMARY KEY, payload_json TEXT"),
     "hypotheses: payload_json", "TEXT"),
    ("no primary key", _swapped(f"{_TABLE}record_id TEXT PRIMARY KEY", f"{_TABLE}record_id TEXT UNIQUE"),
     "hypotheses: record_id", "record_id TEXT"),
    ("generated", _swapped(f"{_TABLE}record_id TEXT PRIMARY KEY, payload_json TEXT NOT NULL",
                           f"{_TABLE}record_id TEXT PRIMARY KEY, payload_json TEXT NOT NULL AS ('{{}}')"),
     "hypotheses: payload_json", "hidden or generated"),
    ("not unique", _swapped("UNIQUE (run_id, iteration_id), ", ""), "intervention_records: unique", "record_id"),
    ("no foreign key", _swapped(", FOREIGN KEY (observation_id) REFERENCES observations(record_id), "
                                "FOREIGN KEY (intervention_id)", ", FOREIGN KEY (intervention_id)"),
     "trial_provenance_records: foreign keys", "attempt_id"),
    ("another index", _swapped("trial_provenance_records(attempt_id)", "trial_provenance_records(observation_id)"),
     "trial_provenance_records: indexes", "observation_id"),
)  # fmt: skip


@pytest.mark.parametrize(
    ("edit", "field", "met"), [case[1:] for case in _SCHEMAS + _COLUMNS], ids=[case[0] for case in _SCHEMAS + _COLUMNS]
)
def test_another_schema_is_refused(tmp_path: Path, edit: Callable[[list[str]], object], field: str, met: str) -> None:
    statements = schema_of(2)
    edit(statements)
    with pytest.raises(InvalidSourceError) as caught:
        read_ledger(write_ledger(tmp_path / "l", [], statements=statements))
    assert caught.value.field.startswith(field)
    assert met in caught.value.value
    assert caught.value.remedy.endswith(".")


def test_an_empty_ledger_of_either_revision_is_read(tmp_path: Path) -> None:
    for revision in (1, 2):
        content = read_ledger(write_ledger(tmp_path / str(revision), [], revision))
        assert (content.revision, content.records) == (revision, {})
        assert content.receipt.created_at == "1970-01-01T00:00:00.000000Z"


@pytest.mark.parametrize("data", [b"", b"SQLite format 3\0" + b"x" * 200, b'{"json": 1}'])
def test_what_is_no_database_is_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "l").write_bytes(data)
    with pytest.raises(InvalidSourceError):
        read_ledger(tmp_path / "l")


def test_no_file_and_a_cut_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidSourceError, match="no such file"):
        read_ledger(tmp_path / "nothing")
    path = write_ledger(tmp_path / "l", real_rows(), revision=1)
    path.write_bytes(path.read_bytes()[:-20_000])
    with pytest.raises(InvalidSourceError):
        read_ledger(path)


# -- refused: a row


def _column(table: str, name: str, value: Any) -> Edit:
    def edit(rows: list[Row]) -> None:
        next(columns for each, columns in rows if each == table)[name] = value

    return edit


def _payload(table: str, old: str, new: str) -> Edit:
    def edit(rows: list[Row]) -> None:
        columns = next(columns for each, columns in rows if each == table)
        assert old in columns["payload_json"]
        columns["payload_json"] = columns["payload_json"].replace(old, new)

    return edit


def _forged(rows: list[Row], table: str, row: Row) -> None:
    rows[:] = [row if each[0] == table else each for each in rows]


_ROWS: tuple[tuple[str, Edit, str, str], ...] = (
    ("no id", _column("hypotheses", "record_id", None), "hypotheses row 1 by id: record_id", "None"),
    ("empty id", _column("hypotheses", "record_id", ""), "hypotheses row : record_id", ""),
    ("another id", _column("hypotheses", "record_id", "h2"), "hypotheses row h2: hypothesis_id", "h"),
    ("payload as bytes", _column("hypotheses", "payload_json", b"\xff\xfe"), "hypotheses row h: payload_json", "utf-8"),
    ("payload a number", _column("hypotheses", "payload_json", "7"), "hypotheses row h: payload_json", "int"),
    ("no JSON", _column("hypotheses", "payload_json", "{"), "hypotheses row h: payload_json", "Expecting"),
    ("deep JSON", _column("hypotheses", "payload_json", "[" * 100_000), "hypotheses row h: payload_json", "recursion"),
    ("spaces", _payload("hypotheses", '","', '", "'), "hypotheses row h: payload_json", "canonical"),
    ("doubled key", _payload("hypotheses", '{"citations":[]', '{"citations":[],"citations":[]'),
     "hypotheses row h: payload_json", "canonical"),
    ("unsorted", _payload("hypotheses", '"citations":[],"conditions":["fixed seed"]',
                          '"conditions":["fixed seed"],"citations":[]'), "hypotheses row h: payload_json", "canonical"),
    ("escaped", _payload("hypotheses", "It helps.", "\\u00e9"), "hypotheses row h: payload_json", "canonical"),
    ("half a character", _payload("hypotheses", "It helps.", "\\ud800"), "hypotheses row h: payload_json", "canon"),
    ("a field missing", _payload("hypotheses", '"citations":[],', ""), "hypotheses row h: citations", "missing"),
    ("a further field", _payload("hypotheses", '{"citations":[]', '{"a":1,"citations":[]'),
     "hypotheses row h: a", "unknown"),
    ("another version", _payload("hypotheses", '"schema_version":"1"', '"schema_version":"2"'),
     "hypotheses row h: schema_version", "2"),
    ("no time", _payload("hypotheses", '"2026-07-25T17:00:00Z"', '"yesterday"'),
     "hypotheses row h: created_at", "yesterday"),
    ("time a number", _payload("hypotheses", '"2026-07-25T17:00:00Z"', "1"), "hypotheses row h: created_at", "1"),
    ("time before all", _payload("hypotheses", '"2026-07-25T17:00:00Z"', '"0001-01-01T00:00:00+02:00"'),
     "hypotheses row h: created_at", "0001"),
    ("column of another parent", _payload("experiment_attempts", '"hypothesis_id":"h"', '"hypothesis_id":"x"'),
     "experiment_attempts row a: hypothesis_id", "column h, payload x"),
    ("outcome column", _column("experience_records", "outcome", "positive"),
     "experience_records row x: outcome", "None"),
    ("valid column", _column("experience_records", "valid", 1),
     "experience_records row x: valid", "column 1, payload 0"),
    ("time column", _column("experience_records", "created_at", "2026-07-25T17:00:01+00:00"),
     "experience_records row x: created_at", "17:00:01"),
    ("a lesson edited", _payload("knowledge_records", "Keep it.", "Drop it."), "knowledge_records row", "not computed"),
    ("confidence edited", _payload("knowledge_records", "0.7", "0.9"), "knowledge_records row", "not computed"),
    ("a source doubled", _payload("knowledge_records", '["x"]', '["x","x"]'), "knowledge_records row", "x"),
    ("no source", _payload("knowledge_records", '["x"]', "[]"), "knowledge_records row", "[]"),
    ("dangling", _column("knowledge_sources", "experience_id", "gone"),
     "knowledge_sources: foreign key", "experience_records"),
    ("nested shape", _payload("experience_records", '"verification":null', '"verification":7'),
     "experience_records row x: payload_json", "TypeError"),
    ("rationale edited", _payload("intervention_records", "Where we start.", "Elsewhere."),
     "intervention_records row", "8"),
    ("config edited", _payload("intervention_records", "0.25", "0.5"), "intervention_records row", ""),
    ("digest column", _column("trial_provenance_records", "source_digest", "0" * 64),
     "trial_provenance_records row", "column 0000"),
)  # fmt: skip


@pytest.mark.parametrize(("edit", "field", "met"), [case[1:] for case in _ROWS], ids=[case[0] for case in _ROWS])
def test_a_row_that_does_not_fit_is_refused(tmp_path: Path, edit: Edit, field: str, met: str) -> None:
    rows = full_rows()
    edit(rows)
    with pytest.raises(InvalidSourceError) as caught:
        read_ledger(write_ledger(tmp_path / "l", rows))
    assert caught.value.field.startswith(field), caught.value
    assert met in caught.value.value
    assert caught.value.remedy.endswith(".")


def test_a_forged_intervention_and_a_forged_provenance_are_refused(tmp_path: Path) -> None:
    """The digests inside fit, the id does not."""
    for number, (table, row) in enumerate(
        (
            ("intervention_records", intervention_row(intervention(intervention_id="1" * 64))),
            ("trial_provenance_records", ("", {})),
        )
    ):
        rows = full_rows()
        if not row[1]:
            payload = provenance(intervention(), provenance_id="2" * 64)
            columns = next(columns for each, columns in rows if each == table)
            row = (table, {**columns, "record_id": "2" * 64, "payload_json": text_of(payload)})  # noqa: PLW2901
        rows = [each for each in rows if each[0] not in {table, "trial_provenance_records"}] + [row]
        if table == "trial_provenance_records":
            rows = [each for each in full_rows() if each[0] != table] + [row]
        with pytest.raises(InvalidSourceError, match="not computed from this payload"):
            read_ledger(write_ledger(tmp_path / str(number), rows))


def test_a_named_id_is_taken_as_it_is(tmp_path: Path) -> None:
    rows = [*full_rows(), intervention_row(intervention(2, intervention_id="by hand"))]
    content = read_ledger(write_ledger(tmp_path / "l", rows))
    assert Counter(row.id_rule for row in content.rows if row.table is LegacyTable.INTERVENTIONS) == {
        "intervention": 1, None: 1,
    }  # fmt: skip


@pytest.mark.parametrize("keep", ["join", "payload"])
def test_a_join_table_that_contradicts_the_payloads_is_refused(tmp_path: Path, keep: str) -> None:
    rows = [*full_rows(), experience("y", None)]
    if keep == "join":
        key = next(columns["record_id"] for table, columns in rows if table == "knowledge_records")
        rows.append(("knowledge_sources", {"knowledge_id": key, "experience_id": "y"}))
    else:
        rows = [row for row in rows if row[0] != "knowledge_sources"]
    with pytest.raises(InvalidSourceError, match="this table disagree") as caught:
        read_ledger(write_ledger(tmp_path / "l", rows))
    assert caught.value.field.startswith("knowledge_sources row")
