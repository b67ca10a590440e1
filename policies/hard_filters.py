"""Hard filters: what may be ranked at all (VRM-R02).

Rules kept here (reference order; docs/adr/0060, 0061), each stage seeing only what the stages before it let through:

    namespace, visibility        -> evaluator-private      -> snapshot membership -> retention
    -> Run, arm and pair         -> disposition            -> action kind         -> task scope, domain, evaluation task
    -> dataset, source, model family, environment          -> contract, metric, budget class
    -> decision point            -> catalog                -> situation, tools and their versions, allowed action
    -> prior configuration       -> failure signature

- a stage is for the sources that have its fact: an episode has a Run and no disposition, a procedure tools and no one
  knob. From the catalog on, a stage is held where the profile of the decision point asks for it;
- a field that the record constrains must be equal, letter by letter; a field left null constrains nothing. A request
  that leaves out what a record constrains does not match it. There is no wildcard, range or inheritance;
- a rule about a change applies where its starting value is in effect now; where its target value is in effect already,
  there is nothing to do. Drift of data, source, environment, evaluator, catalog or tool is a digest or version that is
  no longer equal: that is all of validity in time and version, for a scope has no field of valid time;
- an episode is shown to its own Run, arm and pair alone (VRM-L04, O03);
- facts come in as columns, so that a row's text is not touched before the row has passed;
- every refused row is counted once, under the first reason that refused it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from policies.retrieval_policy import RequiredFilter
from records.canonical import canonical_bytes, parse_canonical
from records.decisions import AllowedAction
from records.knowledge import MemoryRecord
from records.values import ActionKind, DecisionPoint, Disposition, MemoryScope, MetricSpec, ReasonCount

Mask = NDArray[np.bool_]
Codes = NDArray[np.int32]

_FEW: Final = 3
"""Up to so many values are compared with every row; of more it is looked up which they are."""

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
"""The columns that filters read of rules."""


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
        places = np.flatnonzero(chosen)
        if places.size > _FEW:
            return np.asarray(chosen[self.codes])
        return np.asarray(np.logical_or.reduce([self.codes == place for place in places]))

    def exactly(self, wanted: str | None) -> Mask:
        """Return which rows hold `wanted`, or hold nothing where nothing is wanted."""
        return np.asarray(self.codes == UNCONSTRAINED) if wanted is None else self.holds((wanted,))

    def passes(self, rule: Callable[[str], bool]) -> Mask:
        """Return which rows hold a value that passes a rule; no value passes none."""
        return self.holds([value for value in self.values if rule(value)])

    def _place(self, text: str) -> int | None:
        at = bisect_left(self.values, text)
        return at if at < len(self.values) and self.values[at] == text else None


@dataclass(frozen=True, slots=True, eq=False)
class FilterColumns:
    """What filters read of every row, in the order of the ids.

    Attributes:
        fields: a column for each field of its kind of source; for rules `FILTER_FIELDS`.
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
    """What a row is held against.

    Attributes:
        points: the decision points of the rules and procedures that may be shown.
        tools: what may be used, with the version that runs here.
        situation: the situation of the decision as triggers name it; None passes no trigger that is asked for.
        failure_signature: how it failed, where it did; an episode that failed otherwise is refused.
        own: Run, arm and pair of the decision; only their own episodes pass.
        filters: the filters that the profile asks for.
        denied: memory ids that retention denies.
    """

    namespace: str
    scope: MemoryScope
    metric: MetricSpec
    points: frozenset[DecisionPoint]
    catalog_digest: str
    prior_config: tuple[AllowedAction, ...]
    allowed_actions: tuple[AllowedAction, ...]
    dispositions: frozenset[Disposition]
    actions: frozenset[ActionKind]
    private_visibilities: frozenset[str]
    filters: frozenset[RequiredFilter]
    own: tuple[str, str | None, str | None]
    tools: Mapping[str, str]
    situation: str | None = None
    failure_signature: str | None = None
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
        lost = int(np.count_nonzero(alive > passes))
        if lost:
            refused.append(ReasonCount(reason=reason, count=lost))
            alive &= passes
    return FilterResult(np.flatnonzero(alive).astype(np.int64), tuple(refused))


