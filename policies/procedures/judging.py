"""From trajectories to verdicts about procedures: another verdict of the distiller, made as those about rules are.

Pure. Rules kept here (spec 8.4; docs/adr/0032):

- whoever took all steps of a procedure and went on is evidence of it as much as who stopped there;
- the effect of a procedure is its end against its start, over dataset roots; interval, gate, grade and decision are
  those of the Distillation Policy. The procedures of one task scope, contract and catalog are one family of the gate;
- a sequence that harms a guardrail of the contract is not promoted, as a rule would not be;
- besides, so many roots as the Procedure Policy says must have gained more than the contract's margin, and so must the
  mean; a sequence that does harm is no workflow, and the rules about its changes say so;
- what cannot be typed at all is refused with its reason and makes no candidate: no trajectory, trajectories that are
  not comparable, a tool that nobody allowlisted, a decision point at which no procedure is offered.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from policies.distillation_policy import CandidateReason, DistillationPolicy
from policies.effects import EffectSummary, EffectUnit, effect_units, summarise_effect
from policies.estimates import Estimate, GuardrailEffect
from policies.gate import Claim, GateResult, family_gate
from policies.procedures.drafting import Group, begun_by, draft, is_typed, mechanism_of
from policies.procedures.policy import ProcedurePolicy, ProcedureReason
from policies.procedures.trajectories import Route, Trajectory, TrajectoryTable
from policies.strength import grade_evidence
from policies.verdicts import Circumstances, Verdict, decide
from records.ids import (
    ExperienceId,
    FamilyId,
    InterventionId,
    ObservationId,
    ProvenanceId,
    ScopeVariantId,
    VerificationId,
)
from records.knowledge import DecisionKind, EvidenceLink, Finding, LinkRelation, variant_under
from records.procedures import Procedure, procedure_family_id
from records.values import EvidenceStrength, MemoryScope, MetricSpec

_PROMOTED = frozenset(
    {DecisionKind.PROMOTED_PROVISIONAL, DecisionKind.PROMOTED_ACTIVE, DecisionKind.PROMOTED_CONTESTED}
)


@dataclass(frozen=True, kw_only=True)
class ProcedureVerdict:
    """Everything that was decided about one procedure; what a candidate and its record are made of.

    Attributes:
        closing_ids: the Experiences that close its trajectories.
        experience_ids: every Experience of them, starts and beginnings included.
        reasons: why it is not promoted, where the Procedure Policy says so.
    """

    scope_variant_id: ScopeVariantId
    family_id: FamilyId
    scope: MemoryScope
    scope_description: str
    mechanism: str
    procedure: Procedure
    summary: EffectSummary
    gate: GateResult
    guardrails: tuple[GuardrailEffect, ...]
    strength: EvidenceStrength
    verdict: Verdict
    reasons: tuple[ProcedureReason, ...]
    links: tuple[EvidenceLink, ...]
    closing_ids: frozenset[ExperienceId]
    experience_ids: tuple[ExperienceId, ...]

    @property
    def refines(self) -> ScopeVariantId | None:
        """None: a procedure splits no other."""
        return None

    @property
    def promoted(self) -> bool:
        """Whether a record comes of it."""
        return self.verdict.decision in _PROMOTED

    @property
    def claim(self) -> str:
        """What it did, in one sentence; nothing is decided on it."""
        metric = self.procedure.trigger.metric
        return (
            f"{len(self.procedure.steps)} steps change {metric.name} by {self.summary.mean:+.4f} {metric.unit} from "
            f"start to end, on average over {self.summary.n_units} independent dataset roots."
        )

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The structured findings of validation: reason codes first, then what gate and policy held against it."""
        codes = [code.value for code in self.verdict.reason_codes]
        codes += [reason.value for reason in (*self.verdict.findings, *self.reasons)]
        found = [Finding(code=code, detail=self.claim) for code in codes]
        return (*found, *(guard.finding for guard in self.guardrails))


@dataclass(frozen=True)
class ProcedureTable:
    """The verdicts of a snapshot by scope variant, and why trajectories make no candidate, by their closing run."""

    verdicts: Mapping[ScopeVariantId, ProcedureVerdict]
    refused: Mapping[ExperienceId, ProcedureReason]

    def of(self, experience_id: ExperienceId) -> ScopeVariantId | None:
        """Return the variant of the procedure that an Experience is evidence of: first of one that it closes."""
        return self._of.get(experience_id)

    @cached_property
    def _of(self) -> dict[ExperienceId, ScopeVariantId]:
        found: dict[ExperienceId, ScopeVariantId] = {}
        for key, verdict in self.verdicts.items():
            found |= dict.fromkeys(verdict.closing_ids, key)
            found = dict.fromkeys(verdict.experience_ids, key) | found
        return found


