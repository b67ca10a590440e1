"""Held-out decisions, wave by wave: intent, recall, plan, experiment, outcome, link (spec 6.1).

Every stage first reads what is there: an intent that is open, a context that was committed, evidence that was verified,
an outcome. A job that was killed in the middle therefore goes on where it stopped and repeats nothing.

What an actor answers is checked before anything is executed (`policies/preflight.py`): an answer that is rejected has
its outcome and no experiment. A shadow's context is committed like any other, and no actor is shown it (spec 18).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from actors.settings import now
from memory.leases import completion
from memory.recall.context import Recall
from policies.acting import ActorFailure, malformed
from policies.instruction import actor_instruction
from policies.legacy_lessons import plan_with_lessons
from policies.planner import PlannerAnswer, PlannerPolicy, PlannerQuestion, plan
from policies.preflight import answer_faults, rejection, violations
from records.appends import Proposal
from records.canonical import canonical_bytes
from records.control import ControlCause
from records.decisions import BlockedProposal, DecisionIntent, RecallContext, RecallRequest
from records.envelopes import PlannerEnvelope
from records.errors import ErasedError
from records.flows import Authority, Transition
from records.governance import Mode
from records.ids import ContextId
from records.legacy_recall import LegacyRecall
from records.outcomes import RecallOutcome, TerminalReason
from records.states import Machine
from records.values import RecallRequirement
from vrm.mainjob.answered import LEADER_FAILED, Kept, given_up, kept_answer, kept_of
from vrm.mainjob.deciding import Decisions, proposal_of
from vrm.mainjob.experiments import Experiments, Verified
from vrm.mainjob.job import Job, require
from vrm.mainjob.lessons import Lessons
from vrm.mainjob.outcomes import Decided, ErasedLessons, Source
from vrm.mainjob.trials import SLOT, DecisionMaker, TrialState, arm_profiles, new_trials

Actor = Callable[[PlannerQuestion, PlannerPolicy], PlannerAnswer | ActorFailure]
"""Who decides, given the cards of a context; what it answers is checked before anything is executed."""
Recaller = Callable[[Sequence[tuple[DecisionIntent, RecallRequest]]], Sequence[Recall | BlockedProposal]]


@dataclass(frozen=True, kw_only=True)
class Pending:
    """One decision on its way: where its arm stands, its intent, what memory said, what the planner answered.

    `rejected` is why the answer is not executed, if it is not; `failed` why there is none, though an actor was asked.
    """

    state: TrialState
    intent: DecisionIntent
    source: Source
    answer: PlannerAnswer | None
    rejected: TerminalReason | None = None
    failed: ActorFailure | None = None


@dataclass(frozen=True)
class _Learnt:
    """Lessons, the position up to which they were learnt, and the retention frontier at which they were."""

    until: int
    denied_at: int
    lessons: Lessons


class HeldOut:
    """Takes the held-out decisions of one round."""

    def __init__(
        self,
        job: Job,
        maker: DecisionMaker,
        experiments: Experiments,
        recall: Recaller,
        *,
        learn: Callable[[int], Lessons] | None = None,
        actor: Actor = plan,
    ) -> None:
        """Decide within `job`.

        Args:
            job: the stores and owners.
            maker: what every decision shares.
            experiments: what carries decisions out.
            recall: answers requests of arms that require a context.
            learn: returns the earlier design's lessons at a journal position, for arms of `legacy_recall`.
            actor: who decides.
        """
        self._job = job
        self._maker = maker
        self._experiments = experiments
        self._recall = recall
        self._learn = learn
        self._learnt: _Learnt | None = None
        self._actor = actor
        self._decisions = Decisions(job)

    def run(self, tasks: tuple[str, ...]) -> list[TrialState]:
        """Run the arms of every trial to the end, and return where they stand."""
        states = new_trials(self._maker.round, tasks, self._maker.catalog)
        self.carry(states, self._maker.round.size.decisions, "Held-out decisions")
        return states

    def carry(self, states: Sequence[TrialState], waves: int, step: str) -> None:
        """Carry arms from their baselines through so many decisions each, and close their Runs."""
        with self._job.step(step, len(states) * (waves + 1)) as advance:
            self._leave_out(states)
            going = [state for state in states if state.failed is None]
            self._admit(going)
            self._start(going)
            advance(len(states))
            for index in range(waves):
                self._wave(states, index)
                advance(len(states))
            self._close(states)

    def _leave_out(self, states: Sequence[TrialState]) -> None:
        """Let those stay failed whose actors failed before a job that goes on; the others are not stopped by them."""
        found = given_up(self._job.stores.runtime, self._job.stores.artifacts, states)
        for state in states:
            state.failed = found.get(state.run_id)
        for state in states:
            self._without_leader(state)

    def _admit(self, states: Sequence[TrialState]) -> None:
        """Publish the arm assignment, admit the Runs that hold its digest, and begin their Activities."""
        profiles = [profile.canonical for profile in arm_profiles(self._maker.round).values()]
        self._job.stores.artifacts.publish_many([*profiles, self._maker.manifest.canonical])
        self._job.admit([state.run for state in states], SLOT)

    def _start(self, states: Sequence[TrialState]) -> None:
        """Run each arm's baseline; it is no decision."""
        acting = [state for state in states if state.leader is None]
        settings = [state.setting(0, None) for state in acting]
        for state, verified in zip(acting, self._experiments.run_wave(settings), strict=True):
            state.observe(verified.metrics, state.config)

    def _wave(self, states: Sequence[TrialState], index: int) -> None:
        """Take the decision with this index in every arm whose Run goes on."""
        states = [state for state in states if state.failed is None]
        for state in states:
            state.follow()
        drafts = [self._maker.intent(state, index, now()) for state in states]
        intents = self._decisions.register(self._maker.view, drafts)
        sources = self._sources(states, intents)
        asked = [each for each in zip(states, intents, sources, strict=True) if _reaches_actor(each[0], each[2])]
        self._decisions.give([(intent, source) for _, intent, source in asked])
        # the planner says the same again at no cost, so only of another actor is it read what it said
        kept = {} if self._actor is plan else kept_of(self._job.stores, self._job.namespace, intents)
        pending = []
        for state, intent, source in zip(states, intents, sources, strict=True):
            if not self._without_leader(state):
                said = self._decided(state, intent, source, index, kept.get(intent.id))
                pending += [said] if self._goes_on(said) else []
        answers = [(each.intent, each.answer, each.source) for each in pending if each.answer is not None]
        self._decisions.keep_answers(answers)
        executed = self._execute(pending, index)
        self._conclude(pending, executed)
        for item in pending:
            self._advance(item, executed.get(item.intent.id))

    def _sources(self, states: Sequence[TrialState], intents: Sequence[DecisionIntent]) -> list[Source]:
        """Return what memory says to each decision; what it said before is read back, never asked again."""
        found = self._said(intents) | self._legacy(states, intents)
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

    def _legacy(self, states: Sequence[TrialState], intents: Sequence[DecisionIntent]) -> dict[str, Source]:
        """Return the lessons of the decisions whose arm has them; such an arm requires no context, and gets none.

        A round that goes on learns from the same evidence: all that was there at the first of these decisions, less
        what retention denies now. A decision that has its outcome keeps what its actor was given, or what its envelope
        says of it where that was erased.
        """
        if self._learn is None:
            return {}
        paired = zip(states, intents, strict=True)
        arms = {str(intent.id): state for state, intent in paired if state.mode is Mode.LEGACY_RECALL}
        if not arms:
            return {}
        lessons, given = self._lessons(self._learn, list(arms)), self._given(list(arms))
        return {
            intent.id: given.get(str(intent.id)) or lessons.recall(intent, self._maker.query(arms[str(intent.id)]))
            for intent in intents
            if str(intent.id) in arms
        }

    def _lessons(self, learn: Callable[[int], Lessons], intent_ids: Sequence[str]) -> Lessons:
        """Return what was learnt at the first of all decisions, learnt anew where something was denied since."""
        ledger = self._job.stores.ledger
        denied_at = ledger.namespace_head(self._job.namespace).retention
        if self._learnt is None:
            until = min(item.position for item in ledger.get_many(intent_ids).values())
            self._learnt = _Learnt(until, denied_at, learn(until))
        elif self._learnt.denied_at != denied_at:
            self._learnt = _Learnt(self._learnt.until, denied_at, learn(self._learnt.until))
        return self._learnt.lessons

    def _given(self, ids: Sequence[str]) -> dict[str, LegacyRecall | ErasedLessons]:
        """Return the lessons that the envelopes of concluded decisions name."""
        stores = self._job.stores
        found: dict[str, LegacyRecall | ErasedLessons] = {}
        for stored in stores.ledger.find("recall-decision-outcome", self._job.namespace, intent_id=list(ids)):
            outcome = stored.load()
            if isinstance(outcome, RecallOutcome) and outcome.executed_actor is not None:
                envelope = PlannerEnvelope.load(stores.artifacts.read(outcome.executed_actor.response_digest))
                if envelope.legacy_recall is None:
                    continue
                try:
                    lessons = LegacyRecall.load(stores.artifacts.read(envelope.legacy_recall))
                except ErasedError:
                    found[str(outcome.intent_id)] = ErasedLessons(envelope)
                else:
                    found[str(outcome.intent_id)] = lessons
        return found

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

    def _goes_on(self, asked: Pending) -> bool:
        """Fail the Run of an actor that gave no decision, before another one is asked; tell whether there is one.

        The pair of such a Run stays in the comparison, with what was in effect before: it is never asked again until
        it pleases (spec 9.7, 15).
        """
        state, failed = asked.state, asked.failed
        if failed is None:
            return True
        self._decisions.fail(asked.intent, asked.source, failed)
        self._left(state, failed.cause, failed.detail)
        return False

    def _without_leader(self, state: TrialState) -> bool:
        """Tell whether a shadow has lost its leader, and end its Run with the leader's: there is nothing to follow."""
        if state.leader is None or state.leader.failed is None:
            return False
        if state.failed is None:
            self._decisions.end(state.run_id, ControlCause.CONTRACT, LEADER_FAILED)
            self._left(state, ControlCause.CONTRACT, LEADER_FAILED)
        return True

    def _left(self, state: TrialState, cause: ControlCause, detail: str) -> None:
        self._job.leasing.let_go([state.activity_id])
        state.failed = cause
        told = f"{state.run_id} failed: {cause}, {detail}"
        self._job.console.print(told, markup=False, soft_wrap=True)

    def _decided(
        self,
        state: TrialState,
        intent: DecisionIntent,
        source: Source,
        index: int,
        kept: Kept | None = None,
    ) -> Pending:
        """Ask the actor, and check what it answers; nothing of an answer that is malformed is a decision.

        With `kept` the decision has its outcome, and what was answered is read there: nobody is asked again.
        """
        answer = self._plan(state, source, index, None if kept is None else kept.envelope)
        if answer is None:
            return Pending(state=state, intent=intent, source=source, answer=None)
        cards = source.items if isinstance(source, RecallContext) else ()
        if isinstance(answer, PlannerAnswer):
            faults = answer_faults(cards, answer.dispositions, actor_instruction())
            if faults:
                said = canonical_bytes([each.as_json() for each in answer.dispositions])
                answer = malformed(", ".join(faults), said.decode())
        if isinstance(answer, ActorFailure):
            return Pending(state=state, intent=intent, source=source, answer=None, failed=answer)
        found = violations(cards, self._maker.actions(state), answer)
        if found:
            told = f"{intent.id}: not executed, {', '.join(found)}"
            self._job.console.print(told, markup=False, soft_wrap=True)
        rejected = rejection(found) if kept is None else kept.rejected
        return Pending(state=state, intent=intent, source=source, answer=answer, rejected=rejected)

    def _plan(
        self, state: TrialState, source: Source, index: int, kept: PlannerEnvelope | None
    ) -> PlannerAnswer | ActorFailure | None:
        """Ask the actor; what is blocked or only shadowed reaches none (spec 9.7, 18)."""
        if not _reaches_actor(state, source):
            return None
        question = PlannerQuestion(
            cards=source.items if isinstance(source, RecallContext) else (),
            config=state.config,
            catalog=self._maker.catalog,
            tried=frozenset(state.tried),
            decision_index=index,
            seed=state.exploration_seed,
            view=self._maker.view,
            section_digest=source.rendered_digest if isinstance(source, RecallContext) else None,
        )
        kept = source.envelope if isinstance(source, ErasedLessons) else kept
        if kept is not None:
            return kept_answer(question, kept)
        if isinstance(source, LegacyRecall):
            return plan_with_lessons(question, source.items, self._maker.planner)
        if self._actor is not plan:  # it may take its time
            self._job.keep()
        return self._actor(question, self._maker.planner)

    def _execute(self, pending: Sequence[Pending], index: int) -> dict[str, Verified]:
        acting = [
            (item, item.answer)
            for item in pending
            if item.rejected is None and item.answer is not None and item.answer.change is not None
        ]
        settings = [
            item.state.setting(
                index + 1,
                answer.change,
                ContextId(item.source.id) if isinstance(item.source, RecallContext) else None,
            )
            for item, answer in acting
        ]
        verified = self._experiments.run_wave(settings)
        return {item.intent.id: found for (item, _), found in zip(acting, verified, strict=True)}

    def _conclude(self, pending: Sequence[Pending], executed: dict[str, Verified]) -> None:
        """Append one outcome per intent, then link those that led to an experiment."""
        self._decisions.conclude(
            [
                Decided(item.intent, item.source, item.answer, executed.get(item.intent.id), now(), item.rejected)
                for item in pending
            ]
        )

    @staticmethod
    def _advance(item: Pending, verified: Verified | None) -> None:
        action = item.answer.action if item.answer else None
        item.state.answers.append(item.answer)
        item.state.cards += len(item.source.items) if isinstance(item.source, RecallContext) else 0
        if action is not None:
            item.state.tried.add(action)
        if item.state.leader is not None:
            return
        if verified is None:
            item.state.observe({}, item.state.config)
        else:
            item.state.observe(verified.metrics, verified.setting.config)

    def _close(self, states: Sequence[TrialState]) -> None:
        """Complete Activities and Runs; a Run ends only when each of its intents has its outcome (spec 6.3)."""
        ledger, namespace = self._job.stores.ledger, self._job.namespace
        commands = []
        for state in (each for each in states if each.failed is None):
            self._job.failures += self._job.campaigns.ingest(state.run_id, lambda _count: None)
            intents = {item.id for item in ledger.find("decision-intent", namespace, run_id=str(state.run_id))}
            closed = ledger.find("recall-decision-outcome", namespace, run_id=str(state.run_id))
            if len(closed) == len(intents) and not self._job.campaigns.without_receipt(state.run_id):
                commands.append(completion(state.run_id, self._job.leasing.held(state.activity_id)))
        self._job.apply(commands)


def _reaches_actor(state: TrialState, source: Source) -> bool:
    """Tell whether an actor is asked: not where memory is blocked, and not by an arm that only shadows."""
    return state.leader is None and not isinstance(source, BlockedProposal)
