"""Procedures of the Ledger and their executions, derived from what is stored and from nothing else.

An execution is a Run whose decisions were planned by the Procedure Adapter with the record's digest. Its account
follows from the record and the verified runs, so it is the same whenever and wherever it is made.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from memory.evidence import resolve_bundles
from policies.procedures.execution import Account, Seen, Status, account_of
from records.decisions import DecisionIntent
from records.errors import AmbiguousIdError, InvalidInputError, NotFoundError
from records.evidence import Attempt, Experience, VerifiedEvidenceBundle
from records.knowledge import DistillationDecision, LifecycleEvent, MemoryRelation, RelationKind
from records.outcomes import DecisionStatus, RecallOutcome, TerminalReason
from records.procedures import ProcedureCandidate, ProcedureRecord
from records.values import Disposition
from store.ledger.port import LedgerReader

_NOUN: Final = ProcedureRecord.kind.noun
_SHOWN: Final = 10


@dataclass(frozen=True, kw_only=True)
class StoredProcedure:
    """A procedure with where its scope variant stands; `current` tells whether it is the variant's head."""

    record: ProcedureRecord
    disposition: str
    current: bool

    @property
    def active(self) -> bool:
        """Whether it may be executed."""
        return self.current and self.disposition == Disposition.ACTIVE.value


@dataclass(frozen=True, kw_only=True)
class Decision:
    """One decision of an execution: the step's slot, its intent, and how it ended; None while it is open."""

    slot: str
    intent_id: str
    outcome_id: str | None
    status: str | None
    reason: str | None

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return dict(vars(self))


@dataclass(frozen=True, kw_only=True)
class Execution:
    """One execution as the Ledger tells it; `account` is None as long as nothing of it ran."""

    run_id: str
    evaluation_task_id: str
    decisions: tuple[Decision, ...]
    account: Account | None

    @property
    def status(self) -> str:
        """How it stands: blocked before anything ran, or as its account says."""
        if self.account is not None:
            return self.account.status.value
        refused = any(each.reason == TerminalReason.PREFLIGHT_REJECTED.value for each in self.decisions)
        return "blocked" if refused else Status.GOING.value

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "run": self.run_id,
            "evaluation_task_id": self.evaluation_task_id,
            "decisions": [decision.as_json() for decision in self.decisions],
            "status": self.status,
            "account": None if self.account is None else self.account.as_json(),
        }


@dataclass(frozen=True, kw_only=True)
class Considered:
    """The last decision about one procedure: what it would do, the decision with its reasons, the record if any."""

    mechanism: str
    candidate_id: str
    decision: str
    reasons: tuple[str, ...]
    memory_id: str | None

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return vars(self) | {"reasons": list(self.reasons)}


def considered(reader: LedgerReader, namespace: str) -> list[Considered]:
    """Return the last decision about each procedure of a namespace, in the order of their scope variants."""
    loaded = (stored.load() for stored in reader.find("knowledge-candidate", namespace))
    candidates = {str(each.id): each for each in loaded if isinstance(each, ProcedureCandidate)}
    found: dict[str, Considered] = {}
    for stored in reader.find("distillation-decision", namespace, candidate_id=list(candidates)) if candidates else ():
        decision = stored.load()
        if isinstance(decision, DistillationDecision):
            candidate = candidates[str(decision.candidate_id)]
            found[str(candidate.proposed_scope_variant_id)] = Considered(
                mechanism=candidate.mechanism,
                candidate_id=str(decision.candidate_id),
                decision=decision.decision.value,
                reasons=tuple(decision.reasons),
                memory_id=None if decision.memory_id is None else str(decision.memory_id),
            )
    return [each for _, each in sorted(found.items())]


def stored_procedures(reader: LedgerReader, namespace: str | None, *, every: bool) -> list[StoredProcedure]:
    """Return the procedures that are heads: the active ones, or all.

    Raises:
        NotFoundError: the namespace holds nothing.
    """
    known = reader.namespaces()
    if namespace is not None and namespace not in known:
        raise NotFoundError("namespace", namespace, f"Namespaces here: {', '.join(known) or 'none'}.")
    found = []
    for name in known if namespace is None else [namespace]:
        heads = reader.variant_heads(name).values()
        wanted = [head for head in heads if every or head.disposition == Disposition.ACTIVE.value]
        stored = reader.get_many([head.memory_id for head in wanted])
        for head in wanted:
            record = stored[head.memory_id].load()
            if isinstance(record, ProcedureRecord):
                found.append(StoredProcedure(record=record, disposition=head.disposition, current=True))
    return sorted(found, key=lambda each: (each.record.namespace, each.record.mechanism, str(each.record.id)))


