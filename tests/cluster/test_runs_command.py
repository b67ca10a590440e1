"""`vrm runs` as a user gives it: processes of their own, over Postgres and the installation's owners."""

from __future__ import annotations

from typing import Any

import pytest

from memory.ports import all_good
from records.states import Machine, Phase
from tests.cluster.installation import Installation, Study
from tests.cluster.product import Product


@pytest.mark.slow
def test_a_run_is_paused_resumed_and_cancelled_while_decisions_are_open(
    place: Installation, study: Study, product: Product
) -> None:
    def vrm(*arguments: str, code: int = 0) -> Any:
        return product("runs", *arguments, code=code)

    run, other = str(study.run.id), Study(place)
    receipts = all_good(place.spine.carry(study.proposals(1, 2)))
    assert all(receipt.committed for receipt in receipts)
    other.grant(3)  # from now on the command line's owners act, which the address of the artifacts tells apart
    assert vrm("pause", str(other.run.id), code=2)["error"] == "CommitArbitrationBusyError"
    assert vrm("pause", run, "--reason", "the cluster is needed")["phase"] == "PAUSED"
    assert vrm("resume", run)["phase"] == "RUNNING"
    for stopped, closed in ((run, 2), (str(other.run.id), 1)):
        answer = vrm("cancel", stopped, "--incident", "--reason", "a disk is failing")
        assert (answer["phase"], answer["closed_decisions"], answer["open"]) == ("CANCELLED", closed, [])
        assert not place.runtime.find(Machine.AUTHORIZATION, [Phase.GRANTED], stopped)
    outcomes = place.ledger.find("recall-decision-outcome", study.namespace, run_id=run)
    assert {each.load().as_json()["terminal_reason"] for each in outcomes} == {"CANCELLED_BY_INCIDENT"}
    report = place.fsck()
    assert report.clean, report.text()
