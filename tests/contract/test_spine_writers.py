"""There is one way into each store: enumerated over the source of every package of the product."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("records", "policies", "store", "memory", "actors", "experiments", "importers", "evaluation", "vrm")
BENCH = "evaluation/bench/"
"""Measures stores of its own against references of its own, and is never pointed at anybody's memory."""


def test_the_commit_of_a_ledger_is_called_by_the_coordinator_alone() -> None:
    assert set(_calls("commit", 2)) == {"memory/coordinator.py"}


def test_the_apply_of_a_runtime_is_called_by_the_run_owner_alone() -> None:
    assert set(_calls("apply", 2)) == {"memory/run_owner.py"}


def test_owners_are_built_only_where_they_are_hosted() -> None:
    """Two live owners would fence each other, so nobody makes one in passing."""
    for name in ("CommitCoordinator", "RunOwner", "LifecycleHeads"):
        assert set(_builds(name)) == {"actors/owners.py"}, name


def test_no_statement_that_writes_stands_outside_the_store() -> None:
    for path, tree in _modules():
        texts = [
            node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)
        ]
        writing = [text for text in texts if text.lstrip().startswith(("INSERT INTO", "UPDATE ", "DELETE FROM"))]
        assert not writing or path.startswith("store/"), path


def test_the_guard_of_every_granted_flow_is_asked_in_the_transaction() -> None:
    """The coordinator hands each append the guard of its row; nothing else makes a `Request`."""
    assert set(_builds("Request")) == {"memory/coordinator.py"}


def _calls(method: str, arguments: int) -> Iterator[str]:
    """Yield every module that calls a method of this name with so many arguments."""
    for path, node in _every_call():
        named = isinstance(node.func, ast.Attribute) and node.func.attr == method
        if named and len(node.args) + len(node.keywords) == arguments:
            yield path


def _builds(name: str) -> Iterator[str]:
    """Yield every module that calls a class or function by its name."""
    for path, node in _every_call():
        if isinstance(node.func, ast.Name) and node.func.id == name:
            yield path


def _every_call() -> Iterator[tuple[str, ast.Call]]:
    for path, tree in _modules():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                yield path, node


def _modules() -> Iterator[tuple[str, ast.Module]]:
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            name = path.relative_to(ROOT).as_posix()
            if not name.startswith(BENCH):
                yield name, ast.parse(path.read_text(encoding="utf-8"))
