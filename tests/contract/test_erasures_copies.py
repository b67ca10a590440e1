"""Every copy of what an Experience or a rule says goes with it, in whatever artifact it was published (spec 15).

The artifacts of a store are looked at one by one, by what they hold: what is left afterwards with a word of what was
erased may be proposals alone, which are copies of rows that the Ledger keeps.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from memory.erasing import ErasureRequest
from memory.erasing.copies import copies_of
from records.appends import Proposal
from records.decisions import RecallContext
from records.errors import IntegrityError, InvalidRecordError
from records.flows import Authority, Transition
from records.governance import Mode
from records.legacy_recall import LegacyRecall
from records.outcomes import RecallOutcome
from records.retention import ErasureIntent, ErasureReason
from records.states import Phase
from tests.contract.test_heldout_resume import Legacy
from tests.support.incidents import Incident
from tests.support.stack import GOOD, Stack
from tests.support.stack_control import checked
from tests.support.stack_decisions import Study, learn
from vrm.mainjob.heldout import HeldOut, Pending
from vrm.mainjob.outcomes import ErasedLessons

pytestmark = pytest.mark.parametrize(
    ("ledger", "runtime"), [("memory", "memory"), ("postgres", "postgres")], indirect=True
)


@pytest.fixture
def told(stack: Stack) -> Legacy:
    """A rule and its lessons, both shown to a decision that has ended; the bytes are those of no other test's."""
    deltas = {f"{stack.namespace}-{root}": value for root, value in GOOD.items()}
    incident = Incident(stack, learn(stack, deltas), stack.admit("erasure"))
    Study(stack, "pair-2", "memory", incident.recall_input).decide()
    legacy = Legacy(incident)
    legacy.conclude()
    return legacy


def erased(stack: Stack, target: object) -> ErasureIntent:
    """Erase by the officer, to the tombstone."""
    request = ErasureRequest(target=str(target), reason=ErasureReason.PRIVACY_REQUEST, incident="case-1")
    intent = stack.officer.begin(request)
    stack.officer.finish(intent)
    return intent


def holding(stack: Stack, words: str) -> set[str]:
    """Return the kinds of artifact that hold words, by what each can be read as, however deep they are quoted."""
    artifacts = stack.stores.artifacts
    found = (artifacts.read(digest) for digest in artifacts.digests())
    return {kind_of(data) for data in found if bare(words.encode()) in bare(data)}


def bare(data: bytes) -> bytes:
    """Return bytes without quotes and what escapes them."""
    return data.replace(b"\\", b"").replace(b'"', b"")


def kind_of(data: bytes) -> str:
    """Return what an artifact is."""
    for kind in (Proposal, LegacyRecall):
        try:
            kind.load(data)
        except InvalidRecordError:
            continue
        return kind.__name__
    return "section" if data.startswith(b"<verified-memory>") else data[:40].decode("latin-1")


def source_of(legacy: Legacy) -> Any:
    """Return an Experience that a lesson was learnt from, and that the rule rests on."""
    lessons = legacy.source(legacy.resumed())
    wanted = str(lessons.items[0].sources[-1])
    return next(each for each in legacy.stack.load("experience") if str(each.id) == wanted)


def test_nothing_that_says_it_is_left_but_what_the_ledger_keeps(told: Legacy) -> None:
    stack = told.stack
    experience, rule = source_of(told), told.incident.rule
    assert holding(stack, experience.analysis) == {"LegacyRecall"}
    assert holding(stack, rule.claim) == {"Proposal", "section"}
    intent = erased(stack, experience.id)
    assert holding(stack, experience.analysis) == set()
    assert holding(stack, rule.claim) == {"Proposal"}, "the row stays, and so does what proposed it"
    (context,) = stack.load("decision-recall-context")
    assert context.rendered_digest in intent.erased_bytes
    report = checked(stack)
    assert report.clean, report.text()


def test_a_section_goes_with_any_record_that_its_cards_rest_on(told: Legacy) -> None:
    """The rule itself, and the hypothesis behind one of its Experiences."""
    stack = told.stack
    (context,) = stack.load("decision-recall-context")
    assert isinstance(context, RecallContext)
    rule, experience = told.incident.rule, source_of(told)
    for target in (rule.id, experience.hypothesis_id):
        request = ErasureRequest(target=str(target), reason=ErasureReason.LEGAL_ORDER, incident="case-2")
        assert context.rendered_digest in stack.officer.plan(request).intent.erased_bytes
    unrelated = stack.load("experience")[-1]  # that of the decision itself, which no card shows
    assert unrelated.id not in {link.experience_id for link in rule.links}
    request = ErasureRequest(target=str(unrelated.id), reason=ErasureReason.LEGAL_ORDER, incident="case-3")
    assert context.rendered_digest not in stack.officer.plan(request).intent.erased_bytes


def test_an_intent_that_overlooks_a_section_is_refused(told: Legacy) -> None:
    stack = told.stack
    (context,) = stack.load("decision-recall-context")
    request = ErasureRequest(target=str(told.incident.rule.id), reason=ErasureReason.LEGAL_ORDER, incident="case-2")
    planned = stack.officer.plan(request)
    left = tuple(each for each in planned.intent.affected_artifacts if each.sha256 != context.rendered_digest)
    short = planned.intent.model_copy(update={"affected_artifacts": left})
    event = planned.retraction
    assert event is not None
    refusal = told.incident.refused(told.incident.begin(event, short))
    assert "prompt section" in refusal.detail


