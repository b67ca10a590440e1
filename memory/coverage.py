"""Whether Ledger and Runtime hold the same decisions of a Run that is about to end (spec 6.3, VRM-R07).

Rules kept here:

- both directions: an intent that the Runtime never admitted, and a closed decision that the Ledger does not hold, are
  an integrity wait, never left out;
- the answer is a frontier and a digest over every intent of the Run with its context and outcome, which the last step
  of the Run binds. None of them can change afterwards: the caller has found no decision and no grant of the Run open.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from records.canonical import domain_digest
from records.control import CoverageRef
from records.decisions import DecisionIntent, RecallContext
from records.errors import IntegrityWaitError
from records.outcomes import RecallOutcome
from records.runtime import Subject
from store.ledger.port import LedgerReader


@dataclass(frozen=True)
class Coverage:
    """What the Ledger holds of one Run: per intent the ids and payload digests of intent, context and outcome."""

    frontier: int
    decisions: dict[str, tuple[tuple[str, str] | None, ...]]

    @property
    def ref(self) -> CoverageRef:
        """Frontier and digest."""
        listed = [[intent, [part and list(part) for part in found]] for intent, found in sorted(self.decisions.items())]
        return CoverageRef(frontier=self.frontier, digest=domain_digest("decision-coverage", listed))


def coverage(ledger: LedgerReader, namespace: str, run_ids: Sequence[str]) -> dict[str, Coverage]:
    """Read what the Ledger holds of some Runs of a namespace, by Run."""
    frontier = ledger.namespace_head(namespace).position
    runs: dict[str, dict[str, tuple[tuple[str, str] | None, ...]]] = {run_id: {} for run_id in run_ids}
    found = ledger.find("decision-intent", namespace, run_id=sorted(run_ids)) if run_ids else []
    intents = {stored.id: stored.load() for stored in found}
    contexts = _by_intent(ledger, "decision-recall-context", namespace, intents)
    outcomes = _by_intent(ledger, "recall-decision-outcome", namespace, intents)
    for key, intent in intents.items():
        if isinstance(intent, DecisionIntent):
            runs[intent.run_id][key] = ((key, intent.payload_digest), contexts.get(key), outcomes.get(key))
    return {run_id: Coverage(frontier, decisions) for run_id, decisions in runs.items()}


def join(found: Coverage, decisions: Iterable[Subject]) -> CoverageRef:
    """Compare what the Ledger holds of a Run with the Runtime's decisions of it that are closed; none is open.

    Raises:
        IntegrityWaitError: one side has what the other has not.
    """
    closed = {subject.id for subject in decisions}
    for key in sorted(found.decisions.keys() - closed):
        raise IntegrityWaitError("coverage", key, "The Ledger holds this intent, the Runtime did not close it.")
    for key in sorted(closed - found.decisions.keys()):
        raise IntegrityWaitError("coverage", key, "The Runtime closed this decision, the Ledger holds no intent.")
    for key, (_, _, outcome) in sorted(found.decisions.items()):
        if outcome is None:
            raise IntegrityWaitError("coverage", key, "The Runtime closed this decision, the Ledger holds no outcome.")
    return found.ref


def _by_intent(ledger: LedgerReader, noun: str, namespace: str, intents: Iterable[str]) -> dict[str, tuple[str, str]]:
    wanted = sorted(intents)
    stored = ledger.find(noun, namespace, intent_id=wanted) if wanted else []
    loaded = [record.load() for record in stored]
    return {
        str(record.intent_id): (str(record.id), record.payload_digest)
        for record in loaded
        if isinstance(record, (RecallContext, RecallOutcome))
    }
