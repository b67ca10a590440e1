"""Bytes that were parsed before give the model that they gave; a row that differs anywhere is checked anew."""

from __future__ import annotations

import pickle
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest

from records.appends import StoredRecord
from records.base import Record
from records.errors import IntegrityError, InvalidRecordError
from tests.support.trials import make_evidence


def row_of(record: Record, **changes: Any) -> StoredRecord:
    """Return a record as the Ledger holds it, with parts of the row changed."""
    stored = StoredRecord(
        noun=record.kind.noun, id=str(record.id), namespace="known", position=2, payload=record.payload.decode()
    )
    return replace(stored, **changes)


def row(**changes: Any) -> StoredRecord:
    """Return the row of some record."""
    return row_of(make_evidence("known")[1], **changes)


def test_the_same_row_is_parsed_once() -> None:
    first = row().load()
    assert row().load() is first
    assert first.sealed is row().load().sealed


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"payload": row().payload.replace("small", "large")}, IntegrityError),
        ({"payload": row().payload.replace('"created_at"', '"made_at"')}, InvalidRecordError),
        ({"payload": row().payload + " "}, IntegrityError),
        ({"namespace": "another"}, IntegrityError),
        ({"id": row().id[:-1] + ("0" if row().id[-1] != "0" else "1")}, IntegrityError),
    ],
)
def test_a_row_that_was_changed_is_refused_however_often(changes: dict[str, Any], error: type[Exception]) -> None:
    row().load()
    for _ in range(2):
        with pytest.raises(error):
            row(**changes).load()


def test_a_large_record_is_kept_as_well() -> None:
    experience = make_evidence("known")[-1]
    large = row_of(experience.model_copy(update={"analysis": "much " * 10_000 + "said"}))
    assert large.load() is replace(large).load()


def test_a_record_brings_its_module_along_to_a_process_that_knows_no_kind() -> None:
    experience = make_evidence("known")[-1]
    code = "import pickle, sys; print(pickle.load(sys.stdin.buffer).id)"
    done = subprocess.run([sys.executable, "-c", code], input=pickle.dumps(experience), capture_output=True, check=True)
    assert done.stdout.decode().strip() == str(experience.id)
