"""A schema as the server itself describes it, line by line.

Two schemas that give the same lines are the same to every program: tables, columns with type, collation, default and
nullability, constraints and indexes with their definitions, triggers with their state, functions, and what each role
may do. The order of columns is left out, because no statement of ours goes by it where a column may be added. Lines of
two schemas can be compared only on one server: another major version may word a definition differently.
"""

from __future__ import annotations

from typing import Final

from store.database import Connection

_IN: Final = "JOIN pg_namespace AS space ON space.oid = kind.relnamespace WHERE space.nspname = %(schema)s"
_QUERIES: Final = (
    f"""
    SELECT 'table ' || kind.relname || CASE kind.relpersistence WHEN 'p' THEN '' ELSE ' not durable' END
    FROM pg_class AS kind {_IN} AND kind.relkind IN ('r', 'p', 'v', 'm', 'f')
    """,
    f"""
    SELECT concat_ws(' ', 'column ' || kind.relname || '.' || part.attname,
        format_type(part.atttypid, part.atttypmod),
        'collate ' || nullif(part.attcollation, 0)::regcollation,
        CASE WHEN part.attnotnull THEN 'not null' END, 'default ' || pg_get_expr(preset.adbin, preset.adrelid),
        nullif(part.attidentity, ''), nullif(part.attgenerated, ''))
    FROM pg_attribute AS part JOIN pg_class AS kind ON kind.oid = part.attrelid
    LEFT JOIN pg_attrdef AS preset ON preset.adrelid = part.attrelid AND preset.adnum = part.attnum
    {_IN} AND kind.relkind IN ('r', 'p') AND part.attnum > 0 AND NOT part.attisdropped
    """,
    # From version 18 on, NOT NULL is a constraint too; it is told with the column on every version.
    f"""
    SELECT 'constraint ' || kind.relname || ' ' || held.conname || ' ' || pg_get_constraintdef(held.oid)
    FROM pg_constraint AS held JOIN pg_class AS kind ON kind.oid = held.conrelid {_IN} AND held.contype <> 'n'
    """,
    f"""
    SELECT 'index ' || pg_get_indexdef(way.indexrelid) || CASE WHEN way.indisvalid THEN '' ELSE ' invalid' END
    FROM pg_index AS way JOIN pg_class AS kind ON kind.oid = way.indexrelid {_IN}
    """,
    f"""
    SELECT 'trigger ' || pg_get_triggerdef(guard.oid) || ' state ' || guard.tgenabled::text
    FROM pg_trigger AS guard JOIN pg_class AS kind ON kind.oid = guard.tgrelid {_IN} AND NOT guard.tgisinternal
    """,
    """
    SELECT 'function ' || pg_get_functiondef(action.oid) FROM pg_proc AS action
    JOIN pg_namespace AS space ON space.oid = action.pronamespace
    WHERE space.nspname = %(schema)s AND action.prokind IN ('f', 'p')
    """,
    f"""
    SELECT 'grant ' || granted.privilege_type || ' on ' || kind.relname || ' to ' ||
        coalesce(nullif(granted.grantee, 0)::regrole::text, 'public')
    FROM pg_class AS kind CROSS JOIN LATERAL aclexplode(kind.relacl) AS granted
    {_IN} AND granted.grantee <> kind.relowner
    """,
    """
    SELECT 'grant ' || granted.privilege_type || ' on schema to ' ||
        coalesce(nullif(granted.grantee, 0)::regrole::text, 'public')
    FROM pg_namespace AS space CROSS JOIN LATERAL aclexplode(space.nspacl) AS granted
    WHERE space.nspname = %(schema)s AND granted.grantee <> space.nspowner
    """,
)


def describe(connection: Connection, schema: str) -> list[str]:
    """Return the lines that describe a schema, sorted."""
    lines: list[str] = []
    for query in _QUERIES:
        lines += [line for (line,) in connection.execute(query.encode(), {"schema": schema}).fetchall()]
    return sorted(lines)
