"""From what was committed, captured, judged, built or recalled to the events that tell it.

Each kind of record that spec 16 names has one function; a record of another kind is told by nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Final

from memory.trace.events import Event, event
from policies.catalog import packaged_catalogs
from policies.mediation import observed_seconds
from records.appends import Append, AppendReceipt
from records.base import Record
from records.canonical import digest_bytes
from records.decisions import DecisionIntent, RecallContext
from records.evidence import Attempt, Experience, Intervention, Observation, TrialProvenance, Verification
from records.ingestion import EvidenceSnapshot, ExperienceReceipt, Report
from records.knowledge import Candidate, DistillationDecision, GovernedRecord, LifecycleEvent
from records.outcomes import DecisionStatus, OutcomeAttemptLink, RecallOutcome
from records.reference import ReferenceIndexBuild
from records.snapshots import IndexBuild, IndexFailure, KnowledgeSnapshot, RecallInput
from records.values import PolicyIdentity, ReasonCount

Fields = dict[str, Any]


def committed(append: Append, receipt: AppendReceipt) -> Iterator[Event]:
    """Yield the events of an append that was answered."""
    if not receipt.committed:
        yield event(
            "append.refused",
            receipt.namespace,
            no_commit=receipt.no_commit_id,
            transition=receipt.transition,
            authority=receipt.authority,
            reason=receipt.reason,
        )
        return
    for record in append.records:
        if isinstance(record, Experience):
            yield from _experiment(record, append.records)
        else:
            yield from told(record)


def told(record: Record) -> Iterator[Event]:
    """Yield the event of a record, if its kind has one."""
    for kind, (name, fields) in _TELLS.items():
        if isinstance(record, kind):
            yield event(name, record.namespace, **fields(record))


def counted(counts: Iterable[ReasonCount]) -> dict[str, int]:
    """Return counts by their reason."""
    return {each.reason: each.count for each in counts}


def _code(reason: str | None) -> str | None:
    """Return a reason without what it is about, which may be anything."""
    return None if reason is None else reason.partition(":")[0]


def _knob(outcome: RecallOutcome, knob: str | None) -> str | None:
    """Return the name of a knob that an outcome has.

    A catalog is closed, so a name that one has says nothing of its own. What was rejected may name anything, in its
    proposal and for its cards: of a name that no catalog has the digest is told.
    """
    if not knob or outcome.decision_status is not DecisionStatus.REJECTED or knob in _catalogued():
        return knob
    return digest_bytes(knob.encode())


@lru_cache
def _catalogued() -> frozenset[str]:
    """Return the knobs of the catalogs that ship."""
    return frozenset(knob for catalog in packaged_catalogs().values() for knob in catalog.knobs)


def _policy(policy: PolicyIdentity) -> str:
    return f"{policy.policy_id}:{policy.version}"


def _received(record: ExperienceReceipt) -> Fields:
    return {
        "receipt": record.id,
        "experience": record.experience_id,
        "disposition": record.disposition,
        "reasons": [_code(each) for each in record.reasons],
        "policy": _policy(record.policy),
    }


def _captured(record: EvidenceSnapshot) -> Fields:
    return {
        "snapshot": record.id,
        "position": record.evidence_position,
        "policy": _policy(record.eligibility_policy),
        "members": len(record.members),
        "excluded": counted(record.excluded),
    }


def _drafted(record: Candidate) -> Fields:
    return {
        "candidate": record.id,
        "kind": record.record_kind,
        "family": record.proposed_family_id,
        "variant": record.proposed_scope_variant_id,
        "snapshot": record.evidence_snapshot_id,
        "support_units": len({link.support_unit_id for link in record.links}),
        "strata": len({link.stratum_id for link in record.links}),
        "findings": [finding.code for finding in record.findings],
        "adapter": record.drafting_adapter,
    }


def _decided(record: DistillationDecision) -> Fields:
    return {
        "decision": record.id,
        "candidate": record.candidate_id,
        "verdict": record.decision,
        "reasons": [_code(each) for each in record.reasons],
        "memory": record.memory_id,
        "policy": _policy(record.policy),
    }


def _recorded(record: GovernedRecord) -> Fields:
    return {
        "memory": record.id,
        "kind": record.record_kind,
        "family": record.family_id,
        "variant": record.scope_variant_id,
        "prior": record.prior_memory_id,
        "grade": record.strength.grade,
        "support": record.strength.support_count,
        "counter": record.strength.counter_count,
    }


def _moved(record: LifecycleEvent) -> Fields:
    return {
        "lifecycle_event": record.id,
        "memory": record.memory_id,
        "variant": record.scope_variant_id,
        "transition": record.event_type,
        "disposition": record.disposition,
        "prior": record.expected_prior,
        "reasons": [_code(each) for each in record.reasons],
        "policy": _policy(record.policy),
    }


def _disposed(record: Report) -> Fields:
    return {
        "item": record.work_item_id,
        "batch": record.batch_id,
        "outcome": record.work_outcome,
        "refused": record.refused,
        "decisions": record.decision_ids,
    }


def _frozen(record: KnowledgeSnapshot) -> Fields:
    return {
        "snapshot": record.id,
        "position": record.lifecycle_position,
        "policy": _policy(record.selection_policy),
        "members": dict(sorted(Counter(member.disposition.value for member in record.members).items())),
    }


def _composed(record: RecallInput) -> Fields:
    return {
        "recall_input": record.id,
        "knowledge": record.knowledge_snapshot_id,
        "evidence": record.evidence_snapshot_id,
        "policy": _policy(record.retrieval_policy),
        "renderer": record.renderer,
        "tokenizer": record.tokenizer,
        "indexes": [each.index_build_id for each in record.index_builds],
    }


def _indexed(record: IndexBuild) -> Fields:
    return {
        "index": record.id,
        "snapshot": record.knowledge_snapshot_id,
        "identity": record.identity,
        "identity_digest": record.identity_digest,
        "semantic": record.semantic,
        "documents": record.document_count,
    }


def _not_indexed(record: IndexFailure) -> Fields:
    return {
        "failure": record.id,
        "snapshot": record.knowledge_snapshot_id,
        "identity": record.identity,
        "reason": record.reason,
    }


def _searchable(record: ReferenceIndexBuild) -> Fields:
    return {
        "index": record.id,
        "identity": record.identity,
        "identity_digest": record.identity_digest,
        "semantic": record.semantic,
        "documents": record.document_count,
        "sources": len(record.members),
    }


def _admitted(record: DecisionIntent) -> Fields:
    return {
        "intent": record.id,
        "run": record.run_id,
        "arm": record.arm,
        "pair": record.pair,
        "iteration": record.iteration,
        "point": record.decision_point,
        "requirement": record.governance.recall_requirement,
    }


def _context(record: RecallContext) -> Fields:
    return {
        "context": record.id,
        "intent": record.intent_id,
        "recall_input": record.recall_input_id,
        "status": record.status,
        "reason": _code(record.status_reason),
        "cards": [item.card_id for item in record.items],
        "tokens": record.token_count,
    }


def _ended(record: RecallOutcome) -> Fields:
    value = record.proposed_value
    return {
        "outcome": record.id,
        "intent": record.intent_id,
        "run": record.run_id,
        "arm": record.arm,
        "pair": record.pair,
        "source": record.source_status,
        "source_reason": _code(record.outcome_reason),
        "decision": record.decision_status,
        "terminal_reason": record.terminal_reason,
        "context": record.context_id,
        "cards": [
            {
                "citation": each.citation_id,
                "card": each.card_id,
                "reason": each.reason,
                "knob": _knob(record, each.action_knob),
                "value": None if each.action_value is None else digest_bytes(each.action_value.encode()),
            }
            for each in record.dispositions
        ],
        "knob": _knob(record, record.proposed_knob),
        "value": None if value is None else digest_bytes(value.encode()),
        "artifact": record.artifact_digest,
        "config": record.effective_config_digest,
    }


def _attributed(record: OutcomeAttemptLink) -> Fields:
    return {
        "link": record.id,
        "outcome": record.outcome_id,
        "attempt": record.attempt_id,
        "experience": record.experience_id,
        "config": record.config_digest,
    }


_TELLS: Final[dict[type[Any], tuple[str, Callable[[Any], Fields]]]] = {
    ExperienceReceipt: ("experience.received", _received),
    EvidenceSnapshot: ("evidence.captured", _captured),
    Candidate: ("candidate.drafted", _drafted),
    DistillationDecision: ("candidate.decided", _decided),
    GovernedRecord: ("memory.recorded", _recorded),
    LifecycleEvent: ("lifecycle.moved", _moved),
    Report: ("item.disposed", _disposed),
    KnowledgeSnapshot: ("knowledge.frozen", _frozen),
    RecallInput: ("recall_input.composed", _composed),
    IndexBuild: ("index.recorded", _indexed),
    IndexFailure: ("index.failed", _not_indexed),
    ReferenceIndexBuild: ("references.indexed", _searchable),
    DecisionIntent: ("intent.admitted", _admitted),
    RecallContext: ("context.committed", _context),
    RecallOutcome: ("decision.ended", _ended),
    OutcomeAttemptLink: ("outcome.attributed", _attributed),
}
"""The event of each kind of record, and what tells its fields."""


def _experiment(experience: Experience, records: Sequence[Record]) -> Iterator[Event]:
    """Yield what an Experience says, from the records that were appended with it."""
    beside = {str(record.id): record for record in records}
    attempt = beside.get(experience.attempt_id)
    intervention = beside.get(str(experience.intervention_id))
    provenance = beside.get(str(experience.provenance_id))
    if isinstance(attempt, Attempt) and isinstance(intervention, Intervention):
        executed = provenance.config_digest if isinstance(provenance, TrialProvenance) else None
        yield event(
            "trial.recorded",
            experience.namespace,
            experience=experience.id,
            attempt=attempt.id,
            run=attempt.run_id,
            corpus=attempt.corpus,
            status=attempt.status,
            intervention=intervention.id,
            provenance=experience.provenance_id,
            knob=None if intervention.knob is None else intervention.knob.name,
            config=executed,
            baseline_config=intervention.baseline_config_digest,
            manipulation=intervention.manipulation,
        )
    verification, observation = beside.get(str(experience.verification_id)), beside.get(experience.observation_id)
    if isinstance(verification, Verification):
        yield event(
            "trial.verified",
            experience.namespace,
            experience=experience.id,
            verification=verification.id,
            kind=verification.verification_kind,
            valid=verification.valid,
            violations=[_code(each) for each in verification.violations],
            metrics={each.name: float(each.value) for each in verification.verified_metrics},
            seconds=observed_seconds(observation) if isinstance(observation, Observation) else None,
        )
