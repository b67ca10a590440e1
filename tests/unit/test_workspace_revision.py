"""The commit of a workspace, read from the files of its repository without running anything."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from records.workspace import GitRevision, PredicateOutcome
from tests.support.workspace_files import ONE, TWO, check, make_root

O = PredicateOutcome  # noqa: E741  # as in tests/unit/test_workspace_predicates.py


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_root(tmp_path)


REVISIONS: dict[str, tuple[dict[str, str], PredicateOutcome]] = {
    "detached": ({"HEAD": f"{ONE}\n"}, O.HOLDS),
    "branch": ({"HEAD": "ref: refs/heads/main\n", "refs/heads/main": f"{ONE}\n"}, O.HOLDS),
    "packed": ({"HEAD": "ref: refs/heads/main\n", "packed-refs": f"# peeled\n{ONE} refs/heads/main\n"}, O.HOLDS),
    "loose before packed": (
        {"HEAD": "ref: refs/heads/main\n", "refs/heads/main": f"{ONE}\n", "packed-refs": f"{TWO} refs/heads/main\n"},
        O.HOLDS,
    ),
    "symbolic": (
        {"HEAD": "ref: refs/heads/a\n", "refs/heads/a": "ref: refs/heads/b\n", "refs/heads/b": f"{ONE}\n"},
        O.HOLDS,
    ),
    "other": ({"HEAD": f"{TWO}\n"}, O.DIFFERS),
    "unborn": ({"HEAD": "ref: refs/heads/main\n"}, O.NO_REVISION),
    "loop": ({"HEAD": "ref: refs/heads/a\n", "refs/heads/a": "ref: refs/heads/a\n"}, O.NO_REVISION),
    "escape": ({"HEAD": "ref: refs/../../../secret\n"}, O.NO_REVISION),
    "no reference": ({"HEAD": "ref: config\n", "config": f"{ONE}\n"}, O.NO_REVISION),
    "another form": ({"HEAD": "ref: refs/heads/.invalid\n", "reftable/tables.list": "x\n"}, O.NO_REVISION),
    "nonsense": ({"HEAD": "\x00\udcff\n".encode("utf-8", "replace").decode()}, O.NO_REVISION),
    "empty": ({"HEAD": ""}, O.NO_REVISION),
    "short": ({"HEAD": ONE[:12]}, O.NO_REVISION),
}  # fmt: skip


@pytest.mark.parametrize("case", REVISIONS)
def test_head_is_read_from_the_files_of_a_repository(root: Path, case: str) -> None:
    files, outcome = REVISIONS[case]
    for name, text in files.items():
        path = root / ".git" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert check(root, GitRevision(revision=ONE)) is outcome


def test_a_folder_without_a_repository_has_no_revision(root: Path) -> None:
    (root.parent / ".git").mkdir()
    (root.parent / ".git" / "HEAD").write_text(f"{ONE}\n", encoding="utf-8")
    assert check(root, GitRevision(revision=ONE)) is O.NO_REVISION, "that of a folder above is another workspace's"
    (root / ".git").write_text(f"gitdir: {root.parent / '.git'}\n", encoding="utf-8")
    assert check(root, GitRevision(revision=ONE)) is O.NO_REVISION
    (root / ".git").unlink()
    (root / ".git").symlink_to(root.parent / ".git")
    assert check(root, GitRevision(revision=ONE)) is O.OUTSIDE


@pytest.fixture
def git(root: Path) -> Callable[..., str]:
    """Run git in the workspace, apart from any configuration of this machine."""
    who = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@x", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@x"}
    apart = {"PATH": os.environ["PATH"], "HOME": str(root.parent), "GIT_CONFIG_NOSYSTEM": "1", **who}

    def run(*arguments: str) -> str:
        command = ["git", "-C", str(root), *arguments]
        return subprocess.run(command, capture_output=True, check=True, text=True, env=apart).stdout.strip()

    run("init", "--quiet", "--initial-branch", "main")
    return run


def test_head_is_what_git_says_at_every_step(root: Path, git: Callable[..., str]) -> None:
    assert check(root, GitRevision(revision=ONE)) is O.NO_REVISION, "nothing is committed yet"
    git("add", ".")
    git("commit", "--quiet", "-m", "one")
    first = GitRevision(revision=git("rev-parse", "HEAD"))
    assert check(root, first) is O.HOLDS
    git("pack-refs", "--all", "--prune")
    assert not (root / ".git" / "refs" / "heads" / "main").exists()
    assert check(root, first) is O.HOLDS
    git("commit", "--quiet", "--allow-empty", "-m", "two")
    assert check(root, first) is O.DIFFERS
    assert check(root, GitRevision(revision=git("rev-parse", "HEAD"))) is O.HOLDS
    git("checkout", "--quiet", "--detach", first.revision)
    assert check(root, first) is O.HOLDS


def test_no_program_of_a_repository_runs(root: Path, git: Callable[..., str]) -> None:
    """Everything that git would start by itself writes a mark; git itself is shown to start some of it."""
    mark, script = root.parent / "ran", root.parent / "script"
    script.write_text(f"#!/bin/sh\necho ran >> {mark}\n", encoding="utf-8")
    script.chmod(0o755)
    git("add", ".")
    git("commit", "--quiet", "-m", "one")
    revision = git("rev-parse", "HEAD")
    for name in ("core.fsmonitor", "core.pager", "core.sshCommand", "core.editor", "diff.external", "alias.rev-parse"):
        git("config", name, str(script))
    hooks = root / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    for name in ("post-checkout", "post-index-change", "reference-transaction", "fsmonitor-watchman"):
        (hooks / name).write_bytes(script.read_bytes())
        (hooks / name).chmod(0o755)
    mark.unlink(missing_ok=True)
    assert check(root, GitRevision(revision=revision)) is O.HOLDS
    assert not mark.exists()
    git("status")
    assert mark.exists(), "these settings do run something where git is asked"
