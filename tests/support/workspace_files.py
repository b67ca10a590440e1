"""Predicates checked against real files: what the tests of the workspace share."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from memory.workspace.place import Workspace
from memory.workspace.predicates import Checker
from policies.workspace.recall import claim_recall_policy
from records.workspace import FileHash, Predicate, PredicateOutcome

LIMITS = claim_recall_policy().predicates
SECRET = b"the secret outside"
ONE, TWO = "1" * 40, "2" * 40


def sha(data: bytes) -> str:
    """Return a digest of bytes."""
    return hashlib.sha256(data).hexdigest()


def check(root: Path, predicate: Predicate, **more: Any) -> PredicateOutcome:
    """Check one predicate in a pass of its own."""
    with Workspace(root) as workspace:
        return Checker(workspace, more.pop("limits", LIMITS), **more).check(predicate)


def file_hash(path: str, data: bytes = SECRET) -> FileHash:
    """Return the predicate that a file holds some bytes."""
    return FileHash(path=path, sha256=sha(data))


def make_root(folder: Path) -> Path:
    """Make a code base beside a secret file."""
    (folder / "secret").write_bytes(SECRET)
    made = folder / "app"
    (made / "src" / "deep").mkdir(parents=True)
    (made / "src" / "deep" / "code.py").write_bytes(b"print(1)\n")
    return made
