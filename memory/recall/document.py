"""The words by which a memory record is found, and the words of a request.

Rules kept here: both are pure functions of their input; another rule is another `DOCUMENT_RULE`, which is part of an
index's identity.
"""

from __future__ import annotations

from typing import Final

from records.decisions import RecallRequest
from records.knowledge import MemoryRecord

DOCUMENT_RULE: Final = "memory-document/1"


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


def query_text(request: RecallRequest) -> str:
    """Return the words of a request: its query, then the typed fields that say what the decision is about."""
    knobs = " ".join(sorted({action.knob for action in request.allowed_actions}))
    lines = (
        request.query,
        request.prior_observation or "",
        f"{request.decision_point.value} {request.scope.domain} {knobs}",
        f"{request.metric.direction.value} {request.metric.name}",
    )
    return "\n".join(line for line in lines if line)
