"""When two texts of claims say the same, and when they contradict each other (spec 004)."""

from __future__ import annotations

import pytest

from memory.index.lexical import terms
from policies.workspace.likeness import contradicts, is_same, said
from policies.workspace.policy import workspace_policy
from tests.support.workspace_samples import TEXT

POLICY = workspace_policy()
NOT = "Retries of the client are not capped at 3"

SAME = [
    ("Workers hold the lock", "The workers hold the locks", False),
    ("Workers hold the locks", "worker HOLD the lock", True),
    ("The parser calls the lexer", "The lexer calls the parser", False),
]
AGAINST = [
    (TEXT, NOT, True),
    ("The cache isn't shared between workers", "The cache is shared between workers", True),
    ("The cache can't be shared between workers", "The cache cannot be shared between workers", False),
    ("Retries are capped at 3", "Retries are capped at 4", True),
    ("Retries are capped at 3", "Retries are capped at 3", False),
    ("Retries are capped at 3 after 20 seconds", "Retries are capped at 4 after 20 seconds", True),
    ("Step 1 of the build writes file 1", "Step 2 of the build writes file 2", False),
    ("The queue is never not drained", "The queue is drained", False),
    ("The cache is shared", "The parser never reads the configuration twice", False),
]


@pytest.mark.parametrize(("one", "other", "same"), SAME)
def test_texts_that_say_the_same(one: str, other: str, *, same: bool) -> None:
    assert is_same(*(said(each, terms, POLICY.likeness) for each in (one, other))) is same


@pytest.mark.parametrize(("one", "other", "against"), AGAINST)
def test_texts_that_contradict_each_other(one: str, other: str, *, against: bool) -> None:
    a, b = (said(each, terms, POLICY.likeness) for each in (one, other))
    assert contradicts(a, b, POLICY.likeness) is against
    assert contradicts(b, a, POLICY.likeness) is against
