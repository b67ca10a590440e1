"""The best node of a tree, whose lineage a paper is about (spec 003; docs/adr/0081).

Rules kept here:

- nodes with real data are compared: they succeeded, their measurement was not declared invalid, and they report a
  number. Names that begin with `_` are a search's own and no data;
- the metric that was declared decides, in its direction; of equal values the first reported node is taken. The largest
  number of all is wrong for what is minimised, and is never used;
- where no metric is declared the judge's score decides, and the answer says so;
- a node whose result could not be reproduced is not the best one. Nodes with a verified file of measurements come
  before nodes without; only if no node has one are the others compared, and the answer says so.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from policies.lineage.grounding import can_measure
from policies.lineage.reading_policy import LineageReadingPolicy
from records.errors import InvalidInputError
from records.lineage import EvaluationStatus, Integrity, LineageEntry, NodeReport, NodeStatus
from records.values import Direction

_SHOWN = 12


class Contract(NamedTuple):
    """The metric that a tree is searched for, and which way is better."""

    name: str
    direction: Direction


class ChosenBy(StrEnum):
    """What decided."""

    METRIC = "metric"
    JUDGE = "judge"
    NAMED = "named"


@dataclass(frozen=True, slots=True, kw_only=True)
class Best:
    """The best node.

    Attributes:
        contract: the metric that decided; null where the node was named.
        value: of that metric.
        measured: whether it has a verified file of measurements.
        considered: how many nodes were compared.
    """

    node_id: str
    chosen_by: ChosenBy
    contract: Contract | None
    value: str | None
    measured: bool
    considered: int


def declared_contract(entries: Iterable[LineageEntry]) -> Contract | None:
    """Return the metric that consolidation was told of; None if there is none, or several.

    Entries that no policy made are a node's own, and a node does not declare what it is judged by.
    """
    found = {
        Contract(each.metric.name, each.metric.direction)
        for each in entries
        if each.policy is not None and each.metric is not None and each.metric.direction is not None
    }
    return found.pop() if len(found) == 1 else None


def has_real_data(report: NodeReport) -> bool:
    """Tell whether a node measured something."""
    valid = report.evaluation_status in (None, EvaluationStatus.VALID)
    return (
        report.status is NodeStatus.SUCCESS and valid and any(not each.name.startswith("_") for each in report.metrics)
    )


def is_measured(report: NodeReport, policy: LineageReadingPolicy) -> bool:
    """Tell whether a node has a file of measurements whose digest was verified."""
    return any(
        file.integrity is Integrity.VERIFIED and can_measure(file, report, policy.grounding)
        for file in report.artifacts
    )


def best_node(
    reports: Sequence[NodeReport], contract: Contract | None, failed: Collection[str], policy: LineageReadingPolicy
) -> Best | None:
    """Return the best node; None where no node has real data.

    Args:
        reports: of one checkpoint, in the order of the journal, without what retention denies.
        contract: the metric; None to go by the judge's score.
        failed: nodes whose result could not be reproduced.
        policy: names the judge's metric, and what a file of measurements is.

    Raises:
        InvalidInputError: no node with real data has that metric, or there is neither a metric nor a judge's score.
    """
    real = [each for each in reports if has_real_data(each) and each.node_id not in failed]
    if not real:
        return None
    wanted = contract or Contract(policy.context.judge, Direction.MAXIMIZE)
    valued = [(each, found) for each in real if (found := _value(each, wanted.name)) is not None]
    if not valued:
        raise _nothing_to_compare(real, contract)
    measured = [each for each in valued if is_measured(each[0], policy)]
    compared = measured or valued
    sign = 1 if wanted.direction is Direction.MAXIMIZE else -1
    report, value = max(compared, key=lambda each: sign * float(each[1]))  # of equal ones, the first
    return Best(
        node_id=report.node_id,
        chosen_by=ChosenBy.JUDGE if contract is None else ChosenBy.METRIC,
        contract=wanted,
        value=value,
        measured=bool(measured),
        considered=len(compared),
    )


def _value(report: NodeReport, name: str) -> str | None:
    return next((each.value for each in report.metrics if each.name == name), None)


def _nothing_to_compare(real: Sequence[NodeReport], contract: Contract | None) -> InvalidInputError:
    names = sorted({each.name for report in real for each in report.metrics if not each.name.startswith("_")})
    shown = ", ".join(names[:_SHOWN])
    met = "none declared, and no judge's score" if contract is None else contract.name
    return InvalidInputError("metric", met, f"Name a metric with its direction, or the node. Metrics here: {shown}.")
