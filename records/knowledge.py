"""Knowledge: candidates, semantic records, decisions, lifecycle events, relations (spec 4.3 to 4.7, 9.2 to 9.5).

The identity of a memory record covers its meaning and the bodies of its evidence links; link ids are derived from the
memory id afterwards, so that no hash depends on itself. The source candidate stays outside the identity: the same rule
on the same evidence is the same record, whichever snapshot it was drafted from.

Candidates and memory records are of two sorts with one noun each: semantic ones are here, procedures in
`records.procedures`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, Literal, Self

from pydantic import model_validator

from records.base import Child, Frontier, Kind, Record
from records.fields import Digest, Name, Text
from records.ids import (
    CandidateId,
    EventId,
    EvidenceSnapshotId,
    ExperienceId,
    FamilyId,
    InterventionId,
    LinkId,
    MemoryId,
    ObservationId,
    ProvenanceId,
    ScopeVariantId,
    StratumId,
    SupportUnitId,
    VerificationId,
)
from records.models import Model
from records.values import (
    ActionKind,
    DecisionTarget,
    Disposition,
    EffectEstimate,
    EvidenceStrength,
    MemoryScope,
    PolicyIdentity,
)

GENESIS: Final = "GENESIS"
"""The expected prior event of a scope variant that has no head yet (spec 9.5)."""


class LinkRelation(StrEnum):
    """Whether an Experience speaks for the rule, against it, or showed no difference (docs/adr/0003)."""

    SUPPORTS = "supports"
    CONTRADICTS = "contradicts"
    TIES = "ties"


class EvidenceLink(Model):
    """One edge from a rule to its evidence: the changed Experience, its baseline, and the unit that the pair is."""

    experience_id: ExperienceId
    comparator_id: ExperienceId
    observation_id: ObservationId
    verification_id: VerificationId
    intervention_id: InterventionId
    provenance_id: ProvenanceId
    relation: LinkRelation
    support_unit_id: SupportUnitId
    stratum_id: StratumId

    def link_id(self, memory_id: MemoryId) -> LinkId:
        """Return the id of this link once its record has one."""
        return LinkId.derive({"memory_id": memory_id, **self.as_json()})


class Finding(Model):
    """One structured finding of validation: a reason code and what was met."""

    code: Name
    detail: Text


def family_id(namespace: str, target: DecisionTarget, metric: str, mechanism: str) -> FamilyId:
    """Return the Knowledge Family of a claim (spec 4.4).

    Wording, scope and amount of evidence are left out, and so is the catalog: a catalog that gains a knob goes on with
    the families that it had.
    """
    return FamilyId.derive(
        {
            "namespace": namespace,
            "record_kind": "semantic",
            "decision_point": target.decision_point.value,
            "knob": target.knob.as_json(),
            "metric": metric,
            "mechanism": mechanism,
        }
    )


def scope_variant_id(namespace: str, family: FamilyId, scope: MemoryScope, target: DecisionTarget) -> ScopeVariantId:
    """Return the variant of a family under one exact scope, which the governing catalog is part of (spec 4.4)."""
    return variant_under(namespace, family, scope, target.catalog_digest)


def variant_under(namespace: str, family: FamilyId, scope: MemoryScope, catalog_digest: Digest) -> ScopeVariantId:
    """Return the variant of a family of either sort; the catalog is that of knobs or that of allowlisted actions."""
    return ScopeVariantId.derive(
        {"namespace": namespace, "family_id": family, "scope": scope.as_json(), "catalog_digest": catalog_digest}
    )


class Candidate(
    Record,
    kind=Kind(noun="knowledge-candidate", table="knowledge_candidates", discriminator="record_kind"),
):
    """What candidates of both sorts share; an untrusted proposed abstraction, never recallable (VRM-W02)."""

    record_kind: Literal["semantic", "procedure"]
    proposed_family_id: FamilyId
    proposed_scope_variant_id: ScopeVariantId
    evidence_snapshot_id: EvidenceSnapshotId
    experience_ids: tuple[ExperienceId, ...]
    scope: MemoryScope
    mechanism: Name
    links: tuple[EvidenceLink, ...]
    drafting_adapter: Name
    policy: PolicyIdentity
    findings: tuple[Finding, ...]


class KnowledgeCandidate(Candidate):
    """A proposed action-effect rule."""

    record_kind: Literal["semantic"] = "semantic"
    target: DecisionTarget
    claim: Text
    effect: EffectEstimate


class GovernedRecord(
    Record,
    kind=Kind(
        noun="memory-record",
        table="memory_records",
        outside=frozenset({"candidate_id"}),
        columns=("record_kind", "family_id", "scope_variant_id"),
        discriminator="record_kind",
        children=(
            Child(
                path="links",
                table="memory_evidence_links",
                columns=(
                    "experience_id",
                    "comparator_id",
                    "observation_id",
                    "verification_id",
                    "intervention_id",
                    "provenance_id",
                    "relation",
                    "support_unit_id",
                ),
            ),
        ),
    ),
):
    """What rules and procedures share: an immutable version with all of its evidence, under one lifecycle."""

    record_kind: Literal["semantic", "procedure"]
    family_id: FamilyId
    scope_variant_id: ScopeVariantId
    prior_memory_id: MemoryId | None
    candidate_id: CandidateId
    scope: MemoryScope
    scope_description: Text
    mechanism: Name
    strength: EvidenceStrength
    links: tuple[EvidenceLink, ...]
    distillation_policy: PolicyIdentity

    @model_validator(mode="after")
    def _links_are_sorted(self) -> Self:
        if [link.as_json() for link in self.links] != sorted(
            (link.as_json() for link in self.links), key=lambda body: (body["relation"], body["experience_id"])
        ):
            raise ValueError("links are sorted by relation and experience id")
        return self


class MemoryRecord(GovernedRecord):
    """An immutable version of a conditional action-effect rule with all of its evidence (spec 9.3)."""

    record_kind: Literal["semantic"] = "semantic"
    target: DecisionTarget
    claim: Text
    action: ActionKind
    effect: EffectEstimate

    @model_validator(mode="after")
    def _ids_follow_from_content(self) -> MemoryRecord:
        family = family_id(self.namespace, self.target, self.effect.metric.name, self.mechanism)
        if self.family_id != family:
            raise ValueError("family_id does not follow from target, metric and mechanism")
        if self.scope_variant_id != scope_variant_id(self.namespace, family, self.scope, self.target):
            raise ValueError("scope_variant_id does not follow from family and scope")
        return self


def cited(made: Candidate | GovernedRecord) -> set[str]:
    """Return the ids of every Experience that a candidate or record rests on, changed and baseline."""
    return {str(part) for link in made.links for part in (link.experience_id, link.comparator_id)}


class EventType(StrEnum):
    """What a Knowledge Lifecycle Event does (spec 10)."""

    PROMOTED_PROVISIONAL = "promoted_provisional"
    PROMOTED_ACTIVE = "promoted_active"
    PROMOTED_CONTESTED = "promoted_contested"
    ACTIVATED = "activated"
    SUPERSEDED = "superseded"
    RETRACTED = "retracted"


class LifecycleEvent(
    Record,
    kind=Kind(
        noun="knowledge-lifecycle-event",
        table="knowledge_lifecycle_events",
        frontier=Frontier.LIFECYCLE,
        columns=("scope_variant_id", "expected_prior", "disposition"),
        unique=(("scope_variant_id", "expected_prior"),),
    ),
):
    """One step of a scope variant's chain; at most one event may follow each head (VRM-L01, L02)."""

    memory_id: MemoryId
    family_id: FamilyId
    scope_variant_id: ScopeVariantId
    event_type: EventType
    disposition: Disposition
    expected_prior: EventId | Literal["GENESIS"]
    reasons: tuple[Name, ...]
    evidence_ids: tuple[ExperienceId, ...]
    evidence_snapshot_id: EvidenceSnapshotId
    policy: PolicyIdentity


