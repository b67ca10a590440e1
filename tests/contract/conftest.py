"""Fresh databases for the stores; a module that does not ask for Postgres starts none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from store.artifacts import ArtifactStore
from store.ledger.memory import MemoryLedger
from store.ledger.port import LedgerStore
from store.ledger.postgres import PostgresLedger
from store.ledger.schema import DEFINITION as LEDGER
from store.runtime.memory import MemoryRuntime
from store.runtime.port import RuntimeStore
from store.runtime.postgres import PostgresRuntime
from store.runtime.schema import DEFINITION as RUNTIME
from store.server import DatabaseUrls
from tests.support.incidents import Incident
from tests.support.stack import GOOD, Stack, Stores
from tests.support.stack_decisions import learn
from tests.support.stores import Addresses, Writer, fresh_database, fresh_namespace

ADAPTERS = ("memory", "postgres")


@pytest.fixture(scope="module")
def ledger_database(postgres_urls: DatabaseUrls) -> Iterator[Addresses]:
    with fresh_database(postgres_urls.ledger_admin, postgres_urls.ledger_app, LEDGER) as addresses:
        yield addresses


@pytest.fixture(scope="module")
def runtime_database(postgres_urls: DatabaseUrls) -> Iterator[Addresses]:
    with fresh_database(postgres_urls.runtime_admin, postgres_urls.runtime_app, RUNTIME) as addresses:
        yield addresses


@pytest.fixture(scope="module", params=ADAPTERS)
def ledger(request: pytest.FixtureRequest) -> Iterator[LedgerStore]:
    """The Ledger under test: each adapter in turn."""
    store: LedgerStore
    if request.param == "memory":
        store = MemoryLedger()
    else:
        store = PostgresLedger(request.getfixturevalue("ledger_database").app, "test")
    yield store
    store.close()


@pytest.fixture(scope="module", params=ADAPTERS)
def runtime(request: pytest.FixtureRequest) -> Iterator[RuntimeStore]:
    """The Runtime under test: each adapter in turn."""
    store: RuntimeStore
    if request.param == "memory":
        store = MemoryRuntime()
    else:
        store = PostgresRuntime(request.getfixturevalue("runtime_database").app, "test")
    yield store
    store.close()


@pytest.fixture
def writer(ledger: LedgerStore) -> Writer:
    return Writer.claim(ledger)


@pytest.fixture
def stack(ledger: LedgerStore, runtime: RuntimeStore, tmp_path: Path) -> Stack:
    return Stack(Stores(ledger, runtime, ArtifactStore(str(tmp_path))), fresh_namespace())


@pytest.fixture
def incident(stack: Stack) -> Incident:
    return Incident(stack, learn(stack, GOOD), stack.admit("erasure"))
