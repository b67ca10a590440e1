"""The costs of a namespace and of decisions in it, component by component (VRM-O06).

Rules kept here: what memory costs before a decision is that of the whole namespace, whichever decisions are looked at;
prompt tokens and experiments are those of the decisions. What was not measured shows in the denominators.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from memory.trace.costs import (
    OF_MEMORY,
    UNITS,
    Component,
    ComponentCost,
    CostStatement,
    PerImprovement,
    as_json,
    per_improvement,
    stated,
)
from policies.mediation import DecisionTrace, observed_seconds
from records.decisions import RecallContext
from records.evidence import Attempt, Corpus, Experience, Observation
from records.ingestion import WorkCompletion
from records.outcomes import RecallOutcome, SourceStatus
from records.snapshots import IndexBuild
from store.ledger.port import LedgerReader

_BUILD: Final = IndexBuild.kind.noun


@dataclass(frozen=True, kw_only=True)
class Costs:
    """What a namespace cost.

    Attributes:
        improvements: decisions that are better for an adopted card, verified.
        whole: whether these are all decisions of the namespace; only then is its cost shared out among them.
    """

    components: tuple[ComponentCost, ...]
    improvements: int
    whole: bool

    def of(self, *components: Component) -> tuple[ComponentCost, ...]:
        """Return some of the components."""
        return tuple(cost for cost in self.components if cost.component in components)

    def per_improvement(self, *components: Component) -> PerImprovement | None:
        """Return what one improvement cost of them; None where something was not measured."""
        return per_improvement(self.of(*components), self.improvements) if self.whole else None

    def as_json(self) -> dict[str, Any]:
        """Return everything as JSON values."""
        shares = {
            "memory_seconds": self.per_improvement(*OF_MEMORY),
            "prompt_tokens": self.per_improvement(Component.PROMPT_TOKENS),
            "downstream_task_seconds": self.per_improvement(Component.DOWNSTREAM_TASK),
        }
        return {
            "components": as_json(self.components),
            "valid_improvements": self.improvements,
            "whole_namespace": self.whole,
            "per_valid_improvement": {
                name: None if share is None else share.model_dump(mode="json") for name, share in shares.items()
            },
        }


def read_costs(
    reader: LedgerReader,
    statements: Sequence[CostStatement],
    namespace: str,
    traces: Sequence[DecisionTrace],
    *,
    improvements: int,
    whole: bool,
) -> Costs:
    """Return the costs of a namespace, and of the decisions that were traced in it.

    Args:
        reader: the Ledger, in one read transaction.
        statements: those of the namespace.
        namespace: whose.
        traces: the decisions.
        improvements: how many of them are better for memory.
        whole: whether they are all there are.
    """
    shown = [trace.tokens for trace in traces if trace.tokens is not None and not trace.shadowed]
    return Costs(
        components=(
            stated(statements, Component.DISTILLATION, _distilled(reader, namespace)),
            stated(statements, Component.INDEX_BUILD, {each.id for each in reader.find(_BUILD, namespace)}),
            stated(statements, Component.RETRIEVAL, _asked(reader, namespace)),
            _sum(Component.PROMPT_TOKENS, shown),
            _sum(Component.DOWNSTREAM_TASK, [trace.seconds for trace in traces if trace.attempt_id is not None]),
            _sum(Component.EVIDENCE, _of_evidence(reader, namespace)),
        ),
        improvements=improvements,
        whole=whole,
    )


def _distilled(reader: LedgerReader, namespace: str) -> set[str]:
    """Return the work items that were distilled."""
    loaded = (each.load() for each in reader.find(WorkCompletion.kind.noun, namespace, status="completed"))
    return {str(each.work_item_id) for each in loaded if isinstance(each, WorkCompletion)}


def _asked(reader: LedgerReader, namespace: str) -> set[str]:
    """Return the intents that memory answered, or said that it must not."""
    found = reader.find(RecallContext.kind.noun, namespace)
    found += reader.find(RecallOutcome.kind.noun, namespace, source_status=SourceStatus.BLOCKED.value)
    loaded = (each.load() for each in found)
    return {str(each.intent_id) for each in loaded if isinstance(each, RecallContext | RecallOutcome)}


def _sum(component: Component, amounts: Iterable[float | None]) -> ComponentCost:
    every = list(amounts)
    unit, source = UNITS[component]
    known = [amount for amount in every if amount is not None]
    return ComponentCost(
        component=component, amount=sum(known), unit=unit, source=source, measured=len(known), of=len(every)
    )


def _of_evidence(reader: LedgerReader, namespace: str) -> list[float | None]:
    """Return the seconds of the experiments that made evidence; None where a source gives no time."""
    made = {each.id for each in reader.find(Attempt.kind.noun, namespace, corpus=Corpus.DEVELOPMENT.value)}
    loaded = (each.load() for each in reader.find(Experience.kind.noun, namespace))
    wanted = [each.observation_id for each in loaded if isinstance(each, Experience) and each.attempt_id in made]
    observed = {key: each.load() for key, each in reader.get_many(wanted).items()}
    found = (observed.get(key) for key in wanted)
    return [observed_seconds(each) if isinstance(each, Observation) else None for each in found]
