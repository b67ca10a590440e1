"""What of a record's payload also stands in columns and child rows, for who writes them and who checks them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from records.base import KINDS, Child, Record
from store.ledger.schema import child_model, column_names, column_value, referenced

Children = dict[str, tuple[tuple[Any, ...], ...]]
"""Child rows by table: (ordinal, namespace, further columns), in the order of the ordinal."""


def columns_of(record: Record) -> dict[str, Any]:
    """Return the indexed columns that a record's payload gives, by name and in the order of the table."""
    held = vars(record)
    return {name: column_value(held[name]) for name in column_names(record.kind)}


def column_row(record: Record) -> list[Any]:
    """Return the values of `columns_of`; ids and enumerations are still of their own types, which are text."""
    held = vars(record)
    return [held[name] for name in column_names(record.kind)]


def children_of(record: Record) -> Children:
    """Return the child rows that a record's payload gives."""
    children: Children = {}
    for child in record.kind.children:
        names = [name for name in child.columns if name != "ordinal"]
        children[child.table] = tuple(
            (ordinal, record.namespace, *(column_value(vars(entry)[name]) for name in names))
            for ordinal, entry in enumerate(getattr(record, child.path), start=1)
        )
    return children


def references_of(record: Record) -> Iterator[tuple[str, Any]]:
    """Yield the records that the columns and child rows of a record point at: name of the column, and id."""
    own, children = _pointing(record.kind.noun)
    held = vars(record)
    for name in own:
        if held[name] is not None:
            yield name, held[name]
    for child, names in children:
        for entry in held[child.path]:
            yield from ((name, vars(entry)[name]) for name in names if vars(entry)[name] is not None)


@cache
def _pointing(noun: str) -> tuple[tuple[str, ...], tuple[tuple[Child, tuple[str, ...]], ...]]:
    """Return the columns of a kind that point at records, and those of its child rows."""
    kind = KINDS[noun]
    own = tuple(name for name in column_names(kind) if referenced(kind.model.model_fields[name].annotation))
    children = []
    for child in kind.children:
        fields = child_model(kind.model, child).model_fields
        children.append(
            (child, tuple(name for name in child.columns if name in fields and referenced(fields[name].annotation)))
        )
    return own, tuple(children)
