"""The held-out decisions of a round as the Ledger tells them: both arms of every planned trial, decision by decision.

What went into effect is found again with the rule that the trials themselves keep (`TrialState.observe`), from verified
metrics alone; nothing is taken from the memory of the process that ran them.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from evaluation.paired import FAILED_UTILITY
from experiments.tabular.tasks import task_root
from memory.card_guards import source_of
from policies.catalog import load_catalog
from policies.modes import CONTROL, LEGACY, MEMORY
from records.decisions import ContextItem, DecisionIntent, EvidenceCard, RecallContext
from records.evidence import Attempt, Experience, Intervention, Verification
from records.outcomes import OutcomeAttemptLink, RecallOutcome
from records.snapshots import IndexBuild, KnowledgeSnapshot, RecallInput
from records.values import Disposition, PolicyIdentity
from store.ledger.port import LedgerReader
from vrm.domain import CATALOG
from vrm.mainjob.facts.reading import EvidenceIndex, find
from vrm.mainjob.facts.rules import Knowledge
from vrm.mainjob.facts.shapes import ArmFacts, CardFacts, Change, DecisionFacts, RecallFacts, Tally, TrialFacts
from vrm.mainjob.plan import Round, held_out_tasks
from vrm.mainjob.tabular import PRIMARY, STEERING
from vrm.mainjob.trials import TrialState, new_trials


@dataclass(frozen=True, kw_only=True)
class Told:
    """What the Ledger holds about the trials of a round, keyed by the ids by which it is looked up.

    `rule_scopes` gives the task scope of each rule, `decisions` how many decisions each arm was planned with.
    """

    evidence: EvidenceIndex
    by_run: Mapping[str, Mapping[str, Attempt]]
    experience_of: Mapping[str, Experience]
    intents: Mapping[str, Mapping[str, DecisionIntent]]
    contexts: Mapping[str, RecallContext]
    outcomes: Mapping[str, tuple[str, RecallOutcome]]
    links: Mapping[str, OutcomeAttemptLink]
    interventions: Mapping[str, Intervention]
    inputs: Mapping[str, RecallInput]
    snapshots: Mapping[str, KnowledgeSnapshot]
    indexes: Mapping[str, IndexBuild]
    rule_scopes: Mapping[str, str]
    decisions: int

    @property
    def policies(self) -> Iterator[PolicyIdentity]:
        """The policies that knowledge was selected and recalled under."""
        yield from (each.retrieval_policy for each in self.inputs.values())
        yield from (each.selection_policy for each in self.snapshots.values())

    def active_scopes(self, recall_input_id: str) -> frozenset[str]:
        """Return the task scopes for which a Recall Input holds an active rule."""
        members = self.snapshots[self.inputs[recall_input_id].knowledge_snapshot_id].members
        return frozenset(self.rule_scopes[each.memory_id] for each in members if each.disposition is Disposition.ACTIVE)


def read_trials(
    reader: LedgerReader, round_: Round, states: Sequence[TrialState], evidence: EvidenceIndex, knowledge: Knowledge
) -> Told:
    """Read what the Ledger holds about the trials of a round."""
    space = round_.namespace
    runs = [str(state.run_id) for state in states]
    intents: dict[str, dict[str, DecisionIntent]] = defaultdict(dict)
    for key, intent in find(reader, DecisionIntent, space, run_id=runs).items():
        intents[intent.run_id][key] = intent
    known = [key for each in intents.values() for key in each]
    by_run: dict[str, dict[str, Attempt]] = defaultdict(dict)
    wanted = set(runs)
    for key, attempt in evidence.attempts.items():
        if attempt.run_id in wanted:
            by_run[attempt.run_id][key] = attempt
    outcomes = find(reader, RecallOutcome, space, run_id=runs)
    attempts = [key for each in by_run.values() for key in each]
    return Told(
        evidence=evidence,
        by_run=by_run,
        experience_of={each.attempt_id: each for each in evidence.experiences.values()},
        intents=intents,
        contexts={each.intent_id: each for each in find(reader, RecallContext, space, intent_id=known).values()},
        outcomes={each.intent_id: (key, each) for key, each in outcomes.items()},
        links={
            each.outcome_id: each
            for each in find(reader, OutcomeAttemptLink, space, outcome_id=list(outcomes)).values()
        },
        interventions={
            each.attempt_id: each for each in find(reader, Intervention, space, attempt_id=attempts).values()
        },
        inputs=find(reader, RecallInput, space),
        snapshots=find(reader, KnowledgeSnapshot, space),
        indexes=find(reader, IndexBuild, space),
        rule_scopes={key: str(record.scope.task_scope_id) for key, record in knowledge.records.items()},
        decisions=round_.size.decisions,
    )


def planned(round_: Round) -> list[TrialState]:
    """Return the arms of every trial that the round was planned with: control, memory, and the earlier design's."""
    states = new_trials(round_, held_out_tasks(round_.size), load_catalog(CATALOG))
    return [state for state in states if state.arm in {CONTROL, MEMORY, LEGACY}]


