"""Real stores for tests: fresh databases on the session's server, and a writer that has claimed its resource."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from memory.guards import GUARDS
from records.appends import Append, AppendReceipt
from records.base import Record
from records.errors import VrmError
from records.flows import Authority, Transition
from store.embedded.databases import SUPERUSER
from store.install import Definition, install
from store.ledger.port import Epoch, Guard, LedgerStore, Request, no_guard
from tests.support.samples import authorization_id
from tests.support.trials import digest

_NUMBERS = itertools.count(1)


@dataclass(frozen=True)
class Addresses:
    """One database, as three roles."""

    superuser: str
    admin: str
    app: str

    @property
    def app_role(self) -> str:
        """The name of the application role."""
        return str(conninfo_to_dict(self.app)["user"])


def address(dsn: str, **changes: str) -> str:
    """Return a connection string with parts changed."""
    return make_conninfo(dsn, **changes)


@contextmanager
def fresh_database(admin: str, app: str, definition: Definition | None) -> Iterator[Addresses]:
    """Make a database of its own beside that of `admin`, with the schema unless None; drop it afterwards."""
    name = sql.Identifier(f"test_{next(_NUMBERS)}")
    text = name.as_string()[1:-1]
    owner = sql.Identifier(str(conninfo_to_dict(admin)["user"]))
    root = address(admin, user=SUPERUSER, dbname="postgres")
    with psycopg.connect(root, autocommit=True) as link:
        link.execute(sql.SQL("CREATE DATABASE {} OWNER {}").format(name, owner))
        made = Addresses(address(root, dbname=text), address(admin, dbname=text), address(app, dbname=text))
        try:
            if definition is not None:
                install(made.admin, made.app_role, definition)
            yield made
        finally:
            link.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(name))


def fresh_namespace() -> str:
    """Return a namespace that no other test has."""
    return f"space_{next(_NUMBERS)}"


@dataclass(frozen=True)
class Writer:
    """A store with a claimed resource, and a namespace of its own."""

    store: LedgerStore
    namespace: str
    epoch: Epoch

    @classmethod
    def claim(cls, store: LedgerStore) -> Writer:
        """Claim a new resource for a new namespace."""
        name = fresh_namespace()
        return cls(store, name, store.claim(f"writer/{name}", "test"))

    def commit(self, *appends: Append, guard: Guard | None = None) -> list[AppendReceipt | VrmError]:
        """Commit appends as one group, with the guard of each one's row unless another is given."""
        requests = [Request(each, guard or GUARDS.get(each.transition, no_guard)) for each in appends]
        return self.store.commit(self.epoch, requests)

    def good(self, *appends: Append) -> list[AppendReceipt]:
        """Commit appends of which none may fail."""
        return [expect(AppendReceipt, answer) for answer in self.commit(*appends)]

    def state(self) -> dict[str, Any]:
        """Return all that can be seen of the namespace."""
        return {
            "head": self.store.namespace_head(self.namespace),
            "journal": self.store.journal(self.namespace),
            "variants": self.store.variant_heads(self.namespace),
            "receipts": self.store.receipts(self.namespace, {row.permit_key for row in self.journal()}),
        }

    def journal(self) -> list[Any]:
        """Return the journal rows."""
        return self.store.journal(self.namespace)


def chained(writer: Writer) -> list[str]:
    """Recompute the chain of a journal from what the port promises, with nothing of the product but the rows."""
    digest, chain = "0" * 64, []
    for row in writer.journal():
        stored = writer.store.get(row.id)
        assert stored is not None
        payload_digest = hashlib.sha256(stored.payload.encode()).hexdigest()
        facts = "\n".join([digest, row.namespace, str(row.position), row.id.split(":")[0], row.id, payload_digest])
        digest = hashlib.sha256(b"vrm/ledger-chain/v1\x00" + facts.encode()).hexdigest()
        chain.append(digest)
    return chain


def expect(kind: type[Any], answer: object) -> Any:
    """Return an answer that must be of a class."""
    assert isinstance(answer, kind), answer
    return answer


def evidence_append(records: Sequence[Record], key: str = "import-1") -> Append:
    """Return the direct append of evidence records."""
    return Append.direct(Transition.APPEND_EVIDENCE, key, tuple(records))


def granted(
    transition: Transition,
    records: Sequence[Record],
    name: str,
    authority: Authority = Authority.NORMAL,
    *,
    body: str = "",
) -> Append:
    """Return a granted append whose authorization is called `name`; `body` tells grants of one id apart."""
    return Append(
        namespace=records[0].namespace,
        transition=transition,
        authority=authority,
        permit_key=str(authorization_id(records[0].namespace, name)),
        permit_digest=digest(f"{name} {body}"),
        records=tuple(records),
    )


Clock = Callable[[], str]


def ticking_clock() -> Clock:
    """Return a clock that never shows the same time twice."""
    numbers = itertools.count()
    return lambda: f"2025-03-01T12:00:00.{next(numbers):06d}Z"
