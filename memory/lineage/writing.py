"""Writing to lineage memory: entries appended by the node that they are about (spec 003, principle 4; docs/lineage.md).

Rules kept here:

- a node writes under its own name alone; who it is, whoever starts it says once, and no call can say otherwise;
- the same entry again is the one that is there: its id follows from its content, and the first time that was persisted
  stays. So identical writes at the same moment leave one record;
- the ancestors of an entry are those that its node's report names, or its parent's; only a node of which neither is
  there names them itself;
- a file is named with the digest of the bytes that were read below the node's folder. It is verified only if somebody
  claimed that digest before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from memory.lineage.files import UnreadableFileError, hash_below
from memory.ports import Clock, CoordinatorPort
from records.appends import Append, AppendReceipt
from records.canonical import metric_text, normalise
from records.errors import InvalidInputError, NotFoundError, VrmError
from records.flows import Transition
from records.ids import LineageEntryId, NodeReportId
from records.lineage import (
    ArtifactRole,
    Attribute,
    EntryArtifact,
    EntryIntegrity,
    EntryKind,
    LineageEntry,
    MetricPointer,
    NodeReport,
    NodeReportRef,
    ReproducibilityEvent,
    Reproduction,
    Statement,
)
from records.values import Direction
from store.ledger.port import LedgerReader

CREATED_BY: Final = "node"


class Writing(StrEnum):
    """What became of an entry."""

    ADDED = "added"
    REPLAYED = "replayed"


@dataclass(frozen=True, slots=True)
class Written:
    """An entry as it is in the Ledger, and whether this call put it there."""

    writing: Writing
    entry: LineageEntry


@dataclass(frozen=True, kw_only=True)
class LineagePorts:
    """Where lineage memory is, and through whom it is written."""

    ledger: LedgerReader
    coordinator: CoordinatorPort


@dataclass(frozen=True, kw_only=True)
class Node:
    """Who writes: one node of one checkpoint."""

    namespace: str
    checkpoint_id: str
    node_id: str


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A file that an entry rests on, and the digest that somebody claimed for it, if anybody did."""

    path: str
    role: ArtifactRole = ArtifactRole.UNKNOWN
    sha256: str | None = None


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A number with its unit; `direction` is null where nobody declared which way is better."""

    name: str
    value: float
    unit: str
    direction: Direction | None = None


@dataclass(frozen=True, kw_only=True)
class Draft:
    """What a node wants to be remembered.

    Attributes:
        node_id: the node that it is about; null is the one that writes, and no other is allowed.
        ancestors: the node's, from the root to the parent; needed only where no report of it or its parent is there.
    """

    text: str
    node_id: str | None = None
    ancestors: tuple[str, ...] | None = None
    artifacts: tuple[Claim, ...] = ()
    metric: Measured | None = None
    confidence: float | None = None
    attributes: Mapping[str, str] = field(default_factory=dict)


def append_entries(ports: LineagePorts, entries: Sequence[LineageEntry]) -> list[Written | VrmError]:
    """Append entries in one group; one that is there already is returned as it is.

    Returns:
        Of each entry the record that the Ledger has now, or the error that kept it out.
    """
    known = _stored(ports.ledger, entries)
    fresh = {str(entry.id): entry for entry in entries if str(entry.id) not in known}
    appends = [Append.direct(Transition.ADD_LINEAGE_ENTRY, f"lineage/{key}", (each,)) for key, each in fresh.items()]
    answers = dict(zip(fresh, ports.coordinator.append_direct(appends), strict=True)) if appends else {}
    there = _stored(ports.ledger, list(fresh.values()))  # where somebody else was first, with the time that they had
    return [_written(entry, known, there, answers) for entry in entries]


def _stored(ledger: LedgerReader, entries: Sequence[LineageEntry]) -> dict[str, LineageEntry]:
    stored = ledger.get_many([str(entry.id) for entry in entries]) if entries else {}
    return {key: entry for key, each in stored.items() if isinstance(entry := each.load(), LineageEntry)}


def _written(
    entry: LineageEntry,
    known: Mapping[str, LineageEntry],
    there: Mapping[str, LineageEntry],
    answers: Mapping[str, AppendReceipt | VrmError],
) -> Written | VrmError:
    key = str(entry.id)
    if key in known:
        return Written(Writing.REPLAYED, known[key])
    if key in there:
        return Written(Writing.ADDED if there[key] == entry else Writing.REPLAYED, there[key])
    answer = answers[key]
    return answer if isinstance(answer, VrmError) else Written(Writing.ADDED, entry)


class LineageWriter:
    """What one node may write."""

    def __init__(self, ports: LineagePorts, node: Node, clock: Clock, folder: Path | None = None) -> None:
        """Write as `node`; `folder` is the node's own, below which its files are."""
        self._ports = ports
        self._node = node
        self._clock = clock
        self._folder = folder

    def add(self, kind: EntryKind, draft: Draft) -> Written:
        """Append what a node wants to be remembered.

        Raises:
            InvalidInputError: it is about another node, of a kind that has a call of its own, or a file of it cannot
                be read; the field is named.
            VrmError: the Ledger refuses it.
        """
        if kind is EntryKind.REPRODUCIBILITY_EVENT:
            raise InvalidInputError("kind", kind.value, "Report a rerun with its target and its outcome.")
        return self._append(Statement.build(**self._fields(draft), entry_kind=kind))

    def report_rerun(self, target: str, status: Reproduction, draft: Draft, observed_at: str | None = None) -> Written:
        """Append what came of reproducing an entry.

        Args:
            target: the id of the entry.
            status: what came of it.
            draft: what else is to be said, with the files that the rerun left.
            observed_at: when it was found out, as a timestamp; null is now. To report the same rerun again, give the
                same time.

        Raises:
            NotFoundError: there is no such entry in the node's checkpoint.
            VrmError: as `add`.
        """
        stored = self._ports.ledger.get(target)
        entry = None if stored is None else stored.load()
        here = (self._node.namespace, self._node.checkpoint_id)
        if not isinstance(entry, Statement) or (entry.namespace, entry.checkpoint_id) != here:
            raise NotFoundError("target", target, "Name an entry of this checkpoint that says something of its own.")
        event = ReproducibilityEvent.build(
            **self._fields(draft),
            target_id=LineageEntryId(target),
            status=status,
            observed_at=observed_at or self._clock(),
        )
        return self._append(event)

    def _append(self, entry: LineageEntry) -> Written:
        (answer,) = append_entries(self._ports, [entry])
        if isinstance(answer, VrmError):
            raise answer
        return answer

    def _fields(self, draft: Draft) -> dict[str, Any]:
        node = self._node
        if draft.node_id not in (None, node.node_id):
            raise InvalidInputError("node", draft.node_id, f"A node writes under its own name, {node.node_id}, alone.")
        report, ancestors = self._lineage(draft.ancestors)
        measured = draft.metric
        return {
            "namespace": node.namespace,
            "created_at": self._clock(),
            "checkpoint_id": node.checkpoint_id,
            "node_id": node.node_id,
            "ancestors": ancestors,
            "text": normalise(draft.text),
            "artifacts": tuple(self._artifact(each) for each in draft.artifacts),
            "node_report_id": None if report is None else NodeReportId(report.id),
            "report_ref": None if report is None else _ref(report),
            "metric": None if measured is None else _pointer(measured),
            "confidence": None if draft.confidence is None else metric_text(draft.confidence),
            "created_by": CREATED_BY,
            "policy": None,
            "attributes": tuple(
                Attribute.build(name=name, value=normalise(value)) for name, value in sorted(draft.attributes.items())
            ),
        }

    def _lineage(self, given: tuple[str, ...] | None) -> tuple[NodeReport | None, tuple[str, ...]]:
        report = self._report(self._node.node_id)
        if report is not None:
            if given not in (None, report.ancestors):
                raise InvalidInputError("ancestors", ", ".join(given or ()), f"The report names {report.ancestors}.")
            return report, report.ancestors
        if given is None:
            remedy = "Import its report, or name its ancestors from the root to the parent."
            raise NotFoundError("node", self._node.node_id, remedy)
        return None, given

    def _report(self, node_id: str) -> NodeReport | None:
        here = {"checkpoint_id": self._node.checkpoint_id, "node_id": node_id}
        found = self._ports.ledger.find(NodeReport.kind.noun, self._node.namespace, **here)
        record = found[0].load() if found else None
        return record if isinstance(record, NodeReport) else None

    def _artifact(self, claim: Claim) -> EntryArtifact:
        if self._folder is None:
            raise InvalidInputError("artifacts", claim.path, "Say which folder is the node's own.")
        try:
            found = hash_below(self._folder, claim.path)
        except UnreadableFileError as error:
            raise InvalidInputError("artifacts", f"{claim.path}: {error.fault.value}", _READABLE) from error
        if claim.sha256 not in (None, found.sha256):
            raise InvalidInputError("artifacts", f"{claim.path}: {found.sha256}", f"Claimed was {claim.sha256}.")
        return EntryArtifact.build(
            relative_path=claim.path,
            sha256=found.sha256,
            size_bytes=found.size_bytes,
            role=claim.role,
            integrity=EntryIntegrity.UNVERIFIED if claim.sha256 is None else EntryIntegrity.VERIFIED,
        )


_READABLE: Final = "Name a regular file by a relative path below the node's folder, no part of it a link."


def _ref(report: NodeReport) -> NodeReportRef:
    return NodeReportRef(run_id=report.checkpoint_id, node_id=report.node_id, digest=report.report_digest)


def _pointer(measured: Measured) -> MetricPointer:
    return MetricPointer.build(
        name=normalise(measured.name),
        value=metric_text(measured.value),
        unit=measured.unit,
        direction=measured.direction,
    )


def node_folder(root: Path, checkpoint_id: str, node_id: str) -> Path:
    """Return the folder of a node below the root of all trees."""
    return root / checkpoint_id / node_id
