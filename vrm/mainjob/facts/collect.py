"""The facts of one round, read from the Ledger and from nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal

from evaluation.paired import FAILED_UTILITY, PairedTrial, paired_effect
from policies.modes import CONTROL, LEGACY, MEMORY
from records.decisions import DecisionIntent
from records.ingestion import WorkItem
from records.values import PolicyIdentity
from store.ledger.port import LedgerReader, journal_pages
from vrm.mainjob.facts.evidence import evidence_facts
from vrm.mainjob.facts.heldout import planned, read_trials, recall_facts, trial_facts
from vrm.mainjob.facts.reading import find, read_index, tallies
from vrm.mainjob.facts.rules import Knowledge, read_knowledge, refused_facts, rule_facts
from vrm.mainjob.facts.shapes import (
    ArmDifference,
    ArmFacts,
    Comparison,
    FurtherArm,
    HeldOutFacts,
    JournalFacts,
    PolicyFacts,
    RoundFacts,
    TrialFacts,
)
from vrm.mainjob.plan import Round
from vrm.mainjob.tabular import PRIMARY, STEERING

_PAGE: Final = 10_000
Outcome = Literal["final", "mean_over_decisions"]
Tasks = Literal["all", "rule_in_scope", "no_rule_in_scope"]


def facts_of(
    reader: LedgerReader,
    round_: Round,
    *,
    seconds: Mapping[str, float],
    versions: Mapping[str, str],
    made_at: str | None = None,
) -> RoundFacts:
    """Return the facts of a round as the Ledger holds them; give one read transaction, so that they are of one moment.

    An unfinished round has facts too: what is missing counts as the plan says, and shows in the denominators.

    Args:
        reader: the Ledger, in one read transaction.
        round_: which round; its plan says which trials count.
        seconds: wall time of each step; empty where nobody took it.
        versions: programs that made the round, by name.
        made_at: when the facts were read, for the page only.
    """
    space = round_.namespace
    evidence, knowledge = read_index(reader, space), read_knowledge(reader, space)
    states = planned(round_)
    told = read_trials(reader, round_, states, evidence, knowledge)
    trials = trial_facts(states, told)
    return RoundFacts(
        namespace=space,
        round=round_.number,
        size=round_.size.name,
        made_at=made_at,
        rules=rule_facts(knowledge, evidence),
        refused=refused_facts(knowledge, evidence),
        evidence=evidence_facts(reader, space, evidence, knowledge),
        held_out=_held_out(trials, round_.size.decisions),
        journal=_journal(reader, space),
        policies=_policies((*_policies_of(reader, space, knowledge), *told.policies)),
        recall_inputs=recall_facts(trials, told),
        seconds=dict(seconds),
        versions=dict(versions),
    )


def _held_out(trials: Sequence[TrialFacts], per_arm: int) -> HeldOutFacts:
    decisions = [each for trial in trials for arm in (trial.control, trial.memory) for each in arm.decisions]
    asked = [each for trial in trials for each in trial.memory.decisions]
    cards = [card for each in asked for card in each.cards]
    return HeldOutFacts(
        metric=PRIMARY.name,
        unit=PRIMARY.unit,
        steering=STEERING,
        failed_utility=FAILED_UTILITY,
        planned=2 * len(trials) * per_arm,
        with_outcome=sum(each.outcome_id is not None for each in decisions),
        by_source=tallies(f"{each.source_status}: {each.source_reason}" for each in asked if each.source_status),
        by_card=tallies(f"{card.verdict}: {card.reason}" for card in cards),
        trials=tuple(trials),
        comparisons=tuple(_comparisons(trials)),
        legacy=_further(trials, per_arm),
    )


def _further(trials: Sequence[TrialFacts], per_arm: int) -> FurtherArm | None:
    """Return the earlier design's arm, with what it is a share of; None where no trial was planned with it."""
    with_arm = [(trial, trial.legacy) for trial in trials if trial.legacy is not None]
    if not with_arm:
        return None
    outcomes: tuple[Outcome, ...] = ("final", "mean_over_decisions")
    return FurtherArm(
        arm=LEGACY,
        planned=len(with_arm) * per_arm,
        with_outcome=sum(each.outcome_id is not None for _, arm in with_arm for each in arm.decisions),
        trials=len(with_arm),
        failed=sum(arm.final is None for _, arm in with_arm),
        differences=tuple(
            ArmDifference(arm=name, minus=other, outcome=outcome, effect=paired_effect(pairs))
            for outcome in outcomes
            for name, other, pairs in (
                (LEGACY, CONTROL, [_difference(trial, trial.control, arm, outcome) for trial, arm in with_arm]),
                (MEMORY, LEGACY, [_difference(trial, arm, trial.memory, outcome) for trial, arm in with_arm]),
            )
        ),
    )


def _comparisons(trials: Sequence[TrialFacts]) -> Iterator[Comparison]:
    """Yield the registered comparison, then the others; only all tasks are what was randomised."""
    sets: tuple[tuple[Tasks, list[TrialFacts]], ...] = (
        ("all", list(trials)),
        ("rule_in_scope", [trial for trial in trials if trial.rule_in_scope]),
        ("no_rule_in_scope", [trial for trial in trials if not trial.rule_in_scope]),
    )
    outcomes: tuple[Outcome, ...] = ("final", "mean_over_decisions")
    for tasks, chosen in sets:
        for outcome in outcomes:
            pairs = [_pair(trial, outcome) for trial in chosen]
            yield Comparison(
                outcome=outcome,
                tasks=tasks,
                exploratory=tasks != "all",
                effect=paired_effect(pairs) if pairs else None,
            )


def _pair(trial: TrialFacts, outcome: Outcome) -> PairedTrial:
    return _difference(trial, trial.control, trial.memory, outcome)


def _difference(trial: TrialFacts, minus: ArmFacts, arm: ArmFacts, outcome: Outcome) -> PairedTrial:
    return PairedTrial(
        task=trial.task, seed=trial.seed, control=_utility(minus, outcome), memory=_utility(arm, outcome)
    )


def _utility(arm: ArmFacts, outcome: Outcome) -> float | None:
    return arm.final if outcome == "final" else arm.mean_over_decisions


def _journal(reader: LedgerReader, namespace: str) -> JournalFacts:
    head = reader.namespace_head(namespace)
    nouns = [row.noun for rows in journal_pages(reader, namespace, size=_PAGE) for row in rows]
    return JournalFacts(
        position=head.position,
        chain_digest=head.chain_digest,
        evidence=head.evidence,
        lifecycle=head.lifecycle,
        retention=head.retention,
        records=tallies(nouns),
    )


def _policies_of(reader: LedgerReader, namespace: str, knowledge: Knowledge) -> Iterator[PolicyIdentity]:
    yield from (each.policy for each in knowledge.decisions.values())
    yield from (each.policy for each in knowledge.events.values())
    for item in find(reader, WorkItem, namespace).values():
        yield from (item.distillation_policy, item.lifecycle_policy)
    yield from (each.planned_actor.policy for each in find(reader, DecisionIntent, namespace).values())


def _policies(identities: Sequence[PolicyIdentity]) -> tuple[PolicyFacts, ...]:
    unique = {(each.policy_id, each.version, each.digest) for each in identities}
    return tuple(
        PolicyFacts(policy_id=name, version=version, digest=digest) for name, version, digest in sorted(unique)
    )
