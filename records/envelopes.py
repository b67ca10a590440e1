"""What an actor answers: one proposal, one disposition a card, and an echo of what it was given (spec 9.7, 13).

The envelope is an artifact that is published before anything is executed; its digest is the response digest of the
Outcome, and the artifact of a completed one. It stands around the proposal, which it leaves as it is.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from records.decisions import AllowedAction, NoMemoryBinding, RequiredMemoryBinding
from records.fields import Digest
from records.ids import IntentId
from records.models import Model
from records.outcomes import CardDisposition
from records.values import PolicyIdentity


class PlannerEnvelope(Model):
    """The answer of one actor to one decision.

    Attributes:
        instruction: the text about cards that the actor was given.
        memory: what it was given of memory, word for word as published before it was asked.
        legacy_recall: the digest of the lessons of the earlier design that it was given; None in any other mode.
        proposal: the one action, or None.
        steered: whether memory decided the proposal.
    """

    envelope: Literal["planner-envelope/v2"] = "planner-envelope/v2"
    intent_id: IntentId
    instruction: PolicyIdentity
    memory: Annotated[RequiredMemoryBinding | NoMemoryBinding, Field(discriminator="binding")]
    legacy_recall: Digest | None
    proposal: AllowedAction | None
    dispositions: tuple[CardDisposition, ...]
    steered: bool

    @model_validator(mode="after")
    def _one_memory(self) -> PlannerEnvelope:
        if self.memory.intent_id != self.intent_id:
            raise ValueError("the memory binding is of another decision")
        none_given = isinstance(self.memory, NoMemoryBinding)
        if self.legacy_recall is not None and not none_given:
            raise ValueError("lessons of the earlier design and a Recall Context are never given to one decision")
        if none_given and self.dispositions:
            raise ValueError("an actor that was given no cards has none to dispose of")
        return self
