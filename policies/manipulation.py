"""The manipulation check: whether a decision really changed what was executed (spec 9.7, 16, VRM-R08; reference 1.4).

Pure, over what the Ledger holds. Recalling, citing or adopting a card passes no check. A decision passes as `changed`
only if another legal configuration ran than before, and Trial Provenance saw exactly that configuration. The result is
one of four. The guard of `LINK_ATTEMPT` refuses a link whose check is `rejected`; of every link that there is, the
stored Intervention holds the result, and it can be computed again from the records that the link ties together.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from policies.catalog import packaged_catalogs
from records.evidence import Attempt, Intervention, TrialProvenance
from records.outcomes import DecisionStatus, RecallOutcome


class ManipulationResult(StrEnum):
    """What a decision did to what was executed."""

    BASELINE = "baseline"
    CHANGED = "changed"
    NO_EFFECT = "no_effect"
    REJECTED = "rejected"


@dataclass(frozen=True, kw_only=True)
class ManipulationCheck:
    """The result of one check.

    Attributes:
        config_digest: the configuration that provenance saw; None where nothing ran.
        faults: why it is `rejected`, in words; empty otherwise.
    """

    result: ManipulationResult
    config_digest: str | None
    faults: tuple[str, ...] = ()


def manipulation_check(
    outcome: RecallOutcome,
    attempt: Attempt | None = None,
    intervention: Intervention | None = None,
    provenance: TrialProvenance | None = None,
) -> ManipulationCheck:
    """Return what a decision did.

    Args:
        outcome: the account of the decision.
        attempt: what was executed for it, if anything was; intervention and provenance are of that attempt.
        intervention: the typed change with the configurations before and after.
        provenance: what was seen to be executed.
    """
    if attempt is None:
        nothing = outcome.decision_status is not DecisionStatus.COMPLETED and outcome.effective_config_digest is None
        refused = outcome.decision_status is DecisionStatus.REJECTED
        if nothing and not refused:
            return ManipulationCheck(result=ManipulationResult.BASELINE, config_digest=None)
        fault = "it was refused before execution" if refused else "nothing was executed for it"
        return ManipulationCheck(result=ManipulationResult.REJECTED, config_digest=None, faults=(fault,))
    seen = None if provenance is None else provenance.config_digest
    faults = tuple(_faults(outcome, attempt, intervention, provenance))
    if faults or intervention is None:
        return ManipulationCheck(result=ManipulationResult.REJECTED, config_digest=seen, faults=faults)
    return ManipulationCheck(result=ManipulationResult(intervention.manipulation.value), config_digest=seen)


def _faults(
    outcome: RecallOutcome, attempt: Attempt, intervention: Intervention | None, provenance: TrialProvenance | None
) -> Iterator[str]:
    if outcome.decision_status is not DecisionStatus.COMPLETED:
        yield f"a decision that is {outcome.decision_status} executes nothing"
    if intervention is None:
        yield "no typed intervention was recorded"
        return
    if provenance is None:
        yield "no provenance says what was executed"
        return
    knob = intervention.knob
    done = (None, None) if knob is None else (knob.name, knob.to_value)
    if (intervention.attempt_id, provenance.attempt_id) != (attempt.id, attempt.id):
        yield "intervention or provenance is of another attempt"
    if provenance.intervention_id != intervention.id:
        yield "provenance saw another intervention"
    configs = {provenance.config_digest, attempt.config_digest, intervention.config_digest}
    if configs != {outcome.effective_config_digest}:
        yield "the executed configuration is not the decided one"
    if done != (outcome.proposed_knob, outcome.proposed_value):
        yield "the executed intervention is not the decided one"
    catalog = packaged_catalogs().get(intervention.catalog_digest)
    if catalog is not None and knob is not None and not catalog.registers(knob):
        yield "the catalog does not register the executed change"
