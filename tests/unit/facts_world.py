"""A round of held-out trials, written into the small world by hand, so that every figure of it is known.

Two tasks, two decisions in each arm. (choosing, judged) metrics; what chooses better is kept:

    first task   control  0.50 0.60 | 0.60 0.70 kept | 0.55 0.90 not kept       memory holds the rule for this task
                 memory   0.50 0.60 | 0.70 0.80 kept, the card adopted | 0.80 0.75 kept, the card not considered
    second task  control  invalid   | invalid | nothing left to do
                 memory   0.50 0.40 | nothing left to do | not taken: the job was stopped

A round that has the earlier design's arm too is the same, with

    first task   legacy   0.50 0.60 | 0.70 0.80 kept | 0.60 0.70 not kept
    second task  legacy   0.50 0.40 | nothing left to do | not taken
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from importers.published_table import read_published_table
from memory.evidence import Trial, bundle_records
from policies.catalog import Change, load_catalog
from policies.planner import PlannerAnswer, planner_policy
from policies.retention import check_retention
from records.appends import Append
from records.base import Record
from records.canonical import domain_digest
from records.decisions import AllowedAction, ContextItem, ContextStatus, DecisionIntent, RecallContext, citation_id
from records.evidence import Corpus
from records.flows import Authority, Transition
from records.governance import Mode
from records.ids import ContextId, IntentId, RecallInputId
from records.outcomes import CardDisposition, CardReason
from records.values import ArtifactRef
from store.artifacts import ArtifactStore
from store.ledger.memory import MemoryLedger
from store.runtime.memory import MemoryRuntime
from tests.data.tables import write_table
from tests.data.world import NOW, World, active_rules, build_world, digest, one
from tests.support.stores import Writer, granted
from vrm.domain import BUDGET_CLASS, CATALOG, MODEL_FAMILY
from vrm.mainjob.experiments import Verified, verified_of
from vrm.mainjob.outcomes import Decided, link_of, outcome_of
from vrm.mainjob.plan import SMALL, Round, held_out_tasks
from vrm.mainjob.tabular import PRIMARY, STEERING, Setting, contract_of, identity_of
from vrm.mainjob.trials import DecisionMaker, TrialState, new_trials

ROUND = Round(namespace="world", number=0, size=SMALL)
COMPARED = replace(ROUND, modes=(Mode.DECISION_MEMORY, Mode.LEGACY_RECALL))
FIRST, SECOND = held_out_tasks(SMALL)
Result = tuple[float, float] | None


@dataclass(frozen=True)
class Step:
    """One decision: the change and its (choosing, judged) metrics, None for an invalid result; no change, no result."""

    change: Change | None
    result: Result = None
    reason: CardReason | None = None


def filled_world(folder: Path, round_: Round = ROUND) -> World:
    """Return the small world with the trials of a round in it."""
    table = read_published_table(write_table(folder / "table"))
    world = build_world(MemoryLedger(), MemoryRuntime(), ArtifactStore(str(folder / "artifacts")), table)
    _Trials(world, round_).write()
    return world


class _Trials:
    def __init__(self, world: World, round_: Round) -> None:
        self._world = world
        self._round = round_
        self._catalog = load_catalog(CATALOG)
        self._contract = contract_of(world.namespace, self._catalog.domain)
        self._writer = Writer(world.ledger, world.namespace, world.ledger.claim("facts-world", "test"))
        self._input = RecallInputId(one(world, "recall-input-snapshot"))
        self._maker = DecisionMaker(
            round=round_,
            catalog=self._catalog,
            contract=self._contract,
            planner=planner_policy(),
            recall_input_id=self._input,
        )
        self._rule = active_rules(world)[0]

    def write(self) -> None:
        weight = Change("class_weight", "none", "balanced", "class_weighting")
        scaler = Change("scaler", "none", "standard", "feature_scaling")
        adopted, ignored = CardReason.ADOPTED_APPLICABLE, CardReason.NOT_CONSIDERED_BUDGET
        scripts: dict[tuple[str, str], tuple[Result, tuple[Step, ...]]] = {
            (FIRST, "control"): ((0.5, 0.6), (Step(scaler, (0.6, 0.7)), Step(weight, (0.55, 0.9)))),
            (FIRST, "memory"): ((0.5, 0.6), (Step(weight, (0.7, 0.8), adopted), Step(scaler, (0.8, 0.75), ignored))),
            (SECOND, "control"): (None, (Step(scaler), Step(None))),
            (SECOND, "memory"): ((0.5, 0.4), (Step(None),)),
            (FIRST, "legacy"): ((0.5, 0.6), (Step(weight, (0.7, 0.8)), Step(scaler, (0.6, 0.7)))),
            (SECOND, "legacy"): ((0.5, 0.4), (Step(None),)),
        }
        for state in new_trials(self._round, (FIRST, SECOND), self._catalog):
            baseline, steps = scripts[state.task, state.arm]
            self._run(state, 0, None, baseline, None)
            for place, step in enumerate(steps):
                self._decide(state, place, step)

    def _run(
        self, state: TrialState, iteration: int, change: Change | None, result: Result, context_id: ContextId | None
    ) -> Verified:
        setting = Setting(
            task=state.task,
            seed=state.seed,
            before=self._catalog.baseline,
            change=None if change is None else (change.knob, change.to_value),
            iteration=iteration,
            run_id=state.run_id,
        )
        metrics = {} if result is None else {STEERING: result[0], PRIMARY.name: result[1], "test_accuracy": result[1]}
        parts = (f"{state.task} {state.arm} {iteration} {role}" for role in self._contract.required_artifacts)
        records = bundle_records(
            Trial(
                namespace=self._world.namespace,
                task=identity_of(state.task, self._catalog.domain),
                contract=self._contract,
                catalog_digest=self._catalog.digest,
                run_id=state.run_id,
                iteration=iteration,
                seed=state.seed,
                change=None if change is None else (change.knob, change.from_value, change.to_value),
                mechanism=change.mechanism if change else "baseline",
                config_digest=self._catalog.config_digest(setting.config),
                baseline_config_digest=self._catalog.config_digest(self._catalog.baseline),
                source_digest=digest("source"),
                environment_digest=digest("environment"),
                model_family=MODEL_FAMILY,
                budget_class=BUDGET_CLASS,
                artifacts=tuple(
                    ArtifactRef(role=part.rpartition(" ")[2], sha256=digest(part), size_bytes=1) for part in parts
                ),
                verified=metrics,
                violations=() if metrics else ("predictions_missing",),
                times=(NOW, NOW, NOW),
                corpus=Corpus.EVALUATION,
                arm=state.arm,
                pair=state.pair,
                recall_context_id=context_id,
            )
        )
        key = f"{state.run_id}/{iteration}"
        self._writer.good(Append.direct(Transition.APPEND_EVIDENCE, key, records))
        return verified_of(setting, records)

    def _decide(self, state: TrialState, place: int, step: Step) -> None:
        intent = self._maker.intent(state, place, NOW)
        if state.task == FIRST:
            intent = intent.model_copy(update={"task_scope_id": self._rule.scope.task_scope_id})
        self._append(Transition.APPEND_INTENT, intent, (self._maker.view, intent), Authority.ADMISSION)
        context = self._context(intent, cards=state.task == FIRST) if state.arm == "memory" else None
        if context is not None:
            self._append(Transition.APPEND_CONTEXT, intent, (context,))
        told = None if context is None else ContextId(context.id)
        run = None if step.change is None else self._run(state, place + 1, step.change, step.result, told)
        outcome = outcome_of(Decided(intent, context, _answer(step, context), run, NOW))
        self._append(Transition.APPEND_OUTCOME, intent, (outcome,))
        if run is not None:
            link = link_of(outcome, run)
            self._writer.good(Append.direct(Transition.LINK_ATTEMPT, f"link/{link.outcome_id}", (link,)))

    def _context(self, intent: DecisionIntent, *, cards: bool) -> RecallContext:
        stored = self._world.ledger.get(one(self._world, "decision-recall-context"))
        assert stored is not None
        made = stored.load()
        assert isinstance(made, RecallContext)
        card = made.items[0].card
        item = ContextItem(
            ordinal=1,
            citation_id=citation_id(IntentId(intent.id), self._input, card.card_id, 1),
            card_id=card.card_id,
            memory_id=card.memory_id,
            card=card,
            score=(),
            token_count=90,
        )
        return made.model_copy(
            update={
                "intent_id": intent.id,
                "retention": check_retention(self._world.ledger.namespace_head(intent.namespace), ()),
                "status": ContextStatus.OK if cards else ContextStatus.EMPTY,
                "status_reason": "ok_cards_returned" if cards else "empty_no_eligible_evidence",
                "items": (item,) if cards else (),
            }
        )

    def _append(
        self,
        transition: Transition,
        intent: DecisionIntent,
        records: Sequence[Record],
        authority: Authority = Authority.NORMAL,
    ) -> None:
        name = domain_digest("facts-world", [transition.value, str(intent.id)])
        (receipt,) = self._writer.good(granted(transition, records, name, authority))
        assert receipt.committed, receipt


def _answer(step: Step, context: RecallContext | None) -> PlannerAnswer:
    change = step.change
    action = None if change is None else AllowedAction(knob=change.knob, value=f'"{change.to_value}"')
    adopted = step.reason is CardReason.ADOPTED_APPLICABLE
    dispositions = tuple(
        CardDisposition(
            citation_id=item.citation_id,
            card_id=item.card_id,
            verdict=step.reason.verdict,
            reason=step.reason,
            action_knob=action.knob if adopted and action else None,
            action_value=action.value if adopted and action else None,
        )
        for item in (context.items if context else ())
        if step.reason is not None
    )
    return PlannerAnswer(change=change, action=action, dispositions=dispositions, steered=adopted)
