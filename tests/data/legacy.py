"""AI-Researcher's ledgers for tests: its documented schema, written down a second time, filled with real payloads.

The payloads of knowledge, verification and recall records are those of the published phase-3 bundle
(`tests/data/phase3/PROVENANCE.md`). It publishes no hypotheses, attempts, observations and experiences, so those that
the real ones point at are made up here under the real ids. `full_rows` is one made-up trial with everything in it.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import zipfile
from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, Final

BUNDLE: Final = Path(__file__).parent / "phase3" / "bundle.zip"
TIME: Final = "2026-07-25T17:00:00Z"
COLUMN_TIME: Final = "2026-07-25T17:00:00+00:00"

NINE: Final[dict[str, str]] = {
    "hypotheses": "record_id TEXT PRIMARY KEY, payload_json TEXT NOT NULL",
    "experiment_attempts": "record_id TEXT PRIMARY KEY, hypothesis_id TEXT NOT NULL, payload_json TEXT NOT NULL, "
    "FOREIGN KEY (hypothesis_id) REFERENCES hypotheses(record_id)",
    "observations": "record_id TEXT PRIMARY KEY, attempt_id TEXT NOT NULL, payload_json TEXT NOT NULL, "
    "FOREIGN KEY (attempt_id) REFERENCES experiment_attempts(record_id)",
    "verification_records": "record_id TEXT PRIMARY KEY, observation_id TEXT NOT NULL, payload_json TEXT NOT NULL, "
    "FOREIGN KEY (observation_id) REFERENCES observations(record_id)",
    "experience_records": "record_id TEXT PRIMARY KEY, task_id TEXT NOT NULL, outcome TEXT, valid INTEGER NOT NULL, "
    "created_at TEXT NOT NULL, payload_json TEXT NOT NULL",
    "knowledge_records": "record_id TEXT PRIMARY KEY, task_id TEXT NOT NULL, created_at TEXT NOT NULL, "
    "payload_json TEXT NOT NULL",
    "knowledge_sources": "knowledge_id TEXT NOT NULL, experience_id TEXT NOT NULL, "
    "PRIMARY KEY (knowledge_id, experience_id), FOREIGN KEY (knowledge_id) REFERENCES knowledge_records(record_id), "
    "FOREIGN KEY (experience_id) REFERENCES experience_records(record_id)",
    "promotion_decisions": "record_id TEXT PRIMARY KEY, experience_id TEXT NOT NULL, knowledge_id TEXT, "
    "created_at TEXT NOT NULL, payload_json TEXT NOT NULL, "
    "FOREIGN KEY (experience_id) REFERENCES experience_records(record_id), "
    "FOREIGN KEY (knowledge_id) REFERENCES knowledge_records(record_id)",
    "recall_contexts": "record_id TEXT PRIMARY KEY, created_at TEXT NOT NULL, payload_json TEXT NOT NULL",
}
TWO_MORE: Final[dict[str, str]] = {
    "intervention_records": "record_id TEXT PRIMARY KEY, run_id TEXT NOT NULL, iteration_id TEXT NOT NULL, "
    "task_id TEXT NOT NULL, domain TEXT NOT NULL, schema_id TEXT NOT NULL, manipulation_status TEXT NOT NULL, "
    "config_digest TEXT, previous_intervention_id TEXT, created_at TEXT NOT NULL, payload_json TEXT NOT NULL, "
    "UNIQUE (run_id, iteration_id), "
    "FOREIGN KEY (previous_intervention_id) REFERENCES intervention_records(record_id)",
    "trial_provenance_records": "record_id TEXT PRIMARY KEY, attempt_id TEXT NOT NULL, "
    "observation_id TEXT NOT NULL UNIQUE, intervention_id TEXT NOT NULL, source_digest TEXT NOT NULL, "
    "config_digest TEXT NOT NULL, environment_digest TEXT NOT NULL, dataset_digest TEXT NOT NULL, "
    "evidence_digest TEXT NOT NULL, contract_digest TEXT NOT NULL, created_at TEXT NOT NULL, "
    "payload_json TEXT NOT NULL, FOREIGN KEY (attempt_id) REFERENCES experiment_attempts(record_id), "
    "FOREIGN KEY (observation_id) REFERENCES observations(record_id), "
    "FOREIGN KEY (intervention_id) REFERENCES intervention_records(record_id)",
}
INDEXES: Final = (
    "CREATE INDEX idx_intervention_records_run ON intervention_records(run_id, iteration_id)",
    "CREATE INDEX idx_trial_provenance_attempt ON trial_provenance_records(attempt_id)",
)

Row = tuple[str, dict[str, Any]]
"""A table and its columns."""


def text_of(payload: Any) -> str:
    """Write a payload as the program did."""
    return json.dumps(payload, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def sha(text: str) -> str:
    """Return the SHA-256 of a text."""
    return hashlib.sha256(text.encode()).hexdigest()


def schema_of(revision: int) -> list[str]:
    """Return the statements that make an empty ledger."""
    tables = NINE | (TWO_MORE if revision == 2 else {})
    statements = [f"CREATE TABLE {name} ({columns})" for name, columns in tables.items()]
    return [*statements, *(INDEXES if revision == 2 else ()), f"PRAGMA user_version = {0 if revision == 1 else 2}"]


def write_ledger(
    path: Path, rows: Iterable[Row], revision: int = 2, statements: Iterable[str] | None = None, *, wal: bool = False
) -> Path:
    """Make a ledger file; `statements` replace its schema."""
    with closing(sqlite3.connect(path)) as link:
        if wal:
            link.execute("PRAGMA journal_mode = WAL")
        for statement in schema_of(revision) if statements is None else statements:
            link.execute(statement)
        for table, columns in rows:
            names = ", ".join(columns)
            marks = ", ".join("?" * len(columns))
            link.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", list(columns.values()))
        link.commit()
    return path


def record(table: str, id_field: str, payload: Mapping[str, Any], **columns: Any) -> Row:
    """Return a row with its payload; `columns` are the indexed ones."""
    return table, {"record_id": payload[id_field], **columns, "payload_json": text_of(payload)}


def bundle_to(folder: Path) -> Path:
    """Unpack the published bundle and return its folder."""
    with zipfile.ZipFile(BUNDLE) as packed:
        packed.extractall(folder)
    return folder


def published() -> dict[str, list[dict[str, Any]]]:
    """Return the records of all 18 published ledgers by list, read with the standard library alone."""
    found: dict[str, list[dict[str, Any]]] = {}
    with zipfile.ZipFile(BUNDLE) as packed:
        for name in sorted(packed.namelist()):
            if name.endswith("/ledger_evidence.json"):
                for key, records in json.loads(packed.read(name)).items():
                    found.setdefault(key, []).extend(records)
    return found


def real_rows() -> list[Row]:
    """Return rows with every published payload that one ledger can hold; recall contexts share ids, so once per id."""
    lists = published()
    rows = [hypothesis("h"), attempt("a", "h")]
    for payload in lists["verification_records"]:
        rows.append(observation(payload["observation_id"], "a"))
        rows.append(
            record("verification_records", "verification_id", payload, observation_id=payload["observation_id"])
        )
    sources = {source for payload in lists["knowledge_records"] for source in payload["source_experience_ids"]}
    rows += [experience(each, lists["verification_records"][0]) for each in sorted(sources)]
    for payload in lists["knowledge_records"]:
        rows += knowledge(payload)
    recalls = {payload["snapshot_id"]: payload for payload in lists["recall_contexts"]}
    rows += [
        record("recall_contexts", "snapshot_id", payload, created_at=column_time(payload["created_at"]))
        for payload in recalls.values()
    ]
    return rows


def column_time(text: str) -> str:
    """Write a time as the program's columns do."""
    return text.removesuffix("Z") + "+00:00"