@dataclass(frozen=True)
class _Judged:
    group: Group
    units: tuple[EffectUnit, ...]
    summary: EffectSummary
    guardrails: tuple[GuardrailEffect, ...]


def judge_procedures(table: TrajectoryTable, policy: DistillationPolicy, procedures: ProcedurePolicy) -> ProcedureTable:
    """Judge every route of a table that is long enough to be a procedure."""
    refused: dict[ExperienceId, ProcedureReason] = {}
    families: dict[tuple[str, str, str], list[_Judged]] = defaultdict(list)
    for route, whole in _routes((*table.trajectories, *table.beginnings)).items():
        if not procedures.min_steps <= len(route.changes) <= procedures.max_steps:
            continue
        reason = refusal(whole, procedures)
        if reason is None:
            group = Group(whole, begun_by(table.trajectories, route))
            families[route.task_scope_id, route.contract_digest, route.catalog_digest].append(_estimate(group, policy))
        else:
            refused |= {each.closing_id: reason for each in whole}
    verdicts = (_verdict(one, gate, policy, procedures) for one, gate in _gated(families.values(), policy))
    return ProcedureTable({each.scope_variant_id: each for each in sorted(verdicts, key=_key)}, refused)


def compile_procedure(
    trajectories: Sequence[Trajectory], policy: DistillationPolicy, procedures: ProcedurePolicy
) -> ProcedureVerdict | ProcedureReason:
    """Judge these trajectories alone as one procedure, or say why they describe none.

    A verdict that is not promoted has a reason as well: too few units, or no gain.
    """
    reason = refusal(trajectories, procedures)
    if reason is not None:
        return reason
    one = _estimate(Group(tuple(trajectories), ()), policy)
    ((judged, gate),) = _gated([[one]], policy)
    return _verdict(judged, gate, policy, procedures)


def refusal(trajectories: Sequence[Trajectory], procedures: ProcedurePolicy) -> ProcedureReason | None:
    """Return why trajectories cannot be typed as one procedure, whatever their results."""
    routes = {each.route for each in trajectories}
    if not routes:
        return ProcedureReason.NO_TRAJECTORY
    route = next(iter(routes))
    if len(routes) > 1:
        return ProcedureReason.NOT_COMPARABLE
    if procedures.trigger(route.decision_point) is None:
        return ProcedureReason.IDEATION
    if procedures.tool(route.domain) is None:
        return ProcedureReason.UNKNOWN_TOOL
    return None if all(is_typed(knob) for knob in route.changes) else ProcedureReason.PROSE_ONLY


def _routes(trajectories: Iterable[Trajectory]) -> dict[Route, tuple[Trajectory, ...]]:
    found: dict[Route, list[Trajectory]] = defaultdict(list)
    for each in trajectories:
        found[each.route].append(each)
    return {route: tuple(whole) for route, whole in found.items()}


def _estimate(group: Group, policy: DistillationPolicy) -> _Judged:
    metric = group.contract.primary_metric
    found = _effect(group, metric, group.margin, policy)
    if found is None:
        raise ValueError("every run of a trajectory has the primary metric verified")
    return _Judged(group, found.units, found.summary, _guardrails(group, policy))


def _effect(group: Group, metric: MetricSpec, margin: float, policy: DistillationPolicy) -> Estimate | None:
    """Return what a metric did from start to end, or None where it was not verified along a whole trajectory."""
    units = effect_units(pair for each in group.whole if (pair := each.delta(metric.name)) is not None)
    if not units:
        return None
    return Estimate(units=units, summary=summarise_effect(units, metric.direction, policy.effect, margin))


def _guardrails(group: Group, policy: DistillationPolicy) -> tuple[GuardrailEffect, ...]:
    """Return what the whole sequence did to the guardrails of the contract, where a policy judges them."""
    if policy.comparison is None:
        return ()
    margin = policy.comparison.guardrail_margin
    metrics = group.contract.guardrail_metrics
    return tuple(GuardrailEffect(metric=each, estimate=_effect(group, each, margin, policy)) for each in metrics)


def _gated(families: Iterable[list[_Judged]], policy: DistillationPolicy) -> Iterable[tuple[_Judged, GateResult]]:
    for family in families:
        gates = family_gate({place: one.summary for place, one in enumerate(family)}, policy.gate)
        yield from ((one, gates[place]) for place, one in enumerate(family))


