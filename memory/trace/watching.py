"""What is told of work that commits nothing itself: recalls, index builds, judged snapshots. With how long it took."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterator
from time import perf_counter
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeAlias, TypeVar

from memory.trace.events import Event, event, tell
from memory.trace.telling import counted
from records.decisions import BlockedProposal, DecisionIntent, RecallRequest
from records.errors import VrmError
from records.snapshots import IndexBuild, KnowledgeSnapshot
from store.ledger.port import LedgerReader

if TYPE_CHECKING:
    from memory.distillation.view import View
    from memory.index.embedding import Embedder
    from memory.recall.context import Recall

S = TypeVar("S")
P = ParamSpec("P")
Answered: TypeAlias = "Recall | BlockedProposal"
Built = tuple[IndexBuild, bytes]


def recalling(
    propose: Callable[Concatenate[S, DecisionIntent, RecallRequest, P], Answered],
) -> Callable[Concatenate[S, DecisionIntent, RecallRequest, P], Answered]:
    """Tell of every request how it was answered, or that it failed."""

    @functools.wraps(propose)
    def watched(
        self: S, intent: DecisionIntent, request: RecallRequest, /, *args: P.args, **kwargs: P.kwargs
    ) -> Answered:
        begun = perf_counter()
        try:
            answer = propose(self, intent, request, *args, **kwargs)
        except VrmError as error:
            seconds, kind = perf_counter() - begun, type(error).__name__
            tell(lambda: [_failed(intent, request, kind, seconds)])
            raise
        seconds = perf_counter() - begun
        tell(lambda: [_answered(intent, request, answer, seconds)])
        return answer

    return watched


def indexing(
    build: Callable[Concatenate[LedgerReader, KnowledgeSnapshot, Embedder, P], Built],
) -> Callable[Concatenate[LedgerReader, KnowledgeSnapshot, Embedder, P], Built]:
    """Tell of every index what it was built from, by which model."""

    @functools.wraps(build)
    def watched(
        reader: LedgerReader, snapshot: KnowledgeSnapshot, embedder: Embedder, /, *args: P.args, **kwargs: P.kwargs
    ) -> Built:
        begun = perf_counter()
        made = build(reader, snapshot, embedder, *args, **kwargs)
        seconds = perf_counter() - begun
        tell(lambda: [_built(made[0], embedder, seconds)])
        return made

    return watched


def judged(view: View) -> Iterator[Event]:
    """Yield the strata and support units that a snapshot was compared in, and what was left out of them."""
    contrasts = [contrast for variant in view.table.variants.values() for contrast in variant.contrasts]
    reasons = (view.table.why_not(each) for each in view.members)
    yield event(
        "strata.formed",
        view.snapshot.namespace,
        snapshot=view.snapshot.id,
        strata=len({contrast.stratum_id for contrast in contrasts}),
        variants=len(view.verdicts),
        contrasts=len(contrasts),
        support_units=len({contrast.support_unit_id for contrast in contrasts}),
        left_out=dict(sorted(Counter(reason.value for reason in reasons if reason is not None).items())),
    )


def _answered(intent: DecisionIntent, request: RecallRequest, answer: Answered, seconds: float) -> Event:
    context = None if isinstance(answer, BlockedProposal) else answer.context
    blocked = answer.blocked_reason.value if isinstance(answer, BlockedProposal) else ""
    return event(
        "recall.answered",
        intent.namespace,
        intent=intent.id,
        recall_input=request.recall_input_id,
        point=request.decision_point.value,
        status=context.status.value if context else "blocked",
        reason=context.status_reason if context else blocked,
        candidates=counted(context.candidates) if context else {},
        filtered=counted(context.filtered) if context else {},
        cards=[
            {
                "ordinal": item.ordinal,
                "card": item.card_id,
                "tokens": item.token_count,
                "features": {part.feature: part.value for part in item.score},
            }
            for item in (context.items if context else ())
        ],
        tokens=context.token_count if context else 0,
        seconds=seconds,
    )


def _failed(intent: DecisionIntent, request: RecallRequest, error: str, seconds: float) -> Event:
    return event(
        "recall.failed",
        intent.namespace,
        intent=intent.id,
        recall_input=request.recall_input_id,
        point=request.decision_point.value,
        error=error,
        seconds=seconds,
    )


def _built(build: IndexBuild, embedder: Embedder, seconds: float) -> Event:
    return event(
        "index.built",
        build.namespace,
        snapshot=build.knowledge_snapshot_id,
        model=embedder.id,
        dimensions=embedder.dimensions,
        documents=build.document_count,
        members=build.member_digest,
        vectors=build.vector_digest,
        seconds=seconds,
    )
