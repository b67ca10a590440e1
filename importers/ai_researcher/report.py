"""What an import tells: figures, missing and mismatched files, and for every record why it cannot be promoted."""

from __future__ import annotations

from collections import Counter
from typing import Any

from importers.ai_researcher.content import LegacyContent
from importers.ai_researcher.filing import Filed
from records.legacy import LegacyArtifactStatus


def report(
    content: LegacyContent, filed: Filed | None, *, mismatched: tuple[str, ...] = (), references: int = 0
) -> dict[str, Any]:
    """Return the report as JSON values.

    Args:
        content: what was read.
        filed: what was written; None for a dry run.
        mismatched: files whose bytes are not those that were published.
        references: digests in records and reports that agree with the published index.
    """
    by_status: dict[LegacyArtifactStatus, list[str]] = {status: [] for status in LegacyArtifactStatus}
    for artifact in content.artifacts:
        by_status[artifact.status].append(artifact.path)
    missing = by_status[LegacyArtifactStatus.MISSING]
    verified = len(by_status[LegacyArtifactStatus.VERIFIED])
    return {
        "format": content.format.value,
        "revision": content.revision,
        "source_digest": content.source_digest,
        "rows": {count.table.value: count.rows for count in content.tables if count.rows},
        "records": len(content.records),
        "digests": {
            "published": verified + len(missing) + len(mismatched),
            "verified": verified,
            "missing": len(missing),
            "mismatched": len(mismatched),
            "references_agreeing": references,
        },
        "missing": missing,
        "mismatched": list(mismatched),
        "ids": _ids(content),
        "promoted": 0,
        "reasons": {reason.value: count for reason, count in sorted(content.reasons.items())},
        "members": _members(content),
        "written": None if filed is None else {
            "import_id": str(filed.import_id), "new_records": filed.new_records, "repeated": filed.repeated,
        },
    }  # fmt: skip


def _ids(content: LegacyContent) -> dict[str, dict[str, Any]]:
    """Return by table how many ids were computed again, by which rules, and how many were not: names, or no rule."""
    found: dict[str, dict[str, Any]] = {}
    for row in content.rows:
        entry = found.setdefault(row.table.value, {"recomputed": 0, "rules": Counter(), "not_recomputed": 0})
        if row.id_rule is not None:
            entry["recomputed"] += 1
            entry["rules"][row.id_rule] += 1
        else:
            entry["not_recomputed"] += 1
    return {table: entry | {"rules": dict(sorted(entry["rules"].items()))} for table, entry in found.items()}


def _members(content: LegacyContent) -> list[dict[str, Any]]:
    return [
        {
            "record_id": str(member.record_id),
            "table": content.records[member.record_id].source_table.value,
            "legacy_id": content.records[member.record_id].legacy_id,
            "id_rule": member.id_rule,
            "reasons": [reason.value for reason in member.reasons],
        }
        for member in content.members
    ]
