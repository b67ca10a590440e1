"""Whether a rule is true of a group: what it says, where it applies, and what was planted there."""

from __future__ import annotations

from collections.abc import Iterator

from evaluation.writer.groups import GoldRule, Group, Place, PlantedEffect, beyond
from evaluation.writer.ranges import MARGIN
from evaluation.writer.trials import comparability
from policies.catalog import Change, value_text
from records.canonical import digest_bytes
from records.knowledge import MemoryRecord
from records.values import MemoryScope


def holds(group: Group, rule: MemoryRecord) -> bool:
    """Tell whether what was planted bears a rule out: in each place that its scope covers, and for its action.

    A rule that is bound to one task is held against what the change does to that root alone.
    """
    planted = [each for each in group.effects if _about(rule, each.change) and _covers(group, rule.scope, each.place)]
    if rule.scope.evaluation_task_id is None:
        means = [each.mean if beyond(each) else None for each in planted]
    else:
        means = [mean for each in planted for mean in _of_task(group, rule.scope, each)]
    return bool(means) and all(mean is not None and group.action(mean) is rule.action for mean in means)


def satisfied(group: Group, gold: GoldRule, rule: MemoryRecord) -> bool:
    """Tell whether a rule is the one that had to become active: for the scope, not for one task of it."""
    return (
        _about(rule, gold.change)
        and rule.action is gold.action
        and rule.scope.evaluation_task_id is None
        and _covers(group, rule.scope, gold.place)
    )


def _about(rule: MemoryRecord, change: Change) -> bool:
    knob = rule.target.knob
    return (knob.name, knob.from_value, knob.to_value) == (
        change.knob,
        value_text(change.from_value),
        value_text(change.to_value),
    )


def _covers(group: Group, scope: MemoryScope, place: Place) -> bool:
    """Tell whether runs at a place are in a scope: exact equality on every field that is given."""
    pairs = (
        (scope.environment_digest, digest_bytes(place.environment.encode())),
        (scope.source_digest, digest_bytes(place.source.encode())),
        (scope.model_family, place.model_family),
        (scope.budget_class, place.budget),
        (scope.contract_digest, comparability(group, place)),
    )
    return all(wanted is None or wanted == met for wanted, met in pairs)


def _of_task(group: Group, scope: MemoryScope, effect: PlantedEffect) -> Iterator[float | None]:
    """Yield what a change does to the root of a task, None where that is no rule."""
    for root, does in effect.roots.items():
        if group.task(root).evaluation_task_id == scope.evaluation_task_id:
            yield does if effect.lawful and abs(does) > MARGIN else None
