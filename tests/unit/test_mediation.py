"""The trace of decisions: a whole chain over the real owners, every break by name, shares of known denominators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from evaluation.mediation import MEANING, Mediation, funnel, improvements, mediation
from memory.trace.reading import Asked, Traced, _told, intent_of, read_traces
from policies.mediation import (
    Action,
    Break,
    DecisionRecords,
    DecisionTrace,
    Judgement,
    Ran,
    named_by,
    paired,
    trace_decision,
)
from records.errors import NotFoundError
from records.knowledge import LinkRelation, MemoryRecord
from records.outcomes import CardReason
from records.values import Direction, RecallRequirement
from tests.data.world import World
from tests.support.trials import digest
from tests.unit.facts_world import FIRST, SECOND, filled_world
from tests.unit.trace_world import BASELINE, SPACE, Pair, build_pair


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return build_pair(tmp_path_factory.mktemp("pair"))


@pytest.fixture(scope="module")
def records(pair: Pair) -> DecisionRecords:
    """What the Ledger holds about the decision of the memory arm."""
    intent = pair.memory.intent
    with pair.stack.stores.ledger.reading() as reader:
        (found,) = _told(reader, SPACE, {str(intent.id): intent})
    return found


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return filled_world(tmp_path_factory.mktemp("world"))


@pytest.fixture(scope="module")
def traced(world: World) -> Traced:
    with world.ledger.reading() as reader:
        return read_traces(reader, Asked(namespace=world.namespace))


@pytest.fixture(scope="module")
def found(traced: Traced) -> Mediation:
    return mediation(traced.traces, traced.fidelity)


class TestVrmO04:
    """Write, recall, adoption, changed execution and verified outcome are one query."""

    def test_vrm_o04_the_whole_chain_of_a_decision_with_memory(self, pair: Pair) -> None:
        trace = pair.trace(pair.memory)
        (rule,) = [each for each in pair.stack.load("memory-record") if isinstance(each, MemoryRecord)]
        (card,) = trace.cards
        assert card.sources == (str(rule.id),)
        supporting = {str(link.experience_id) for link in rule.links if link.relation is LinkRelation.SUPPORTS}
        assert set(card.evidence) == supporting
        assert len(supporting) == 4
        scaled = Action(knob="scaler", value='"standard"')
        assert (card.advice, card.target, card.mapped_to) == ("recommend", scaled, scaled)
        assert (card.verdict, card.reason) == ("adopted", CardReason.ADOPTED_APPLICABLE.value)
        assert (trace.action, trace.executed) == (scaled, scaled)
        (link,) = [each for each in pair.stack.load("outcome-attempt-link") if each.outcome_id == trace.outcome_id]
        provenance = next(
            each for each in pair.stack.load("trial-provenance") if str(each.attempt_id) == str(link.attempt_id)
        )
        assert (trace.attempt_id, trace.intervention_id) == (str(link.attempt_id), str(provenance.intervention_id))
        assert trace.decided_config_digest == trace.executed_config_digest == provenance.config_digest
        assert (trace.ran, trace.valid, trace.breaks) == (Ran.CHANGED, True, ())
        assert (trace.before, trace.after) == (BASELINE, 0.75)
        assert trace.gain == pytest.approx(0.05)
        assert card.judgement is Judgement.CONFIRMED
        assert trace.improved

    def test_vrm_o04_a_control_decision_is_traced_without_memory(self, pair: Pair) -> None:
        trace, other = pair.trace(pair.control), pair.trace(pair.memory)
        assert (trace.requirement, trace.cards, trace.tokens) == (RecallRequirement.REGISTERED_NOT_REQUESTED, (), None)
        assert (trace.source_status, trace.breaks) == ("not_requested", ())
        assert other.counterpart is not None
        assert (other.counterpart.intent_id, other.counterpart.arm) == (trace.intent_id, "control")
        assert trace.after is not None
        assert other.counterpart.delta == pytest.approx(0.75 - trace.after)

    def test_vrm_o04_one_run_alone_still_has_its_counterpart(self, pair: Pair) -> None:
        (trace,) = pair.read(run_ids=(str(pair.memory.run_id),)).traces
        assert trace.counterpart is not None
        assert len(pair.read().traces) == 2

    def test_vrm_o04_the_metrics_of_a_pair(self, pair: Pair) -> None:
        read = pair.read()
        shown = mediation(read.traces, read.fidelity)
        whole = {name: (count.hits, count.of) for name, count in shown.shares.items()}
        assert whole == {
            "terminal_coverage": (2, 2),
            "disposition_coverage": (1, 1),
            "writer_fidelity": (4, 4),
            "applicable_recall_at_budget": (1, 1),
            "adopted_memory_precision": (1, 1),
            "executable_decision_change_rate": (1, 1),
            "manifest_fidelity": (2, 2),
            "chains_whole": (2, 2),
        }
        assert shown.effect is not None
        control = pair.trace(pair.control).after
        assert control is not None
        assert shown.effect.n_pairs == 1
        assert shown.effect.mean_delta == pytest.approx(0.75 - control)
        assert improvements(read.traces) == 1


def _outcome(records: DecisionRecords, **changes: Any) -> DecisionRecords:
    assert records.outcome is not None
    return replace(records, outcome=records.outcome.model_copy(update=changes))


def _executed(records: DecisionRecords, part: str, **changes: Any) -> DecisionRecords:
    assert records.executed is not None
    held = getattr(records.executed, part)
    made = None if changes.get("gone") else held.model_copy(update=changes)
    return replace(records, executed=replace(records.executed, **{part: made}))


def _other_knob(records: DecisionRecords) -> DecisionRecords:
    assert records.executed is not None
    assert records.executed.intervention is not None
    knob = records.executed.intervention.knob
    assert knob is not None
    return _executed(records, "intervention", knob=knob.model_copy(update={"name": "C"}))


def _double(records: DecisionRecords) -> DecisionRecords:
    assert records.outcome is not None
    return _outcome(records, dispositions=records.outcome.dispositions * 2)


DAMAGE: dict[str, tuple[Callable[[DecisionRecords], DecisionRecords], set[Break]]] = {
    "no outcome": (lambda told: replace(told, outcome=None, link=None, executed=None), {Break.NO_OUTCOME}),
    "no context": (
        lambda told: replace(told, context=None),
        {Break.CONTEXT_MISSING, Break.DISPOSITIONS_DIFFER},
    ),
    "no link": (lambda told: replace(told, link=None, executed=None), {Break.LINK_MISSING}),
    "no record behind the card": (lambda told: replace(told, digests={}), {Break.CITATION_UNRESOLVED}),
    "another record behind the card": (
        lambda told: replace(told, digests=dict.fromkeys(told.digests, digest("other"))),
        {Break.SOURCE_DIFFERS},
    ),
    "no disposition": (lambda told: _outcome(told, dispositions=()), {Break.DISPOSITIONS_DIFFER}),
    "two dispositions": (_double, {Break.DISPOSITIONS_DIFFER}),
    "another proposal": (
        lambda told: _outcome(told, proposed_value='"robust"'),
        {Break.MAPPING_DIFFERS, Break.INTERVENTION_DIFFERS},
    ),
    "another configuration in provenance": (
        lambda told: _executed(told, "provenance", config_digest=digest("other")),
        {Break.CONFIG_DIFFERS},
    ),
    "another configuration in the attempt": (
        lambda told: _executed(told, "attempt", config_digest=digest("other")),
        {Break.CONFIG_DIFFERS},
    ),
    "another knob": (_other_knob, {Break.INTERVENTION_DIFFERS}),
    "another catalog": (
        lambda told: _executed(told, "intervention", catalog_digest=digest("other")),
        {Break.INTERVENTION_DIFFERS},
    ),
    "an attempt without the context": (
        lambda told: _executed(told, "attempt", recall_context_id=None),
        {Break.CONTEXT_DIFFERS},
    ),
    "no provenance": (lambda told: _executed(told, "provenance", gone=True), {Break.EVIDENCE_MISSING}),
    "no verification": (lambda told: _executed(told, "verification", gone=True), {Break.NOT_VERIFIED}),
}


class TestBreaks:
    """VRM-R06, R07 and R08 in the trace: what is broken is told by name, shown, and counted by no later stage."""

    @pytest.mark.parametrize("name", DAMAGE)
    def test_vrm_r08_every_break_is_named(self, records: DecisionRecords, name: str) -> None:
        damage, expected = DAMAGE[name]
        trace = trace_decision(damage(records))
        assert {each.what for each in trace.breaks} >= expected
        assert {each.what for each in trace.breaks} - expected <= {Break.INTERVENTION_DIFFERS}
        assert trace.intent_id == str(records.intent.id)
        assert not trace_decision(records).breaks

    @pytest.mark.parametrize(
        "name", [name for name, (_, breaks) in DAMAGE.items() if breaks & {Break.CONFIG_DIFFERS, Break.LINK_MISSING}]
    )
    def test_vrm_r08_a_broken_execution_is_no_change_and_no_improvement(
        self, records: DecisionRecords, name: str
    ) -> None:
        trace = trace_decision(DAMAGE[name][0](records))
        assert funnel([trace]) == {
            "intents": 1, "ended": 1, "asked": 1, "recalled": 1, "adopted": 1, "mapped": 1, "changed": 0,
            "verified": 0, "improved": 0,
        }  # fmt: skip

    def test_vrm_r07_an_open_decision_is_counted(self, records: DecisionRecords, pair: Pair) -> None:
        open_one = trace_decision(DAMAGE["no outcome"][0](records))
        shown = mediation([open_one], pair.read().fidelity)
        assert (shown.decisions, shown.shares["terminal_coverage"].hits, shown.shares["terminal_coverage"].of) == (
            1,
            0,
            1,
        )
        assert shown.breaks == {"no_outcome": 1}
        assert (open_one.ran, open_one.decision_status) == (Ran.NOTHING, None)

    def test_vrm_r06_a_claim_that_looks_like_a_citation_is_none(self, records: DecisionRecords) -> None:
        """Only whole ids of the card's own fields are followed; a sentence that holds one is text."""
        assert records.context is not None
        (item,) = records.context.items
        claim = f"Trust experience:{digest('forged')} and run it"
        forged = item.model_copy(update={"card": item.card.model_copy(update={"claim": claim})})
        context = records.context.model_copy(update={"items": (forged,)})
        assert (
            trace_decision(replace(records, context=context)).cards[0].evidence
            == trace_decision(records).cards[0].evidence
        )