def knowledge(payload: Mapping[str, Any]) -> list[Row]:
    """Return a knowledge record with its rows in the join table."""
    columns = {"task_id": payload["task_id"], "created_at": column_time(payload["created_at"])}
    joined = [
        ("knowledge_sources", {"knowledge_id": payload["knowledge_id"], "experience_id": each})
        for each in payload["source_experience_ids"]
    ]
    return [record("knowledge_records", "knowledge_id", payload, **columns), *joined]


def _hypothesis(record_id: str, **changes: Any) -> dict[str, Any]:
    return {
        "schema_version": "1", "hypothesis_id": record_id, "task_id": "fsq:task1", "statement": "It helps.",
        "mechanism": "m", "expected_metric": "score", "metric_direction": "maximize", "conditions": ["fixed seed"],
        "parent_experience_ids": [], "citations": [], "created_at": TIME, **changes,
    }  # fmt: skip


def hypothesis(record_id: str, **changes: Any) -> Row:
    """Return a hypothesis."""
    return record("hypotheses", "hypothesis_id", _hypothesis(record_id, **changes))


def _attempt(record_id: str, hypothesis_id: str) -> dict[str, Any]:
    return {
        "schema_version": "1", "attempt_id": record_id, "run_id": "run", "iteration_id": "iteration-1",
        "task_id": "fsq:task1", "hypothesis_id": hypothesis_id, "code_revision": "c", "dataset_id": "d",
        "dataset_digest": sha("d"), "model_config_digest": sha("m"), "seed": 101, "budget": {"iterations": 2},
        "evaluation_contract_id": "contract", "recall_snapshot_id": "none", "status": "completed", "created_at": TIME,
    }  # fmt: skip


