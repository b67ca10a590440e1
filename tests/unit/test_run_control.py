"""What a control event does to a Run, as a pure rule; and what closure makes of a decision (spec 6.3, 9.7)."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from memory.closure import closure_outcome
from memory.control import CONTROL, ENDS, ending, rule
from memory.fsck import Code, fsck
from records.control import (
    INDEPENDENT,
    LEGAL_CAUSES,
    BudgetLimit,
    BudgetLine,
    ControlCause,
    ControlEffect,
    ControlEvent,
    ControlKind,
    RunFacts,
)
from records.decisions import ContextStatus, DecisionIntent, RecallContext
from records.errors import (
    CommitArbitrationBusyError,
    IllegalTransitionError,
    IntegrityError,
    InvalidInputError,
    InvalidRecordError,
    StaleError,
)
from records.ids import IntentId, RunId
from records.outcomes import (
    CardReason,
    DecisionStatus,
    ExecutedActor,
    OutcomeReason,
    SourceStatus,
    TerminalEvidenceKind,
    TerminalReason,
)
from records.runtime import Subject
from records.states import ARROWS, Event, Machine, Phase, phases_of
from records.values import RecallRequirement
from store.artifacts import ArtifactStore
from store.ledger.memory import MemoryLedger
from store.runtime.memory import MemoryRuntime
from tests.support.decision_samples import make_intent, sample_records
from tests.support.samples import Common, run_of
from tests.support.stack import Stack, Stores
from tests.support.stack_control import Staged, closure, stop, without_memory
from tests.support.stores import fresh_namespace
from tests.support.trials import NOW, digest

RUN = run_of("test")
KNOWN = sample_records("test")
ACTOR = ExecutedActor(model="planner", response_digest=digest("garbage"), rendered_prompt_digest=None)
OTHER = IntentId.derive({"another": "decision"})
LATER = "2026-06-01T00:00:00.000000Z"


def event(kind: ControlKind, cause: ControlCause | None = None, **changes: Any) -> ControlEvent:
    """Return a legal event of the test Run, with what its kind and cause require."""
    cause = cause or min(LEGAL_CAUSES[kind])
    fields: dict[str, Any] = {
        "namespace": "test", "run_id": RUN.id, "kind": kind, "cause": cause, "detail": "", "at": NOW,
    }  # fmt: skip
    if cause in {ControlCause.ACTOR_INVOCATION_FAILED, ControlCause.ACTOR_OUTPUT_MALFORMED}:
        fields["intent_id"] = OTHER
    if cause is ControlCause.ACTOR_OUTPUT_MALFORMED:
        fields["executed_actor"] = ACTOR
    if kind is ControlKind.AMEND_BUDGET:
        fields |= {"limits": (BudgetLimit(resource="fits", limit=3),), "expected_version": 4}
    return ControlEvent.build(**(fields | changes))


def run(phase: Phase, **facts: Any) -> Subject:
    return Subject(
        machine=Machine.RUN,
        id=RUN.id,
        run_id=RUN.id,
        phase=phase,
        version=4,
        generation=1,
        fence=1,
        body=RUN.canonical.decode(),
        facts=RunFacts(**facts).canonical.decode(),
    )


CANCEL, FAILURE = event(ControlKind.CANCEL_EVENT), event(ControlKind.RUNTIME_FAILURE, ControlCause.INTEGRITY)
PAIRS = [(kind, cause) for kind in ControlKind for cause in ControlCause]


class TestEvents:
    @pytest.mark.parametrize(("kind", "cause"), PAIRS)
    def test_causes_are_closed(self, kind: ControlKind, cause: ControlCause) -> None:
        if cause in LEGAL_CAUSES[kind]:
            assert event(kind, cause).cause is cause
        else:
            with pytest.raises(InvalidRecordError):
                event(kind, cause)

    @pytest.mark.parametrize(
        ("kind", "changes"),
        [
            (ControlKind.CANCEL_EVENT, {"intent_id": OTHER}),
            (ControlKind.CANCEL_EVENT, {"executed_actor": ACTOR}),
            (ControlKind.RUNTIME_FAILURE, {"cause": ControlCause.ACTOR_INVOCATION_FAILED, "intent_id": None}),
            (ControlKind.RUNTIME_FAILURE, {"cause": ControlCause.ACTOR_OUTPUT_MALFORMED, "executed_actor": None}),
            (ControlKind.PAUSE, {"expected_version": 1}),
            (ControlKind.PAUSE, {"limits": (BudgetLimit(resource="fits", limit=1),)}),
            (ControlKind.AMEND_BUDGET, {"limits": ()}),
            (ControlKind.AMEND_BUDGET, {"expected_version": None}),
            (ControlKind.AMEND_BUDGET, {"limits": (BudgetLimit(resource="fits", limit=1),) * 2}),
            (ControlKind.PAUSE, {"at": "yesterday"}),
        ],
    )
    def test_what_a_cause_needs_and_forbids(self, kind: ControlKind, changes: dict[str, Any]) -> None:
        with pytest.raises(InvalidRecordError):
            event(kind, **changes)

    def test_only_canonical_bytes_are_read(self) -> None:
        assert ControlEvent.read(CANCEL.canonical, CANCEL.canonical_digest) == CANCEL
        with pytest.raises(IntegrityError):
            ControlEvent.read(CANCEL.canonical + b"\n", CANCEL.canonical_digest)

    @pytest.mark.parametrize(
        ("cause", "own", "of_others"),
        [
            ("COMMAND", "CANCELLED_BY_COMMAND", "CANCELLED_BY_COMMAND"),
            ("INCIDENT", "CANCELLED_BY_INCIDENT", "CANCELLED_BY_INCIDENT"),
            ("ACTOR_INVOCATION_FAILED", "ACTOR_INVOCATION_FAILED", "RUNTIME_FAILURE_CLOSURE"),
            ("ACTOR_OUTPUT_MALFORMED", "ACTOR_OUTPUT_MALFORMED", "RUNTIME_FAILURE_CLOSURE"),
            ("INTEGRITY", "RUNTIME_FAILURE_CLOSURE", "RUNTIME_FAILURE_CLOSURE"),
            ("CONTRACT", "RUNTIME_FAILURE_CLOSURE", "RUNTIME_FAILURE_CLOSURE"),
            ("INFRASTRUCTURE", "RUNTIME_FAILURE_CLOSURE", "RUNTIME_FAILURE_CLOSURE"),
        ],
    )
    def test_every_cause_has_its_reason(self, cause: str, own: str, of_others: str) -> None:
        (kind,) = [
            kind
            for kind in (ControlKind.CANCEL_EVENT, ControlKind.RUNTIME_FAILURE)
            if ControlCause(cause) in LEGAL_CAUSES[kind]
        ]
        made = event(kind, ControlCause(cause))
        assert made.reason(OTHER) is TerminalReason(own)
        assert made.reason("decision-intent:" + "0" * 64) is TerminalReason(of_others)

    @pytest.mark.parametrize("kind", [ControlKind.PAUSE, ControlKind.RESUME, ControlKind.AMEND_BUDGET])
    def test_what_ends_nothing_gives_no_reason(self, kind: ControlKind) -> None:
        with pytest.raises(IntegrityError):
            event(kind).reason(OTHER)


LEGAL = {
    ("RUNNING", "PAUSE"): "PAUSED",
    ("PAUSED", "RESUME"): "RUNNING",
    ("RUNNING", "CANCEL_EVENT"): "CANCELLING",
    ("PAUSED", "CANCEL_EVENT"): "CANCELLING",
    ("RUNNING", "RUNTIME_FAILURE"): "FAILING",
    ("PAUSED", "RUNTIME_FAILURE"): "FAILING",
    ("CANCELLING", "RUNTIME_FAILURE"): "FAILING",
    ("RUNNING", "AMEND_BUDGET"): "RUNNING",
    ("PAUSED", "AMEND_BUDGET"): "PAUSED",
    ("FAILING", "RUNTIME_FAILURE"): "FAILING",
}
SUPPRESSED = {("CANCELLING", "CANCEL_EVENT"), ("FAILING", "CANCEL_EVENT")}
RETAINED = {("FAILING", "RUNTIME_FAILURE")}
EVERY = list(itertools.product(phases_of(Machine.RUN), ControlKind))


class TestRule:
    @pytest.mark.parametrize(("phase", "kind"), EVERY)
    def test_every_phase_and_kind(self, phase: Phase, kind: ControlKind) -> None:
        cause = ControlCause.INTEGRITY if kind is ControlKind.RUNTIME_FAILURE else None
        given, now = event(kind, cause, at=LATER), run(phase)
        pair = (phase.value, kind.value)
        if pair in LEGAL:
            ruling = rule(now, given)
            assert ruling.effect is (ControlEffect.RETAINED if pair in RETAINED else ControlEffect.APPLIED)
            assert ruling.command is not None
            (move,), (seen,) = ruling.command.moves, ruling.command.requires
            assert ARROWS[Machine.RUN, phase, move.event] is Phase(LEGAL[pair])
            assert (seen.phase, seen.version) == (phase, 4)
        elif pair in SUPPRESSED:
            assert rule(now, given) == type(rule(now, given))(ControlEffect.SUPPRESSED)
        else:
            with pytest.raises(IllegalTransitionError):
                rule(now, given)

    @pytest.mark.parametrize("cause", sorted(LEGAL_CAUSES[ControlKind.RUNTIME_FAILURE]))
    def test_only_a_failure_of_its_own_takes_a_cancellation_over(self, cause: ControlCause) -> None:
        """What an actor did may be the cancellation's doing; integrity, contract and infrastructure are not (9.7)."""
        assert {cause.value for cause in INDEPENDENT} == {"INTEGRITY", "CONTRACT", "INFRASTRUCTURE"}
        now = run(Phase.CANCELLING, control=CANCEL.ref)
        ruling = rule(now, event(ControlKind.RUNTIME_FAILURE, cause))
        assert ruling.effect is (ControlEffect.APPLIED if cause in INDEPENDENT else ControlEffect.SUPPRESSED)

    @pytest.mark.parametrize("cause", sorted(LEGAL_CAUSES[ControlKind.RUNTIME_FAILURE]))
    def test_a_failing_run_keeps_the_failures_that_nothing_before_them_caused(self, cause: ControlCause) -> None:
        """Each once, as secondary evidence (9.7); what an actor did may be the first failure's doing."""
        now, second = run(Phase.FAILING, control=FAILURE.ref), event(ControlKind.RUNTIME_FAILURE, cause, at=LATER)
        if cause not in INDEPENDENT:
            assert rule(now, second).effect is ControlEffect.SUPPRESSED
            return
        kept = self.facts(now, second)
        assert kept == RunFacts(control=FAILURE.ref, secondary=(second.ref,))
        now = run(Phase.FAILING, control=FAILURE.ref, secondary=(second.ref,))
        assert rule(now, second).effect is ControlEffect.REPLAYED
        third = event(ControlKind.RUNTIME_FAILURE, ControlCause.CONTRACT, at="2026-07-01T00:00:00.000000Z")
        assert self.facts(now, third).secondary == (second.ref, third.ref)

    def test_what_is_kept(self) -> None:
        pause = event(ControlKind.PAUSE)
        assert self.facts(run(Phase.RUNNING), pause) == RunFacts(taken=(pause.canonical_digest,))
        kept: dict[str, Any] = {"taken": (pause.canonical_digest,), "budget": (BudgetLine(resource="fits", limit=3),)}
        assert self.facts(run(Phase.PAUSED, **kept), CANCEL) == RunFacts(control=CANCEL.ref, **kept)
        taken_over = self.facts(run(Phase.CANCELLING, control=CANCEL.ref, **kept), FAILURE)
        assert taken_over == RunFacts(control=FAILURE.ref, superseded=CANCEL.ref, **kept)

    @pytest.mark.parametrize("phase", phases_of(Machine.RUN))
    def test_the_same_event_is_a_replay_wherever_the_run_stands(self, phase: Phase) -> None:
        pause = event(ControlKind.PAUSE)
        facts = {"control": FAILURE.ref, "superseded": CANCEL.ref, "taken": (pause.canonical_digest,)}
        for again in (CANCEL, FAILURE, pause):
            assert rule(run(phase, **facts), again).effect is ControlEffect.REPLAYED

    @pytest.mark.parametrize("kind", ControlKind)
    def test_only_a_pause_waits_for_a_grant(self, kind: ControlKind) -> None:
        now = run(Phase.PAUSED if kind is ControlKind.RESUME else Phase.RUNNING)
        if kind is ControlKind.PAUSE:
            with pytest.raises(CommitArbitrationBusyError):
                rule(now, event(kind), ["authorization:1"])
        else:
            assert rule(now, event(kind), ["authorization:1"]).command is not None

    @pytest.mark.parametrize("changes", [{"run_id": RunId.derive({"another": 1})}, {"namespace": "another"}])
    def test_an_event_of_another_run(self, changes: dict[str, Any]) -> None:
        with pytest.raises(IntegrityError):
            rule(run(Phase.RUNNING), event(ControlKind.CANCEL_EVENT, **changes))

    def facts(self, now: Subject, given: ControlEvent) -> RunFacts:
        command = rule(now, given).command
        assert command is not None
        (move,) = command.moves
        return RunFacts.load(move.facts or "")


