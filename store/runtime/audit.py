"""What only the integrity check reads of the Runtime: subjects page by page, so that their number bounds no memory.

Rule kept here: each page is a statement of its own and no transaction stays open, for the Ledger is read meanwhile. A
subject that moves while the pages are read is met before or after, never twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, cast

from records.runtime import Subject
from records.states import Machine, Phase
from store.runtime.port import RuntimeReader
from store.runtime.postgres import PostgresRuntimeReader, subject_of
from store.runtime.schema import COLUMNS, SCHEMA, table_name

_PAGE: Final = 500


def scan_subjects(reader: RuntimeReader, machine: Machine, phases: Iterable[Phase]) -> Iterator[Subject]:
    """Stream the subjects that are in one of the phases, sorted by id."""
    if not isinstance(reader, PostgresRuntimeReader):
        yield from reader.find(machine, phases)
        return
    statement = (
        f"SELECT {', '.join(COLUMNS)} FROM {SCHEMA}.{table_name(machine)} "
        f"WHERE phase = ANY($1) AND id > $2 ORDER BY id LIMIT {_PAGE}"
    )
    wanted, after = [phase.value for phase in phases], ""
    while rows := reader._rows(statement, [wanted, after]):  # noqa: SLF001  # one adapter in two modules
        yield from (subject_of(machine, row) for row in rows)
        after = cast("str", rows[-1][0])