def _stages(columns: FilterColumns, question: FilterQuestion) -> Iterator[tuple[str, Mask]]:
    yield from _visible(columns, question)
    yield from _applies(columns.fields, question)
    yield from _asked(columns.fields, question)


def _visible(columns: FilterColumns, question: FilterQuestion) -> Iterator[tuple[str, Mask]]:
    """Say what may be seen at all."""
    fields = columns.fields
    yield "other_namespace", fields["namespace"].holds((question.namespace,))
    yield "other_visibility", fields["visibility"].holds((question.scope.visibility,))
    yield "evaluator_private", ~fields["visibility"].holds(question.private_visibilities)
    yield "not_in_snapshot", columns.members
    yield "retention_denied", ~next(iter(fields.values())).holds(question.denied)
    if "run_id" in fields:
        own = zip(("run_id", "arm", "pair"), question.own, strict=True)
        yield "other_arm", np.logical_and.reduce([fields[name].exactly(value) for name, value in own])
    if "disposition" in fields:
        yield "disposition_not_admitted", fields["disposition"].holds(item.value for item in question.dispositions)
    if "action" in fields:
        yield "action_kind_not_admitted", fields["action"].holds(item.value for item in question.actions)


def _applies(fields: Mapping[str, Column], question: FilterQuestion) -> Iterator[tuple[str, Mask]]:
    """Say what the scope is for."""
    scope = question.scope.as_json()
    for name, reason in SCOPE_FIELDS:
        yield reason, fields[name].allows(scope[name])
    yield "metric_mismatch", fields["metric"].holds((question.metric.canonical.decode(),))
    yield "budget_class_mismatch", fields["budget_class"].allows(question.scope.budget_class)
    if "decision_point" in fields:
        yield "decision_point_mismatch", fields["decision_point"].holds(point.value for point in question.points)


def _asked(fields: Mapping[str, Column], question: FilterQuestion) -> Iterator[tuple[str, Mask]]:
    """Say what the profile of the decision point asks for besides, of the sources that have such a fact."""
    current = [setting(entry.knob, entry.value) for entry in question.prior_config]
    allowed = [setting(entry.knob, entry.value) for entry in question.allowed_actions]
    stages: tuple[tuple[RequiredFilter, str, str, Callable[[Column], Mask]], ...] = (
        (RequiredFilter.CATALOG, "catalog_digest", "catalog_mismatch",
         lambda column: column.holds((question.catalog_digest,))),
        (RequiredFilter.SITUATION, "situation", "situation_mismatch",
         lambda column: column.holds(() if question.situation is None else (question.situation,))),
        (RequiredFilter.TOOLS, "tools", "tool_not_allowed",
         lambda column: column.passes(lambda text: parse_canonical(text).keys() <= question.tools.keys())),
        (RequiredFilter.TOOLS, "tools", "tool_version_mismatch",
         lambda column: column.passes(lambda text: _runs(parse_canonical(text), question.tools))),
        (RequiredFilter.NOVELTY, "change", "action_already_in_effect", lambda column: ~column.holds(current)),
        (RequiredFilter.ALLOWED_ACTION, "change", "action_not_allowed", lambda column: column.holds(allowed)),
        (RequiredFilter.ALLOWED_ACTION, "changes", "action_not_allowed",
         lambda column: column.passes(lambda text: set(map(_setting_of, parse_canonical(text))) <= set(allowed))),
        (RequiredFilter.PRIOR_CONFIG, "start", "prior_config_mismatch", lambda column: column.holds(current)),
        (RequiredFilter.FAILURE_SIGNATURE, "failure_signature", "other_failure",
         lambda column: column.allows(question.failure_signature)),
    )  # fmt: skip
    for wanted, name, reason, stage in stages:
        if wanted in question.filters and name in fields:
            yield reason, stage(fields[name])


def _runs(needed: Mapping[str, Sequence[str]], tools: Mapping[str, str]) -> bool:
    """Tell whether each tool runs here at a version that it was seen to work with."""
    return all(tools.get(tool) in versions for tool, versions in needed.items())


def _setting_of(pair: Sequence[str]) -> str:
    return setting(*pair)