def trial_facts(states: Sequence[TrialState], told: Told) -> tuple[TrialFacts, ...]:
    """Return the trials in the order of the plan, each with its arms."""
    arms: dict[tuple[str, int], dict[str, TrialState]] = defaultdict(dict)
    for state in states:
        arms[state.task, state.seed][state.arm] = state
    return tuple(_trial(task, seed, each, told) for (task, seed), each in arms.items())


def recall_facts(trials: Sequence[TrialFacts], told: Told) -> tuple[RecallFacts, ...]:
    """Return the Recall Inputs that the decisions of these trials queried."""
    decided = {each.intent_id for trial in trials for each in trial.memory.decisions}
    used = {str(context.recall_input_id) for intent_id, context in told.contexts.items() if intent_id in decided}
    return tuple(
        RecallFacts(
            recall_input_id=key,
            rules=len(told.snapshots[record.knowledge_snapshot_id].members),
            renderer=record.renderer,
            tokenizer=record.tokenizer,
            indexes=tuple(told.indexes[each.index_build_id].identity for each in record.index_builds),
        )
        for key, record in told.inputs.items()
        if key in used
    )


def _trial(task: str, seed: int, arms: Mapping[str, TrialState], told: Told) -> TrialFacts:
    intents = [each for state in arms.values() for each in told.intents.get(state.run_id, {}).items()]
    scope_ids = {str(intent.task_scope_id) for _, intent in intents}
    active = frozenset[str]().union(
        *(told.active_scopes(told.contexts[key].recall_input_id) for key, _ in intents if key in told.contexts)
    )
    return TrialFacts(
        task=task,
        root=task_root(task),
        seed=seed,
        scope="; ".join(sorted(told.evidence.scopes.get(each, each) for each in scope_ids)) or "not decided yet",
        rule_in_scope=bool(scope_ids & active),
        control=_arm(arms[CONTROL], told),
        memory=_arm(arms[MEMORY], told),
        legacy=_arm(arms[LEGACY], told) if LEGACY in arms else None,
    )


def _arm(state: TrialState, told: Told) -> ArmFacts:
    decisions = tuple(_replayed(state, told))
    path = tuple(_number(value) for value in state.path)
    final = path[-1] if path else None
    return ArmFacts(
        arm=state.arm,
        run_id=str(state.run_id),
        final=final,
        mean_over_decisions=None if final is None else _mean_over_decisions(path, told.decisions),
        path=path,
        decisions=decisions,
    )


def _mean_over_decisions(path: Sequence[float | None], planned_decisions: int) -> float:
    """Average what was in effect after each planned decision.

    Nothing valid in effect counts as failed; a decision that was not taken leaves in effect what was there.
    """
    after = list(path[1:]) + [path[-1]] * (planned_decisions + 1 - len(path))
    return math.fsum(FAILED_UTILITY if value is None else value for value in after) / len(after)


