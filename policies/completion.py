"""What holds an Experience back, and what would complete it: a reason code and its facts in, plain words out.

Rules kept here:

- every reason code that the write path gives has an answer here: those of candidates, of the gate, and those of
  receipts and work items, which `Hold` lists; a code from outside is said to be unknown, never explained away;
- a remedy says what would change the answer, with the figures that were decided on; where nothing would, it says so;
- how many more units are needed is an estimate (policies.sample_size), is called a rough one, and decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from policies.distillation_policy import CandidateReason, DistillationPolicy
from policies.effects import EffectSummary
from policies.gate import GateReason, GateResult
from policies.sample_size import SOURCE, Settling, units_to_settle, units_to_show


class Hold(StrEnum):
    """What holds an Experience back before any candidate is made of it, or after its rule has ended."""

    WITHOUT_RECEIPT = "without_receipt"
    INVALID_VERIFICATION = "invalid_verification"
    ATTESTED = "verification_attested"
    PUBLISHED = "verification_published_record"
    RECOMPUTED = "verification_recomputed"
    KIND_NOT_ADMITTED = "verification_kind_not_admitted"
    EVALUATION_CORPUS = "evaluation_corpus"
    BOUND_TO_AN_ARM = "bound_to_an_arm"
    ATTEMPT_NOT_COMPLETED = "attempt_not_completed"
    SOURCE_RUN_OVER = "source_run_over"
    SOURCE_RUN_CANCELLED = "source_run_cancelled"
    SOURCE_RUN_FAILED = "source_run_failed"
    WAITING_FOR_CAMPAIGN = "waiting_for_campaign"
    WAITING_FOR_DISTILLATION = "waiting_for_distillation"
    DEAD_LETTER = "dead_letter"
    CANCELLED = "cancelled"
    RETENTION_REVOKED = "retention_revoked"
    RULE_ENDED = "rule_ended"


Code = CandidateReason | GateReason | Hold


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What is known of an Experience and of the contrast that it is part of.

    Attributes:
        policy: the Distillation Policy that decides.
        detail: what was met, in words: violations, parts that are missing, the cause of a failure.
        seed: the seed of the run.
        apart: the fields by which the run differs from the nearest baseline; None where that is not known.
        summary: the effect of its contrast; gate: what the gate says of it. None where there is no contrast.
        unit_noun: what one effect unit of the contrast is.
    """

    policy: DistillationPolicy
    detail: tuple[str, ...] = ()
    seed: int | None = None
    apart: tuple[str, ...] | None = None
    summary: EffectSummary | None = None
    gate: GateResult | None = None
    unit_noun: str = "dataset root"

    @property
    def needed(self) -> int:
        """How many units an active rule needs."""
        return self.policy.support.active_units

    @property
    def admitted(self) -> str:
        """The kinds of verification that may stand behind active knowledge."""
        return " or ".join(kind.value for kind in self.policy.active_verifications)


def code_of(text: str) -> Code | None:
    """Return the code that a record holds as text, or None for one of another vocabulary."""
    for family in (CandidateReason, GateReason, Hold):
        if text in {each.value for each in family}:
            return family(text)
    return None


def remedy(code: Code, facts: Facts) -> str:
    """Return what would complete an Experience that this code holds back, as one or two plain sentences."""
    return _REMEDIES[code](facts)


def remedies(codes: Sequence[str], facts: Facts) -> tuple[str, ...]:
    """Return what would complete an Experience, for codes as records hold them, the deciding one first.

    Where that one is a finding of its own, or says the same as all the others, nothing is said of the others.
    """
    told = codes[:1] if codes[:1] and codes[0] in _SETTLED else codes
    return tuple(dict.fromkeys(_told(code, facts) for code in told))


def _told(text: str, facts: Facts) -> str:
    code = code_of(text)
    return f"{text} is a code of another vocabulary; no remedy is known." if code is None else remedy(code, facts)


def _said(words: str) -> Callable[[Facts], str]:
    return lambda _: words


def _met(words: str) -> Callable[[Facts], str]:
    """Return a remedy that begins with what was met, where something was."""
    return lambda facts: f"Met: {'; '.join(facts.detail)}. {words}" if facts.detail else words


def _kind(facts: Facts) -> str:
    return (
        f"Only {facts.admitted} evidence may support active knowledge, and it was verified in another way. Have an "
        "independent evaluator compute its metric again, and import it with that verification."
    )


def _no_comparator(facts: Facts) -> str:
    seed = "" if facts.seed is None else f" with seed {facts.seed}"
    wanted = f"Run the baseline configuration{seed} in the same stratum."
    if facts.apart is None:
        return f"No baseline{seed} in its stratum, or no change that uses it. {wanted}"
    if not facts.apart:
        return f"No baseline{seed} in its stratum, which has baselines with other seeds. {wanted}"
    return f"No baseline{seed} in its stratum; the nearest one differs in {', '.join(facts.apart)}. {wanted}"


