"""What controls a Run from outside: published control events, and what a Run keeps of them (spec 6.3, 9.7).

A control event is an immutable artifact, addressed by the digest of its canonical bytes. What it does to a Run is
decided by `memory.control`; here is which cause may stand behind which kind, and what a cause makes of a decision.

A Run's Budget Envelope says of each resource what was spent, and how much may be. Work is charged by the command that
lets it happen (`records.runtime.Command`), so neither is there without the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Final, Self

from pydantic import Field, model_validator

from records.errors import BudgetExceededError, IdentityConflictError, IntegrityError
from records.fields import Digest, Name, Namespace, Text, Timestamp
from records.ids import IntentId, RunId
from records.models import Model
from records.outcomes import ExecutedActor, TerminalEvidenceKind, TerminalReason
from records.states import Phase
from records.values import Count


class ControlKind(StrEnum):
    """What an event does to its Run. The two that end it are the kinds of terminal evidence."""

    PAUSE = "PAUSE"
    RESUME = "RESUME"
    AMEND_BUDGET = "AMEND_BUDGET"
    CANCEL_EVENT = "CANCEL_EVENT"
    RUNTIME_FAILURE = "RUNTIME_FAILURE"


class ControlCause(StrEnum):
    """Why it happened."""

    COMMAND = "COMMAND"
    INCIDENT = "INCIDENT"
    ACTOR_INVOCATION_FAILED = "ACTOR_INVOCATION_FAILED"
    ACTOR_OUTPUT_MALFORMED = "ACTOR_OUTPUT_MALFORMED"
    INTEGRITY = "INTEGRITY"
    CONTRACT = "CONTRACT"
    INFRASTRUCTURE = "INFRASTRUCTURE"
    WORK_REJECTED = "WORK_REJECTED"
    RETRY_EXHAUSTED = "RETRY_EXHAUSTED"
    RETENTION_REVOKED = "RETENTION_REVOKED"


INDEPENDENT: Final = frozenset({ControlCause.INTEGRITY, ControlCause.CONTRACT, ControlCause.INFRASTRUCTURE})
"""Failures that no cancellation can have caused."""

OF_THE_WORK: Final = frozenset(
    {ControlCause.WORK_REJECTED, ControlCause.RETRY_EXHAUSTED, ControlCause.RETENTION_REVOKED}
)
"""Failures of a campaign's own work: refused for good, refused too often, or its evidence denied by retention."""

OF_AN_ACTOR: Final = {
    ControlCause.ACTOR_INVOCATION_FAILED: TerminalReason.ACTOR_INVOCATION_FAILED,
    ControlCause.ACTOR_OUTPUT_MALFORMED: TerminalReason.ACTOR_OUTPUT_MALFORMED,
}
"""Failures of the actor of one decision, with the reason that they are for that decision."""

LEGAL_CAUSES: Final[dict[ControlKind, frozenset[ControlCause]]] = {
    ControlKind.PAUSE: frozenset({ControlCause.COMMAND, ControlCause.INCIDENT}),
    ControlKind.RESUME: frozenset({ControlCause.COMMAND}),
    ControlKind.AMEND_BUDGET: frozenset({ControlCause.COMMAND}),
    ControlKind.CANCEL_EVENT: frozenset({ControlCause.COMMAND, ControlCause.INCIDENT}),
    ControlKind.RUNTIME_FAILURE: INDEPENDENT | OF_THE_WORK | frozenset(OF_AN_ACTOR),
}
"""Which cause may stand behind which kind."""

_CANCELLED: Final = {
    ControlCause.COMMAND: TerminalReason.CANCELLED_BY_COMMAND,
    ControlCause.INCIDENT: TerminalReason.CANCELLED_BY_INCIDENT,
}


class BudgetLimit(Model):
    """How much of a resource a Run may use."""

    resource: Name
    limit: Count


class BudgetLine(Model):
    """One resource of a Budget Envelope: what may be used of it, if that is limited, and what has been."""

    resource: Name
    limit: Count | None = None
    spent: Count = 0

    @model_validator(mode="after")
    def _within(self) -> BudgetLine:
        if self.limit is not None and self.spent > self.limit:
            raise ValueError("a limit is never below what is spent")
        return self


class Charge(Model):
    """What a command spends of a Run's budget.

    Attributes:
        key: what it is for, so that a copy of the command charges nothing. Without one, the moves of its command tell
            whether it was carried out before.
    """

    run_id: RunId
    resource: Name
    amount: Annotated[int, Field(ge=1)]
    key: Name | None = None


