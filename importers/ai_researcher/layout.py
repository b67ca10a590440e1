"""The tables of AI-Researcher's ledger, schema revisions 1 and 2, as data.

Facts of the file format, read from the public program (LIHUA919/AI-Researcher at bbb94d1, Apache-2.0): revision 1 has
nine tables and `user_version` 0, revision 2 adds two and sets `user_version` 2; no file has `user_version` 1. Each
record table holds an id, some columns that repeat fields of the payload, and the payload as JSON text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from records.legacy import LegacyTable

USER_VERSIONS: Final[dict[int, int]] = {0: 1, 2: 2}
"""Schema revision by `user_version`."""

PAYLOAD: Final = "payload_json"
TIMES: Final = frozenset({"created_at"})
"""Columns that hold a moment, which payload and column may write differently."""


@dataclass(frozen=True, kw_only=True)
class Column:
    """A column: its declared type, whether it is NOT NULL, and its place in the primary key (0: none)."""

    name: str
    type: str = "TEXT"
    required: bool = True
    key: int = 0


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table.

    Attributes:
        revision: the schema revision that brought it.
        unique: sets of columns that are unique together, the primary key among them.
        foreign_keys: (column, table that it points to, column there).
        indexes: further indexes by name.
        id_field: payload field that holds the id; None for the join table, which has no payload.
        fields: every field of the payload; `optional` may be absent.
        repeats: how a column follows from the payload.
        time_field: payload field that holds the record's time.
    """

    name: LegacyTable
    revision: int
    columns: tuple[Column, ...]
    unique: frozenset[tuple[str, ...]]
    foreign_keys: frozenset[tuple[str, str, str]]
    indexes: Mapping[str, tuple[str, ...]]
    id_field: str | None
    fields: frozenset[str]
    optional: frozenset[str]
    repeats: Mapping[str, Callable[[Mapping[str, Any]], Any]]
    time_field: str


def _field(*path: str) -> Callable[[Mapping[str, Any]], Any]:
    def read(payload: Mapping[str, Any]) -> Any:
        value: Any = payload
        for name in path:
            value = None if value is None else value[name]
        return value

    return read


def _is_valid(payload: Mapping[str, Any]) -> int:
    verification = payload["verification"]
    return int(bool(verification and verification["valid"]))


def _record_table(
    name: LegacyTable,
    fields: str,
    *,
    columns: Mapping[str, Callable[[Mapping[str, Any]], Any]],
    keys: Mapping[str, LegacyTable] | None = None,
    nullable: frozenset[str] = frozenset(),
    integers: frozenset[str] = frozenset(),
    unique: tuple[tuple[str, ...], ...] = (),
    indexes: Mapping[str, tuple[str, ...]] | None = None,
    optional: frozenset[str] = frozenset(),
    time_field: str = "created_at",
    revision: int = 1,
) -> Table:
    listed = fields.split()
    middle = (
        Column(name=each, type="INTEGER" if each in integers else "TEXT", required=each not in nullable)
        for each in columns
    )
    return Table(
        name=name,
        revision=revision,
        columns=(Column(name="record_id", required=False, key=1), *middle, Column(name=PAYLOAD)),
        unique=frozenset({("record_id",), *unique}),
        foreign_keys=frozenset((column, target.value, "record_id") for column, target in (keys or {}).items()),
        indexes=indexes or {},
        id_field=listed[0],
        fields=frozenset({*listed, "schema_version", *optional}),
        optional=optional,
        repeats=columns,
        time_field=time_field,
    )


def _same(*names: str) -> dict[str, Callable[[Mapping[str, Any]], Any]]:
    return {name: _field(name) for name in names}


_DIGESTS: Final = (
    "source_digest", "config_digest", "environment_digest", "dataset_digest", "evidence_digest", "contract_digest",
)  # fmt: skip

_JOIN: Final = Table(
    name=LegacyTable.KNOWLEDGE_SOURCES,
    revision=1,
    columns=(Column(name="knowledge_id", key=1), Column(name="experience_id", key=2)),
    unique=frozenset({("knowledge_id", "experience_id")}),
    foreign_keys=frozenset(
        {
            ("knowledge_id", LegacyTable.KNOWLEDGE.value, "record_id"),
            ("experience_id", LegacyTable.EXPERIENCES.value, "record_id"),
        }
    ),
    indexes={},
    id_field=None,
    fields=frozenset(),
    optional=frozenset(),
    repeats={},
    time_field="",
)

