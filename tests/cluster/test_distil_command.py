"""`vrm distil` as a user gives it: processes of their own, over Postgres and the installation's owners."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from evaluation.bench import studies
from evaluation.bench.bulk import source_run
from evaluation.bench.corpus import SPACE
from memory.evidence import bundle_records
from memory.leases import admission
from memory.ports import all_good
from memory.work_state import work_of
from records.appends import Append
from records.flows import Transition
from store.artifacts import ArtifactStore
from store.ledger.memory import MemoryLedger
from store.runtime.memory import MemoryRuntime
from tests.cluster.installation import Installation
from tests.cluster.product import Product
from tests.data.tables import write_table
from tests.support.stack import Stack, Stores
from tests.support.stores import fresh_namespace

TRIALS = 2 * studies.TRIALS
PATIENCE_SECONDS = 300.0


def append_evidence(place: Installation) -> None:
    """Admit a source Run, and append the evidence of two studies."""
    run = source_run(0)
    all_good(place.owners.run_owner.apply([admission(run, ["sweep"])]))
    made = [studies.trial(number, run.id) for number in range(TRIALS)]
    place.artifacts.publish_many([each.predictions for each in made])
    records = [bundle_records(each.trial) for each in made]
    all_good(
        place.spine.direct([Append.direct(Transition.APPEND_EVIDENCE, f"t/{each[-1].id}", each) for each in records])
    )


def outcomes(ledger: Any) -> dict[str, tuple[str, str | None]]:
    """Return for each Experience what became of it, and the Decision that covers it."""
    items = {stored.id: stored.load() for stored in ledger.find("distillation-work-item", SPACE)}
    ends = (stored.load() for stored in ledger.find("distillation-work-disposition", SPACE))
    return {items[end.work_item_id].experience_id: (end.outcome.value, end.decision_id) for end in ends}


@pytest.mark.slow
def test_killed_in_the_middle_and_given_again_it_ends_with_the_same_completions(
    place: Installation, product: Product, tmp_path: Path
) -> None:
    append_evidence(place)
    ledger = place.ledger
    for noun in ("distillation-receipt", "distillation-work-completion"):
        with product.started("distil", "--namespace", SPACE) as process:
            limit = time.monotonic() + PATIENCE_SECONDS
            while not ledger.find(noun, SPACE):  # each look is a query, which paces the loop
                assert process.poll() is None, "it ended before it could be killed"
                assert time.monotonic() < limit, f"no {noun} ever came"
    assert len(ledger.find("distillation-work-completion", SPACE)) < TRIALS

    found = product("distil", "--namespace", SPACE)
    assert (found["waiting"], found["dead_letters"], found["failures"]) == (0, 0, [])
    assert found["recall_input"].startswith("recall-input-snapshot:")
    again = product("distil", "--namespace", SPACE)
    assert (again["distilled"], again["queued"], again["recall_input"]) == (0, 0, found["recall_input"])
    standing = product("distil", "status", "--namespace", SPACE)
    assert (standing["waiting"], standing["without_receipt"], standing["dead_letters"]) == (0, 0, [])
    assert standing["completed"] == {"covered_by_decision": TRIALS}
    report = place.fsck()
    assert report.clean, report.text()

    quiet = Stack(Stores(MemoryLedger(), MemoryRuntime(), ArtifactStore(str(tmp_path))), SPACE)
    run = source_run(0)
    all_good(quiet.owner.apply([admission(run, ["sweep"])]))
    quiet.evidence(studies.trial(number, run.id).trial for number in range(TRIALS))
    assert not quiet.campaign(run.id)
    assert outcomes(ledger) == outcomes(quiet.stores.ledger)


@pytest.mark.slow
def test_what_waits_is_retried_and_a_dead_letter_is_final(
    place: Installation, product: Product, tmp_path: Path
) -> None:
    space = ("--namespace", fresh_namespace())
    product("import", "table", str(write_table(tmp_path / "table")), *space)
    work = work_of(place.ledger, space[1])
    spent, failed, paused = (each for each in work[:3])
    runs = [str(each.assignment.run_id) for each in work[:3] if each.assignment]
    product("runs", "budget", runs[0], "activity_attempts=0")
    product("runs", "fail", runs[1], "--cause", "infrastructure", "--reason", "the disk is gone")
    product("runs", "pause", runs[2])
    standing = product("distil", "status", *space)
    assert (standing["waiting"], standing["assigned"]) == (len(work) - 1, {"READY": len(work) - 1})
    assert (standing["out_of_attempts"], standing["paused"], standing["completed"]) == (1, 1, {})

    taken, final = product("distil", "retry", str(spent.item.id), str(failed.item.experience_id), *space, code=1)
    assert (taken["outcome"], taken["retried"], taken["detail"]) == ("completed", True, "")
    assert (final["work_item_id"], final["outcome"], final["retried"]) == (failed.item.id, "dead_letter", False)
    found = product("distil", *space, code=1)
    assert (found["waiting"], found["distilled"], found["dead_letters"]) == (1, len(work) - 3, 0)
    assert [each["subject"] for each in found["failures"]] == [paused.item.id]
    assert "resume" in found["failures"][0]["remedy"]

    product("runs", "resume", runs[2])
    answers = {each["work_item_id"]: each for each in product("distil", "retry", "--all", *space, code=1)}
    assert {key: each["outcome"] for key, each in answers.items()} == {
        failed.item.id: "dead_letter", paused.item.id: "completed"
    }  # fmt: skip
    (letter,) = product("distil", "dead-letters", *space)
    assert (letter["work_item"], letter["run"], letter["cause"]) == (failed.item.id, runs[1], "INFRASTRUCTURE")
    assert (letter["reason"], letter["retry"]) == ("the disk is gone", False)
    decisions = place.ledger.find("distillation-decision", space[1])
    assert letter["decisions"] == [each.id for each in decisions], "its evidence counts all the same"
    assert product("distil", "status", *space)["dead_letters"][0]["experience"] == failed.item.experience_id
    assert product("distil", "retry", str(spent.item.id), *space)[0]["retried"] is False
    assert product("distil", "retry", *space, code=2)["error"] == "InvalidInputError"
    report = place.fsck()
    assert report.clean, report.text()
