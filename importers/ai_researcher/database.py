"""A ledger file of AI-Researcher, read whole.

Rules kept here:

- the file is not opened where it lies: SQLite would make files beside it, or finish an interrupted commit in it. It is
  copied with what a commit left beside it (`-wal`, `-journal`) into a private folder, and the copy is read. A ledger
  that somebody writes to meanwhile is refused;
- schema and `user_version` must be exactly those of revision 1 or 2: order, type, NOT NULL and primary key of every
  column, unique sets, foreign keys, indexes, and nothing else in the file;
- SQLite's own integrity and foreign key checks must find nothing;
- the join table must say what the payloads of the knowledge records say;
- all is read before anything is returned; a ledger is taken whole or not at all.
"""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from importers.ai_researcher.content import LegacyContent
from importers.ai_researcher.layout import PAYLOAD, USER_VERSIONS, Table, tables_of
from importers.ai_researcher.rows import LegacyRow, check_row, place_of
from importers.ai_researcher.shape import check_shape
from records.errors import InvalidSourceError, UnavailableError
from records.legacy import LegacyFormat, LegacyTable

Progress = Callable[[str, int, int], None]

MAX_BYTES: Final = 2**30
_BESIDE: Final = ("", "-wal", "-journal")
_MAGIC: Final = b"SQLite format 3\0"
_FOREIGN: Final = "Give the SQLite ledger of AI-Researcher, schema revision 1 or 2."
_DAMAGED: Final = "The file is damaged; import an intact copy of the ledger."


def read_ledger(path: Path, progress: Progress = lambda _what, _done, _total: None) -> LegacyContent:
    """Read and check a ledger file; the file is not changed, and nothing is left beside it.

    Raises:
        InvalidSourceError: it is no ledger of a known revision, or a row breaks a rule; nothing is to be imported.
        UnavailableError: it cannot be read, or somebody is writing to it.
    """
    with _copied(path) as copy, closing(_opened(copy)) as link:
        try:
            return _read(link, progress)
        except sqlite3.DatabaseError as error:
            raise InvalidSourceError(path.name, str(error), _DAMAGED) from error


def _read(link: sqlite3.Connection, progress: Progress) -> LegacyContent:
    version = link.execute("PRAGMA user_version").fetchone()[0]
    check_shape(link, version)
    revision = USER_VERSIONS[version]
    _check_integrity(link)
    tables = [table for table in tables_of(revision) if table.id_field is not None]
    total = sum(link.execute(f"SELECT count(*) FROM {table.name}").fetchone()[0] for table in tables)  # noqa: S608  # a constant
    rows: list[LegacyRow] = []
    for table in tables:
        for row in _rows(link, table):
            rows.append(row)
            progress("rows checked", len(rows), total)
    _check_foreign_keys(link)
    joined = _check_join(link, rows)
    return LegacyContent(LegacyFormat.SQLITE_LEDGER, revision, tuple(rows), join_rows=joined)


def _rows(link: sqlite3.Connection, table: Table) -> Iterator[LegacyRow]:
    names = [column.name for column in table.columns]
    statement = f"SELECT {', '.join(names)} FROM {table.name} ORDER BY record_id"  # noqa: S608  # constants
    for number, values in enumerate(link.execute(statement), start=1):
        given = dict(zip(names, values, strict=True))
        place = f"{table.name} row {number} by id"
        record_id = _text(f"{place}: record_id", given.pop("record_id"))
        payload = given.pop(PAYLOAD)
        if not isinstance(payload, bytes):
            raise InvalidSourceError(f"{place_of(table.name, record_id)}: {PAYLOAD}", payload, _DAMAGED)
        columns = {
            name: _text(f"{place_of(table.name, record_id)}: {name}", value) if isinstance(value, bytes) else value
            for name, value in given.items()
        }
        yield check_row(table, record_id, payload, columns)