_ALL: Final = (
    _record_table(
        LegacyTable.HYPOTHESES,
        "hypothesis_id task_id statement mechanism expected_metric metric_direction conditions parent_experience_ids "
        "citations created_at",
        columns={},
    ),
    _record_table(
        LegacyTable.ATTEMPTS,
        "attempt_id run_id iteration_id task_id hypothesis_id code_revision dataset_id dataset_digest "
        "model_config_digest seed budget evaluation_contract_id recall_snapshot_id status created_at",
        columns=_same("hypothesis_id"),
        keys={"hypothesis_id": LegacyTable.HYPOTHESES},
    ),
    _record_table(
        LegacyTable.OBSERVATIONS,
        "observation_id attempt_id exit_code metrics artifact_refs started_at completed_at environment_fingerprint "
        "error",
        columns=_same("attempt_id"),
        keys={"attempt_id": LegacyTable.ATTEMPTS},
        time_field="completed_at",  # an observation has no created_at
    ),
    _record_table(
        LegacyTable.VERIFICATIONS,
        "verification_id observation_id contract_id contract_version evaluator_digest valid passed outcome "
        "verified_metrics baseline_comparison violations evidence_refs created_at",
        columns=_same("observation_id"),
        keys={"observation_id": LegacyTable.OBSERVATIONS},
        optional=frozenset({"public_feedback"}),  # of the version that wrote the phase-3 bundle
    ),
    _record_table(
        LegacyTable.EXPERIENCES,
        "experience_id task_id hypothesis attempt observation verification analysis created_at",
        columns={
            **_same("task_id"),
            "outcome": _field("verification", "outcome"),
            "valid": _is_valid,
            **_same("created_at"),
        },
        nullable=frozenset({"outcome"}),
        integers=frozenset({"valid"}),
    ),
    _record_table(
        LegacyTable.KNOWLEDGE,
        "knowledge_id task_id domain dataset_id model_family lesson conditions outcome confidence "
        "source_experience_ids promotion_policy_version supersedes created_at",
        columns=_same("task_id", "created_at"),
    ),
    _JOIN,
    _record_table(
        LegacyTable.PROMOTIONS,
        "decision_id experience_id accepted reasons policy_version knowledge_id created_at",
        columns=_same("experience_id", "knowledge_id", "created_at"),
        keys={"experience_id": LegacyTable.EXPERIENCES, "knowledge_id": LegacyTable.KNOWLEDGE},
        nullable=frozenset({"knowledge_id"}),
    ),
    _record_table(
        LegacyTable.RECALLS,
        "snapshot_id memory_snapshot_id request items token_count created_at",
        columns=_same("created_at"),
    ),
    _record_table(
        LegacyTable.INTERVENTIONS,
        "intervention_id run_id iteration_id task_id hypothesis_id recall_snapshot_id previous_intervention_id "
        "proposal proposal_digest resolved_config config_digest intervention_digest manipulation_status violations "
        "created_at",
        columns={
            **_same("run_id", "iteration_id", "task_id"),
            "domain": _field("proposal", "domain"),
            "schema_id": _field("proposal", "schema_id"),
            **_same("manipulation_status", "config_digest", "previous_intervention_id", "created_at"),
        },
        keys={"previous_intervention_id": LegacyTable.INTERVENTIONS},
        nullable=frozenset({"config_digest", "previous_intervention_id"}),
        unique=(("run_id", "iteration_id"),),
        indexes={"idx_intervention_records_run": ("run_id", "iteration_id")},
        revision=2,
    ),
    _record_table(
        LegacyTable.PROVENANCES,
        "provenance_id attempt_id observation_id intervention_id proposal_digest intervention_digest source_digest "
        "config_digest environment_digest dataset_digest contract_digest evaluator_digest attempt_spec_digest "
        "evidence_digest execution_envelope_ref created_at",
        columns=_same("attempt_id", "observation_id", "intervention_id", *_DIGESTS, "created_at"),
        keys={
            "attempt_id": LegacyTable.ATTEMPTS,
            "observation_id": LegacyTable.OBSERVATIONS,
            "intervention_id": LegacyTable.INTERVENTIONS,
        },
        unique=(("observation_id",),),
        indexes={"idx_trial_provenance_attempt": ("attempt_id",)},
        revision=2,
    ),
)

LAYOUT: Final[dict[LegacyTable, Table]] = {table.name: table for table in _ALL}
"""Every table by name, those that others point to first."""


def tables_of(revision: int) -> tuple[Table, ...]:
    """Return the tables of a schema revision."""
    return tuple(table for table in LAYOUT.values() if table.revision <= revision)
