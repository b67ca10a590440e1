"""Registering a decision whose intent was granted and never appended: a typed answer, and recovery that mends it."""

from __future__ import annotations

import pytest

from records.errors import StaleError
from records.states import Phase
from tests.support.stack import Stack
from tests.support.stack_control import Staged, without_memory
from tests.support.stack_jobs import job_over
from vrm.mainjob.deciding import Decisions

pytestmark = pytest.mark.parametrize(
    ("ledger", "runtime"), [("memory", "memory"), ("postgres", "postgres")], indirect=True
)


def test_an_intent_that_the_ledger_does_not_hold_is_named_with_what_helps(stack: Stack) -> None:
    study = without_memory(stack)
    Staged(study).reach(Phase.REGISTERING)
    decisions = Decisions(job_over(stack))
    with pytest.raises(StaleError, match="vrm recover") as refused:
        decisions.register(study.view, [study.intent])
    assert refused.value.field == "decision intent"
    assert refused.value.value == f"{study.intent.id} {Phase.REGISTERING.value}"
    stack.recover()
    assert decisions.register(study.view, [study.intent]) == [study.intent]
