"""What hard filters read of procedures and of episodes; of rules `policies.hard_filters` itself does (docs/adr/0061).

The first field is the id of the row. A field of several values is canonical JSON.
"""

from __future__ import annotations

from typing import Final

from policies.episodes import Episode
from policies.hard_filters import SCOPE_FIELDS
from records.canonical import canonical_bytes, parse_canonical
from records.procedures import Action, ProcedureRecord
from records.values import Disposition, MemoryScope

_SCOPE: Final = tuple(name for name, _ in SCOPE_FIELDS)
PROCEDURE_FIELDS: Final = (
    "memory_id", "namespace", "visibility", "disposition", *_SCOPE, "metric", "budget_class", "decision_point",
    "catalog_digest", "situation", "tools", "changes",
)  # fmt: skip
"""The columns of procedures: `tools` maps tools to their versions, `changes` lists the settings that steps lead to."""

EPISODE_FIELDS: Final = (
    "experience_id", "namespace", "visibility", "run_id", "arm", "pair", *_SCOPE, "metric", "budget_class",
    "catalog_digest", "failure_signature",
)  # fmt: skip
"""The columns of episodes."""


def procedure_facts(record: ProcedureRecord, disposition: Disposition) -> dict[str, str | None]:
    """Return what filters read of a procedure, by the names of `PROCEDURE_FIELDS`."""
    procedure = record.procedure
    changes = [change for step in procedure.steps if (change := changed_setting(step.action)) is not None]
    return {
        "memory_id": str(record.id),
        "namespace": record.namespace,
        "disposition": disposition.value,
        **_scope_facts(record.scope),
        "metric": procedure.trigger.metric.canonical.decode(),
        "decision_point": procedure.trigger.decision_point.value,
        "catalog_digest": procedure.catalog_digest,
        "situation": procedure.trigger.situation,
        "tools": canonical_bytes({need.tool: list(need.versions) for need in procedure.tools}).decode(),
        "changes": canonical_bytes(changes).decode(),
    }


def episode_facts(episode: Episode) -> dict[str, str | None]:
    """Return what filters read of an episode, by the names of `EPISODE_FIELDS`."""
    bundle = episode.bundle
    return {
        "experience_id": episode.id,
        "namespace": bundle.experience.namespace,
        "run_id": str(bundle.attempt.run_id),
        "arm": bundle.attempt.arm,
        "pair": bundle.attempt.pair,
        **_scope_facts(episode.scope),
        "metric": bundle.contract.primary_metric.canonical.decode(),
        "catalog_digest": bundle.intervention.catalog_digest,
        "failure_signature": episode.signature,
    }


def changed_setting(action: Action) -> list[str] | None:
    """Return the knob that a step sets and the value, as canonical JSON text; None for a step that sets none."""
    given = {each.name: each.value.value for each in action.parameters}
    if not {"knob", "to"} <= given.keys():
        return None
    name = parse_canonical(given["knob"])
    return [name, given["to"]] if isinstance(name, str) else None


def _scope_facts(scope: MemoryScope) -> dict[str, str | None]:
    values = scope.as_json()
    facts: dict[str, str | None] = {name: values[name] for name in _SCOPE}
    return facts | {"visibility": scope.visibility, "budget_class": scope.budget_class}
