"""The verified context of a lineage: what a paper may claim, what it may not, and what limits it (spec 003).

Rules kept here:

- claims are entries of kinds that say what came out; failures are limitations and never claims;
- a claim is usable if it is grounded now, its latest event is not `rerun_failed`, and none of its events was erased,
  for what an erased event said is not known;
- the order is: reproduced, grounded, not grounded, and what failed to reproduce last, whatever grounds it; within each,
  grounded before not, then from the root on;
- the document has exactly five fields, and equal inputs give equal bytes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from policies.lineage.grounding import FileNow, grounds_of
from policies.lineage.reading_policy import LineageReadingPolicy
from policies.lineage.scope import Wanted, read_entries
from policies.lineage.standing import status_of
from records.fields import Digest, Text
from records.lineage import ArtifactRole, EntryArtifact, EntryKind, LineageEntry, NodeReport, Reproduction
from records.lineage import ReproducibilityEvent as Event
from records.models import Model

_RERUN_FAILED: Final = "rerun_failed"
_NOT_GROUNDED: Final = "not_grounded"
_EVENT_ERASED: Final = "event_erased"


class ClaimFile(Model):
    """A file of a claim."""

    path: Text
    sha256: Digest
    role: ArtifactRole


class Claim(Model):
    """What a node says came out.

    Attributes:
        grounded: whether a file that holds a measurement has, now, the digest that was verified.
        artifact_refs: all files that the entry names.
        repro_status: the latest that is known of whether it can be reproduced.
    """

    entry_id: Text
    node_id: Text
    text: Text
    kind: EntryKind
    grounded: bool
    artifact_refs: tuple[ClaimFile, ...]
    repro_status: Reproduction


class Limitation(Model):
    """What failed on the way."""

    node_id: Text
    text: Text


class VerifiedContext(Model):
    """What a paper about the best node may rest on; `lineage` is from the root to that node."""

    best_node_id: Text
    lineage: tuple[Text, ...]
    claims: tuple[Claim, ...]
    limitations: tuple[Limitation, ...]
    usable_for_claims: tuple[Claim, ...]

    @property
    def is_empty(self) -> bool:
        """Whether it says nothing."""
        return not self.claims and not self.limitations


@dataclass(frozen=True, slots=True, kw_only=True)
class WeighedClaim:
    """An entry with what speaks for it and against it.

    Attributes:
        report: of its node; null where there is none.
        grounds: the files that ground it now.
        withheld: why it may not be used; empty where it may.
    """

    entry: LineageEntry
    report: NodeReport | None
    status: Reproduction
    grounds: tuple[EntryArtifact, ...]
    withheld: str

    @property
    def rank(self) -> tuple[int, bool]:
        """Where it stands among others; less is earlier."""
        match self.status:
            case Reproduction.RERUN_PASSED:
                tier = 0
            case Reproduction.RERUN_FAILED:
                tier = 3
            case _:
                tier = 1 if self.grounds else 2
        return tier, not self.grounds


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What is known of a lineage at one moment, without what retention denies.

    Attributes:
        checkpoint_id: the checkpoint.
        lineage: its nodes, from the root to the best one.
        erased: those of them that were erased.
        entries: of the checkpoint, in the order of the journal.
        reports: by node.
        latest: the event that counts, by entry.
        unknown: entries of which an event was erased.
        now: the files as they are.
    """

    checkpoint_id: str
    lineage: tuple[str, ...]
    erased: Collection[str]
    entries: Sequence[LineageEntry]
    reports: Mapping[str, NodeReport]
    latest: dict[str, Event]
    unknown: Collection[str]
    now: FileNow

    def read(self, wanted: Wanted) -> list[LineageEntry]:
        """Return the entries of the lineage that are wanted, without those of nodes that were erased."""
        found = read_entries(self.entries, self.checkpoint_id, self.lineage, wanted)
        return [each for each in found if each.node_id not in self.erased]


def weigh(known: Evidence, policy: LineageReadingPolicy) -> tuple[WeighedClaim, ...]:
    """Return the claims of a lineage, the strongest first."""
    wanted = Wanted(kinds=frozenset(policy.context.claims))
    found = [_weighed(entry, known, policy) for entry in known.read(wanted)]
    return tuple(sorted(found, key=lambda each: each.rank))


def _weighed(entry: LineageEntry, known: Evidence, policy: LineageReadingPolicy) -> WeighedClaim:
    report, key = known.reports.get(entry.node_id), str(entry.id)
    status, grounds = status_of(key, known.latest), grounds_of(entry, report, known.now, policy.grounding)
    withheld = why_withheld(status, grounded=bool(grounds), known=key not in known.unknown)
    return WeighedClaim(entry=entry, report=report, status=status, grounds=grounds, withheld=withheld)


def why_withheld(status: Reproduction, *, grounded: bool, known: bool) -> str:
    """Return why a claim may not be used; empty where it may.

    Args:
        status: the latest that is known of whether it can be reproduced.
        grounded: whether a file of measurements grounds it.
        known: whether none of its events was erased.
    """
    if status is Reproduction.RERUN_FAILED:
        return _RERUN_FAILED
    if not grounded:
        return _NOT_GROUNDED
    return "" if known else _EVENT_ERASED


def verified_context(known: Evidence, weighed: Sequence[WeighedClaim], policy: LineageReadingPolicy) -> VerifiedContext:
    """Return the verified context of a lineage; `weighed` are its claims."""
    wanted = Wanted(kinds=frozenset(policy.context.limitations))
    claims = [(each, _claim(each)) for each in weighed]
    return VerifiedContext(
        best_node_id=known.lineage[-1],
        lineage=tuple(node for node in known.lineage if node not in known.erased),
        claims=tuple(claim for _, claim in claims),
        limitations=tuple(Limitation(node_id=each.node_id, text=each.text) for each in known.read(wanted)),
        usable_for_claims=tuple(claim for each, claim in claims if not each.withheld),
    )


def _claim(weighed: WeighedClaim) -> Claim:
    entry = weighed.entry
    return Claim(
        entry_id=str(entry.id),
        node_id=entry.node_id,
        text=entry.text,
        kind=entry.entry_kind,
        grounded=bool(weighed.grounds),
        artifact_refs=tuple(
            ClaimFile(path=each.relative_path, sha256=each.sha256, role=each.role) for each in entry.artifacts
        ),
        repro_status=weighed.status,
    )
