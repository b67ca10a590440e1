"""What holds an Experience back, and what would complete it: a reason code and its facts in, plain words out.

Rules kept here:

- every reason code that the write path gives has an answer here: those of candidates, of the gate, and those of
  receipts and work items, which `Hold` lists; a code from outside is said to be unknown, never explained away;
- a remedy says what would change the answer, with the figures that were decided on; where nothing would, it says so;
- how many more units are needed is an estimate (policies.sample_size), is called a rough one, and decides nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from policies.distillation_policy import CandidateReason, DistillationPolicy
from policies.distiller import VariantVerdict
from policies.effects import Classification, EffectSummary, UncertaintyMethod
from policies.failures import FailureClass
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
    DISTILLATION_OFF = "distillation_off"
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
        failure: why the run did not work; None if it did.
        verdict: what is made of its contrast; None where there is no contrast.
    """

    policy: DistillationPolicy
    detail: tuple[str, ...] = ()
    seed: int | None = None
    apart: tuple[str, ...] | None = None
    failure: FailureClass | None = None
    verdict: VariantVerdict | None = None

    @property
    def summary(self) -> EffectSummary | None:
        """The effect of the contrast."""
        return None if self.verdict is None else self.verdict.summary

    @property
    def gate(self) -> GateResult | None:
        """What the gate says of it."""
        return None if self.verdict is None else self.verdict.gate

    @property
    def of_one_task(self) -> bool:
        """Whether the contrast speaks about one evaluation task."""
        return self.verdict is not None and self.verdict.variant.of_one_task

    @property
    def units(self) -> int:
        """How many units there are; of two unpaired arms, runs in the smaller one."""
        if self.verdict is None:
            return 0
        welch = self.verdict.summary.method is UncertaintyMethod.WELCH
        return self.verdict.variant.runs_per_arm if welch else self.verdict.summary.n_units

    @property
    def spread(self) -> float:
        """The standard deviation of a unit that the interval of the mean was made with, in the metric's unit."""
        part = None if self.summary is None else self.summary.part
        return 0.0 if part is None else math.sqrt(part.variance * self.units)

    @property
    def noun(self) -> str:
        """What a unit is."""
        welch = self.summary is not None and self.summary.method is UncertaintyMethod.WELCH
        return "run of each arm" if welch else "run" if self.of_one_task else "dataset root"

    @property
    def place(self) -> str:
        """Where more units may come from."""
        return "of the same evaluation task" if self.of_one_task else "of the same task scope"

    @property
    def needed(self) -> int:
        """How many units an active rule needs."""
        runs = self.policy.comparison.instance_runs if self.policy.comparison and self.of_one_task else 0
        return max(self.policy.support.active_units, runs)

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
    if facts.failure is not None:
        said = f"The run did not work ({facts.failure.value}), so that it says nothing of its change."
        return f"{said} Repair the cause, and run it again."
    seed = "" if facts.seed is None else f" with seed {facts.seed}"
    wanted = f"Run the baseline configuration{seed} in the same stratum."
    if facts.apart is None:
        return f"No baseline{seed} in its stratum, or no change that uses it. {wanted}"
    if not facts.apart:
        return f"No baseline{seed} in its stratum, which has baselines with other seeds. {wanted}"
    return f"No baseline{seed} in its stratum; the nearest one differs in {', '.join(facts.apart)}. {wanted}"


def _support(facts: Facts) -> str:
    summary, noun = facts.summary, facts.noun
    if summary is None:
        return f"An active rule needs {_counted(facts.needed, noun)} {facts.place}."
    missing = facts.needed - facts.units
    if missing > 0:
        more = _counted(missing, f"more {noun}")
        return f"{facts.units} of {_counted(facts.needed, noun)}; needs {more} {facts.place}."
    if summary.mean_interval is None or summary.mean_interval.clear_of_zero:
        return f"{_counted(facts.units, noun)} are enough; what the gate holds against the effect decides."
    low, high = summary.mean_interval.low, summary.mean_interval.high
    level = f"{100 * summary.confidence:g} %"
    found = units_to_settle(summary.mean, facts.spread, summary.equivalence_margin, 1 - summary.confidence)
    return f"The {level} interval of the mean, {low:+.4g} to {high:+.4g}, spans zero. {_more(found, facts)}"


def _more(found: Settling | None, facts: Facts) -> str:
    if found is None:
        return f"At this mean and spread no number of {_plural(facts.noun)} within reach would settle it."
    if found.units <= facts.units:
        return f"One or two more {_plural(facts.noun)} may settle it as {found.outcome}."
    more = _counted(found.units - facts.units, f"more {facts.noun}")
    return f"Rough estimate: about {more} at this mean and spread would settle it as {found.outcome} ({SOURCE})."


