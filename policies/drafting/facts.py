"""What a drafter is told of a verdict: typed, public, structured facts, and nothing else (spec 11.3, 11.7).

Rules kept here:

- a fact is a name, a number or an id that is part of a public record; nothing that an evaluator keeps private, and no
  text that a run wrote: hypotheses, logs and outputs stay outside;
- numbers are given as they are to be shown, so that each number of a wording can be looked up among them;
- of much evidence some ids are named, those that speak against the rule first; how much there is, is told in full.
"""

from __future__ import annotations

from typing import Final

from policies.distiller import VariantVerdict
from policies.drafting.template import shown
from records.fields import Name, Text
from records.ids import ExperienceId
from records.knowledge import LinkRelation
from records.models import Model
from records.values import ActionKind, Count, Grade, Interval, Knob, MetricSpec

MAX_EVIDENCE: Final = 24
"""So many ids are named to a drafter; a rule over thousands of runs must not fill its prompt with them."""


class ShownInterval(Model):
    """An interval with both ends as shown."""

    low: Text
    high: Text


class GuardrailFact(Model):
    """What the change did to another metric, as shown."""

    metric: MetricSpec
    mean_delta: Text


class DraftFacts(Model):
    """Everything that wording may speak of.

    Attributes:
        action: what the rule tells to do; None where nothing is promoted.
        plain: the sentence that the template makes of the verdict.
        mechanism: the class that the rule belongs to; given, never drafted.
        scope: where the rule holds, in public attributes.
        mean_delta, mean_interval, prediction_interval, guardrails: signed, changed minus baseline, in each metric's
            unit.
        unit_count: independent dataset roots; pair_count: paired runs behind them.
        evidence_ids: Experiences that may be cited; evidence_count: how many there are.
    """

    knob: Knob
    metric: MetricSpec
    action: ActionKind | None
    plain: Text
    mechanism: Name
    scope: Text
    mean_delta: Text
    mean_interval: ShownInterval | None
    prediction_interval: ShownInterval | None
    guardrails: tuple[GuardrailFact, ...]
    unit_count: Count
    pair_count: Count
    improved_count: Count
    worsened_count: Count
    tied_count: Count
    grade: Grade
    evidence_ids: tuple[ExperienceId, ...]
    evidence_count: Count

    @property
    def numbers(self) -> frozenset[str]:
        """Every number as it may stand in wording; without a sign only those that have none, and the effect's size."""
        signed = [self.mean_delta, *(guard.mean_delta for guard in self.guardrails)]
        for bounds in (self.mean_interval, self.prediction_interval):
            signed += [] if bounds is None else [bounds.low, bounds.high]
        unsigned = [text[1:] for text in signed if text.startswith("+")]
        counts = (
            self.unit_count, self.pair_count, self.improved_count,
            self.worsened_count, self.tied_count, self.evidence_count,
        )  # fmt: skip
        return frozenset([*signed, *unsigned, self.mean_delta[1:], *map(str, counts)])


def facts_of(verdict: VariantVerdict) -> DraftFacts:
    """Return the facts of a verdict."""
    variant, effect = verdict.variant, verdict.effect
    against_first = sorted(verdict.links, key=lambda link: (link.relation is LinkRelation.SUPPORTS, link.experience_id))
    ids = dict.fromkeys([link.experience_id for link in against_first])
    return DraftFacts(
        knob=variant.target.knob,
        metric=variant.metric,
        action=verdict.verdict.action,
        plain=verdict.claim,
        mechanism=variant.mechanism,
        scope=variant.scope_description,
        mean_delta=shown(float(effect.mean_delta)),
        mean_interval=_shown(effect.mean_interval),
        prediction_interval=_shown(effect.prediction_interval),
        guardrails=tuple(
            GuardrailFact(metric=guard.metric, mean_delta=shown(float(guard.mean_delta))) for guard in effect.guardrails
        ),
        unit_count=effect.unit_count,
        pair_count=effect.pair_count,
        improved_count=effect.improved_count,
        worsened_count=effect.worsened_count,
        tied_count=effect.tied_count,
        grade=verdict.strength.grade,
        evidence_ids=tuple(ids)[:MAX_EVIDENCE],
        evidence_count=len(ids),
    )


def _shown(interval: Interval | None) -> ShownInterval | None:
    if interval is None:
        return None
    return ShownInterval(low=shown(float(interval.low)), high=shown(float(interval.high)))
