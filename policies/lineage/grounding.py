"""What an entry rests on: files that hold a measurement, and that are now what they were then (spec 003, principle 6).

Rules kept here:

- a file grounds an entry if it can hold a measurement, was verified when the entry was written, and has the same digest
  when it is read again; a digest that nobody claimed, or that is not looked at again, grounds nothing;
- the node's own source code is no measurement, whatever role it is given; nor is an empty file, nor one that the node
  took over from its parent unchanged, for that is what its parent measured.
"""

from __future__ import annotations

from collections.abc import Mapping

from policies.lineage.reading_policy import GroundingRule
from records.lineage import Change, EntryArtifact, EntryIntegrity, LineageEntry, NodeArtifact, NodeReport

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


def grounds_of(
    entry: LineageEntry, report: NodeReport | None, now: FileNow, rule: GroundingRule
) -> tuple[EntryArtifact, ...]:
    """Return the files that ground an entry; none if it is not grounded."""
    return tuple(
        file
        for file in entry.artifacts
        if file.integrity is EntryIntegrity.VERIFIED
        and can_measure(file, report, rule)
        and now.get((entry.node_id, file.relative_path)) == file.sha256
    )
