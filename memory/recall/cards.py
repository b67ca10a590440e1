"""Rules, procedures and episodes to Evidence Cards (spec 9.6, VRM-R04, R06).

A memory card names the exact member of the Knowledge Snapshot: record and digest, family, scope variant, event,
disposition and as-of position; and all evidence for and against it, so counter-evidence is never on another card. An
episodic card names the exact member of the Evidence Snapshot and its verification.

A card is made in one place, from what was queried and its source: by the retriever, again inside the transaction that
appends it (`memory.card_guards`), and again by the integrity check. So each of them holds it to every word.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from policies.episodes import Episode
from policies.ranker import Source
from records.cards import EpisodicCard, ProcedureCard
from records.decisions import Card, EvidenceCard
from records.evidence import VerifiedEvidenceBundle
from records.ids import EvidenceSnapshotId, ExperienceId, MemoryId, VerificationId
from records.ingestion import EvidenceSnapshot
from records.knowledge import GovernedRecord, LinkRelation, MemoryRecord
from records.procedures import ProcedureRecord
from records.snapshots import KnowledgeMember
from records.values import MemoryScope

_BOUND = (
    ("evaluation_task_id", "task"),
    ("dataset_digest", "dataset"),
    ("source_digest", "source"),
    ("model_family", "model family"),
    ("environment_digest", "environment"),
)


def make_card(record: MemoryRecord, member: KnowledgeMember, as_of: int, renderer: str) -> EvidenceCard:
    """Return the card of a rule as the snapshot's member that it is, at lifecycle position `as_of`."""
    return EvidenceCard(
        namespace=record.namespace,
        memory_id=MemoryId(record.id),
        memory_digest=record.payload_digest,
        family_id=record.family_id,
        scope_variant_id=record.scope_variant_id,
        event_id=member.event_id,
        disposition=member.disposition,
        as_of_position=as_of,
        claim=record.claim,
        applicability=applicability(record.scope_description, record.scope),
        action=record.action,
        target=record.target,
        mechanism=record.mechanism,
        effect=record.effect,
        strength=record.strength,
        supporting=_linked(record, LinkRelation.SUPPORTS),
        contradicting=_linked(record, LinkRelation.CONTRADICTS),
        renderer=renderer,
    )


def procedure_card(record: ProcedureRecord, member: KnowledgeMember, as_of: int, renderer: str) -> ProcedureCard:
    """Return the card of a procedure as the snapshot's member that it is, at lifecycle position `as_of`."""
    procedure = record.procedure
    return ProcedureCard(
        namespace=record.namespace,
        memory_id=MemoryId(record.id),
        memory_digest=record.payload_digest,
        family_id=record.family_id,
        scope_variant_id=record.scope_variant_id,
        event_id=member.event_id,
        disposition=member.disposition,
        as_of_position=as_of,
        applicability=applicability(record.scope_description, record.scope),
        mechanism=record.mechanism,
        trigger=procedure.trigger,
        catalog_digest=procedure.catalog_digest,
        preconditions=procedure.preconditions,
        steps=procedure.steps,
        tools=procedure.tools,
        success_checks=procedure.success_checks,
        manipulation_checks=procedure.manipulation_checks,
        early_stop_checks=procedure.early_stop_checks,
        rollback_checks=procedure.rollback_checks,
        failure_modes=procedure.failure_modes,
        counterexamples=procedure.counterexamples,
        cost=procedure.cost,
        strength=record.strength,
        supporting=_linked(record, LinkRelation.SUPPORTS),
        contradicting=_linked(record, LinkRelation.CONTRADICTS),
        renderer=renderer,
    )


def episodic_card(episode: Episode, snapshot: EvidenceSnapshot, renderer: str) -> EpisodicCard:
    """Return the card of an episode as the snapshot's member that it is."""
    bundle = episode.bundle
    attempt, verification, metric = bundle.attempt, bundle.verification, bundle.contract.primary_metric
    found = {entry.name: entry.value for entry in verification.verified_metrics}
    return EpisodicCard(
        namespace=bundle.experience.namespace,
        experience_id=ExperienceId(bundle.experience.id),
        experience_digest=bundle.experience.payload_digest,
        evidence_snapshot_id=EvidenceSnapshotId(snapshot.id),
        bundle_digest=bundle.digest,
        verification_id=VerificationId(verification.id),
        evidence_position=snapshot.evidence_position,
        run_id=attempt.run_id,
        arm=attempt.arm,
        pair=attempt.pair,
        iteration=attempt.iteration,
        evaluation_task_id=attempt.evaluation_task_id,
        decision_point=bundle.intervention.decision_point,
        applicability=applicability(_described(bundle), episode.scope),
        hypothesis=bundle.hypothesis.statement,
        change=bundle.intervention.knob,
        metric=metric,
        value=found.get(metric.name),
        verified=verification.verified_metrics,
        violations=verification.violations,
        failure=None if episode.failure is None else episode.failure.value,
        signature=episode.signature,
        analysis=bundle.experience.analysis,
        renderer=renderer,
    )


@dataclass(frozen=True, slots=True, eq=False)
class Queried:
    """What a Recall Input was composed of, as far as cards say it.

    Attributes:
        members: the members of its Knowledge Snapshot, by memory id.
        as_of: the lifecycle position of that snapshot.
        episodes: its Evidence Snapshot, if it has one.
    """

    members: Mapping[MemoryId, KnowledgeMember]
    as_of: int
    episodes: EvidenceSnapshot | None

    def makes(self, card: Card, source: Source) -> bool:
        """Tell whether a card is, word for word, what its renderer makes of a source here."""
        made = self.card_of(source, card.renderer)
        return made is not None and made.card_id == card.card_id

    def card_of(self, source: Source, renderer: str) -> Card | None:
        """Return the card of a source; None where the source is no member of what was queried."""
        if isinstance(source, Episode):
            return None if self.episodes is None else episodic_card(source, self.episodes, renderer)
        member = self.members.get(MemoryId(source.id))
        if member is None:
            return None
        if isinstance(source, ProcedureRecord):
            return procedure_card(source, member, self.as_of, renderer)
        return make_card(source, member, self.as_of, renderer)


def applicability(described: str, scope: MemoryScope) -> str:
    """Return where something applies, in words: its scope, what it is bound to, and what it leaves open."""
    fields = scope.as_json()
    bound = [label for name, label in _BOUND if fields[name] is not None]
    free = [label for name, label in _BOUND if fields[name] is None]
    parts = [f"{described}; {fields['domain']}, budget {fields['budget_class']}, same contract"]
    parts += [f"only this {', '.join(bound)}"] if bound else []
    parts += [f"any {', '.join(free)}"] if free else []
    return "; ".join(parts)


def _described(bundle: VerifiedEvidenceBundle) -> str:
    return f"one run on {bundle.attempt.dataset_root}, seed {bundle.attempt.seed}"


def _linked(record: GovernedRecord, relation: LinkRelation) -> tuple[ExperienceId, ...]:
    return tuple(sorted({link.experience_id for link in record.links if link.relation is relation}))
