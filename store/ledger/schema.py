"""The tables of the Ledger, made from the kind registry.

Every kind has a table of its own: id, namespace, journal position, payload as canonical text, and the indexed columns.
A column typed as the id of a kind is a foreign key together with the namespace, so no record can point into another
namespace. A column holds what its field may hold: closed values, digests, counts and journal positions are checked. The
variants of a kind share one table, whose columns are the fields that all of them have. A list of a payload that is also
kept as rows is a child table. What is not generated stands at the end: the journal, receipts, heads and owners. Tables
of records are append-only by trigger and by grant.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Iterable
from enum import StrEnum
from functools import cache
from typing import Any, Final, Literal

import sqlalchemy as sa

import records.claim_traces
import records.conflicts
import records.decisions
import records.evidence
import records.ingestion
import records.knowledge
import records.legacy
import records.lineage
import records.outcomes
import records.procedures
import records.reference
import records.retention
import records.snapshots
import records.workspace  # noqa: F401  # the imports fill the kind registry
from records.base import KINDS, Child, Kind, Record
from records.fields import Digest
from records.models import Id, Model
from records.values import Count
from store.guards import FIXED, RISES
from store.install import Definition
from store.owners import owners_table

SCHEMA: Final = "ledger"
LOGICAL_COLUMNS: Final = ("id", "namespace", "position", "payload")

metadata = sa.MetaData(schema=SCHEMA)


@cache
def column_names(kind: Kind) -> tuple[str, ...]:
    """Return the indexed columns of a kind: fields typed as the id of a kind, unique ones, and declared ones."""
    return _column_names(kind.noun)


def require_columns(noun: str, columns: Iterable[str]) -> None:
    """Refuse names that are no indexed columns of a kind.

    Raises:
        ValueError: there is none, or one is not.
    """
    wanted = set(columns)
    if not wanted or not wanted <= set(column_names(KINDS[noun])):
        raise ValueError(f"{noun} has no columns {', '.join(sorted(wanted)) or '(none named)'}")


@cache
def _column_names(noun: str) -> tuple[str, ...]:
    kind = KINDS[noun]
    names = [name for name, field in kind.model.model_fields.items() if referenced(field.annotation)]
    names += [name for columns in kind.unique for name in columns]
    names += [*kind.columns, *filter(None, [kind.discriminator])]
    return tuple(dict.fromkeys(name for name in names if name not in LOGICAL_COLUMNS))


def column_value(value: Any) -> Any:
    """Return a field as its column holds it: ids and enumerations as plain text."""
    return str(value) if isinstance(value, str) else value


def referenced(annotation: Any) -> Kind | None:
    """Return the kind that a field's annotation refers to; None for a field that also allows a literal."""
    options = _options(annotation)
    if any(typing.get_origin(option) is Literal for option in options):
        return None
    nouns = [option.noun for option in options if isinstance(option, type) and issubclass(option, Id)]
    return KINDS.get(nouns[0]) if nouns else None


def _options(annotation: Any) -> tuple[Any, ...]:
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return typing.get_args(annotation)
    return (annotation,)


_DIGEST: Final = "octet_length({name}) = 64"
"""What the tables ask of a digest: its length. Each append is checked four times, and a regular expression made a third
of what it cost the server; the models ask for the whole form, and the integrity check asks again."""
_FORMS: Final = ((Digest, _DIGEST), (Count, "{name} >= 0"))
"""What a column of such a type may hold."""


def _column(model: type[Model], name: str) -> sa.Column[Any]:
    options = _options(_hints(model)[name])
    held = [option for option in options if option is not type(None)]
    closed = [values for option in held if (values := _closed(option))]
    checks = [form.format(name=name) for kind, form in _FORMS if held == [kind]]
    if len(closed) == len(held):
        checks = [f"{name} IN ({', '.join(repr(value) for values in closed for value in values)})"]
    plain = typing.get_args(held[0])[0] if typing.get_origin(held[0]) is typing.Annotated else held[0]
    kind = {bool: sa.Boolean, int: sa.BigInteger}.get(plain, sa.Text)
    return sa.Column(name, kind, *map(sa.CheckConstraint, checks), nullable=type(None) in options)


