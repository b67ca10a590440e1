"""The page and its facts as files: written whole or not at all, named for their round."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from pydantic import ValidationError

from records.errors import InvalidSourceError, NotFoundError, UnavailableError
from vrm.mainjob.facts.shapes import RoundFacts
from vrm.mainjob.plan import Round
from vrm.report.page import render


def stem(namespace: str, size: str, number: int) -> str:
    """Return the name, without suffix, of a round's files."""
    return f"{namespace}-{size}-round-{number}"


def write_report(facts: RoundFacts, folder: Path) -> Path:
    """Write the page and `*.facts.json` beside it, over those of an earlier reading, and return the page's path.

    Raises:
        UnavailableError: the folder cannot be written.
    """
    name = stem(facts.namespace, facts.size, facts.round)
    page = folder / f"{name}.html"
    text = render(facts)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _replace(folder / f"{name}.facts.json", facts.model_dump_json(indent=1) + "\n")
        _replace(page, text)
    except OSError as error:
        raise UnavailableError(
            "report folder", str(folder), f"Choose a folder to write to ({error.strerror})."
        ) from error
    return page


def read_facts(folder: Path, round_: Round) -> RoundFacts:
    """Read the facts that were written with a round's page; they hold the seconds, which no Ledger holds.

    Raises:
        NotFoundError: the round has no page in this folder.
        InvalidSourceError: the file is damaged or of another layout.
    """
    path = folder / f"{stem(round_.namespace, round_.size.name, round_.number)}.facts.json"
    try:
        return RoundFacts.model_validate_json(path.read_bytes())
    except FileNotFoundError as error:
        raise NotFoundError("facts", str(path), "Write the report of this round first.") from error
    except ValidationError as error:
        found = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in found["loc"]) or "$"
        raise InvalidSourceError(f"{path.name}: {where}", found["msg"], "Write the report again.") from error


def _replace(path: Path, text: str) -> None:
    """Put a file in place in one step, so that nobody ever reads half of it."""
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
