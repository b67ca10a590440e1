"""Comparability strata: within which runs are compared, and what keeps a run from its comparators (spec 8.1).

Pure. Two runs are compared only inside one stratum, whose fields the Distillation Policy names; seed and intervention
value are not among them, for they are what is compared.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from policies.distillation_policy import DistillationPolicy, StratumField
from records.evidence import VerifiedEvidenceBundle
from records.ids import ExperienceId, StratumId

Apart = tuple[StratumField, ...]


def stratum_values(bundle: VerifiedEvidenceBundle) -> dict[StratumField, str]:
    """Return what a bundle has in each field that a policy may demand."""
    attempt, intervention, contract = bundle.attempt, bundle.intervention, bundle.contract
    return {
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


def stratum_of(bundle: VerifiedEvidenceBundle, policy: DistillationPolicy) -> StratumId:
    """Return the comparability stratum of a bundle under a policy."""
    values = stratum_values(bundle)
    fields = {name.value: values[name] for name in policy.stratum_fields}
    return StratumId.derive({"namespace": bundle.attempt.namespace, **fields})


def apart(
    alone: Iterable[tuple[StratumId, VerifiedEvidenceBundle]],
    baselines: Mapping[StratumId, VerifiedEvidenceBundle],
    policy: DistillationPolicy,
) -> dict[ExperienceId, Apart]:
    """Tell by which fields each run without a comparator differs from its nearest baseline.

    Nearest is the baseline of the same evaluation task, or, if that task has none, of the same catalog, that differs in
    the fewest fields; of equally near ones the first by field order. No field at all means that only the seed differs.
    A run that no baseline is near to is left out. Runs of one stratum are answered once.

    Args:
        alone: the runs with their strata.
        baselines: one baseline of each stratum that has any.
        policy: names the fields that are demanded.
    """
    near: dict[tuple[StratumField, str], list[dict[StratumField, str]]] = defaultdict(list)
    for bundle in baselines.values():
        values = stratum_values(bundle)
        for name in (StratumField.EVALUATION_TASK, StratumField.CATALOG):
            near[name, values[name]].append(values)
    answers: dict[StratumId, Apart | None] = {}
    found: dict[ExperienceId, Apart] = {}
    for stratum, bundle in alone:
        if stratum not in answers:
            answers[stratum] = _nearest(stratum_values(bundle), near, policy)
        answer = answers[stratum]
        if answer is not None:
            found[ExperienceId(bundle.experience.id)] = answer
    return found


def _nearest(
    values: Mapping[StratumField, str],
    near: Mapping[tuple[StratumField, str], list[dict[StratumField, str]]],
    policy: DistillationPolicy,
) -> Apart | None:
    same_task = near.get((StratumField.EVALUATION_TASK, values[StratumField.EVALUATION_TASK]))
    others = same_task or near.get((StratumField.CATALOG, values[StratumField.CATALOG]), [])
    # Allocation policy is told by the budget class until the records hold it apart, so it is never told beside it.
    fields = [name for name in policy.stratum_fields if name is not StratumField.ALLOCATION]
    differing = (tuple(name for name in fields if other[name] != values[name]) for other in others)
    return min(differing, key=lambda names: (len(names), [fields.index(name) for name in names]), default=None)
