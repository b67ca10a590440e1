"""What is disputed: diagnosis is shown it with both sides, no other decision point is, and nobody may act on it."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from policies.ranker import Candidate, rank
from policies.retrieval_policy import retrieval_policy
from policies.selection_policy import contested_selection, selection_policy
from records.decisions import EvidenceCard, RecallContext
from records.flows import Authority, Transition
from records.ids import RunId
from records.knowledge import EventType, LinkRelation, MemoryRecord
from records.snapshots import RecallInput
from records.values import ActionKind, DecisionPoint, Disposition, Grade
from tests.unit.recall_support import effect, intent, link, rule, strength, trial
from tests.unit.recall_world import World, answer, context

DIAGNOSIS = retrieval_policy().require_profile(DecisionPoint.DIAGNOSIS)
MARGIN = "0.005"


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def disputed(world: World) -> MemoryRecord:
    """Append a contested rule that on the whole does harm: as many units against it as for it."""
    baseline, against = world.experience(trial(1)), world.experience(trial(3, ("C", 1, 10)))
    changed = world.experience(trial(2, ("C", 1, 10)))
    links = (link(against, baseline, LinkRelation.CONTRADICTS), link(changed, baseline, LinkRelation.SUPPORTS))
    losing = effect(-0.02, low=-0.4, high=0.36)
    record, _ = world.learn(
        rule(effect=losing, links=links, strength=strength(Grade.CONTESTED, 1, 1)), EventType.PROMOTED_CONTESTED
    )
    return record


def asked(world: World, source: RecallInput, point: DecisionPoint) -> RecallContext:
    decision = world.admit(intent(decision_point=point, run_id=RunId.derive({"asks": point.value})))
    return context(answer(world, source, decision=decision, decision_point=point))


def test_vrm_l02_contested_records_appear_only_where_a_profile_asks_for_them(world: World) -> None:
    """One input holds the disputed rule: diagnosis shows both its sides, an intervention refuses its disposition."""
    record = disputed(world)
    snapshot = world.freeze(contested_selection())
    assert [(each.memory_id, each.disposition) for each in snapshot.members] == [(record.id, Disposition.CONTESTED)]
    source = world.compose(snapshot, world.index(snapshot)[0])

    shown = asked(world, source, DecisionPoint.DIAGNOSIS)
    (item,) = shown.items
    assert isinstance(item.card, EvidenceCard)
    assert item.card.disposition is Disposition.CONTESTED
    assert len(item.card.supporting) == len(item.card.contradicting) == 1
    parts = {part.feature: part.value for part in item.score}
    assert (parts["gain"], parts["downside"], parts["counter"]) == (0, 0, 500)
    world.granted(Transition.APPEND_CONTEXT, Authority.NORMAL, shown)

    for point in (DecisionPoint.INTERVENTION, DecisionPoint.EXPERIMENT_DESIGN, DecisionPoint.WRITING):
        refused = asked(world, source, point)
        assert refused.items == ()
        assert {each.reason: each.count for each in refused.filtered}["disposition_not_admitted"] == 1


def test_vrm_l02_a_normal_snapshot_has_no_contested_head(world: World) -> None:
    disputed(world)
    kept, _ = world.learn(rule("scaler", '"standard"', start='"none"', mechanism="feature_scaling"))
    assert [each.memory_id for each in world.freeze().members] == [kept.id]
    assert selection_policy().identity != contested_selection().identity


@pytest.mark.parametrize("mean", [-0.05, 0.0, 0.001, 0.05])
def test_what_advises_nothing_is_asked_for_no_gain(mean: float) -> None:
    """Whichever way the mean lies, a contested rule and advice to abstain are as good as they are relevant."""
    measured = effect(mean, low=mean - 0.3, high=mean + 0.3)
    contested = rule(effect=measured, strength=strength(Grade.CONTESTED, 0, 12))
    abstaining = rule("kernel", '"poly"', start='"rbf"', effect=measured, action=ActionKind.ABSTAIN, mechanism="kernel")
    candidates = [
        Candidate(record=contested, relevance=Fraction(0), ranks=(), contested=True),
        Candidate(record=abstaining, relevance=Fraction(1), ranks=()),
    ]
    ranking = rank(candidates, DIAGNOSIS, MARGIN, 3)
    assert [item.record.id for item in ranking.chosen] == [abstaining.id, contested.id]
    assert all((item.features["gain"], item.features["downside"]) == (0, 0) for item in ranking.chosen)


def test_advice_that_harms_is_still_refused_at_diagnosis() -> None:
    """A threshold is left out for what advises nothing, and for nothing else."""
    harmful = rule(effect=effect(-0.05, low=-0.09, high=-0.01))
    ranking = rank([Candidate(record=harmful, relevance=Fraction(1), ranks=())], DIAGNOSIS, MARGIN, 3)
    assert ranking.chosen == ()
    assert [each.reason for each in ranking.refused] == ["below_min_gain"]
