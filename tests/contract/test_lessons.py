"""What the earlier design may learn from: evidence that is there at its point, and that retention does not deny."""

from __future__ import annotations

import pytest

from tests.support.incidents import Incident
from tests.support.stack import Stack
from vrm.mainjob.lessons import Lessons, learn_lessons

pytestmark = pytest.mark.parametrize(
    ("ledger", "runtime"), [("memory", "memory"), ("postgres", "postgres")], indirect=True
)


def learnt(stack: Stack) -> Lessons:
    with stack.stores.ledger.reading() as reader:
        return learn_lessons(reader, stack.namespace, "tabular", stack.position())


def sources(lessons: Lessons) -> set[str]:
    return {each for lesson in lessons.promoted for each in lesson.source_experience_ids}


def test_no_lesson_is_learnt_from_evidence_that_retention_denies(incident: Incident) -> None:
    """Its analysis is what a lesson shows (spec 4.15, 15)."""
    stack = incident.stack
    of_change = next(each for each in reversed(stack.load("experience")) if str(each.id) in sources(learnt(stack)))
    place = [str(each.id) for each in stack.load("observation")].index(str(of_change.observation_id))
    before = sources(learnt(stack))
    incident.opened(incident.of_observation(place))
    assert sources(learnt(stack)) == before - {str(of_change.id)}
