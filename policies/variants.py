"""Scope variants: at which levels a contrast speaks, and what each level binds (spec 4.4; docs/adr/0031).

Pure. There is one mechanism: a level is the tuple of scope fields that it binds beside those that every rule binds.

    ()                       the task scope: units are dataset roots
    (evaluation_task_id,)    one evaluation task: units are its pairs or runs, and what is the same in several strata is
                             one of them; it is judged from the policy's `instance_runs` runs on
    either + one field       a refinement, drafted for every value of a field that the policy lists and that tells runs
                             of the variant apart; it is judged only where the variant asks for a split

Every contrast is in one variant of each level that it reaches, so the cost is linear in contrasts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from policies.distillation_policy import ComparisonPolicy, DistillationPolicy, ScopeField
from policies.effects import PairedDelta
from policies.statistics import mean
from records.evidence import VerifiedEvidenceBundle
from records.ids import ExperienceId, ScopeVariantId, StratumId, SupportUnitId
from records.knowledge import family_id, scope_variant_id
from records.models import once
from records.values import DecisionTarget, Knob, MemoryScope, MetricSpec


def experience_of(bundle: VerifiedEvidenceBundle) -> ExperienceId:
    """Return the id of the Experience that a bundle belongs to."""
    return ExperienceId(bundle.experience.id)


@dataclass(frozen=True, eq=False)
class Arm:
    """The baseline runs that changed runs are compared with: reruns of one seed, or all runs of a stratum."""

    stratum_id: StratumId
    runs: tuple[VerifiedEvidenceBundle, ...]
    _means: dict[str, float | None] = field(default_factory=dict)

    def __eq__(self, other: object) -> bool:
        """Tell whether the same runs are in both."""
        return isinstance(other, Arm) and self.runs == other.runs

    def __hash__(self) -> int:
        """Hash the runs."""
        return hash(tuple(experience_of(run) for run in self.runs))

    def values(self, metric: str) -> list[float]:
        """Return the verified values of a metric, run by run; a run that has it not verified gives none."""
        return [value for run in self.runs if (value := run.verification.metric(metric)) is not None]

    def mean(self, metric: str) -> float | None:
        """Return the mean of a metric over the runs that have it verified, or None where none has."""
        if metric not in self._means:
            values = self.values(metric)
            self._means[metric] = mean(values) if values else None
        return self._means[metric]


@dataclass(frozen=True)
class Contrast:
    """One changed run beside what it is compared with, in one stratum.

    Attributes:
        baselines: the baseline of its seed with its reruns if `paired`, else all baselines of the stratum.
        rerun: which run of this stratum, seed and change it is, from zero.
        paired: whether the two sides share their seed.
    """

    support_unit_id: SupportUnitId
    knob: Knob
    changed: VerifiedEvidenceBundle
    baselines: Arm
    rerun: int
    paired: bool

    @property
    def stratum_id(self) -> StratumId:
        """The stratum within which both sides compare."""
        return self.baselines.stratum_id

    def delta(self, metric: str) -> PairedDelta | None:
        """Return the changed value beside the mean of the baselines, or None where one side has it not verified."""
        values = self.baselines.mean(metric), self.changed.verification.metric(metric)
        if values[0] is None or values[1] is None:
            return None
        seed = str(self.changed.attempt.seed)
        return PairedDelta(
            root=self.changed.attempt.dataset_root,
            evaluation_task=self.stratum_id,
            seed=f"{seed}#{self.rerun}" if self.rerun else seed,
            baseline=values[0],
            changed=values[1],
            paired=self.paired,
        )


@dataclass(frozen=True, kw_only=True)
class Variant:
    """One claim under one scope, with every contrast that speaks about it.

    Attributes:
        bound: the scope fields that its level binds beside those that every rule binds.
        refines: the variant that it is a part of, if it was drafted to split that one.
    """

    scope_variant_id: ScopeVariantId
    scope: MemoryScope
    scope_description: str
    target: DecisionTarget
    mechanism: str
    metric: MetricSpec
    guardrails: tuple[MetricSpec, ...]
    equivalence_margin: float
    contrasts: tuple[Contrast, ...]
    bound: tuple[ScopeField, ...] = ()
    refines: ScopeVariantId | None = None

    @property
    def of_one_task(self) -> bool:
        """Whether the variant speaks about one evaluation task, so that its units are runs and not roots."""
        return ScopeField.EVALUATION_TASK in self.bound

    @once
    def arms(self) -> tuple[Arm, ...]:
        """The baselines of its contrasts, each arm once."""
        return tuple({id(contrast.baselines): contrast.baselines for contrast in self.contrasts}.values())

    @once
    def experience_ids(self) -> frozenset[ExperienceId]:
        """Every Experience that the variant rests on, changed runs and baselines."""
        changed = {experience_of(contrast.changed) for contrast in self.contrasts}
        return frozenset(changed.union(*({experience_of(run) for run in arm.runs} for arm in self.arms)))

    @once
    def runs_per_arm(self) -> int:
        """How many runs the smaller side has; of pairs, how many pairs there are."""
        baselines = sum(len(arm.runs) for arm in self.arms)
        paired = all(contrast.paired for contrast in self.contrasts)
        return len(self.contrasts) if paired else min(len(self.contrasts), baselines)


def draft_variants(contrasts: Sequence[Contrast], policy: DistillationPolicy) -> dict[ScopeVariantId, Variant]:
    """Return the variants of all levels by their ids, in sorted order; contrasts come in the order of their time."""
    scoped: dict[ScopeVariantId, list[Contrast]] = defaultdict(list)
    firsts: dict[ScopeVariantId, Variant] = {}
    for contrast in contrasts:
        draft = _draft(contrast, ())
        firsts.setdefault(draft.scope_variant_id, draft)
        scoped[draft.scope_variant_id].append(contrast)
    drafted = {key: replace(first, contrasts=tuple(scoped[key])) for key, first in firsts.items()}
    if policy.comparison is not None:
        for variant in tuple(drafted.values()):
            drafted |= {made.scope_variant_id: made for made in _narrower(variant, policy.comparison)}
    return dict(sorted(drafted.items()))


def has_the_runs(variant: Variant, policy: ComparisonPolicy | None) -> bool:
    """Tell whether a variant has the runs to speak for itself; that of a task scope needs no number of them."""
    return policy is None or not variant.of_one_task or variant.runs_per_arm >= policy.instance_runs


def speaks(variant: Variant, policy: DistillationPolicy) -> bool:
    """Tell whether a variant may be judged; a refinement is judged by what its whole asks for."""
    return variant.refines is not None or has_the_runs(variant, policy.comparison)


def _narrower(variant: Variant, policy: ComparisonPolicy) -> Iterator[Variant]:
    """Yield the variants of the tasks that speak for themselves, and the refinements at both levels."""
    tasks = _grouped(variant.contrasts, partial(_value, ScopeField.EVALUATION_TASK))
    instances = [_draft(found[0], (ScopeField.EVALUATION_TASK,), _distinct(found)) for found in tasks]
    yield from instances
    for whole in (variant, *(each for each in instances if has_the_runs(each, policy))):
        for name in policy.split_fields:
            parts = _grouped(whole.contrasts, partial(_value, name))
            if len(parts) > 1:
                for part in parts:
                    yield replace(_draft(part[0], (*whole.bound, name), part), refines=whole.scope_variant_id)


def _distinct(contrasts: Iterable[Contrast]) -> list[Contrast]:
    """Return the first contrast of each result: the same bytes on both sides in another stratum are no other result."""
    found: dict[object, Contrast] = {}
    for contrast in contrasts:
        before = frozenset(run.provenance.evidence_digest for run in contrast.baselines.runs)
        found.setdefault((contrast.changed.provenance.evidence_digest, before), contrast)
    return list(found.values())


def _grouped(contrasts: Iterable[Contrast], value: Callable[[Contrast], str]) -> list[list[Contrast]]:
    groups: dict[str, list[Contrast]] = defaultdict(list)
    for contrast in contrasts:
        groups[value(contrast)].append(contrast)
    return list(groups.values())


def _value(name: ScopeField, contrast: Contrast) -> str:
    bundle = contrast.changed
    values: Mapping[ScopeField, str] = {
        ScopeField.EVALUATION_TASK: bundle.attempt.evaluation_task_id,
        ScopeField.ENVIRONMENT: bundle.observation.environment_digest,
        ScopeField.SOURCE: bundle.attempt.source_digest,
    }
    return values[name]


def _draft(contrast: Contrast, bound: tuple[ScopeField, ...], contrasts: Iterable[Contrast] = ()) -> Variant:
    bundle = contrast.changed
    attempt, contract = bundle.attempt, bundle.contract
    values = {name: _value(name, contrast) for name in bound}
    scope = MemoryScope(
        task_scope_id=attempt.task_scope_id,
        evaluation_task_id=attempt.evaluation_task_id if ScopeField.EVALUATION_TASK in bound else None,
        domain=contract.domain,
        dataset_digest=None,
        source_digest=values.get(ScopeField.SOURCE),
        model_family=attempt.model_family,
        environment_digest=values.get(ScopeField.ENVIRONMENT),
        contract_digest=contract.comparability_digest,
        budget_class=attempt.budget_class,
        visibility=attempt.namespace,
    )
    target = DecisionTarget(
        decision_point=bundle.intervention.decision_point,
        knob=contrast.knob,
        catalog_digest=bundle.intervention.catalog_digest,
    )
    family = family_id(attempt.namespace, target, contract.primary_metric.name, bundle.hypothesis.mechanism)
    described = bundle.hypothesis.conditions[0] if bundle.hypothesis.conditions else contract.domain
    return Variant(
        scope_variant_id=scope_variant_id(attempt.namespace, family, scope, target),
        scope=scope,
        scope_description="; ".join((described, *(_in_words(name, value) for name, value in values.items()))),
        target=target,
        mechanism=bundle.hypothesis.mechanism,
        metric=contract.primary_metric,
        guardrails=contract.guardrail_metrics,
        equivalence_margin=float(contract.equivalence_margin),
        contrasts=tuple(contrasts),
        bound=bound,
    )


def _in_words(name: ScopeField, value: str) -> str:
    noun = {
        ScopeField.EVALUATION_TASK: "evaluation task",
        ScopeField.ENVIRONMENT: "environment",
        ScopeField.SOURCE: "source",
    }[name]
    return f"only {noun} {value.rpartition(':')[2][:12]}"
