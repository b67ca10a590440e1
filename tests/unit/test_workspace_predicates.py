"""Predicates against real files: what holds, what fails, and that nothing leaves the workspace or wakes anything."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
import socket
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from memory.workspace.contents import Digests, Limits
from memory.workspace.place import CheckRefused, Workspace
from memory.workspace.predicates import Checker, value_digest
from policies.workspace.recall import claim_recall_policy
from records.errors import InvalidInputError
from records.workspace import ConfigValue, FileHash, GitRevision, Predicate, PredicateOutcome
from tests.support.trials import digest
from tests.support.workspace_samples import make_claim

LIMITS = claim_recall_policy().predicates
SECRET = b"the secret outside"
O = PredicateOutcome  # noqa: E741  # the table below is read by column


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def check(root: Path, predicate: Predicate, **more: Any) -> PredicateOutcome:
    with Workspace(root) as workspace:
        return Checker(workspace, more.pop("limits", LIMITS), **more).check(predicate)


def file_hash(path: str, data: bytes = SECRET) -> FileHash:
    return FileHash(path=path, sha256=sha(data))


def unchecked(path: str) -> FileHash:
    """Return a predicate whose path no constructor has looked at."""
    return FileHash(path="a", sha256=sha(SECRET)).model_copy(update={"path": path})


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "secret").write_bytes(SECRET)
    made = tmp_path / "app"
    (made / "src" / "deep").mkdir(parents=True)
    (made / "src" / "deep" / "code.py").write_bytes(b"print(1)\n")
    return made


@pytest.mark.parametrize(
    "data", [b"", b"print(1)\n", b"\x00\xff\xfe\x80", "größe".encode("latin-1"), "ü".encode("utf-16"), b"x" * 3_000_000]
)
def test_a_file_hash_is_over_bytes_whatever_they_say(root: Path, data: bytes) -> None:
    (root / "src" / "a file é.bin").write_bytes(data)
    assert check(root, file_hash("src/a file é.bin", data)) is O.HOLDS
    assert check(root, file_hash("src/a file é.bin", data + b".")) is O.DIFFERS


@pytest.mark.parametrize(
    ("path", "outcome"),
    [
        ("src/deep/none.py", O.MISSING),
        ("none/deep/code.py", O.MISSING),
        ("x" * 300, O.MISSING),
        ("src", O.NOT_A_FILE),
        ("src/deep/code.py/more", O.NOT_A_FILE),
    ],
)
def test_what_is_no_file_fails(root: Path, path: str, outcome: PredicateOutcome) -> None:
    assert check(root, file_hash(path)) is outcome


@pytest.mark.parametrize("path", ["../secret", "src/../../secret", "/etc/passwd", "src//deep/code.py", ".", "", "a\0b"])
def test_traversal_is_refused_again_where_files_are_opened(root: Path, path: str) -> None:
    assert check(root, unchecked(path)) is O.OUTSIDE
    assert check(root, unchecked(str(root.parent / "secret"))) is O.OUTSIDE


def test_no_part_of_a_path_may_be_a_link(root: Path) -> None:
    (root / "file-out").symlink_to(root.parent / "secret")
    (root / "folder-out").symlink_to(root.parent)
    (root / "up").symlink_to("..")
    (root / "file-in").symlink_to("src/deep/code.py")
    (root / "loop").symlink_to("loop")
    (root / "nowhere").symlink_to("not/there")
    for path in ("file-out", "folder-out/secret", "up/secret", "folder-out/app/src/deep/code.py", "nowhere"):
        assert check(root, file_hash(path)) is O.OUTSIDE, path
    assert check(root, file_hash("file-in", b"print(1)\n")) is O.OUTSIDE, "where it leads is not decided"
    assert check(root, file_hash("loop")) is O.OUTSIDE


def test_the_root_itself_may_be_reached_by_a_link(root: Path) -> None:
    (root.parent / "alias").symlink_to(root)
    assert check(root.parent / "alias", file_hash("src/deep/code.py", b"print(1)\n")) is O.HOLDS
    for wrong in (root / "src" / "deep" / "code.py", root / "none", root.parent / "secret"):
        with pytest.raises(InvalidInputError, match="root"):
            Workspace(wrong)


@pytest.mark.parametrize("swapped", ["folder", "file"])
def test_a_link_that_is_swapped_in_during_the_check_leads_nowhere(root: Path, swapped: str) -> None:
    """Another thread puts a folder or a file, and a link to one outside, in turn at the same place."""
    outside = root.parent / "elsewhere"
    outside.mkdir()
    (outside / "code.py").write_bytes(SECRET)
    place = root / "src" / "deep" if swapped == "folder" else root / "src" / "deep" / "code.py"
    spare, link = root / "spare", root / "link"
    link.symlink_to(outside if swapped == "folder" else outside / "code.py")
    over = threading.Event()

    def swap() -> None:
        while not over.is_set():
            place.rename(spare)
            link.rename(place)
            place.rename(link)
            spare.rename(place)

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        met = {check(root, file_hash("src/deep/code.py")) for _ in range(1500)}
    finally:
        over.set()
        thread.join()
    assert O.HOLDS not in met, "the bytes outside were reached"
    assert {O.DIFFERS, O.OUTSIDE} <= met, "both were met, so the check was raced"


def test_a_pipe_a_device_and_a_socket_are_not_opened(root: Path) -> None:
    os.mkfifo(root / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        with contextlib.chdir(root):  # the name of a socket is short
            listening.bind("socket")
        for path in ("pipe", "socket"):
            assert check(root, file_hash(path, b"")) is O.NOT_A_FILE
    for path in ("null", "zero", "tty"):
        assert check(Path("/dev"), file_hash(path, b"")) is O.NOT_A_FILE
    writer = threading.Event()

    def write() -> None:
        with (root / "pipe").open("wb"):
            writer.set()

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    for _ in range(50):
        assert check(root, file_hash("pipe", b"")) is O.NOT_A_FILE
    assert not writer.is_set(), "whoever waits at the other end was woken"
    os.close(os.open(root / "pipe", os.O_RDONLY))
    thread.join()


def test_a_huge_file_is_not_read(root: Path) -> None:
    with (root / "huge").open("wb") as file:
        file.truncate(1 << 40)  # a terabyte without a block on the disk
    with Workspace(root) as workspace:
        digests = Digests(LIMITS.settle_ms / 1000)
        assert Checker(workspace, LIMITS, digests).check(file_hash("huge")) is O.TOO_LARGE
        assert digests.hashed == 0
    assert check(root, ConfigValue(path="huge", key=("a",), sha256=digest("1"))) is O.TOO_LARGE


def test_a_file_larger_than_it_says_is_cut_off() -> None:
    """Files of /proc say that they have no bytes."""
    assert Path("/proc/self/status").stat().st_size == 0
    small = LIMITS.model_copy(update={"max_bytes": 16})
    assert check(Path("/proc/self"), file_hash("status"), limits=small) is O.TOO_LARGE


def test_what_cannot_be_read_fails(root: Path) -> None:
    """The memory of this process is a regular file whose first byte nobody may read."""
    assert check(Path("/proc/self"), file_hash("mem")) is O.UNREADABLE
    if os.geteuid() != 0:
        (root / "src" / "deep" / "code.py").chmod(0)
        assert check(root, file_hash("src/deep/code.py", b"print(1)\n")) is O.UNREADABLE


def test_a_check_that_takes_too_long_fails(root: Path) -> None:
    (root / "long").write_bytes(b"x" * (3 << 20))
    hours = itertools.count(0, 3600)
    assert check(root, file_hash("long", b"x" * (3 << 20)), clock=lambda: next(hours)) is O.TIMED_OUT


def test_a_closed_workspace_fails_closed(root: Path) -> None:
    workspace = Workspace(root)
    workspace.close()
    workspace.close()
    assert Checker(workspace, LIMITS).check(file_hash("src/deep/code.py", b"print(1)\n")) is not O.HOLDS


CONFIG = {"retry": {"limit": 3, "waits": [0.5, 1, None]}, "a.b": {"": "é"}, "on": True}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (("retry", "limit"), 3), (("retry",), CONFIG["retry"]), (("retry", "waits", "0"), 0.5),
        (("retry", "waits", "2"), None), (("a.b", ""), "é"), (("on",), True),
    ],
)  # fmt: skip
def test_a_configuration_value_is_compared_by_its_canonical_json(root: Path, key: tuple[str, ...], value: Any) -> None:
    (root / "config.json").write_text(json.dumps(CONFIG, indent=4), encoding="utf-8")
    predicate = ConfigValue(path="config.json", key=key, sha256=value_digest(value))
    assert check(root, predicate) is O.HOLDS
    (root / "config.json").write_text(json.dumps(CONFIG, sort_keys=True), encoding="utf-8")
    assert check(root, predicate) is O.HOLDS, "order and space of the file are no part of the value"
    other = ConfigValue(path="config.json", key=key, sha256=value_digest([value]))
    assert check(root, other) is O.DIFFERS


@pytest.mark.parametrize("key", [("retry", "max"), ("retry", "waits", "3"), ("retry", "waits", "-1"), ("on", "x"),
                                 ("retry", "waits", "00"), ("retry", "waits", "٣"), ("retry.limit",)])  # fmt: skip
def test_a_key_that_is_not_there_fails(root: Path, key: tuple[str, ...]) -> None:
    (root / "config.json").write_text(json.dumps(CONFIG), encoding="utf-8")
    assert check(root, ConfigValue(path="config.json", key=key, sha256=value_digest(None))) is O.MISSING


@pytest.mark.parametrize(
    "data",
    [
        b"", b"{", b"\xff\xfe{\x00", b'\xef\xbb\xbf{"a": 1}', '{"a": "ü"}'.encode("latin-1"), b'{"a": 1, "a": 1}',
        b'{"a": NaN}', b'{"a": 1e999}', b"[" * 200_000, b'{"a": 1} {"a": 1}', '{"a": 1}'.encode("utf-16"),
    ],
)  # fmt: skip
def test_what_is_no_strict_json_fails(root: Path, data: bytes) -> None:
    (root / "config.json").write_bytes(data)
    assert check(root, ConfigValue(path="config.json", key=("a",), sha256=value_digest(1))) is O.MALFORMED


def test_true_is_not_one(root: Path) -> None:
    (root / "config.json").write_text('{"a": true}', encoding="utf-8")
    assert check(root, ConfigValue(path="config.json", key=("a",), sha256=value_digest(1))) is O.DIFFERS


# -- git


ONE, TWO = "1" * 40, "2" * 40
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


# -- remembered digests


class Hand:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def digest_of(digests: Digests, path: Path) -> str:
    with Workspace(path.parent) as workspace, workspace.opened(path.name) as file:
        return digests.digest(file, Limits(LIMITS.max_bytes, 1e9))


def test_a_digest_is_remembered_once_its_file_was_seen_unchanged_for_long_enough(tmp_path: Path) -> None:
    path, hand = tmp_path / "file", Hand()
    path.write_bytes(b"one")
    digests = Digests(3, hand)
    for moment, hashed, reused in ((100, 1, 0), (102.9, 2, 0), (103, 3, 0), (103, 3, 1), (9_000, 3, 2)):
        hand.now = moment
        assert digest_of(digests, path) == sha(b"one")
        assert (digests.hashed, digests.reused) == (hashed, reused), moment
    path.write_bytes(b"two")
    assert digest_of(digests, path) == sha(b"two")
    assert digests.hashed == 4


def test_a_file_rewritten_within_one_step_of_the_clock_is_hashed_again(tmp_path: Path) -> None:
    """Same size and inode, and times that a clock of an hour's step leaves as they were: every rewrite is seen."""
    path, hand = tmp_path / "file", Hand()
    path.write_bytes(b"0000")
    digests = Digests(3, hand, step_ns=3_600 * 10**9)
    for number in range(1, 50):
        hand.now += 0.05
        assert digest_of(digests, path) == sha(b"%04d" % (number - 1))
        with path.open("r+b") as file:
            file.write(b"%04d" % number)
    assert digest_of(digests, path) == sha(b"0049")
    assert digests.reused == 0


