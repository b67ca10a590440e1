"""What is read of a node's report, what is repaired and what is refused: both published shapes, and real files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from importers.node_report.document import ReportDocument, read_document
from importers.node_report.reasons import REMEDIES, RefusalCode, Refused
from importers.node_report.tree import locate
from records.errors import InvalidSourceError
from records.lineage import (
    ArtifactRole,
    Change,
    EvaluationStatus,
    NodeLabel,
    NodeStatus,
    NotFinite,
    RepairCode,
    ReportShape,
)

ARI = Path(__file__).parents[1] / "data" / "ari_reports"
HEX = "ab" * 32


def report(**changes: Any) -> dict[str, Any]:
    """Return a whole report of the schema's shape; a field that is changed to `...` is left out."""
    made: dict[str, Any] = {
        "schema_version": 1, "node_id": "node_a", "parent_id": "node_r", "ancestor_ids": ["node_r"], "label": "improve",
        "raw_label": "Improve", "depth": 1, "status": "success", "completed_at": "2026-06-11T04:31:55+02:00",
        "files_changed": {
            "added": [{"path": "bench.csv", "sha256": HEX}], "modified": [{"path": "k.c", "sha256_before": HEX}],
            "deleted": ["old.c", {"path": "older.c", "note": "unused"}],
            "inherited_unchanged": [{"path": "run.sh", "from_node_id": "node_r", "sha256": HEX}],
        },
        "metrics": {"GB_per_s": 84.9}, "artifacts": [{"filename": "bench.csv", "role": "data_output", "sha256": HEX}],
    }  # fmt: skip
    return {key: value for key, value in (made | changes).items() if value is not ...}


def read(**changes: Any) -> ReportDocument:
    return read_document(json.dumps(report(**changes)).encode())


def repairs(found: ReportDocument) -> set[tuple[str, str]]:
    return {(each.code.value, each.field) for each in found.repairs.made}


def test_the_shape_of_the_schema_needs_no_repair() -> None:
    found = read()
    assert repairs(found) == set()
    assert (found.shape, found.status, found.label, found.raw_label) == (
        ReportShape.SCHEMA, NodeStatus.SUCCESS, NodeLabel.IMPROVE, "Improve",
    )  # fmt: skip
    assert found.ended_at == "2026-06-11T02:31:55.000000Z"
    assert [(each.change, each.relative_path, each.before, each.after) for each in found.files_changed] == [
        (Change.ADDED, "bench.csv", None, HEX), (Change.MODIFIED, "k.c", HEX, None),
        (Change.DELETED, "old.c", None, None), (Change.DELETED, "older.c", None, None),
        (Change.INHERITED, "run.sh", HEX, HEX),
    ]  # fmt: skip
    (file,) = found.artifacts
    assert (file.path, file.role, file.sha256, file.size_bytes) == ("bench.csv", ArtifactRole.DATA_OUTPUT, HEX, None)


def test_the_shape_of_the_reference_page_is_read_and_a_completed_node_succeeded() -> None:
    """Defect 2.5(3): there a node is `completed` and its files have a `path`; it must not become a failure."""
    found = read(status="completed", artifacts=[{"path": "bench.csv", "sha256": f"sha256:{HEX.upper()}"}])
    assert (found.shape, found.status, found.raw_status) == (
        ReportShape.REFERENCE_PAGE, NodeStatus.SUCCESS, "completed",
    )  # fmt: skip
    assert repairs(found) == {
        ("status_completed", "status"), ("artifact_by_path", "artifacts.0.path"), ("artifact_role", "artifacts.0.role"),
    }  # fmt: skip
    assert [(each.path, each.role, each.sha256) for each in found.artifacts] == [
        ("bench.csv", ArtifactRole.UNKNOWN, HEX)
    ]


