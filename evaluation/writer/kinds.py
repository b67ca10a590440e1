"""The kinds of groups, registered in one table before anything was measured: the strata, their sizes, what is expected.

A corpus of 120 groups holds each kind as often as the table says: six strata of twenty, each with at least ten groups
that must become active and five that must not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Any, Final

from evaluation.writer import effects, evidence, history
from evaluation.writer.groups import Group, Taint
from evaluation.writer.planting import Planting
from policies.distillation_policy import CandidateReason as Code
from records.knowledge import EventType
from records.values import Disposition

Plan = Callable[[Planting], Group]


class Stratum(StrEnum):
    """The major strata."""

    EFFECT = "effect"
    SUPPORT = "support"
    IDENTITY = "identity"
    COMPARABILITY = "comparability"
    INTEGRITY = "integrity"
    HISTORY = "history"


REFUSED: Final = "refused_at_the_door"
"""The reason of evidence that the Ledger does not take."""

ELSEWHERE: Final = "in_another_namespace"
"""The reason of evidence that no writer of this namespace sees."""


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One kind.

    Attributes:
        count: groups of a corpus of 120.
        plan: how one group is planted.
        reasons: reason codes one of which says why the group was decided so.
        ends: dispositions that the claim may end in; None is a claim that has no record.
        history: lifecycle events that the claim must go through, where the kind has one.
    """

    name: str
    stratum: Stratum
    count: int
    plan: Plan
    reasons: frozenset[str]
    ends: frozenset[Disposition | None]
    history: tuple[EventType, ...] = ()
    minimize: bool | None = False
    guarded: bool = False

    @property
    def meaning(self) -> str:
        """The kind in words."""
        plan = self.plan.func if isinstance(self.plan, partial) else self.plan
        return (plan.__doc__ or "").strip()

    def group(self, number: int, seed: int) -> Group:
        """Return one group of the kind."""
        minimize = bool(number % 2) if self.minimize is None else self.minimize
        return self.plan(Planting(self.name, number, seed, minimize=minimize, guarded=self.guarded))


_ACTIVE: Final = (Disposition.ACTIVE,)
_NONE: Final = (None,)
_BELOW: Final = (None, Disposition.PROVISIONAL)
_SHOWN: Final = (Code.ELIGIBLE_ACTIVE.value,)
_WAITS: Final = (Code.INSUFFICIENT_INDEPENDENT_SUPPORT.value,)
_DIVIDED: Final = (*_WAITS, Code.SCOPE_SPLIT_REQUIRED.value)
_NOTHING: Final = (Code.GENERIC_OR_NON_ACTIONABLE.value,)
_ALONE: Final = (Code.NON_COMPARABLE_EVIDENCE.value,)
_DISPUTED: Final = (Code.TRUE_CONTRADICTION.value,)


class _Table:
    """Collects the rows of one stratum."""

    def __init__(self, stratum: Stratum) -> None:
        self._stratum = stratum
        self.kinds: list[Kind] = []

    def row(
        self,
        count: int,
        plan: Plan,
        reasons: Iterable[str] = _SHOWN,
        ends: Iterable[Disposition | None] = _ACTIVE,
        **more: Any,
    ) -> None:
        named = more.pop("name", None) or getattr(plan, "__name__", "")
        kind = Kind(
            name=named, stratum=self._stratum, count=count, plan=plan,
            reasons=frozenset(reasons), ends=frozenset(ends), **more,
        )  # fmt: skip
        self.kinds.append(kind)


def _effect(table: _Table) -> None:
    table.row(4, effects.promote)
    table.row(3, effects.avoid)
    table.row(3, effects.minimise, minimize=True)
    table.row(3, effects.null, _NOTHING, _NONE)
    table.row(2, effects.small, _NOTHING, _NONE)
    table.row(3, effects.heterogeneous, _DIVIDED, _BELOW)
    table.row(2, effects.many_tries, _WAITS, _BELOW)