def test_lessons_that_were_published_after_the_plan_go_too(told: Legacy) -> None:
    """A job that had learnt them before the intent publishes them after it; no record names them."""
    stack, experience = told.stack, source_of(told)
    lessons = told.source(told.resumed())
    request = ErasureRequest(target=str(experience.id), reason=ErasureReason.PRIVACY_REQUEST, incident="case-1")
    intent = stack.officer.begin(request)
    late = lessons.model_copy(update={"memory_digest": "0" * 64})
    stack.stores.artifacts.publish(late.canonical)
    stack.officer.finish(intent)
    with stack.stores.ledger.reading() as reader:
        assert copies_of(reader, stack.stores.artifacts, str(experience.id)).digests == frozenset()
    assert holding(stack, experience.analysis) == set()


def test_a_section_of_a_context_that_was_never_appended_goes_too(told: Legacy) -> None:
    """Its job was killed, or the Ledger refused it: no record names the section, and a card says what it shows."""
    stack, experience, rule = told.stack, source_of(told), told.incident.rule
    (context,) = stack.load("decision-recall-context")
    study = Study(stack, "pair-3", "memory", told.incident.recall_input)
    stack.admit(f"{study.key}/{study.arm}", "trial")
    study.carry(Transition.APPEND_INTENT, Authority.ADMISSION, study.view, study.intent)
    lost = study.recalled().rendered_digest
    assert lost != context.rendered_digest
    plain = stack.stores.artifacts.publish(f"<verified-memory>\nversion {'0' * 10}, of no rule".encode())
    for target in (rule.id, experience.id):
        request = ErasureRequest(target=str(target), reason=ErasureReason.LEGAL_ORDER, incident="case-2")
        bytes_ = stack.officer.plan(request).intent.erased_bytes
        assert {lost, context.rendered_digest} <= set(bytes_)
        assert plain not in bytes_
    erased(stack, rule.id)
    assert holding(stack, rule.claim) == {"Proposal"}
    assert stack.stores.artifacts.holds(plain)


def test_a_question_that_no_decision_follows_from_leaves_nothing(told: Legacy) -> None:
    """The caller gets the cards and the section; the stores are as they were."""
    stack = told.stack
    study = Study(stack, "asked", "memory", told.incident.recall_input)
    before, kept = stack.state(), set(stack.stores.artifacts.digests())
    assert study.recalled().items
    assert stack.state() == before
    assert set(stack.stores.artifacts.digests()) == kept


@pytest.mark.parametrize(("other_form", "restored"), [(False, True), (False, False), (True, False)])
def test_lessons_that_cannot_be_read_leave_the_erasure_open(told: Legacy, other_form: bool, restored: bool) -> None:
    """Damaged, or of a form that is not known here: either is restored or erased by its digest, then it ends."""
    stack, experience = told.stack, source_of(told)
    artifacts = stack.stores.artifacts
    lessons = told.source(told.resumed()).canonical
    form = lessons.replace(b'"items":', b'"entries":') if other_form else lessons
    digest = artifacts.publish(form)
    file = Path(artifacts.location(digest))
    file.write_bytes(form if other_form else form[:-1])
    request = ErasureRequest(target=str(experience.id), reason=ErasureReason.PRIVACY_REQUEST, incident="case-1")
    intent = stack.officer.begin(request)
    for _ in range(2):
        with pytest.raises(IntegrityError, match=f"vrm erase {digest}"):
            stack.officer.finish(intent)
        assert told.incident.phase(intent) is Phase.OPEN
    if restored:
        file.write_bytes(lessons)
    else:
        other = replace(request, target=digest, namespace=stack.namespace)
        stack.officer.finish(stack.officer.begin(other))
    stack.officer.finish(intent)
    assert not artifacts.holds(digest)
    assert holding(stack, experience.analysis) == set()


def test_a_concluded_decision_goes_on_without_its_lessons(told: Legacy) -> None:
    """Its envelope says what was answered: the same proposal, outcome and link, and nothing is published again."""
    stack = told.stack
    (outcome,) = (each for each in stack.load("recall-decision-outcome") if each.arm == "control")
    assert isinstance(outcome, RecallOutcome)
    erased(stack, source_of(told).id)
    trials: HeldOut = told.resumed()
    state = cast("Any", SimpleNamespace(mode=Mode.LEGACY_RECALL))
    (source,) = trials._sources([state], [told.study.intent])
    assert isinstance(source, ErasedLessons)
    before = stack.state()
    trials._decisions.give([(told.study.intent, source)])
    trials._decisions.keep_answers([(told.study.intent, told.answer, source)])
    verified = told.study.execute(told.answer, None)
    pending = Pending(state=cast("Any", None), intent=told.study.intent, source=source, answer=told.answer)
    trials._conclude([pending], {told.study.intent.id: verified})
    assert stack.state() == before


def test_a_job_that_goes_on_shows_no_lesson_that_was_denied_meanwhile(stack: Stack) -> None:
    """It had learnt them before; the next decision of the same process is given none of them."""
    deltas = {f"{stack.namespace}-{root}": value for root, value in GOOD.items()}
    legacy = Legacy(Incident(stack, learn(stack, deltas), stack.admit("erasure")))
    job = legacy.resumed()
    before = legacy.source(job)
    legacy.erase_a_source()
    after = legacy.source(job)
    gone = {str(source) for item in before.items for source in item.sources} - {
        str(source) for item in after.items for source in item.sources
    }
    assert len(gone) == 1
