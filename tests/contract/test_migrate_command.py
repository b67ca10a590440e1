"""`vrm migrate` on an installation of an earlier revision: with its own Postgres, and with databases that are given."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from store.migrations.chain import Chain
from store.server import DatabaseUrls, EmbeddedPostgres
from tests.support.next_revision import next_chain
from tests.support.old_stores import FOLDERS, load, loaded, unpack_artifacts
from vrm.cli.app import app
from vrm.home import Home


@pytest.fixture
def chain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Chain:
    """The chain of a program that knows one revision more of the Ledger than there is."""
    made = next_chain(tmp_path)
    monkeypatch.setattr("store.migrations.chain.LEDGER", made)
    monkeypatch.setattr("vrm.bootstrap.LEDGER", made.definition)
    return made


@pytest.fixture
def home(open_path: Path) -> Home:
    made = Home(open_path / "h").create()
    unpack_artifacts(FOLDERS[1], made.artifacts)
    return made


@pytest.fixture(params=["embedded", "given"])
def environment(request: pytest.FixtureRequest, home: Home) -> Iterator[dict[str, str]]:
    """The environment of an installation whose databases hold what the program of revision 1 wrote."""
    if request.param == "embedded":
        server = EmbeddedPostgres(home.postgres, home.postgres_sockets, bound=True)
        urls = server.start()
        load(urls.ledger_admin, FOLDERS[1], "ledger")
        load(urls.runtime_admin, FOLDERS[1], "runtime")
        yield {"VRM_HOME": str(home.root)}
        server.stop()
        return
    session: DatabaseUrls = request.getfixturevalue("postgres_urls")
    with loaded(session, FOLDERS[1], "ledger") as ledger, loaded(session, FOLDERS[1], "runtime") as runtime:
        yield {
            "VRM_HOME": str(home.root),
            "VRM_LEDGER_DSN": ledger.app,
            "VRM_LEDGER_ADMIN_DSN": ledger.admin,
            "VRM_RUNTIME_DSN": runtime.app,
            "VRM_RUNTIME_ADMIN_DSN": runtime.admin,
        }


def call(environment: dict[str, str], *arguments: str, code: int = 0) -> str:
    done = CliRunner().invoke(app, arguments, env=environment)
    assert done.exit_code == code, (arguments, done.output, done.exception)
    return done.stdout


def call_json(environment: dict[str, str], *arguments: str, code: int = 0) -> Any:
    return json.loads(call(environment, *arguments, "--json", code=code))


def test_from_refusal_to_a_clean_store(environment: dict[str, str], chain: Chain) -> None:
    refused = call_json(environment, "fsck", code=2)
    assert refused["error"] == "OutdatedSchemaError"
    assert "vrm migrate" in refused["remedy"]

    plan = call_json(environment, "migrate", "--dry-run")
    ledger, runtime = plan["schemas"]
    assert plan["dry_run"]
    assert (ledger["schema"], ledger["from"], ledger["to"]) == ("ledger", "1", chain.definition.revision)
    assert ledger["steps"][-1] == {
        "revision": chain.definition.revision,
        "what": "Files become rows, roots a column, and notes a kind.",
    }
    assert (runtime["schema"], runtime["from"]) == ("runtime", "1")
    assert call_json(environment, "fsck", code=2) == refused

    told = call(environment, "migrate").splitlines()
    assert told[0] == f"ledger: went from revision 1 to {chain.definition.revision}"
    assert f"  {chain.definition.revision}  Files become rows, roots a column, and notes a kind." in told
    assert call_json(environment, "fsck")["clean"]
    assert f"ledger: revision {chain.definition.revision}, nothing to do" in call(environment, "migrate")


def test_a_home_without_a_store_is_told_to_make_one(open_path: Path, postgres_urls: DatabaseUrls) -> None:
    environment = {
        "VRM_HOME": str(open_path / "h"),
        "VRM_LEDGER_DSN": postgres_urls.ledger_admin,
        "VRM_RUNTIME_DSN": postgres_urls.runtime_admin,
    }
    refused = call_json(environment, "migrate", code=2)
    assert (refused["error"], refused["remedy"]) == ("SchemaError", "Run `vrm up` once to create it.")