def _verdict(
    judged: _Judged, gate: GateResult, policy: DistillationPolicy, procedures: ProcedurePolicy
) -> ProcedureVerdict:
    group, summary = judged.group, judged.summary
    route, first = group.route, group.whole[0].start
    point, tool = procedures.trigger(route.decision_point), procedures.tool(route.domain)
    if point is None or tool is None:
        raise ValueError("a group that is refused has no verdict")
    procedure, mechanism, scope = draft(group, point, tool, procedures), mechanism_of(route), _scope(route)
    strength = grade_evidence(summary, judged.units, policy.strength, policy.effect, policy.adjudication_share)
    decided = decide(policy, summary, gate, strength.grade, Circumstances(guardrails=judged.guardrails))
    reasons = _reasons(judged, gate, procedures)
    family = procedure_family_id(route.namespace, procedure.trigger, mechanism)
    return ProcedureVerdict(
        scope_variant_id=variant_under(route.namespace, family, scope, route.catalog_digest),
        family_id=family,
        scope=scope,
        scope_description=first.hypothesis.conditions[0] if first.hypothesis.conditions else route.domain,
        mechanism=mechanism,
        procedure=procedure,
        summary=summary,
        gate=gate,
        guardrails=judged.guardrails,
        strength=strength,
        verdict=_held(decided, reasons),
        reasons=reasons,
        links=_links(group, summary),
        closing_ids=frozenset(each.closing_id for each in group.whole),
        experience_ids=_experiences(group),
    )


def _reasons(judged: _Judged, gate: GateResult, procedures: ProcedurePolicy) -> tuple[ProcedureReason, ...]:
    """Return what the Procedure Policy holds against a procedure."""
    margin = judged.group.margin
    gains = [unit.effect if judged.summary.improves(1) else -unit.effect for unit in judged.units]
    few = sum(gain > margin for gain in gains) < procedures.support_units
    none = gate.claim is not Claim.IMPROVES or abs(judged.summary.mean) <= margin
    found = {ProcedureReason.TOO_FEW_UNITS: few, ProcedureReason.NO_GAIN: none}
    return tuple(reason for reason, holds in found.items() if holds)


def _held(decided: Verdict, reasons: tuple[ProcedureReason, ...]) -> Verdict:
    """Return the decision, held back where the Procedure Policy has a reason to."""
    if not reasons or decided.decision not in _PROMOTED:
        return decided
    few = ProcedureReason.TOO_FEW_UNITS in reasons and ProcedureReason.NO_GAIN not in reasons
    decision = DecisionKind.DEFERRED if few else DecisionKind.REJECTED
    code = CandidateReason.INSUFFICIENT_INDEPENDENT_SUPPORT if few else CandidateReason.GENERIC_OR_NON_ACTIONABLE
    return replace(decided, decision=decision, reason_codes=(code,), action=None)


def _scope(route: Route) -> MemoryScope:
    """Return where a procedure applies: one source, for its tools have one version; any dataset and environment."""
    return MemoryScope(
        task_scope_id=route.task_scope_id,
        evaluation_task_id=None,
        domain=route.domain,
        dataset_digest=None,
        source_digest=route.source_digest,
        model_family=route.model_family,
        environment_digest=None,
        contract_digest=route.contract_digest,
        budget_class=route.budget_class,
        visibility=route.namespace,
    )


def _links(group: Group, summary: EffectSummary) -> tuple[EvidenceLink, ...]:
    """Link every run after a change to the start of its trajectory, with what happened up to there."""
    metric = group.contract.primary_metric.name
    links = []
    for each in group.every:
        for place, run in enumerate(each.runs[1:], 1):
            pair = each.delta(metric, place)
            delta = 0.0 if pair is None else pair.delta
            links.append(
                EvidenceLink(
                    experience_id=ExperienceId(run.experience.id),
                    comparator_id=ExperienceId(each.start.experience.id),
                    observation_id=ObservationId(run.observation.id),
                    verification_id=VerificationId(run.verification.id),
                    intervention_id=InterventionId(run.intervention.id),
                    provenance_id=ProvenanceId(run.provenance.id),
                    relation=_relation(delta, summary.mean),
                    support_unit_id=each.support_unit_id,
                    stratum_id=each.stratum_id,
                )
            )
    return tuple(sorted(links, key=lambda link: (link.relation.value, link.experience_id)))


def _relation(delta: float, mean_delta: float) -> LinkRelation:
    if delta == 0:
        return LinkRelation.TIES
    return LinkRelation.SUPPORTS if delta * mean_delta > 0 else LinkRelation.CONTRADICTS


def _experiences(group: Group) -> tuple[ExperienceId, ...]:
    return tuple(sorted({ExperienceId(run.experience.id) for each in group.every for run in each.runs}))


def _key(verdict: ProcedureVerdict) -> str:
    return verdict.scope_variant_id