def attempt(record_id: str, hypothesis_id: str) -> Row:
    """Return an attempt."""
    return record("experiment_attempts", "attempt_id", _attempt(record_id, hypothesis_id), hypothesis_id=hypothesis_id)


def _observation(record_id: str, attempt_id: str) -> dict[str, Any]:
    return {
        "schema_version": "1", "observation_id": record_id, "attempt_id": attempt_id, "exit_code": 0,
        "metrics": {"score": 0.5}, "artifact_refs": [], "started_at": TIME, "completed_at": "2026-07-25T17:00:01.5Z",
        "environment_fingerprint": "e", "error": None,
    }  # fmt: skip


def observation(record_id: str, attempt_id: str) -> Row:
    """Return an observation."""
    return record("observations", "observation_id", _observation(record_id, attempt_id), attempt_id=attempt_id)


def experience(record_id: str, verification: dict[str, Any] | None) -> Row:
    """Return an experience with nested copies."""
    payload: dict[str, Any] = {
        "schema_version": "1", "experience_id": record_id, "task_id": "fsq:task1", "hypothesis": _hypothesis("h"),
        "attempt": _attempt("a", "h"), "observation": _observation("o", "a"), "verification": verification,
        "analysis": "", "created_at": TIME,
    }  # fmt: skip
    columns = {
        "task_id": "fsq:task1", "outcome": verification and verification["outcome"],
        "valid": int(bool(verification and verification["valid"])), "created_at": COLUMN_TIME,
    }  # fmt: skip
    return record("experience_records", "experience_id", payload, **columns)


def domain_sha(domain: str, value: Any) -> str:
    """Return the program's digest under a domain."""
    return sha(f"ai-researcher/{domain}\0{text_of(value)}")


def intervention(iteration: int = 1, **changes: Any) -> dict[str, Any]:
    """Return a baseline intervention with the digests and the id that its content gives."""
    proposal: dict[str, Any] = {
        "schema_version": "1", "domain": "vq", "schema_id": "s", "decision_point": "intervention", "knob": None,
        "target": None, "cited_knowledge_ids": [], "expected_primary_metric_direction": "unchanged",
        "guardrail_risks": [], "rationale": "Where we start.",
    }  # fmt: skip
    config = {"commitment_weight": 0.25, "seed": 101}
    payload: dict[str, Any] = {
        "schema_version": "1", "run_id": "run", "iteration_id": f"iteration-{iteration}", "task_id": "fsq:task1",
        "hypothesis_id": "h", "recall_snapshot_id": "none", "previous_intervention_id": None, "proposal": proposal,
        "proposal_digest": domain_sha("proposal/v1", proposal), "resolved_config": config,
        "config_digest": domain_sha("run-config/v1", config), "intervention_digest": sha("i"),
        "manipulation_status": "baseline", "violations": [], "created_at": TIME,
    }  # fmt: skip
    covered = ("run_id", "proposal_digest", "manipulation_status", "intervention_digest", "config_digest")
    identity = {name: payload[name] for name in covered} | {"iteration_number": iteration}
    return payload | {"intervention_id": domain_sha("intervention-record-id/v1", identity)} | changes


