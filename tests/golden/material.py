"""What the golden files hold, made by the product; the tests compare and recompute it independently."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from policies.catalog import value_text
from records.base import KINDS, Frontier, Kind, Record
from records.decisions import citation_id
from records.flows import FLOWS, Flow
from records.ids import (
    CardId,
    CitationId,
    EvaluationTaskId,
    ExperienceId,
    FamilyId,
    IntentId,
    LinkId,
    ManifestId,
    MemoryId,
    ProfileId,
    RecallInputId,
    ReferenceCardId,
    ReferenceChunkId,
    ReferenceSourceId,
    RunId,
    ScopeVariantId,
    StratumId,
    SupportUnitId,
    TaskScopeId,
    WorkItemId,
)
from records.knowledge import family_id, scope_variant_id
from records.models import Id
from records.reference import ReferenceContext, chunk_id
from records.runtime import Authorization, activity_id, enqueue_attempt_id, handoff_id, reference_id
from records.states import ARROWS, FENCING, STARTS, Machine, Phase
from store.ledger.schema import DEFINITION as LEDGER
from store.ledger.schema import column_names, referenced
from store.runtime.schema import DEFINITION as RUNTIME
from tests.support.card_samples import sample_cards, sample_requests
from tests.support.decision_samples import every_variant, make_card, sample_records
from tests.support.legacy_samples import every_sample
from tests.support.reference_samples import TEXT
from tests.support.samples import PROFILE, TARGET, baseline_records, link_of, run_of, scope_of
from tests.support.trials import NOW, digest, make_task

FOLDER: Final = Path(__file__).parent


def records_file() -> str:
    """Return one vector per record kind, and per variant that is not the first: payload, canonical bytes and id."""
    return _json(
        {
            name: {
                "id": str(record.id),
                "payload": record.as_json(),
                "canonical": record.payload.decode(),
                "payload_digest": record.payload_digest,
            }
            for name, record in sorted((every_sample() | every_variant()).items())
        }
    )


def ids_file() -> str:
    """Return one vector per noun that has no record kind: projection and id."""
    return _json({noun: {"id": str(made), "projection": projection} for noun, (made, projection) in _nouns().items()})


def _nouns() -> dict[str, tuple[Id, Any]]:
    known = sample_records()
    item, memory = WorkItemId(known["distillation-work-item"].id), MemoryId(known["memory-record"].id)
    intent, recall_input = IntentId(known["decision-intent"].id), RecallInputId(known["recall-input-snapshot"].id)
    card, task, run, scope = make_card(known), make_task(), run_of("test"), scope_of(known)
    link = link_of(known, ExperienceId(baseline_records()[-1].id))
    family = family_id("test", TARGET, "balanced_accuracy", "feature_scaling")
    owned = reference_id("owner", PROFILE.canonical_digest)
    tried = enqueue_attempt_id(handoff_id(item), 1, 1)
    grant = _authorization(known)
    body = {"namespace": "test", "run_kind": "SCIENTIFIC", "admission_key": "study-1"}
    family_body = {
        "namespace": "test", "record_kind": "semantic", "decision_point": "intervention", "knob": TARGET.knob.as_json(),
        "metric": "balanced_accuracy", "mechanism": "feature_scaling",
    }  # fmt: skip
    cited = {"intent_id": str(intent), "recall_input_id": str(recall_input), "card_id": str(card.card_id), "ordinal": 1}
    mine = {"expected_id", "expected_digest", "proposal_digest", "granted_at"}
    context = known["reference-context"]
    assert isinstance(context, ReferenceContext)
    quoted = context.cards[0]
    stretch = {"source_id": str(quoted.source_id), "start": 0, "end": len(TEXT), "sha256": digest(TEXT)}
    made: dict[type[Id], tuple[Id, Any]] = {
        TaskScopeId: (task.task_scope_id, {"taxonomy": "tabular/v1", "attributes": dict(task.attributes)}),
        EvaluationTaskId: (task.evaluation_task_id, {"domain": "tabular", "name": "iris", "root": "iris"}),
        FamilyId: (family, family_body),
        ScopeVariantId: (
            scope_variant_id("test", family, scope, TARGET),
            {
                "namespace": "test",
                "family_id": str(family),
                "scope": scope.as_json(),
                "catalog_digest": TARGET.catalog_digest,
            },
        ),
        StratumId: (StratumId.derive({"stratum": 1}), {"stratum": 1}),
        SupportUnitId: (SupportUnitId.derive({"unit": 1}), {"unit": 1}),
        LinkId: (link.link_id(memory), {"memory_id": str(memory), **link.as_json()}),
        CardId: (card.card_id, card.as_json()),
        CitationId: (citation_id(intent, recall_input, card.card_id, 1), cited),
        ReferenceChunkId: (chunk_id(ReferenceSourceId(quoted.source_id), 0, len(TEXT), digest(TEXT)), stretch),
        ReferenceCardId: (quoted.card_id, quoted.as_json()),
        RunId: (run.id, body),
        type(activity_id(run.id, "s")): (activity_id(run.id, "decide"), {"run_id": str(run.id), "slot": "decide"}),
        type(handoff_id(item)): (handoff_id(item), {"work_item_id": str(item)}),
        type(tried): (tried, {"handoff_id": str(handoff_id(item)), "generation": 1, "fence": 1}),
        type(owned): (owned, {"owner": "owner", "digest": PROFILE.canonical_digest}),
        ProfileId: (PROFILE.id, PROFILE.as_json()),
        ManifestId: (ManifestId.derive({"work_item_id": str(item)}), {"work_item_id": str(item)}),
        type(grant.id): (grant.id, {key: value for key, value in grant.as_json().items() if key not in mine}),
    }
    return {kind.noun: vector for kind, vector in sorted(made.items(), key=lambda pair: pair[0].noun)}


def _authorization(known: dict[str, Record]) -> Authorization:
    context = known["decision-recall-context"]
    run = run_of("test").id
    flow = next(flow for flow in FLOWS.values() if flow.primary == context.kind.noun)
    return Authorization(
        namespace="test",
        transition=flow.transition,
        authority=min(flow.authorities),
        machine=Machine.DECISION,
        subject_id=str(known["decision-intent"].id),
        run_id=run,
        origin_phase=Phase.OPEN,
        generation=1,
        fence=1,
        expected_id=str(context.id),
        expected_digest=context.payload_digest,
        proposal_digest=digest("proposal"),
        granted_at=NOW,
    )


def registry_file() -> str:
    """Return the kind registry and the flows as text."""
    parts = [_kind(KINDS[noun]) for noun in sorted(KINDS)]
    for flow in sorted(FLOWS.values(), key=lambda flow: flow.transition):
        retired = {phase.value: event.value for phase, event in (flow.retired or {}).items()}
        parts.append(
            f"flow {flow.transition}\n"
            f"    authorities {_list(flow.authorities)}\n"
            f"    primary     {flow.primary}\n"
            f"    writes      {_list(flow.writes)}\n"
            f"    shared      {_list(flow.shared)}\n"
            f"    machine     {flow.machine} granted {flow.granted} committed {_ends(flow)} retired {retired}\n"
            f"    reasons     {', '.join(flow.reasons)}\n"
            + (f"    conflicts   {_list(flow.conflicts)}\n" if flow.conflicts else "")
            + f"    derives     {flow.derives}\n"
        )
    return "\n".join(parts)


def _ends(flow: Flow) -> str:
    return str(flow.committed or {status: event.value for status, event in flow.ends.items()} or None)


def _kind(kind: Kind) -> str:
    fields = kind.model.model_fields
    keys = [(name, referenced(fields[name].annotation)) for name in column_names(kind)]
    children = [f"{child.path} -> {child.table} ({', '.join(child.columns)})" for child in kind.children]
    return (
        f"kind {kind.noun}\n"
        f"    id class    {kind.id_class.__name__}, model {kind.model.__name__}, table {kind.table}\n"
        f"    frontier    {kind.frontier.value if isinstance(kind.frontier, Frontier) else 'none'}\n"
        f"    fields      {', '.join(fields)}\n"
        f"    outside id  {_list({'created_at', *kind.outside})}\n"
        f"    columns     {', '.join(column_names(kind))}\n"
        f"    references  {', '.join(f'{name} -> {target.table}' for name, target in keys if target)}\n"
        f"    unique      {'; '.join(', '.join(columns) for columns in kind.unique)}\n"
        f"    children    {'; '.join(children)}\n" + "".join(_variants(kind))
    )


def _variants(kind: Kind) -> Iterator[str]:
    models = {model.__name__: model for _, model in sorted(kind.variants.items())}
    for name, model in models.items():
        values = sorted(value for value, other in kind.variants.items() if other is model)
        own = [field for field in model.model_fields if field not in kind.model.model_fields]
        told = f"{kind.discriminator} {', '.join(values)}: {name}"
        yield f"    variant     {told} with {', '.join(own) or 'nothing more'}\n"


def states_file() -> str:
    """Return the arrows of every machine as text."""
    lines = [f"{machine}: starts {_list(STARTS[machine])}" for machine in Machine]
    lines += [
        f"{machine}: {phase} --{event}--> {target}{' (fence)' if event in FENCING else ''}"
        for (machine, phase, event), target in sorted(ARROWS.items())
    ]
    return "\n".join(lines) + "\n"


def schema_file() -> str:
    """Return the DDL of both authorities."""
    made = [statement for each in (LEDGER, RUNTIME) for statement in (*each.statements(), *each.guards())]
    text = "\n".join(statement.strip() + ";" for statement in made)
    return "\n".join(line.rstrip() for line in text.splitlines()) + "\n"


def values_file() -> str:
    """Return knob values as the text that records hold."""
    values = ["none", 1, 1.0, 0.1, 1e-05, 1e21, True, None, -0.0, "é", [3, "b"]]
    return _json([[value, value_text(value)] for value in values])


def cards_file() -> str:
    """Return one vector per kind of card, and per form of request."""
    cards = {
        kind: {"id": str(card.card_id), "canonical": card.canonical.decode()} for kind, card in sample_cards().items()
    }
    requests = {
        name: {"digest": asked.canonical_digest, "canonical": asked.canonical.decode()}
        for name, asked in sample_requests().items()
    }
    return _json({"cards": cards, "requests": requests})


FILES: Final = {
    "cards.json": cards_file,
    "records.json": records_file,
    "ids.json": ids_file,
    "registry.txt": registry_file,
    "states.txt": states_file,
    "schema.sql": schema_file,
    "values.json": values_file,
}
"""Every golden file with what makes it."""


def _list(items: Any) -> str:
    return ", ".join(sorted(str(item) for item in items))


def _json(value: Any) -> str:
    return json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
