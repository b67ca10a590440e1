"""There is one way into each store: enumerated over the source of every package of the product."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT = Path(__file__).parents[2]
PACKAGES = ("records", "policies", "store", "memory", "actors", "experiments", "importers", "evaluation", "vrm")
APART = (
    "evaluation/bench/",
    "evaluation/simulation/",
    "evaluation/chaos/",
    "evaluation/writer/",
    "evaluation/retrieval/",
)
"""They measure and break stores of their own, and are never pointed at anybody's memory."""


def test_the_commit_of_a_ledger_is_called_by_the_coordinator_alone() -> None:
    assert set(_calls("commit", 2)) == {"memory/coordinator.py"}


def test_the_apply_of_a_runtime_is_called_by_the_run_owner_alone() -> None:
    assert set(_calls("apply", 2)) == {"memory/run_owner.py"}


def test_owners_are_built_only_where_they_are_hosted() -> None:
    """Two live owners would fence each other, so nobody makes one in passing."""
    for name in ("CommitCoordinator", "RunOwner", "LifecycleHeads"):
        assert set(_builds(name)) == {"actors/owners.py"}, name


WRITERS: Final = {
    ("store/ledger/writing.py", "PostgresTransaction.lock_namespaces"),
    ("store/ledger/writing.py", "PostgresTransaction.move_head"),
    ("store/ledger/writing.py", "_SAVE_HEAD"),
    ("store/ledger/writing.py", "_insert"),
    ("store/ledger/writing.py", "_insert_many"),
    ("store/runtime/postgres.py", "_insert"),
    ("store/runtime/postgres.py", "_update"),
    ("store/owners.py", "_CLAIM"),
    ("store/owners.py", "_REBIND"),
}
"""Every statement of the product that writes a row, by where it stands."""

MAKERS: Final = {
    "store/install.py", "store/guards.py", "store/marks.py", "store/embedded/databases.py", "store/ledger/schema.py",
    "store/migrations/run.py", "store/migrations/steps.py",
}  # fmt: skip
"""What makes and migrates databases, roles, schemas and triggers, and the revision row; it never runs while somebody
owns the store, and writes no record."""

_WRITES: Final = re.compile(
    r"^\s*(INSERT\s+INTO|UPDATE\s|DELETE\s+FROM|MERGE\s+INTO|TRUNCATE|COPY\s)|\bDO\s+UPDATE\b|^\s*WITH\b.*\bINSERT\b"
)
_MAKES: Final = re.compile(r"^\s*(CREATE|ALTER|DROP|GRANT|REVOKE)\s+[A-Z]|\bSECURITY DEFINER\b|\bEXECUTE FUNCTION\b")


def test_every_statement_that_writes_is_known() -> None:
    found = {(path, place) for path, place, text in _texts() if _WRITES.search(text)}
    assert {where for where in found if where[0] not in MAKERS} == WRITERS
    makers = {path for path, _, text in _texts() if _MAKES.search(text)}
    assert makers == MAKERS


def test_statements_reach_a_database_as_text_only() -> None:
    """SQLAlchemy holds the schema; nothing of the product could execute what it builds."""
    for path, node in ((path, node) for path, node in _every_call() if path not in MAKERS):
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        assert name not in {"create_engine", "sessionmaker", "Session", "copy", "create_all"} or _harmless(node), path


def _harmless(node: ast.Call) -> bool:
    """Tell whether a call named `copy` copies a value and not rows: of a cursor it would have a statement."""
    return not node.args and not node.keywords


def test_transactions_that_write_are_opened_by_the_commit_alone() -> None:
    names = ("PostgresTransaction", "TrustingTransaction", "MemoryTransaction")
    assert {path for name in names for path in _builds(name)} == {"store/ledger/postgres.py", "store/ledger/memory.py"}
    for path in ("store/ledger/postgres.py", "store/ledger/memory.py"):
        tree = dict(_modules())[path]
        made = {place.split(".")[-1] for place, node in _placed(tree, "") if _is_call(node, names)}
        assert made <= {"commit", "_commit_together", "_commit_one_by_one"}, path


def test_the_guard_of_every_granted_flow_is_asked_in_the_transaction() -> None:
    """The coordinator hands each append the guard of its row; nothing else makes a `Request`."""
    assert set(_builds("Request")) == {"memory/coordinator.py"}


def _texts() -> Iterator[tuple[str, str, str]]:
    """Yield every text constant of the product but docstrings: module, where it stands, text; f-strings as one."""
    for path, tree in _modules():
        spoken = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        inside = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
        for place, node in _placed(tree, ""):
            if isinstance(node, ast.JoinedStr):
                parts = [part.value if isinstance(part, ast.Constant) else "X" for part in node.values]
                yield path, place, "".join(map(str, parts))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in spoken | inside:
                yield path, place, node.value


def _placed(node: ast.AST, place: str) -> Iterator[tuple[str, ast.AST]]:
    """Yield every node below, with the function, class or module constant that it stands in."""
    for child in ast.iter_child_nodes(node):
        inner = place
        if isinstance(child, ast.FunctionDef | ast.ClassDef):
            inner = f"{place}.{child.name}".lstrip(".")
        elif isinstance(child, ast.AnnAssign | ast.Assign) and not place:
            target = child.target if isinstance(child, ast.AnnAssign) else child.targets[0]
            inner = target.id if isinstance(target, ast.Name) else place
        yield inner, child
        yield from _placed(child, inner)


def _is_call(node: ast.AST, names: tuple[str, ...]) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names


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
            if not name.startswith(APART):
                yield name, ast.parse(path.read_text(encoding="utf-8"))