class DecisionKind(StrEnum):
    """The five dispositions of a candidate (spec 9.8)."""

    REJECTED = "rejected"
    DEFERRED = "deferred"
    PROMOTED_PROVISIONAL = "promoted_provisional"
    PROMOTED_ACTIVE = "promoted_active"
    PROMOTED_CONTESTED = "promoted_contested"


class DistillationDecision(
    Record,
    kind=Kind(
        noun="distillation-decision",
        table="distillation_decisions",
        columns=("decision",),
        unique=(("candidate_id",),),
    ),
):
    """The deterministic decision about one candidate, with every reason code (VRM-W08)."""

    candidate_id: CandidateId
    decision: DecisionKind
    reasons: tuple[Name, ...]
    memory_id: MemoryId | None
    policy: PolicyIdentity
    policy_set_digest: Digest

    @model_validator(mode="after")
    def _memory_iff_promoted(self) -> DistillationDecision:
        promoted = self.decision not in {DecisionKind.REJECTED, DecisionKind.DEFERRED}
        if (self.memory_id is not None) != promoted:
            raise ValueError("memory_id is given exactly for promoted decisions")
        return self


class RelationKind(StrEnum):
    """How two memory records relate (spec 9.1); all but `contests` are directed and have no cycles."""

    SUPERSEDES = "supersedes"
    CONTESTS = "contests"
    SCOPE_REFINES = "scope_refines"
    PROCEDURE_IMPLEMENTS = "procedure_implements"


class MemoryRelation(Record, kind=Kind(noun="memory-relation", table="memory_relations", columns=("relation",))):
    """A directed relation from source to target, or a `contests` stored once as the sorted pair."""

    source_memory_id: MemoryId
    target_memory_id: MemoryId
    relation: RelationKind
    event_id: EventId
    policy: PolicyIdentity

    @model_validator(mode="after")
    def _no_loop(self) -> MemoryRelation:
        if self.source_memory_id == self.target_memory_id:
            raise ValueError("a record does not relate to itself")
        if self.relation is RelationKind.CONTESTS and self.source_memory_id > self.target_memory_id:
            raise ValueError("contests is stored as the sorted pair")
        return self


class HeadMove(Model):
    """One compare-and-swap of a scope variant's head; part of an append, not a record."""

    scope_variant_id: ScopeVariantId
    expected: EventId | Literal["GENESIS"]
    event_id: EventId
    memory_id: MemoryId
    disposition: Disposition