def _support(facts: Facts) -> str:
    summary, noun = facts.summary, facts.unit_noun
    if summary is None:
        return f"An active rule needs {facts.needed} {noun}s of the same task scope."
    missing = facts.needed - summary.n_units
    if missing > 0:
        more = _counted(missing, f"more {noun}")
        return f"{summary.n_units} of {_counted(facts.needed, noun)}; needs {more} of the same task scope."
    if summary.mean_interval is None or summary.mean_interval.clear_of_zero:
        return f"{_counted(summary.n_units, noun)} are enough; what the gate holds against the effect decides."
    low, high = summary.mean_interval.low, summary.mean_interval.high
    level = f"{100 * summary.confidence:g} %"
    return f"The {level} interval of the mean, {low:+.4g} to {high:+.4g}, spans zero. {_estimate(facts, summary)}"


def _estimate(facts: Facts, summary: EffectSummary) -> str:
    found = units_to_settle(summary.mean, summary.sd or 0.0, summary.equivalence_margin, 1 - summary.confidence)
    return _more(found, summary.n_units, facts.unit_noun)


def _more(found: Settling | None, units: int, noun: str) -> str:
    if found is None:
        return f"At this mean and spread no number of {noun}s within reach would settle it."
    if found.units <= units:
        return f"One or two more {noun}s may settle it as {found.outcome}."
    more = _counted(found.units - units, f"more {noun}")
    return f"Rough estimate: about {more} at this mean and spread would settle it as {found.outcome} ({SOURCE})."


def _family(facts: Facts) -> str:
    summary, gate = facts.summary, facts.gate
    if summary is None or gate is None or gate.p_value is None or gate.adjusted_p is None:
        return "Its p-value, adjusted for the family, is above the level of the gate; more independent units lower it."
    said = f"Adjusted p {gate.adjusted_p:.2g} over a family of {gate.family_size}, above q {gate.q:g}."
    # What the adjustment multiplies p by now; with other results in the family it will be another factor.
    level = gate.q * gate.p_value / gate.adjusted_p
    wanted = units_to_show(summary.mean, summary.sd or 0.0, level) if 0 < level < 1 else None
    if wanted is None:
        return f"{said} At this mean and spread no number of {facts.unit_noun}s within reach would lower it enough."
    more = _counted(max(1, wanted - summary.n_units), f"more {facts.unit_noun}")
    return f"{said} Rough estimate: about {more} at this mean and spread would lower it enough ({SOURCE})."


def _no_effect(facts: Facts) -> str:
    summary = facts.summary
    if summary is None:
        return "The change left the configuration as it was: no evidence can make a rule of it. Vary another knob."
    interval = summary.mean_interval
    where = "" if interval is None else f" ({interval.low:+.4g} to {interval.high:+.4g})"
    return (
        f"Nothing is missing: the interval of the mean{where} lies inside the equivalence margin of "
        f"{summary.equivalence_margin:g}, so that no effect that matters is a finding of its own."
    )


def _split(facts: Facts) -> str:
    gate, noun = facts.gate, facts.unit_noun
    counts = "" if gate is None else f" ({gate.with_claim} with it, {gate.against_claim} against, {gate.ties} tied)"
    return (
        f"The mean is clear of zero, but {noun}s disagree{counts}. Declare a public attribute of the tasks that tells "
        "them apart, so that each scope is judged by itself."
    )


def _quantile(facts: Facts) -> str:
    gate = facts.gate
    figure = "" if gate is None else f" ({gate.guard_quantile:+.4g} beside a mean of {gate.mean:+.4g})"
    return f"A quarter or more of the {facts.unit_noun}s do not move the way the mean does{figure}. {_SPLIT_OR_MORE}"


def _signs(facts: Facts) -> str:
    gate = facts.gate
    counts = (
        "" if gate is None else f": {gate.with_claim} with the claim, {gate.against_claim} against, {gate.ties} tied"
    )
    return f"No majority of the {facts.unit_noun}s moves the way the mean does{counts}. {_SPLIT_OR_MORE}"


def _untested(facts: Facts) -> str:
    units = 0 if facts.summary is None else facts.summary.n_units
    return f"{_counted(units, facts.unit_noun)}: below 3 there is no interval and no test. {_MORE}"


def _contradiction(facts: Facts) -> str:
    noun = facts.unit_noun
    return (
        f"Comparable runs of one {noun} disagree. Run a discriminating experiment in that stratum: more seeds, or the "
        "condition that tells the two camps apart as a declared attribute."
    )


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


_SETTLED: Final = frozenset(
    {CandidateReason.GENERIC_OR_NON_ACTIONABLE.value, CandidateReason.DUPLICATE_SUPPORT_UNIT.value}
)
_MORE: Final = "Run the same change on more of them."
_SPLIT_OR_MORE: Final = "Units of the same scope that agree would change this, or a declared attribute that splits it."

