"""What entered a namespace and what became of it, counted stage by stage with its denominator."""

from __future__ import annotations

from records.ingestion import DistillationReceipt, Report, WorkCompletion, WorkItem, WorkOutcome
from store.ledger.port import LedgerReader
from vrm.mainjob.facts.reading import EvidenceIndex, find, tallies
from vrm.mainjob.facts.rules import Knowledge
from vrm.mainjob.facts.shapes import EvidenceFacts

_NOT_VERIFIED = "not_verified"


def evidence_facts(
    reader: LedgerReader, namespace: str, evidence: EvidenceIndex, knowledge: Knowledge
) -> EvidenceFacts:
    """Count a namespace's evidence by verification, receipt, work outcome and decision."""
    experiences = evidence.experiences.values()
    verified = [evidence.verification(each) for each in experiences]
    invalid = [each for each in verified if each is not None and not each.valid]
    receipts = find(reader, DistillationReceipt, namespace).values()
    items = find(reader, WorkItem, namespace)
    completions = find(reader, WorkCompletion, namespace).values()
    reports = find(reader, Report, namespace).values()
    decisions = knowledge.decisions.values()
    return EvidenceFacts(
        experiences=len(evidence.experiences),
        waiting=len(set(evidence.experiences) - {str(each.experience_id) for each in receipts}),
        by_corpus=tallies(evidence.attempts[each.attempt_id].corpus.value for each in experiences),
        by_verification=tallies(_NOT_VERIFIED if each is None else each.verification_kind.value for each in verified),
        by_validity=tallies("valid" if each is not None and each.valid else "not_valid" for each in verified),
        by_violation=tallies((name for each in invalid for name in each.violations), of=len(verified)),
        by_receipt=tallies(_joined(each.disposition.value, each.reasons) for each in receipts),
        items=len(items),
        open_items=len(items) - len(completions),
        by_outcome=tallies(
            each.work_outcome.value if each.work_outcome is WorkOutcome.COVERED
            else _joined(each.work_outcome.value, each.refused)
            for each in reports
        ),
        by_decision=tallies(_joined(each.decision.value, each.reasons[:1]) for each in decisions),
    )  # fmt: skip


def _joined(first: str, reasons: tuple[str, ...]) -> str:
    return f"{first}: {', '.join(reasons)}" if reasons else first
