"""Procedures at work: studies that they are compiled from, and executions, step by step (spec 8.4).

Rules kept here (docs/adr/0032):

- a study is one Run of development experiments: the same ordered changes on several tasks and seeds, each run verified
  by the independent evaluator. What becomes of it is distillation's business;
- each step of an execution is a decision of its own, admitted, granted, appended and linked as every decision is, and
  an experiment of its own with its own verification, under a Run with a leased Activity and the procedure's budget;
- the preflight comes first. What stands against the execution ends its first decision as rejected, and nothing runs;
- what was done is read back: an execution that was cut short goes on where it stopped, and one that is over is told
  again. On a held-out task its evidence is of the evaluation corpus, and never enters base knowledge (VRM-L04).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from actors.settings import now
from experiments.fingerprint import environment_digest
from experiments.tabular.pipelines import source_digest
from experiments.tabular.tasks import load_task
from memory.leases import completion
from memory.procedures.adapter import ProcedureAdapter
from memory.procedures.reading import Execution, StoredProcedure, executions
from policies.catalog import Change, Config, InterventionCatalog, KnobValue, value_text
from policies.planner import PlannerAnswer, allowed_action_digest, open_actions
from policies.procedures.drafting import EXPERIMENTS
from policies.procedures.execution import Ground, Seen, account_of
from policies.procedures.policy import ProcedurePolicy, procedure_policy
from records.canonical import canonical_bytes, digest_bytes, domain_digest
from records.control import BudgetLimit
from records.decisions import AllowedAction, DecisionContractView, DecisionIntent
from records.errors import ProcedureBlockedError
from records.evidence import Corpus, EvaluationContract
from records.flows import Transition
from records.governance import ArmAssignment, ArmManifest
from records.ids import ContractId, ContractViewId, RunId
from records.outcomes import TerminalReason
from records.runtime import RunBody, activity_id
from records.values import ActorIdentity, DecisionPoint, RecallRequirement
from vrm.domain import BUDGET_CLASS, MODEL_FAMILY
from vrm.mainjob.deciding import Decisions
from vrm.mainjob.experiments import Experiments, Verified
from vrm.mainjob.job import Job
from vrm.mainjob.outcomes import Decided
from vrm.mainjob.plan import PUBLISHED_AT
from vrm.mainjob.tabular import Setting, identity_of
from vrm.mainjob.trials import memory_profile

SLOT: Final = "procedure"
Changes = tuple[tuple[str, KnobValue], ...]


def running_tools(policy: ProcedurePolicy, domain: str) -> dict[str, str]:
    """Return the tools of a domain as they are here and now: the digest of the source, and of the environment."""
    rule = policy.tool(domain)
    return {} if rule is None else {rule.tool: source_digest(), rule.runtime: environment_digest()}


@dataclass(frozen=True, kw_only=True)
class Study:
    """A development study: the changes in order, on which tasks, with which seeds."""

    changes: Changes
    tasks: tuple[str, ...]
    seeds: tuple[int, ...]

    def body(self, namespace: str, catalog: InterventionCatalog) -> RunBody:
        """Return the specification of its Run; the same study is the same Run."""
        changes = [[knob, value_text(value)] for knob, value in self.changes]
        digest = domain_digest("procedure-study", [catalog.digest, changes, list(self.tasks), list(self.seeds)])
        return RunBody(
            namespace=namespace,
            run_kind="SCIENTIFIC",
            admission_key=f"procedures/study/{digest[:24]}",
            specification_digest=digest,
            admitted_at=PUBLISHED_AT,
        )

    def settings(self, catalog: InterventionCatalog, run_id: RunId) -> list[Setting]:
        """Return every run of it: for each task and seed the baseline, then one more change each."""
        found = []
        for task in self.tasks:
            for seed in self.seeds:
                before: Config = catalog.baseline
                for place, change in enumerate((None, *self.changes)):
                    setting = Setting(
                        task=task, seed=seed, before=before, change=change, iteration=place, run_id=run_id
                    )
                    found.append(setting)
                    before = setting.config
        return found


def run_study(job: Job, study: Study, catalog: InterventionCatalog, contract: EvaluationContract) -> RunId:
    """Run a study's experiments and return its Run; what the Ledger holds already is not run again.

    Raises:
        InvalidInputError: a change is none of the catalog's.
    """
    for knob, value in study.changes:
        catalog.check_change(knob, value)
    body = study.body(job.namespace, catalog)
    job.admit([body], SLOT)
    Experiments(job, catalog, contract).run(study.settings(catalog, body.id), "Trajectories: fits, evaluated apart")
    return body.id


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where an execution takes place: procedure, task and seed, and the ground that its preflight looks at."""

    found: StoredProcedure
    task: str
    seed: int
    ground: Ground

    @property
    def facts(self) -> dict[str, Any]:
        """What the preflight looks at, as JSON values."""
        return {
            "procedure": str(self.found.record.id),
            "active": self.found.active,
            "tools": dict(sorted(self.ground.tools.items())),
            "observed": dict(sorted(self.ground.observed.items())),
            "task": self.task,
            "seed": self.seed,
        }

    @property
    def manifest(self) -> ArmManifest:
        """The assignment of the one arm: no memory is asked for, for the procedure says what to do."""
        arm = ArmAssignment.of(None, memory_profile(), RecallRequirement.REGISTERED_NOT_REQUESTED)
        return ArmManifest(study="procedure", specification=domain_digest("procedure-place", self.facts), arms=(arm,))

    @property
    def body(self) -> RunBody:
        """The specification of the Run; another ground is another execution."""
        manifest = self.manifest
        return RunBody(
            namespace=self.found.record.namespace,
            run_kind="SCIENTIFIC",
            admission_key=f"procedures/execution/{manifest.specification[:24]}",
            specification_digest=manifest.canonical_digest,
            admitted_at=PUBLISHED_AT,
        )


