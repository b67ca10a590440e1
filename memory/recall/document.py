"""The words by which a rule, a procedure or an episode is found, and the words of a request.

Rules kept here: all are pure functions of their input; another rule is another name of that rule, which is
part of an index's identity.
"""

from __future__ import annotations

from typing import Final

from policies.episodes import Episode
from records.decisions import RecallRequest
from records.knowledge import MemoryRecord
from records.procedures import ProcedureRecord

DOCUMENT_RULE: Final = "memory-document/1"
PROCEDURE_RULE: Final = "procedure-document/1"
EPISODE_RULE: Final = "episode-document/1"


def document_text(record: MemoryRecord) -> str:
    """Return claim, scope, target, mechanism and metric of a record as one text."""
    knob, metric = record.target.knob, record.effect.metric
    return "\n".join(
        (
            record.claim,
            record.scope_description,
            f"{record.action.value} {knob.name} {knob.from_value} to {knob.to_value}",
            f"{record.target.decision_point.value} {record.scope.domain} {record.mechanism.replace('_', ' ')}",
            f"{metric.direction.value} {metric.name}",
        )
    )


def procedure_text(record: ProcedureRecord) -> str:
    """Return goal, scope, steps, mechanism, failures and metric of a procedure as one text."""
    procedure, metric = record.procedure, record.procedure.trigger.metric
    return "\n".join(
        (
            f"{procedure.trigger.goal.replace(':', ' ').replace('_', ' ')} {procedure.trigger.decision_point.value}",
            record.scope_description,
            *(f"{step.action.operation.replace('_', ' ')}: {step.purpose}" for step in procedure.steps),
            *(f"{mode.code} {mode.detail}" for mode in procedure.failure_modes),
            f"{record.scope.domain} {' '.join(need.tool for need in procedure.tools)}",
            f"{metric.direction.value} {metric.name}",
        )
    )


def episode_text(episode: Episode) -> str:
    """Return hypothesis, change, outcome, failure and metric of an episode as one text."""
    bundle, metric = episode.bundle, episode.bundle.contract.primary_metric
    knob = bundle.intervention.knob
    return "\n".join(
        (
            bundle.hypothesis.statement,
            bundle.experience.analysis,
            "no change" if knob is None else f"{knob.name} {knob.from_value} to {knob.to_value}",
            f"{bundle.intervention.decision_point.value} {bundle.contract.domain}",
            " ".join(filter(None, (episode.signature, bundle.observation.error, *bundle.verification.violations))),
            f"{metric.direction.value} {metric.name}",
        )
    )


def query_text(request: RecallRequest) -> str:
    """Return the words of a request: its query, then the typed fields that say what the decision is about."""
    knobs = " ".join(sorted({action.knob for action in request.allowed_actions}))
    lines = (
        request.query,
        request.prior_observation or "",
        request.failure_signature or "",
        f"{request.decision_point.value} {request.scope.domain} {knobs}",
        f"{request.metric.direction.value} {request.metric.name}",
    )
    return "\n".join(line for line in lines if line)
