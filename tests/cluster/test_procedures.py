"""A procedure from real runs to a real execution: fits, the independent evaluator, every owner, and the check after."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from memory.evidence import resolve_bundles
from memory.procedures.reading import StoredProcedure, executions, read_procedure, stored_procedures
from policies.catalog import load_catalog
from policies.procedures.execution import Status
from policies.procedures.policy import procedure_policy
from records.cards import ProcedureCard
from records.errors import ProcedureBlockedError
from records.evidence import Corpus, Experience, VerifiedEvidenceBundle
from records.outcomes import DecisionStatus, TerminalReason
from records.states import Machine, Phase
from records.values import DecisionPoint
from store.server import DatabaseUrls
from tests.cluster.installation import Installation
from tests.support.stores import fresh_namespace
from vrm.bootstrap import Stores
from vrm.client import Memory, Question
from vrm.domain import CATALOG
from vrm.home import Home
from vrm.mainjob import steps
from vrm.mainjob.job import Job, pinned_policies
from vrm.mainjob.plan import SMALL, Round
from vrm.mainjob.procedures import SLOT, ProcedureExecution, Study, run_study, running_tools
from vrm.mainjob.tabular import contract_of, identity_of

STUDY = Study(
    changes=(("scaler", "standard"), ("class_weight", "balanced")),
    tasks=("new_thyroid1", "page-blocks0", "segment0"),
    seeds=(0,),
)
HELD_OUT = "vowel0"


@pytest.fixture(scope="module")
def job(place: Installation, postgres_urls: DatabaseUrls, tmp_path_factory: pytest.TempPathFactory) -> Job:
    """A job in a namespace and home of its own, over the session's owners."""
    home = Home(tmp_path_factory.mktemp("procedures") / "h").create()
    stores = Stores(
        home=home, urls=postgres_urls, ledger=place.ledger, runtime=place.runtime, artifacts=place.artifacts
    )
    round_ = Round(namespace=fresh_namespace(), number=0, size=SMALL)
    return Job(stores, place.owners, round_, pinned_policies(), Console(quiet=True), "test", quiet=True)


@pytest.fixture(scope="module")
def compiled(job: Job) -> StoredProcedure:
    """The procedure that real trajectories on three shipped tables make."""
    catalog = load_catalog(CATALOG)
    run_id = run_study(job, STUDY, catalog, contract_of(job.namespace, catalog.domain))
    steps.ingest(job, [run_id])
    steps.distil(job)
    steps.close_run(job, run_id, SLOT)
    with job.stores.ledger.reading() as reader:
        (found,) = stored_procedures(reader, job.namespace, every=False)
    return found


def execution(job: Job, **more: Any) -> ProcedureExecution:
    catalog = load_catalog(CATALOG)
    return ProcedureExecution(job, catalog, contract_of(job.namespace, catalog.domain), **more)


def load(job: Job, noun: str, **equal: str) -> list[Any]:
    return [stored.load() for stored in job.stores.ledger.find(noun, job.namespace, **equal)]


def test_a_procedure_is_compiled_from_real_runs_and_executed_step_by_step(
    job: Job, place: Installation, compiled: StoredProcedure
) -> None:
    """Each step is a decision and an experiment of its own; what is printed is what the Ledger gives (spec 8.4)."""
    assert compiled.active
    assert compiled.record.strength.support_count == len(STUDY.tasks)
    done = execution(job).execute(compiled, HELD_OUT, seed=20_000)
    assert done.account is not None
    assert done.account.status is Status.SUCCEEDED
    assert [each.status for each in done.decisions] == [DecisionStatus.COMPLETED.value] * 2
    links = load(job, "outcome-attempt-link")
    assert {each.outcome_id for each in links} == {each.outcome_id for each in done.decisions}
    attempts = load(job, "attempt", run_id=done.run_id)
    assert [each.iteration for each in attempts] == [0, 1, 2]
    assert {each.corpus for each in attempts} == {Corpus.EVALUATION}
    assert {each.attempt_id for each in links} == {each.id for each in attempts[1:]}
    _require_verified(job, done.account.runs)
    run = job.stores.runtime.subject(Machine.RUN, done.run_id)
    assert run is not None
    assert run.phase is Phase.COMPLETED
    with job.stores.ledger.reading() as reader:
        assert executions(reader, compiled.record, done.run_id) == [done]
    report = place.fsck()
    assert report.clean, report.text()