@pytest.mark.parametrize("node", ["n_base", "n_prop"])
def test_the_published_fixtures_that_break_their_own_schema_are_refused_by_name(node: str) -> None:
    """Row 8 of reference.md 5: no status, no metrics, no artifacts, and texts where objects belong."""
    data = (ARI / node / "node_report.json").read_bytes()
    with pytest.raises(Refused) as refused:
        read_document(data)
    assert (refused.value.code, refused.value.field) == (RefusalCode.MISSING_FIELD, "status")
    whole = json.loads(data) | {"status": "success", "metrics": {}, "artifacts": []}
    found = read_document(json.dumps(whole).encode())
    assert repairs(found) == {
        ("change_as_text", "files_changed.added.0"), ("changes_missing", "files_changed.inherited_unchanged"),
        ("label_missing", "label"), ("depth_missing", "depth"),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"label": ...}, {(RepairCode.LABEL_MISSING, "label")}),
        ({"label": "explore"}, {(RepairCode.LABEL_UNKNOWN, "label")}),
        ({"parent_id": ...}, {(RepairCode.PARENT_FROM_ANCESTORS, "parent_id")}),
        ({"depth": ...}, {(RepairCode.DEPTH_MISSING, "depth")}),
        ({"completed_at": ..., "started_at": "2026-06-11"}, {(RepairCode.TIME_FROM_START, "completed_at")}),
        ({"metrics": {"loss": float("nan")}}, {(RepairCode.METRIC_NOT_FINITE, "metrics.loss")}),
        ({"metrics": {"_axis_scores": {"a": 1}}}, {(RepairCode.METRIC_NOT_NUMERIC, "metrics._axis_scores")}),
        ({"metrics": {"passed": True}}, {(RepairCode.METRIC_NOT_NUMERIC, "metrics.passed")}),
        (
            {"artifacts": [{"filename": "a", "role": "table"}]},
            {(RepairCode.ARTIFACT_ROLE, "artifacts.0.role")},
        ),
        ({"artifacts": [{"inline": True, "role": "log"}]}, {(RepairCode.ARTIFACT_INLINE, "artifacts.0")}),
        (
            {"artifacts": [{"filename": "a", "role": "log", "sha256": "abc"}]},
            {(RepairCode.DIGEST_UNREADABLE, "artifacts.0.sha256")},
        ),
        ({"what_was_done": "cafe\u0301"}, {(RepairCode.TEXT_NORMALISED, "what_was_done")}),
    ],
)
def test_what_says_the_same_in_other_words_is_repaired_and_noted(
    changes: dict[str, Any], expected: set[tuple[RepairCode, str]]
) -> None:
    assert repairs(read(**changes)) == {(code.value, field) for code, field in expected}


def test_a_number_that_is_none_stays_a_typed_fact() -> None:
    data = json.dumps(report(metrics={"a": 1, "b": "x"})).replace('"x"', '1e999, "c": -Infinity, "d": NaN')
    found = read_document(data.encode())
    assert [(each.name, each.value) for each in found.metrics] == [("a", "1")]
    assert [(each.name, each.value) for each in found.not_finite] == [
        ("b", NotFinite.INFINITE), ("c", NotFinite.MINUS_INFINITE), ("d", NotFinite.NAN),
    ]  # fmt: skip


def test_a_fault_of_the_infrastructure_is_told_apart_from_a_bad_candidate() -> None:
    assert read(evaluation_status="infrastructure_error").evaluation_status is EvaluationStatus.INFRASTRUCTURE_ERROR
    assert read(measurement_valid=False).evaluation_status is EvaluationStatus.CANDIDATE_INVALID
    assert read().evaluation_status is None


