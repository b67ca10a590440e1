"""`vrm claims`, run as a user runs it, over stores in memory, with the real model and real files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from store.artifacts import ArtifactStore
from store.ledger.memory import MemoryLedger
from store.runtime.memory import MemoryRuntime
from tests.support.stack import Stack, Stores
from tests.support.stack_control import checked
from vrm.cli.app import app
from vrm.cli.claims_given import key_of
from vrm.cli.connection import Connection, OpenStores

RETRIES = "Requests of the client are retried at most 3 times"


@pytest.fixture
def stack(tmp_path: Path) -> Stack:
    return Stack(Stores(MemoryLedger(), MemoryRuntime(), ArtifactStore(str(tmp_path / "artifacts"))), "demo")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "app"
    (made / ".git").mkdir(parents=True)
    (made / ".git" / "HEAD").write_text("1" * 40 + "\n", encoding="utf-8")
    (made / "config.json").write_text('{"retry": {"limit": 3}, "a.b": 1}', encoding="utf-8")
    (made / "client.py").write_text("LIMIT = 3\n", encoding="utf-8")
    (tmp_path / "report.xml").write_text("<ok/>", encoding="utf-8")
    return made


def run(stack: Stack, *arguments: str, code: int = 0, acts: bool = True, group: str = "claims") -> str:
    """Run a command; one that only looks must ask for no owner."""

    @contextmanager
    def opened() -> Iterator[OpenStores]:
        yield stack.stores

    def never(_stores: OpenStores) -> Any:
        raise AssertionError("nobody who writes may be looked for")

    joined = Connection(opened, list, (lambda _stores: stack.coordinator) if acts else never, never)
    shown = {"COLUMNS": "240", "NO_COLOR": "1"}
    space = () if "--namespace" in arguments else ("--namespace", "demo")
    result = CliRunner().invoke(app, [group, *arguments, *space], obj=joined, env=shown)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code == code, result.output
    return result.stdout if code < 2 or "--json" in arguments else result.stderr


def told(stack: Stack, *arguments: str, **more: Any) -> Any:
    return json.loads(run(stack, *arguments, "--json", **more))


def test_a_claim_is_added_promoted_found_and_goes_stale(stack: Stack, root: Path) -> None:
    here = ("--root", str(root))
    report = root.parent / "report.xml"
    evidence = ("--evidence", f"read-1={root / 'config.json'}")
    checks = ("--value", "config.json#retry.limit", "--file", "client.py", "--head")
    words = ("--trust", "trusted_local", "--status", "verified", "--kind", "configuration")
    added = told(stack, "add", RETRIES, *checks, *words, *evidence, *here)
    assert (added["addition"], added["events"][0]["state"]) == ("added", "probationary")
    assert told(stack, "add", RETRIES, *checks, *words, *evidence, *here)["addition"] == "replayed"
    claim = added["claim"]
    nothing = told(stack, "search", "how often are requests retried", *here)
    assert (nothing["ending"], nothing["rendered"]) == ("no_durable_claim", "")
    lack = told(stack, "promote", claim, *here, code=2)
    assert "evidence_missing" in lack["remedy"]
    moved = told(stack, "promote", claim[:30], "--evidence", f"test-pass-7={report}", *here)
    assert [event["state"] for event in moved] == ["durable"]
    (listed,) = told(stack, "list", acts=False)
    assert (listed["claim"], listed["state"], len(listed["predicates"])) == (claim, "durable", 3)
    assert "durable" in run(stack, "list", acts=False)
    found = told(stack, "search", "how many times is a request tried again", "--task", "fix-17", *here)
    assert RETRIES in found["rendered"]
    assert 'value "retry/limit" of "config.json"' in found["rendered"]
    assert found["task_id"] == "fix-17"
    off = told(stack, "search", "what is the capital of France", *here)
    assert off["ending"] == "nothing_relevant"
    assert run(stack, "check", *here).startswith("Every live claim holds.")
    (root / "config.json").write_text('{"retry": {"limit": 5}, "a.b": 1}', encoding="utf-8")
    assert [event["reason"] for event in told(stack, "check", *here, code=1)] == ["predicate_failed"]
    text = run(stack, "show", claim, acts=False)
    for word in ("locally", "promoted", "predicate_failed", "predicate 2 differs", "test-pass-7", "by-hand/1"):
        assert (word in text) == (word != "locally"), word
    assert [event["reason"] for event in told(stack, "show", claim, acts=False)["events"]] == [
        "added", "promoted", "predicate_failed",
    ]  # fmt: skip
    assert checked(stack).clean


def test_a_contradiction_is_contested_and_settled_by_evidence(stack: Stack, root: Path) -> None:
    here, report = ("--root", str(root)), root.parent / "report.xml"
    sure = ("--trust", "trusted_local", "--status", "verified", "--source", "deterministic", "--confidence", "1")
    one = told(stack, "add", RETRIES, *sure, "--evidence", "a=sha256:" + "a" * 64, *here)
    assert one["events"][0]["state"] == "durable"
    text = "Requests of the client are not retried at most 3 times"
    two = told(stack, "add", text, *sure, "--evidence", "b=sha256:" + "b" * 64, *here)
    assert two["contested_with"] == [one["claim"]]
    assert {each["state"] for each in told(stack, "list", acts=False)} == {"contested"}
    assert "evidence_not_new" in run(stack, "resolve", one["claim"], *here, code=2)
    run(stack, "resolve", one["claim"], "--evidence", f"c={report}", *here)
    states = {each["claim"]: each["state"] for each in told(stack, "list", acts=False)}
    assert states == {one["claim"]: "durable", two["claim"]: "superseded"}
    third = told(stack, "add", "Requests of the client time out after a minute", *sure, *here)
    assert third["events"][0]["state"] == "probationary", "without evidence nothing starts durable"
    contested = told(stack, "contest", one["claim"], third["claim"])
    assert [event["state"] for event in contested] == ["contested", "contested"]
    assert told(stack, "withdraw", third["claim"], "--suspected")[0]["state"] == "quarantined"
    assert len(told(stack, "list", "--state", "quarantined", acts=False)) == 1
    assert "quarantined" in run(stack, "list", "--state", "nonsense", acts=False, code=2)


def test_an_outcome_counts_once_and_opens_no_gate(stack: Stack, root: Path) -> None:
    here, report = ("--root", str(root)), str(root.parent / "report.xml")
    sure = ("--trust", "trusted_local", "--status", "verified", "--source", "deterministic")
    told(stack, "add", RETRIES, *sure, "--evidence", "a=sha256:" + "a" * 64, "--file", "client.py", *here)
    trace = told(stack, "search", "requests retried", "--occasion", "one", *here)["trace"]
    graded = ("--trial", "run-1", "--grader", "pytest", "--graded", report)
    first = told(stack, "receipt", trace, "--passed", "--corrected", *graded)
    assert (first["reward"], first["task_id"]) == ("0.5", "by-hand")
    assert told(stack, "receipt", trace, "--passed", "--corrected", *graded) == first
    assert told(stack, "receipt", trace, "--failed", *graded, code=2)["error"] == "IdentityConflictError"
    assert "Reward -2" in run(stack, "receipt", trace, "--failed", "--unauthorised", "--trial", "run-2", *graded[2:])
    found = json.loads(run(stack, "shadow", "--json", acts=False, group="evaluate", code=1).splitlines()[-1])
    assert (found["receipts"], found["passed"], len(found["gates"])) == (2, False, 4)
    assert found["gates"][3]["passed"]
    text = run(stack, "shadow", acts=False, group="evaluate", code=1)
    assert "NOT PASSED" in text
    assert "no counterfactual" in text


def test_an_occasion_that_is_asked_again_is_its_trace(stack: Stack, root: Path) -> None:
    here = ("--root", str(root))
    sure = ("--trust", "trusted_local", "--status", "verified", "--source", "deterministic")
    told(stack, "add", RETRIES, *sure, "--evidence", "a=sha256:" + "a" * 64, "--file", "client.py", *here)
    one = ("search", "requests retried", "--occasion", "one", *here)
    first = told(stack, *one)
    graded = ("--trial", "run-1", "--grader", "pytest", "--graded", str(root.parent / "report.xml"))
    told(stack, "receipt", first["trace"], "--failed", *graded)
    told(stack, "add", "Requests that are retried wait two seconds", "--evidence", "b=sha256:" + "b" * 64, *sure, *here)
    position = stack.position()
    assert told(stack, *one) == first
    assert stack.position() == position, "a replay appends nothing"
    off = ("search", "what is the capital of France", "--occasion", "off", *here)
    assert told(stack, *off) == told(stack, *off), "an abstention is an answer too"
    for other in (("search", "requests", *one[2:]), (*one, "--task", "fix-17"), (*one, "--budget", "300")):
        assert told(stack, *other, code=2)["error"] == "IdentityConflictError"
    assert told(stack, *one[:3], "two", *here)["rendered"] != first["rendered"]
    (root / "client.py").write_text("LIMIT = 5\n", encoding="utf-8")
    assert "does not hold now" in told(stack, *one, code=2)["remedy"]
    told(stack, "search", "requests retried", *here)
    assert "moved on" in told(stack, *one, code=2)["remedy"]


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        (("--file", "../report.xml"), "file"), (("--file", "none"), "file"), (("--file", "/etc/passwd"), "file"),
        (("--value", "config.json"), "--value"), (("--value", "config.json#no.such"), "--value"),
        (("--value", "client.py#a"), "json"), (("--trust", "mine"), "--trust"), (("--evidence", "x"), "--evidence"),
        (("--evidence", "x=/no/such"), "--evidence"), (("--evidence", "x=sha256:12"), "EvidenceEvent"),
        (("--confidence", "2"), "confidence"), (("--revises", "workspace-claim:00"), "claim"),
        (("--root", "/no/such"), "root"),
    ],
)  # fmt: skip
def test_what_cannot_be_added_is_refused_with_its_field(
    stack: Stack, root: Path, arguments: tuple[str, ...], field: str
) -> None:
    here = () if "--root" in arguments else ("--root", str(root))
    error = told(stack, "add", RETRIES, *arguments, *here, code=2)
    assert field in error["field"]
    assert error["remedy"]
    assert stack.position() == 0


def test_a_key_is_names_with_dots_or_a_pointer() -> None:
    assert key_of("retry.limit") == ("retry", "limit")
    assert key_of("/a.b/0") == ("a.b", "0")
    assert key_of("/a~1b/~0") == ("a/b", "~")
