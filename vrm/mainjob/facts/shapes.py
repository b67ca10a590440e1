"""The facts of a round as frozen values: what a report shows, and what `facts.json` holds.

Every share comes with its denominator, every interval with its level; numbers are finite, an absent number is None.
Reading the JSON back gives the same facts, so a page can be drawn again without a store.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

from evaluation.paired import PairedEffect


class Shape(BaseModel):
    """A frozen value that JSON can hold."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Tally(Shape):
    """How many of how many are `name`."""

    name: str
    count: int
    of: int


class Span(Shape):
    """A closed interval; `level` is its nominal coverage as a share."""

    low: float
    high: float
    level: float


class Change(Shape):
    """One knob change, values as canonical JSON text."""

    knob: str
    from_value: str
    to_value: str


class RootEffect(Shape):
    """The effect on one dataset root, in the metric's unit, with the paired runs behind it."""

    root: str
    effect: float
    pairs: int


class GuardrailFacts(Shape):
    """The mean effect on another metric of the same contract."""

    metric: str
    unit: str
    mean: float
    roots: int


class EffectFacts(Shape):
    """An effect as the Ledger holds it (changed minus baseline), with the roots that it was estimated from.

    `tested_in_family` counts the contrasts of the same task scope that were tested together; the adjusted p-value
    corrects for them. `mean_interval` covers the mean of many tasks, `prediction_interval` one new task.
    """

    metric: str
    unit: str
    direction: Literal["maximize", "minimize"]
    mean: float
    baseline_mean: float
    changed_mean: float
    mean_interval: Span | None
    prediction_interval: Span | None
    unit_range: tuple[float, float]
    roots: int
    pairs: int
    improved: int
    worsened: int
    tied: int
    p_value: float | None
    adjusted_p_value: float | None
    tested_in_family: int
    guardrails: tuple[GuardrailFacts, ...]
    by_root: tuple[RootEffect, ...]


class RuleFacts(Shape):
    """A promoted rule and where it stands now; `is_head` tells whether it speaks for its scope variant."""

    memory_id: str
    claim: str
    action: str
    change: Change
    scope: str
    task_scope_id: str
    mechanism: str
    disposition: str
    is_head: bool
    reasons: tuple[str, ...]
    grade: str
    grade_reasons: tuple[str, ...]
    support: int
    counter: int
    verifications: tuple[Tally, ...]
    effect: EffectFacts


class RefusedFacts(Shape):
    """The last candidate of a scope variant that became no rule; `shown_null` marks an effect shown to be too small."""

    candidate_id: str
    claim: str
    change: Change
    scope: str
    decision: str
    reasons: tuple[str, ...]
    findings: tuple[str, ...]
    shown_null: bool
    effect: EffectFacts


class EvidenceFacts(Shape):
    """What entered the namespace and what became of it, stage by stage.

    Attributes:
        experiences: all of them; `waiting`: those without a receipt yet.
        by_corpus, by_verification, by_validity: Experiences by what they were made for, how and how they were verified.
        by_violation: invalid verifications by violation; one may name several.
        by_receipt: receipts by disposition and reason; `items`: work items; `open_items`: those not finished yet.
        by_outcome: finished items by what became of them, with the reason that the report gives.
        by_decision: decisions about candidates by kind and deciding reason.
    """

    experiences: int
    waiting: int
    by_corpus: tuple[Tally, ...]
    by_verification: tuple[Tally, ...]
    by_validity: tuple[Tally, ...]
    by_violation: tuple[Tally, ...]
    by_receipt: tuple[Tally, ...]
    items: int
    open_items: int
    by_outcome: tuple[Tally, ...]
    by_decision: tuple[Tally, ...]


class CardFacts(Shape):
    """One card as returned, and what became of it."""

    ordinal: int
    memory_id: str
    citation_id: str
    claim: str
    action: str
    tokens: int
    verdict: str
    reason: str


class DecisionFacts(Shape):
    """One held-out decision; fields are None where it did not get that far.

    `test_*` is the primary metric of the configuration in effect, `steering_*` the metric that the trial chose by;
    `tried_*` are those of the configuration that this decision tried. `kept` tells whether it went into effect.
    """

    iteration: int
    intent_id: str
    outcome_id: str | None
    source_status: str | None
    source_reason: str | None
    decision_status: str | None
    terminal_reason: str | None
    searched: tuple[Tally, ...]
    cards: tuple[CardFacts, ...]
    change: Change | None
    config_digest: str | None
    attempt_status: str | None
    violations: tuple[str, ...]
    tried_test: float | None
    tried_steering: float | None
    test_before: float | None
    test_after: float | None
    steering_before: float | None
    steering_after: float | None
    kept: bool


