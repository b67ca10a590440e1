"""What became of workspace claims: traces of retrievals, and receipts of the trials that they informed (spec 004).

Rules kept here:

- every retrieval leaves one trace, whether it shows something or abstains, with the version of the shadow policy that
  it asked. What that policy recommends is told, and nothing follows from it;
- a receipt repeats what its trace showed and the version that its trace names, and counts once for a trace and trial
  (reference: defect 4);
- nothing here is evidence, and no frontier moves.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Self

from pydantic import Field, model_validator

from records.base import Child, Kind, Record
from records.fields import Digest, Metric, Name, Text
from records.ids import ClaimEventId, ClaimTraceId, WorkspaceClaimId
from records.models import Model
from records.values import Count, PolicyIdentity, Signed
from records.workspace import ClaimText, ClaimType, Ordinal, PredicateFinding


class ShadowVersion(Model):
    """A state of the shadow policy: its rules, how many receipts it has seen, and the digest of its weights."""

    policy: PolicyIdentity
    version: Count
    weights_digest: Digest


class Recommendation(StrEnum):
    """What the shadow policy would do with a claim."""

    INJECT = "inject"
    WITHHOLD = "withhold"


class TraceReason(StrEnum):
    """Why a claim that could be shown was selected or withheld."""

    SELECTED = "selected"
    QUOTA = "quota"
    BUDGET = "budget"
    LIMIT = "limit"


class TraceEnding(StrEnum):
    """How a retrieval ended; all but the first are abstentions."""

    SELECTED = "selected"
    NO_DURABLE_CLAIM = "no_durable_claim"
    NO_VALID_CLAIM = "no_valid_claim"
    NOTHING_RELEVANT = "nothing_relevant"
    BUDGET_TOO_SMALL = "budget_too_small"


class ListRank(Model):
    """The rank of a claim in one candidate list, from one."""

    name: Name
    rank: Ordinal


class TraceItem(Model):
    """A relevant claim with what was decided about it.

    Attributes:
        event_id: the event that made it what it was.
        score: its fused score, in millionths.
        tokens: of its entry in the section.
        recommended: what the shadow policy would have done; nothing follows from it.
        shadow_value: the value that it recommends by, in steps of 2^-20.
    """

    claim_id: WorkspaceClaimId
    event_id: ClaimEventId
    claim_type: ClaimType
    reason: TraceReason
    score: Count
    ranks: tuple[ListRank, ...]
    tokens: Count
    recommended: Recommendation
    shadow_value: Signed


class Refused(Model):
    """A durable claim whose predicates do not hold now."""

    claim_id: WorkspaceClaimId
    findings: Annotated[tuple[PredicateFinding, ...], Field(min_length=1)]


class ClaimTrace(
    Record,
    kind=Kind(
        noun="claim-trace",
        table="claim_traces",
        outside=frozenset({"latency_us"}),
        columns=("workspace", "task_id"),
        children=(
            Child(path="items", table="claim_trace_items", columns=("claim_id", "reason"), unique=("claim_id",)),
        ),
    ),
):
    """What one retrieval did: candidates, scores, reasons, costs, and what was shown.

    Attributes:
        task_id: the task that it is for.
        occasion: tells retrievals apart that ask the same; each leaves one trace.
        ledger_position: of the namespace when the claims were read.
        considered: claims of the workspace; `durable` of them were durable, `refused` of those did not hold.
        budget: most tokens of the section; `token_count` is what it has.
        rendered_digest: of the section in UTF-8; it is made of the claims again.
    """

    workspace: Name
    task_id: Name
    occasion: Name
    objective: ClaimText
    policy: PolicyIdentity
    renderer: Name
    tokenizer: Name
    embedder: Text | None
    ledger_position: Count
    considered: Count
    durable: Count
    refused: tuple[Refused, ...]
    items: tuple[TraceItem, ...]
    ending: TraceEnding
    budget: Count
    token_count: Count
    rendered_digest: Digest
    shadow: ShadowVersion
    latency_us: Count

    @property
    def selected(self) -> tuple[WorkspaceClaimId, ...]:
        """The claims that were shown, best first."""
        return tuple(each.claim_id for each in self.items if each.reason is TraceReason.SELECTED)

    @model_validator(mode="after")
    def _ends_as_it_says(self) -> Self:
        if bool(self.selected) != (self.ending is TraceEnding.SELECTED):
            raise ValueError("a retrieval abstains exactly if it shows nothing")
        if len(self.refused) > self.durable or self.durable > self.considered:
            raise ValueError("refused claims are among the durable ones, and those among the considered ones")
        if self.token_count > self.budget:
            raise ValueError("a section stays within its budget")
        return self


class TrialOutcome(Model):
    """What an environment found about one trial; words of an agent are no outcome.

    Attributes:
        grader: the tests or checks that found it, with the digest of what they said.
        duration_ms: of the trial; null where nobody measured.
    """

    passed: bool
    corrected: bool
    reverted: bool
    unauthorised_side_effect: bool
    tokens: Count | None
    duration_ms: Count | None
    grader: Name
    grader_digest: Digest


class ClaimReceipt(
    Record,
    kind=Kind(
        noun="claim-receipt",
        table="claim_receipts",
        columns=("task_id", "trial_id"),
        unique=(("trace_id", "trial_id"),),
    ),
):
    """The outcome of one trial that a trace informed; it counts once.

    Attributes:
        selected: what the trace showed.
        shadow: the version of the shadow policy at retrieval, as the trace has it.
        policy: the rules of the reward.
        reward: -2 to 1, from the outcome alone.
    """

    trace_id: ClaimTraceId
    task_id: Name
    trial_id: Name
    selected: tuple[WorkspaceClaimId, ...]
    shadow: ShadowVersion
    outcome: TrialOutcome
    policy: PolicyIdentity
    reward: Metric
