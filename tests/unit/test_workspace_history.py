"""Claims about a real repository, while its real history goes on: each becomes stale where its fact changed.

Where a fact changed is said by git itself, and by the subjects of the commits (tests/data/is_docker).
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from memory.workspace.board import history_of
from memory.workspace.place import Workspace
from memory.workspace.predicates import Checker, value_digest
from records.workspace import (
    ClaimReason,
    ClaimSource,
    ClaimState,
    ClaimType,
    ConfigValue,
    FileHash,
    GitRevision,
    Predicate,
    WorkspaceClaim,
)
from tests.support.workspace_samples import evidence, make_claim
from tests.unit.test_workspace_retrieving import POLICY, Code

BUNDLE = Path(__file__).resolve().parents[1] / "data" / "is_docker" / "history.bundle"
FIRST = "43550f2cb491fc42a273f13065cfad81be0569d3"  # "1.0.0"
Git = Callable[..., bytes]


@pytest.fixture
def code(tmp_path: Path) -> Code:
    return Code(tmp_path)


@pytest.fixture
def git(code: Code) -> Git:
    """Clone the history; run git there, apart from any configuration of this machine."""
    apart = {"PATH": os.environ["PATH"], "HOME": str(code.root.parent), "GIT_CONFIG_NOSYSTEM": "1"}

    def run(*arguments: str) -> bytes:
        command = ["git", "-C", str(code.root), *arguments]
        return subprocess.run(command, capture_output=True, check=True, env=apart).stdout

    run("clone", "--quiet", str(BUNDLE), ".")
    return run


def of(git: Git, revision: str, path: str) -> bytes:
    return git("show", f"{revision}:{path}")


def package(git: Git, revision: str, *key: str) -> object:
    found = json.loads(of(git, revision, "package.json"))
    for name in key:
        found = found.get(name) if isinstance(found, dict) else None
    return found


def value(git: Git, *key: str) -> ConfigValue:
    return ConfigValue(path="package.json", key=key, sha256=value_digest(package(git, FIRST, *key)))


def test_claims_become_stale_with_the_commit_that_changed_their_fact(code: Code, git: Git) -> None:

    git("checkout", "--quiet", FIRST)
    licence = hashlib.sha256(of(git, FIRST, "license")).hexdigest()
    facts: dict[str, tuple[str, Predicate, str]] = {
        "version": ("The package is published as version one", value(git, "version"), "1.0.1"),
        "tests": ("The tests are run by node alone", value(git, "scripts", "test"),
                  "update tests for latest AVA version"),
        "node": ("Node of the tenth minor release is enough", value(git, "engines", "node"),
                 "Require Node.js 8, add TypeScript definition (#4)"),
        "name": ("The package is called is-docker", value(git, "name"), ""),
        "licence": ("The licence is the one of the first release", FileHash(path="license", sha256=licence), ""),
        "head": ("This is the commit of the first release", GitRevision(revision=FIRST), ""),
    }  # fmt: skip
    claims: dict[str, WorkspaceClaim] = {}
    with Workspace(code.root) as workspace:
        for name, (text, predicate, _) in facts.items():
            kind = ClaimType.CONFIGURATION
            claim = make_claim(
                text, predicates=(predicate,), source=ClaimSource.DETERMINISTIC, claim_type=kind, events=evidence(name)
            )
            code.keeper.add(claim, Checker(workspace, POLICY.predicates))
            claims[name] = claim
    assert {code.state(claim) for claim in claims.values()} == {ClaimState.DURABLE}
    later = git("rev-list", "--first-parent", "--reverse", f"{FIRST}..main").decode().split()
    assert len(later) > 20
    stale: dict[str, str] = {}
    for revision in later:
        git("checkout", "--quiet", revision)
        with Workspace(code.root) as workspace:
            events = code.keeper.mark_stale(Checker(workspace, POLICY.predicates))
        names = {str(claim.id): name for name, claim in claims.items()}
        stale |= {names[event.claim_id]: revision for event in events}
    expected = {
        name: next(
            (each for each in later if package(git, each, *predicate.key) != package(git, FIRST, *predicate.key)), None
        )
        for name, (_, predicate, _) in facts.items()
        if isinstance(predicate, ConfigValue)
    }
    blob = git("rev-parse", f"{FIRST}:license")
    expected["licence"] = next((each for each in later if git("rev-parse", f"{each}:license") != blob), None)
    expected["head"] = later[0]
    assert stale == {name: revision for name, revision in expected.items() if revision is not None}
    for name, (_, _, subject) in facts.items():
        if subject:
            assert git("show", "--no-patch", "--format=%s", stale[name]).decode().strip() == subject
    assert "name" not in stale
    assert code.state(claims["name"]) is ClaimState.DURABLE


def test_what_went_stale_is_not_shown_and_does_not_come_back_with_its_commit(code: Code, git: Git) -> None:
    git("checkout", "--quiet", FIRST)
    text = "Tests of the package are run by node alone"
    claim = make_claim(
        text, predicates=(value(git, "scripts", "test"),), source=ClaimSource.DETERMINISTIC, events=evidence("read")
    )
    with Workspace(code.root) as workspace:
        code.keeper.add(claim, Checker(workspace, POLICY.predicates))
    assert [each.text for each in code.search("how are tests of the package run", "a").shown] == [text]
    git("checkout", "--quiet", "main")
    found = code.search("how are tests of the package run", "b")
    assert (found.shown, [event.claim_id for event in found.stale]) == ((), [claim.id])
    with Workspace(code.root) as workspace:
        code.keeper.mark_stale(Checker(workspace, POLICY.predicates))
    git("checkout", "--quiet", FIRST)
    assert code.search("how are tests of the package run", "c").shown == ()
    assert [event.reason for event in history_of(code.ledger, claim)] == [
        ClaimReason.LOCALLY_VERIFIED, ClaimReason.PREDICATE_FAILED,
    ]  # fmt: skip
