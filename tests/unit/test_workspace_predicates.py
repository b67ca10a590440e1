"""Predicates against real files: what holds, what fails, and that nothing leaves the workspace or wakes anything."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import socket
import threading
from pathlib import Path
from typing import Any

import pytest

from memory.workspace.contents import Digests
from memory.workspace.place import Workspace
from memory.workspace.predicates import Checker, value_digest
from records.errors import InvalidInputError
from records.workspace import ConfigValue, FileHash, GitRevision, Predicate, PredicateOutcome
from tests.support.trials import digest
from tests.support.workspace_files import LIMITS, ONE, SECRET, check, file_hash, make_root, sha
from tests.support.workspace_samples import make_claim

O = PredicateOutcome  # noqa: E741  # the table below is read by column


def unchecked(path: str) -> FileHash:
    """Return a predicate whose path no constructor has looked at."""
    return FileHash(path="a", sha256=sha(SECRET)).model_copy(update={"path": path})


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_root(tmp_path)


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
