"""Comparable evidence: strata, paired contrasts and support units, out of Verified Evidence Bundles.

Pure. Rules kept here (spec 8.1):

- two runs are compared only inside one stratum, whose fields the Distillation Policy names; seed and intervention value
  are not among them, for they are what is compared;
- a changed run is paired with the baseline of its stratum and seed, the first by id if there are several; one without a
  baseline has no comparator;
- a support unit is what a pair shows: stratum, seed, change and the evidence of both runs. The same evidence imported
  twice is one unit (VRM-W06); a rerun with another result is another pair of the same root, never another root;
- pairs are indexed by scope variant, so that one work item touches only its own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from policies.distillation_policy import DistillationPolicy, StratumField
from policies.effects import PairedDelta
from records.evidence import Manipulation, VerifiedEvidenceBundle
from records.ids import ExperienceId, ScopeVariantId, StratumId, SupportUnitId
from records.knowledge import family_id, scope_variant_id
from records.values import DecisionTarget, Knob, MemoryScope, MetricSpec


@dataclass(frozen=True)
class Contrast:
    """One changed run beside its baseline, in one stratum and with one seed."""

    stratum_id: StratumId
    support_unit_id: SupportUnitId
    knob: Knob
    changed: VerifiedEvidenceBundle
    baseline: VerifiedEvidenceBundle
    rerun: int

    def delta(self, metric: str) -> PairedDelta | None:
        """Return the paired values of a metric, or None where one of the runs has it not verified."""
        values = self.baseline.verification.metric(metric), self.changed.verification.metric(metric)
        if values[0] is None or values[1] is None:
            return None
        seed = str(self.changed.attempt.seed)
        return PairedDelta(
            root=self.changed.attempt.dataset_root,
            evaluation_task=self.stratum_id,
            seed=f"{seed}#{self.rerun}" if self.rerun else seed,
            baseline=values[0],
            changed=values[1],
        )


@dataclass(frozen=True)
class Variant:
    """One claim under one scope, with every pair that speaks about it."""

    scope_variant_id: ScopeVariantId
    scope: MemoryScope
    scope_description: str
    target: DecisionTarget
    mechanism: str
    metric: MetricSpec
    guardrails: tuple[MetricSpec, ...]
    equivalence_margin: float
    contrasts: tuple[Contrast, ...]


@dataclass(frozen=True)
class ContrastTable:
    """All contrasts of a snapshot.

    Attributes:
        variants: by scope variant id, in sorted order.
        variant_of: the scope variant that each compared Experience belongs to; a baseline to the first that uses it.
        unpaired: Experiences without a comparator.
        inert: Experiences whose change left the configuration as it was.
        duplicates: Experiences that only repeat a support unit.
    """

    variants: Mapping[ScopeVariantId, Variant]
    variant_of: Mapping[ExperienceId, ScopeVariantId]
    unpaired: frozenset[ExperienceId]
    inert: frozenset[ExperienceId]
    duplicates: frozenset[ExperienceId]


def stratum_of(bundle: VerifiedEvidenceBundle, policy: DistillationPolicy) -> StratumId:
    """Return the comparability stratum of a bundle under a policy."""
    attempt, intervention, contract = bundle.attempt, bundle.intervention, bundle.contract
    values: dict[StratumField, str] = {
        StratumField.EVALUATION_TASK: attempt.evaluation_task_id,
        StratumField.TASK_SCOPE: attempt.task_scope_id,
        StratumField.DOMAIN: contract.domain,
        StratumField.DATASET: attempt.dataset_digest,
        StratumField.MODEL_FAMILY: attempt.model_family,
        StratumField.SOURCE: attempt.source_digest,
        StratumField.CONTRACT: contract.comparability_digest,
        StratumField.METRIC: contract.primary_metric.name,
        StratumField.BUDGET_CLASS: attempt.budget_class,
        StratumField.ALLOCATION: attempt.budget_class,
        StratumField.CATALOG: intervention.catalog_digest,
        StratumField.ENVIRONMENT: bundle.observation.environment_digest,
        StratumField.BASELINE: intervention.baseline_config_digest,
    }
    fields = {name.value: values[name] for name in policy.stratum_fields}
    return StratumId.derive({"namespace": attempt.namespace, **fields})


def tabulate(bundles: Iterable[VerifiedEvidenceBundle], policy: DistillationPolicy) -> ContrastTable:
    """Pair all bundles of a snapshot; the order in which they come does not matter.

    Of two baselines with one stratum and seed the earlier is the comparator, so that running again cannot choose one.
    """
    builder = _Builder()
    changed: list[tuple[StratumId, VerifiedEvidenceBundle]] = []
    for bundle in sorted(bundles, key=lambda item: (item.attempt.created_at, item.experience.id)):
        stratum = stratum_of(bundle, policy)
        match bundle.intervention.manipulation:
            case Manipulation.BASELINE:
                builder.add_baseline(stratum, bundle)
            case Manipulation.CHANGED:
                changed.append((stratum, bundle))
            case Manipulation.NO_EFFECT:
                builder.inert.add(ExperienceId(bundle.experience.id))
    for stratum, bundle in changed:
        builder.add(stratum, bundle)
    return builder.table()


@dataclass
class _Builder:
    baselines: dict[tuple[StratumId, int], VerifiedEvidenceBundle] = field(default_factory=dict)
    pairs: dict[ScopeVariantId, list[Contrast]] = field(default_factory=lambda: defaultdict(list))
    drafts: dict[ScopeVariantId, Variant] = field(default_factory=dict)
    seen: set[SupportUnitId] = field(default_factory=set)
    reruns: dict[tuple[StratumId, int, str], int] = field(default_factory=lambda: defaultdict(int))
    unpaired: set[ExperienceId] = field(default_factory=set)
    inert: set[ExperienceId] = field(default_factory=set)
    duplicates: set[ExperienceId] = field(default_factory=set)

    def add_baseline(self, stratum: StratumId, bundle: VerifiedEvidenceBundle) -> None:
        """Take the one baseline of a stratum and seed; a second one has nothing to be compared with."""
        first = self.baselines.setdefault((stratum, bundle.attempt.seed), bundle)
        if first is not bundle:
            same = first.provenance.evidence_digest == bundle.provenance.evidence_digest
            (self.duplicates if same else self.unpaired).add(ExperienceId(bundle.experience.id))

    def add(self, stratum: StratumId, bundle: VerifiedEvidenceBundle) -> None:
        """Pair a changed run with the baseline of its stratum and seed; one support unit counts once."""
        experience_id = ExperienceId(bundle.experience.id)
        baseline = self.baselines.get((stratum, bundle.attempt.seed))
        knob = bundle.intervention.knob
        if baseline is None or knob is None:
            self.unpaired.add(experience_id)
            return
        unit = _support_unit(stratum, knob, bundle, baseline)
        if unit in self.seen:
            self.duplicates.add(experience_id)
            return
        self.seen.add(unit)
        place = (stratum, bundle.attempt.seed, knob.canonical_digest)
        draft = _draft(bundle, knob)
        self.drafts.setdefault(draft.scope_variant_id, draft)
        self.pairs[draft.scope_variant_id].append(
            Contrast(stratum, unit, knob, bundle, baseline, rerun=self.reruns[place])
        )
        self.reruns[place] += 1

    def table(self) -> ContrastTable:
        variants: dict[ScopeVariantId, Variant] = {}
        variant_of: dict[ExperienceId, ScopeVariantId] = {}
        for key in sorted(self.drafts):
            contrasts = tuple(self.pairs[key])
            variants[key] = Variant(**(vars(self.drafts[key]) | {"contrasts": contrasts}))
            for contrast in contrasts:
                variant_of[ExperienceId(contrast.changed.experience.id)] = key
                variant_of.setdefault(ExperienceId(contrast.baseline.experience.id), key)
        used = set(variant_of)
        alone = {ExperienceId(item.experience.id) for item in self.baselines.values()} - used
        return ContrastTable(
            variants=variants,
            variant_of=variant_of,
            unpaired=frozenset(self.unpaired | alone),
            inert=frozenset(self.inert),
            duplicates=frozenset(self.duplicates),
        )


def _support_unit(
    stratum: StratumId, knob: Knob, changed: VerifiedEvidenceBundle, baseline: VerifiedEvidenceBundle
) -> SupportUnitId:
    return SupportUnitId.derive(
        {
            "stratum_id": stratum,
            "seed": changed.attempt.seed,
            "knob": knob.as_json(),
            "changed_evidence": changed.provenance.evidence_digest,
            "baseline_evidence": baseline.provenance.evidence_digest,
        }
    )


def _draft(bundle: VerifiedEvidenceBundle, knob: Knob) -> Variant:
    attempt, contract = bundle.attempt, bundle.contract
    scope = MemoryScope(
        task_scope_id=attempt.task_scope_id,
        evaluation_task_id=None,
        domain=contract.domain,
        dataset_digest=None,
        source_digest=None,
        model_family=attempt.model_family,
        environment_digest=None,
        contract_digest=contract.comparability_digest,
        budget_class=attempt.budget_class,
        visibility=attempt.namespace,
    )
    target = DecisionTarget(
        decision_point=bundle.intervention.decision_point,
        knob=knob,
        catalog_digest=bundle.intervention.catalog_digest,
    )
    family = family_id(attempt.namespace, target, contract.primary_metric.name, bundle.hypothesis.mechanism)
    return Variant(
        scope_variant_id=scope_variant_id(attempt.namespace, family, scope, target),
        scope=scope,
        scope_description=bundle.hypothesis.conditions[0] if bundle.hypothesis.conditions else contract.domain,
        target=target,
        mechanism=bundle.hypothesis.mechanism,
        metric=contract.primary_metric,
        guardrails=contract.guardrail_metrics,
        equivalence_margin=float(contract.equivalence_margin),
        contrasts=(),
    )
