"""Hard filters: what may be ranked at all (VRM-R02).

Rules kept here (reference order; docs/adr/0060), each stage seeing only what the stages before it let through:

    namespace, visibility        -> evaluator-private      -> snapshot membership -> retention
    -> disposition               -> action kind            -> task scope, domain, evaluation task
    -> dataset, source, model family, environment          -> contract, metric, budget class
    -> decision point            -> catalog                -> allowed action      -> prior configuration

- a field that the record constrains must be equal, letter by letter; a field left null constrains nothing. A request
  that leaves out what a record constrains does not match it. There is no wildcard, range or inheritance;
- a rule about a change applies where its starting value is in effect now; where its target value is in effect already,
  there is nothing to do. Drift of data, source, environment, evaluator or catalog is a digest that is no longer equal;
- facts come in as columns, so that a row's text is not touched before the row has passed;
- every refused row is counted once, under the first reason that refused it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from records.canonical import canonical_bytes
from records.decisions import AllowedAction
from records.knowledge import MemoryRecord
from records.values import ActionKind, DecisionPoint, Disposition, MemoryScope, MetricSpec, ReasonCount

Mask = NDArray[np.bool_]
Codes = NDArray[np.int32]

UNCONSTRAINED: Final = -1
"""The code of a null field."""

SCOPE_FIELDS: Final = (
    ("task_scope_id", "task_scope_mismatch"),
    ("domain", "domain_mismatch"),
    ("evaluation_task_id", "evaluation_task_mismatch"),
    ("dataset_digest", "dataset_mismatch"),
    ("source_digest", "source_mismatch"),
    ("model_family", "model_family_mismatch"),
    ("environment_digest", "environment_mismatch"),
    ("contract_digest", "contract_mismatch"),
)
"""Scope fields in the order of the filters, each with its reason code; metric and budget class follow."""

FILTER_FIELDS: Final = (
    "memory_id", "namespace", "visibility", "disposition", "action", *(name for name, _ in SCOPE_FIELDS), "metric",
    "budget_class", "decision_point", "catalog_digest", "change", "start",
)  # fmt: skip
"""The columns that filters read."""


@dataclass(frozen=True, eq=False)
class Column:
    """One field of every row.

    Attributes:
        values: the distinct values, sorted by code point.
        codes: int32, shape (rows,): the position of each row's value in `values`, or `UNCONSTRAINED`.
    """

    values: Sequence[str]
    codes: Codes

    @classmethod
    def of(cls, texts: Sequence[str | None]) -> Self:
        """Return the column of one text, or None, per row."""
        values = sorted({text for text in texts if text is not None})
        places = {text: at for at, text in enumerate(values)}
        codes = [UNCONSTRAINED if text is None else places[text] for text in texts]
        return cls(values, np.array(codes, dtype=np.int32))

    def allows(self, wanted: str | None) -> Mask:
        """Return which rows leave the field open or hold exactly `wanted`; None is held by no row."""
        held = self.holds(() if wanted is None else (wanted,))
        return np.asarray((self.codes == UNCONSTRAINED) | held) if self.has_open else held

    @cached_property
    def has_open(self) -> bool:
        """Whether any row leaves the field open."""
        return bool((self.codes == UNCONSTRAINED).any())

    def holds(self, wanted: Iterable[str]) -> Mask:
        """Return which rows hold one of the values."""
        chosen = np.zeros(len(self.values) + 1, dtype=np.bool_)  # the last one is what UNCONSTRAINED points at
        chosen[[at for at in map(self._place, wanted) if at is not None]] = True
        if not chosen.any():
            return np.zeros(self.codes.size, dtype=np.bool_)
        if chosen[:-1].all() and not self.has_open:  # a field that is the same everywhere need not be read row by row
            return np.ones(self.codes.size, dtype=np.bool_)
        return np.asarray(chosen[self.codes])

    def _place(self, text: str) -> int | None:
        at = bisect_left(self.values, text)
        return at if at < len(self.values) and self.values[at] == text else None


@dataclass(frozen=True, slots=True, eq=False)
class FilterColumns:
    """What filters read of every row, in the order of the ids.

    Attributes:
        fields: a column for each of `FILTER_FIELDS`.
        members: which rows are members of the Knowledge Snapshot; bool, shape (rows,).
    """

    fields: Mapping[str, Column]
    members: Mask

    @classmethod
    def of(cls, rows: Sequence[tuple[MemoryRecord, Disposition]]) -> Self:
        """Return the columns of records with their dispositions, all of them members."""
        facts = [filter_facts(record, disposition) for record, disposition in rows]
        fields = {name: Column.of([fact[name] for fact in facts]) for name in FILTER_FIELDS}
        return cls(fields, np.ones(len(rows), dtype=np.bool_))

    @property
    def size(self) -> int:
        """The number of rows."""
        return int(self.members.size)


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterQuestion:
    """What a row is held against; `denied` are memory ids that retention denies."""

    namespace: str
    scope: MemoryScope
    metric: MetricSpec
    decision_point: DecisionPoint
    catalog_digest: str
    prior_config: tuple[AllowedAction, ...]
    allowed_actions: tuple[AllowedAction, ...]
    dispositions: frozenset[Disposition]
    actions: frozenset[ActionKind]
    private_visibilities: frozenset[str]
    denied: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, eq=False)
class FilterResult:
    """The rows that passed, ascending, int64; and how many each reason refused, in the order of the stages."""

    rows: NDArray[np.int64]
    refused: tuple[ReasonCount, ...]

    def count(self, reason: str) -> int:
        """Return how many rows a reason refused."""
        return next((entry.count for entry in self.refused if entry.reason == reason), 0)


def setting(knob: str, value: str) -> str:
    """Return a knob with a value as one text; the value is the canonical JSON text that records hold."""
    return canonical_bytes([knob, value]).decode()


def filter_facts(record: MemoryRecord, disposition: Disposition) -> dict[str, str | None]:
    """Return what filters read of one record, by the names of `FILTER_FIELDS`."""
    knob, scope = record.target.knob, record.scope.as_json()
    return {
        "memory_id": str(record.id),
        "namespace": record.namespace,
        "visibility": record.scope.visibility,
        "disposition": disposition.value,
        "action": record.action.value,
        **{name: scope[name] for name, _ in SCOPE_FIELDS},
        "metric": record.effect.metric.canonical.decode(),
        "budget_class": record.scope.budget_class,
        "decision_point": record.target.decision_point.value,
        "catalog_digest": record.target.catalog_digest,
        "change": setting(knob.name, knob.to_value),
        "start": setting(knob.name, knob.from_value),
    }


def hard_filter(columns: FilterColumns, question: FilterQuestion) -> FilterResult:
    """Return the rows that pass every filter and a count per reason of those that do not."""
    alive = np.ones(columns.size, dtype=np.bool_)
    refused: list[ReasonCount] = []
    for reason, passes in _stages(columns, question):
        lost = int(np.count_nonzero(alive & ~passes))
        if lost:
            refused.append(ReasonCount(reason=reason, count=lost))
            alive &= passes
    return FilterResult(np.flatnonzero(alive).astype(np.int64), tuple(refused))


def _stages(columns: FilterColumns, question: FilterQuestion) -> Iterator[tuple[str, Mask]]:
    fields, scope = columns.fields, question.scope.as_json()
    current = [setting(entry.knob, entry.value) for entry in question.prior_config]
    allowed = [setting(entry.knob, entry.value) for entry in question.allowed_actions]
    yield "other_namespace", fields["namespace"].holds((question.namespace,))
    yield "other_visibility", fields["visibility"].holds((question.scope.visibility,))
    yield "evaluator_private", ~fields["visibility"].holds(question.private_visibilities)
    yield "not_in_snapshot", columns.members
    yield "retention_denied", ~fields["memory_id"].holds(question.denied)
    yield "disposition_not_admitted", fields["disposition"].holds(item.value for item in question.dispositions)
    yield "action_kind_not_admitted", fields["action"].holds(item.value for item in question.actions)
    for name, reason in SCOPE_FIELDS:
        yield reason, fields[name].allows(scope[name])
    yield "metric_mismatch", fields["metric"].holds((question.metric.canonical.decode(),))
    yield "budget_class_mismatch", fields["budget_class"].allows(question.scope.budget_class)
    yield "decision_point_mismatch", fields["decision_point"].holds((question.decision_point.value,))
    yield "catalog_mismatch", fields["catalog_digest"].holds((question.catalog_digest,))
    yield "action_already_in_effect", ~fields["change"].holds(current)
    yield "action_not_allowed", fields["change"].holds(allowed)
    yield "prior_config_mismatch", fields["start"].holds(current)
