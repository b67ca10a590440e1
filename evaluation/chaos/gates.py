"""Gates: a transaction is held at a point by locks of its database, so that the product needs no hooks.

Two triggers on every table that owners write take a shared advisory lock, one as a row is written, one as the
transaction commits; whoever holds that lock for itself alone holds the transaction there. The beginning of a
transaction is held by the row of its owner's epoch, a reader by the lock of a table.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from evaluation.chaos.faults import Moment
from records.errors import VrmError
from records.states import Machine
from store.database import Connection, connect, on_table, own_sql, translated
from store.ledger.schema import SCHEMA as LEDGER
from store.runtime.schema import SCHEMA as RUNTIME
from store.runtime.schema import table_name

_KEYS: Final = {Moment.WRITING: 1, Moment.COMMITTING: 2, Moment.COMMITTED: 2}
_TABLES: Final = {LEDGER: ("append_receipts",), RUNTIME: tuple(table_name(machine) for machine in Machine)}
_FUNCTION: Final = (
    "CREATE FUNCTION {schema}.gate_{key}() RETURNS trigger LANGUAGE plpgsql AS "
    "$$ BEGIN PERFORM pg_advisory_xact_lock_shared({key}); RETURN NULL; END $$"
)
_TRIGGERS: Final = (
    "CREATE TRIGGER gate_1 AFTER INSERT OR UPDATE ON {table} FOR EACH ROW EXECUTE FUNCTION {schema}.gate_1()",
    """CREATE CONSTRAINT TRIGGER gate_2 AFTER INSERT OR UPDATE ON {table} DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION {schema}.gate_2()""",
)
_BLOCKED: Final = (
    "SELECT pid, application_name FROM pg_stat_activity WHERE datname = current_database() "
    "AND %s = ANY(pg_blocking_pids(pid)) AND application_name LIKE 'vrm %%' ORDER BY backend_start"
)
_EPOCH: Final = "SELECT 1 FROM {table} WHERE resource = %s FOR UPDATE"
_READ: Final = "LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE"
_RESTS: Final = "SELECT 1 FROM pg_stat_activity WHERE pid = %s AND state IN ('active', 'idle in transaction')"


@dataclass(frozen=True)
class Held:
    """A transaction that stands before a gate: its backend, and the process on the other end."""

    backend: int
    process: int


class Gate:
    """What one session of the database holds closed."""

    def __init__(self, keeper: Connection, watch: Connection) -> None:
        """Hold by the session of `keeper`, and look through `watch`."""
        self._keeper = keeper
        self._watch = watch

    def held(self) -> list[Held]:
        """Return the transactions that stand before it, the oldest session first."""
        with translated("gate"):
            rows = self._watch.execute(_BLOCKED, [self._keeper.info.backend_pid]).fetchall()
        return [Held(int(pid), int(str(name).rsplit(" ", 1)[1])) for pid, name in rows]

    def rests(self, backend: int) -> bool:
        """Return whether a backend is in no transaction any more."""
        with translated("gate"):
            return self._watch.execute(_RESTS, [backend]).fetchone() is None

    def open(self) -> None:
        """Let everything pass; a server that was killed has done so already."""
        self._keeper.close()


class Gates:
    """The gates of one database."""

    def __init__(self, admin_dsn: str, app_dsn: str, schema: str) -> None:
        """Keep as the role that owns the tables, look as the role of those who are held."""
        self._admin_dsn = admin_dsn
        self._app_dsn = app_dsn
        self._schema = schema

    def build(self) -> None:
        """Put the triggers in; everything passes."""
        with connect(self._admin_dsn, "chaos") as link, translated(self._schema):
            for key in (1, 2):
                link.execute(own_sql(_FUNCTION.format(schema=self._schema, key=key)))
            for name in _TABLES[self._schema]:
                for statement in _TRIGGERS:
                    link.execute(own_sql(statement.format(table=f"{self._schema}.{name}", schema=self._schema)))

    @contextmanager
    def closed(self, moment: Moment, resource: str) -> Iterator[Gate]:
        """Hold everything that reaches a moment; the beginning of a transaction is that of one owner's resource."""
        with connect(self._admin_dsn, "chaos keeper") as keeper, connect(self._app_dsn, "chaos watch") as watch:
            with translated("gate"):
                self._close(keeper, moment, resource)
            gate = Gate(keeper, watch)
            try:
                yield gate
            finally:
                gate.open()

    def _close(self, keeper: Connection, moment: Moment, resource: str) -> None:
        if moment in _KEYS:
            keeper.execute("SELECT pg_advisory_lock(%s)", [_KEYS[moment]])
            return
        keeper.execute("BEGIN")
        if moment is Moment.OPENED:
            keeper.execute(on_table(_EPOCH, self._schema, "owners"), [resource])
        else:
            keeper.execute(on_table(_READ, self._schema, "scope_variant_heads"))


def processes(app_dsn: str, prefix: str) -> list[int]:
    """Return the processes that hold a connection whose name begins so, the latest connection first."""
    statement = (
        "SELECT application_name FROM pg_stat_activity WHERE datname = current_database() "
        "AND starts_with(application_name, %s) ORDER BY backend_start DESC"
    )
    try:
        with connect(app_dsn, "chaos watch") as link, translated("gate"):
            rows = link.execute(statement, [f"vrm {prefix} "]).fetchall()
    except VrmError:
        return []
    return [int(str(name).rsplit(" ", 1)[1]) for (name,) in rows]