def read_procedure(reader: LedgerReader, prefix: str) -> StoredProcedure:
    """Return a procedure by any unambiguous beginning of its id, with or without the noun.

    Raises:
        InvalidInputError: the id is of another kind.
        NotFoundError: no procedure begins so.
        AmbiguousIdError: several procedures begin so.
    """
    record = _resolved(reader, prefix)
    variant = str(record.scope_variant_id)
    head = reader.variant_heads(record.namespace, [variant]).get(variant)
    if head is not None and head.memory_id == record.id:
        return StoredProcedure(record=record, disposition=head.disposition, current=True)
    events = reader.find("knowledge-lifecycle-event", record.namespace, memory_id=str(record.id))
    last = events[-1].load() if events else None
    disposition = last.disposition.value if isinstance(last, LifecycleEvent) else "none"
    return StoredProcedure(record=record, disposition=disposition, current=False)


def implemented(reader: LedgerReader, record: ProcedureRecord) -> list[str]:
    """Return the ids of the rules that a procedure implements, sorted."""
    stored = reader.find("memory-relation", record.namespace, source_memory_id=str(record.id))
    loaded = [item.load() for item in stored]
    return sorted(
        str(each.target_memory_id)
        for each in loaded
        if isinstance(each, MemoryRelation) and each.relation is RelationKind.PROCEDURE_IMPLEMENTS
    )


def executions(reader: LedgerReader, record: ProcedureRecord, run_id: str | None = None) -> list[Execution]:
    """Return the executions of a procedure in journal order, or the one that is a Run."""
    asked = {} if run_id is None else {"run_id": run_id}
    runs: dict[str, list[DecisionIntent]] = defaultdict(list)
    for stored in reader.find("decision-intent", record.namespace, **asked):
        intent = stored.load()
        if isinstance(intent, DecisionIntent) and intent.planned_actor.config_digest == record.payload_digest:
            runs[str(intent.run_id)].append(intent)
    outcomes = _outcomes(reader, record.namespace, [str(intent.id) for each in runs.values() for intent in each])
    return [
        Execution(
            run_id=run,
            evaluation_task_id=str(intents[0].evaluation_task_id),
            decisions=tuple(_decision(intent, outcomes.get(str(intent.id))) for intent in intents),
            account=account_of(record.procedure, seen) if (seen := runs_of(reader, record.namespace, run)) else None,
        )
        for run, intents in runs.items()
    ]


def runs_of(reader: LedgerReader, namespace: str, run_id: str) -> list[Seen]:
    """Return the verified runs of a Run, in order of iteration."""
    attempts = [item.load() for item in reader.find("attempt", namespace, run_id=run_id)]
    names = [str(each.id) for each in attempts if isinstance(each, Attempt)]
    stored = [item.load() for item in reader.find("experience", namespace, attempt_id=names)] if names else []
    resolved = resolve_bundles(reader, [each for each in stored if isinstance(each, Experience)])
    found = [each for each in resolved.values() if isinstance(each, VerifiedEvidenceBundle)]
    return [seen_of(bundle) for bundle in sorted(found, key=lambda each: each.attempt.iteration)]


def seen_of(bundle: VerifiedEvidenceBundle) -> Seen:
    """Return a verified run as an account looks at it; an invalid one has no metrics."""
    verification = bundle.verification
    metrics = {each.name: float(each.value) for each in verification.verified_metrics} if verification.valid else {}
    return Seen(experience_id=str(bundle.experience.id), config_digest=bundle.attempt.config_digest, metrics=metrics)


def _resolved(reader: LedgerReader, prefix: str) -> ProcedureRecord:
    noun, separator, digits = prefix.strip().lower().rpartition(":")
    if (separator and noun != _NOUN) or not digits:
        raise InvalidInputError("id", prefix, f"Procedures have ids of the form {_NOUN}:3fa2….")
    names = reader.resolve(f"{_NOUN}:{digits}", _SHOWN)
    loaded = (stored.load() for stored in reader.get_many(names).values())
    found = [record for record in loaded if isinstance(record, ProcedureRecord)]
    if not found:
        raise NotFoundError("id", prefix, "No procedure begins so; `vrm procedures list --all` shows them.")
    if len(found) > 1:
        raise AmbiguousIdError("id", prefix, f"Give more digits: {', '.join(str(each.id) for each in found)}.")
    return found[0]


def _outcomes(reader: LedgerReader, namespace: str, intents: Iterable[str]) -> dict[str, RecallOutcome]:
    wanted = list(intents)
    stored = reader.find("recall-decision-outcome", namespace, intent_id=wanted) if wanted else []
    loaded = (item.load() for item in stored)
    return {str(each.intent_id): each for each in loaded if isinstance(each, RecallOutcome)}


def _decision(intent: DecisionIntent, outcome: RecallOutcome | None) -> Decision:
    status: DecisionStatus | None = None if outcome is None else outcome.decision_status
    reason = None if outcome is None or outcome.terminal_reason is None else outcome.terminal_reason.value
    return Decision(
        slot=intent.decision_slot,
        intent_id=str(intent.id),
        outcome_id=None if outcome is None else str(outcome.id),
        status=None if status is None else status.value,
        reason=reason,
    )