def _check_join(link: sqlite3.Connection, rows: list[LegacyRow]) -> int:
    """Refuse a join table that is not the exact projection of the knowledge records; return how many rows it has."""
    expected = {
        (row.record_id, source)
        for row in rows
        if row.table is LegacyTable.KNOWLEDGE
        for source in row.payload["source_experience_ids"]
    }
    name = LegacyTable.KNOWLEDGE_SOURCES
    statement = f"SELECT knowledge_id, experience_id FROM {name} ORDER BY 1, 2"  # noqa: S608  # a constant
    held = {
        (_text(f"{name}: knowledge_id", one), _text(f"{name}: experience_id", two))
        for one, two in link.execute(statement)
    }
    for knowledge_id, experience_id in sorted(held ^ expected):
        met = "not in the payload" if (knowledge_id, experience_id) in held else "in the payload only"
        remedy = f"{place_of(LegacyTable.KNOWLEDGE, knowledge_id)} and this table disagree; import an untouched copy."
        place = f"{place_of(name, knowledge_id)}: experience_id"
        raise InvalidSourceError(place, f"{experience_id!a} is {met}", remedy)
    return len(held)


def _check_integrity(link: sqlite3.Connection) -> None:
    answers = [_text("integrity_check", row[0]) for row in link.execute("PRAGMA integrity_check")]
    if answers != ["ok"]:
        raise InvalidSourceError("integrity_check", answers[0], _DAMAGED)


def _check_foreign_keys(link: sqlite3.Connection) -> None:
    broken = link.execute("PRAGMA foreign_key_check").fetchone()
    if broken is not None:
        met = f"row {broken[1]} points at no row of {_text('table', broken[2])}"
        raise InvalidSourceError(f"{_text('table', broken[0])}: foreign key", met, _DAMAGED)


def _text(where: str, value: object) -> str:
    """Return text of the file, which comes as bytes so that nothing is decoded unseen."""
    if isinstance(value, str):  # PRAGMA answers and names
        return value
    if not isinstance(value, bytes):
        raise InvalidSourceError(where, value, _DAMAGED)
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidSourceError(where, str(error), _DAMAGED) from error


@contextmanager
def _copied(path: Path) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="vrm-legacy-") as folder:
        copy = Path(folder) / "ledger.sqlite"
        try:
            before = _state(path)
            if before[0] is None:
                raise InvalidSourceError("ledger", str(path), "There is no such file; give the path of the ledger.")
            if sum(size for size, _ in filter(None, before)) > MAX_BYTES:
                raise InvalidSourceError("ledger", f"more than {MAX_BYTES} bytes", "It is too large to be read whole.")
            for ending, state in zip(_BESIDE, before, strict=True):
                if state is not None:
                    shutil.copyfile(f"{path}{ending}", f"{copy}{ending}")
            after = _state(path)
        except OSError as error:
            raise UnavailableError("ledger", str(path), f"It cannot be read: {error.strerror}.") from error
        if before != after:
            raise UnavailableError(
                "ledger", str(path), "Somebody is writing to it; close the program and import again."
            )
        yield copy


def _state(path: Path) -> tuple[tuple[int, int] | None, ...]:
    found = []
    for ending in _BESIDE:
        part = Path(f"{path}{ending}")
        found.append((part.stat().st_size, part.stat().st_mtime_ns) if part.is_file() else None)
    return tuple(found)


def _opened(copy: Path) -> sqlite3.Connection:
    with copy.open("rb") as file:
        head = file.read(len(_MAGIC))
    if head != _MAGIC:
        raise InvalidSourceError("ledger", "not an SQLite database" if head else "an empty file", _FOREIGN)
    link = sqlite3.connect(copy, isolation_level=None)
    try:
        link.execute("PRAGMA trusted_schema = OFF")
        link.execute("SELECT count(*) FROM sqlite_master").fetchone()  # finishes an interrupted commit, in the copy
        link.execute("PRAGMA query_only = ON")
    except sqlite3.DatabaseError as error:
        link.close()
        raise InvalidSourceError("ledger", str(error), _DAMAGED) from error
    link.text_factory = bytes
    return link
