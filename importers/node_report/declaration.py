"""The declaration of a search's evaluation, and the labels beside it: with `policies.lineage.promotion`, its evaluator.

Rules kept here: the labels are those whose digest is declared; a row is given once; nothing is repaired. This module,
the rule and the declaration together make the evaluator digest of the contract, so that a change of one of them makes
another contract. How trials are made is therefore another module's work.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

from memory.lineage.files import UnreadableFileError, read_below
from policies.catalog import InterventionCatalog, load_catalog
from policies.lineage import promotion
from policies.lineage.promotion import Labels, LineageEvaluation
from policies.loading import load_part
from records.canonical import digest_bytes, domain_digest
from records.errors import InvalidInputError, InvalidSourceError

MAX_BYTES: Final = 1 << 26
"""The largest file that an evaluation reads."""


@dataclass(frozen=True, kw_only=True)
class Declaration:
    """A declaration with what it names: the catalog and the labels, whose bytes are `labels_data`."""

    evaluation: LineageEvaluation
    catalog: InterventionCatalog
    labels: Labels
    labels_data: bytes

    @cached_property
    def digest(self) -> str:
        """The digest of what is declared."""
        return domain_digest("lineage-evaluation", self.evaluation.as_json())

    @cached_property
    def evaluator_digest(self) -> str:
        """The digest of what verifies a trial: this reader, the rule, and the declaration."""
        code = b"".join(Path(each).read_bytes() for each in (__file__, promotion.__file__))
        return domain_digest("lineage-evaluator", [digest_bytes(code), self.digest])


def read_declaration(path: Path) -> Declaration:
    """Read a declaration and the labels beside it.

    Raises:
        InvalidInputError: a file cannot be read or a field is refused.
        InvalidSourceError: the labels have other bytes than are declared, or do not fit.
    """
    try:
        evaluation = load_part(LineageEvaluation, path.read_text(encoding="utf-8"), str(path))
        data, _ = read_below(path.parent, evaluation.labels.name, MAX_BYTES)
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInputError(str(path), str(error), "Give a file that can be read, in UTF-8.") from error
    except UnreadableFileError as error:
        raise InvalidSourceError(error.path, error.fault.value, "Put the labels beside the declaration.") from error
    if digest_bytes(data) != evaluation.labels.sha256:
        met = f"sha256 {digest_bytes(data)}"
        raise InvalidSourceError(evaluation.labels.name, met, f"Declared is {evaluation.labels.sha256}.")
    try:
        labels = _labels(data)
    except ValueError as error:
        remedy = "Give task, seed, row, label, each row once."
        raise InvalidSourceError(evaluation.labels.name, str(error), remedy) from error
    return Declaration(evaluation=evaluation, catalog=load_catalog(evaluation.catalog), labels=labels, labels_data=data)


def csv_rows(data: bytes, header: tuple[str, ...]) -> Iterator[list[str]]:
    """Yield the rows of a CSV file in UTF-8.

    Raises:
        ValueError: the header is another, or a line has another number of values.
    """
    lines = csv.reader(io.StringIO(data.decode("utf-8"), newline=""), strict=True)
    if tuple(next(lines, ())) != header:
        raise ValueError(f"the header is not {', '.join(header)}")
    for line in lines:
        if len(line) != len(header):
            raise ValueError(f"{len(line)} values in a line of {len(header)}")
        yield line


def by_row(rows: Iterable[Sequence[str]]) -> dict[int, str]:
    """Return labels by the number of their row.

    Raises:
        ValueError: a row is no number, or comes twice.
    """
    made: dict[int, str] = {}
    for row, label in rows:
        if int(row) in made:
            raise ValueError(f"row {row} comes twice")
        made[int(row)] = label
    return made


def _labels(data: bytes) -> Labels:
    found: dict[tuple[str, int], list[list[str]]] = {}
    for task, seed, row, label in csv_rows(data, ("task", "seed", "row", "label")):
        found.setdefault((task, int(seed)), []).append([row, label])
    return {key: by_row(rows) for key, rows in found.items()}
