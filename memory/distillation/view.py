"""One Evidence Snapshot, read, cross-validated and judged once, and shared by every item of a campaign in bulk.

The cost of an item is that of its own stratum: the view holds which variant and stratum each Experience belongs to.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from memory.evidence import resolve_bundles
from policies.contrasts import ContrastTable, tabulate
from policies.distillation_policy import CandidateReason, DistillationPolicy
from policies.distiller import VariantVerdict, judge
from policies.lifecycle_policy import LifecyclePolicy
from policies.loading import policy_set_digest
from records.errors import EvidenceError, NotFoundError
from records.evidence import Experience, VerifiedEvidenceBundle
from records.ids import EvidenceSnapshotId, ExperienceId, ScopeVariantId, StratumId
from records.ingestion import EvidenceSnapshot, WorkOutcome
from store.ledger.port import LedgerReader

Place = tuple[ScopeVariantId, StratumId]


@dataclass(frozen=True, kw_only=True)
class Policies:
    """The policies of a campaign."""

    distillation: DistillationPolicy
    lifecycle: LifecyclePolicy

    @property
    def digest(self) -> str:
        """The digest of the ordered policy set."""
        return policy_set_digest([self.distillation.identity, self.lifecycle.identity])


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What becomes of one Experience: its work outcome, the verdict that covers it, the comparable members read."""

    outcome: WorkOutcome
    verdict: VariantVerdict | None
    read: tuple[ExperienceId, ...]
    refused: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class View:
    """A snapshot with its contrasts and verdicts."""

    snapshot: EvidenceSnapshot
    table: ContrastTable
    verdicts: Mapping[ScopeVariantId, VariantVerdict]
    strata: Mapping[Place, tuple[ExperienceId, ...]]
    places: Mapping[ExperienceId, Place]
    members: frozenset[ExperienceId]

    def find(self, experience_id: ExperienceId) -> Finding:
        """Return what becomes of one Experience under this snapshot (spec 4.14)."""
        refused = self._refusal(experience_id)
        if refused is not None:
            outcome, reason = refused
            return Finding(outcome=outcome, verdict=None, read=(experience_id,), refused=(reason.value,))
        place = self.places[experience_id]
        return Finding(
            outcome=WorkOutcome.COVERED, verdict=self.verdicts[place[0]], read=self.strata[place], refused=()
        )

    def _refusal(self, experience_id: ExperienceId) -> tuple[WorkOutcome, CandidateReason] | None:
        if experience_id not in self.members:
            return WorkOutcome.NOT_COMPARABLE, CandidateReason.NON_COMPARABLE_EVIDENCE
        if experience_id in self.table.duplicates:
            return WorkOutcome.NO_CANDIDATE, CandidateReason.DUPLICATE_SUPPORT_UNIT
        if experience_id in self.table.inert:
            return WorkOutcome.NO_CANDIDATE, CandidateReason.GENERIC_OR_NON_ACTIONABLE
        if experience_id not in self.places:
            return WorkOutcome.NO_COMPARATOR, CandidateReason.NON_COMPARABLE_EVIDENCE
        if self.places[experience_id][0] not in self.verdicts:
            return WorkOutcome.NO_CANDIDATE, CandidateReason.MISSING_EFFECT_ESTIMATE
        return None


def read_view(reader: LedgerReader, snapshot_id: EvidenceSnapshotId, policy: DistillationPolicy) -> View:
    """Read, cross-validate and judge a snapshot.

    Raises:
        NotFoundError: there is no such snapshot.
        EvidenceError: a member no longer resolves to the bundle that it was captured with.
    """
    stored = reader.get(snapshot_id)
    snapshot = None if stored is None else stored.load()
    if not isinstance(snapshot, EvidenceSnapshot):
        raise NotFoundError("evidence_snapshot_id", snapshot_id, "Capture the snapshot before distilling.")
    wanted = {member.experience_id: member.bundle_digest for member in snapshot.members}
    loaded = (member.load() for member in reader.get_many(wanted).values())
    resolved = resolve_bundles(reader, [item for item in loaded if isinstance(item, Experience)])
    bundles: list[VerifiedEvidenceBundle] = []
    for experience_id, digest in wanted.items():
        bundle = resolved.get(experience_id)
        if not isinstance(bundle, VerifiedEvidenceBundle) or bundle.digest != digest:
            remedy = "It does not resolve to the bundle that was captured; run `vrm fsck`."
            raise EvidenceError("evidence snapshot member", experience_id, remedy)
        bundles.append(bundle)
    table = tabulate(bundles, policy)
    strata, places = _index(table)
    return View(
        snapshot=snapshot,
        table=table,
        verdicts=judge(table, policy),
        strata=strata,
        places=places,
        members=frozenset(wanted),
    )


def _index(table: ContrastTable) -> tuple[dict[Place, tuple[ExperienceId, ...]], dict[ExperienceId, Place]]:
    members: dict[Place, set[ExperienceId]] = defaultdict(set)
    places: dict[ExperienceId, Place] = {}
    for key, variant in table.variants.items():
        for contrast in variant.contrasts:
            place = (key, contrast.stratum_id)
            for bundle in (contrast.changed, contrast.baseline):
                experience_id = ExperienceId(bundle.experience.id)
                members[place].add(experience_id)
                places.setdefault(experience_id, place)
    return {place: tuple(sorted(ids)) for place, ids in members.items()}, places
