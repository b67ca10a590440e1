"""A careful forger: whoever may write to the database, knows how ids, digests and chain are made, and makes them anew.

After `seal` every id, digest, chain link, column, child row, receipt and head follows from the changed records again,
through everything that names them, so that only the rules between records can tell. Digests inside of payloads, such
as that of a bundle, are left as they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg import sql
from psycopg.rows import TupleRow

from records.base import KINDS, Kind
from records.canonical import canonical_bytes, content_id, digest_bytes, parse_canonical
from store.ledger.schema import column_names
from tests.support.chains import chained

Connection = psycopg.Connection[TupleRow]
Content = dict[str, Any]
_ID = re.compile(r"[a-z-]+:[0-9a-f]{64}")


@dataclass
class _Entry:
    """One journal row with what its record says; `old` is the id before, empty for a record that was added."""

    noun: str
    old: str
    permit_key: str
    text: str
    content: Content = field(init=False)

    def __post_init__(self) -> None:
        self.content = parse_canonical(self.text)

    def seal(self, renamed: dict[str, str]) -> tuple[str, str]:
        """Write new ids into the content and return its own id and its text."""
        text = canonical_bytes(self.content).decode()
        self.content = parse_canonical(_ID.sub(lambda met: renamed.get(met[0], met[0]), text))
        own = content_id(self.noun, KINDS[self.noun].project(self.content))
        if self.old:
            renamed[self.old] = own
        return own, canonical_bytes(self.content).decode()


class Forgery:
    """Changes to one namespace of a Ledger whose triggers and foreign keys are switched off."""

    def __init__(self, connection: Connection, namespace: str) -> None:
        self._connection = connection
        self._namespace = namespace
        rows = connection.execute(
            "SELECT noun, id, permit_key FROM ledger.ledger_commits_v1 WHERE namespace = %s ORDER BY position",
            [namespace],
        ).fetchall()
        self._entries = [_Entry(noun, key, permit, self._text(noun, key)) for noun, key, permit in rows]
        texts = connection.execute("SELECT permit_key, receipt FROM ledger.append_receipts WHERE namespace = %s",
                                   [namespace]).fetchall()  # fmt: skip
        self._texts: dict[str, str] = dict(texts)
        self._receipts: dict[str, Content] = {key: parse_canonical(text) for key, text in texts}

    def all(self, noun: str) -> list[str]:
        """Return the ids of a kind, in journal order."""
        return [entry.old for entry in self._entries if entry.noun == noun]

    def content(self, record_id: str) -> Content:
        """Return what a record says, to be changed in place."""
        return self._entry(record_id).content

    def receipt_of(self, record_id: str) -> Content:
        """Return the receipt of the append that wrote a record, to be changed in place."""
        return self._receipts[self._entry(record_id).permit_key]

    def add(self, noun: str, content: Content, like: str) -> Callable[[], str]:
        """Append one more record under the permit that wrote `like`; the result gives its id once it is sealed."""
        entry = _Entry(noun, "", self._entry(like).permit_key, canonical_bytes(content).decode())
        self._entries.append(entry)
        return lambda: self.id_of(noun, entry.content)

    def move(self, record_id: str, to: str) -> None:
        """Let a record have been written under the permit that wrote `to`."""
        old, new = self.receipt_of(record_id), self.receipt_of(to)
        at = old["record_ids"].index(record_id)
        new["record_ids"].append(old["record_ids"].pop(at))
        new["positions"].append(old["positions"].pop(at))
        self._entry(record_id).permit_key = self._entry(to).permit_key

    def drop(self, table: str, constraint: str) -> None:
        """Do without a constraint of a table."""
        statement = sql.SQL("ALTER TABLE {} DROP CONSTRAINT {}")
        self._connection.execute(statement.format(_table(table), sql.Identifier(constraint)))

    def users(self, noun: str, by: str) -> list[str]:
        """Return the records of kind `by` that name the first record of a kind."""
        first = self.all(noun)[0]
        return [each for each in self.all(by) if first in self.content(each).values()]

    @staticmethod
    def id_of(noun: str, content: Content) -> str:
        """Return the id that a content gives."""
        return content_id(noun, KINDS[noun].project(content))

    def seal(self) -> dict[str, str]:
        """Make everything follow again and return the new ids by the old ones."""
        renamed: dict[str, str] = {}
        chain, frontiers = "0" * 64, {"evidence": 0, "lifecycle": 0, "retention": 0}
        journal = []
        for position, entry in enumerate(self._entries, start=1):
            own, text = entry.seal(renamed)
            kind, digest = KINDS[entry.noun], digest_bytes(text.encode())
            if (own, text) != (entry.old, entry.text):
                self._write(kind, entry, own, position, text)
            chain = chained(chain, (self._namespace, position, entry.noun, own, digest))
            journal.append((self._namespace, position, entry.noun, own, digest, chain, entry.permit_key))
            if not entry.old:
                self._receipts[entry.permit_key]["record_ids"].append(own)
                self._receipts[entry.permit_key]["positions"].append(position)
            if kind.frontier is not None:
                frontiers[kind.frontier.value] = position
        with self._connection.cursor() as cursor:
            cursor.execute("DELETE FROM ledger.ledger_commits_v1 WHERE namespace = %s", [self._namespace])
            cursor.executemany("INSERT INTO ledger.ledger_commits_v1 VALUES (%s, %s, %s, %s, %s, %s, %s)", journal)
        self._connection.execute(
            "UPDATE ledger.namespace_heads SET position = %s, chain_digest = %s, evidence = %s, lifecycle = %s, "
            "retention = %s WHERE namespace = %s",
            [len(self._entries), chain, *frontiers.values(), self._namespace],
        )
        self._seal_receipts(renamed)
        self._seal_heads(renamed)
        return renamed

    def _entry(self, record_id: str) -> _Entry:
        return next(entry for entry in self._entries if entry.old == record_id)

    def _text(self, noun: str, record_id: str) -> str:
        statement = sql.SQL("SELECT payload FROM {} WHERE id = %s").format(_table(KINDS[noun].table))
        (payload,) = self._connection.execute(statement, [record_id]).fetchone() or ("",)
        return str(payload)

    def _write(self, kind: Kind, entry: _Entry, own: str, position: int, text: str) -> None:
        run = self._connection.execute
        run(sql.SQL("DELETE FROM {} WHERE id = %s").format(_table(kind.table)), [entry.old])
        names = column_names(kind)
        values = [own, self._namespace, position, text, *(entry.content[name] for name in names)]
        self._insert(kind.table, ("id", "namespace", "position", "payload", *names), values)
        for child in kind.children:
            run(sql.SQL("DELETE FROM {} WHERE parent_id = %s").format(_table(child.table)), [entry.old])
            columns = tuple(name for name in child.columns if name != "ordinal")
            for ordinal, item in enumerate(entry.content[child.path], start=1):
                row = [own, ordinal, self._namespace, *(item[name] for name in columns)]
                self._insert(child.table, ("parent_id", "ordinal", "namespace", *columns), row)

    def _insert(self, table: str, names: tuple[str, ...], values: list[Any]) -> None:
        fields = sql.SQL(", ").join(map(sql.Identifier, names))
        places = sql.SQL(", ").join([sql.Placeholder()] * len(names))
        self._connection.execute(
            sql.SQL("INSERT INTO {} ({}) VALUES ({})").format(_table(table), fields, places), values
        )

    def _seal_receipts(self, renamed: dict[str, str]) -> None:
        for key, content in self._receipts.items():
            content["record_ids"] = [renamed.get(each, each) for each in content["record_ids"]]
            text = canonical_bytes(content).decode()
            if text == self._texts[key]:
                continue
            self._connection.execute(
                "UPDATE ledger.append_receipts SET receipt = %s, transition = %s WHERE namespace = %s "
                "AND permit_key = %s",
                [text, content["transition"], self._namespace, key],
            )

    def _seal_heads(self, renamed: dict[str, str]) -> None:
        for old, own in renamed.items():
            if old != own and old.startswith(("knowledge-lifecycle-event:", "memory-record:")):
                for column in ("event_id", "memory_id"):
                    statement = sql.SQL("UPDATE ledger.scope_variant_heads SET {0} = %s WHERE {0} = %s")
                    self._connection.execute(statement.format(sql.Identifier(column)), [own, old])


def _table(name: str) -> sql.Identifier:
    return sql.Identifier("ledger", name)
