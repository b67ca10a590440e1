"""The words of a claim, from a template over its structured facts; they decide nothing (spec 8.1)."""

from __future__ import annotations

from policies.effects import Classification, EffectSummary, UncertaintyMethod
from policies.gate import GateResult
from policies.variants import Variant
from records.values import ActionKind


def claim_text(variant: Variant, summary: EffectSummary, action: ActionKind | None) -> str:
    """Return the claim of a variant in one sentence."""
    knob, metric = variant.target.knob, variant.metric
    size = f"{abs(summary.mean):.4f} {metric.unit}"
    match action:
        case ActionKind.RECOMMEND:
            said = f"improves {metric.name} by {size}"
        case ActionKind.AVOID:
            said = f"worsens {metric.name} by {size}"
        case _ if summary.classification is Classification.NO_EFFECT:
            said = f"makes no difference to {metric.name} that matters ({summary.mean:+.4f} {metric.unit})"
        case _:
            said = f"is not shown to change {metric.name} ({summary.mean:+.4f} {metric.unit})"
    over = _over(variant, summary)
    return f"Changing {knob.name} from {knob.from_value} to {knob.to_value} {said}, on average over {over}."


def gate_detail(gate: GateResult) -> str:
    """Return what the gate looked at, in words."""
    adjusted = "not tested" if gate.adjusted_p is None else f"adjusted p {gate.adjusted_p:.4g}"
    return (
        f"{adjusted} at q {gate.q} among {gate.family_size} contrasts; {gate.with_claim} units with the claim, "
        f"{gate.against_claim} against, {gate.ties} tied"
    )


def _over(variant: Variant, summary: EffectSummary) -> str:
    if not variant.of_one_task:
        return _counted(summary.n_units, "independent dataset root")
    if summary.method is UncertaintyMethod.WELCH:
        baselines = sum(len(arm.runs) for arm in variant.arms)
        return f"{_counted(summary.n_units, 'run')} against {baselines} of the baseline, on one evaluation task"
    unit = "pair of runs" if summary.n_pairs == summary.n_units else "stratum"
    return f"{_counted(summary.n_units, unit)} of one evaluation task"


def _counted(count: int, noun: str) -> str:
    plural = {"pair of runs": "pairs of runs", "stratum": "strata"}.get(noun, f"{noun}s")
    return f"{count} {noun if count == 1 else plural}"
