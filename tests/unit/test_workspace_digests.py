"""Digests of files that are remembered, and only where that can be trusted."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import pytest

from memory.workspace.contents import Digests, Limits
from memory.workspace.place import CheckRefused, Workspace
from records.workspace import PredicateOutcome
from tests.support.workspace_files import LIMITS, sha

O = PredicateOutcome  # noqa: E741  # as in tests/unit/test_workspace_predicates.py


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
