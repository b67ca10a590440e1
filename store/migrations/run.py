"""Bringing one schema from an earlier revision to this program's, in one transaction.

Rules kept here:

- nobody writes meanwhile: the table of owners is locked before anything is looked at. Owners that are still connected
  are a refusal; those that are not are fenced by raising every epoch, so that one that comes back is told so. A program
  that wants to claim afterwards is asked for its revision (`store.owners`);
- what is migrated is whole: the schema is compared with what its own revision makes on this very server, and what is
  missing or different is a refusal. Objects that somebody has added are left alone;
- what comes out is this program's schema: it is compared in the same way with what a new installation makes, and the
  transaction ends without effect if they differ.

The schema to compare with is made beside the given one, which is renamed for that long, and is undone by a savepoint:
nothing is ever dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, cast

import sqlalchemy as sa
from psycopg import sql

from records.errors import SchemaError, UnavailableError
from store import marks
from store.database import Connection, connect, one, translated
from store.description import describe
from store.install import ALONE, check, create, require_creator
from store.migrations.chain import Chain, Step
from store.migrations.steps import Steps

_LIVE: Final = """
    SELECT owner.resource, owner.holder FROM {owners} AS owner
    JOIN pg_stat_activity AS activity ON activity.pid = owner.backend_pid
    WHERE activity.datname = current_database() AND activity.application_name LIKE 'vrm %%'
        AND activity.pid <> pg_backend_pid() ORDER BY 1
