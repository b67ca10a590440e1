"""Reading the Ledger on Postgres: what is asked, and how the rows are read; inside a transaction all of one moment."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple, TypeVar, cast

from records.appends import AppendReceipt, Head, JournalRow, NamespaceHead, StoredRecord
from records.base import KINDS
from records.models import noun_of
from store.database import Connection
from store.ledger.port import Asked, FindValue, require_prefix
from store.ledger.schema import SCHEMA, column_names
from store.pipeline import Row
from store.questions import Question, Questions

A = TypeVar("A")
B = TypeVar("B")

HEAD_COLUMNS: Final = ", ".join(Head._fields)
NAMESPACE_COLUMNS: Final = ", ".join(NamespaceHead._fields)
JOURNAL_COLUMNS: Final = ", ".join(JournalRow._fields)
"""What is selected for a head, a namespace's head and a journal row."""

_OF_A_MOMENT: Final[Question] = ("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", ())
_OVER: Final[Question] = ("COMMIT", ())


class _Plan(NamedTuple):
    """The questions behind a getter, and what makes its answer of their rows."""

    questions: Sequence[Question]
    answer: Callable[[list[list[Row]]], Any]


class LedgerQuestions(ABC):
    """Every getter of the seam over one way to ask."""

    @abstractmethod
    def _ask(self, questions: Sequence[Question]) -> list[list[Row]]:
        """Return the rows of each question; all of them are asked in one round trip."""

    def both(self, first: Asked[A], second: Asked[B]) -> tuple[A, B]:
        """Answer two questions in one round trip."""
        plans = [_PLANS[each.getter](*each.given, **each.equal) for each in (first, second)]
        rows = self._ask([*plans[0].questions, *plans[1].questions])
        border = len(plans[0].questions)
        return plans[0].answer(rows[:border]), plans[1].answer(rows[border:])

    def _one(self, plan: _Plan) -> Any:
        return plan.answer(self._ask(plan.questions))

    def get(self, record_id: str) -> StoredRecord | None:
        """Return a record by id."""
        return self.get_many([record_id]).get(record_id)

    def get_many(self, record_ids: Iterable[str]) -> dict[str, StoredRecord]:
        """Return the records among `record_ids` that exist, by id."""
        return cast("dict[str, StoredRecord]", self._one(_records(record_ids)))

    def find(self, noun: str, namespace: str, **equal: FindValue) -> list[StoredRecord]:
        """Return the records of a kind whose indexed columns equal the values given, in journal order."""
        return cast("list[StoredRecord]", self._one(_found(noun, namespace, **equal)))

    def namespace_head(self, namespace: str) -> NamespaceHead:
        """Return where the journal of a namespace stands."""
        return cast("NamespaceHead", self._one(_standing(namespace)))

    def namespaces(self) -> list[str]:
        """Return every namespace that holds a record."""
        (rows,) = self._ask([(f"SELECT namespace FROM {SCHEMA}.namespace_heads WHERE position > 0", [])])
        return sorted(str(row[0]) for row in rows)

    def variant_heads(self, namespace: str, scope_variant_ids: Iterable[str] | None = None) -> dict[str, Head]:
        """Return heads by scope variant id."""
        statement = f"SELECT {HEAD_COLUMNS} FROM {SCHEMA}.scope_variant_heads WHERE namespace = $1"
        values: list[Any] = [namespace]
        if scope_variant_ids is not None:
            statement += " AND scope_variant_id = ANY($2)"
            values.append(sorted(scope_variant_ids))
        (rows,) = self._ask([(statement + " ORDER BY scope_variant_id", values)])
        heads = (Head(*cast("tuple[str, str, str, str, str]", row[:5]), int(row[5] or 0)) for row in rows)
        return {head.scope_variant_id: head for head in heads}

    def receipt(self, namespace: str, permit_key: str) -> AppendReceipt | None:
        """Return the receipt that a permit got."""
        return self.receipts(namespace, [permit_key]).get(permit_key)

    def receipts(self, namespace: str, permit_keys: Iterable[str]) -> dict[str, AppendReceipt]:
        """Return receipts by permit key."""
        return cast("dict[str, AppendReceipt]", self._one(_receipts(namespace, permit_keys)))

    def journal(self, namespace: str, after: int = 0, limit: int = 1000) -> list[JournalRow]:
        """Return journal rows with a position beyond `after`."""
        statement = (
            f"SELECT {JOURNAL_COLUMNS} FROM {SCHEMA}.ledger_commits_v1 "
            "WHERE namespace = $1 AND position > $2 ORDER BY position LIMIT $3"
        )
        (rows,) = self._ask([(statement, [namespace, after, limit])])
        named = [(row, cast("tuple[str, str, str, str, str]", row[2:])) for row in rows]
        return [JournalRow(str(row[0]), int(row[1] or 0), *others) for row, others in named]

    def resolve(self, prefix: str, limit: int = 10) -> list[str]:
        """Return ids that begin with `prefix`, or whose hex part does."""
        require_prefix(prefix)
        patterns = [f"{prefix}%"] if ":" in prefix else [f"{noun}:{prefix}%" for noun in sorted(KINDS)]
        statement = f'SELECT id FROM {SCHEMA}.ledger_commits_v1 WHERE id LIKE ANY($1) ORDER BY id COLLATE "C" LIMIT $2'
        (rows,) = self._ask([(statement, [patterns, limit])])
        return [str(row[0]) for row in rows]


