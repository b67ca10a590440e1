"""The tables of the Runtime: one per state machine, made from the machine registry, and the owners."""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa

from records.states import Machine, phases_of
from store.guards import FIXED, RISES
from store.install import Definition
from store.owners import owners_table

SCHEMA: Final = "runtime"
COLUMNS: Final = ("id", "run_id", "phase", "version", "generation", "fence", "body", "facts")

metadata = sa.MetaData(schema=SCHEMA)


def table_name(machine: Machine) -> str:
    """Return the table of a machine."""
    return {Machine.ACTIVITY: "activities"}.get(machine, f"{machine.value}s")


def _table(machine: Machine) -> sa.Table:
    legal = ", ".join(f"'{phase}'" for phase in phases_of(machine))
    return sa.Table(
        table_name(machine),
        metadata,
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("run_id", sa.Text, info=FIXED),
        sa.Column("phase", sa.Text, sa.CheckConstraint(f"phase IN ({legal})"), nullable=False),
        *(sa.Column(name, sa.BigInteger, nullable=False, info=RISES) for name in ("version", "generation", "fence")),
        sa.Column("body", sa.Text, nullable=False, info=FIXED),
        sa.Column("facts", sa.Text, nullable=False),
        sa.Index(f"{table_name(machine)}_by_phase", "phase", "run_id"),
    )


TABLES: Final[dict[Machine, sa.Table]] = {machine: _table(machine) for machine in Machine}
"""The table of each machine."""

OWNERS: Final = owners_table(metadata)

DEFINITION: Final = Definition(
    schema=SCHEMA,
    revision="2",
    metadata=metadata,
    append_only=(),
    movable=tuple(table.name for table in (*TABLES.values(), OWNERS)),
)
"""What `store.install` makes and checks."""