@cache
def _hints(model: type[Model]) -> dict[str, Any]:
    return typing.get_type_hints(model, include_extras=True)


def _closed(option: Any) -> tuple[str, ...]:
    """Return the texts that a closed type allows; nothing for a type that is not closed."""
    if typing.get_origin(option) is Literal:
        return tuple(map(str, typing.get_args(option)))
    if isinstance(option, type) and issubclass(option, StrEnum):
        return tuple(member.value for member in option)
    return ()


def _foreign_keys(model: type[Model], names: tuple[str, ...]) -> list[sa.ForeignKeyConstraint]:
    keys = []
    for name in names:
        target = referenced(model.model_fields[name].annotation)
        if target is not None:
            remote = [f"{SCHEMA}.{target.table}.namespace", f"{SCHEMA}.{target.table}.id"]
            keys.append(sa.ForeignKeyConstraint(["namespace", name], remote))
    return keys


_TABLE_CHECKS: Final = {
    "memory-relation": (
        "source_memory_id <> target_memory_id",
        "relation <> 'contests' OR source_memory_id COLLATE \"C\" < target_memory_id",
    )
}
"""Rules between the columns of one row, by noun; the model holds them too."""


def _record_table(kind: Kind) -> sa.Table:
    names = column_names(kind)
    unique = [sa.UniqueConstraint(*columns, name=f"{kind.table}_one_{'_'.join(columns)}") for columns in kind.unique]
    indexes = [sa.Index(f"{kind.table}_by_{name}", "namespace", name) for name in names if (name,) not in kind.unique]
    return sa.Table(
        kind.table,
        metadata,
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("namespace", sa.Text, primary_key=True),
        sa.Column("position", sa.BigInteger, sa.CheckConstraint("position > 0"), nullable=False),
        *(_column(kind.model, name) for name in names),
        sa.Column("payload", sa.Text, nullable=False),
        *_foreign_keys(kind.model, names),
        *unique,
        *map(sa.CheckConstraint, _TABLE_CHECKS.get(kind.noun, ())),
        *indexes,
    )


def child_model(model: type[Record], child: Child) -> type[Model]:
    """Return the model of the items of a list field."""
    item = typing.get_args(model.model_fields[child.path].annotation)[0]
    if typing.get_origin(item) is tuple:
        item = typing.get_args(item)[0]
    return typing.cast("type[Model]", item)


def _child_table(kind: Kind, child: Child) -> sa.Table:
    model = child_model(kind.model, child)
    parent = [f"{SCHEMA}.{kind.table}.namespace", f"{SCHEMA}.{kind.table}.id"]
    columns = [_column(model, name) for name in child.columns if name != "ordinal"]
    unique = [sa.UniqueConstraint("parent_id", name, name=f"{child.table}_one_{name}") for name in child.unique]
    return sa.Table(
        child.table,
        metadata,
        sa.Column("parent_id", sa.Text, primary_key=True),
        sa.Column("ordinal", sa.BigInteger, sa.CheckConstraint("ordinal > 0"), primary_key=True),
        sa.Column("namespace", sa.Text, nullable=False),
        *columns,
        *unique,
        sa.ForeignKeyConstraint(["namespace", "parent_id"], parent),
        *_foreign_keys(model, child.columns),
    )


RECORD_TABLES: Final[dict[str, sa.Table]] = {noun: _record_table(kind) for noun, kind in KINDS.items()}
"""The table of each kind."""

CHILD_TABLES: Final[dict[str, sa.Table]] = {
    child.table: _child_table(kind, child) for kind in KINDS.values() for child in kind.children
}
"""The child tables by name."""


def _digest(name: str) -> sa.CheckConstraint:
    return sa.CheckConstraint(_DIGEST.format(name=name))


JOURNAL: Final = sa.Table(
    "ledger_commits_v1",
    metadata,
    sa.Column("namespace", sa.Text, primary_key=True),
    sa.Column("position", sa.BigInteger, primary_key=True),
    sa.Column("noun", sa.Text, nullable=False),
    sa.Column("id", sa.Text, nullable=False),
    sa.Column("payload_digest", sa.Text, _digest("payload_digest"), nullable=False),
    sa.Column("chain_digest", sa.Text, _digest("chain_digest"), nullable=False),
    sa.Column("permit_key", sa.Text, nullable=False),
    sa.CheckConstraint("position > 0"),
    # An id begins with its noun; this order of texts finds beginnings of ids, too.
    sa.Index("ledger_commits_v1_one_id", "id", unique=True, postgresql_ops={"id": "text_pattern_ops"}),
)

