"""Reason codes and numbers in plain words; a code that has no words yet is shown as it is."""

from __future__ import annotations

import json
from typing import Final

from policies.statistics import Bounds
from vrm.mainjob.facts.shapes import Change, Span

MINUS: Final = "\N{MINUS SIGN}"
NOTHING: Final = "\N{EN DASH}"
"""What stands where there is no number."""

WORDS: Final = {
    # verification and validity
    "recomputed": "recomputed by the independent evaluator from stored predictions",
    "published_record": "row of a content-addressed published table",
    "attested": "attested by the tracker only",
    "not_verified": "not verified by anybody",
    "valid": "valid",
    "not_valid": "not valid",
    "development": "made for development",
    "evaluation": "made in held-out trials; never enters knowledge",
    # receipts
    "queued_for_comparison": "queued for comparison",
    "deferred_ineligible": "held back, not eligible",
    "not_required": "not for distillation",
    "abandoned_before_enqueue": "abandoned before it was queued",
    "evaluation_corpus": "it was made in a held-out trial",
    # work outcomes
    "covered_by_decision": "covered by a decision",
    "deferred_no_comparator": "nothing to compare it with",
    "rejected_not_comparable": "not comparable",
    "rejected_no_candidate": "no candidate follows from it",
    # decisions and their reasons
    "rejected": "rejected",
    "deferred": "deferred",
    "promoted_provisional": "promoted, provisional",
    "promoted_active": "promoted, active",
    "promoted_contested": "promoted, contested",
    "missing_verification": "no independent verification",
    "missing_trial_provenance": "its chain of digests does not hold",
    "missing_typed_action": "no typed change",
    "non_comparable_evidence": "no comparable run",
    "duplicate_support_unit": "the same evidence was counted already",
    "generic_or_non_actionable": "shown to make no difference that matters",
    "missing_effect_estimate": "no effect can be estimated",
    "insufficient_independent_support": "too little independent support",
    "scope_split_required": "roots disagree; the scope would have to be split",
    "true_contradiction": "comparable evidence contradicts it",
    "eligible_provisional": "enough to be provisional",
    "eligible_active": "passed every gate",
    "eligible_contested": "promoted as contested",
    # findings of the gate
    "not_tested": "too few roots to test",
    "mean_is_zero": "the mean is zero",
    "adjusted_p_above_q": "not significant after correcting for all contrasts tried",
    "quantile_disagrees": "the less favourable roots point the other way",
    "signs_disagree": "most roots do not move that way",
    "inside_equivalence_margin": "the whole interval is too small to matter",
    # grades
    "sign_replicated": "same sign on several roots",
    "interval_of_mean_clear_of_zero": "interval of the mean clear of zero",
    "interval_of_mean_spans_zero": "interval of the mean spans zero",
    "roots_disagree_in_sign": "some roots go the other way",
    "too_few_roots_for_strong": "too few roots for strong",
    # what memory had to offer
    "ok": "cards",
    "empty": "an explicit nothing",
    "degraded": "cards, by a fallback",
    "blocked": "blocked",
    "not_requested": "not asked (control)",
    "not_requested_control_arm": "control arm",
    "ok_cards_returned": "cards returned",
    "empty_no_eligible_evidence": "no rule applies to this task",
    "empty_below_threshold": "no rule is relevant enough",
    "degraded_adapter_fallback": "an index was not usable",
    # cards
    "adopted": "adopted",
    "not_considered": "not considered",
    "adopted_applicable": "it applies and decided the proposal",
    "rejected_scope_mismatch": "it speaks of another starting point",
    "rejected_counterevidence": "too much counter-evidence",
    "rejected_protected_action": "the catalog does not allow it",
    "rejected_stale_dependency": "it was learned under another catalog",
    "rejected_low_expected_utility": "too little expected of it, or tried already",
    "not_considered_budget": "no longer steers this decision, or another card was taken",
    "not_considered_cancelled": "the decision was cancelled",
    "not_considered_actor_failed": "the actor failed",
    # what a search met
    "eligible": "rules apply",
    "task_scope_mismatch": "for other task scopes",
    "action_already_in_effect": "advise what is in effect already",
    "action_not_allowed": "advise what is not open any more",
    # endings
    "NO_APPLICABLE_ACTION": "nothing was left to try",
    "BLOCKED_RECALL_SOURCE": "memory was blocked, so that nobody decided",
}


def say(code: str) -> str:
    """Return a code in words; `first: second, third` is said part by part."""
    first, separator, rest = code.partition(": ")
    if separator:
        return f"{say(first)}: {'; '.join(say(part) for part in rest.split(', '))}"
    return WORDS.get(code, code.replace("_", " "))


def value(text: str) -> str:
    """Return a knob value, which is canonical JSON text, as people write it."""
    try:
        read = json.loads(text)
    except json.JSONDecodeError:
        return text
    return read if isinstance(read, str) else text


def change(made: Change) -> str:
    """Return a knob change in one line."""
    start = f"{value(made.from_value)} " if made.from_value else ""
    return f"{made.knob} {start}→ {value(made.to_value)}"


def signed(number: float) -> str:
    """Return a difference with its sign, four decimals; zero has none."""
    return f"{number:+.4f}".replace("-", MINUS) if number else "0"


def plain(number: float | None) -> str:
    """Return a value with four decimals, or a dash."""
    return NOTHING if number is None else f"{number:.4f}"


def p_value(number: float | None) -> str:
    """Return a p-value to two significant digits, or a dash."""
    if number is None:
        return NOTHING
    return "< 0.0001" if number < 1e-4 else f"{number:.2g}"  # noqa: PLR2004  # smaller ones say no more


def span(interval: Span | Bounds | None) -> str:
    """Return an interval, or a dash."""
    return NOTHING if interval is None else f"{signed(interval.low)} to {signed(interval.high)}"


def amount(number: float, unit: str) -> str:
    """Return the size of a difference for a sentence: shares as percentage points, all else in its unit."""
    return f"{abs(100 * number):.1f} percentage points" if unit == "share" else f"{abs(number):.4g} {unit}"


def reach(interval: Bounds, unit: str) -> str:
    """Return an interval of differences for a sentence."""
    factor, form, name = (100, "+.1f", "percentage points") if unit == "share" else (1, "+.4g", unit)
    low, high = (format(factor * end, form).replace("-", MINUS) for end in (interval.low, interval.high))
    return f"{low} to {high} {name}"


def metric(name: str) -> str:
    """Return a metric's name for a sentence."""
    return name.replace("_", " ")


def short(record_id: str) -> str:
    """Return the first digits of an id, which the command line takes as a prefix."""
    return record_id.rpartition(":")[2][:12]


def scope(text: str) -> str:
    """Return a scope as its attribute values alone: `class_balance balanced, ...` becomes `balanced, ...`."""
    return ", ".join(part.partition(" ")[2] or part for part in text.split(", "))
