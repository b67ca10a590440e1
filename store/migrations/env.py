"""What Alembic runs for every command: the connection and the schema come from the chain, nothing from a file."""

from __future__ import annotations

from alembic import context

_given = context.config.attributes
context.configure(connection=_given["connection"], version_table_schema=_given["schema"])
context.run_migrations(steps=_given["steps"])