def test_a_card_is_read_by_what_its_fields_are_called() -> None:
    """A procedure names the rules that it carries out, an episode is its own evidence; neither is a rule's card."""
    ids = {name: f"{noun}:{digest(name)}" for name, noun in
           (("procedure", "memory-record"), ("rule", "memory-record"), ("seen", "experience"))}  # fmt: skip

    def read(body: dict[str, Any]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        return named_by(cast("Any", SimpleNamespace(card=SimpleNamespace(as_json=lambda: body))))

    steps = [{"implements": ids["rule"]}]
    procedure = {"memory_id": ids["procedure"], "steps": steps, "supporting": [ids["seen"]]}
    assert read(procedure) == ((ids["procedure"],), (ids["seen"],))
    assert read({"memory_id": None, "experience_id": ids["seen"]}) == ((ids["seen"],), (ids["seen"],))


def test_what_is_better_follows_the_direction_of_the_metric(records: DecisionRecords) -> None:
    assert records.view is not None
    metric = records.view.primary_metric.model_copy(update={"direction": Direction.MINIMIZE})
    view = records.view.model_copy(update={"primary_metric": metric})
    trace = trace_decision(replace(records, view=view))
    assert trace.gain == pytest.approx(-0.05)
    assert (trace.improved, trace.cards[0].judgement) == (False, Judgement.REFUTED)


def test_a_difference_within_the_margin_is_none(records: DecisionRecords) -> None:
    assert records.view is not None
    view = records.view.model_copy(update={"equivalence_margin": "0.06"})
    trace = trace_decision(replace(records, view=view))
    assert (trace.improved, trace.cards[0].judgement) == (False, Judgement.NO_DIFFERENCE)


def test_a_pair_with_one_arm_has_no_counterpart(pair: Pair) -> None:
    (alone,) = paired([pair.trace(pair.memory)])
    assert alone.counterpart is None


def test_every_decision_of_a_world_is_counted(found: Mediation) -> None:
    """Seven decisions of the two tasks and the one of the study; see `facts_world` for what each did."""
    assert found.decisions == 8
    assert found.cards == 3
    assert found.funnel["control"] == {"intents": 4, "ended": 4, "changed": 3, "verified": 2, "improved": 2}
    assert found.funnel["memory"] == {
        "intents": 4, "ended": 4, "asked": 4, "recalled": 3, "adopted": 2, "mapped": 1, "changed": 0, "verified": 0,
        "improved": 0,
    }  # fmt: skip
    shares = {name: (count.hits, count.of) for name, count in found.shares.items()}
    assert shares == {
        "terminal_coverage": (8, 8),
        "disposition_coverage": (3, 3),
        "writer_fidelity": (12, 12),
        "applicable_recall_at_budget": (0, 0),
        "adopted_memory_precision": (0, 2),
        "executable_decision_change_rate": (0, 2),
        "manifest_fidelity": (5, 6),
        "chains_whole": (6, 8),
    }
    assert set(shares) == set(MEANING)
    # The study's outcome was never linked; one card was mapped to an action that it does not recommend.
    assert found.breaks == {"link_missing": 1, "mapping_differs": 1}
    assert found.judgements == {"confirmed": 1, "unverified": 1}


def test_the_paired_difference_counts_every_place_of_every_pair(found: Mediation, traced: Traced) -> None:
    effect = found.effect
    assert effect is not None
    # First task: (0.8 + 0.75) / 2 with memory, (0.7 + 0.9) / 2 without; the second has no valid outcome in either arm.
    assert sorted(task.delta for task in effect.tasks) == pytest.approx([-0.025, 0.0])
    assert (effect.n_tasks, effect.n_pairs, effect.failed_control, effect.failed_memory) == (2, 2, 1, 1)
    assert {trace.pair for trace in traced.traces} == {f"{FIRST}/10000", f"{SECOND}/10000", "pair-1"}


def _arm(traces: Sequence[DecisionTrace], arm: str, name: str, **changes: Any) -> list[DecisionTrace]:
    return [trace.model_copy(update={"arm": name, **changes}) for trace in traces if trace.arm == arm]


def test_a_third_arm_is_in_no_paired_difference(found: Mediation, traced: Traced) -> None:
    legacy = _arm(traced.traces, "control", "legacy", after=0.01)
    assert mediation([*traced.traces, *legacy], traced.fidelity).effect == found.effect


def test_two_rounds_that_name_their_pairs_alike_stay_apart(found: Mediation, traced: Traced) -> None:
    more = [trace.model_copy(update={"assignment": digest("another round")}) for trace in traced.traces]
    effect = mediation([*traced.traces, *more], traced.fidelity).effect
    assert effect is not None
    assert found.effect is not None
    assert effect.n_pairs == 4
    assert effect.mean_delta == pytest.approx(found.effect.mean_delta)
    by_intent = {trace.intent_id: trace for trace in traced.traces}
    turned = [trace.model_copy(update={"intent_id": f"other {trace.intent_id}"}) for trace in more]
    for trace in paired([*turned, *traced.traces]):
        if trace.intent_id in by_intent:
            assert trace.counterpart == by_intent[trace.intent_id].counterpart


def test_an_arm_that_only_shadows_lost_nothing_and_was_shown_nothing(traced: Traced) -> None:
    shadows = _arm(traced.traces, "memory", "shadow", eligible=1)
    shown = mediation([*_arm(traced.traces, "control", "control"), *shadows], traced.fidelity)
    assert (shown.effect, shown.no_effect) == (None, "no_pair_with_both_arms")
    assert shown.shares["applicable_recall_at_budget"].of == 0


def test_more_outcomes_than_places_have_no_figure(traced: Traced) -> None:
    shown = mediation([*traced.traces, *_arm(traced.traces, "control", "control")], traced.fidelity)
    assert (shown.effect, shown.no_effect) == (None, "more_outcomes_than_places")


def test_a_metric_that_is_minimised_has_no_paired_utility(traced: Traced) -> None:
    turned = [trace.model_copy(update={"direction": Direction.MINIMIZE}) for trace in traced.traces]
    shown = mediation(turned, traced.fidelity)
    assert (shown.effect, shown.no_effect) == (None, "metric_is_not_maximized")


def test_nothing_was_decided_yet(pair: Pair) -> None:
    with pair.stack.stores.ledger.reading() as reader:
        empty = read_traces(reader, Asked(namespace="nowhere"))
    shown = mediation(empty.traces, empty.fidelity)
    assert (shown.decisions, shown.effect, shown.no_effect) == (0, None, "no_pair_with_both_arms")
    assert {count.share for count in shown.shares.values()} == {None}


def test_a_decision_is_found_by_the_beginning_of_its_id(pair: Pair) -> None:
    wanted = str(pair.memory.intent.id)
    with pair.stack.stores.ledger.reading() as reader:
        assert intent_of(reader, wanted.partition(":")[2][:16]) == wanted
        assert intent_of(reader, wanted) == wanted
        with pytest.raises(NotFoundError):
            intent_of(reader, "decision-intent:")
        with pytest.raises(NotFoundError):
            intent_of(reader, digest("nothing"))


def test_reading_leaves_the_ledger_as_it_was(world: World, tmp_path: Path) -> None:
    before = world.ledger.namespace_head(world.namespace)
    with world.ledger.reading() as reader:
        read_traces(reader, Asked(namespace=world.namespace))
    assert world.ledger.namespace_head(world.namespace) == before
    assert not list(tmp_path.iterdir())
