"""Work items that are given up: their campaign fails, and closure writes the dead letter (spec 8.1, 9.8).

A dead letter stays visible as the completion of its item, with the control event that says why. It is no success, and
no second completion, item or receipt is ever written for its Experience. The Experience itself stays evidence unless
retention denies it: it is a member of later snapshots like any other, and whatever is decided about its comparison
counts it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from memory.assignments import campaign_id
from memory.campaigns import Failure
from memory.closure import RunClosure
from memory.commands import RunCommands
from memory.work_state import Work
from records.control import ControlCause, ControlEvent
from records.ids import DecisionId, ExperienceId, RunId, WorkItemId
from records.ingestion import CompletionStatus, WorkCompletion
from records.knowledge import Candidate, DistillationDecision
from records.states import Phase
from store.artifacts import ArtifactStore
from store.ledger.port import LedgerReader

REMEDIES: Final = {
    ControlCause.WORK_REJECTED: "The Ledger refused what was proposed, and would again. Repair what the reason names, "
    "then repeat the trial and import it: another Experience gets another item.",
    ControlCause.RETRY_EXHAUSTED: "It was taken up as often as its budget allows. Find out who kept taking it away, "
    "then repeat the trial and import it: another Experience gets another item.",
    ControlCause.RETENTION_REVOKED: "Nothing helps: its Experience, or something that it is made of, was "
    "erased for good.",
}
"""What helps against the cause of a dead letter; the dead letter itself is final."""
_FAILED: Final = (
    "Its campaign was failed by a command. Repeat the trial and import it: another Experience gets an item."
)


class DeadLetters:
    """Gives up what cannot be distilled."""

    def __init__(self, commands: RunCommands, closure: RunClosure, namespace: str) -> None:
        """Fail campaigns of a namespace by commands, and end them by closure."""
        self._commands = commands
        self._closure = closure
        self._namespace = namespace

    def bury(self, failures: Iterable[Failure]) -> dict[str, Phase]:
        """End the campaign of every failure that is hopeless; return by item the phase in which it ended.

        Raises:
            VrmError: what the run owner, the coordinator or closure answered; it is safe to bury again.
        """
        ended: dict[str, Phase] = {}
        for failure in failures:
            if failure.hopeless is not None:
                run_id = campaign_id(self._namespace, failure.subject)
                self._commands.fail_run(run_id, failure.hopeless, str(failure.error))
                ended[failure.subject] = self._closure.close(run_id)
        return ended


@dataclass(frozen=True, kw_only=True)
class DeadLetter:
    """An item that was given up, and why.

    Attributes:
        at: when its campaign began to fail.
        detail: the error that was met, in words.
        decisions: the Decisions that rest on its Experience all the same, drawn from other items.
    """

    work_item_id: WorkItemId
    experience_id: ExperienceId
    run_id: RunId
    at: str
    cause: ControlCause
    detail: str
    decisions: tuple[DecisionId, ...]

    @property
    def remedy(self) -> str:
        """What helps against its cause."""
        return REMEDIES.get(self.cause, _FAILED)


def dead_letters(
    ledger: LedgerReader, artifacts: ArtifactStore, namespace: str, work: Iterable[Work]
) -> list[DeadLetter]:
    """Return the dead letters among some items of a namespace, in the order of the items.

    Raises:
        NotFoundError: the control event of one is missing; `IntegrityError`, if it was changed.
    """
    found = [(each.item, each.completion) for each in work if each.completion and _is_dead(each.completion)]
    resting = _resting(ledger, namespace) if found else {}
    letters = []
    for item, completion in found:
        digest = str(completion.terminal_evidence_digest)
        event = ControlEvent.read(artifacts.read(digest), digest)
        letters.append(
            DeadLetter(
                work_item_id=WorkItemId(item.id),
                experience_id=ExperienceId(item.experience_id),
                run_id=completion.run_id,
                at=event.at,
                cause=event.cause,
                detail=event.detail,
                decisions=tuple(resting.get(item.experience_id, ())),
            )
        )
    return letters


def _is_dead(completion: WorkCompletion) -> bool:
    return completion.status is CompletionStatus.DEAD_LETTER


def _resting(ledger: LedgerReader, namespace: str) -> dict[str, Sequence[DecisionId]]:
    """Return by Experience the Decisions about candidates that rest on it."""
    decided = [stored.load() for stored in ledger.find("distillation-decision", namespace)]
    decisions = [each for each in decided if isinstance(each, DistillationDecision)]
    candidates = ledger.get_many(str(each.candidate_id) for each in decisions)
    found: dict[str, list[DecisionId]] = {}
    for decision in decisions:
        candidate = candidates[decision.candidate_id].load() if decision.candidate_id in candidates else None
        for experience_id in candidate.experience_ids if isinstance(candidate, Candidate) else ():
            found.setdefault(experience_id, []).append(DecisionId(decision.id))
    return found  # type: ignore[return-value]  # lists are sequences