def test_a_file_rewritten_as_fast_as_can_be_is_hashed_again(tmp_path: Path) -> None:
    """As above by the clock of this file system, which may or may not step between two writes."""
    path, digests = tmp_path / "file", Digests(3)
    path.write_bytes(b"0000")
    for number in range(1, 200):
        assert digest_of(digests, path) == sha(b"%04d" % (number - 1))
        with path.open("r+b") as file:
            file.write(b"%04d" % number)
    assert digest_of(digests, path) == sha(b"0199")
    assert digests.reused == 0


def test_times_that_are_set_back_hide_nothing(tmp_path: Path) -> None:
    path, hand = tmp_path / "file", Hand()
    path.write_bytes(b"one")
    digests, before = Digests(3, hand), path.stat()
    for moment in (100, 110, 120):
        hand.now = moment
        digest_of(digests, path)
    assert digests.reused == 1
    path.write_bytes(b"two")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_mtime_ns == before.st_mtime_ns
    assert digest_of(digests, path) == sha(b"two")


def test_another_file_at_the_same_place_is_another_file(tmp_path: Path) -> None:
    path, hand = tmp_path / "file", Hand()
    path.write_bytes(b"one")
    (tmp_path / "next").write_bytes(b"two")
    digests = Digests(3, hand)
    for moment in (100, 110):
        hand.now = moment
        digest_of(digests, path)
    (tmp_path / "next").rename(path)
    assert digest_of(digests, path) == sha(b"two")


