"""The commit that HEAD of a workspace's repository names, read from its files (spec 004).

Rules kept here:

- no program is run, so no hook, monitor, pager, filter or setting of the repository can run one either. HEAD, loose
  references and packed references are read like any file of the workspace;
- HEAD is a commit id, or names a reference under `refs/`, which may name another, a few times over;
- what has no commit yet, keeps its folder elsewhere (a linked work tree, a submodule) or stores references in another
  format has no revision here, and a predicate on it fails.
"""

from __future__ import annotations

import re
from typing import Final

from memory.workspace.contents import Clock, Limits, whole
from memory.workspace.place import CheckRefused, Workspace
from records.workspace import PredicateOutcome, path_fault

_ID: Final = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_SYMBOLIC: Final = "ref:"
_STEPS: Final = 5
_ABSENT: Final = frozenset({PredicateOutcome.MISSING, PredicateOutcome.NOT_A_FILE})


def head_of(workspace: Workspace, limits: Limits, clock: Clock) -> str:
    """Return the commit id of HEAD.

    Raises:
        CheckRefused: there is none, or it cannot be read.
    """
    name = "HEAD"
    for _ in range(_STEPS):
        text = _loose(workspace, name, limits, clock)
        if text is None:  # it may have been packed, and its file removed, just now
            text = _packed(workspace, name, limits, clock) or _loose(workspace, name, limits, clock)
        if text is None:
            break
        if _ID.fullmatch(text):
            return text
        name = text.removeprefix(_SYMBOLIC).strip()
        if not text.startswith(_SYMBOLIC) or not name.startswith("refs/") or path_fault(name) is not None:
            break
    raise CheckRefused(PredicateOutcome.NO_REVISION)


def _loose(workspace: Workspace, name: str, limits: Limits, clock: Clock) -> str | None:
    data = _read(workspace, f".git/{name}", limits, clock)
    return None if data is None else data.decode("utf-8", "replace").strip()


def _packed(workspace: Workspace, name: str, limits: Limits, clock: Clock) -> str | None:
    data = _read(workspace, ".git/packed-refs", limits, clock) or b""
    for line in data.decode("utf-8", "replace").splitlines():
        commit, _, found = line.partition(" ")
        if found == name and _ID.fullmatch(commit):
            return commit
    return None


def _read(workspace: Workspace, path: str, limits: Limits, clock: Clock) -> bytes | None:
    try:
        with workspace.opened(path) as file:
            return whole(file, limits, clock)
    except CheckRefused as refused:
        if refused.outcome in _ABSENT:
            return None
        raise
