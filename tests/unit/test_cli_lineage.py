"""`vrm import node-report`, `vrm lineage` and `vrm audit artifacts`, run as a user runs them, over stores in memory."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from importers.node_report.declaration import read_declaration
from store.artifacts import ArtifactStore
from store.ledger.memory import MemoryLedger
from store.runtime.memory import MemoryRuntime
from tests.support.lineage_tree import METRIC, artifacts_of, change_report, declare, digest_of, run_search
from tests.support.stack import Stack, Stores
from tests.support.stack_control import checked
from tests.support.stack_jobs import job_over
from vrm.cli.app import app
from vrm.cli.connection import Connection, OpenStores
from vrm.mainjob.lineage import promote_tree

CONTRACT = f"name: {METRIC}\nunit: share\ndirection: maximize\n"


@pytest.fixture
def stack(tmp_path: Path) -> Stack:
    return Stack(Stores(MemoryLedger(), MemoryRuntime(), ArtifactStore(str(tmp_path / "artifacts"))), "demo")


@pytest.fixture
def trees(tmp_path: Path) -> Path:
    run_search(tmp_path / "trees")
    (tmp_path / "metric.yaml").write_text(CONTRACT)
    return tmp_path / "trees"


def run(stack: Stack, *arguments: str, code: int = 0, acts: bool = True, env: dict[str, str] | None = None) -> str:
    """Run a command in the namespace of a stack; one that only looks must ask for no owner."""

    @contextmanager
    def opened() -> Iterator[OpenStores]:
        yield stack.stores

    def never(_stores: OpenStores) -> Any:
        raise AssertionError("nobody who writes may be looked for")

    coordinator = (lambda _stores: stack.coordinator) if acts else never
    joined = Connection(opened, list, coordinator, never)
    shown = {"COLUMNS": "240", "NO_COLOR": "1", "VRM_LINEAGE_CONSOLIDATE": "", "VRM_LINEAGE_NODE": ""} | (env or {})
    result = CliRunner().invoke(app, [*arguments, "--namespace", "demo"], obj=joined, env=shown)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code == code, result.output
    return result.stdout if code < 2 or "--json" in arguments else result.stderr


def told(stack: Stack, *arguments: str, code: int = 0, acts: bool = True, env: dict[str, str] | None = None) -> Any:
    return json.loads(run(stack, *arguments, "--json", code=code, acts=acts, env=env))


def imported(stack: Stack, trees: Path) -> dict[str, Any]:
    found = told(stack, "import", "node-report", str(trees), "--contract", str(trees.parent / "metric.yaml"))
    return {each["node"]: each for each in found["reports"]}


def test_a_tree_is_imported_and_importing_again_adds_nothing(stack: Stack, trees: Path) -> None:
    contract = str(trees.parent / "metric.yaml")
    first = told(stack, "import", "node-report", str(trees), "--contract", contract)
    assert (first["added"], first["replayed"], first["refused"], first["new_entries"]) == (4, 0, 0, 6)
    assert first["declared"] == {"name": METRIC, "unit": "share", "direction": "maximize"}
    again = told(stack, "import", "node-report", str(trees), "--contract", contract)
    assert (again["added"], again["replayed"], again["new_entries"]) == (0, 4, 0)
    assert [each["report"] for each in again["reports"]] == [each["report"] for each in first["reports"]]
    text = run(stack, "import", "node-report", str(trees / "run_0" / "node_root"))
    assert "0 added, 1 replayed, 0 refused; 1 new entries" in text, "without a contract it is another entry"
    assert "No --contract: no entry points at a metric." in text
    assert checked(stack).clean


@pytest.mark.parametrize("word", ["0", "false", "no", "off"])
def test_the_gate_imports_reports_alone(stack: Stack, trees: Path, word: str) -> None:
    found = told(stack, "import", "node-report", str(trees), env={"VRM_LINEAGE_CONSOLIDATE": word})
    assert (found["added"], found["new_entries"], found["consolidated"]) == (4, 0, False)
    text = run(stack, "import", "node-report", str(trees), env={"VRM_LINEAGE_CONSOLIDATE": word})
    assert "Consolidation is off" in text
    assert told(stack, "import", "node-report", str(trees))["new_entries"] == 6


def test_one_refused_report_is_an_error_and_one_of_several_is_told(stack: Stack, trees: Path) -> None:
    change_report(trees / "run_0" / "node_failed", artifacts=[{"filename": "../x", "role": "log"}])
    alone = run(stack, "import", "node-report", str(trees / "run_0" / "node_failed" / "node_report.json"), code=2)
    assert "unsafe_path" in alone
    assert "remedy: Name files by relative paths" in alone
    found = told(stack, "import", "node-report", str(trees), code=1)
    assert {each["node"]: each["reason"] for each in found["reports"] if each["reason"]} == {
        "node_failed": "unsafe_path"
    }
    assert "unsafe_path" in run(stack, "import", "node-report", str(trees), code=1)


@pytest.mark.parametrize(
    ("arguments", "env", "said"),
    [
        (("nowhere",), {}, "no such file"),
        (("{trees}", "--contract", "nowhere.yaml"), {}, "nowhere.yaml"),
        (("{trees}", "--contract", "{trees}/../score.yaml"), {}, "_scientific_score"),
        (("{trees}",), {"VRM_LINEAGE_CONSOLIDATE": "maybe"}, "VRM_LINEAGE_CONSOLIDATE"),
    ],
)
def test_what_cannot_be_imported_is_a_typed_error_and_writes_nothing(
    stack: Stack, trees: Path, arguments: tuple[str, ...], env: dict[str, str], said: str
) -> None:
    (trees.parent / "score.yaml").write_text(CONTRACT.replace(METRIC, "_scientific_score"))
    given = [each.format(trees=trees) for each in arguments]
    assert said in run(stack, "import", "node-report", *given, code=2, acts=False, env=env)
    assert stack.counts() == {}


def test_a_node_remembers_and_reruns_under_its_own_name(stack: Stack, trees: Path) -> None:
    reports = imported(stack, trees)
    own, root = {"VRM_LINEAGE_NODE": "run_0/node_scaled"}, ("--root", str(trees))
    log = trees / "run_0" / "node_scaled" / "run.log"
    arguments = (
        "lineage", "add", "observation", "Scaling helps.", *root, "--artifact", f"run.log={digest_of(log)}",
        "--artifact", "trial.json", "--metric", "seconds=0.5", "--unit", "s", "--direction",
        "minimize", "--confidence", "0.8", "--node", "run_0/node_scaled",
    )  # fmt: skip
    first = told(stack, *arguments, env=own)
    assert first["written"] == "added"
    record = first["record"]
    assert (record["node_id"], record["ancestors"], record["confidence"]) == ("node_scaled", ["node_root"], "0.8")
    assert record["metric"] == {"name": "seconds", "value": "0.5", "unit": "s", "direction": "minimize"}
    assert [each["integrity"] for each in record["artifacts"]] == ["verified", "unverified"]
    assert told(stack, *arguments, env=own) == first | {"written": "replayed"}
    target = next(each["entry"] for each in reports["node_root"]["entries"] if each["kind"] == "experiment_result")
    event = told(
        stack, "lineage", "report-rerun", target[:30], "rerun_passed", "The same.", *root, "--artifact", "run.log",
        "--observed", "2026-07-01", env=own,
    )  # fmt: skip
    assert (event["record"]["target_id"], event["record"]["status"]) == (target, "rerun_passed")
    assert event["record"]["observed_at"] == "2026-07-01T00:00:00.000000Z"
    assert "added: reproducibility_event" in run(
        stack, "lineage", "report-rerun", target, "rerun_failed", "Not the same.", env=own
    )
    assert checked(stack).clean


@pytest.mark.parametrize(
    ("arguments", "own", "said"),
    [
        (("add", "observation", "x"), "", "VRM_LINEAGE_NODE"),
        (("add", "observation", "x"), "run_0", "VRM_LINEAGE_NODE"),
        (("add", "observation", "x", "--node", "run_0/node_root"), "run_0/node_scaled", "run_0/node_scaled, alone"),
        (("add", "gossip", "x"), "run_0/node_scaled", "experiment_result"),
        (("add", "reproducibility_event", "x"), "run_0/node_scaled", "Report a rerun"),
        (("add", "observation", "x", "--metric", "a=1"), "run_0/node_scaled", "--unit"),
        (("add", "observation", "x", "--metric", "a", "--unit", "s"), "run_0/node_scaled", "NAME=VALUE"),
        (("add", "observation", "x", "--metric", "a=nan", "--unit", "s"), "run_0/node_scaled", "nan"),
        (("add", "observation", "x", "--artifact", "../x"), "run_0/node_scaled", "unsafe_path"),
        (("add", "observation", "x", "--role", "toy"), "run_0/node_scaled", "data_output"),
        (("add", "observation", "x"), "run_0/node_new", "name its ancestors"),
        (("report-rerun", "ffff", "rerun_passed", "x"), "run_0/node_scaled", "No entry begins so"),
        (("report-rerun", "ffff", "fine", "x"), "run_0/node_scaled", "rerun_passed"),
    ],
)
def test_what_a_node_may_not_write_is_a_typed_error(
    stack: Stack, trees: Path, arguments: tuple[str, ...], own: str, said: str
) -> None:
    imported(stack, trees)
    before = stack.state()
    assert said in run(stack, "lineage", *arguments, code=2, env={"VRM_LINEAGE_NODE": own})
    assert stack.state() == before


def test_an_audit_ends_with_1_if_a_file_is_missing_or_has_other_bytes(stack: Stack, trees: Path) -> None:
    imported(stack, trees)
    root = ("--root", str(trees))
    whole = told(stack, "audit", "artifacts", "run_0", *root, acts=False)
    assert (whole["whole"], whole["records"], set(whole["counts"])) == (
        True, 10, {"verified", "missing", "mismatch", "unhashed"},
    )  # fmt: skip
    (trees / "run_0" / "node_root" / "run.log").write_text("other")
    (trees / "run_0" / "node_scaled" / "trial.json").unlink()
    found = told(stack, "audit", "artifacts", *root, code=1, acts=False)
    assert (found["whole"], found["counts"]["mismatch"], found["counts"]["missing"]) == (False, 2, 2)
    text = run(stack, "audit", "artifacts", *root, code=1, acts=False)
    assert "mismatch" in text
    assert "run_0/node_root" in text
    run(stack, "audit", "artifacts", "run_9", *root, code=2, acts=False)
    run(stack, "audit", "artifacts", "--root", str(trees / "none"), code=2, acts=False)


def test_why_not_names_the_reason_and_then_where_the_experience_stands(stack: Stack, trees: Path) -> None:
    change_report(trees / "run_0" / "node_scaled_c", artifacts=artifacts_of(trees / "run_0" / "node_scaled_c")[:1])
    imported(stack, trees)
    bare = told(stack, "lineage", "why-not", "run_0/node_scaled", code=1, acts=False)
    assert (bare["codes"], bare["is_evidence"]) == (["missing_verification"], False)
    path = declare(trees.parent)
    with_contract = ("--evaluation", str(path), "--root", str(trees))
    could = told(stack, "lineage", "why-not", "run_0/node_scaled", *with_contract, acts=False)
    assert (could["state"], could["codes"]) == ("would be evidence", [])
    lacks = run(stack, "lineage", "why-not", "run_0/node_scaled_c", *with_contract, code=1, acts=False)
    assert "missing_trial_provenance: trial.json: not an artifact" in lacks
    promote_tree(job_over(stack), read_declaration(path), trees, "run_0")
    stands = told(stack, "lineage", "why-not", "run_0/node_scaled", acts=False)
    assert stands["is_evidence"]
    assert stands["experience"].startswith("experience:")
    assert stands["codes"], "one seed of one root makes no rule"
    run(stack, "lineage", "why-not", "run_0/nobody", code=2, acts=False)
    run(stack, "lineage", "why-not", "run_9/node_root", code=2, acts=False)
