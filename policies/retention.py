"""The retention check: which sources the current retention frontier denies (spec 4.15, 8.2).

Pure: the frontier and the denied targets go in; `memory.retention` reads them from the Ledger. A namespace in which
nothing was ever erased has frontier zero and an empty set.
"""

from __future__ import annotations

from collections.abc import Iterable

from records.appends import NamespaceHead
from records.canonical import domain_digest
from records.decisions import BlockedTarget, RetentionCheck


def check_retention(head: NamespaceHead, denied: Iterable[BlockedTarget]) -> RetentionCheck:
    """Return the check at a namespace's current frontier; `denied` are the sources that a denial names."""
    blocked = tuple(sorted(denied, key=lambda target: (target.target_id, target.digest)))
    return RetentionCheck(
        frontier=head.retention,
        tombstone_set_digest=domain_digest("retention-set", [target.as_json() for target in blocked]),
        blocked=blocked,
    )
