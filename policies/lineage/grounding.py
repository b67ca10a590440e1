"""What an entry rests on: files that hold a measurement, and that are now what they were then (spec 003, principle 6).

Rules kept here:

- a file grounds an entry if it can hold a measurement, was verified when the entry was written, and has the same digest
  when it is read again; a digest that nobody claimed, or that is not looked at again, grounds nothing;
- the node's own source code is no measurement, whatever role it is given; nor is an empty file, nor one that the node
  took over from its parent unchanged, for that is what its parent measured;
- an entry that says otherwise than its node's report is grounded by nothing: the number of a metric that the report
  has, and digest and role of a file that it names, are the report's. A role that nobody told contradicts none, and a
  file whose bytes were not those that the report claims is no ground.
"""

from __future__ import annotations

from collections.abc import Mapping

from policies.lineage.reading_policy import GroundingRule
from records.lineage import (
    ArtifactRole,
    Change,
    EntryArtifact,
    EntryIntegrity,
    Integrity,
    LineageEntry,
    NodeArtifact,
    NodeReport,
    ReproducibilityEvent,
)

FileNow = Mapping[tuple[str, str], str | None]
"""The digest of a file as it is read now, by node and path; null where it is not there."""


def can_measure(file: EntryArtifact | NodeArtifact, report: NodeReport | None, rule: GroundingRule) -> bool:
    """Tell whether a file can hold a measurement of its node.

    Args:
        file: as an entry or a report names it.
        report: the report of the node; None where there is none.
        rule: which files can.
    """
    name = file.relative_path.lower()
    inherited = report is not None and any(
        each.change is Change.INHERITED and each.relative_path == file.relative_path for each in report.files_changed
    )
    is_code = name.endswith(tuple(rule.source_suffixes))
    return file.role in rule.roles and bool(file.size_bytes) and not is_code and not inherited


def contradiction(entry: LineageEntry, report: NodeReport) -> str | None:
    """Return what an entry says otherwise than its node's report; None if it says nothing otherwise.

    What a rerun found is its own, and is compared with nothing.
    """
    if isinstance(entry, ReproducibilityEvent):
        return None
    metric = entry.metric
    if metric is not None:
        told = next((each.value for each in report.metrics if each.name == metric.name), metric.value)
        if told != metric.value:
            return f"the report has {metric.name} {told}, the entry {metric.value}"
    files = {each.relative_path: each for each in report.artifacts}
    for file in entry.artifacts:
        named = files.get(file.relative_path)
        wrong = None if named is None else _otherwise(file, named)
        if wrong is not None:
            return f"{file.relative_path}: {wrong}"
    return None


def _otherwise(file: EntryArtifact, named: NodeArtifact) -> str | None:
    if named.integrity is Integrity.MISMATCH:
        return "its bytes were not those that the report claims"
    if file.sha256 != (named.computed or named.claimed or file.sha256):
        return "the report names other bytes"
    if file.role not in (named.role, ArtifactRole.UNKNOWN):
        return f"the report names it {named.role.value}, the entry {file.role.value}"
    return None


def grounds_of(
    entry: LineageEntry, report: NodeReport | None, now: FileNow, rule: GroundingRule
) -> tuple[EntryArtifact, ...]:
    """Return the files that ground an entry; none if it is not grounded."""
    if report is not None and contradiction(entry, report) is not None:
        return ()
    return tuple(
        file
        for file in entry.artifacts
        if file.integrity is EntryIntegrity.VERIFIED
        and can_measure(file, report, rule)
        and now.get((entry.node_id, file.relative_path)) == file.sha256
    )