class PostgresReader(LedgerQuestions):
    """Reads over one connection; within a transaction all of them see one moment."""

    def __init__(self, connection: Connection, address: tuple[str, str] | None = None) -> None:
        """Read through `connection`, which the caller owns; with an address one that was lost is opened again."""
        self._questions = Questions(connection, "ledger", address)

    @property
    def _connection(self) -> Connection:
        return self._questions.connection

    def _ask(self, questions: Sequence[Question]) -> list[list[Row]]:
        return self._questions.ask(questions)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


class MomentReader(PostgresReader):
    """Reads of one moment, over a connection that is its own; the transaction is opened with the first question."""

    def __init__(self, connection: Connection) -> None:
        """Read through `connection`, which is in autocommit mode."""
        super().__init__(connection)
        self._begun = False

    def begin(self) -> None:
        """Open the transaction, if it is not open yet."""
        self._ask([])

    def end(self) -> None:
        """Leave the moment; nothing was written, so nobody waits for the server to say that it has."""
        if self._begun:
            self._begun = False
            self._questions.hand_over(_OVER)

    def _ask(self, questions: Sequence[Question]) -> list[list[Row]]:
        if self._begun:
            return super()._ask(questions)
        self._begun = True
        return super()._ask([_OF_A_MOMENT, *questions])


def _records(record_ids: Iterable[str]) -> _Plan:
    by_noun: dict[str, list[str]] = {}
    for record_id in record_ids:
        noun = noun_of(record_id)
        if noun in KINDS:
            by_noun.setdefault(noun, []).append(record_id)
    questions = [
        (f"SELECT id, namespace, position, payload FROM {_table(noun)} WHERE id = ANY($1)", [ids])
        for noun, ids in by_noun.items()
    ]

    def answer(rows: list[list[Row]]) -> dict[str, StoredRecord]:
        stored = (_stored(noun, row) for noun, found in zip(by_noun, rows, strict=True) for row in found)
        return {each.id: each for each in stored}

    return _Plan(questions, answer)


def _found(noun: str, namespace: str, **equal: FindValue) -> _Plan:
    conditions: list[str] = ["namespace = $1"]
    values: list[Any] = [namespace]
    for name, value in equal.items():
        if name not in column_names(KINDS[noun]):
            raise ValueError(f"{noun} has no column {name}")
        if value is None:
            conditions.append(f"{name} IS NULL")
            continue
        many = not isinstance(value, str | int | bool)
        if many and not value:
            conditions.append("FALSE")  # an array of nothing has no type that every column could be compared with
            continue
        values.append(list(cast("Sequence[str]", value)) if many else value)
        conditions.append(f"{name} = ANY(${len(values)})" if many else f"{name} = ${len(values)}")
    statement = (
        f"SELECT id, namespace, position, payload FROM {_table(noun)} "
        f"WHERE {' AND '.join(conditions)} ORDER BY position"
    )
    return _Plan([(statement, values)], lambda rows: [_stored(noun, row) for row in rows[0]])


def _standing(namespace: str) -> _Plan:
    statement = f"SELECT {NAMESPACE_COLUMNS} FROM {SCHEMA}.namespace_heads WHERE namespace = $1"
    return _Plan([(statement, [namespace])], lambda rows: next(map(head_of, rows[0]), NamespaceHead(namespace)))


def _receipts(namespace: str, permit_keys: Iterable[str]) -> _Plan:
    statement = f"SELECT receipt FROM {SCHEMA}.append_receipts WHERE namespace = $1 AND permit_key = ANY($2)"

    def answer(rows: list[list[Row]]) -> dict[str, AppendReceipt]:
        receipts = (AppendReceipt.load(str(row[0])) for row in rows[0])
        return {receipt.permit_key: receipt for receipt in receipts}

    return _Plan([(statement, [namespace, sorted(permit_keys)])], answer)


_PLANS: Final[dict[str, Callable[..., _Plan]]] = {
    "get_many": _records,
    "find": _found,
    "namespace_head": _standing,
    "receipts": _receipts,
}
"""The getters that can be asked together with another one."""


def head_of(row: Row) -> NamespaceHead:
    """Return the head that a row of `NAMESPACE_COLUMNS` holds."""
    name, position, chain_digest, *frontiers = row
    return NamespaceHead(str(name), int(position or 0), str(chain_digest), *(int(each or 0) for each in frontiers))


def _table(noun: str) -> str:
    return f"{SCHEMA}.{KINDS[noun].table}"


def _stored(noun: str, row: Row) -> StoredRecord:
    record_id, namespace, position, payload = row
    return StoredRecord(
        noun=noun, id=str(record_id), namespace=str(namespace), position=int(position or 0), payload=str(payload)
    )