class ProcedureExecution:
    """Executes procedures of one catalog under one contract."""

    def __init__(
        self,
        job: Job,
        catalog: InterventionCatalog,
        contract: EvaluationContract,
        running: Mapping[str, str] | None = None,
    ) -> None:
        """Execute within `job`; `running` are the tools that run here, if they are not asked what they are."""
        policy = procedure_policy()
        tools = running_tools(policy, catalog.domain) if running is None else running
        self._job = job
        self._contract = contract
        self._policy = policy
        self._adapter = ProcedureAdapter(catalog=catalog, running=tools, policy=policy)
        self._experiments = Experiments(job, catalog, contract)
        self._decisions = Decisions(job)

    def execute(self, found: StoredProcedure, task: str, seed: int, config: Config | None = None) -> Execution:
        """Carry a procedure out on a task, from the baseline unless a configuration is given, and return its account.

        Raises:
            ProcedureBlockedError: a tool, the catalog or the situation is not what the procedure needs; nothing ran.
            NotFoundError: there is no such task.
            BudgetExceededError: it would take more experiments than the procedure's envelope has.
        """
        catalog = self._adapter.catalog
        start = catalog.baseline if config is None else config
        ground = self._adapter.ground(found, start, self._observed(task))
        place = Place(found=found, task=task, seed=seed, ground=ground)
        self._job.stores.artifacts.publish_many([memory_profile().canonical, place.manifest.canonical])
        self._job.admit([place.body], SLOT, self._budget(found))
        self._job.append(Transition.APPEND_EVIDENCE, f"contract/{self._contract.id}", self._contract)
        try:
            changes = self._adapter.changes(found, ground)
        except ProcedureBlockedError:
            self._reject(place)
            raise
        self._carry_out(place, changes)
        self._close(place)
        return self.told(place)

    def told(self, place: Place) -> Execution:
        """Return an execution as the Ledger tells it."""
        with self._job.stores.ledger.reading() as reader:
            (execution,) = executions(reader, place.found.record, place.body.id)
        return execution

    def _carry_out(self, place: Place, changes: Sequence[Change]) -> None:
        procedure = place.found.record.procedure
        with self._job.step("Procedure: decide, run, verify", len(changes) + 1) as advance:
            before = dict(place.ground.config)
            runs = [_seen(self._run(place, before, None, 0))]
            advance(1)
            for number, change in enumerate(changes, 1):
                runs.append(_seen(self._step(place, before, change, number)))
                before |= {change.knob: change.to_value}
                advance(1)
                if account_of(procedure, runs).stopped_by is not None:
                    break

    def _step(self, place: Place, before: Config, change: Change, number: int) -> Verified:
        """Take one step: decision, experiment, outcome and link."""
        (intent,) = self._decisions.register(self._view, [self._intent(place, before, number)])
        action = AllowedAction(knob=change.knob, value=value_text(change.to_value))
        answer = PlannerAnswer(change=change, action=action, dispositions=(), steered=False)
        self._decisions.give([(intent, None)])
        self._decisions.keep_answers([(intent, answer, None)])
        verified = self._run(place, before, (change.knob, change.to_value), number)
        self._decisions.conclude([Decided(intent, None, answer, verified, now())])
        return verified

    def _reject(self, place: Place) -> None:
        """Let the first decision end as rejected by the preflight."""
        (intent,) = self._decisions.register(self._view, [self._intent(place, place.ground.config, 1)])
        rejected = Decided(intent, None, None, None, now(), rejected=TerminalReason.PREFLIGHT_REJECTED)
        self._decisions.conclude([rejected])
        self._close(place)

    def _run(self, place: Place, before: Config, change: tuple[str, KnobValue] | None, number: int) -> Verified:
        held_out = load_task(place.task).task.split == "held_out"
        setting = Setting(
            task=place.task,
            seed=place.seed,
            before=dict(before),
            change=change,
            iteration=number,
            run_id=place.body.id,
            corpus=Corpus.EVALUATION if held_out else Corpus.DEVELOPMENT,
        )
        (verified,) = self._experiments.run_wave([setting])
        return verified

    def _intent(self, place: Place, before: Config, number: int) -> DecisionIntent:
        """Return the identity of a step's decision; what it rests on is published with it."""
        body, catalog, record = place.body, self._adapter.catalog, place.found.record
        step = record.procedure.steps[number - 1]
        context = canonical_bytes({"ground": place.facts, "step": step.name, "config": dict(sorted(before.items()))})
        self._job.stores.artifacts.publish(context)
        task = identity_of(place.task, catalog.domain)
        return DecisionIntent(
            namespace=record.namespace,
            created_at=now(),
            run_id=body.id,
            activity_id=activity_id(body.id, SLOT),
            iteration=number,
            generation=1,
            arm=None,
            pair=None,
            evaluation_task_id=task.evaluation_task_id,
            task_scope_id=task.task_scope_id,
            research_context_digest=digest_bytes(context),
            contract_view_id=ContractViewId(self._view.id),
            decision_point=DecisionPoint.INTERVENTION,
            decision_slot=f"procedure-{number}",
            artifact_kind="intervention",
            catalog_digest=catalog.digest,
            allowed_action_digest=allowed_action_digest(open_actions(catalog, before, frozenset())),
            planned_actor=ActorIdentity(
                model="procedure-adapter/v1",
                config_digest=record.payload_digest,
                template_digest=domain_digest("procedure-template", "step-by-step/v1"),
                policy=self._policy.identity,
            ),
            governance=place.manifest.binding(None),
        )

    def _close(self, place: Place) -> None:
        run_id = place.body.id
        self._job.failures += self._job.campaigns.ingest(run_id, lambda _count: None)
        if not self._job.campaigns.without_receipt(run_id):
            self._job.apply([completion(run_id, self._job.leasing.held(activity_id(run_id, SLOT)))])

    def _observed(self, task: str) -> dict[str, str]:
        catalog = self._adapter.catalog
        return {
            "budget_class": BUDGET_CLASS,
            "catalog_digest": catalog.digest,
            "contract_digest": self._contract.comparability_digest,
            "model_family": MODEL_FAMILY,
            "task_scope_id": str(identity_of(task, catalog.domain).task_scope_id),
        }

    @staticmethod
    def _budget(found: StoredProcedure) -> list[BudgetLimit]:
        bounds = found.record.procedure.cost.bounds
        return [
            BudgetLimit(resource=each.resource, limit=int(float(each.limit)))
            for each in bounds
            if each.resource == EXPERIMENTS
        ]

    @property
    def _view(self) -> DecisionContractView:
        contract = self._contract
        return DecisionContractView(
            namespace=contract.namespace,
            created_at=PUBLISHED_AT,
            contract_id=ContractId(contract.id),
            contract_digest=contract.comparability_digest,
            primary_metric=contract.primary_metric,
            guardrail_metrics=contract.guardrail_metrics,
            equivalence_margin=contract.equivalence_margin,
            budget_class=BUDGET_CLASS,
        )


def _seen(verified: Verified) -> Seen:
    return Seen(
        experience_id=str(verified.experience_id), config_digest=verified.config_digest, metrics=verified.metrics
    )
