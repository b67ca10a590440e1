"""The Retention Policy, and the retention check: which sources the current frontier denies (spec 4.15, 8.2, 15).

Pure: the frontier and the denied targets go in; `memory.retention` reads them from the Ledger. A namespace in which
nothing was ever erased has frontier zero and an empty set.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, Literal

from policies.loading import Policy, packaged_policy
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


class RetentionPolicy(Policy):
    """One version of the policy (docs/retention.md says why).

    Attributes:
        shared_bytes: what becomes of bytes of a target that another record needs which is not erased.
        affected_indexes: what becomes of the bytes of index builds that rest on a target, whoever names them.
    """

    shared_bytes: Literal["keep"]
    affected_indexes: Literal["erase"]


def retention_policy(version: str = "1") -> RetentionPolicy:
    """Return the packaged policy of a version.

    Raises:
        InvalidInputError: no such version ships.
    """
    return packaged_policy(RetentionPolicy, "retention", version)


_DAYS: Final = re.compile(r"days:([0-9]{1,5})")


def kept_for_days(retention: str) -> int | None:
    """Return for how many days a campaign profile says that it is kept after its completion; None is for good.

    A profile says `keep` or `days:N`; what it says otherwise lets nothing go.
    """
    found = _DAYS.fullmatch(retention)
    return None if found is None else int(found[1])
