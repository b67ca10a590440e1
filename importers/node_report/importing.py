"""Reports become records, are appended, and what is remembered of them is appended after them (spec 003).

Rules kept here:

- the order for each report is: its bytes published, its record appended, then the entries that consolidation makes of
  it. So an import that was cut short goes on: what is there is a replay, what is missing is added;
- parents come before children, level by level; the ancestors of a node are what its parent's report says, and a report
  that contradicts its parent's is refused, with whatever rests on it;
- a node has one report. The same bytes again are a replay, whatever has become of its files; other bytes are refused;
- every file that a report names is read and hashed here, below the node's folder. A digest that nobody claimed is
  computed and said to be; it is never called verified;
- a report that is refused is told with its reason and stops no other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from importers.node_report.reasons import RefusalCode, Refused
from importers.node_report.record import ReadReport, read_report, record_of, require_not_denied
from importers.node_report.tree import Located
from memory.lineage.writing import LineagePorts, Written, append_entries
from memory.retention import denials
from policies.lineage.consolidation import consolidate
from policies.lineage.policy import ConsolidationPolicy, HeadlineMetric
from records.appends import Append
from records.errors import ErasedError, VrmError
from records.flows import Transition
from records.lineage import NodeReport, Statement
from store.artifacts import ArtifactStore

_GROUP: Final = 64
"""Reports that share one physical commit."""
Progress = Callable[[str, int, int], None]


class Outcome(StrEnum):
    """What became of a report."""

    ADDED = "added"
    REPLAYED = "replayed"
    REFUSED = "refused"


@dataclass(frozen=True, kw_only=True)
class ImportedReport:
    """A report with what became of it.

    Attributes:
        code: why it is not taken; null where it is. `error` says it with file and remedy.
        entries: what is remembered of it; empty if consolidation is off.
        why_nothing: why no entry says what came of the node; null where one does, or nobody asked.
    """

    located: Located
    outcome: Outcome
    report: NodeReport | None = None
    code: RefusalCode | None = None
    error: VrmError | None = None
    entries: tuple[Written, ...] = ()
    why_nothing: str | None = None


@dataclass(frozen=True, kw_only=True)
class Consolidating:
    """How reports are consolidated: by which policy, and which metric the tree is declared to be about."""

    policy: ConsolidationPolicy
    declared: HeadlineMetric | None = None
    is_on: bool = True


@dataclass(frozen=True, kw_only=True)
class ImportPorts:
    """Where reports go, and through whom."""

    lineage: LineagePorts
    artifacts: ArtifactStore
    namespace: str


@dataclass
class _Known:
    """The reports of each checkpoint by node: those of the Ledger, and those that were appended since."""

    ports: ImportPorts
    _by_run: dict[str, dict[str, NodeReport]] = field(default_factory=dict)

    def of(self, checkpoint_id: str) -> dict[str, NodeReport]:
        """Return the reports of a checkpoint."""
        if checkpoint_id not in self._by_run:
            space = self.ports.namespace
            stored = self.ports.lineage.ledger.find(NodeReport.kind.noun, space, checkpoint_id=checkpoint_id)
            loaded = [record for each in stored if isinstance(record := each.load(), NodeReport)]
            self._by_run[checkpoint_id] = {each.node_id: each for each in loaded}
        return self._by_run[checkpoint_id]


def import_reports(
    ports: ImportPorts,
    located: Sequence[Located],
    how: Consolidating,
    *,
    progress: Progress = lambda _what, _done, _total: None,
) -> list[ImportedReport]:
    """Import reports, and say of each what became of it, in the order that they were given in.

    Raises:
        VrmError: a store or an owner cannot be used; what was imported stays, and the same call goes on.
    """
    told: dict[str, ImportedReport] = {}
    waiting: list[ReadReport] = []
    for each in located:
        try:
            waiting.append(read_report(each, how.policy.reports.max_bytes))
        except Refused as refused:
            told[each.path] = _refused(each, refused)
    known = _Known(ports)
    while waiting:
        ready, waiting = _next_level(waiting, known)
        for start in range(0, len(ready), _GROUP):
            for done in _import_group(ports, ready[start : start + _GROUP], known, how):
                told[done.located.path] = done
                progress("node reports", len(told), len(located))
        if not ready:
            told |= {each.located.path: _refused(each.located, _orphaned(each, waiting)) for each in waiting}
            break
    return [told[each.path] for each in located]


def _next_level(waiting: list[ReadReport], known: _Known) -> tuple[list[ReadReport], list[ReadReport]]:
    """Split off the reports whose parent is settled: in the Ledger, not waited for, or none at all."""
    missing = {(each.located.checkpoint_id, each.document.node_id) for each in waiting}
    ready: list[ReadReport] = []
    later: list[ReadReport] = []
    for each in waiting:
        run, parent = each.located.checkpoint_id, each.document.parent_node_id
        settled = parent is None or parent in known.of(run) or (run, parent) not in missing
        (ready if settled else later).append(each)
    return ready, later


def _orphaned(each: ReadReport, waiting: list[ReadReport]) -> Refused:
    """Say why a report never came to be ready: its parents lead in a circle."""
    return Refused(RefusalCode.CIRCLE, "parent_id", f"{each.document.parent_node_id}, of {len(waiting)} in a circle")


def _import_group(
    ports: ImportPorts, group: Sequence[ReadReport], known: _Known, how: Consolidating
) -> Iterator[ImportedReport]:
    denied = {each.target_id for each in denials(ports.lineage.ledger, ports.namespace)}
    fresh: list[ReadReport] = []
    settled: list[tuple[ReadReport, Outcome]] = []
    for each in group:
        try:
            each.report = record_of(ports.namespace, each, known.of(each.located.checkpoint_id))
            require_not_denied(each.report, denied)
            if each.document.node_id in known.of(each.located.checkpoint_id):
                settled.append((each, Outcome.REPLAYED))
                continue
            ports.artifacts.publish(each.data)
            fresh.append(each)
        except Refused as refused:
            yield _refused(each.located, refused)
        except ErasedError as error:
            yield ImportedReport(located=each.located, outcome=Outcome.REFUSED, code=RefusalCode.DENIED, error=error)
    for each, answer in zip(fresh, _append(ports, fresh), strict=True):
        if isinstance(answer, VrmError):
            code = RefusalCode.NOT_APPENDED
            yield ImportedReport(located=each.located, outcome=Outcome.REFUSED, code=code, error=answer)
        elif each.report is not None:
            known.of(each.located.checkpoint_id)[each.document.node_id] = each.report
            settled.append((each, Outcome.ADDED))
    yield from _consolidated(ports, settled, how)


def _append(ports: ImportPorts, fresh: Sequence[ReadReport]) -> Sequence[object]:
    reports = [each.report for each in fresh if each.report is not None]
    appends = [Append.direct(Transition.ADD_NODE_REPORT, f"node-report/{each.id}", (each,)) for each in reports]
    return ports.lineage.coordinator.append_direct(appends) if appends else []


def _consolidated(
    ports: ImportPorts, settled: Sequence[tuple[ReadReport, Outcome]], how: Consolidating
) -> Iterator[ImportedReport]:
    """Append what is remembered of reports that are there, in one group."""
    made: list[tuple[ImportedReport, int]] = []
    entries: list[Statement] = []
    for read, outcome in settled:
        done = ImportedReport(located=read.located, outcome=outcome, report=read.report)
        found = None
        if how.is_on and read.report is not None:
            found = consolidate(read.report, read.document.words, how.declared, how.policy)
            entries += found.entries
            done = replace(done, why_nothing=found.why_nothing)
        made.append((done, 0 if found is None else len(found.entries)))
    answers = iter(append_entries(ports.lineage, entries))
    for done, count in made:
        own = [next(answers) for _ in range(count)]
        error = next((each for each in own if isinstance(each, VrmError)), None)
        if error is not None:
            yield replace(done, outcome=Outcome.REFUSED, code=RefusalCode.NOT_APPENDED, error=error)
        else:
            yield replace(done, entries=tuple(each for each in own if isinstance(each, Written)))


def _refused(located: Located, refused: Refused) -> ImportedReport:
    error = refused.error(located.path)
    return ImportedReport(located=located, outcome=Outcome.REFUSED, code=refused.code, error=error)
