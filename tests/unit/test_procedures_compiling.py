"""Compilation of procedures: what a trajectory is, when several make a procedure, and what it says (spec 8.4)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from policies.distillation_policy import CandidateReason, distillation_policy
from policies.procedures.judging import ProcedureVerdict, compile_procedure, judge_procedures
from policies.procedures.policy import ProcedureReason, procedure_policy
from policies.procedures.trajectories import Trajectory, read_trajectories
from records.errors import InvalidRecordError
from records.evidence import VerifiedEvidenceBundle
from records.knowledge import DecisionKind, LinkRelation
from records.procedures import Comparison
from records.values import DecisionPoint, Knob
from tests.support.procedure_samples import CATALOG, CHANGES, GOOD, Scores, again, bundles, chain, chains
from tests.support.trials import make_contract

POLICY, PROCEDURES = distillation_policy(), procedure_policy()


def trajectories(trials: Any) -> tuple[Trajectory, ...]:
    return read_trajectories(bundles(list(trials)), POLICY).trajectories


def verdicts(evidence: Sequence[VerifiedEvidenceBundle]) -> list[ProcedureVerdict]:
    return list(judge_procedures(read_trajectories(evidence, POLICY), POLICY, PROCEDURES).verdicts.values())


def verdict(scores: Scores, **fields: Any) -> ProcedureVerdict:
    (found,) = verdicts(bundles(chains(scores, **fields)))
    return found


class TestTrajectory:
    def test_runs_that_chain_are_one(self) -> None:
        (found,) = trajectories(chain("a", (0.5, 0.6, 0.7)))
        assert [run.attempt.iteration for run in found.runs] == [0, 1, 2]
        assert [knob.name for knob in found.route.changes] == ["scaler", "class_weight"]
        assert found.total() == pytest.approx(0.2)
        assert found.gains("balanced_accuracy", found.contract.primary_metric.direction) == pytest.approx((0.1, 0.1))

    def test_a_sweep_from_one_baseline_goes_no_further_than_its_first_change(self) -> None:
        first, second = (chain("a", (0.5, 0.6), changes=(change,)) for change in CHANGES)
        (found,) = trajectories([*first, replace(second[1], iteration=2)])
        assert [knob.name for knob in found.route.changes] == ["scaler"]

    def test_it_begins_at_a_baseline_and_has_no_gap(self) -> None:
        runs = chain("a", (0.5, 0.6, 0.7))
        assert not trajectories(runs[1:])
        assert not trajectories([runs[0], runs[2]])
        assert not trajectories([runs[0], replace(runs[1], iteration=2)])

    def test_what_was_not_verified_valid_ends_it(self) -> None:
        runs = chain("a", (0.5, 0.6, 0.7))
        failed = replace(runs[1], verified={}, violations=("timeout",))
        assert not trajectories([runs[0], failed, runs[2]])
        table = read_trajectories(bundles([runs[0], failed, runs[2]]), POLICY)
        assert set(table.refused.values()) == {ProcedureReason.NOT_A_CHAIN}

    def test_text_alone_is_none(self) -> None:
        table = read_trajectories(bundles(chain("a", (0.5,))), POLICY)
        assert set(table.refused.values()) == {ProcedureReason.PROSE_ONLY}

    @pytest.mark.parametrize("field", ["source_digest", "environment_digest", "model_family", "budget_class"])
    def test_nothing_else_may_change_along_it(self, field: str) -> None:
        runs = chain("a", (0.5, 0.6, 0.7))
        changed: Any = {field: "f" * 64}
        (found,) = trajectories([*runs[:2], replace(runs[2], **changed)])
        assert len(found.runs) == 2


class TestVerdict:
    def test_the_effect_is_end_against_start_over_roots(self) -> None:
        found = verdict(GOOD)
        gains = [scores[-1] - scores[0] for scores in GOOD.values()]
        low, high = stats.t.interval(0.95, 2, loc=sum(gains) / 3, scale=stats.sem(gains))
        assert found.summary.mean_interval is not None
        assert found.summary.n_units == len(GOOD)
        assert [found.summary.mean, found.summary.mean_interval.low, found.summary.mean_interval.high] == pytest.approx(
            [0.2, low, high]
        )
        assert found.summary.p_value == pytest.approx(stats.ttest_1samp(gains, 0).pvalue)
        assert found.verdict.decision is DecisionKind.PROMOTED_ACTIVE
        assert (found.strength.support_count, found.strength.counter_count) == (3, 0)

    def test_one_trajectory_alone_never_compiles(self) -> None:
        found = verdict({"a": GOOD["a"]})
        assert found.verdict.decision is DecisionKind.DEFERRED
        assert ProcedureReason.TOO_FEW_UNITS in found.reasons

    def test_seeds_of_one_root_are_one_unit(self) -> None:
        trials = [trial for seed in range(5) for trial in chain("a", (0.5, 0.6, 0.7 + seed / 1000), seed=seed)]
        (found,) = verdicts(bundles(trials))
        assert (found.summary.n_units, found.summary.n_pairs) == (1, 5)
        assert not found.promoted

    def test_a_root_inside_the_margin_is_no_support(self) -> None:
        found = verdict({"a": GOOD["a"], "b": (0.5, 0.501, 0.503)})
        assert ProcedureReason.TOO_FEW_UNITS in found.reasons
        assert not found.promoted

    def test_what_does_harm_is_no_workflow(self) -> None:
        found = verdict({root: tuple(reversed(scores)) for root, scores in GOOD.items()})
        assert found.verdict.decision is DecisionKind.REJECTED
        assert found.reasons == (ProcedureReason.TOO_FEW_UNITS, ProcedureReason.NO_GAIN)
        assert found.verdict.reason_codes == (CandidateReason.GENERIC_OR_NON_ACTIONABLE,)

    def test_two_roots_are_provisional_as_for_rules(self) -> None:
        assert verdict({"a": GOOD["a"], "b": GOOD["b"]}).verdict.decision is DecisionKind.PROMOTED_PROVISIONAL

    def test_another_order_is_another_procedure(self) -> None:
        one, other = verdict(GOOD), verdict(GOOD, changes=CHANGES[::-1])
        assert one.family_id != other.family_id
        assert one.scope_variant_id != other.scope_variant_id


THIRD = (*CHANGES, ("C", 10))
LONGER: Scores = {root: (*scores, scores[-1] + 0.04) for root, scores in GOOD.items()}
"""The same runs, which went on to a third change."""


def by_length(trials: Any) -> dict[int, ProcedureVerdict]:
    return {len(each.procedure.steps): each for each in verdicts(bundles(list(trials)))}


class TestBeginnings:
    @pytest.mark.parametrize("went_on", ["c", "bc", "abc"])
    def test_runs_that_went_on_still_count_for_the_shorter_procedure(self, went_on: str) -> None:
        """Nothing is taken away from what they had shown by then: same units, same effect, same links."""
        mixed = {root: LONGER[root] if root in went_on else scores for root, scores in GOOD.items()}
        stopped, found = verdict(GOOD), by_length(chains(mixed, changes=THIRD))
        assert found.keys() == {2, 3}
        assert (found[2].links, found[2].summary, found[2].verdict) == (
            stopped.links,
            stopped.summary,
            stopped.verdict,
        )
        assert found[2].scope_variant_id == stopped.scope_variant_id
        assert found[3].summary.n_units == len(went_on)

    def test_a_beginning_is_no_further_evidence_of_the_whole(self) -> None:
        """Each run after a change is linked once, as if no shorter procedure were looked for."""
        whole = by_length(chains(LONGER, changes=THIRD))[3]
        assert len(whole.links) == len({link.experience_id for link in whole.links}) == 3 * len(GOOD)
        assert whole.strength.support_count == len(GOOD)

    def test_vrm_w06_what_ended_there_and_what_went_on_with_the_same_results_is_one(self) -> None:
        ended, went_on = chains(GOOD), list(again(chains(LONGER, changes=THIRD), "import"))
        for order in ([*ended, *went_on], [*went_on, *ended]):
            assert by_length(order)[2].summary == verdict(GOOD).summary
            table = read_trajectories(bundles(order), POLICY)
            assert not table.duplicates, "what ended there is kept, and the longer chain is no repetition"


class TestRefused:
    def test_nothing(self) -> None:
        assert compile_procedure((), POLICY, PROCEDURES) is ProcedureReason.NO_TRAJECTORY

    @pytest.mark.parametrize(
        "fields",
        [
            {"changes": CHANGES[::-1]}, {"source_digest": "1" * 64}, {"model_family": "tree"},
            {"budget_class": "ten-fits"}, {"contract": make_contract(domain="tabular-classification", version="2")},
        ],
    )  # fmt: skip
    def test_what_is_not_comparable(self, fields: dict[str, Any]) -> None:
        found = [*trajectories(chain("a", GOOD["a"])), *trajectories(chain("b", GOOD["b"], **fields))]
        assert compile_procedure(found, POLICY, PROCEDURES) is ProcedureReason.NOT_COMPARABLE

    def test_a_tool_that_nobody_allowlisted(self) -> None:
        runs = chains(GOOD, contract=make_contract(domain="elsewhere"))
        assert compile_procedure(trajectories(runs), POLICY, PROCEDURES) is ProcedureReason.UNKNOWN_TOOL

    def test_ideation(self) -> None:
        found = [
            replace(each, route=replace(each.route, decision_point=DecisionPoint.IDEATION))
            for each in trajectories(chains(GOOD))
        ]
        assert compile_procedure(found, POLICY, PROCEDURES) is ProcedureReason.IDEATION

    def test_no_policy_file_offers_one_for_ideation(self) -> None:
        body = PROCEDURES.as_json()
        body["triggers"][0]["procedure"] = "ideation"
        with pytest.raises(InvalidRecordError, match="experiment_design and diagnosis only"):
            type(PROCEDURES).load(json.dumps(body))

    def test_a_refused_route_makes_no_candidate(self) -> None:
        runs = bundles(chains(GOOD, contract=make_contract(domain="elsewhere")))
        table = judge_procedures(read_trajectories(runs, POLICY), POLICY, PROCEDURES)
        assert not table.verdicts
        assert set(table.refused.values()) == {ProcedureReason.UNKNOWN_TOOL}


class TestProcedure:
    def test_steps_are_the_changes_at_the_version_that_was_seen(self) -> None:
        found = verdict(GOOD).procedure
        tool = PROCEDURES.tool("tabular-classification")
        assert tool is not None
        (source,) = {bundle.attempt.source_digest for bundle in bundles(chains(GOOD))}
        assert [step.action.version for step in found.steps] == [source, source]
        assert {step.action.tool for step in found.steps} == {tool.tool}
        assert [[each.value.value for each in step.action.parameters] for step in found.steps] == [
            ['"none"', '"scaler"', '"standard"'],
            ['"none"', '"class_weight"', '"balanced"'],
        ]
        assert found.trigger.decision_point is DecisionPoint.EXPERIMENT_DESIGN

    def test_it_starts_only_where_it_was_seen_to_start(self) -> None:
        found = {check.observable: check.expected.value for check in verdict(GOOD).procedure.preconditions}
        assert found["config_digest"] == f'"{CATALOG.config_digest(CATALOG.baseline)}"'
        assert found["catalog_digest"] == f'"{CATALOG.digest}"'
        assert found.keys() >= {"task_scope_id", "budget_class", "contract_digest", "model_family"}

    def test_success_is_beyond_the_margin_of_the_contract(self) -> None:
        (check,) = verdict(GOOD).procedure.success_checks
        assert (check.observable, check.comparison) == ("gain_over_start.balanced_accuracy", Comparison.ABOVE)
        assert (float(check.expected.value), check.after_step) == (0.005, "step-2:class_weight")

    def test_a_step_may_lose_what_it_lost_where_the_whole_was_a_success(self) -> None:
        checks = verdict(GOOD | {"d": (0.5, 0.45, 0.7)}).procedure.early_stop_checks
        assert [float(check.expected.value) for check in checks] == [pytest.approx(-0.05), -0.005]

    def test_failures_and_counterexamples_are_cited(self) -> None:
        bad, begun = chain("d", (0.9, 0.8, 0.85)), chain("e", (0.9, 0.7), run="begun")
        (found,) = verdicts(bundles([*chains(GOOD), *bad, *begun]))
        experiences = [each.experience.id for each in bundles([*bad, *begun])]
        (mode,) = found.procedure.failure_modes
        (counter,) = found.procedure.counterexamples
        assert mode.code == "harm-by-step-1:scaler"
        assert set(mode.experience_ids) == {experiences[1], experiences[4]}
        assert counter.experience_id == experiences[2]
        linked = {link.experience_id: link.relation for link in found.links}
        assert linked.keys() >= found.procedure.experience_ids
        assert linked[counter.experience_id] is LinkRelation.CONTRADICTS
        assert found.summary.n_units == 4, "a trajectory that was only begun is no unit"

    def test_every_run_after_a_change_is_linked_to_its_start(self) -> None:
        found, evidence = verdict(GOOD), bundles(chains(GOOD))
        starts = {each.experience.id for each in evidence[::3]}
        assert {link.comparator_id for link in found.links} == starts
        assert {link.experience_id for link in found.links} == {each.experience.id for each in evidence} - starts
        assert len({link.support_unit_id for link in found.links}) == 3

    def test_cost_and_citations_are_observed(self) -> None:
        trials = [replace(each, times=(each.times[0], "2025-03-01T12:00:02.500000Z", each.times[2]))
                  for each in chains(GOOD)]  # fmt: skip
        (found,) = verdicts(bundles(trials))
        runs, seconds = found.procedure.cost.bounds
        assert (runs.resource, runs.expected, runs.limit) == ("experiments", "3", "3")
        assert (float(seconds.expected), float(seconds.limit)) == (7.5, 15)
        cited = {ref.sha256 for ref in found.procedure.artifacts}
        wanted = [each.observation.artifacts[0].sha256 for each in bundles(trials)]
        assert cited == {sha for place, sha in enumerate(wanted) if place % 3 != 1}


def _said(evidence: Sequence[VerifiedEvidenceBundle]) -> list[tuple[Any, ...]]:
    return [
        (each.scope_variant_id, each.procedure, each.links, each.summary, each.verdict) for each in verdicts(evidence)
    ]


SCORES = st.dictionaries(
    st.sampled_from("abcdefg"), st.tuples(*[st.integers(0, 100).map(lambda n: n / 100)] * 3), min_size=1, max_size=5
)


@settings(max_examples=40)
@given(SCORES, st.randoms(use_true_random=False), st.integers(1, 2))
def test_order_duplicates_and_repeated_import_change_nothing(scores: Scores, order: Random, times: int) -> None:
    trials = chains(scores)
    plain = _said(bundles(trials))
    later = [replace(each, times=(*each.times[:2], "2025-03-02T12:00:00.000000Z")) for each in trials]
    repeated = [each for place in range(times) for each in again(later, f"import-{place}")]
    mixed = bundles([*trials, *repeated, *trials])
    order.shuffle(mixed)
    assert _said(mixed) == plain


@given(SCORES)
def test_what_is_promoted_rests_on_two_roots_beyond_the_margin(scores: Scores) -> None:
    for found in verdicts(bundles(chains(scores))):
        beyond = sum(round(values[-1] - values[0], 6) > 0.005 for values in scores.values())
        assert not found.promoted or beyond >= PROCEDURES.support_units
        assert found.promoted == (found.verdict.decision.value.startswith("promoted"))


def test_a_step_that_the_catalog_does_not_register_ends_the_chain() -> None:
    """What a rule may not be drafted from, a procedure may not either (spec 11)."""
    sound = bundles(chains(GOOD))
    assert verdicts(sound)
    knob = Knob(name="gamma", from_value='"scale"', to_value='"auto"')  # fixed in the catalog
    forbidden = [
        run.model_copy(update={"intervention": run.intervention.model_copy(update={"knob": knob})})
        if run.intervention.knob is not None
        else run
        for run in sound
    ]
    assert not verdicts(forbidden)
