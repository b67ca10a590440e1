"""Typed reads of the Ledger for the facts of a round, and the evidence index that several of them share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from records.base import Record
from records.evidence import Attempt, Experience, Hypothesis, Verification
from store.ledger.port import FindValue, LedgerReader
from vrm.mainjob.facts.shapes import Tally

R = TypeVar("R", bound=Record)


@dataclass(frozen=True, kw_only=True)
class EvidenceIndex:
    """The evidence of a namespace by record id.

    `scopes` gives each task scope in words, by its id.
    """

    experiences: Mapping[str, Experience]
    attempts: Mapping[str, Attempt]
    verifications: Mapping[str, Verification]
    scopes: Mapping[str, str]

    def metric(self, experience_id: str, name: str) -> float | None:
        """Return a verified metric of an Experience; None where it has none."""
        found = self.verification(self.experiences[experience_id])
        return None if found is None else found.metric(name)

    def verification(self, experience: Experience) -> Verification | None:
        """Return the Verification of an Experience, if it has one."""
        return None if experience.verification_id is None else self.verifications[experience.verification_id]


def read_index(reader: LedgerReader, namespace: str) -> EvidenceIndex:
    """Read the evidence of a namespace."""
    hypotheses = find(reader, Hypothesis, namespace).values()
    return EvidenceIndex(
        experiences=find(reader, Experience, namespace),
        attempts=find(reader, Attempt, namespace),
        verifications=find(reader, Verification, namespace),
        scopes={str(each.task_scope_id): each.conditions[0] for each in hypotheses if each.conditions},
    )


def find(reader: LedgerReader, model: type[R], namespace: str, **equal: FindValue) -> dict[str, R]:
    """Return the records of a kind by id, in journal order."""
    loaded = ((stored.id, stored.load()) for stored in reader.find(model.kind.noun, namespace, **equal))
    return {record_id: record for record_id, record in loaded if isinstance(record, model)}


def tallies(names: Iterable[str], of: int | None = None) -> tuple[Tally, ...]:
    """Count names, most frequent first; `of` is the denominator, by default all of them."""
    counts = Counter(names)
    total = counts.total() if of is None else of
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return tuple(Tally(name=name, count=count, of=total) for name, count in ordered)