def _family(facts: Facts) -> str:
    summary, gate = facts.summary, facts.gate
    if summary is None or gate is None or gate.p_value is None or gate.adjusted_p is None:
        return "Its p-value, adjusted for the family, is above the level of the gate; more independent units lower it."
    said = f"Adjusted p {gate.adjusted_p:.2g} over a family of {gate.family_size}, above q {gate.q:g}."
    # What the adjustment multiplies p by now; with other results in the family it will be another factor.
    level = gate.q * gate.p_value / gate.adjusted_p
    wanted = units_to_show(summary.mean, facts.spread, level) if 0 < level < 1 else None
    if wanted is None:
        return f"{said} At this mean and spread no number of {_plural(facts.noun)} within reach would lower it enough."
    more = _counted(max(1, wanted - facts.units), f"more {facts.noun}")
    return f"{said} Rough estimate: about {more} at this mean and spread would lower it enough ({SOURCE})."


def _no_action(facts: Facts) -> str:
    summary, verdict = facts.summary, facts.verdict
    if summary is None or verdict is None:
        return "The change left the configuration as it was: no evidence can make a rule of it. Vary another knob."
    against = {Classification.IMPROVES: Classification.HARMS, Classification.HARMS: Classification.IMPROVES}
    opposite = against.get(summary.classification)
    moved = [guard.finding.detail for guard in verdict.guardrails if opposite and guard.classification is opposite]
    if moved:
        said = "gains at the price of" if opposite is Classification.HARMS else "loses and buys"
        return f"It {said} a guardrail ({'; '.join(moved)}): no action follows from a trade."
    interval = summary.mean_interval
    where = "" if interval is None else f" ({interval.low:+.4g} to {interval.high:+.4g})"
    return (
        f"Nothing is missing: the interval of the mean{where} lies inside the equivalence margin of "
        f"{summary.equivalence_margin:g}, so that no effect that matters is a finding of its own."
    )


def _guardrails(facts: Facts) -> str:
    guards = () if facts.verdict is None else facts.verdict.guardrails
    short = [f"{guard.metric.name} in {guard.n_units}" for guard in guards if guard.n_units < facts.needed]
    counts = f" ({', '.join(short)} of {_counted(facts.needed, facts.noun)})" if short else ""
    return f"Too few units have the guardrails of the contract verified on both sides{counts}. Verify them there."


def _split(facts: Facts) -> str:
    gate, noun = facts.gate, facts.noun
    if facts.verdict is not None and facts.verdict.split_by is not None:
        name = facts.verdict.split_by.value
        return f"{name} explains why the evidence disagrees: each of its values is judged by itself, and needs its own."
    counts = "" if gate is None else f" ({gate.with_claim} with it, {gate.against_claim} against, {gate.ties} tied)"
    return (
        f"The mean is clear of zero, but {_plural(noun)} disagree{counts}. Declare a public attribute of the tasks "
        "that tells them apart, so that each scope is judged by itself."
    )


def _quantile(facts: Facts) -> str:
    gate = facts.gate
    figure = "" if gate is None else f" ({gate.guard_quantile:+.4g} beside a mean of {gate.mean:+.4g})"
    return f"A quarter or more of the {_plural(facts.noun)} do not move the way the mean does{figure}. {_SPLIT_OR_MORE}"


def _signs(facts: Facts) -> str:
    gate = facts.gate
    counts = (
        "" if gate is None else f": {gate.with_claim} with the claim, {gate.against_claim} against, {gate.ties} tied"
    )
    return f"No majority of the {_plural(facts.noun)} moves the way the mean does{counts}. {_SPLIT_OR_MORE}"


def _untested(facts: Facts) -> str:
    return f"{_counted(facts.units, facts.noun)}: below 3 there is no interval and no test. {_MORE}"


def _contradiction(_facts: Facts) -> str:
    return (
        "Comparable runs of one stratum disagree. Run a discriminating experiment there: more seeds, or the condition "
        "that tells the two camps apart as a declared attribute."
    )


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun if number == 1 else _plural(noun)}"


def _plural(noun: str) -> str:
    head, of, rest = noun.partition(" of ")
    return f"{head}s{of}{rest}"


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
    CandidateReason.GENERIC_OR_NON_ACTIONABLE: _no_action,
    CandidateReason.MISSING_EFFECT_ESTIMATE: _said(
        "No pair of it has the primary metric verified on both sides; verify the metric of the run and of its baseline."
    ),
    CandidateReason.MISSING_GUARDRAIL_EVIDENCE: _guardrails,
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
    GateReason.INSIDE_MARGIN: _no_action,
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
    Hold.DISTILLATION_OFF: _said(
        "It was recorded in a mode that distils nothing. It counts as evidence in every later contrast of its stratum; "
        "a further run of the same contrast in a mode that distils leads there."
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