class TestBudget:
    SPENT = (BudgetLine(resource="fits", limit=5, spent=2), BudgetLine(resource="tokens", limit=9, spent=9))

    @pytest.mark.parametrize("limit", [2, 3, 100])
    def test_a_limit_rises_or_falls_to_what_is_spent(self, limit: int) -> None:
        given = event(ControlKind.AMEND_BUDGET, limits=(BudgetLimit(resource="fits", limit=limit),))
        facts = TestRule().facts(run(Phase.PAUSED, budget=self.SPENT), given)
        assert facts.budget == (BudgetLine(resource="fits", limit=limit, spent=2), self.SPENT[1])

    def test_never_below(self) -> None:
        given = event(ControlKind.AMEND_BUDGET, limits=(BudgetLimit(resource="fits", limit=1),))
        with pytest.raises(InvalidInputError):
            rule(run(Phase.RUNNING, budget=self.SPENT), given)
        with pytest.raises(InvalidRecordError):
            BudgetLine.build(resource="fits", limit=1, spent=2)

    @pytest.mark.parametrize("version", [3, 5])
    def test_decided_on_another_version(self, version: int) -> None:
        with pytest.raises(StaleError):
            rule(run(Phase.RUNNING), event(ControlKind.AMEND_BUDGET, expected_version=version))


