"""`vrm distil status` and `dead-letters`, and what ids name, over a small world in memory."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from typer.testing import CliRunner

from importers.published_table import read_published_table
from memory.work_state import work_of
from records.errors import AmbiguousIdError, InvalidInputError, NotFoundError
from store.artifacts import ArtifactStore
from store.ledger.memory import MemoryLedger
from store.runtime.memory import MemoryRuntime
from tests.data.tables import write_table
from tests.data.world import World, build_world
from vrm.cli import distil_view
from vrm.cli.app import app
from vrm.cli.connection import Connection, OpenStores


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """A world that tests only read: a table of 24 rows, distilled."""
    folder = tmp_path_factory.mktemp("world")
    table = read_published_table(write_table(folder / "table"))
    return build_world(MemoryLedger(), MemoryRuntime(), ArtifactStore(str(folder / "artifacts")), table)


def vrm(world: World, *arguments: str, code: int = 0) -> Any:
    @contextmanager
    def stores() -> Iterator[OpenStores]:
        yield world

    result = CliRunner().invoke(app, ["distil", *arguments, "--json"], obj=Connection(stores, list))
    assert result.exit_code == code, result.output
    return json.loads(result.stdout)


def test_status_accounts_for_every_item(world: World) -> None:
    assert vrm(world, "status", "--namespace", world.namespace) == {
        "namespace": world.namespace, "without_receipt": 0, "waiting": 0, "unassigned": 0, "assigned": {}, "paused": 0,
        "out_of_attempts": 0, "completed": {"covered_by_decision": 24}, "cancelled": 0, "dead_letters": [],
    }  # fmt: skip
    assert vrm(world, "dead-letters", "--namespace", world.namespace) == []
    assert vrm(world, "status", "--namespace", "elsewhere")["completed"] == {}


def test_a_namespace_before_a_command_is_not_ignored(world: World) -> None:
    result = CliRunner().invoke(app, ["distil", "--namespace", world.namespace, "status"])
    assert result.exit_code == 2
    assert "Give it after `status`" in result.stderr


def test_an_item_is_named_by_its_id_or_that_of_its_experience(world: World) -> None:
    work = work_of(world.ledger, world.namespace)
    first = work[0]
    for prefix in (first.item.id, first.item.experience_id, first.item.id.partition(":")[2], first.item.id[:40]):
        assert distil_view.asked_for(world.ledger, world.namespace, [str(prefix)]) == [first]
    both = [str(first.item.id), str(first.item.experience_id)]
    assert distil_view.asked_for(world.ledger, world.namespace, both) == [first]
    assert distil_view.asked_for(world.ledger, world.namespace, []) == [], "all of them are completed"


@pytest.mark.parametrize(
    ("prefix", "error"),
    [("", InvalidInputError), ("run:3f", InvalidInputError), ("xyz", InvalidInputError), ("f" * 64, NotFoundError),
     ("experience:", InvalidInputError)],
)  # fmt: skip
def test_what_names_nothing_is_refused(world: World, prefix: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        distil_view.asked_for(world.ledger, world.namespace, [prefix])


def test_a_beginning_of_several_ids_is_refused(world: World) -> None:
    firsts = [each.item.id.partition(":")[2][0] for each in work_of(world.ledger, world.namespace)]
    common = max(firsts, key=firsts.count)
    assert firsts.count(common) > 1, "24 items share sixteen digits"
    with pytest.raises(AmbiguousIdError):
        distil_view.asked_for(world.ledger, world.namespace, [common])


def test_what_is_to_be_retried_is_named_or_all(world: World) -> None:
    for arguments in ((), ("3fa2", "--all")):
        assert vrm(world, "retry", *arguments, code=2)["error"] == "InvalidInputError"
