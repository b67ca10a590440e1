"""A job that goes on takes what memory said before, also where it said that it must say nothing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from records.decisions import BlockedProposal, CorruptInputEvidence
from records.flows import Authority, Transition
from records.governance import Mode
from records.ids import IntentId
from records.legacy_recall import LegacyRecall
from records.outcomes import DecisionStatus
from store.artifacts import ArtifactStore
from store.ledger.port import LedgerStore
from store.runtime.port import RuntimeStore
from tests.support.incidents import Incident
from tests.support.samples import POLICY
from tests.support.stack import GOOD, NULL, Stack, Stores, effects
from tests.support.stack_decisions import Study, learn
from tests.support.stores import fresh_namespace
from vrm.mainjob.heldout import HeldOut, Pending
from vrm.mainjob.lessons import Lessons, learn_lessons

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


class Legacy:
    """A job with one decision of an arm of the earlier design; every `HeldOut` of it is a job that goes on."""

    def __init__(self, incident: Incident) -> None:
        self.stack, self.incident = incident.stack, incident
        self.study = Study(self.stack, "pair-1", "control", incident.recall_input)
        self.stack.admit("pair-1/control", "trial")
        self.study.carry(Transition.APPEND_INTENT, Authority.ADMISSION, self.study.view, self.study.intent)
        self.answer = self.study.answer(None)

    def learn(self, until: int) -> Lessons:
        with self.stack.stores.ledger.reading() as reader:
            return learn_lessons(reader, self.stack.namespace, "tabular", until)

    def resumed(self) -> HeldOut:
        stack = self.stack
        job = SimpleNamespace(stores=stack.stores, namespace=stack.namespace, spine=stack.spine)
        maker = SimpleNamespace(query=lambda _state: self.study.request.query)
        return HeldOut(cast("Any", job), cast("Any", maker), cast("Any", None), lambda _: [], learn=self.learn)

    def source(self, trials: HeldOut) -> LegacyRecall:
        (source,) = trials._sources([cast("Any", SimpleNamespace(mode=Mode.LEGACY_RECALL))], [self.study.intent])
        assert isinstance(source, LegacyRecall)
        return source

    def conclude(self) -> LegacyRecall:
        trials = self.resumed()
        source = self.source(trials)
        trials._decisions.give([(self.study.intent, source)])
        trials._decisions.keep_answers([(self.study.intent, self.answer, source)])
        verified = self.study.execute(self.answer, None)
        pending = Pending(state=cast("Any", None), intent=self.study.intent, source=source, answer=self.answer)
        trials._conclude([pending], {self.study.intent.id: verified})
        return source

    def erase_a_source(self) -> None:
        """Erase the observation behind a lesson that the decision would be given."""
        source = self.source(self.resumed()).items[0].sources[-1]
        told = next(each for each in self.stack.load("experience") if each.id == source)
        place = [each.id for each in self.stack.load("observation")].index(told.observation_id)
        self.incident.opened(self.incident.of_observation(place))


@pytest.fixture
def legacy(incident: Incident) -> Legacy:
    return Legacy(incident)


def test_a_round_that_goes_on_learns_from_the_evidence_of_its_first_decision(legacy: Legacy) -> None:
    before = legacy.source(legacy.resumed())
    legacy.stack.evidence(effects(legacy.stack, "sweep", {"y": 0.05, "z": 0.05}, change=NULL))
    assert legacy.learn(legacy.stack.position()).digest != before.memory_digest
    assert legacy.source(legacy.resumed()) == before


def test_a_concluded_decision_keeps_its_lessons_and_its_outcome(legacy: Legacy) -> None:
    """Else another envelope gives another outcome id, and a link to an outcome that is not there."""
    first = legacy.conclude()
    legacy.erase_a_source()
    before = legacy.stack.state()
    assert legacy.conclude() == first
    assert legacy.stack.state() == before


def test_a_decision_that_is_still_open_is_given_no_lesson_that_was_erased_since(legacy: Legacy) -> None:
    before = legacy.source(legacy.resumed())
    legacy.erase_a_source()
    after = legacy.source(legacy.resumed())
    assert after.memory_digest != before.memory_digest
    assert before.items[0] not in after.items
