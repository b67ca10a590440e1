"""Strict reading of a published table: the evaluator of `published_record` evidence.

A published table is a folder with three files: `manifest.json` (where the table comes from, when it was published, what
its columns may hold: `importers.table_manifest`), `catalog.yaml` (the knobs that it contrasts) and the table itself, of
one row per trial (`importers.table_file`).

Rules kept here:

- what is read is what was published: every file has the size and SHA-256 that the manifest declares;
- a row is refused, and with it the whole table, if a value is no finite plain decimal, is not in the declared search
  space, or is not registered in the catalog; if a trial is given twice; if a seed, a baseline, a run or a row is
  missing; if two settings of one record are one program;
- every error names file, line and remedy; nothing is repaired, skipped or filled in;
- the digest of these modules and of the manifest is the evaluator digest of the table's contract. How trials are built
  from the rows is therefore another module's work: changing that must not make a new contract.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

from importers.table_comparison import Compared, compare
from importers.table_file import Lines, read_bytes, require_declared, table_lines
from importers.table_manifest import Manifest, Role, RunManifest
from importers.table_rows import RowReader
from policies.catalog import Change, InterventionCatalog, parse_catalog
from records.canonical import digest_bytes, domain_digest
from records.errors import InvalidInputError, InvalidRecordError, InvalidSourceError
from records.models import refusing

__all__ = ["MANIFEST", "Manifest", "PublishedTable", "read_published_table"]

MANIFEST: Final = "manifest.json"
_RUNS: Final = "published-table/2"
_READERS: Final = ("table_reader.py", "table_manifest.py", "table_file.py", "table_rows.py", "table_comparison.py")


@dataclass(frozen=True, kw_only=True)
class PublishedTable:
    """A table that has passed every check, with the exact bytes it was read from.

    Attributes:
        manifest: what the table says of itself; manifest_digest: the digest of what is written there.
    """

    manifest: RunManifest
    manifest_digest: str
    catalog: InterventionCatalog
    rows: tuple[Compared, ...]
    data: bytes

    @cached_property
    def evaluator_digest(self) -> str:
        """The digest of what verifies a row: these readers and the manifest that they read by."""
        here = Path(__file__).parent
        reader = digest_bytes(b"".join((here / name).read_bytes() for name in _READERS))
        return domain_digest("table-reader", {"reader": reader, "manifest": self.manifest_digest})

    @cached_property
    def changes(self) -> tuple[Change, ...]:
        """Every change of the table: first the catalog's, in its order, then those between other settings."""
        found = [row.change for row in self.rows if row.change is not None]
        return tuple(dict.fromkeys((*self.catalog.contrasts, *found)))


def read_published_table(folder: Path) -> PublishedTable:
    """Read and check a published table.

    Raises:
        InvalidSourceError: a file is missing, damaged or breaks a rule; file, line and remedy are named.
    """
    manifest, manifest_digest = _manifest(folder)
    catalog = _catalog(folder, manifest)
    data = read_bytes(folder / manifest.table.name)
    lines = table_lines(manifest.table.name, data, manifest.rows)
    _header(manifest, lines)
    reader = RowReader(manifest, catalog)
    rows = compare(manifest, catalog, [reader.row(line) for line in lines.rows])
    require_declared(manifest.table.name, manifest.table.size_bytes, manifest.table.sha256, data)
    return PublishedTable(manifest=manifest, manifest_digest=manifest_digest, catalog=catalog, rows=rows, data=data)


def _manifest(folder: Path) -> tuple[RunManifest, str]:
    data = read_bytes(folder / MANIFEST)
    try:
        if _layout(data) == _RUNS:
            runs = RunManifest.load(data)
            return runs, runs.canonical_digest
        manifest = Manifest.load(data)
        with refusing():
            return manifest.as_runs(), manifest.canonical_digest
    except InvalidRecordError as error:
        raise InvalidSourceError(f"{MANIFEST}: {error.field}", error.value, error.remedy) from error


def _layout(data: bytes) -> object:
    """Return what a manifest says its layout is; one that cannot be read is refused where it is loaded."""
    try:
        content = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return content.get("layout") if isinstance(content, dict) else None


def _catalog(folder: Path, manifest: RunManifest) -> InterventionCatalog:
    name = manifest.catalog.name
    data = read_bytes(folder / name)
    try:
        catalog = parse_catalog(data.decode("utf-8"))
    except (InvalidInputError, UnicodeDecodeError) as error:
        raise InvalidSourceError(name, str(error), "Restore the catalog that was published.") from error
    wanted = set(manifest.named(Role.KNOB)) or {arm.knob for arm in manifest.arms}
    if catalog.knobs.keys() | catalog.fixed.keys() != wanted:
        wrong = ", ".join(sorted((catalog.knobs.keys() | catalog.fixed.keys()) ^ wanted))
        raise InvalidSourceError(name, wrong, "The catalog has exactly the knobs of the manifest.")
    for knob in manifest.search_space.keys() & catalog.knobs.keys():
        foreign = [value for value in catalog.knobs[knob].allowed if value not in manifest.search_space[knob]]
        if foreign:
            raise InvalidSourceError(f"{name}: {knob}", foreign, "Register only values of the published search space.")
    if manifest.tuned_knob is not None and manifest.tuned_knob not in catalog.knobs:
        raise InvalidSourceError(f"{MANIFEST}: tuned_knob", manifest.tuned_knob, f"{name} has no such knob.")
    require_declared(name, manifest.catalog.size_bytes, manifest.catalog.sha256, data)
    return catalog


def _header(manifest: RunManifest, lines: Lines) -> None:
    found, wanted = lines.header.cells, tuple(column.name for column in manifest.columns)
    where = f"{manifest.table.name} line {lines.header.number}"
    for name in found:
        if name not in wanted:
            raise InvalidSourceError(where, f"unknown column {name}", f"The columns are {', '.join(wanted)}.")
    if found != wanted:
        raise InvalidSourceError(where, ", ".join(found), f"Give each column once, in this order: {', '.join(wanted)}.")