class TestEnding:
    @pytest.mark.parametrize("phase", phases_of(Machine.RUN))
    def test_only_from_where_it_closes(self, phase: Phase) -> None:
        wanted = {Phase.CANCELLING: (Event.CANCELLED, "CANCELLED"), Phase.FAILING: (Event.FAILED, "FAILED")}
        assert ENDS.keys() == wanted.keys()
        if phase not in wanted:
            with pytest.raises(IllegalTransitionError):
                ending(run(phase))
            return
        command = ending(run(phase))
        assert (command.moves[0].event, command.key_phase) == wanted[phase]
        assert command.moves[0].event not in CONTROL.values()


def intent_of(required: RecallRequirement) -> DecisionIntent:
    return make_intent(Common("test"), KNOWN, required=required)[1]


def context_of(status: str) -> RecallContext:
    context = KNOWN["decision-recall-context"]
    assert isinstance(context, RecallContext)
    reasons = {"empty": "empty_below_threshold", "degraded": "degraded_adapter_fallback", "ok": "ok_cards_returned"}
    items = () if status == "empty" else context.items
    return context.model_copy(
        update={"status": ContextStatus(status), "status_reason": reasons[status], "items": items}
    )


class TestClosureOutcome:
    @pytest.mark.parametrize("status", ["ok", "empty", "degraded"])
    @pytest.mark.parametrize("given", [CANCEL, FAILURE], ids=["cancel", "fail"])
    def test_vrm_r07_a_context_is_kept_and_every_card_has_one_fate(self, status: str, given: ControlEvent) -> None:
        context = context_of(status)
        made = closure_outcome(intent_of(RecallRequirement.REQUIRED), context, given)
        assert (made.source_status, made.outcome_reason) == (SourceStatus(status), context.status_reason)
        assert (made.context_id, made.closure_event_digest) == (context.id, None)
        wanted = CardReason.NOT_CONSIDERED_CANCELLED if given is CANCEL else CardReason.NOT_CONSIDERED_ACTOR_FAILED
        assert [(each.citation_id, each.reason) for each in made.dispositions] == [
            (item.citation_id, wanted) for item in context.items
        ]
        assert len(made.dispositions) == (0 if status == "empty" else 1)

    @pytest.mark.parametrize(
        ("given", "source", "decision", "kind"),
        [
            (CANCEL, SourceStatus.CANCELLED_BEFORE_RECALL, DecisionStatus.CANCELLED, "CANCEL_EVENT"),
            (FAILURE, SourceStatus.FAILED_BEFORE_RECALL, DecisionStatus.ACTOR_FAILED, "RUNTIME_FAILURE"),
        ],
    )
    def test_vrm_r07_before_recall(
        self, given: ControlEvent, source: SourceStatus, decision: DecisionStatus, kind: str
    ) -> None:
        made = closure_outcome(intent_of(RecallRequirement.REQUIRED), None, given)
        assert (made.source_status, made.outcome_reason, made.decision_status) == (source, source.value, decision)
        assert made.terminal_evidence_kind is TerminalEvidenceKind(kind)
        assert made.closure_event_digest == made.terminal_evidence_digest == given.canonical_digest
        assert (made.context_id, made.dispositions, made.artifact_committed) == (None, (), False)

    @pytest.mark.parametrize("given", [CANCEL, FAILURE], ids=["cancel", "fail"])
    def test_vrm_r07_a_control_decision_keeps_its_source_status(self, given: ControlEvent) -> None:
        made = closure_outcome(intent_of(RecallRequirement.REGISTERED_NOT_REQUESTED), None, given)
        assert (made.source_status, made.outcome_reason) == (SourceStatus.NOT_REQUESTED, OutcomeReason.CONTROL_ARM)
        assert (made.closure_event_digest, made.terminal_evidence_digest) == (None, given.canonical_digest)

    def test_an_actor_that_ran_was_given_memory(self) -> None:
        intent = intent_of(RecallRequirement.REQUIRED)
        cause = ControlCause.ACTOR_OUTPUT_MALFORMED
        given = event(ControlKind.RUNTIME_FAILURE, cause, intent_id=IntentId(intent.id))
        made = closure_outcome(intent, context_of("ok"), given)
        assert (made.executed_actor, made.memory_binding_digest is not None) == (ACTOR, True)
        early = closure_outcome(intent, None, given)
        assert (early.executed_actor, early.memory_binding_digest) == (None, None)

    def test_the_time_is_the_events(self) -> None:
        """Whoever closes, and whenever, makes the same bytes."""
        intent = intent_of(RecallRequirement.REQUIRED)
        first, again = (closure_outcome(intent, None, CANCEL) for _ in range(2))
        assert first.payload == again.payload
        later = closure_outcome(intent, None, event(ControlKind.CANCEL_EVENT, at=LATER))
        assert later.created_at == LATER
        assert later.id != first.id

    def test_the_event_of_another_run(self) -> None:
        foreign = event(ControlKind.CANCEL_EVENT, run_id=RunId.derive({"another": 1}))
        with pytest.raises(IntegrityError):
            closure_outcome(intent_of(RecallRequirement.REQUIRED), None, foreign)