class ControlEvent(Model):
    """One control event of one Run.

    Attributes:
        detail: words for people; nothing is decided by them.
        intent_id: the decision whose actor failed, exactly for such causes.
        executed_actor: who answered what cannot be read, exactly for a malformed output.
        limits: the limits that an amendment sets, one for each resource that it names.
        expected_version: the version of the Run that an amendment was decided on.
    """

    namespace: Namespace
    run_id: RunId
    kind: ControlKind
    cause: ControlCause
    detail: Text
    at: Timestamp
    intent_id: IntentId | None = None
    executed_actor: ExecutedActor | None = None
    limits: tuple[BudgetLimit, ...] = ()
    expected_version: Count | None = None

    @model_validator(mode="after")
    def _consistent(self) -> ControlEvent:
        if self.cause not in LEGAL_CAUSES[self.kind]:
            raise ValueError("this cause may not stand behind this kind of event")
        if (self.intent_id is not None) != (self.cause in OF_AN_ACTOR):
            raise ValueError("a decision is named exactly where its actor failed")
        if (self.executed_actor is not None) != (self.cause is ControlCause.ACTOR_OUTPUT_MALFORMED):
            raise ValueError("an executed actor is named exactly where its output is malformed")
        amends = self.kind is ControlKind.AMEND_BUDGET
        if bool(self.limits) != amends or (self.expected_version is not None) != amends:
            raise ValueError("limits and an expected version are given exactly by an amendment of the budget")
        if len({limit.resource for limit in self.limits}) != len(self.limits):
            raise ValueError("an amendment names a resource once")
        return self

    @classmethod
    def read(cls, data: bytes, digest: str) -> Self:
        """Read a published event back.

        Raises:
            InvalidRecordError: the bytes are no control event.
            IntegrityError: they are not in canonical form.
        """
        event = cls.load(data)
        if event.canonical != data or event.canonical_digest != digest:
            raise IntegrityError("control_event", digest, "The artifact is not in canonical form.")
        return event

    @property
    def ref(self) -> ControlRef:
        """What a Run keeps of the event."""
        return ControlRef(kind=self.kind, digest=self.canonical_digest)

    def evidence_kind(self) -> TerminalEvidenceKind:
        """Return the kind of terminal evidence that the event is.

        Raises:
            IntegrityError: it ends nothing.
        """
        try:
            return TerminalEvidenceKind(self.kind.value)
        except ValueError:
            raise IntegrityError("control_event.kind", self.kind.value, "This event ends no decision.") from None

    def concerns(self, intent_id: str) -> bool:
        """Tell whether it was the actor of this decision that failed."""
        return self.intent_id is not None and self.intent_id == intent_id

    def reason(self, intent_id: str) -> TerminalReason:
        """Return why the decision ends; what befell another decision's actor is a failure of the Run for this one.

        Raises:
            IntegrityError: the event ends nothing.
        """
        if self.evidence_kind() is TerminalEvidenceKind.CANCEL_EVENT:
            return _CANCELLED[self.cause]
        if self.concerns(intent_id):
            return OF_AN_ACTOR[self.cause]
        return TerminalReason.RUNTIME_FAILURE_CLOSURE


class ControlRef(Model):
    """Kind and digest of a control event."""

    kind: ControlKind
    digest: Digest


class CoverageRef(Model):
    """What a Run's end rests on: how far the Ledger was read, and the digest of what was found there of the Run."""

    frontier: Count
    digest: Digest


class CampaignEnd(StrEnum):
    """Why a campaign ended as it did (spec 8.1)."""

    ALL_COMPLETED = "ALL_COMPLETED"
    CANCELLED = "CANCELLED"
    DEAD_LETTER_PRESENT = "DEAD_LETTER_PRESENT"
    RUNTIME_FAILURE_AFTER_WORK = "RUNTIME_FAILURE_AFTER_WORK"
    RUNTIME_FAILURE_AFTER_CLOSURE = "RUNTIME_FAILURE_AFTER_CLOSURE"


class RunFacts(Model):
    """What a Run keeps besides its phase.

    Attributes:
        control: the primary control event, by which every decision that is still open is closed.
        superseded: the cancellation that a failure of its own took over; what was granted by it stays valid.
        secondary: failures that nothing before them can have caused, kept as evidence beside the primary one.
        taken: the other events that took effect, so that a late copy of one does nothing.
        budget: the Budget Envelope, sorted by resource; what it does not name was never used and has no limit.
        charges: the charges that carry a key, so that a copy of one does nothing.
        coverage: given when the Run has ended.
        end: given when the Run was a campaign and has ended.
    """

    control: ControlRef | None = None
    superseded: ControlRef | None = None
    secondary: tuple[ControlRef, ...] = ()
    taken: tuple[Digest, ...] = ()
    budget: tuple[BudgetLine, ...] = ()
    charges: tuple[Charge, ...] = ()
    coverage: CoverageRef | None = None
    end: CampaignEnd | None = None

    def knows(self, charge: Charge) -> bool:
        """Tell whether a charge with a key was made before.

        Raises:
            IdentityConflictError: another amount was charged for the same.
        """
        if charge.key is None:
            return False
        for known in self.charges:
            if (known.key, known.resource) == (charge.key, charge.resource):
                if known != charge:
                    met = f"{charge.amount} {charge.resource} for {charge.key}"
                    raise IdentityConflictError("charge", met, f"{known.amount} was charged for it.")
                return True
        return False

    def charged(self, charge: Charge) -> RunFacts:
        """Return the facts after a charge that was not made before.

        Raises:
            BudgetExceededError: it goes over the limit of its resource.
        """
        lines = {line.resource: line for line in self.budget}
        line = lines.get(charge.resource) or BudgetLine(resource=charge.resource)
        spent = line.spent + charge.amount
        if line.limit is not None and spent > line.limit:
            met = f"limit {line.limit}, spent {line.spent}, asked {charge.amount}"
            remedy = f"Nothing was changed. Amend the budget: `vrm runs budget {charge.run_id} {charge.resource}=N`."
            raise BudgetExceededError(f"budget.{charge.resource}", met, remedy)
        lines[line.resource] = line.model_copy(update={"spent": spent})
        kept = self.charges if charge.key is None else (*self.charges, charge)
        return self.model_copy(update={"budget": tuple(each for _, each in sorted(lines.items())), "charges": kept})


class ControlEffect(StrEnum):
    """What became of a control event."""

    APPLIED = "APPLIED"
    REPLAYED = "REPLAYED"
    RETAINED = "RETAINED"
    SUPPRESSED = "SUPPRESSED"


@dataclass(frozen=True)
class Controlled:
    """The answer to a control event: what became of it, where the Run stands now, and what controls it."""

    effect: ControlEffect
    phase: Phase
    control: ControlRef | None