@pytest.mark.parametrize(
    ("changes", "code", "field"),
    [
        ({"schema_version": 2}, RefusalCode.SCHEMA_VERSION, "schema_version"),
        ({"schema_version": True}, RefusalCode.WRONG_TYPE, "schema_version"),
        ({"node_id": "../up"}, RefusalCode.WRONG_TYPE, "node_id"),
        ({"status": "running"}, RefusalCode.NOT_FINAL, "status"),
        ({"status": "great"}, RefusalCode.UNKNOWN_VALUE, "status"),
        ({"evaluation_status": "perhaps"}, RefusalCode.UNKNOWN_VALUE, "evaluation_status"),
        ({"evaluation_status": {}}, RefusalCode.UNKNOWN_VALUE, "evaluation_status"),
        ({"metrics": []}, RefusalCode.WRONG_TYPE, "metrics"),
        ({"metrics": {"": 1}}, RefusalCode.WRONG_TYPE, "metrics."),
        ({"metrics": {"\u00e9": 1, "e\u0301": 2}}, RefusalCode.NAMED_TWICE, "metrics.e\u0301"),
        ({"files_changed": ...}, RefusalCode.MISSING_FIELD, "files_changed"),
        ({"artifacts": ...}, RefusalCode.MISSING_FIELD, "artifacts"),
        ({"artifacts": [{"filename": "/etc/passwd"}]}, RefusalCode.UNSAFE_PATH, "artifacts.0.filename"),
        ({"artifacts": [{"filename": "a/../../b"}]}, RefusalCode.UNSAFE_PATH, "artifacts.0.filename"),
        ({"artifacts": [{"filename": "a\\b"}]}, RefusalCode.UNSAFE_PATH, "artifacts.0.filename"),
        ({"artifacts": [{"filename": "a\x00b"}]}, RefusalCode.UNSAFE_PATH, "artifacts.0.filename"),
        ({"artifacts": [{"filename": "a"}, {"path": "a"}]}, RefusalCode.NAMED_TWICE, "artifacts"),
        ({"artifacts": [{"role": "log"}]}, RefusalCode.MISSING_FIELD, "filename"),
        ({"files_changed": {"added": ["../x"]}}, RefusalCode.UNSAFE_PATH, "files_changed.added.0"),
        ({"completed_at": "yesterday"}, RefusalCode.WRONG_TYPE, "completed_at"),
        ({"parent_id": "node_x"}, RefusalCode.ANCESTORS_CONTRADICT, "ancestor_ids"),
        ({"ancestor_ids": ["node_r", "node_r"]}, RefusalCode.ANCESTORS_CONTRADICT, "ancestor_ids"),
        ({"ancestor_ids": ["node_a"], "parent_id": "node_a"}, RefusalCode.ANCESTORS_CONTRADICT, "ancestor_ids"),
        ({"depth": "1"}, RefusalCode.WRONG_TYPE, "depth"),
        ({"what_was_done": "half \ud800"}, RefusalCode.WRONG_TYPE, "what_was_done"),
    ],
)
def test_what_cannot_be_taken_is_refused_with_code_and_field(
    changes: dict[str, Any], code: RefusalCode, field: str
) -> None:
    with pytest.raises(Refused) as refused:
        read(**changes)
    assert (refused.value.code, refused.value.field) == (code, field)
    error = refused.value.error("here/node_report.json")
    assert isinstance(error, InvalidSourceError)
    assert (error.field.startswith("here/node_report.json"), error.remedy) == (True, REMEDIES[code])


@pytest.mark.parametrize(
    "data",
    [b"", b"\xff", b"[]", b"null", b'{"a": 1, "a": 2}', b"[" * 100_000, b'{"a": ' + b"9" * 5_000 + b"}", b"{]"],
)
def test_what_is_no_json_object_is_refused(data: bytes) -> None:
    with pytest.raises(Refused) as refused:
        read_document(data)
    assert refused.value.code is RefusalCode.NOT_JSON


def test_every_code_has_its_remedy() -> None:
    assert set(REMEDIES) == set(RefusalCode)


def test_reports_are_found_in_files_and_folders_and_links_are_not_followed(tmp_path: Path) -> None:
    for name in ("run/b", "run/a", "other/c"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "node_report.json").write_text("{}")
    (tmp_path / "run" / "linked").symlink_to(tmp_path / "other")
    found = locate([tmp_path / "run" / "b" / "node_report.json", tmp_path])
    assert [(each.checkpoint_id, each.node_id) for each in found] == [("other", "c"), ("run", "a"), ("run", "b")]
    assert {each.checkpoint_id for each in locate([tmp_path], "mine")} == {"mine"}
    (tmp_path / "empty").mkdir()
    for wrong in (tmp_path / "empty", tmp_path / "none", tmp_path / "run" / "b" / "x.json"):
        with pytest.raises(InvalidSourceError):
            locate([wrong])