def _replayed(state: TrialState, told: Told) -> Iterator[DecisionFacts]:
    """Yield the decisions of an arm while its state moves as it did then."""
    attempts = told.by_run.get(state.run_id, {})
    baseline = next((key for key, each in attempts.items() if each.iteration == 0), None)
    if baseline is not None:
        state.observe(_metrics(_verification(baseline, told)), state.config)
    ordered = sorted(told.intents.get(state.run_id, {}).items(), key=lambda item: item[1].iteration)
    for intent_id, intent in ordered:
        outcome_id, outcome = told.outcomes.get(intent_id, (None, None))
        link = None if outcome_id is None else told.links.get(outcome_id)
        tried = None if link is None else _verification(link.attempt_id, told)
        before = (_number(state.test), _number(state.steering))
        state.observe(_metrics(tried), state.config)
        after = (_number(state.test), _number(state.steering))
        attempt = None if link is None else told.evidence.attempts[link.attempt_id]
        yield DecisionFacts(
            iteration=intent.iteration,
            intent_id=intent_id,
            outcome_id=outcome_id,
            source_status=outcome.source_status.value if outcome else None,
            source_reason=outcome.outcome_reason if outcome else None,
            decision_status=outcome.decision_status.value if outcome else None,
            terminal_reason=outcome.terminal_reason.value if outcome and outcome.terminal_reason else None,
            searched=_searched(told.contexts.get(intent_id)),
            cards=_cards(told.contexts.get(intent_id), outcome),
            change=_change(outcome, link, told),
            config_digest=outcome.effective_config_digest if outcome else None,
            attempt_status=attempt.status.value if attempt else None,
            violations=tried.violations if tried else (),
            tried_test=tried.metric(PRIMARY.name) if tried else None,
            tried_steering=tried.metric(STEERING) if tried else None,
            test_before=before[0],
            test_after=after[0],
            steering_before=before[1],
            steering_after=after[1],
            kept=after[1] != before[1],
        )


def _verification(attempt_id: str, told: Told) -> Verification | None:
    experience = told.experience_of.get(attempt_id)
    return None if experience is None else told.evidence.verification(experience)


def _metrics(verification: Verification | None) -> dict[str, float]:
    if verification is None or not verification.valid:
        return {}
    return {item.name: float(item.value) for item in verification.verified_metrics}


def _searched(context: RecallContext | None) -> tuple[Tally, ...]:
    """Return how many rules the filters let through and held back, of those that the input holds."""
    if context is None:
        return ()
    eligible = next((each.count for each in context.candidates if each.reason == "eligible"), 0)
    found = [("eligible", eligible), *((each.reason, each.count) for each in context.filtered)]
    total = sum(count for _, count in found)
    return tuple(Tally(name=name, count=count, of=total) for name, count in found)


def _cards(context: RecallContext | None, outcome: RecallOutcome | None) -> tuple[CardFacts, ...]:
    if context is None:
        return ()
    fates = {each.citation_id: each for each in outcome.dispositions} if outcome else {}
    return tuple(
        _card(item, fate.verdict.value if fate else "undecided", fate.reason.value if fate else "undecided")
        for item in context.items
        for fate in (fates.get(item.citation_id),)
    )


def _card(item: ContextItem, verdict: str, reason: str) -> CardFacts:
    return CardFacts(
        ordinal=item.ordinal,
        memory_id=str(source_of(item.card)),
        citation_id=str(item.citation_id),
        claim=item.card.claim if isinstance(item.card, EvidenceCard) else item.card.headline,
        action=item.card.action.value if isinstance(item.card, EvidenceCard) else item.card.source_kind,
        tokens=item.token_count,
        verdict=verdict,
        reason=reason,
    )


def _change(outcome: RecallOutcome | None, link: OutcomeAttemptLink | None, told: Told) -> Change | None:
    if outcome is None or outcome.proposed_knob is None or outcome.proposed_value is None:
        return None
    intervention = None if link is None else told.interventions.get(link.attempt_id)
    knob = intervention.knob if intervention else None
    return Change(
        knob=outcome.proposed_knob,
        from_value=knob.from_value if knob else "",
        to_value=outcome.proposed_value,
    )


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None
