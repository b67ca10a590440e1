"""The ranker: features from hand arithmetic, thresholds, diversity, and independence of order."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.loading import load_policy
from policies.ranker import Candidate, Source, advised_downside, advised_gain, counter_permille, rank
from policies.retrieval_policy import RetrievalPolicy, Weights, retrieval_policy
from records.errors import InvalidInputError
from records.knowledge import MemoryRecord
from records.values import ActionKind, DecisionPoint, Direction, Grade
from tests.unit.recall_support import METRIC, SCOPE, effect, rule, strength

PROFILE = retrieval_policy().require_profile(DecisionPoint.INTERVENTION)
MARGIN = "0.005"
NO_WEIGHT = Weights(applicability=0, relevance=0, gain=0, downside=0, grade=0, support=0, counter=0)


def candidate(record: MemoryRecord, relevance: Fraction = Fraction(1, 3)) -> Candidate:
    return Candidate(record=record, relevance=relevance, ranks=(("lexical", 1),))


def chosen(*records: MemoryRecord, profile: Any = PROFILE, limit: int = 3) -> list[Source]:
    ranking = rank([candidate(record) for record in records], profile, MARGIN, limit)
    return [item.record for item in ranking.chosen]


def test_features_by_hand() -> None:
    """0.05 is 9 margins of 0.005 beyond the first; the interval's -0.02 is 3 margins beyond it on the other side."""
    record = rule(effect=effect(0.05, low=-0.02, high=0.12), strength=strength(Grade.STRONG, 11, 1))
    (item,) = rank([candidate(record)], PROFILE, MARGIN, 3).chosen
    parts = {part.feature: part.value for part in item.parts}
    assert parts["gain"] == 9000
    assert parts["downside"] == 3000
    assert parts["relevance"] == 333
    assert parts["applicability"] == 5  # task scope, domain, contract, budget, visibility
    assert parts["grade"] == 3
    assert parts["support"] == 11
    assert parts["counter"] == 83  # 1 of 12
    assert parts["lexical_rank"] == 1
    expected = 5 * 200 + 333 * 2 + 9000 * 4 - 3000 + 3 * 1000 + 11 * 50 - 83 * 4
    assert parts["total"] == item.total == expected


def test_gain_follows_the_direction_of_the_metric_and_the_advice() -> None:
    """Minimise turns the sign, and so does a warning; no advice has no gain."""
    down = effect(-0.04, low=-0.1, high=0.02)
    error = down.model_copy(update={"metric": METRIC.model_copy(update={"direction": Direction.MINIMIZE})})
    assert advised_gain(error, ActionKind.RECOMMEND) == Fraction("0.04")
    assert advised_gain(down, ActionKind.AVOID) == Fraction("0.04")
    assert advised_gain(down, ActionKind.RECOMMEND) == Fraction("-0.04")
    assert advised_gain(down, ActionKind.ABSTAIN) == 0
    assert advised_downside(down, ActionKind.AVOID) == Fraction("0.02")
    assert advised_downside(error, ActionKind.RECOMMEND) == Fraction("0.02")
    assert advised_downside(down, ActionKind.RECOMMEND) == Fraction("0.1")


def test_range_stands_in_where_there_is_no_prediction_interval() -> None:
    two = effect(0.05, low=-0.01, high=0.11, units=2).model_copy(update={"prediction_interval": None})
    assert advised_downside(two, ActionKind.RECOMMEND) == Fraction("0.01")
    assert counter_permille(strength(support=0, counter=0)) == 0


def test_vrm_r05_abstains_below_the_thresholds() -> None:
    """An effect inside the margin, a weak grade and a harmful recommendation are not shown to fill a place."""
    small = rule(effect=effect(0.004, low=-0.01, high=0.02))
    harmful = rule("C", "100", effect=effect(-0.05, low=-0.09, high=-0.01))
    single = rule("kernel", '"poly"', start='"rbf"', mechanism="kernel_shape", strength=strength(Grade.SINGLE))
    ranking = rank([candidate(record) for record in (small, harmful, single)], PROFILE, MARGIN, 3)
    assert ranking.chosen == ()
    assert {entry.reason: entry.count for entry in ranking.refused} == {"below_min_gain": 2, "below_min_grade": 1}


def test_vrm_r04_one_card_per_family_and_mechanism() -> None:
    """Two scopes of one family, and two changes of one mechanism: only the better one of each."""
    best = rule(effect=effect(0.06))
    same_family = rule(effect=effect(0.05), scope=SCOPE.model_copy(update={"dataset_digest": "d" * 64}))
    same_mechanism = rule("C", "100", effect=effect(0.04))
    other = rule("scaler", '"standard"', start='"none"', mechanism="feature_scaling", effect=effect(0.03))
    assert same_family.family_id == best.family_id
    assert chosen(same_mechanism, same_family, other, best) == [best, other]


def test_a_rule_too_weak_to_be_shown_takes_nobodys_place() -> None:
    """Thresholds come before diversity."""
    weak = rule(effect=effect(0.2), strength=strength(Grade.SINGLE))
    fine = rule("C", "100", effect=effect(0.02))
    assert chosen(weak, fine) == [fine]


def test_vrm_r03_never_more_cards_than_asked() -> None:
    records = [
        rule(name, '"x"', start='"y"', mechanism=name, effect=effect(0.05)) for name in ("ka", "kb", "kc", "kd", "ke")
    ]
    assert len(chosen(*records)) == 3
    assert len(chosen(*records, limit=1)) == 1
    assert chosen(*records, limit=0) == []


def test_ties_go_to_the_smaller_id() -> None:
    flat = PROFILE.model_copy(update={"weights": NO_WEIGHT})
    records = [rule(name, '"x"', start='"y"', mechanism=name) for name in ("ka", "kb", "kc")]
    assert chosen(*records, profile=flat) == sorted(records, key=lambda record: str(record.id))


_POOL = [
    rule(name, value, start="0", mechanism=mechanism, effect=effect(mean), strength=strength(grade))
    for name, mechanism in (("ka", "m1"), ("kb", "m1"), ("kc", "m2"), ("kd", "m3"))
    for value, mean, grade in (("1", 0.05, Grade.STRONG), ("2", 0.05, Grade.REPLICATED), ("3", 0.001, Grade.STRONG))
]


@given(st.permutations(_POOL))
@settings(max_examples=60, deadline=None)
def test_order_of_candidates_changes_nothing(records: list[MemoryRecord]) -> None:
    """The same ranking, scores and refusals for any order."""
    expected = rank([candidate(record) for record in _POOL], PROFILE, MARGIN, 3)
    assert rank([candidate(record) for record in records], PROFILE, MARGIN, 3) == expected
    mechanisms = [item.record.mechanism for item in expected.chosen if isinstance(item.record, MemoryRecord)]
    assert len(set(mechanisms)) == len(mechanisms) == 3


def test_profile_may_lower_bounds_but_not_raise_them() -> None:
    """VRM-R03: the file refuses more than three cards and 1,200 tokens, and two profiles for one point."""
    policy = retrieval_policy()
    for field, value in (("max_items", 4), ("token_budget", 1201)):
        content = policy.as_json()
        content["profiles"][0][field] = value
        with pytest.raises(InvalidInputError, match=field):
            load_policy(RetrievalPolicy, str(content).replace("None", "null"), "file")
    content = policy.as_json()
    content["profiles"] *= 2
    with pytest.raises(InvalidInputError, match="one profile"):
        load_policy(RetrievalPolicy, str(content), "file")
    assert retrieval_policy("1").profile(DecisionPoint.WRITING) is None
