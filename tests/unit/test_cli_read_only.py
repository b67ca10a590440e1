"""The reading commands, run as a user runs them, over a world in memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from importers.published_table import read_published_table
from records.errors import UnavailableError, VrmError
from records.states import Machine, Phase
from store.artifacts import ArtifactStore
from store.ledger.memory import MemoryLedger
from store.runtime.memory import MemoryRuntime
from tests.data.tables import write_table
from tests.data.world import World, active_rules, build_world
from vrm.cli.app import app
from vrm.cli.connection import Connection, OpenStores, Service


@dataclass(frozen=True)
class Answer:
    """What a command printed and how it ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one JSON value on standard output."""
        return json.loads(self.out)


def _build(folder: Path) -> World:
    table = read_published_table(write_table(folder / "table"))
    return build_world(MemoryLedger(), MemoryRuntime(), ArtifactStore(str(folder / "artifacts")), table)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """A world that tests only read."""
    return _build(tmp_path_factory.mktemp("world"))


@pytest.fixture
def damaged(tmp_path: Path) -> World:
    """A world of one test, which damages it."""
    return _build(tmp_path)


def _run(world: World | VrmError, *arguments: str, postgres: bool = True) -> Answer:
    @contextmanager
    def stores() -> Iterator[OpenStores]:
        if isinstance(world, VrmError):
            raise world
        yield world

    services = [Service("postgres", running=postgres, detail="in memory"), Service("ray", running=False, detail="none")]
    result = CliRunner().invoke(
        app, list(arguments), obj=Connection(stores, lambda: services), env={"COLUMNS": "240", "NO_COLOR": "1"}
    )
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return Answer(result.exit_code, result.stdout, result.stderr)


def test_status_counts_what_the_stores_hold(world: World) -> None:
    answer = _run(world, "status", "--json")
    assert answer.code == 0
    data = answer.json
    assert isinstance(world.ledger, MemoryLedger)
    assert data["records"] == dict(world.ledger.table_counts())
    (row,) = data["namespaces"]
    assert row["position"] == sum(data["records"].values())
    assert row["heads"] == {"active": 1}
    # 24 enqueues, 24 commits, one intent, context and outcome: the grants of this world.
    assert data["runtime"]["authorization"] == {"COMMITTED": 51}
    assert data["unresolved_authorizations"] == []
    assert data["services"]["ray"] == {"running": False, "detail": "none"}


def test_status_is_readable(world: World) -> None:
    answer = _run(world, "status")
    assert answer.code == 0
    for text in ("postgres", "not running", "world", "memory-record", "COMMITTED", "0 unresolved authorizations"):
        assert text in answer.out


def test_status_names_an_unresolved_authorization(damaged: World) -> None:
    assert isinstance(damaged.runtime, MemoryRuntime)
    subject = damaged.runtime.find(Machine.AUTHORIZATION)[0]
    damaged.runtime._subjects[Machine.AUTHORIZATION, subject.id] = subject.model_copy(update={"phase": Phase.GRANTED})
    assert _run(damaged, "status", "--json").json["unresolved_authorizations"] == [subject.id]


def test_status_of_a_stopped_installation_opens_nothing() -> None:
    never = UnavailableError("stores", "opened", "They must not be.")
    answer = _run(never, "status", "--json", postgres=False)
    assert (answer.code, set(answer.json)) == (0, {"services"})


def test_list_shows_the_active_rule(world: World) -> None:
    (rule,) = active_rules(world)
    answer = _run(world, "knowledge", "list", "--json")
    assert answer.code == 0
    (listed,) = answer.json
    assert (listed["id"], listed["disposition"], listed["current"]) == (rule.id, "active", True)
    assert listed["record"] == rule.as_json()
    text = _run(world, "knowledge", "list").out
    # The table's effect is 0.1 plus 0 to 5 thousandths over six roots: the mean is 0.1025.
    for part in (rule.id.partition(":")[2][:12], "recommend", "+0.1025 score", "95 % mean", "95 % new task", "strong"):
        assert part in text


def test_list_of_an_unknown_namespace_is_a_typed_error(world: World) -> None:
    answer = _run(world, "knowledge", "list", "--namespace", "nowhere", "--json")
    assert (answer.code, answer.json["error"], answer.json["value"]) == (2, "NotFoundError", "nowhere")


def test_list_without_rules_says_so(damaged: World) -> None:
    assert isinstance(damaged.ledger, MemoryLedger)
    for variant, head in damaged.ledger._state.variants.items():
        damaged.ledger._state.variants[variant] = head._replace(disposition="contested")
    assert "No active rules" in _run(damaged, "knowledge", "list").out
    assert "(contested)" in _run(damaged, "knowledge", "list", "--all").out
    assert _run(damaged, "knowledge", "list", "--json").json == []


@pytest.mark.parametrize("form", ["memory-record:{}", "{}", "  {}", "MEMORY-RECORD:{}"])
def test_show_takes_any_beginning_of_an_id(world: World, form: str) -> None:
    (rule,) = active_rules(world)
    answer = _run(world, "knowledge", "show", form.format(rule.id.partition(":")[2][:6]), "--json")
    assert (answer.code, answer.json["id"]) == (0, rule.id)


def test_show_lists_the_evidence_with_its_numbers(world: World) -> None:
    (rule,) = active_rules(world)
    data = _run(world, "knowledge", "show", rule.id, "--json").json
    assert [event["event"]["event_type"] for event in data["events"]] == ["promoted_active"]
    evidence = data["evidence"]
    assert len(evidence) == len(rule.links) == 12
    by_place = {(item["dataset_root"], item["seed"]): (item["baseline"], item["changed"]) for item in evidence}
    # Root c is the third: 0.5 + 0.02, seed 1 adds 0.001, the larger step 0.1 + 0.002.
    assert by_place["root-c", 1] == (0.521, 0.623)
    text = _run(world, "knowledge", "show", rule.id).out
    for part in ("History of the scope variant", "Evidence", "root-c", "+0.102", "supports", "6 roots, 12 pairs"):
        assert part in text


@pytest.mark.parametrize(
    ("argument", "error"),
    [("f" * 64, "NotFoundError"), ("experience:1", "InvalidInputError"), ("x!", "InvalidInputError"),
     ("memory-record:", "InvalidInputError")],
)  # fmt: skip
def test_show_refuses_what_names_no_rule(world: World, argument: str, error: str) -> None:
    answer = _run(world, "knowledge", "show", argument, "--json")
    assert (answer.code, answer.json["error"]) == (2, error)
    assert answer.err == ""


def test_show_refuses_an_ambiguous_beginning(damaged: World) -> None:
    """A second rule with the same first digit: the one record under a made-up id, which reading does not notice."""
    (rule,) = active_rules(damaged)
    assert isinstance(damaged.ledger, MemoryLedger)
    first = rule.id.partition(":")[2][0]
    other = f"memory-record:{first}{'0' * 63}"
    damaged.ledger._state.records[other] = replace(damaged.ledger._state.records[str(rule.id)], id=other)
    answer = _run(damaged, "knowledge", "show", first)
    assert answer.code == 2
    assert answer.err.startswith("AmbiguousIdError: id\n  met:    ")
    assert other[:20] in answer.err
    assert answer.out == ""


def test_runs_lists_what_is_not_over_and_all_on_request(world: World) -> None:
    runs = {run.id: run for run in world.runtime.find(Machine.RUN)}
    over = {key for key, run in runs.items() if run.phase is Phase.COMPLETED}
    assert {each["id"] for each in _run(world, "runs", "list", "--json").json["runs"]} == runs.keys() - over
    listed = _run(world, "runs", "list", "--all", "--json").json["runs"]
    assert {each["id"] for each in listed} == runs.keys()
    assert {each["kind"] for each in listed} == {"SCIENTIFIC", "MEMORY_DISTILLATION"}
    assert {each["id"] for each in _run(world, "runs", "list", "--phase", "completed", "--json").json["runs"]} == over
    # Each campaign was leased once; an import and a decision take no lease.
    spent = [each["budget"] for each in listed if each["kind"] == "MEMORY_DISTILLATION"]
    assert spent == [[{"resource": "activity_attempts", "limit": 50, "spent": 1}]] * 24


def test_a_command_is_given_to_one_run(world: World) -> None:
    run = world.runtime.find(Machine.RUN, [Phase.COMPLETED])[0]
    shown = _run(world, "runs", "show", run.id, "--json").json
    assert (shown["id"], shown["phase"], shown["open_subjects"]) == (run.id, "COMPLETED", [])
    assert run.id.partition(":")[2][:12] in _run(world, "runs", "show", run.id).out


def test_fsck_tells_clean_and_damaged_by_its_exit_code(damaged: World) -> None:
    answer = _run(damaged, "fsck", "--json")
    assert (answer.code, answer.json["clean"], answer.json["violations"]) == (0, True, [])
    assert _run(damaged, "fsck").out.rstrip().endswith("Clean.")
    assert isinstance(damaged.ledger, MemoryLedger)
    for variant, head in damaged.ledger._state.variants.items():
        damaged.ledger._state.variants[variant] = head._replace(version=9)
    answer = _run(damaged, "fsck", "--json")
    assert (answer.code, answer.json["counts"]) == (1, {"head_not_fold": 1})
    assert "remedy:" in _run(damaged, "fsck").out


def test_fsck_can_be_asked_about_one_namespace(world: World) -> None:
    assert _run(world, "fsck", "--namespace", world.namespace, "--json").json["checked"]["namespaces"] == 1
    answer = _run(world, "fsck", "--namespace", "other")
    assert (answer.code, answer.out) == (2, "")
    assert f"There are: {world.namespace}." in answer.err


def test_fsck_can_leave_artifacts_alone(damaged: World) -> None:
    for digest in damaged.artifacts.digests():
        Path(damaged.artifacts.location(digest)).unlink()
    assert _run(damaged, "fsck", "--no-artifacts", "--json").code == 0
    assert set(_run(damaged, "fsck", "--json").json["counts"]) == {"artifact_missing"}


def test_gc_shows_by_default_and_removes_when_asked(damaged: World) -> None:
    rubbish = damaged.artifacts.publish(b"rubbish")
    assert _run(damaged, "gc", "--json").json["files"] == []  # it is young
    for digest in damaged.artifacts.digests():
        os.utime(damaged.artifacts.location(digest), (0, 0))
    answer = _run(damaged, "gc", "--json")
    assert (answer.code, answer.json["removed"]) == (0, False)
    assert {"name": rubbish, "bytes": len(b"rubbish")} in answer.json["files"]
    assert answer.json["bytes"] == sum(each["bytes"] for each in answer.json["files"])
    assert "Would remove" in _run(damaged, "gc").out
    assert damaged.artifacts.holds(rubbish)
    assert rubbish in _run(damaged, "gc", "--remove").out
    assert not damaged.artifacts.holds(rubbish)
    assert _run(damaged, "fsck", "--json").json["clean"]


@pytest.mark.parametrize(
    "command",
    [("status",), ("fsck",), ("gc",), ("knowledge", "list"), ("knowledge", "show", "a"), ("runs", "list"),
     ("runs", "show", "a"), ("runs", "cancel", "a")],
)  # fmt: skip
def test_an_error_is_one_block_and_never_a_traceback(command: tuple[str, ...]) -> None:
    error = UnavailableError("postgres", "connection refused", "Start the server.")
    answer = _run(error, *command)
    block = "UnavailableError: postgres\n  met:    connection refused\n  remedy: Start the server.\n"
    assert (answer.code, answer.out, answer.err) == (2, "", block)
    answer = _run(error, *command, "--json")
    assert (answer.code, answer.err) == (2, "")
    assert answer.json == error.as_dict()


@pytest.mark.parametrize(
    "command",
    [(), ("status",), ("fsck",), ("gc",), ("knowledge",),
     *(("knowledge", name) for name in ("list", "show", "history", "why-not", "plot")), ("runs",),
     *(("runs", name) for name in ("list", "show", "pause", "resume", "cancel", "fail", "budget"))],
)  # fmt: skip
def test_help_has_examples(command: tuple[str, ...]) -> None:
    answer = _run(UnavailableError("stores", "opened", "Help needs none."), *command, "--help")
    assert answer.code == 0
    assert "Examples:" in answer.out or command in {("knowledge",), ("runs",)}


def test_help_loads_neither_stores_nor_drivers() -> None:
    code = (
        "import sys, vrm.cli.app; heavy = {'pydantic', 'sqlalchemy', 'psycopg', 'ray', 'numpy', 'store', 'memory'}; "
        "sys.exit(','.join(sorted(heavy & sys.modules.keys())) or None)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