def _support(table: _Table) -> None:
    table.row(6, effects.one_seed)
    table.row(4, effects.uneven_seeds)
    table.row(4, effects.too_little, _WAITS, _BELOW)
    table.row(3, effects.lucky, _WAITS, _NONE)
    table.row(3, effects.unpaired)


def _identity(table: _Table) -> None:
    table.row(4, effects.copied)
    table.row(3, effects.repeated)
    table.row(3, effects.copied_later, history=(EventType.PROMOTED_ACTIVE,))
    table.row(5, effects.few_copied, _WAITS, _BELOW)
    table.row(5, effects.lucky_copied, _WAITS, _NONE)


def _comparability(table: _Table) -> None:
    table.row(3, evidence.confounded_beside)
    table.row(3, evidence.contract_beside)
    table.row(2, evidence.split)
    table.row(2, evidence.guardrail_held, guarded=True)
    table.row(2, evidence.confounded, _ALONE, _NONE)
    table.row(2, evidence.contract_change, _WAITS, _BELOW)
    table.row(2, evidence.flip_unexplained, _DIVIDED, _BELOW)
    table.row(2, evidence.guardrail_breach, (Code.GENERIC_OR_NON_ACTIONABLE.value,), _BELOW, guarded=True)
    table.row(2, evidence.guardrail_missing, (Code.MISSING_GUARDRAIL_EVIDENCE.value,), _BELOW, guarded=True)


def _integrity(table: _Table) -> None:
    table.row(4, evidence.tainted_beside)
    table.row(2, evidence.private_prose)
    table.row(4, evidence.failures_beside)
    for taint, reason in _HELD_BACK.items():
        plan = partial(evidence.tainted, taint=taint)
        table.row(1, plan, (reason,), _NONE, name=f"only_{taint.value}")
    table.row(1, evidence.forbidden, (Code.MISSING_TYPED_ACTION.value,), _NONE)
    table.row(1, evidence.failures_only, ("invalid_verification",), _NONE)


def _history(table: _Table) -> None:
    start, over = EventType.PROMOTED_ACTIVE, EventType.SUPERSEDED
    table.row(5, history.supersede, history=(start, over, start))
    table.row(5, history.activate, history=(EventType.PROMOTED_PROVISIONAL, EventType.ACTIVATED))
    table.row(
        4, history.retract, _DIVIDED, (Disposition.RETRACTED,), history=(EventType.PROMOTED_ACTIVE, EventType.RETRACTED)
    )
    disputed = (Disposition.CONTESTED,)
    table.row(3, history.contest, _DISPUTED, disputed, history=(start, over, EventType.PROMOTED_CONTESTED))
    table.row(3, history.contradiction, _DISPUTED, disputed, history=(EventType.PROMOTED_CONTESTED,))


_HELD_BACK: Final = {
    Taint.ATTESTED: "verification_attested",
    Taint.UNVERIFIED: Code.MISSING_VERIFICATION.value,
    Taint.NO_PROVENANCE: Code.MISSING_TRIAL_PROVENANCE.value,
    Taint.FORGED: REFUSED,
    Taint.EVALUATION: "evaluation_corpus",
    Taint.ARM_BOUND: Code.NON_COMPARABLE_EVIDENCE.value,
    Taint.PRIVATE: ELSEWHERE,
    Taint.NAMES_EVALUATOR: Code.PRIVATE_EVALUATOR_DEPENDENCY.value,
}
"""What holds tainted evidence back."""

_ROWS: Final = {
    Stratum.EFFECT: _effect,
    Stratum.SUPPORT: _support,
    Stratum.IDENTITY: _identity,
    Stratum.COMPARABILITY: _comparability,
    Stratum.INTEGRITY: _integrity,
    Stratum.HISTORY: _history,
}


def _registered() -> dict[str, Kind]:
    found: list[Kind] = []
    for stratum, fill in _ROWS.items():
        table = _Table(stratum)
        fill(table)
        found += table.kinds
    return {kind.name: kind for kind in found}


KINDS: Final = _registered()
"""Every kind by its name."""