"""
_MINE: Final = "SELECT pg_has_role(nspowner, 'USAGE') FROM pg_namespace WHERE nspname = %s"
_SHOWN: Final = 3


@dataclass(frozen=True, kw_only=True)
class Migration:
    """What was done to a schema, or is to be done."""

    schema: str
    before: str
    after: str
    steps: tuple[Step, ...]

    def as_json(self) -> dict[str, Any]:
        """Return the migration as JSON values."""
        steps = [{"revision": step.revision, "what": step.what} for step in self.steps]
        return {"schema": self.schema, "from": self.before, "to": self.after, "steps": steps}


@contextmanager
def transaction(dsn: str, *, read_only: bool = False) -> Iterator[sa.Connection]:
    """Open one transaction that Alembic and the driver share; it is durable when the block ends without an error."""
    with translated("migrate"):
        raw = connect(dsn, "migrate")
        try:
            raw.autocommit, raw.read_only = False, read_only
            engine = sa.create_engine("postgresql+psycopg://", creator=lambda: raw, poolclass=sa.StaticPool)
            with engine.begin() as connection:
                yield connection
        except sa.exc.DBAPIError as error:
            raise (error.orig or error) from error
        finally:
            raw.close()


def planned(admin_dsn: str, chain: Chain) -> Migration:
    """Say what `migrate` would do, changing and locking nothing.

    Raises:
        SchemaError: there is no schema of ours, or one that no revision of this program leads from.
        UnavailableError: the server cannot be reached.
    """
    with transaction(admin_dsn, read_only=True) as connection:
        return _plan(_driver(connection), chain)


def migrate(admin_dsn: str, application_role: str, chain: Chain) -> Migration:
    """Bring a schema to the last revision of its chain; after return it is there, durable and whole.

    Raises:
        SchemaError: there is no schema of ours, no revision of this program leads from it, it is partial, or the
            revisions do not lead to this program's schema; nothing was changed.
        UnavailableError: somebody still writes, the role does not own the schema, or the server refused a statement;
            nothing was changed.
    """
    with transaction(admin_dsn) as connection:
        return migrate_in(connection, application_role, chain)


def migrate_in(connection: sa.Connection, application_role: str, chain: Chain) -> Migration:
    """Do what `migrate` does in the transaction of the caller."""
    raw = _driver(connection)
    raw.execute("SET LOCAL statement_timeout = 0")  # a table is rewritten in one statement, however large it is
    raw.execute(ALONE)
    plan = _plan(raw, chain)
    if plan.steps:
        _require_owner(raw, plan.schema)
        _fence(raw, plan.schema)
        _apply(connection, chain, Steps(raw, plan.schema, application_role), plan)
    return plan


def _plan(raw: Connection, chain: Chain) -> Migration:
    definition = chain.definition
    found = marks.read(raw, definition.schema)
    digest = None if found.revision is None else chain.digest(found.revision)
    if digest is None or found.revision is None:
        marks.require_revision(found.revision, definition.schema, definition.revision)
        raise RuntimeError(f"revision {found.revision} of {definition.schema} is not in its chain")
    if found.revision == definition.revision:
        check(raw, definition)
    marks.require(found, definition.schema, found.revision, digest)
    return Migration(
        schema=definition.schema,
        before=found.revision,
        after=definition.revision,
        steps=chain.after(found.revision),
    )


def _apply(connection: sa.Connection, chain: Chain, steps: Steps, plan: Migration) -> None:
    raw, definition = steps.connection, chain.definition

    def as_it_was() -> None:
        raw.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(plan.schema)))
        chain.upgrade(connection, steps, plan.before)
        _finish(chain, steps, plan.before)

    def as_new() -> None:
        create(raw, steps.role, definition)

    chain.stamp(connection, steps, plan.before)
    _finish(chain, steps, plan.before)
    lost = _lost(raw, plan.schema, as_it_was)
    if lost:
        raise SchemaError(f"{plan.schema} schema", lost, "The schema is partial; restore it from a backup.")
    chain.upgrade(connection, steps, plan.after)
    _finish(chain, steps, plan.after)
    lost = _lost(raw, plan.schema, as_new)
    if lost:
        raise SchemaError(f"{plan.schema} after migration", lost, "Nothing was changed; report this with the value.")
    check(raw, definition)


def _finish(chain: Chain, steps: Steps, revision: str) -> None:
    """Write the mark that opening reads, beside the one that Alembic has written."""
    marks.move(steps.connection, steps.schema, steps.role, revision, str(chain.digest(revision)))


def _lost(raw: Connection, schema: str, make: Callable[[], None]) -> str:
    """Return the lines that the schema lacks of the one that `make` makes in its place for a moment."""
    given = set(describe(raw, schema))
    names = {"given": sql.Identifier(schema), "aside": sql.Identifier(f"{schema}_aside")}
    with raw.transaction(force_rollback=True):
        raw.execute(sql.SQL("ALTER SCHEMA {given} RENAME TO {aside}").format(**names))
        make()
        lost = [line for line in describe(raw, schema) if line not in given]
    more = f" and {len(lost) - _SHOWN} more" if len(lost) > _SHOWN else ""
    return "; ".join(lost[:_SHOWN]) + more


def _require_owner(raw: Connection, schema: str) -> None:
    require_creator(raw)
    if not one(raw.execute(_MINE, [schema]).fetchone()):
        remedy = "Name the role that owns the schema by VRM_LEDGER_ADMIN_DSN or VRM_RUNTIME_ADMIN_DSN."
        raise UnavailableError("database role", raw.info.user, remedy)


def _fence(raw: Connection, schema: str) -> None:
    """Refuse while an owner is connected; from here on no other can claim or write, and none of before ever will."""
    owners = sql.Identifier(schema, "owners")
    raw.execute(sql.SQL("LOCK TABLE {owners} IN ACCESS EXCLUSIVE MODE").format(owners=owners))
    live = raw.execute(sql.SQL(_LIVE).format(owners=owners), []).fetchall()
    if live:
        shown = ", ".join(f"{resource} by {holder}" for resource, holder in live)
        remedy = "They may still write; stop them with `vrm down`, or end their cluster, then run `vrm migrate` again."
        raise UnavailableError(f"{schema} owners", shown, remedy)
    raw.execute(sql.SQL("UPDATE {owners} SET epoch = epoch + 1").format(owners=owners))


def _driver(connection: sa.Connection) -> Connection:
    return cast("Connection", connection.connection.driver_connection)
