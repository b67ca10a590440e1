"""Graded sets as they are published: documents, queries, and how relevant a document is to a query.

Rules kept here:

- one layout is read, that of BEIR: `corpus.jsonl` with `_id`, `title` and `text`; `queries.jsonl` with `_id` and
  `text`, or `topics*.tsv`; `qrels*` as lines of JSON, of three columns, or of the four of TREC. Each may be gzipped;
- a document is its title, then its text; a query that nothing is relevant to is left out, as everywhere;
- half of the queries develop and the other half reports: which half is decided by the digest of the query's id.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from records.errors import InvalidInputError, UnavailableError

DEVELOPMENT: Final = "development"
REPORT: Final = "report"
_LAYOUT: Final = "Give a folder with corpus.jsonl, queries.jsonl or topics*.tsv, and qrels*; each may end in .gz."


@dataclass(frozen=True)
class GradedSet:
    """One set.

    Attributes:
        documents: text by document id.
        queries: text by query id, in the order of the file; each has something relevant.
        grades: by query id, the grade above zero of each relevant document.
    """

    name: str
    documents: Mapping[str, str]
    queries: Mapping[str, str]
    grades: Mapping[str, Mapping[str, int]]


def half_of(identity: str) -> str:
    """Return the half that an id belongs to."""
    return DEVELOPMENT if hashlib.sha256(identity.encode()).digest()[0] % 2 == 0 else REPORT


def read_graded(folder: Path) -> GradedSet:
    """Read the set in a folder, which gives it its name.

    Raises:
        InvalidInputError: a file is missing, or a line is not what its layout says; file and line are named.
        UnavailableError: a file cannot be read.
    """
    documents = {each["_id"]: _text(each) for each in _objects(_one(folder, "corpus.jsonl"), "text")}
    grades = _grades(_one(folder, "qrels"))
    queries = {name: text for name, text in _queries(folder) if name in grades}
    if not queries:
        raise InvalidInputError(str(folder), "no query with a relevant document", _LAYOUT)
    return GradedSet(folder.name, documents, queries, {name: grades[name] for name in queries})


def _text(document: Mapping[str, Any]) -> str:
    return f"{document.get('title') or ''}\n{document['text']}".strip()


def _queries(folder: Path) -> Iterator[tuple[str, str]]:
    found = _first(folder, "queries.jsonl")
    if found is not None:
        yield from ((each["_id"], each["text"]) for each in _objects(found, "text"))
        return
    for place, line in _lines(_one(folder, "topics")):
        name, tab, text = line.partition("\t")
        if not tab:
            raise InvalidInputError(place, line[:80], "Write a query's id, a tab, and its text.")
        yield name, text


def _grades(path: Path) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = defaultdict(dict)
    judged = _judged_objects(path) if ".jsonl" in path.name else _judged_lines(path)
    for query, document, grade in judged:
        if grade > 0:
            found[query][document] = grade
    return dict(found)


def _judged_objects(path: Path) -> Iterator[tuple[str, str, int]]:
    for each in _objects(path, "query-id"):
        yield str(each["query-id"]), str(each["corpus-id"]), int(each["score"])


def _judged_lines(path: Path) -> Iterator[tuple[str, str, int]]:
    for place, line in _lines(path):
        parts = line.split()
        if parts and parts[0] in {"query-id", "qid"}:
            continue
        try:
            yield parts[0], parts[-2], int(parts[-1])
        except (IndexError, ValueError) as error:
            raise InvalidInputError(place, line[:80], "Write query, document and grade.") from error


def _objects(path: Path, field: str) -> Iterator[dict[str, Any]]:
    for place, line in _lines(path):
        try:
            found = json.loads(line)
        except ValueError as error:
            raise InvalidInputError(place, line[:80], "Write one JSON object a line.") from error
        if not isinstance(found, dict) or field not in found:
            raise InvalidInputError(place, line[:80], f"It has no {field}. {_LAYOUT}")
        yield found


def _lines(path: Path) -> Iterator[tuple[str, str]]:
    """Yield every line that is not empty, with where it stands."""
    try:
        with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    yield f"{path.name}:{number}", line.rstrip("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise UnavailableError(str(path), str(error), "Make it readable UTF-8 text.") from error


def _first(folder: Path, start: str) -> Path | None:
    return next(iter(sorted(folder.glob(f"{start}*"))), None)


def _one(folder: Path, start: str) -> Path:
    found = _first(folder, start)
    if found is None:
        raise InvalidInputError(str(folder), f"no {start}*", _LAYOUT)
    return found