def test_an_execution_that_is_over_is_told_again_and_repeats_nothing(job: Job, compiled: StoredProcedure) -> None:
    first = execution(job).execute(compiled, HELD_OUT, seed=20_000)
    before = job.stores.ledger.namespace_head(job.namespace).position
    assert execution(job).execute(compiled, HELD_OUT, seed=20_000) == first
    assert job.stores.ledger.namespace_head(job.namespace).position == before


def test_a_changed_tool_version_blocks_before_anything_runs(
    job: Job, place: Installation, compiled: StoredProcedure
) -> None:
    rule = procedure_policy().tool(load_catalog(CATALOG).domain)
    assert rule is not None
    running = running_tools(procedure_policy(), rule.domain) | {rule.tool: "f" * 64}
    before = len(load(job, "attempt"))
    with job.stores.ledger.reading() as reader:
        earlier = {each.run_id for each in executions(reader, compiled.record)}
    with pytest.raises(ProcedureBlockedError, match="tool_version_changed"):
        execution(job, running=running).execute(compiled, HELD_OUT, seed=20_000)
    assert len(load(job, "attempt")) == before
    with job.stores.ledger.reading() as reader:
        now = {each.run_id: each for each in executions(reader, compiled.record)}
    (blocked,) = [now[each] for each in now.keys() - earlier]
    assert blocked.status == "blocked"
    (decision,) = blocked.decisions
    assert (decision.status, decision.reason) == (
        DecisionStatus.REJECTED.value,
        TerminalReason.PREFLIGHT_REJECTED.value,
    )
    report = place.fsck()
    assert report.clean, report.text()


def test_another_task_scope_is_a_precondition_that_is_not_met(job: Job, compiled: StoredProcedure) -> None:
    before = len(load(job, "attempt"))
    with pytest.raises(ProcedureBlockedError, match="task_scope_id"):
        execution(job).execute(compiled, "iris", seed=20_000)
    assert len(load(job, "attempt")) == before


def test_a_prefix_of_the_id_names_it(job: Job, compiled: StoredProcedure) -> None:
    with job.stores.ledger.reading() as reader:
        assert read_procedure(reader, str(compiled.record.id)[: len("memory-record:") + 16]) == compiled


def _require_verified(job: Job, runs: Any) -> None:
    stored = job.stores.ledger.get_many(run.experience_id for run in runs)
    loaded = [item.load() for item in stored.values()]
    found = resolve_bundles(job.stores.ledger, [each for each in loaded if isinstance(each, Experience)])
    assert len(found) == len(runs)
    for bundle in found.values():
        assert isinstance(bundle, VerifiedEvidenceBundle)
        assert bundle.verification.valid
        assert bundle.verification.verification_kind.value == "recomputed"


def test_a_procedure_is_recalled_where_its_configuration_is_in_effect(job: Job, compiled: StoredProcedure) -> None:
    """Real index, real model, real replicas: shown at experiment_design, at no intervention, nowhere else (spec 12)."""
    steps.recall_input(job)
    execution(job).execute(compiled, HELD_OUT, seed=20_000)  # registers the contract as decisions see it
    memory = Memory(job.stores, job.owners, job.namespace)
    attributes = identity_of(HELD_OUT, load_catalog(CATALOG).domain).attributes
    asked = Question(task=attributes, text="Which workflow helps?", point=DecisionPoint.EXPERIMENT_DESIGN)
    answer = memory.recall(asked)
    (card,) = [card for card in answer.cards if isinstance(card, ProcedureCard)]
    assert card.memory_id == compiled.record.id
    assert "step-1:scaler" in answer.rendered
    there = memory.recall(replace(asked, config={"scaler": "standard"}))
    assert not any(isinstance(card, ProcedureCard) for card in there.cards)
    change = memory.recall(replace(asked, point=DecisionPoint.INTERVENTION))
    assert not any(isinstance(card, ProcedureCard) for card in change.cards)
