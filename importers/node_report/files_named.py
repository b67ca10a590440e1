"""The files that a report names: what its node changed, and what it left behind, in both published shapes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from importers.node_report.reasons import RefusalCode, Refused
from importers.node_report.values import Repairs, digest, required, safe_path, typed
from records.lineage import ArtifactRole, Change, FileChange, RepairCode

_ROLES: Final = {role.value: role for role in ArtifactRole if role is not ArtifactRole.SOURCE}
"""The roles that the published schema has."""


@dataclass(frozen=True, slots=True)
class Claimed:
    """A file as a report names it, before anybody has read it."""

    path: str
    role: ArtifactRole
    sha256: str | None
    size_bytes: int | None


def changes(found: dict[str, Any], repairs: Repairs) -> tuple[FileChange, ...]:
    """Return what a node did to files, in the order of the schema.

    Raises:
        Refused: the field is missing, or an entry of it names no file inside the node's folder.
    """
    told = required(found, "files_changed", dict)
    made: list[FileChange] = []
    for change in (Change.ADDED, Change.MODIFIED, Change.DELETED, Change.INHERITED):
        field = f"files_changed.{change.value}"
        if told.get(change.value) is None:
            repairs.add(RepairCode.CHANGES_MISSING, field)
            continue
        listed = typed(told[change.value], field, list)
        made += (_change(each, change, f"{field}.{place}", repairs) for place, each in enumerate(listed))
    return tuple(made)


def _change(told: Any, change: Change, field: str, repairs: Repairs) -> FileChange:
    if isinstance(told, str):  # deletions were published as texts and as objects; the others as objects alone
        if change is not Change.DELETED:
            repairs.add(RepairCode.CHANGE_AS_TEXT, field)
        return FileChange(change=change, relative_path=safe_path(told, field), before=None, after=None)
    entry = typed(told, field, dict)
    path = safe_path(required(entry, "path", str), f"{field}.path")
    names = {Change.ADDED: (None, "sha256"), Change.MODIFIED: ("sha256_before", "sha256_after")}
    before, after = names.get(change, ("sha256", "sha256") if change is Change.INHERITED else (None, None))

    def claimed(name: str | None) -> str | None:
        return None if name is None else digest(entry.get(name), f"{field}.{name}", repairs)

    return FileChange(change=change, relative_path=path, before=claimed(before), after=claimed(after))


def artifacts(found: dict[str, Any], repairs: Repairs) -> tuple[Claimed, ...]:
    """Return the files that a node left behind; blobs that stand in the report itself are left there.

    Raises:
        Refused: the field is missing, a path leads out of the node's folder, or a file is named twice.
    """
    made = tuple(_artifacts(required(found, "artifacts", list), repairs))
    seen: set[str] = set()
    for each in made:
        if each.path in seen:
            raise Refused(RefusalCode.NAMED_TWICE, "artifacts", each.path)
        seen.add(each.path)
    return made


def _artifacts(listed: list[Any], repairs: Repairs) -> Iterator[Claimed]:
    for place, told in enumerate(listed):
        field = f"artifacts.{place}"
        entry = typed(told, field, dict)
        if entry.get("inline") is True:
            repairs.add(RepairCode.ARTIFACT_INLINE, field)
            continue
        name = "filename"
        if name not in entry and "path" in entry:
            name = "path"
            repairs.add(RepairCode.ARTIFACT_BY_PATH, f"{field}.path")
        path = safe_path(required(entry, name, str), f"{field}.{name}")
        role = entry.get("role")
        if not isinstance(role, str) or role not in _ROLES:
            repairs.add(RepairCode.ARTIFACT_ROLE, f"{field}.role")
        known = _ROLES.get(role, ArtifactRole.UNKNOWN) if isinstance(role, str) else ArtifactRole.UNKNOWN
        yield Claimed(path, known, digest(entry.get("sha256"), f"{field}.sha256", repairs), _size(entry, field))


def _size(entry: dict[str, Any], field: str) -> int | None:
    value = entry.get("size")
    if value is None:
        return None
    size: int = typed(value, f"{field}.size", int)
    if not 0 <= size < 2**53:
        raise Refused(RefusalCode.WRONG_TYPE, f"{field}.size", size)
    return size
