"""One Evidence Snapshot, read, cross-validated and judged once, and shared by every item of a campaign in bulk.

The cost of an item is that of its own stratum: the view holds which variant and stratum each Experience belongs to.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from memory.distillation.drafting import Judgement
from memory.distillation.procedures import ProcedureView, view_procedures
from memory.evidence import resolve_bundles
from policies.contrasts import ContrastTable, Variant, tabulate
from policies.distillation_policy import CandidateReason, DistillationPolicy
from policies.distiller import judge, withdraw
from policies.procedures.policy import ProcedurePolicy, procedure_policy
from policies.variants import experience_of
from records.errors import EvidenceError, NotFoundError
from records.evidence import Experience, VerifiedEvidenceBundle
from records.ids import EvidenceSnapshotId, ExperienceId, RunId, ScopeVariantId, StratumId
from records.ingestion import EvidenceSnapshot, WorkOutcome
from records.models import noun_of
from store.ledger.port import LedgerReader

Place = tuple[ScopeVariantId, StratumId]

_WAITS: Final = frozenset({CandidateReason.NON_COMPARABLE_EVIDENCE, CandidateReason.INSUFFICIENT_INDEPENDENT_SUPPORT})
"""What further evidence could still make comparable."""


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
    """A snapshot with its contrasts and verdicts, and its procedures.

    Attributes:
        strata: the members of each place; places: where an Experience is, widest scope first.
        parts: the judged variants that refine one, by the variant that they split.
    """

    snapshot: EvidenceSnapshot
    table: ContrastTable
    verdicts: Mapping[ScopeVariantId, Judgement]
    strata: Mapping[Place, tuple[ExperienceId, ...]]
    places: Mapping[ExperienceId, tuple[Place, ...]]
    members: frozenset[ExperienceId]
    policy: DistillationPolicy
    parts: Mapping[ScopeVariantId, tuple[ScopeVariantId, ...]]
    procedures: ProcedureView

    def find(self, experience_id: ExperienceId) -> Finding:
        """Return what becomes of one Experience under this snapshot (spec 4.14)."""
        refused = self._refusal(experience_id)
        if refused is not None:
            outcome, reason = refused
            return Finding(outcome=outcome, verdicts=(), read=(experience_id,), refused=(reason.value,))
        judged = [place for place in self.places.get(experience_id, ()) if place[0] in self.verdicts]
        rules = tuple(self.verdicts[variant] for variant in self._spoken_for(judged))
        procedure = self._procedure(experience_id)
        read = {member for place in judged for member in self.strata[place]}
        return Finding(
            outcome=WorkOutcome.COVERED,
            verdicts=rules if procedure is None else (procedure, *rules),
            read=tuple(sorted(read | {experience_id})),
            refused=(),
        )

    def drafts(self, key: ScopeVariantId) -> bool:
        """Tell whether there is anything in the snapshot that a variant could be judged by."""
        return key in self.table.drafted or key in self.procedures.table.verdicts

    def unjudged(self, experience_id: ExperienceId) -> tuple[ScopeVariantId, ...]:
        """Return the drafted variants of an Experience that have no verdict: nothing asks for them any more, or yet."""
        return tuple(key for key, _ in self.places.get(experience_id, ()) if key not in self.verdicts)

    def withdrawn(self, key: ScopeVariantId) -> Judgement | None:
        """Return the verdict that ends a live record of a drafted variant for which nothing asks any more."""
        return withdraw(self.table.drafted[key], self.policy)

    def _spoken_for(self, judged: Sequence[Place]) -> Iterable[ScopeVariantId]:
        """Return the variants of these places, and all parts of one that is split.

        A split is found by the evidence of one part and makes the others as well, whose own evidence was considered
        when nothing told it apart.
        """
        variants = [variant for variant, _ in judged]
        return dict.fromkeys([*variants, *(part for variant in variants for part in self.parts.get(variant, ()))])

    def _procedure(self, experience_id: ExperienceId) -> Judgement | None:
        """Return the procedure that an Experience closes, or, if it speaks for no rule, is evidence of."""
        closed = self.procedures.closed_by(experience_id)
        return closed if closed or experience_id in self.places else self.procedures.of(experience_id)

    def _refusal(self, experience_id: ExperienceId) -> tuple[WorkOutcome, CandidateReason] | None:
        if experience_id not in self.members:
            return WorkOutcome.NOT_COMPARABLE, CandidateReason.NON_COMPARABLE_EVIDENCE
        if experience_id in self.procedures.duplicates:
            return WorkOutcome.NO_CANDIDATE, CandidateReason.DUPLICATE_SUPPORT_UNIT
        reason = self.table.why_not(experience_id)
        if (reason is None or reason in _WAITS) and self._procedure(experience_id) is not None:
            return None
        if reason is not None:
            return WorkOutcome.NO_COMPARATOR if reason in _WAITS else WorkOutcome.NO_CANDIDATE, reason
        if not any(variant in self.verdicts for variant, _ in self.places[experience_id]):
            return WorkOutcome.NO_CANDIDATE, CandidateReason.MISSING_EFFECT_ESTIMATE
        return None


def read_view(
    reader: LedgerReader,
    snapshot_id: EvidenceSnapshotId,
    policy: DistillationPolicy,
    procedures: ProcedurePolicy | None = None,
) -> View:
    """Read, cross-validate and judge a snapshot; procedures under the packaged policy unless another one is given.

    Raises:
        NotFoundError: there is no such snapshot.
        EvidenceError: a member no longer resolves to the bundle that it was captured with, or the snapshot is what one
            Run may see of itself (VRM-L04).
    """
    stored = reader.get(snapshot_id)
    snapshot = None if stored is None else stored.load()
    if not isinstance(snapshot, EvidenceSnapshot):
        raise NotFoundError("evidence_snapshot_id", snapshot_id, "Capture the snapshot before distilling.")
    if noun_of(snapshot.visibility) == RunId.noun:
        raise EvidenceError(
            "evidence_snapshot_id", snapshot_id, "It holds the episodes of one Run; capture base evidence."
        )
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
    verdicts = judge(table, policy)
    return View(
        snapshot=snapshot,
        table=table,
        verdicts=verdicts,
        strata=strata,
        places=places,
        members=frozenset(wanted),
        policy=policy,
        parts=_parts(verdicts),
        procedures=view_procedures(bundles, table, policy, procedures or procedure_policy()),
    )


def _parts(verdicts: Mapping[ScopeVariantId, Judgement]) -> dict[ScopeVariantId, tuple[ScopeVariantId, ...]]:
    parts: dict[ScopeVariantId, list[ScopeVariantId]] = defaultdict(list)
    for key, verdict in sorted(verdicts.items()):
        if verdict.refines is not None:
            parts[verdict.refines].append(key)
    return {whole: tuple(keys) for whole, keys in parts.items()}


def _index(
    table: ContrastTable,
) -> tuple[dict[Place, tuple[ExperienceId, ...]], dict[ExperienceId, tuple[Place, ...]]]:
    """Return the members of every variant and stratum, and where each Experience is: widest scope first.

    A run speaks for every variant that it was compared under, a baseline for all of its stratum: another one moves them
    all. A draft that nothing judged covers nothing.
    """
    members: dict[Place, set[ExperienceId]] = defaultdict(set)
    places: dict[ExperienceId, dict[Place, None]] = defaultdict(dict)
    for key, variant in sorted(table.drafted.items(), key=_widest_first):
        for arm in variant.arms:
            runs = set(map(experience_of, arm.runs))
            members[key, arm.stratum_id] |= runs
            for baseline in runs:
                places[baseline][key, arm.stratum_id] = None
        for contrast in variant.contrasts:
            place, changed = (key, contrast.stratum_id), experience_of(contrast.changed)
            members[place].add(changed)
            places[changed][place] = None
    return (
        {place: tuple(sorted(ids)) for place, ids in members.items()},
        {experience_id: tuple(found) for experience_id, found in places.items()},
    )


def _widest_first(item: tuple[ScopeVariantId, Variant]) -> tuple[int, ScopeVariantId]:
    key, variant = item
    return sum(value is not None for value in vars(variant.scope).values()), key
