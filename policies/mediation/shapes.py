"""The trace of a decision as frozen values that JSON can hold."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from pydantic import BaseModel, ConfigDict

from policies.modes import SHADOW
from records.outcomes import CardVerdict
from records.values import Direction, RecallRequirement

UNDECIDED: Final = "undecided"
"""What became of a card of which no outcome speaks."""


class Break(StrEnum):
    """How a chain of ids is broken."""

    NO_OUTCOME = "no_outcome"
    CONTEXT_MISSING = "context_missing"
    CITATION_UNRESOLVED = "citation_unresolved"
    SOURCE_DIFFERS = "source_differs"
    DISPOSITIONS_DIFFER = "dispositions_differ"
    MAPPING_DIFFERS = "mapping_differs"
    LINK_MISSING = "link_missing"
    EVIDENCE_MISSING = "evidence_missing"
    CONFIG_DIFFERS = "config_differs"
    INTERVENTION_DIFFERS = "intervention_differs"
    CONTEXT_DIFFERS = "context_differs"
    NOT_VERIFIED = "not_verified"


OF_THE_EXECUTION: Final = frozenset(
    {
        Break.LINK_MISSING, Break.EVIDENCE_MISSING, Break.CONFIG_DIFFERS, Break.INTERVENTION_DIFFERS,
        Break.CONTEXT_DIFFERS,
    }
)  # fmt: skip
"""Breaks after which nothing shows that what was decided is what ran."""


class Ran(StrEnum):
    """The manipulation check: what a decision made of the configuration."""

    CHANGED = "changed"
    NO_EFFECT = "no_effect"
    BASELINE = "baseline"
    REJECTED = "rejected"
    NOTHING = "nothing_ran"


class Judgement(StrEnum):
    """What the verified outcome says of an adopted card."""

    CONFIRMED = "confirmed"
    NO_DIFFERENCE = "no_difference"
    REFUTED = "refuted"
    UNVERIFIED = "unverified"
    NOT_TESTED = "not_tested"


class Shape(BaseModel):
    """A frozen value that JSON can hold."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Action(Shape):
    """A knob and the value it is set to, as canonical JSON text."""

    knob: str
    value: str


class Broken(Shape):
    """One break, with the id or digest that it is about."""

    what: Break
    about: str


class CardTrace(Shape):
    """One card as returned, and what became of it.

    Attributes:
        sources: the records that it was made of; evidence: the Experiences that those were distilled from.
        advice: what the card says to do about `target`.
        verdict, reason: its disposition; mapped_to: the action that an adopted one was mapped to.
        judgement: what the verified outcome says of an adopted one.
    """

    ordinal: int
    citation_id: str
    card_id: str
    sources: tuple[str, ...]
    evidence: tuple[str, ...]
    tokens: int
    advice: str
    target: Action | None
    verdict: str
    reason: str
    mapped_to: Action | None
    judgement: Judgement | None


class Counterpart(Shape):
    """The decision of the other arm at the same place of the same pair, with its verified outcome.

    `delta` is this decision's outcome minus the counterpart's, signed so that more is better.
    """

    intent_id: str
    arm: str
    ran: Ran
    after: float | None
    delta: float | None


class DecisionTrace(Shape):
    """One decision from its intent to its verified outcome; None where it did not get that far.

    Attributes:
        assignment: digest of the assignment manifest, which tells apart rounds that name their pairs alike.
        requirement: what the arm was assigned; eligible: how many rows passed the hard filters.
        action: what was proposed; executed: what Trial Provenance says ran.
        before, after: the verified primary metric of the configuration that was changed, and of the one that ran.
        gain: after minus before, signed so that more is better; margin: what tells an effect from none.
        seconds: how long the experiment took, as its Observation says.
        breaks: what is missing or contradicts itself.
    """

    intent_id: str
    run_id: str
    iteration: int
    arm: str | None
    pair: str | None
    assignment: str
    evaluation_task_id: str
    decision_point: str
    requirement: RecallRequirement
    source_status: str | None
    source_reason: str | None
    context_id: str | None
    eligible: int | None
    tokens: int | None
    cards: tuple[CardTrace, ...]
    outcome_id: str | None
    decision_status: str | None
    terminal_reason: str | None
    artifact_digest: str | None
    action: Action | None
    attempt_id: str | None
    experience_id: str | None
    intervention_id: str | None
    executed: Action | None
    decided_config_digest: str | None
    executed_config_digest: str | None
    ran: Ran
    valid: bool | None
    violations: tuple[str, ...]
    metric: str | None
    direction: Direction | None
    margin: float
    before: float | None
    after: float | None
    gain: float | None
    seconds: float | None
    breaks: tuple[Broken, ...]
    counterpart: Counterpart | None = None

    @property
    def asked(self) -> bool:
        """Whether the arm was assigned memory."""
        return self.requirement is RecallRequirement.REQUIRED

    @property
    def shadowed(self) -> bool:
        """Whether memory was recalled beside the work and shown to nobody (spec 18)."""
        return self.arm == SHADOW

    @property
    def adopted(self) -> tuple[CardTrace, ...]:
        """The cards that the actor says it followed."""
        return tuple(card for card in self.cards if card.verdict == CardVerdict.ADOPTED)

    @property
    def mapped(self) -> bool:
        """Whether a card was adopted, and every adopted one is mapped to the action that was proposed."""
        return bool(self.adopted) and not self.broken(Break.MAPPING_DIFFERS, Break.DISPOSITIONS_DIFFER)

    @property
    def faithful(self) -> bool:
        """Whether what ran is what was decided."""
        return self.executed_config_digest is not None and not self.broken(*OF_THE_EXECUTION)

    @property
    def changed(self) -> bool:
        """Whether another, legal configuration really ran, and the one that was decided."""
        return self.ran is Ran.CHANGED and self.faithful

    @property
    def verified(self) -> bool:
        """Whether that has a valid verified outcome."""
        return self.changed and bool(self.valid) and self.after is not None

    @property
    def improved(self) -> bool:
        """Whether the verified outcome is better than before by more than the margin."""
        return self.verified and self.gain is not None and self.gain > self.margin

    def broken(self, *breaks: Break) -> bool:
        """Tell whether one of these breaks was found."""
        return any(each.what in breaks for each in self.breaks)
