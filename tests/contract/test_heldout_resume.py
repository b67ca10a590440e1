"""A job that goes on takes what memory said before, also where it said that it must say nothing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from records.decisions import BlockedProposal, CorruptInputEvidence
from records.flows import Authority, Transition
from records.ids import IntentId
from records.outcomes import DecisionStatus
from store.artifacts import ArtifactStore
from store.ledger.port import LedgerStore
from store.runtime.port import RuntimeStore
from tests.support.samples import POLICY
from tests.support.stack import GOOD, Stack, Stores
from tests.support.stack_decisions import Study, learn
from tests.support.stores import fresh_namespace
from vrm.mainjob.heldout import HeldOut, Pending

pytestmark = pytest.mark.parametrize(
    ("ledger", "runtime"), [("memory", "memory"), ("postgres", "postgres")], indirect=True
)


@pytest.fixture
def study(ledger: LedgerStore, runtime: RuntimeStore, tmp_path: Path) -> Study:
    """A decision of the memory arm whose intent is open."""
    stack = Stack(Stores(ledger, runtime, ArtifactStore(str(tmp_path))), fresh_namespace())
    study = Study(stack, "pair-1", "memory", learn(stack, GOOD))
    stack.admit(f"{study.key}/{study.arm}", "trial")
    study.carry(Transition.APPEND_INTENT, Authority.ADMISSION, study.view, study.intent)
    return study


def test_a_blocked_decision_is_not_asked_again(study: Study) -> None:
    """A retry until memory answers would be a second chance that the control arm does not have (spec 15)."""
    asked: list[Any] = []

    def damaged(questions: Sequence[Any]) -> list[BlockedProposal]:
        asked.extend(questions)
        evidence = CorruptInputEvidence(attempted="index", finding="index.digest")
        return [
            BlockedProposal(
                intent_id=IntentId(intent.id),
                request_digest=request.canonical_digest,
                retrieval_policy=POLICY,
                recall_input_id=None,
                evidence=evidence,
            )
            for intent, request in questions
        ]

    job = SimpleNamespace(stores=study.stack.stores, namespace=study.stack.namespace, spine=study.stack.spine)
    maker = SimpleNamespace(request=lambda _state, _intent: study.request)
    trials = HeldOut(cast("Any", job), cast("Any", maker), cast("Any", None), damaged)

    def conclude() -> Any:
        (source,) = trials._sources([cast("Any", None)], [study.intent])
        trials._conclude([Pending(state=cast("Any", None), intent=study.intent, source=source, answer=None)], {})
        return source

    first = conclude()
    (outcome,) = study.stack.load("recall-decision-outcome")
    assert outcome.decision_status is DecisionStatus.BLOCKED
    assert outcome.blocked_proof_digest == first.canonical_digest
    assert len(asked) == 1
    before = study.stack.state()
    assert conclude() == first
    assert len(asked) == 1
    assert study.stack.state() == before