def test_a_file_that_grows_while_it_is_read_is_changing(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"x" * (3 << 20))
    stat = itertools.count()

    def clock() -> float:  # asked between two blocks
        if next(stat) == 2:
            with path.open("ab") as file:
                file.write(b"more")
        return 0.0

    digests = Digests(0, clock)
    with pytest.raises(CheckRefused) as caught:
        digest_of(digests, path)
    assert caught.value.outcome is O.CHANGING
    assert digests.hashed == 0


def test_a_pass_reads_each_file_once_and_a_failure_is_its_own_claims(root: Path) -> None:
    for name in "abc":
        (root / name).write_bytes(name.encode())
    claims = [make_claim(f"File {name} says what it says", predicates=(file_hash(name, b"a"),)) for name in "abc" * 50]
    with Workspace(root) as workspace:
        digests = Digests(LIMITS.settle_ms / 1000)
        checker = Checker(workspace, LIMITS, digests)
        found = [checker.findings(each) for each in claims]
    assert digests.hashed == 3
    assert [bool(each) for each in found] == [False, True, True] * 50
    both = make_claim(predicates=(file_hash("a", b"a"), file_hash("none"), file_hash("b", b"a")))
    with Workspace(root) as workspace:
        told = [(each.ordinal, each.outcome) for each in Checker(workspace, LIMITS).findings(both)]
    assert told == [(2, O.MISSING), (3, O.DIFFERS)]


