"""An import that was cut short goes on under the reader that began it, or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from importers.published_table import PublishedTable
from memory.evidence import bundle_records
from records.errors import StaleError
from store.artifacts import ArtifactStore
from store.ledger.memory import MemoryLedger
from store.runtime.memory import MemoryRuntime
from tests.data.tables import table_lines, write_table
from tests.support.stack import Crash, Stack, Stores
from tests.support.stack_jobs import job_over
from tests.support.stores import fresh_namespace
from vrm.mainjob import published
from vrm.mainjob.published import import_table

ROWS = len(table_lines()) - 1
HALF = 8
LATER = "f" * 64
"""The digest of a reader of another version."""


@pytest.fixture
def stack(tmp_path: Path) -> Stack:
    stores = Stores(MemoryLedger(), MemoryRuntime(), ArtifactStore(str(tmp_path / "artifacts")))
    return Stack(stores, fresh_namespace())


def cut_short(stack: Stack, folder: Path) -> None:
    """Import the first rows of a table, and end there as a process that is gone."""
    given = 0

    def bundle(trial: Any) -> Any:
        nonlocal given
        if given == HALF:
            raise Crash("after the first group")
        given += 1
        return bundle_records(trial)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(published, "GROUP", HALF)
        patch.setattr(published, "bundle_records", bundle)
        with pytest.raises(Crash):
            import_table(job_over(stack), folder)
    assert len(stack.load("experience")) == HALF


def test_another_reader_adds_nothing_to_what_one_began(stack: Stack, tmp_path: Path) -> None:
    folder = write_table(tmp_path / "table")
    cut_short(stack, folder)
    (contract,) = stack.load("evaluation-contract")
    before = stack.journal()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PublishedTable, "evaluator_digest", LATER)
        with pytest.raises(StaleError) as refused:
            import_table(job_over(stack), folder)
    assert contract.evaluator_digest in refused.value.value
    assert LATER in refused.value.remedy
    assert stack.journal() == before
    import_table(job_over(stack), folder)
    assert len(stack.load("experience")) == ROWS
    assert stack.load("evaluation-contract") == [contract]


def test_a_whole_import_is_a_replay_under_any_reader(stack: Stack, tmp_path: Path) -> None:
    folder = write_table(tmp_path / "table")
    import_table(job_over(stack), folder)
    before = stack.journal()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PublishedTable, "evaluator_digest", LATER)
        import_table(job_over(stack), folder)
    assert stack.journal() == before