def test_fsck_finds_an_outcome_that_no_control_event_of_its_run_stands_behind() -> None:
    ledger, runtime = MemoryLedger(), MemoryRuntime()
    stores = Stores(ledger, runtime, ArtifactStore(f"memory://{fresh_namespace()}"))
    stage = Staged(without_memory(Stack(stores, "space"))).reach(Phase.OPEN)
    run_id = stage.study.run_id
    stop(stage.study.stack, run_id, fail=False)
    closure(stage.study.stack).close(run_id)
    assert fsck(ledger, runtime, stores.artifacts).clean
    (outcome,) = stage.outcomes()
    key = (Machine.RUN, str(run_id))
    runtime._subjects[key] = runtime._subjects[key].model_copy(update={"facts": "{}"})
    found = fsck(ledger, runtime, stores.artifacts).violations
    assert [(each.code, each.record) for each in found] == [(Code.OUTCOME_ILLEGAL, outcome.id)]


@pytest.mark.parametrize("phase", [Phase.COMPLETED, Phase.CANCELLED, Phase.FAILED])
def test_fsck_finds_a_run_that_is_over_with_a_decision_open(phase: Phase) -> None:
    ledger, runtime = MemoryLedger(), MemoryRuntime()
    stores = Stores(ledger, runtime, ArtifactStore(f"memory://{fresh_namespace()}"))
    stage = Staged(without_memory(Stack(stores, "space"))).reach(Phase.OPEN)
    assert fsck(ledger, runtime, stores.artifacts).clean
    key = (Machine.RUN, str(stage.study.run_id))
    runtime._subjects[key] = runtime._subjects[key].model_copy(update={"phase": phase})
    found = fsck(ledger, runtime, stores.artifacts).violations
    assert [(each.code, each.record) for each in found] == [(Code.OUTCOME_MISSING, stage.intent_id)]
