"""The score of the writer: what it gives the product, and that it finds a writer that is broken in any one way."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from scipy.stats import norm
from typer.testing import CliRunner

from evaluation.simulation.material import POLICIES
from evaluation.writer import reading
from evaluation.writer.evaluate import decided, decided_together, evaluate_writer, tally_of
from evaluation.writer.groups import Group
from evaluation.writer.kinds import KINDS
from evaluation.writer.path import Writer
from evaluation.writer.reading import Outcome
from evaluation.writer.score import Count, Measure, Tally, report
from memory.distillation import drafting
from memory.distillation.policies import Policies
from memory.snapshots import evidence as snapshots
from policies.contrasts import _Builder
from policies.distillation_policy import CandidateReason
from policies.effects import Classification, EffectSummary, _classify
from policies.evidence_links import evidence_links
from policies.gate import Claim, GateReason, GateResult, family_gate
from policies.lifecycle_policy import PlannedEvent, plan_events
from policies.strength import grade_evidence
from policies.variants import Contrast
from policies.verdicts import ORDINARY, Verdict, _action, decide
from records.evidence import VerificationKind
from records.knowledge import DecisionKind, EventType, EvidenceLink, LinkRelation, MemoryRelation, RelationKind
from records.values import Direction, Disposition, EvidenceStrength, Grade
from vrm.cli.app import app

Break = Callable[[pytest.MonkeyPatch], None]


def groups_of(*kinds: str, count: int = 2) -> list[Group]:
    return [KINDS[kind].group(number, 0) for kind in kinds for number in range(count)]


def share(tally: Tally, measure: Measure) -> float:
    found = tally.over(measure).share
    assert found is not None, f"nothing was counted for {measure}"
    return found


# -- writers that are broken in one way


def ignores_duplicates(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(_Builder, "_repeats", lambda *_: False)
    patch.setattr(_Builder, "_shown", lambda _builder, _change, run: run.experience.id)


def promotes_single_runs(patch: pytest.MonkeyPatch) -> None:
    def flattering(*given: Any) -> EvidenceStrength:
        return grade_evidence(*given).model_copy(update={"grade": Grade.STRONG})

    patch.setattr("policies.distiller.grade_evidence", flattering)
    patch.setattr("policies.distiller.decide", _always_active)


def ignores_contradiction(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("policies.strength.disputed_strata", lambda *_: ())


def trusts_claimed_metrics(patch: pytest.MonkeyPatch) -> None:
    real = Contrast.delta

    def claimed(contrast: Contrast, metric: str) -> Any:
        said = {each.name: float(each.value) for each in contrast.changed.observation.claimed_metrics}
        pair = real(contrast, metric)
        return pair if pair is None or metric not in said else replace(pair, changed=said[metric])

    patch.setattr(Contrast, "delta", claimed)


def skips_the_gate(patch: pytest.MonkeyPatch) -> None:
    def open_gate(*given: Any) -> dict[Any, GateResult]:
        return {
            key: replace(found, passed=True, reasons=(GateReason.PASSED,)) for key, found in family_gate(*given).items()
        }

    patch.setattr("policies.distiller.family_gate", open_gate)

    def without_interval(policy: Any, summary: Any, *given: Any) -> Any:
        shown = Classification.IMPROVES if summary.mean > 0 else Classification.HARMS
        return decide(policy, replace(summary, classification=shown), *given)

    patch.setattr("policies.distiller.decide", without_interval)


def ignores_the_direction(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(EffectSummary, "improves", lambda _summary, value: value > 0)
    up = Direction.MAXIMIZE
    patch.setattr("policies.effects._classify", lambda interval, _direction, margin: _classify(interval, up, margin))


def ignores_guardrails(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("policies.distiller.guardrail_effects", lambda *_: ())


def retracts_what_it_should_supersede(patch: pytest.MonkeyPatch) -> None:
    def planned(*given: Any) -> tuple[PlannedEvent, ...]:
        return tuple(
            replace(each, event_type=EventType.RETRACTED, resulting_disposition=Disposition.RETRACTED)
            if each.event_type is EventType.SUPERSEDED
            else each
            for each in plan_events(*given)
        )

    patch.setattr(drafting, "plan_events", planned)


def cites_other_observations(patch: pytest.MonkeyPatch) -> None:
    def shifted(*given: Any) -> tuple[EvidenceLink, ...]:
        links = evidence_links(*given)
        others = [*links[1:], *links[:1]]
        pairs = zip(links, others, strict=True)
        return tuple(link.model_copy(update={"observation_id": other.observation_id}) for link, other in pairs)

    patch.setattr("policies.distiller.evidence_links", shifted)


def reads_what_is_bound_to_an_arm(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(snapshots, "_held_back", lambda *_: None)


def is_afraid_of_everything(patch: pytest.MonkeyPatch) -> None:
    def deferred(*given: Any) -> Any:
        return replace(decide(*given), decision=DecisionKind.DEFERRED, action=None)

    patch.setattr("policies.distiller.decide", deferred)


def _always_active(_policy: Any, summary: Any, gate: GateResult, *_more: Any) -> Any:
    if summary is None or gate.claim is Claim.NOTHING:
        return Verdict(
            decision=DecisionKind.DEFERRED,
            reason_codes=(CandidateReason.INSUFFICIENT_INDEPENDENT_SUPPORT,),
            action=None,
            findings=(),
        )
    return Verdict(
        decision=DecisionKind.PROMOTED_ACTIVE,
        reason_codes=(CandidateReason.ELIGIBLE_ACTIVE,),
        action=_action(gate.claim, ORDINARY),
        findings=(),
    )


BROKEN: dict[str, tuple[Break, Measure, tuple[str, ...]]] = {
    "duplicates": (ignores_duplicates, Measure.SUPPORT, ("few_copied", "copied")),
    "single runs": (promotes_single_runs, Measure.PRECISION, ("lucky", "promote")),
    "contradiction": (ignores_contradiction, Measure.PRECISION, ("contest", "promote")),
    "contested": (ignores_contradiction, Measure.ENDS, ("contradiction",)),
    "claimed metrics": (trusts_claimed_metrics, Measure.PRECISION, ("null", "promote")),
    "gate": (skips_the_gate, Measure.PRECISION, ("many_tries", "promote")),
    "direction": (ignores_the_direction, Measure.PRECISION, ("avoid", "minimise")),
    "guardrails": (ignores_guardrails, Measure.PRECISION, ("guardrail_breach", "promote")),
    "missing guardrails": (ignores_guardrails, Measure.ENDS, ("guardrail_missing",)),
    "supersession": (retracts_what_it_should_supersede, Measure.TRANSITIONS, ("supersede",)),
    "links": (cites_other_observations, Measure.FIDELITY, ("promote",)),
    "arms": (reads_what_is_bound_to_an_arm, Measure.PRECISION, ("only_arm_bound", "promote")),
    "fear": (is_afraid_of_everything, Measure.RECALL, ("promote",)),
}


class TestBrokenWriters:
    """Each breaks its own figure, on groups that the product decides rightly."""

    @pytest.mark.parametrize("name", list(BROKEN))
    def test_it_is_found(self, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        breaks, measure, kinds = BROKEN[name]
        count = 4 if kinds == ("avoid", "minimise") else 2
        chosen = [group for group in groups_of(*kinds, count=count) if count == 2 or group.number == 3]
        before = share(tally_of(chosen), measure)
        breaks(monkeypatch)
        after = tally_of(chosen)
        assert before == 1
        assert share(after, measure) < 1

    def test_one_that_admits_what_was_only_attested_promotes_critically(self) -> None:
        """VRM-W03: what nobody verified independently stands behind no rule."""
        policy = POLICIES.distillation.model_copy(update={"active_verifications": tuple(VerificationKind)})
        chosen = groups_of("only_attested")
        assert share(tally_of(chosen), Measure.CRITICAL) == 0
        lax = Policies(distillation=policy, lifecycle=POLICIES.lifecycle)
        assert share(tally_of(chosen, lax), Measure.CRITICAL) > 0

    def test_one_that_promotes_nothing_has_no_precision_to_show(self, monkeypatch: pytest.MonkeyPatch) -> None:
        is_afraid_of_everything(monkeypatch)
        found = report(tally_of(groups_of("promote", count=1)))
        assert (found["precision"]["value"], found["recall"]["value"], found["status"]) == (0, 0, "fail")


@cache
def small_version() -> dict[str, Any]:
    return evaluate_writer(2, 120, lambda *_: None)


class TestTheProduct:
    """Two whole corpora."""

    @pytest.mark.parametrize(
        "name",
        [
            "precision",
            "recall",
            "worst_stratum",
            "support_count_invariance",
            "lifecycle_transitions",
            "source_fidelity",
        ],
    )
    def test_a_threshold_is_reached(self, name: str) -> None:
        found = small_version()[name]
        assert found["passed"], found
        assert found["denominator"] > 0

    def test_nothing_critical_is_promoted(self) -> None:
        """Private, unverified, unproved or forbidden evidence is behind no rule that was ever active: zero, not few."""
        found = small_version()["critical_false_promotions"]
        assert found["numerator"] == 0, small_version()["wrong"]
        assert found["denominator"] > 0

    def test_the_corpus_is_large_enough(self) -> None:
        assert not small_version()["missing"]

    def test_it_says_under_which_policies(self) -> None:
        told = small_version()["policies"]
        assert told["policy_set_digest"] == POLICIES.digest
        assert told["distillation"]["digest"] == POLICIES.distillation.identity.digest

    def test_vrm_w06_support_is_that_of_one_import(self) -> None:
        found = small_version()["support_count_invariance"]
        assert found["numerator"] == found["denominator"] == 40


class TestThePath:
    def shape(self, outcome: Outcome) -> list[tuple[Any, ...]]:
        """Return the claims without what a journal position enters: the snapshot, and ids that rest on it."""
        claims = {str(each.candidate.proposed_scope_variant_id): each for each in outcome.claims}
        return [
            (variant, each.decision.reasons, each.rule and each.rule.id, each.events, each.support)
            for variant, each in sorted(claims.items())
        ]

    def test_vrm_w09_items_that_lead_decide_what_all_items_would(self) -> None:
        """Enqueueing every Experience gives the same Decisions, rules and events."""
        chosen = groups_of("split", "contest", "copied_later", "unpaired", "retract", count=1)
        for group in chosen:
            (whole,) = decided_together([group], whole=True)
            assert self.shape(whole) == self.shape(decided(group))

    def test_groups_in_one_ledger_do_not_touch_each_other(self) -> None:
        chosen = groups_of("promote", "null", "contest", "only_attested", "supersede", count=1)
        for group, found in zip(chosen, decided_together(chosen), strict=True):
            alone = decided(group)
            assert [claim.rule and claim.rule.id for claim in found.claims] == [
                claim.rule and claim.rule.id for claim in alone.claims
            ]
            assert [claim.support for claim in found.claims] == [claim.support for claim in alone.claims]

    def test_vrm_w07_a_contested_rule_keeps_both_sides(self) -> None:
        (group,) = groups_of("contest", count=1)
        writer = Writer(POLICIES)
        writer.write([group])
        (outcome,) = reading.read_outcomes(writer, [group])
        wide = next(claim for claim in outcome.claims if claim.candidate.scope.evaluation_task_id is None)
        assert wide.rule is not None
        assert {link.relation for link in wide.rule.links} >= {LinkRelation.SUPPORTS, LinkRelation.CONTRADICTS}
        relations = [stored.load() for stored in writer.ledger.find("memory-relation", "writer")]
        kinds = {each.relation for each in relations if isinstance(each, MemoryRelation)}
        assert kinds == {RelationKind.SUPERSEDES, RelationKind.CONTESTS}

    def test_vrm_w05_an_active_rule_names_a_decision_point_and_an_action(self) -> None:
        for group in groups_of("promote", "avoid", count=1):
            (rule,) = decided(group).true_rules
            (gold,) = group.gold
            assert (rule.target.decision_point.value, rule.action) == ("intervention", gold.action)

    def test_vrm_w08_the_same_evidence_is_decided_the_same(self) -> None:
        (group,) = groups_of("split", count=1)
        assert self.shape(decided(group)) == self.shape(decided(group))

    def test_vrm_w01_writing_leaves_evidence_as_it_was(self) -> None:
        (group,) = groups_of("supersede", count=1)
        writer = Writer(POLICIES)
        writer.write([replace(group, rounds=group.rounds[:1])])
        before = dict(writer.ledger.content.records)
        writer.write([replace(group, rounds=((), *group.rounds[1:]))])
        assert before.items() <= writer.ledger.content.records.items()

    @pytest.mark.parametrize(
        ("standing", "decision", "events"),
        [
            (None, "promoted_active", ["promoted_active"]),
            (None, "deferred", []),
            ("provisional", "promoted_active", ["activated"]),
            ("provisional", "deferred", ["retracted"]),
            ("active", "promoted_contested", ["superseded", "promoted_contested"]),
            ("active", "rejected", ["retracted"]),
            ("contested", "promoted_active", ["superseded", "promoted_active"]),
            ("contested", "deferred", []),
            ("retracted", "promoted_active", ["promoted_active"]),
        ],
    )
    def test_the_diagram_as_it_is_scored(self, standing: str | None, decision: str, events: Sequence[str]) -> None:
        """The arrows of spec 10, written out."""
        found = reading.due(None if standing is None else Disposition(standing), DecisionKind(decision))
        assert [event.value for event in found] == list(events)


class TestFigures:
    @pytest.mark.parametrize(("hits", "of"), [(0, 20), (19, 20), (120, 120), (81, 263)])
    def test_an_interval_is_that_of_wilson(self, hits: int, of: int) -> None:
        """Wilson 1927, from the formula."""
        z = norm.ppf(0.975)
        centre = (hits + z * z / 2) / (of + z * z)
        half = z / (of + z * z) * (hits * (of - hits) / of + z * z / 4) ** 0.5
        found = Count(hits, of).as_json()
        assert (found["low"], found["high"]) == pytest.approx((centre - half, centre + half), abs=1e-5)
        assert (found["numerator"], found["denominator"]) == (hits, of)

    def test_macro_weighs_strata_the_same(self) -> None:
        tally = Tally()
        for kind, hits, of in (("promote", 90, 100), ("one_seed", 1, 2)):
            tally.kinds[kind][Measure.PRECISION].add(hits, of)
            tally.kinds[kind][Measure.RECALL].add(hits, of)
        found = report(tally)["precision"]
        assert found["value"] == pytest.approx(91 / 102, abs=1e-6)
        assert found["macro"] == pytest.approx(0.7)
        assert not found["passed"]


class TestCommand:
    def run(self, *arguments: str) -> Any:
        return CliRunner().invoke(app, ["evaluate", "writer", *arguments])

    def test_a_small_corpus_is_no_pass(self, tmp_path: Path) -> None:
        drawn = tmp_path / "strata.svg"
        answer = self.run("--seeds", "1", "--groups", "4", "--processes", "1", "--json", "--plot", str(drawn))
        told = json.loads(answer.output.splitlines()[-1])
        assert answer.exit_code == 1
        assert (told["status"], told["reason"]) == ("fail", "insufficient_coverage")
        assert "4 of 120 groups" in told["missing"]
        assert drawn.read_text().lstrip().startswith("<?xml")

    def test_people_get_tables(self) -> None:
        answer = self.run("--seeds", "1", "--groups", "2", "--processes", "1")
        assert answer.exit_code == 1
        assert all(word in answer.output for word in ("Strata", "Kinds", "precision", "insufficient_coverage"))

    def test_one_group_is_told_with_what_was_planted_and_decided(self) -> None:
        answer = self.run("--show", "too_little")
        assert answer.exit_code == 0
        for part in ("nothing must become active", "promoted_provisional", "eligible_provisional"):
            assert part in answer.output

    @pytest.mark.parametrize(
        "arguments", [("--show", "nothing"), ("--seeds", "0"), ("--plot", "/nowhere/strata.svg"), ("--groups", "-1")]
    )
    def test_what_cannot_be_done_is_an_error(self, arguments: tuple[str, ...]) -> None:
        answer = self.run("--json", *arguments)
        assert answer.exit_code == 2
        assert json.loads(answer.output)["remedy"]
