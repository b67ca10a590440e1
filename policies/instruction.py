"""What every actor is told about Evidence Cards, as a versioned text (specification 13; docs/adr/0072).

The identity of the version in use is the template of the planned actor in every intent, and stands again in what the
actor answers, so that it can be told of each decision under which words it was made.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, field_validator

from policies.loading import Policy, packaged_policy
from records.fields import Name, Text
from records.outcomes import RUNTIME_ONLY, CardReason


class ActorInstruction(Policy):
    """One version of the text.

    Attributes:
        envelope: the form of the answer that it asks for (`records.envelopes`).
        text: the words.
        reasons: the codes that an actor may give for a card.
    """

    envelope: Name
    text: Annotated[Text, Field(min_length=1)]
    reasons: Annotated[tuple[CardReason, ...], Field(min_length=1)]

    @field_validator("reasons")
    @classmethod
    def _an_actors_own(cls, reasons: tuple[CardReason, ...]) -> tuple[CardReason, ...]:
        if len(set(reasons)) != len(reasons) or RUNTIME_ONLY & set(reasons):
            raise ValueError("each code once, and none that only Runtime closure writes")
        return reasons


def actor_instruction(version: str = "1") -> ActorInstruction:
    """Return the packaged text of a version.

    Raises:
        InvalidInputError: no such version ships.
    """
    return packaged_policy(ActorInstruction, "actor-instruction", version)
