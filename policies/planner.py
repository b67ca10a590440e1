"""The deterministic planner of the demonstration: one knob change per attempt, memory or no memory (spec 13).

Rules kept here (docs/adr/0060):

- without cards the planner explores: the catalog's changes that were not tried yet, in an order that a seed decides and
  nothing else, so that two arms with one seed explore alike;
- cards steer the first `steered_decisions` decisions and are then released, against anchoring;
- a card is judged by the planner's own rules, whatever its text says: the catalog and the configuration in effect
  decide what may be done (VRM-R09). Every card gets exactly one reason code;
- a procedure and an episode advise no single change, so they have no expected gain here;
- at most one card is adopted, and only if the decision follows from it: a recommendation that becomes the proposal, or
  a warning that made exploration pass over the action which it would have taken next;
- a proposal changes exactly one knob to another allowed value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Annotated

from pydantic import Field

from policies.catalog import Change, InterventionCatalog, KnobValue, value_text
from policies.loading import Policy, packaged_policy
from policies.ranker import advised_gain, counter_permille
from records.canonical import domain_digest
from records.decisions import AllowedAction, Card, ContextItem, DecisionContractView, EvidenceCard
from records.outcomes import CardDisposition, CardReason
from records.values import ActionKind, Grade


class PlannerPolicy(Policy):
    """One version of the policy.

    Attributes:
        steered_decisions: how many decisions of a run cards may steer, from the first on.
        max_counter_permille: most counter-evidence that an adopted card may have, in thousandths of its units.
    """

    steered_decisions: Annotated[int, Field(ge=0)]
    max_counter_permille: Annotated[int, Field(ge=0, le=1000)]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannerQuestion:
    """What a decision starts from.

    Attributes:
        cards: the cards of the Recall Context, best first; none in a control arm.
        config: the configuration in effect, every knob and fixed setting of the catalog.
        catalog: what may be changed.
        tried: actions that this run has tried.
        decision_index: which decision of the run this is, from 0.
        seed: what decides the order of exploration.
        view: what the actor may see of the contract.
        section_digest: the digest of the memory section as it was rendered, for an actor that reads; the planner does
            not.
    """

    cards: tuple[ContextItem, ...]
    config: Mapping[str, KnobValue]
    catalog: InterventionCatalog
    tried: frozenset[AllowedAction]
    decision_index: int
    seed: int
    view: DecisionContractView
    section_digest: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannerAnswer:
    """What the planner proposes.

    Attributes:
        change: the one change, or None where nothing is left to do.
        action: the same change as records hold it.
        dispositions: one per card, in the order of the cards.
        steered: whether a card decided the proposal.
    """

    change: Change | None
    action: AllowedAction | None
    dispositions: tuple[CardDisposition, ...]
    steered: bool


def planner_policy(version: str = "1") -> PlannerPolicy:
    """Return the packaged policy of a version.

    Raises:
        InvalidInputError: no such version ships.
    """
    return packaged_policy(PlannerPolicy, "planner", version)


def current_settings(catalog: InterventionCatalog, config: Mapping[str, KnobValue]) -> tuple[AllowedAction, ...]:
    """Return the knobs of a configuration with their values, sorted by knob; the `prior_config` of a request."""
    return tuple(_setting(catalog, name, config[name]) for name in sorted(catalog.knobs))


def open_actions(
    catalog: InterventionCatalog, config: Mapping[str, KnobValue], tried: frozenset[AllowedAction]
) -> tuple[AllowedAction, ...]:
    """Return every action that the catalog allows from here and that was not tried, sorted; what a request allows."""
    actions = (
        _setting(catalog, name, value)
        for name, knob in sorted(catalog.knobs.items())
        for value in knob.allowed
        if value != config[name]
    )
    return tuple(sorted((item for item in actions if item not in tried), key=lambda item: (item.knob, item.value)))


def allowed_action_digest(actions: Sequence[AllowedAction]) -> str:
    """Return the digest of a set of allowed actions; their order does not count."""
    return domain_digest("allowed-actions", sorted([item.knob, item.value] for item in actions))


def exploration_order(actions: Sequence[AllowedAction], seed: int) -> tuple[AllowedAction, ...]:
    """Return actions in the order of a seed: by the digest of seed and action, so leaving one out moves no other."""
    return tuple(sorted(actions, key=lambda item: _explored(str(seed), item.knob, item.value)))


@lru_cache(maxsize=1024)
def _explored(seed: str, knob: str, value: str) -> str:
    """Return what an action is ordered by; every decision of a seed orders the same ones."""
    return domain_digest("exploration-order", [seed, knob, value])


def plan(question: PlannerQuestion, policy: PlannerPolicy) -> PlannerAnswer:
    """Return the proposal and what became of each card."""
    order = exploration_order(open_actions(question.catalog, question.config, question.tried), question.seed)
    reasons = {item.citation_id: _objection(item.card, question, policy) for item in question.cards}
    usable = [
        (item, item.card)
        for item in question.cards
        if isinstance(item.card, EvidenceCard) and reasons[item.citation_id] is None
    ]
    advised = next((each for each in usable if each[1].action is ActionKind.RECOMMEND), None)
    chosen, adopted = _explore(order, usable) if advised is None else (_target(advised[1]), advised[0])
    return PlannerAnswer(
        change=None if chosen is None else change_of(question, chosen),
        action=chosen,
        dispositions=tuple(
            _disposition(item, reasons[item.citation_id], chosen if item is adopted else None)
            for item in question.cards
        ),
        steered=adopted is not None,
    )


def answer_without_cards(
    question: PlannerQuestion, advised: Sequence[AllowedAction], avoided: Sequence[AllowedAction]
) -> PlannerAnswer:
    """Return the proposal of a planner that was given no cards but, by another design, advice and warnings.

    The first advice that is open is taken; else the first open action that is not warned of, in the order of the seed.
    """
    order = exploration_order(open_actions(question.catalog, question.config, question.tried), question.seed)
    taken = next((action for action in advised if action in order), None)
    chosen = taken or next((action for action in order if action not in avoided), None)
    return PlannerAnswer(
        change=None if chosen is None else change_of(question, chosen),
        action=chosen,
        dispositions=(),
        steered=taken is not None or (bool(order) and chosen != order[0]),
    )


def _explore(
    order: Sequence[AllowedAction], warnings: Sequence[tuple[ContextItem, EvidenceCard]]
) -> tuple[AllowedAction | None, ContextItem | None]:
    """Return the first action that no card warns of, and the card that changed the choice, if one did."""
    warned = {_target(card): item for item, card in warnings if card.action is ActionKind.AVOID}
    chosen = next((action for action in order if action not in warned), None)
    if chosen is None or chosen == order[0]:
        return chosen, None
    return chosen, warned[order[0]]


def _objection(card: Card, question: PlannerQuestion, policy: PlannerPolicy) -> CardReason | None:
    """Return the first reason against using a card, or None."""
    if not isinstance(card, EvidenceCard):
        return CardReason.REJECTED_LOW_EXPECTED_UTILITY
    knob, catalog = card.target.knob, question.catalog
    known = catalog.knobs.get(knob.name)
    if known is None or knob.to_value not in {value_text(value) for value in known.allowed}:
        return CardReason.REJECTED_PROTECTED_ACTION
    if card.target.catalog_digest != catalog.digest:
        return CardReason.REJECTED_STALE_DEPENDENCY
    start = _setting(catalog, knob.name, question.config[knob.name])
    if knob.from_value != start.value or card.effect.metric != question.view.primary_metric:
        return CardReason.REJECTED_SCOPE_MISMATCH
    if card.strength.grade is Grade.CONTESTED or counter_permille(card.strength) > policy.max_counter_permille:
        return CardReason.REJECTED_COUNTEREVIDENCE
    expected = advised_gain(card.effect, card.action)
    if expected <= Fraction(question.view.equivalence_margin) or _target(card) in question.tried:
        return CardReason.REJECTED_LOW_EXPECTED_UTILITY
    if question.decision_index >= policy.steered_decisions:
        return CardReason.NOT_CONSIDERED_BUDGET
    return None


def _disposition(item: ContextItem, objection: CardReason | None, adopted: AllowedAction | None) -> CardDisposition:
    reason = objection or (CardReason.NOT_CONSIDERED_BUDGET if adopted is None else CardReason.ADOPTED_APPLICABLE)
    return CardDisposition(
        citation_id=item.citation_id,
        card_id=item.card_id,
        verdict=reason.verdict,
        reason=reason,
        action_knob=None if adopted is None else adopted.knob,
        action_value=None if adopted is None else adopted.value,
    )


def change_of(question: PlannerQuestion, action: AllowedAction) -> Change:
    """Return an action as a change of the configuration in effect."""
    knob = question.catalog.knobs[action.knob]
    value = next(item for item in knob.allowed if value_text(item) == action.value)
    return Change(action.knob, question.config[action.knob], value, knob.mechanism)


def _target(card: EvidenceCard) -> AllowedAction:
    return AllowedAction(knob=card.target.knob.name, value=card.target.knob.to_value)


def _setting(catalog: InterventionCatalog, knob: str, value: KnobValue) -> AllowedAction:
    """Return a setting in the catalog's own spelling, so that 10 and 10.0 are one action."""
    return catalog.settings[knob][catalog.knobs[knob].allowed.index(value)]
