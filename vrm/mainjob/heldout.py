"""Held-out decisions, wave by wave: intent, recall, plan, experiment, outcome, link (spec 6.1).

Every stage first reads what is there: an intent that is open, a context that was committed, evidence that was verified,
an outcome. A job that was killed in the middle therefore goes on where it stopped and repeats nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from actors.settings import now
from memory.leases import completion
from memory.recall.context import Recall
from policies.catalog import KnobValue
from policies.planner import PlannerAnswer, PlannerQuestion, plan
from records.appends import Proposal
from records.decisions import BlockedProposal, DecisionIntent, RecallContext, RecallRequest
from records.evidence import Corpus
from records.flows import Authority, Transition
from records.ids import ContextId
from records.outcomes import RecallOutcome
from records.states import Machine
from records.values import RecallRequirement
from vrm.mainjob.deciding import Decisions, proposal_of
from vrm.mainjob.experiments import Experiments, Verified
from vrm.mainjob.job import Job, require
from vrm.mainjob.outcomes import Decided
from vrm.mainjob.tabular import Setting
from vrm.mainjob.trials import SLOT, DecisionMaker, TrialState, arm_manifest, memory_profile, new_trials

Source = RecallContext | BlockedProposal | None
Recaller = Callable[[Sequence[tuple[DecisionIntent, RecallRequest]]], Sequence[Recall | BlockedProposal]]


@dataclass(frozen=True, kw_only=True)
class Pending:
    """One decision on its way: where its arm stands, its intent, what memory said, what the planner answered."""

    state: TrialState
    intent: DecisionIntent
    source: Source
    answer: PlannerAnswer | None


class HeldOut:
    """Takes the held-out decisions of one round."""

    def __init__(self, job: Job, maker: DecisionMaker, experiments: Experiments, recall: Recaller) -> None:
        """Decide within `job`; `recall` answers requests of the memory arm."""
        self._job = job
        self._maker = maker
        self._experiments = experiments
        self._recall = recall
        self._decisions = Decisions(job)

    def run(self, tasks: tuple[str, ...]) -> None:
        """Run both arms of every trial to the end."""
        states = new_trials(self._maker.round, tasks, self._maker.catalog)
        waves = self._maker.round.size.decisions
        with self._job.step("Held-out decisions: two arms", len(states) * (waves + 1)) as advance:
            self._admit(states)
            self._start(states)
            advance(len(states))
            for index in range(waves):
                self._wave(states, index)
                advance(len(states))
            self._close(states)

    def _admit(self, states: Sequence[TrialState]) -> None:
        """Publish the arm assignment, admit the Runs that hold its digest, and begin their Activities."""
        fixed = (memory_profile().canonical, arm_manifest(self._maker.round).canonical)
        self._job.stores.artifacts.publish_many(fixed)
        self._job.admit([state.run for state in states], SLOT)

    def _start(self, states: Sequence[TrialState]) -> None:
        """Run each arm's baseline; it is no decision."""
        settings = [self._setting(state, 0, None, None) for state in states]
        for state, verified in zip(states, self._experiments.run_wave(settings), strict=True):
            state.observe(verified.metrics, state.config)

    def _wave(self, states: Sequence[TrialState], index: int) -> None:
        """Take the decision with this index in every arm."""
        drafts = [self._maker.intent(state, index, now()) for state in states]
        intents = self._decisions.register(self._maker.view, drafts)
        sources = self._sources(states, intents)
        given = zip(intents, sources, strict=True)
        self._decisions.give([(intent, each) for intent, each in given if not isinstance(each, BlockedProposal)])
        pending = [
            Pending(state=state, intent=intent, source=source, answer=self._plan(state, source, index))
            for state, intent, source in zip(states, intents, sources, strict=True)
        ]
        self._decisions.keep_answers([(item.intent, item.answer) for item in pending if item.answer is not None])
        executed = self._execute(pending, index)
        self._conclude(pending, executed)
        for item in pending:
            self._advance(item, executed.get(item.intent.id))

    def _sources(self, states: Sequence[TrialState], intents: Sequence[DecisionIntent]) -> list[Source]:
        """Return what memory says to each decision; what it said before is read back, never asked again."""
        found = self._said(intents)
        asked = [
            (intent, self._maker.request(state, intent))
            for state, intent in zip(states, intents, strict=True)
            if intent.governance.recall_requirement is RecallRequirement.REQUIRED and intent.id not in found
        ]
        proposals = []
        for (intent, _), answer in zip(asked, self._recall(asked), strict=True):
            if isinstance(answer, Recall):
                found[intent.id] = answer.context
                proposals.append(self._context(intent, answer.context))
            else:
                found[intent.id] = answer
                self._job.stores.artifacts.publish(answer.canonical)
        require(self._job.spine.carry(proposals))
        return [found.get(intent.id) for intent in intents]

    def _said(self, intents: Sequence[DecisionIntent]) -> dict[str, Source]:
        """Return the contexts that were committed, and the proofs of the outcomes that are blocked."""
        ledger, namespace = self._job.stores.ledger, self._job.namespace
        ids = [str(intent.id) for intent in intents]
        found: dict[str, Source] = {}
        for stored in ledger.find("decision-recall-context", namespace, intent_id=ids):
            record = stored.load()
            if isinstance(record, RecallContext):
                found[record.intent_id] = record
        for stored in ledger.find("recall-decision-outcome", namespace, intent_id=ids):
            outcome = stored.load()
            if isinstance(outcome, RecallOutcome) and outcome.blocked_proof_digest is not None:
                proof = self._job.stores.artifacts.read(outcome.blocked_proof_digest)
                found[outcome.intent_id] = BlockedProposal.load(proof)
        return found

    def _context(self, intent: DecisionIntent, context: RecallContext) -> Proposal:
        subject = self._job.stores.runtime.subject(Machine.DECISION, str(intent.id))
        attempt = (1, 1) if subject is None else (subject.generation, subject.fence)
        return proposal_of(intent, Transition.APPEND_CONTEXT, Authority.NORMAL, (context,), attempt)

    def _plan(self, state: TrialState, source: Source, index: int) -> PlannerAnswer | None:
        """Ask the planner; a blocked source reaches no actor (spec 9.7)."""
        if isinstance(source, BlockedProposal):
            return None
        question = PlannerQuestion(
            cards=source.items if source else (),
            config=state.config,
            catalog=self._maker.catalog,
            tried=frozenset(state.tried),
            decision_index=index,
            seed=state.exploration_seed,
            view=self._maker.view,
        )
        return plan(question, self._maker.planner)

    def _execute(self, pending: Sequence[Pending], index: int) -> dict[str, Verified]:
        acting = [(item, item.answer) for item in pending if item.answer is not None and item.answer.change is not None]
        settings = [
            self._setting(
                item.state,
                index + 1,
                None if answer.change is None else (answer.change.knob, answer.change.to_value),
                ContextId(item.source.id) if isinstance(item.source, RecallContext) else None,
            )
            for item, answer in acting
        ]
        verified = self._experiments.run_wave(settings)
        return {item.intent.id: found for (item, _), found in zip(acting, verified, strict=True)}

    def _conclude(self, pending: Sequence[Pending], executed: dict[str, Verified]) -> None:
        """Append one outcome per intent, then link those that led to an experiment."""
        self._decisions.conclude(
            [Decided(item.intent, item.source, item.answer, executed.get(item.intent.id), now()) for item in pending]
        )

    @staticmethod
    def _advance(item: Pending, verified: Verified | None) -> None:
        action = item.answer.action if item.answer else None
        if action is not None:
            item.state.tried.add(action)
        if verified is None:
            item.state.observe({}, item.state.config)
        else:
            item.state.observe(verified.metrics, verified.setting.config)

    def _close(self, states: Sequence[TrialState]) -> None:
        """Complete Activities and Runs; a Run ends only when each of its intents has its outcome (spec 6.3)."""
        ledger, namespace = self._job.stores.ledger, self._job.namespace
        commands = []
        for state in states:
            self._job.failures += self._job.campaigns.ingest(state.run_id, lambda _count: None)
            intents = {item.id for item in ledger.find("decision-intent", namespace, run_id=str(state.run_id))}
            closed = ledger.find("recall-decision-outcome", namespace, run_id=str(state.run_id))
            if len(closed) == len(intents) and not self._job.campaigns.without_receipt(state.run_id):
                commands.append(completion(state.run_id, self._job.leasing.held(state.activity_id)))
        self._job.apply(commands)

    def _setting(
        self, state: TrialState, iteration: int, change: tuple[str, KnobValue] | None, context_id: ContextId | None
    ) -> Setting:
        return Setting(
            task=state.task,
            seed=state.seed,
            before=state.config,
            change=change,
            iteration=iteration,
            run_id=state.run_id,
            corpus=Corpus.EVALUATION,
            arm=state.arm,
            pair=state.pair,
            recall_context_id=context_id,
        )
