"""From the report of a node to the entries that are remembered of it: pure, the same for the same report (spec 003).

Rules kept here (reference.md 2.2, with its defects 2.5(2) and (3) mended):

- a node that succeeded and measured something leaves an experiment result; one that ended otherwise, or whose own
  evaluator calls it invalid, a failure case; one that succeeded and measured nothing leaves nothing. A fault of the
  infrastructure is no result;
- what a node would do next is a reflection: its confidence is the policy's, and it rests on no file;
- the headline metric is the declared one, with its unit and direction. Where none is declared, or the report does not
  have it, no other is taken in its place, and the entry says so. A judge's score is no measurement;
- an entry rests on the files that were read, and says which of them had the digest that was claimed. A file that was
  missing or had other bytes is named by how many there were, and is never rested on.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final

from policies.lineage.policy import ConsolidationPolicy, HeadlineMetric
from records.ids import NodeReportId
from records.lineage import (
    Attribute,
    EntryArtifact,
    EntryIntegrity,
    EntryKind,
    EvaluationStatus,
    Integrity,
    MetricPointer,
    NodeReport,
    NodeReportRef,
    NodeStatus,
    Statement,
)

CREATED_BY: Final = "lineage-consolidation"
_READ: Final = {Integrity.VERIFIED: EntryIntegrity.VERIFIED, Integrity.UNHASHED: EntryIntegrity.UNVERIFIED}
HEADLINE: Final = "headline_metric"
"""The attribute that says why an entry points at no metric."""


@dataclass(frozen=True, kw_only=True)
class ReportWords:
    """What a report says in words; empty where it says nothing."""

    headline: str = ""
    what_was_done: str = ""
    delta_vs_parent: str = ""
    evaluator_reason: str = ""
    hints: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Consolidation:
    """The entries of a report, and why there is none of its outcome; null where there is one."""

    entries: tuple[Statement, ...]
    why_nothing: str | None


def consolidate(
    report: NodeReport, words: ReportWords, declared: HeadlineMetric | None, policy: ConsolidationPolicy
) -> Consolidation:
    """Return what is remembered of a node; nothing of it depends on when or how often this is asked."""
    make = _Maker(report, words, declared, policy)
    kind, why = _outcome(report, policy)
    outcome = () if kind is None else (make.outcome(kind),)
    return Consolidation(entries=(*outcome, *make.reflection()), why_nothing=why)


def _outcome(report: NodeReport, policy: ConsolidationPolicy) -> tuple[EntryKind | None, str | None]:
    if report.status is not NodeStatus.SUCCESS:
        return EntryKind.FAILURE_CASE, None
    if report.evaluation_status is EvaluationStatus.CANDIDATE_INVALID:
        return EntryKind.FAILURE_CASE, None
    if report.evaluation_status is EvaluationStatus.INFRASTRUCTURE_ERROR:
        return None, "the infrastructure failed, which says nothing of the node"
    if not any(policy.is_measured(each.name) for each in report.metrics):
        return None, "the node succeeded and measured nothing"
    return EntryKind.EXPERIMENT_RESULT, None


class _Maker:
    """What the entries of one report share."""

    def __init__(
        self, report: NodeReport, words: ReportWords, declared: HeadlineMetric | None, policy: ConsolidationPolicy
    ) -> None:
        self._report = report
        self._words = words
        self._declared = declared
        self._policy = policy

    def outcome(self, kind: EntryKind) -> Statement:
        """Return the entry of what came of the node."""
        words, report = self._words, self._report
        failed = kind is EntryKind.FAILURE_CASE
        told = (words.headline, words.what_was_done, words.delta_vs_parent)
        text = _first(*((words.evaluator_reason, *told) if failed else told)) or self._plain()
        read = [each for each in report.artifacts if each.integrity in _READ]
        artifacts = tuple(
            EntryArtifact(
                relative_path=each.relative_path,
                sha256=each.computed or "",
                size_bytes=each.size_bytes or 0,
                role=each.role,
                integrity=_READ[each.integrity],
            )
            for each in read
        )
        metric, why = self._metric()
        facts = {"label": report.label.value, "node_status": report.status.value, **self._left_out()}
        facts |= {} if why is None else {HEADLINE: why}
        facts |= {} if report.evaluation_status is None else {"evaluation_status": report.evaluation_status.value}
        return self._statement(kind, text, facts, artifacts=artifacts, metric=metric)

    def reflection(self) -> tuple[Statement, ...]:
        """Return what the node would do next, if it says so."""
        text = "\n".join(each.strip() for each in self._words.hints if each.strip())
        if not text:
            return ()
        confidence = self._policy.entries.reflection_confidence
        return (self._statement(EntryKind.REFLECTION, text, {}, confidence=confidence),)

    def _metric(self) -> tuple[MetricPointer | None, str | None]:
        declared = self._declared
        if declared is None:
            return None, "no contract declares one"
        found = next((each for each in self._report.metrics if each.name == declared.name), None)
        if found is None:
            other = any(each.name == declared.name for each in self._report.not_finite)
            return None, f"{declared.name} is {'not finite' if other else 'not in the report'}"
        made = MetricPointer(name=found.name, value=found.value, unit=declared.unit, direction=declared.direction)
        return made, None

    def _left_out(self) -> dict[str, str]:
        counts = Counter(each.integrity for each in self._report.artifacts if each.integrity not in _READ)
        return {f"artifacts_{status.value}": str(count) for status, count in counts.items()}

    def _plain(self) -> str:
        report = self._report
        measured = [f"{each.name} {each.value}" for each in report.metrics if self._policy.is_measured(each.name)]
        return f"Node {report.node_id} ended as {report.status.value}; measured: {', '.join(measured) or 'nothing'}."

    def _statement(
        self,
        kind: EntryKind,
        text: str,
        facts: dict[str, str],
        *,
        artifacts: tuple[EntryArtifact, ...] = (),
        metric: MetricPointer | None = None,
        confidence: str | None = None,
    ) -> Statement:
        report, limit = self._report, self._policy.entries.text_limit
        facts = facts | ({"text_cut_from": str(len(text))} if len(text) > limit else {})
        return Statement.build(
            namespace=report.namespace,
            created_at=report.created_at,
            entry_kind=kind,
            checkpoint_id=report.checkpoint_id,
            node_id=report.node_id,
            ancestors=report.ancestors,
            text=text[:limit],
            artifacts=artifacts,
            node_report_id=NodeReportId(report.id),
            report_ref=NodeReportRef(run_id=report.checkpoint_id, node_id=report.node_id, digest=report.report_digest),
            metric=metric,
            confidence=confidence,
            created_by=CREATED_BY,
            policy=self._policy.identity,
            attributes=tuple(Attribute(name=name, value=value) for name, value in sorted(facts.items())),
        )


def _first(*texts: str) -> str:
    return next((each.strip() for each in texts if each.strip()), "")
