"""What every typed decision goes through, whoever takes it: intent, what the actor is given, its answer, outcome, link.

Every step first reads what is there, so a job that goes on registers, appends and links nothing twice (spec 6.1).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from actors.settings import now
from memory.closure import ClosurePorts, RunClosure
from memory.commands import RunCommands
from policies.acting import ActorFailure
from policies.instruction import actor_instruction
from policies.planner import PlannerAnswer
from records.appends import Append, Proposal
from records.base import Record
from records.canonical import canonical_bytes, digest_bytes
from records.control import ControlCause
from records.decisions import DecisionContractView, DecisionIntent, RecallContext, memory_binding
from records.errors import ErasedError, IdentityConflictError, StaleError, VrmError
from records.flows import Authority, Transition
from records.ids import IntentId, RunId
from records.legacy_recall import LegacyRecall
from records.outcomes import ExecutedActor, OutcomeAttemptLink, RecallOutcome
from records.states import Machine, Phase
from vrm.mainjob.job import Job, require
from vrm.mainjob.outcomes import Decided, Source, link_of, outcome_of, planner_envelope


class Decisions:
    """Carries decisions of a job through the spine; who decides what is the caller's."""

    def __init__(self, job: Job) -> None:
        """Decide within `job`."""
        self._job = job

    def register(self, view: DecisionContractView, drafts: Sequence[DecisionIntent]) -> list[DecisionIntent]:
        """Register what is new, and return the intents as the Ledger holds them, with their first timestamps.

        Raises:
            IdentityConflictError: an earlier version registered another decision at such a place.
            StaleError: the Runtime knows a decision and the Ledger has no intent of it.
        """
        stores = self._job.stores
        known = stores.runtime.subjects(Machine.DECISION, [str(draft.id) for draft in drafts])
        fresh = [draft for draft in drafts if str(draft.id) not in known]
        proposals = [
            proposal_of(draft, Transition.APPEND_INTENT, Authority.ADMISSION, (view, draft), (1, 1)) for draft in fresh
        ]
        try:
            require(self._job.spine.carry(proposals))
        except VrmError:
            self._require_free(drafts)
            raise
        stored = stores.ledger.get_many(str(draft.id) for draft in drafts)
        loaded = {key: item.load() for key, item in stored.items()}
        intents = [item for draft in drafts if isinstance(item := loaded.get(str(draft.id)), DecisionIntent)]
        if len(intents) < len(drafts):
            self._require_free(drafts)
            missing = next(str(draft.id) for draft in drafts if str(draft.id) not in loaded)
            phase = known[missing].phase.value if missing in known else "unknown"
            remedy = "Its intent is not in the Ledger: run `vrm recover`, which settles its grant, and go on."
            raise StaleError("decision intent", f"{missing} {phase}", remedy)
        return intents

    def _require_free(self, drafts: Sequence[DecisionIntent]) -> None:
        """Refuse to decide where another decision stands at the place of a draft: one slot of a Run is decided once.

        Raises:
            IdentityConflictError: one does; the error says what to do.
        """
        runs = sorted({str(draft.run_id) for draft in drafts})
        found = self._job.stores.ledger.find("decision-intent", self._job.namespace, run_id=runs)
        stored = [record for item in found if isinstance(record := item.load(), DecisionIntent)]
        places = {(each.run_id, each.activity_id, each.iteration): each for each in stored}
        for draft in drafts:
            met = places.get((draft.run_id, draft.activity_id, draft.iteration), draft)
            if met.id != draft.id:
                remedy = (
                    "An earlier version, or another policy, began this decision: finish its Run with what began it, "
                )
                remedy += f"or give it up with `vrm runs cancel {draft.run_id}` and give the command again."
                raise IdentityConflictError("decision intent", str(met.id), remedy)

    def give(self, given: Sequence[tuple[DecisionIntent, Source]]) -> None:
        """Publish what each actor is given of memory, and in which words, before any is asked (spec 9.7, 13)."""
        published = [actor_instruction().canonical]
        for intent, source in given:
            context = source if isinstance(source, RecallContext) else None
            published.append(memory_binding(intent, context).canonical)
            if isinstance(source, LegacyRecall):
                published.append(source.canonical)
        self._job.stores.artifacts.publish_many(published)

    def fail(self, intent: DecisionIntent, source: Source, failure: ActorFailure) -> None:
        """Fail the Run of a decision whose actor gave none, and close it: closure writes the Outcome (spec 9.7).

        What the actor said, if anything, is published before the event that names its digest; where it says again what
        was erased, the digest alone is kept.
        """
        job, context = self._job, source if isinstance(source, RecallContext) else None
        answered = None
        if failure.response is not None:
            with suppress(ErasedError):
                job.stores.artifacts.publish(failure.response)
            answered = ExecutedActor(
                model=intent.planned_actor.model,
                response_digest=digest_bytes(failure.response),
                rendered_prompt_digest=None if context is None else context.rendered_digest,
            )
        self.end(intent.run_id, failure.cause, failure.detail, intent_id=IntentId(intent.id), executed_actor=answered)

    def end(
        self,
        run_id: RunId,
        cause: ControlCause,
        detail: str,
        *,
        intent_id: IntentId | None = None,
        executed_actor: ExecutedActor | None = None,
    ) -> None:
        """Fail a Run and close it: closure writes the Outcome of whatever is open in it (spec 6.3, 9.7)."""
        job = self._job
        stores, owner = job.stores, job.owners.run_owner
        commands = RunCommands(stores.runtime, stores.artifacts, owner, now)
        commands.fail_run(run_id, cause, detail, intent_id=intent_id, executed_actor=executed_actor)
        ports = ClosurePorts(
            ledger=stores.ledger, runtime=stores.runtime, artifacts=stores.artifacts, owner=owner, spine=job.spine
        )
        with suppress(StaleError):  # what waits is closed by `vrm recover`, with which the next round begins
            RunClosure(ports).close(run_id)

    def keep_answers(self, answers: Sequence[tuple[DecisionIntent, PlannerAnswer, Source]]) -> None:
        """Publish what each actor answered, before anything is executed."""
        self._job.stores.artifacts.publish_many([canonical_bytes(planner_envelope(*each)) for each in answers])

    def conclude(self, decided: Sequence[Decided]) -> None:
        """Append one outcome per intent, then link those that led to an experiment; an outcome that is there stays."""
        subjects = self._job.stores.runtime.subjects(Machine.DECISION, [str(each.intent.id) for each in decided])
        ended = [key for key, subject in subjects.items() if subject.phase is Phase.OUTCOME_COMMITTED]
        known = self._outcomes(ended)
        links: list[OutcomeAttemptLink] = []
        proposals = []
        for each in decided:
            subject = subjects[str(each.intent.id)]
            outcome = known.get(str(each.intent.id)) or outcome_of(each)
            if each.executed is not None and outcome.intervention_id == each.executed.intervention_id:
                links.append(link_of(outcome, each.executed))
            if subject.phase is not Phase.OUTCOME_COMMITTED:
                place = (subject.generation, subject.fence)
                proposals.append(
                    proposal_of(each.intent, Transition.APPEND_OUTCOME, Authority.NORMAL, (outcome,), place)
                )
        require(self._job.spine.carry(proposals))
        require(self._job.spine.direct([_link_append(link) for link in links]))

    def _outcomes(self, intent_ids: Sequence[str]) -> dict[str, RecallOutcome]:
        ledger, namespace = self._job.stores.ledger, self._job.namespace
        found = ledger.find("recall-decision-outcome", namespace, intent_id=list(intent_ids)) if intent_ids else []
        loaded = (stored.load() for stored in found)
        return {str(each.intent_id): each for each in loaded if isinstance(each, RecallOutcome)}


def proposal_of(
    intent: DecisionIntent,
    transition: Transition,
    authority: Authority,
    records: tuple[Record, ...],
    attempt: tuple[int, int],
) -> Proposal:
    """Return a proposal about a decision, at a generation and fence of it."""
    return Proposal(
        namespace=intent.namespace,
        transition=transition,
        authority=authority,
        machine=Machine.DECISION,
        subject_id=str(intent.id),
        run_id=intent.run_id,
        generation=attempt[0],
        fence=attempt[1],
        records=Proposal.bodies(records),
    )


def _link_append(link: OutcomeAttemptLink) -> Append:
    return Append.direct(Transition.LINK_ATTEMPT, f"link/{link.outcome_id}", (link,))
