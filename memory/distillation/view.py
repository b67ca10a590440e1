"""One Evidence Snapshot, read, cross-validated and judged once, and shared by every item of a campaign in bulk.

The cost of an item is that of its own stratum: the view holds which variant and stratum each Experience belongs to.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from memory.distillation.drafting import Judgement
from memory.evidence import resolve_bundles
from policies.contrasts import ContrastTable, Variant, tabulate
from policies.distillation_policy import CandidateReason, DistillationPolicy
from policies.distiller import judge
from records.errors import EvidenceError, NotFoundError
from records.evidence import Experience, VerifiedEvidenceBundle
from records.ids import EvidenceSnapshotId, ExperienceId, ScopeVariantId, StratumId
from records.ingestion import EvidenceSnapshot, WorkOutcome
from store.ledger.port import LedgerReader

Place = tuple[ScopeVariantId, StratumId]


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What becomes of one Experience.

    Attributes:
        outcome: its work outcome.
        verdicts: every verdict that it speaks for; the first covers it. None unless it is covered.
        read: the comparable members that were read for it.
        refused: the reason codes of one that is not covered.
    """

    outcome: WorkOutcome
    verdicts: tuple[Judgement, ...]
    read: tuple[ExperienceId, ...]
    refused: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class View:
    """A snapshot with its contrasts and verdicts."""

    snapshot: EvidenceSnapshot
    table: ContrastTable
    verdicts: Mapping[ScopeVariantId, Judgement]
    strata: Mapping[Place, tuple[ExperienceId, ...]]
    places: Mapping[ExperienceId, tuple[Place, ...]]
    members: frozenset[ExperienceId]

    def find(self, experience_id: ExperienceId) -> Finding:
        """Return what becomes of one Experience under this snapshot (spec 4.14)."""
        refused = self._refusal(experience_id)
        if refused is not None:
            outcome, reason = refused
            return Finding(outcome=outcome, verdicts=(), read=(experience_id,), refused=(reason.value,))
        judged = [place for place in self.places[experience_id] if place[0] in self.verdicts]
        return Finding(
            outcome=WorkOutcome.COVERED,
            verdicts=tuple(self.verdicts[variant] for variant, _ in judged),
            read=tuple(sorted({member for place in judged for member in self.strata[place]})),
            refused=(),
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
        if not any(variant in self.verdicts for variant, _ in self.places[experience_id]):
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


def _index(
    table: ContrastTable,
) -> tuple[dict[Place, tuple[ExperienceId, ...]], dict[ExperienceId, tuple[Place, ...]]]:
    """Return the members of every variant and stratum, and where each Experience is: widest scope first.

    A changed run speaks for every variant that it was compared under; a baseline, which all of its stratum share, is
    considered with the first alone.
    """
    members: dict[Place, set[ExperienceId]] = defaultdict(set)
    places: dict[ExperienceId, dict[Place, None]] = defaultdict(dict)
    baselines: dict[ExperienceId, Place] = {}
    for key, variant in sorted(table.variants.items(), key=_widest_first):
        for contrast in variant.contrasts:
            place = (key, contrast.stratum_id)
            changed, baseline = (ExperienceId(each.experience.id) for each in (contrast.changed, contrast.baseline))
            members[place] |= {changed, baseline}
            places[changed][place] = None
            baselines.setdefault(baseline, place)
    for baseline, place in baselines.items():
        places[baseline].setdefault(place, None)
    return (
        {place: tuple(sorted(ids)) for place, ids in members.items()},
        {experience_id: tuple(found) for experience_id, found in places.items()},
    )


def _widest_first(item: tuple[ScopeVariantId, Variant]) -> tuple[int, ScopeVariantId]:
    key, variant = item
    return sum(value is not None for value in vars(variant.scope).values()), key
