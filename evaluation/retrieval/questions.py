"""What a question of the gold set is: a decision, its typed request, and the right answer as it was planted.

Rules kept here:

- the answer is known before anything is written, and nothing of the product says what it is;
- what is right is told by **acts**: a change and whether it is to be done or avoided. One act is one Knowledge Family
  and its advice;
- an act's grade follows from the effect that was planted: beyond the contract's margin by six margins or more 3, by
  three or more 2, by less 1. A warning is worth 1: it saves one trial and improves none;
- required are the mechanisms whose acts have grade 2 or 3, at most the best three; where there is none, that of the
  best act.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

from evaluation.retrieval.graded import half_of
from policies.catalog import Change, Config, InterventionCatalog, value_text
from policies.planner import current_settings, open_actions
from records.decisions import AllowedAction
from records.evidence import EvaluationContract
from records.knowledge import MemoryRecord
from records.values import ActionKind, MemoryScope

MOST: Final = 3
"""Cards of an answer."""
_STEPS: Final = ((6.0, 3), (3.0, 2))
_STRONG: Final = 2


class Stratum(StrEnum):
    """The major strata of the gold set, registered beforehand (reference 1.3)."""

    ONE = "recall_one"
    SEVERAL = "recall_several"
    ABSTAIN = "abstain"
    FORBIDDEN = "forbidden"


class Act(NamedTuple):
    """What a rule tells: the knob, the value it is moved to as records hold it, and whether to do so."""

    knob: str
    value: str
    action: ActionKind

    @classmethod
    def of(cls, record: MemoryRecord) -> Act:
        """Return what a rule tells."""
        return cls(record.target.knob.name, record.target.knob.to_value, record.action)

    @classmethod
    def about(cls, change: Change, action: ActionKind) -> Act:
        """Return the act about a change of a catalog."""
        return cls(change.knob, value_text(change.to_value), action)


@dataclass(frozen=True, kw_only=True)
class Question:
    """One question.

    Attributes:
        name: unique among all questions; it decides the half.
        origin: `planted`, or the table that the question is about.
        scope: of the task that asks, which no evidence is about where the rules are about a task scope.
        text: the request's words.
        config: the configuration in effect; `tried`: actions that are no longer open.
        only: knobs that the request allows; empty for all.
        grades: grade above zero by act, of what is right.
        strict: whether any other act is a forbidden one.
    """

    name: str
    origin: str
    stratum: Stratum
    scope: MemoryScope
    contract: EvaluationContract
    catalog: InterventionCatalog
    text: str
    config: Config
    grades: Mapping[Act, int]
    tried: frozenset[AllowedAction] = frozenset()
    only: frozenset[str] = frozenset()
    strict: bool = False
    forbidden: frozenset[Act] = field(default=frozenset())

    @property
    def half(self) -> str:
        """The half of the gold set that the question belongs to."""
        return half_of(self.name)

    @property
    def is_eligible(self) -> bool:
        """Whether there is something to recall."""
        return bool(self.grades)

    @property
    def allowed(self) -> tuple[AllowedAction, ...]:
        """The actions that the request allows."""
        actions = open_actions(self.catalog, self.config, self.tried)
        return tuple(each for each in actions if not self.only or each.knob in self.only)

    @property
    def settings(self) -> tuple[AllowedAction, ...]:
        """The configuration in effect, as a request holds it."""
        return current_settings(self.catalog, self.config)

    @property
    def best(self) -> Mapping[str, int]:
        """The best grade of each mechanism: more than one card of a mechanism is never shown."""
        best: dict[str, int] = {}
        for act, grade in self.grades.items():
            mechanism = self.catalog.knobs[act.knob].mechanism
            best[mechanism] = max(best.get(mechanism, 0), grade)
        return best

    @property
    def required(self) -> tuple[frozenset[Act], ...]:
        """The groups of acts one of which must be cited: one group for each required mechanism."""
        by_mechanism: dict[str, dict[Act, int]] = {}
        for act, grade in self.grades.items():
            by_mechanism.setdefault(self.catalog.knobs[act.knob].mechanism, {})[act] = grade
        best = self.best
        order = sorted(best, key=lambda mechanism: (-best[mechanism], mechanism))
        wanted = [each for each in order if best[each] >= _STRONG][:MOST] or order[:1]
        return tuple(
            frozenset(act for act, grade in by_mechanism[each].items() if grade >= min(_STRONG, best[each]))
            for each in wanted
        )


def grade_of(mean: float, margin: float, action: ActionKind) -> int:
    """Return the grade of an act about an effect of this size, in the metric's unit."""
    if action is ActionKind.AVOID:
        return 1
    beyond = abs(mean) / margin - 1.0
    return next((grade for least, grade in _STEPS if beyond >= least), 1)
