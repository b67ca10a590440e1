"""The published phase-3 evidence bundle: a folder of digests, reports and records (docs/adr/0051).

`summary.json` names the tasks, each task's `artifact_index.json` the SHA-256 and size of every evidence file, its
`experience_gain.json` the trials that it reports, and each trial's `ledger_evidence.json` the records of its ledger.

Rules kept here:

- bytes are read to be digested and kept; programs among them are never run, and links are not followed;
- a file that is listed and absent is missing, one with other bytes is mismatched; records are read only from bytes that
  have their published digest. What reports and records say of digests must be what the index says;
- a record's payload is the program's canonical form of the JSON object that was published, and its id is computed
  again from it;
- the records of one ledger stand in no order that means anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Annotated, Final, TypeVar

from pydantic import ConfigDict, Field, TypeAdapter

from importers.ai_researcher.content import LegacyContent
from importers.ai_researcher.rows import LegacyRow, guarded, row_of
from records.canonical import digest_bytes, parse_canonical
from records.errors import InvalidRecordError, InvalidSourceError
from records.fields import Digest, Text
from records.legacy import LegacyArtifact, LegacyArtifactStatus, LegacyFormat, LegacyTable
from records.models import Model, refusing
from records.values import Count

SUMMARY: Final = "summary.json"
LEDGER: Final = "ledger_evidence.json"
PREFIX: Final = "benchmark/results/scientist_bench_phase3_v5/"
"""Where the bundle stood in its repository; records and reports name files from there."""

_TABLES: Final = {
    "knowledge_records": LegacyTable.KNOWLEDGE,
    "verification_records": LegacyTable.VERIFICATIONS,
    "recall_contexts": LegacyTable.RECALLS,
}
_MAX_BYTES: Final = 64 * 2**20
_RESTORE: Final = "Restore the published bundle."

Progress = Callable[[str, int, int], None]
M = TypeVar("M", bound=Model)


class _Published(Model):
    model_config = ConfigDict(extra="ignore")  # a report says more than is looked at here


class _Task(_Published):
    task_id: Text
    artifact_count: Count
    artifact_index: Text
    report: Text


class _Summary(_Published):
    tasks: Annotated[tuple[_Task, ...], Field(min_length=1)]


class _Entry(Model):
    path: Text
    sha256: Digest
    size_bytes: Count


class _Trial(_Published):
    artifact_refs: tuple[Text, ...]
    artifact_digests: dict[Text, Digest]
    verification_ids: tuple[Text, ...]


class _Pair(_Published):
    baseline: _Trial
    closed_loop: _Trial


class _Report(_Published):
    trial_pairs: tuple[_Pair, ...]


_INDEX: Final = TypeAdapter(tuple[_Entry, ...])


@dataclass(frozen=True)
class Bundle:
    """A bundle that was read whole.

    Attributes:
        content: its records, and the digests that were verified or are missing.
        mismatched: paths of files whose bytes are not those that were published; nothing may be imported then.
        references: how many digests that records and reports name are those of the index.
    """

    content: LegacyContent
    mismatched: tuple[str, ...]
    references: int

    def require_intact(self) -> None:
        """Refuse a bundle of which a file was changed.

        Raises:
            InvalidSourceError: the first such file is named.
        """
        if self.mismatched:
            met = f"{len(self.mismatched)} files have other bytes than were published"
            raise InvalidSourceError(self.mismatched[0], met, f"{_RESTORE} `--dry-run` lists every such file.")


def read_bundle(folder: Path, progress: Progress = lambda _what, _done, _total: None) -> Bundle:
    """Read and check a bundle.

    Raises:
        InvalidSourceError: a file is missing that the bundle cannot do without, or one contradicts another.
    """
    tasks = _load(_Summary, folder, SUMMARY).tasks
    index = _indexes(folder, tasks)
    found: dict[str, bytes] = {}
    missing, mismatched = set(), []
    for number, entry in enumerate(index.values(), start=1):
        data = _bytes(folder, entry.path)
        if data is None:
            missing.add(entry.path)
        elif len(data) != entry.size_bytes or digest_bytes(data) != entry.sha256:
            mismatched.append(entry.path)
        else:
            found[entry.path] = data
        progress("published digests", number, len(index))
    rows = tuple(row for path, data in found.items() if path.endswith(f"/{LEDGER}") for row in _records(path, data))
    complete = not any(path.endswith(f"/{LEDGER}") for path in (*missing, *mismatched))
    references = _check_evidence(index, rows)
    references += sum(_check_report(folder, task, index, rows if complete else None) for task in tasks)
    kept = tuple(_artifact(entry, missing) for entry in index.values() if entry.path not in mismatched)
    content = LegacyContent(LegacyFormat.PHASE3_BUNDLE, 1, rows, kept, tuple(found.values()))
    return Bundle(content, tuple(mismatched), references)


def _artifact(entry: _Entry, missing: set[str]) -> LegacyArtifact:
    status = LegacyArtifactStatus.MISSING if entry.path in missing else LegacyArtifactStatus.VERIFIED
    return LegacyArtifact(path=entry.path, sha256=entry.sha256, size_bytes=entry.size_bytes, status=status)


def _indexes(folder: Path, tasks: tuple[_Task, ...]) -> dict[str, _Entry]:
    found: dict[str, _Entry] = {}
    for task in tasks:
        with _naming(task.artifact_index), refusing():
            entries = _INDEX.validate_json(_required(folder, task.artifact_index))
        if len(entries) != task.artifact_count:
            met = f"{len(entries)} files, the summary says {task.artifact_count}"
            raise InvalidSourceError(task.artifact_index, met, _RESTORE)
        for entry in entries:
            if entry.path in found:
                raise InvalidSourceError(task.artifact_index, f"{entry.path} again", _RESTORE)
            found[entry.path] = entry
    return found


def _records(path: str, data: bytes) -> Iterator[LegacyRow]:
    with _naming(path):
        lists = parse_canonical(data)
    if not isinstance(lists, dict) or lists.keys() != _TABLES.keys():
        raise InvalidSourceError(path, "other lists than were published", _RESTORE)
    for name, table in _TABLES.items():
        for number, payload in enumerate(lists[name], start=1):
            place = f"{name} {number}"
            if not isinstance(payload, dict):
                raise InvalidSourceError(f"{path}: {place}", payload, "A record is a JSON object.")
            with _naming(path):
                yield row_of(table, payload, place)


def _check_evidence(index: Mapping[str, _Entry], rows: tuple[LegacyRow, ...]) -> int:
    """Compare what verification records say of their evidence with the index; return how many digests agree."""
    count = 0
    for row in rows:
        for ref in row.payload["evidence_refs"] if row.table is LegacyTable.VERIFICATIONS else ():
            place = f"{row.table} row {row.record_id}: evidence_refs"
            named = guarded(place, lambda ref=ref: (ref["path"].removeprefix(PREFIX), ref["sha256"], ref["size_bytes"]))  # type: ignore[misc]  # the usual way to bind
            entry = index.get(named[0])
            if entry is None or (entry.path, entry.sha256, entry.size_bytes) != named:
                raise InvalidSourceError(place, named[0], f"The artifact index says otherwise. {_RESTORE}")
            count += 1
    return count


def _check_report(folder: Path, task: _Task, index: Mapping[str, _Entry], rows: tuple[LegacyRow, ...] | None) -> int:
    """Compare a report with the index and, unless None, with the records; return how many digests agree."""
    report = _load(_Report, folder, task.report)
    known = {row.record_id for row in rows or () if row.table is LegacyTable.VERIFICATIONS}
    count = 0
    for trial in (trial for pair in report.trial_pairs for trial in (pair.baseline, pair.closed_loop)):
        for ref in trial.artifact_refs:
            entry = index.get(ref.removeprefix(PREFIX))
            if entry is None or trial.artifact_digests.get(PurePosixPath(ref).name) != entry.sha256:
                raise InvalidSourceError(f"{task.report}: artifact_digests", ref, f"The index differs. {_RESTORE}")
            count += 1
        for verification_id in trial.verification_ids if rows is not None else ():
            if verification_id not in known:
                met = f"{verification_id} is in no ledger"
                raise InvalidSourceError(f"{task.report}: verification_ids", met, _RESTORE)
    return count


def _load(model: type[M], folder: Path, name: str) -> M:
    with _naming(name):
        return model.load(_required(folder, name))


def _required(folder: Path, name: str) -> bytes:
    data = _bytes(folder, name)
    if data is None:
        raise InvalidSourceError(name, f"missing in {folder}", "Give the folder of the published phase-3 bundle.")
    return data


def _bytes(folder: Path, name: str) -> bytes | None:
    """Return the bytes of a file inside the folder, or None where there is none."""
    parts = PurePosixPath(name).parts
    if not parts or name.startswith("/") or ".." in parts or "\0" in name:
        raise InvalidSourceError(name, "not a path inside the bundle", _RESTORE)
    path = folder.joinpath(*parts)
    try:
        if any(folder.joinpath(*parts[:depth]).is_symlink() for depth in range(1, len(parts) + 1)):
            raise InvalidSourceError(name, "a link", "Links are not followed; give the bundle as files.")
        if not path.is_file():
            return None
        if path.stat().st_size > _MAX_BYTES:
            raise InvalidSourceError(name, f"more than {_MAX_BYTES} bytes", _RESTORE)
        return path.read_bytes()
    except OSError as error:
        raise InvalidSourceError(name, error.strerror or str(error), _RESTORE) from error


@contextmanager
def _naming(name: str) -> Iterator[None]:
    """Put the file before the field of a refusal."""
    try:
        yield
    except InvalidSourceError as error:
        raise type(error)(f"{name}: {error.field}", error.value, error.remedy) from error
    except InvalidRecordError as error:
        raise InvalidSourceError(f"{name}: {error.field}", error.value, f"{error.remedy} {_RESTORE}") from error
