"""The retention check: which sources the current retention frontier denies (spec 4.15, 8.2).

Pure: the frontier and the denied targets go in. The erasure flows that write retention records are rows that the
registry does not have yet; until then the frontier of every namespace is zero and its set is empty.
"""

from __future__ import annotations

from collections.abc import Iterable

from records.appends import NamespaceHead
from records.canonical import domain_digest
from records.decisions import BlockedTarget, RetentionCheck


def check_retention(head: NamespaceHead, denied: Iterable[BlockedTarget]) -> RetentionCheck:
    """Return the check at a namespace's current frontier; `denied` are the sources that an open denial names."""
    blocked = tuple(sorted(denied, key=lambda target: (target.target_id, target.digest)))
    return RetentionCheck(
        frontier=head.retention,
        tombstone_set_digest=domain_digest("retention-set", [target.as_json() for target in blocked]),
        blocked=blocked,
    )