RECEIPTS: Final = sa.Table(
    "append_receipts",
    metadata,
    sa.Column("namespace", sa.Text, primary_key=True),
    sa.Column("permit_key", sa.Text, primary_key=True),
    sa.Column("permit_digest", sa.Text, _digest("permit_digest"), nullable=False),
    sa.Column("transition", sa.Text, nullable=False),
    sa.Column("receipt", sa.Text, nullable=False),
)

NAMESPACE_HEADS: Final = sa.Table(
    "namespace_heads",
    metadata,
    sa.Column("namespace", sa.Text, primary_key=True),
    sa.Column("position", sa.BigInteger, nullable=False, info=RISES),
    sa.Column("chain_digest", sa.Text, _digest("chain_digest"), nullable=False),
    sa.Column("evidence", sa.BigInteger, nullable=False, info=RISES),
    sa.Column("lifecycle", sa.BigInteger, nullable=False, info=RISES),
    sa.Column("retention", sa.BigInteger, nullable=False, info=RISES),
    sa.CheckConstraint("position >= greatest(evidence, lifecycle, retention)"),
    sa.CheckConstraint("least(evidence, lifecycle, retention) >= 0"),
)

VARIANT_HEADS: Final = sa.Table(
    "scope_variant_heads",
    metadata,
    sa.Column("scope_variant_id", sa.Text, primary_key=True),
    sa.Column("namespace", sa.Text, nullable=False, info=FIXED),
    sa.Column("event_id", sa.Text, nullable=False),
    sa.Column("memory_id", sa.Text, nullable=False),
    sa.Column("disposition", sa.Text, nullable=False),
    sa.Column("version", sa.BigInteger, sa.CheckConstraint("version > 0"), nullable=False, info=RISES),
    sa.ForeignKeyConstraint(
        ["namespace", "event_id"],
        [f"{SCHEMA}.knowledge_lifecycle_events.namespace", f"{SCHEMA}.knowledge_lifecycle_events.id"],
    ),
    sa.ForeignKeyConstraint(
        ["namespace", "memory_id"], [f"{SCHEMA}.memory_records.namespace", f"{SCHEMA}.memory_records.id"]
    ),
)

OWNERS: Final = owners_table(metadata)

APPEND_ONLY: Final[tuple[str, ...]] = tuple(
    table.name for table in (*RECORD_TABLES.values(), *CHILD_TABLES.values(), JOURNAL, RECEIPTS)
)
"""Tables that take INSERT and SELECT and nothing else."""

MOVABLE: Final[tuple[str, ...]] = tuple(table.name for table in (NAMESPACE_HEADS, VARIANT_HEADS, OWNERS))
"""Tables whose rows move forward by compare-and-swap; they never lose a row."""

ADVANCE: Final = f"""
CREATE FUNCTION {SCHEMA}.advance(resource text, epoch bigint, expected text, namespace text, "position" bigint,
    chain_digest text, evidence bigint, lifecycle bigint, retention bigint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM {SCHEMA}.owners AS owner
        WHERE owner.resource = advance.resource AND owner.epoch = advance.epoch FOR SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'epoch % of % is over', epoch, resource;
    END IF;
    UPDATE {SCHEMA}.namespace_heads AS head
        SET position = advance.position, chain_digest = advance.chain_digest, evidence = advance.evidence,
            lifecycle = advance.lifecycle, retention = advance.retention
        WHERE head.namespace = advance.namespace AND head.chain_digest = advance.expected;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the journal of % has moved on', namespace;
    END IF;
END $$
"""
"""Holds an epoch and a journal to the end of the transaction and moves the journal, or refuses: no answer is needed."""

DEFINITION: Final = Definition(
    schema=SCHEMA, revision="4", metadata=metadata, append_only=APPEND_ONLY, movable=MOVABLE, functions=(ADVANCE,)
)
"""What `store.install` makes and checks."""
