"""What of a record's payload also stands in columns and child rows, for who writes them and who checks them."""

from __future__ import annotations

from typing import Any

from records.base import Record
from store.ledger.schema import column_names, column_value

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
