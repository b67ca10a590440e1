"""`vrm erase` and `vrm recover`, run as a user runs them, over stores in memory."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from records.states import Machine, Phase
from store.artifacts import ArtifactStore
from store.ledger.memory import MemoryLedger
from store.runtime.memory import MemoryRuntime
from tests.support.stack import GOOD, Stack, Stores
from tests.support.stack_control import checked, run_of, stop
from tests.support.stack_decisions import learn
from tests.support.stack_handoffs import Scene
from vrm.cli.app import app
from vrm.cli.connection import Connection, OpenStores

CASE = ("--reason", "privacy_request", "--incident", "case-7")


@pytest.fixture
def stack(tmp_path: Path) -> Stack:
    return Stack(Stores(MemoryLedger(), MemoryRuntime(), ArtifactStore(str(tmp_path))), "space")


def _run(stack: Stack, *arguments: str, code: int = 0, acts: bool = True) -> str:
    """Run a command; one that only looks must ask for no owner."""

    @contextmanager
    def opened() -> Iterator[OpenStores]:
        yield stack.stores

    def never(_stores: OpenStores) -> Any:
        raise AssertionError("nobody who writes may be looked for")

    joined = Connection(
        opened,
        list,
        (lambda _stores: stack.coordinator) if acts else never,
        (lambda _stores: stack.owner) if acts else never,
    )
    result = CliRunner().invoke(app, list(arguments), obj=joined, env={"COLUMNS": "240", "NO_COLOR": "1"})
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code == code, result.output
    return result.stdout if code < 2 or "--json" in arguments else result.stderr


def _json(stack: Stack, *arguments: str, code: int = 0, acts: bool = True) -> Any:
    return json.loads(_run(stack, *arguments, "--json", code=code, acts=acts))


def test_a_rule_is_erased_after_a_look_at_what_that_takes(stack: Stack) -> None:
    learn(stack, GOOD)
    (rule,), (build,) = stack.load("memory-record"), stack.load("memory-index-build")
    before = stack.state()
    named = str(rule.id)[:20]
    look = _json(stack, "erase", named, *CASE, "--dry-run", acts=False)
    assert stack.state() == before
    assert (look["target"], look["namespace"], look["tombstone"]) == (str(rule.id), "space", None)
    assert (look["index_builds"], look["erased_bytes"]) == ([str(build.id)], [build.artifact.sha256])
    assert (look["retracts"], look["begun_before"], look["kept_bytes"]) == (True, False, [])
    assert "Dry run: nothing was erased." in _run(stack, "erase", named, *CASE, "--dry-run", acts=False)
    done = _json(stack, "erase", named, *CASE, "--yes")
    (tombstone,) = stack.load("memory-retention-tombstone")
    assert done == look | {"tombstone": str(tombstone.id)}
    assert not stack.stores.artifacts.holds(build.artifact.sha256)
    again = _json(stack, "erase", named, *CASE, "--yes")
    assert again == done | {"begun_before": True, "retracts": False}
    assert f"Tombstone {tombstone.id}" in _run(stack, "erase", named, *CASE, "--yes")
    assert checked(stack).clean


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("observation:f", *CASE, "--yes"), "NotFoundError"),
        (("observation:f", "--reason", "tidiness", "--incident", "case-7", "--yes"), "InvalidInputError"),
        (("observation:f", *CASE), "InvalidInputError"),
        (("observation:f", *CASE, "--yes", "--dry-run"), "InvalidInputError"),
    ],
)
def test_what_cannot_be_erased_is_a_typed_error(stack: Stack, arguments: tuple[str, ...], error: str) -> None:
    assert _json(stack, "erase", *arguments, code=2, acts=False)["error"] == error
    assert _run(stack, "erase", *arguments, code=2, acts=False).startswith(f"{error}: ")


def test_recovery_tells_what_is_unresolved_resumes_it_and_then_has_nothing_to_do(stack: Stack) -> None:
    scene = Scene(stack).cut("opened")
    stack = scene.stack
    stop(stack, scene.run_id, fail=False)
    look = _json(stack, "recover", "--dry-run", acts=False)
    assert (look["dry_run"], look["resumed"], look["waiting"]) == (True, 0, 1)
    assert [each["waiting"] for each in look["sweeps"] if each["sweep"] == "runs"] == [[{"subject": str(scene.run_id)}]]
    assert "1 unresolved" in _run(stack, "recover", "--dry-run", acts=False)
    assert run_of(stack, scene.run_id).phase is Phase.CANCELLING
    done = _json(stack, "recover")
    assert (done["resumed"], done["waiting"]) == (3, 0), "the Run, and the handoffs that it gave up are released"
    assert run_of(stack, scene.run_id).phase is Phase.CANCELLED
    assert scene.phases() == {Phase.RELEASED}
    assert _json(stack, "recover")["resumed"] == 0
    assert "0 resumed" in _run(stack, "recover")
    assert checked(stack).clean


def test_recovery_says_what_waits_and_ends_with_one(stack: Stack) -> None:
    """A grant whose proposal is gone cannot be appended; that is told, and the exit code says so."""
    scene = Scene(stack).cut("granted")
    stack = scene.stack
    for subject in stack.stores.runtime.find(Machine.AUTHORIZATION, [Phase.GRANTED]):
        stack.stores.artifacts.drop(json.loads(subject.body)["proposal_digest"], float("inf"))
    told = _json(stack, "recover", code=1)
    (grants,) = (each for each in told["sweeps"] if each["sweep"] == "authorizations")
    assert {each["error"] for each in grants["waiting"]} == {"NotFoundError"}
    assert "NotFoundError: artifact" in _run(stack, "recover", code=1)