class ArmFacts(Shape):
    """One arm of one trial; `path` is the primary metric in effect after 0, 1, ... decisions.

    `final` and `mean_over_decisions` are the two outcomes; None where the arm has no valid result at all.
    """

    arm: str
    run_id: str
    final: float | None
    mean_over_decisions: float | None
    path: tuple[float | None, ...]
    decisions: tuple[DecisionFacts, ...]


class TrialFacts(Shape):
    """One held-out task and seed in both arms; `rule_in_scope`: memory held an active rule for its task scope.

    `legacy` is the arm of the earlier design, where the round was planned with one.
    """

    task: str
    root: str
    seed: int
    scope: str
    rule_in_scope: bool
    control: ArmFacts
    memory: ArmFacts
    legacy: ArmFacts | None = None

    @property
    def arms(self) -> tuple[ArmFacts, ...]:
        """Every arm that it was planned with."""
        return (self.control, self.memory) if self.legacy is None else (self.control, self.memory, self.legacy)


class Comparison(Shape):
    """One outcome compared over one set of tasks; `effect` is None where the set is empty."""

    outcome: Literal["final", "mean_over_decisions"]
    tasks: Literal["all", "rule_in_scope", "no_rule_in_scope"]
    exploratory: bool
    effect: PairedEffect | None


class ArmDifference(Shape):
    """One outcome of one arm minus that of another, over all held-out tasks."""

    arm: str
    minus: str
    outcome: Literal["final", "mean_over_decisions"]
    effect: PairedEffect


class FurtherArm(Shape):
    """The arm of the earlier design, which is compared with beside the registered comparison and decides nothing.

    Attributes:
        planned, with_outcome: its decisions.
        trials, failed: its trials, and those of them without a valid result.
        differences: this arm minus control, and memory minus this arm.
    """

    arm: str
    planned: int
    with_outcome: int
    trials: int
    failed: int
    differences: tuple[ArmDifference, ...]


class HeldOutFacts(Shape):
    """The held-out decisions of a round.

    Attributes:
        metric, unit: the primary metric of both outcomes; `steering`: the metric that trials chose by.
        failed_utility: what a trial without a valid result counts as.
        planned, with_outcome: decisions of control and memory.
        by_source: decisions of the memory arm by what memory had to offer.
        by_card: cards returned, by verdict and reason.
        comparisons: the primary one first.
        legacy: the arm of the earlier design, where the round was planned with one.
    """

    metric: str
    unit: str
    steering: str
    failed_utility: float
    planned: int
    with_outcome: int
    by_source: tuple[Tally, ...]
    by_card: tuple[Tally, ...]
    trials: tuple[TrialFacts, ...]
    comparisons: tuple[Comparison, ...]
    legacy: FurtherArm | None = None


class JournalFacts(Shape):
    """Where the journal of the namespace stood, and its records by kind."""

    position: int
    chain_digest: str
    evidence: int
    lifecycle: int
    retention: int
    records: tuple[Tally, ...]


class PolicyFacts(Shape):
    """A policy that records of the namespace were decided under."""

    policy_id: str
    version: str
    digest: str


class RecallFacts(Shape):
    """A Recall Input that the round's decisions queried."""

    recall_input_id: str
    rules: int
    renderer: str
    tokenizer: str
    indexes: tuple[str, ...]


class RoundFacts(Shape):
    """Everything that is told about one round.

    `rules`, `refused`, `evidence`, `journal` and `policies` are of the whole namespace as it stood; `held_out`,
    `recall_inputs` and `seconds` are of this round. `seconds` is empty where nobody took the time.
    """

    namespace: str
    round: int
    size: str
    made_at: str | None
    rules: tuple[RuleFacts, ...]
    refused: tuple[RefusedFacts, ...]
    evidence: EvidenceFacts
    held_out: HeldOutFacts
    journal: JournalFacts
    policies: tuple[PolicyFacts, ...]
    recall_inputs: tuple[RecallFacts, ...]
    seconds: dict[str, float]
    versions: dict[str, str]

    @property
    def primary(self) -> PairedEffect | None:
        """The comparison that was registered: the final incumbent on all held-out tasks."""
        return next((item.effect for item in self.held_out.comparisons if not item.exploratory), None)