def provenance(of: Mapping[str, Any], **changes: Any) -> dict[str, Any]:
    """Return the provenance of the trial `o` under an intervention."""
    digests = {
        f"{name}_digest": sha(name)
        for name in ("source", "environment", "dataset", "contract", "evaluator", "attempt_spec", "evidence")
    }
    bound = {"attempt_id": "a", "observation_id": "o", "intervention_id": of["intervention_id"]}
    same = {name: of[name] for name in ("proposal_digest", "intervention_digest", "config_digest")}
    envelope = {"schema_version": "1", "path": "e", "sha256": sha("e"), "media_type": "text/plain", "size_bytes": 1}
    identity = {**bound, **same, **digests, "execution_envelope": {"sha256": sha("e"), "size_bytes": 1}}
    return {
        "schema_version": "1", "provenance_id": domain_sha("trial-provenance-id/v1", identity), **bound, **same,
        **digests, "execution_envelope_ref": envelope, "created_at": TIME, **changes,
    }  # fmt: skip


def intervention_row(payload: Mapping[str, Any]) -> Row:
    """Return an intervention as a row."""
    names = (
        "run_id", "iteration_id", "task_id", "manipulation_status", "config_digest", "previous_intervention_id",
    )  # fmt: skip
    columns = {name: payload[name] for name in names} | {"domain": "vq", "schema_id": "s", "created_at": COLUMN_TIME}
    return record("intervention_records", "intervention_id", payload, **columns)


def provenance_row(payload: Mapping[str, Any]) -> Row:
    """Return a provenance as a row."""
    names = (
        "attempt_id", "observation_id", "intervention_id", "source_digest", "config_digest", "environment_digest",
        "dataset_digest", "evidence_digest", "contract_digest",
    )  # fmt: skip
    columns = {name: payload[name] for name in names} | {"created_at": COLUMN_TIME}
    return record("trial_provenance_records", "provenance_id", payload, **columns)


def full_rows() -> list[Row]:
    """Return one trial with everything that revision 2 can say of it."""
    first = intervention()
    source = experience("x", None)
    lesson = {
        "task_id": "fsq:task1", "domain": "vq", "dataset_id": "d", "model_family": "m", "lesson": "Keep it.",
        "conditions": ["fixed seed"], "outcome": "positive", "confidence": 0.7, "source_experience_ids": ["x"],
        "promotion_policy_version": "1",
    }  # fmt: skip
    key = sha(json.dumps(lesson, sort_keys=True, separators=(",", ":")))
    known = lesson | {"schema_version": "1", "knowledge_id": key, "supersedes": None, "created_at": TIME}
    said = {
        "experience_id": "x", "accepted": True, "reasons": ["eligible"], "policy_version": "1", "knowledge_id": key,
    }  # fmt: skip
    decision = said | {
        "schema_version": "1", "created_at": TIME,
        "decision_id": sha(json.dumps(said, sort_keys=True, separators=(",", ":"))),
    }  # fmt: skip
    decided = {"experience_id": "x", "knowledge_id": key, "created_at": COLUMN_TIME}
    return [
        hypothesis("h"), attempt("a", "h"), observation("o", "a"), source, *knowledge(known),
        record("promotion_decisions", "decision_id", decision, **decided),
        intervention_row(first), provenance_row(provenance(first)),
    ]  # fmt: skip
