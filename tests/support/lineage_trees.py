"""Trees of nodes in memory: any shape, with an entry of every kind from every node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from records.base import Record
from records.ids import NodeReportId
from records.lineage import EntryKind, LineageEntry, NodeReport, Reproduction
from tests.support.lineage_samples import make_entry, make_report, make_rerun
from tests.support.trials import digest

STATEMENTS = tuple(kind for kind in EntryKind if kind is not EntryKind.REPRODUCIBILITY_EVENT)
parents = st.lists(st.integers(min_value=0, max_value=10), max_size=9).map(
    lambda drawn: [None, *(value % (at + 1) for at, value in enumerate(drawn))]
)
"""Trees: for each node the number of its parent, which came before it; the first is the root."""


def reports_of(shape: Sequence[int | None], checkpoint: str = "run-1", **changes: Any) -> list[NodeReport]:
    """Return the reports of a tree; node k is named `n<k>`."""
    made: list[NodeReport] = []
    for at, above in enumerate(shape):
        parent = None if above is None else made[above]
        own = {"report_digest": digest(f"{checkpoint} n{at}")}
        report = make_report("test", f"n{at}", parent, checkpoint_id=checkpoint)
        fields = {name: getattr(report, name) for name in type(report).model_fields} | own | changes
        fields["report"] = report.report.model_copy(update={"sha256": own["report_digest"]})
        fields["parent_report_id"] = None if parent is None else NodeReportId(parent.id)
        made.append(NodeReport.build(**fields))
    return made


def entries_of(reports: Sequence[NodeReport], kinds: Sequence[EntryKind] = STATEMENTS) -> list[LineageEntry]:
    """Return an entry of each kind from each node, the last node first, for the journal knows no tree."""
    return [
        make_entry(report, kind, text=f"{report.checkpoint_id} {report.node_id} {kind.value}")
        for report in reversed(reports)
        for kind in kinds
    ]


def reruns_of(reports: Sequence[NodeReport], entries: Sequence[LineageEntry], **changes: Any) -> list[Record]:
    """Return what each node says of each result: it failed again."""
    results = [each for each in entries if each.entry_kind is EntryKind.EXPERIMENT_RESULT]
    return [
        make_rerun(entry, report, status=Reproduction.RERUN_FAILED, **changes)  # type: ignore[arg-type]  # a result
        for report in reports
        for entry in results
    ]
