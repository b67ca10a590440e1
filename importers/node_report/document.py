"""A whole report in both published shapes: what it says, typed, and what had to be repaired (reference.md 2.1, 2.5).

Rules kept here:

- the shape of the JSON Schema and that of the reference page are both read: there a node is *completed* and its files
  have a *path*, here it is *success* or *failed* and they have a *filename*. A completed node succeeded;
- what the schema requires and is not there refuses the report; what says the same in other words is repaired, and each
  repair is noted with its field;
- nothing is made up: a label that nobody gave is `other`, a digest that cannot be read was not claimed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from importers.node_report.files_named import Claimed, artifacts, changes
from importers.node_report.reasons import RefusalCode, Refused
from importers.node_report.values import Repairs, document_of, metrics, moment, optional_text, required, text, texts
from importers.node_report.values import typed as of_type
from policies.lineage.consolidation import ReportWords
from records.lineage import (
    NODE_PATTERN,
    EvaluationStatus,
    FileChange,
    NodeLabel,
    NodeMetric,
    NodeStatus,
    NotFiniteMetric,
    RepairCode,
    ReportShape,
)

_ALSO_SUCCESS: Final = frozenset({"completed", "succeeded", "ok"})
_UNFINISHED: Final = frozenset({"pending", "running"})
_SAID: Final = 2_000


@dataclass(frozen=True, kw_only=True)
class ReportDocument:
    """What a report says.

    Attributes:
        ancestors: null where the report does not name them; `depth` likewise.
        has_parent: whether the report says anything of a parent, even that there is none.
        ended_at: when the node ended, as a timestamp; null where the report does not say.
    """

    node_id: str
    parent_node_id: str | None
    has_parent: bool
    ancestors: tuple[str, ...] | None
    depth: int | None
    shape: ReportShape
    label: NodeLabel
    raw_label: str | None
    status: NodeStatus
    raw_status: str
    evaluation_status: EvaluationStatus | None
    metrics: tuple[NodeMetric, ...]
    not_finite: tuple[NotFiniteMetric, ...]
    files_changed: tuple[FileChange, ...]
    artifacts: tuple[Claimed, ...]
    words: ReportWords
    ended_at: str | None
    repairs: Repairs


def read_document(data: bytes) -> ReportDocument:
    """Read a report.

    Raises:
        Refused: it is not taken; code, field and what was met are named.
    """
    found, repairs = document_of(data), Repairs()
    version = required(found, "schema_version", int)
    if version != 1:
        raise Refused(RefusalCode.SCHEMA_VERSION, "schema_version", version)
    node = node_name(required(found, "node_id", str), "node_id")
    status, raw_status = _status(found, repairs)
    parent, ancestors = _lineage(found, repairs)
    label, raw_label = _label(found, repairs)
    finite, other = metrics(found, repairs)
    changed, left = changes(found, repairs), artifacts(found, repairs)
    by_path = any(each.code is RepairCode.ARTIFACT_BY_PATH for each in repairs.made)
    page = by_path or raw_status == "completed"
    return ReportDocument(
        node_id=node,
        parent_node_id=parent,
        has_parent="parent_id" in found or parent is not None,
        ancestors=ancestors,
        depth=_depth(found, repairs),
        shape=ReportShape.REFERENCE_PAGE if page else ReportShape.SCHEMA,
        label=label,
        raw_label=raw_label,
        status=status,
        raw_status=raw_status,
        evaluation_status=_evaluation(found),
        metrics=finite,
        not_finite=other,
        files_changed=changed,
        artifacts=left,
        words=_words(found, repairs),
        ended_at=_ended_at(found, repairs),
        repairs=repairs,
    )


def node_name(value: str, field: str) -> str:
    """Return the name of a node or of a run.

    Raises:
        Refused: it cannot be that of a folder.
    """
    if not re.fullmatch(NODE_PATTERN, value):
        raise Refused(RefusalCode.WRONG_TYPE, field, value)
    return value


def _status(found: dict[str, Any], repairs: Repairs) -> tuple[NodeStatus, str]:
    raw = text(required(found, "status", str), "status", repairs, _SAID)
    if raw in _UNFINISHED:
        raise Refused(RefusalCode.NOT_FINAL, "status", raw)
    if raw in _ALSO_SUCCESS:
        repairs.add(RepairCode.STATUS_COMPLETED, "status")
        return NodeStatus.SUCCESS, raw
    if raw not in set(NodeStatus):
        raise Refused(RefusalCode.UNKNOWN_VALUE, "status", raw)
    return NodeStatus(raw), raw


def _evaluation(found: dict[str, Any]) -> EvaluationStatus | None:
    raw = found.get("evaluation_status")
    if raw is None:
        valid = found.get("measurement_valid")
        return EvaluationStatus.CANDIDATE_INVALID if valid is False else None
    if not isinstance(raw, str) or raw not in set(EvaluationStatus):
        raise Refused(RefusalCode.UNKNOWN_VALUE, "evaluation_status", raw)
    return EvaluationStatus(raw)


def _lineage(found: dict[str, Any], repairs: Repairs) -> tuple[str | None, tuple[str, ...] | None]:
    given = found.get("parent_id")
    parent = None if given is None else node_name(of_type(given, "parent_id", str), "parent_id")
    listed = found.get("ancestor_ids")
    if listed is None:
        return parent, None
    named = enumerate(of_type(listed, "ancestor_ids", list))
    ancestors = tuple(
        node_name(of_type(each, f"ancestor_ids.{place}", str), f"ancestor_ids.{place}") for place, each in named
    )
    last = ancestors[-1] if ancestors else None
    if "parent_id" not in found and last is not None:
        repairs.add(RepairCode.PARENT_FROM_ANCESTORS, "parent_id")
        parent = last
    if parent != last:
        raise Refused(RefusalCode.ANCESTORS_CONTRADICT, "ancestor_ids", f"parent {parent}, last ancestor {last}")
    if len(set(ancestors)) != len(ancestors) or found["node_id"] in ancestors:
        raise Refused(RefusalCode.ANCESTORS_CONTRADICT, "ancestor_ids", "a node comes twice")
    return parent, ancestors


def _depth(found: dict[str, Any], repairs: Repairs) -> int | None:
    if found.get("depth") is None:
        repairs.add(RepairCode.DEPTH_MISSING, "depth")
        return None
    depth: int = of_type(found["depth"], "depth", int)
    return depth


def _label(found: dict[str, Any], repairs: Repairs) -> tuple[NodeLabel, str | None]:
    own, word = (optional_text(found, name, repairs)[:_SAID] or None for name in ("label", "raw_label"))
    if own is None:
        repairs.add(RepairCode.LABEL_MISSING, "label")
        return NodeLabel.OTHER, word
    if own not in set(NodeLabel):
        repairs.add(RepairCode.LABEL_UNKNOWN, "label")
        return NodeLabel.OTHER, word or own
    return NodeLabel(own), word


def _words(found: dict[str, Any], repairs: Repairs) -> ReportWords:
    assessed = found.get("self_assessment")
    assessed = {} if assessed is None else of_type(assessed, "self_assessment", dict)
    return ReportWords(
        headline=optional_text(assessed, "headline", repairs),
        what_was_done=optional_text(found, "what_was_done", repairs),
        delta_vs_parent=optional_text(found, "delta_vs_parent", repairs),
        evaluator_reason=optional_text(found, "evaluator_reason", repairs),
        hints=texts(found.get("next_steps_hints"), "next_steps_hints", repairs),
    )


def _ended_at(found: dict[str, Any], repairs: Repairs) -> str | None:
    ended = moment(found.get("completed_at"), "completed_at")
    if ended is None:
        ended = moment(found.get("started_at"), "started_at")
        if ended is not None:
            repairs.add(RepairCode.TIME_FROM_START, "completed_at")
    return ended
