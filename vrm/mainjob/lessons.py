"""The lessons of the earlier design for an arm of `legacy_recall`: learnt from the Ledger's evidence.

Nothing of it enters the Ledger: the lessons follow from the evidence up to one position of the journal, however often
they are asked for, and what a decision was given of them is an artifact that its envelope names.
"""

from __future__ import annotations

from dataclasses import dataclass

from memory.evidence import resolve_bundles
from memory.retention import denied_experiences
from policies.legacy_gate import LegacyGate, LegacyKnowledge
from policies.legacy_lessons import experiences_of
from policies.legacy_ranker import MATCHED_ITEMS, MATCHED_TOKENS, LegacyRequest, legacy_recall
from records.canonical import domain_digest, metric_text
from records.decisions import DecisionIntent
from records.evidence import Experience, VerifiedEvidenceBundle
from records.ids import ExperienceId, IntentId
from records.legacy_recall import LegacyRecall, RecalledLesson
from store.ledger.port import LedgerReader
from vrm.domain import MODEL_FAMILY


@dataclass(frozen=True)
class Lessons:
    """What the gate of the earlier design promoted of the evidence of a namespace."""

    domain: str
    promoted: tuple[LegacyKnowledge, ...]

    @property
    def digest(self) -> str:
        """The digest of the memory: the ids of its lessons, in no order."""
        return domain_digest("legacy-memory", sorted(each.knowledge_id for each in self.promoted))

    def recall(self, intent: DecisionIntent, query: str) -> LegacyRecall:
        """Return what a decision is given, within the budget of the cards that it is compared with."""
        request = LegacyRequest(
            task_id=str(intent.evaluation_task_id),
            domain=self.domain,
            dataset_id=str(intent.task_scope_id),
            model_family=MODEL_FAMILY,
            query=query,
            max_items=MATCHED_ITEMS,
            token_budget=MATCHED_TOKENS,
            cross_task=True,
        )
        found = legacy_recall(request, self.promoted)
        items = tuple(
            RecalledLesson.build(
                knowledge_id=each.knowledge.knowledge_id,
                lesson=each.knowledge.lesson,
                outcome=each.knowledge.outcome.value,
                sources=tuple(ExperienceId(source) for source in each.knowledge.source_experience_ids),
                score=metric_text(each.score),
                token_count=each.token_count,
            )
            for each in found
        )
        return LegacyRecall(
            intent_id=IntentId(intent.id),
            memory_digest=self.digest,
            items=items,
            token_count=sum(each.token_count for each in items),
        )


def learn_lessons(reader: LedgerReader, namespace: str, domain: str, until: int) -> Lessons:
    """Return what the gate promotes of the evidence up to a journal position that retention does not deny now."""
    found = [item for item in reader.find("experience", namespace) if item.position <= until]
    denied = denied_experiences(reader, namespace, [item.id for item in found])
    loaded = (item.load() for item in found if item.id not in denied)
    bundles = resolve_bundles(reader, [each for each in loaded if isinstance(each, Experience)])
    complete = [each for each in bundles.values() if isinstance(each, VerifiedEvidenceBundle)]
    of_domain = [each for each in complete if each.contract.domain == domain]
    decided = LegacyGate(domain=domain, model_family=MODEL_FAMILY).fold(experiences_of(of_domain))
    return Lessons(domain, tuple(each.knowledge for each in decided if each.knowledge is not None))
