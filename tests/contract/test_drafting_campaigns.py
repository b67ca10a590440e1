"""Rules worded by a model, through every owner on both adapters: one draft a verdict, promoted as the template's."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from memory.chat import Limits
from memory.distillation.distiller import KnowledgeDistiller
from memory.distillation.exchanges import Exchanges
from memory.distillation.llm import LlmDrafting
from memory.distillation.wording import Drafter
from memory.fsck import fsck
from tests.support.model_server import ModelServer, Reply, completion, model_server
from tests.support.stack import GOOD, NULL, POLICIES, Stack, effects
from tests.support.stores import fresh_namespace
from tests.support.trials import NOW

pytestmark = pytest.mark.parametrize(
    ("ledger", "runtime"), [("memory", "memory"), ("postgres", "postgres")], indirect=True
)

MORE = {"e": 0.06, "f": 0.055}
SIZES = [f"{fmean(deltas.values()):.4f}" for deltas in (GOOD, GOOD | MORE)]
NOTHING = {"a": 0.001, "b": -0.001, "c": 0.0, "d": 0.001}
WORDS = "Changing {change} improves balanced_accuracy by {size} share in the tasks that were seen."


class Words(list[Reply]):
    """A script that words whatever it is asked, as a model would."""

    def __init__(self, server: ModelServer) -> None:
        self._server = server

    def __len__(self) -> int:
        return 1

    def __getitem__(self, place: Any) -> Any:
        facts = json.loads(self._server.asked[-1]["messages"][1]["content"].split("\n")[1])
        claim = WORDS.format(**facts)
        said = {"claim": claim, "mechanism_explanation": "", "experience_ids": facts["evidence_ids"][:1]}
        return completion(json.dumps(said))


@contextmanager
def drafting(stack: Stack, folder: Path, script: list[Reply] | None = None) -> Iterator[ModelServer]:
    """Let a stack's distiller, as of a new process, draft through a server."""
    with model_server(script or []) as server:
        if script is None:
            server.script = Words(server)
        limits = Limits(wait_seconds=0, rest_seconds=0)
        with closing(LlmDrafting(server.url, "model", "", Exchanges(folder), limits)) as adapter:
            stack.distiller = KnowledgeDistiller(stack.stores.ledger, POLICIES, lambda: NOW, Drafter(adapter))
            yield server


def decided(stack: Stack) -> list[Any]:
    """Return what was decided, without words, times and the namespace."""
    kept = []
    for rule in stack.load("memory-record"):
        kept += [rule.action, rule.effect, rule.strength, rule.mechanism, len(rule.links)]
    # Which variant comes first within a study depends on ids, and so on the namespace.
    kept += sorted((item.decision.value, item.reasons) for item in stack.load("distillation-decision"))
    kept += [(item.event_type, item.disposition) for item in stack.load("knowledge-lifecycle-event")]
    return [*kept, stack.phases(), stack.counts()]


def studies(stack: Stack) -> None:
    trials = effects(stack, "first", GOOD) + effects(stack, "first", NOTHING, change=NULL)[1::2]
    assert not stack.study("first", trials)
    assert not stack.study("second", effects(stack, "second", MORE, seed=1))


def require_clean(stack: Stack) -> None:
    with stack.stores.ledger.reading() as reader:
        report = fsck(reader, stack.stores.runtime, None)
    mine = [found for found in report.violations if found.record in {row.id for row in stack.journal()}]
    assert not mine


def test_one_draft_for_each_promoted_verdict(stack: Stack, tmp_path: Path) -> None:
    with drafting(stack, tmp_path / "drafts") as server:
        studies(stack)
    rules = stack.load("memory-record")
    assert [rule.claim for rule in rules] == [
        WORDS.format(change='scaler from "none" to "standard"', size=size) for size in SIZES
    ]
    assert len(server.asked) == len(rules) == 2
    candidates = {item.id: item for item in stack.load("knowledge-candidate")}
    for rule in rules:
        assert candidates[rule.candidate_id].claim == rule.claim
        assert candidates[rule.candidate_id].drafting_adapter.startswith("llm/v1:model:")
    (null,) = [item for item in candidates.values() if item.target.knob.name == "tol"]
    assert null.drafting_adapter == "structured-template/v1"
    batches = {item.drafting_adapter for item in stack.load("distillation-batch")}
    assert batches == {candidates[rules[0].candidate_id].drafting_adapter}
    require_clean(stack)


def test_who_leads_and_who_is_covered_name_the_same_candidate(stack: Stack, tmp_path: Path) -> None:
    with drafting(stack, tmp_path / "drafts"):
        stack.study("first", effects(stack, "first", GOOD))
    (candidate,) = stack.load("knowledge-candidate")
    assert {item.candidate_id for item in stack.load("distillation-work-disposition")} == {candidate.id}
    assert len(stack.load("distillation-work-disposition")) == 8


@pytest.mark.parametrize("script", [None, [Reply(500)]])
def test_decided_as_the_template_would_be(stack: Stack, tmp_path: Path, script: list[Reply] | None) -> None:
    studies(stack)
    plain = decided(stack)
    worded = Stack(stack.stores, fresh_namespace())
    with drafting(worded, tmp_path / "drafts", script):
        studies(worded)
    assert decided(worded) == plain
    require_clean(worded)


def test_proposed_again_by_another_process_it_is_not_asked_again(stack: Stack, tmp_path: Path) -> None:
    """The first proposal is lost before anything is granted, as in a crash; the second says the same."""
    run_id = stack.admit("first")
    stack.evidence(effects(stack, "first", GOOD))
    assert not stack.campaigns.ingest(run_id, lambda _: None)
    assert not stack.campaigns.project(lambda _: None)
    snapshot = stack.capture()

    class Lost:
        def propose(self, requests: Any) -> Any:
            stack.distiller.propose(requests)
            raise KeyboardInterrupt

    with drafting(stack, tmp_path / "drafts") as first, pytest.raises(KeyboardInterrupt):
        stack.campaigns.distil(snapshot, Lost(), lambda _: None)
    with drafting(stack, tmp_path / "drafts") as second:
        assert not stack.campaigns.distil(snapshot, stack.distiller, lambda _: None)
    assert (len(first.asked), len(second.asked)) == (1, 0)
    (rule,) = stack.load("memory-record")
    assert "in the tasks that were seen" in rule.claim


def test_a_refused_draft_is_told_on_the_candidate(stack: Stack, tmp_path: Path) -> None:
    with drafting(stack, tmp_path / "drafts", [completion("nonsense")]):
        stack.study("first", effects(stack, "first", GOOD))
    (candidate,) = stack.load("knowledge-candidate")
    (rule,) = stack.load("memory-record")
    assert candidate.findings[-2].code == "draft_refused_wrong_shape"
    assert candidate.drafting_adapter == "structured-template/v1"
    assert rule.claim.endswith("on average over 4 independent dataset roots.")
