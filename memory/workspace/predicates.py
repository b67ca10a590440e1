"""Predicates of claims, checked against a workspace: file hash, git revision, configuration value (spec 004).

Rules kept here:

- a check has one outcome, and everything that goes wrong is one that fails;
- within one pass a file is read once for each predicate kind, however many claims name it;
- a failing predicate says something about its own claim alone.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from typing import Any, Final

from memory.workspace.contents import Clock, Digests, Limits, whole
from memory.workspace.place import CheckRefused, Workspace
from memory.workspace.revision import head_of
from policies.workspace.recall import PredicateLimits
from records.canonical import canonical_bytes, parse_canonical
from records.errors import InvalidRecordError
from records.workspace import (
    ConfigValue,
    FileHash,
    GitRevision,
    Predicate,
    PredicateFinding,
    PredicateOutcome,
    WorkspaceClaim,
)

_NO_VALUE: Final = object()


class Checker:
    """One pass over the predicates of many claims: what it has read once, it does not read again."""

    def __init__(
        self,
        workspace: Workspace,
        limits: PredicateLimits,
        digests: Digests | None = None,
        clock: Clock = time.monotonic,
    ) -> None:
        """Check against a workspace that is open; `digests` may be kept from pass to pass."""
        self._workspace, self._clock = workspace, clock
        self._digests = Digests(limits.settle_ms / 1000, clock) if digests is None else digests
        self._files = Limits(limits.max_bytes, limits.seconds)
        self._texts = Limits(limits.max_config_bytes, limits.seconds)
        self._seen: dict[tuple[str, str], Any] = {}

    def check(self, predicate: Predicate) -> PredicateOutcome:
        """Return what comes of a predicate now; nothing is raised."""
        try:
            return PredicateOutcome.HOLDS if self._holds(predicate) else PredicateOutcome.DIFFERS
        except CheckRefused as refused:
            return refused.outcome
        except (InvalidRecordError, UnicodeError, RecursionError):
            return PredicateOutcome.MALFORMED
        except OSError:
            return PredicateOutcome.UNREADABLE
        except Exception:  # noqa: BLE001  # whatever it is, the claim is not shown
            return PredicateOutcome.FAILED

    def findings(self, claim: WorkspaceClaim) -> tuple[PredicateFinding, ...]:
        """Return the predicates of a claim that fail now; none where it holds."""
        outcomes = ((place, self.check(each)) for place, each in enumerate(claim.predicates, start=1))
        return tuple(
            PredicateFinding(ordinal=place, outcome=outcome)
            for place, outcome in outcomes
            if outcome is not PredicateOutcome.HOLDS
        )

    def _holds(self, predicate: Predicate) -> bool:
        match predicate:
            case FileHash():
                return bool(self._once("file", predicate.path, self._digest) == predicate.sha256)
            case GitRevision():
                return bool(self._once("git", "", lambda _: head_of(self._workspace, self._texts, self._clock))
                            == predicate.revision)  # fmt: skip
            case ConfigValue():
                value = value_at(self._once("json", predicate.path, self._json), predicate.key)
                return value_digest(value) == predicate.sha256

    def _once(self, what: str, path: str, read: Callable[[str], Any]) -> Any:
        """Read something once a pass; that it could not be read is remembered, too."""
        key = (what, path)
        if key not in self._seen:
            try:
                self._seen[key] = read(path)
            except Exception as error:  # noqa: BLE001  # raised again, now and every time it is asked for
                self._seen[key] = error
        found = self._seen[key]
        if isinstance(found, Exception):
            raise found.with_traceback(None)
        return found

    def _digest(self, path: str) -> str:
        with self._workspace.opened(path) as file:
            return self._digests.digest(file, self._files)

    def _json(self, path: str) -> Any:
        with self._workspace.opened(path) as file:
            return parse_canonical(whole(file, self._texts, self._clock))


def value_at(document: Any, key: tuple[str, ...]) -> Any:
    """Return the value at a place of a JSON document.

    Raises:
        CheckRefused: there is none.
    """
    found = document
    for name in key:
        match found:
            case dict():
                found = found.get(name, _NO_VALUE)
            case list() if name.isascii() and name.isdigit() and str(int(name)) == name and int(name) < len(found):
                found = found[int(name)]
            case _:
                found = _NO_VALUE
        if found is _NO_VALUE:
            raise CheckRefused(PredicateOutcome.MISSING)
    return found


def value_digest(value: Any) -> str:
    """Return the SHA-256 of a value's canonical JSON.

    Raises:
        InvalidRecordError: it has no canonical form.
    """
    return hashlib.sha256(canonical_bytes(value)).hexdigest()