_REMEDIES: Final[Mapping[Code, Callable[[Facts], str]]] = {
    CandidateReason.MISSING_VERIFICATION: _met(
        "It needs a Verification: have an independent evaluator judge its artifacts under an Evaluation Contract, and "
        "import the run with it."
    ),
    CandidateReason.MISSING_TRIAL_PROVENANCE: _met(
        "It needs a Trial Provenance that ties observation, intervention and digests of source, configuration, data "
        "and environment together; import the run with a source that declares them."
    ),
    CandidateReason.PRIVATE_EVALUATOR_DEPENDENCY: _said(
        "It rests on what only the evaluator may see. Run it again without, and verify that run."
    ),
    CandidateReason.NON_COMPARABLE_EVIDENCE: _no_comparator,
    CandidateReason.DUPLICATE_SUPPORT_UNIT: _said(
        "Nothing is missing: it repeats evidence that counts already. A run with another seed or on another dataset "
        "root would count."
    ),
    CandidateReason.MISSING_DECISION_POINT: _said(
        "It names no decision at which it could help; record the Intervention with its Decision Point."
    ),
    CandidateReason.MISSING_TYPED_ACTION: _met(
        "It needs a typed Intervention: the one knob that was changed, from which value to which, within a catalog."
    ),
    CandidateReason.GENERIC_OR_NON_ACTIONABLE: _no_effect,
    CandidateReason.MISSING_EFFECT_ESTIMATE: _said(
        "No pair of it has the primary metric verified on both sides; verify the metric of the run and of its baseline."
    ),
    CandidateReason.MISSING_GUARDRAIL_EVIDENCE: _met(
        "Verify the guardrail metrics of its contract on both sides of every pair."
    ),
    CandidateReason.INSUFFICIENT_INDEPENDENT_SUPPORT: _support,
    CandidateReason.SCOPE_SPLIT_REQUIRED: _split,
    CandidateReason.TRUE_CONTRADICTION: _contradiction,
    CandidateReason.ELIGIBLE_PROVISIONAL: _support,
    CandidateReason.ELIGIBLE_ACTIVE: _said("Nothing is missing: it was eligible for an active rule."),
    CandidateReason.ELIGIBLE_CONTESTED: _contradiction,
    GateReason.PASSED: _said("Nothing is missing: the gate was passed."),
    GateReason.NOT_TESTED: _untested,
    GateReason.MEAN_IS_ZERO: _said("The mean effect is exactly zero, so there is no claim to make."),
    GateReason.ADJUSTED_P_ABOVE_Q: _family,
    GateReason.QUANTILE_DISAGREES: _quantile,
    GateReason.SIGNS_DISAGREE: _signs,
    GateReason.INSIDE_MARGIN: _no_effect,
    Hold.WITHOUT_RECEIPT: _said("Nobody has looked at it yet; the next round of its driver gives it a receipt."),
    Hold.INVALID_VERIFICATION: _met(
        "The evaluator found its result invalid. Repair what was violated and run it again; this run stays as it is."
    ),
    Hold.ATTESTED: _kind,
    Hold.PUBLISHED: _kind,
    Hold.RECOMPUTED: _kind,
    Hold.KIND_NOT_ADMITTED: _kind,
    Hold.EVALUATION_CORPUS: _said(
        "Nothing completes it: it was made for evaluation, and what evaluates memory never enters memory."
    ),
    Hold.BOUND_TO_AN_ARM: _said(
        "Nothing completes it: it belongs to one arm of an evaluation. The same run outside any arm would count."
    ),
    Hold.ATTEMPT_NOT_COMPLETED: _said("Its Attempt did not complete; run it again to the end."),
    Hold.SOURCE_RUN_OVER: _said(
        "It came after its Run had ended, so nothing holds a profile for it. Import it within a Run that is under way."
    ),
    Hold.SOURCE_RUN_CANCELLED: _said("Its Run was cancelled first. Run the experiment again in another Run."),
    Hold.SOURCE_RUN_FAILED: _said("Its Run failed first. Repair the cause, then run the experiment in another Run."),
    Hold.WAITING_FOR_CAMPAIGN: _said("It is queued and no campaign has it yet; `vrm distil` goes on with it."),
    Hold.WAITING_FOR_DISTILLATION: _said(
        "Its campaign is under way or was interrupted; `vrm distil` goes on with it, `vrm runs show` says who holds it."
    ),
    Hold.DEAD_LETTER: _met(
        "Its work item is a dead letter, which is final under these policies. Repair the cause, and import the run in "
        "another namespace or distil under another policy version."
    ),
    Hold.CANCELLED: _met(
        "The campaign of its work item was cancelled, which is final. Import the run again within another namespace."
    ),
    Hold.RETENTION_REVOKED: _said("Nothing completes it: it, or something that it is made of, was erased for good."),
    Hold.RULE_ENDED: _met(
        "The rule that it stood behind has ended, and no successor rests on it; `vrm knowledge history` shows why."
    ),
}  # fmt: skip