def test_a_folder_that_is_swapped_between_two_checks_of_a_pass_leads_nowhere(root: Path) -> None:
    outside = root.parent / "elsewhere"
    outside.mkdir()
    (outside / "code.py").write_bytes(SECRET)
    (outside / "other.py").write_bytes(SECRET)
    with Workspace(root) as workspace:
        checker = Checker(workspace, LIMITS)
        assert checker.check(file_hash("src/deep/code.py", b"print(1)\n")) is O.HOLDS
        (root / "src" / "deep").rename(root / "moved")
        (root / "src" / "deep").symlink_to(outside)
        assert checker.check(file_hash("src/deep/other.py")) is O.MISSING
    assert check(root, file_hash("src/deep/other.py")) is O.OUTSIDE


def test_more_folders_than_stay_open_are_walked_again(root: Path) -> None:
    paths = [f"d{number}/e{number}/f" for number in range(100)]
    for path in paths:
        (root / path).parent.mkdir(parents=True)
        (root / path).write_bytes(path.encode())
    before = len(list(Path("/proc/self/fd").iterdir()))
    with Workspace(root) as workspace:
        checker = Checker(workspace, LIMITS)
        assert {checker.check(file_hash(path, path.encode())) for path in paths} == {O.HOLDS}
        assert len(list(Path("/proc/self/fd").iterdir())) <= before + 66
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_nothing_is_written_and_no_descriptor_is_left(root: Path) -> None:
    def state() -> list[tuple[str, int]]:
        return sorted((str(each), each.lstat().st_mtime_ns) for each in root.rglob("*"))

    before, open_files = state(), len(list(Path("/proc/self/fd").iterdir()))
    predicates: list[Predicate] = [
        file_hash("src/deep/code.py"), file_hash("src/x/y"), file_hash("src"), GitRevision(revision=ONE),
        ConfigValue(path="src/deep/code.py", key=("a",), sha256=digest("x")),
    ]  # fmt: skip
    for _ in range(20):
        for each in predicates:
            check(root, each)
    assert state() == before
    assert len(list(Path("/proc/self/fd").iterdir())) == open_files
