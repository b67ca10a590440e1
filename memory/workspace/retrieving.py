"""Claims found for an objective, as a section of a prompt and the trace of how (spec 004).

Rules kept here:

- only durable claims whose predicates hold now can be found; what fails is told in the trace, and marked stale where
  the policy says that the failure tells something about the world;
- search is the project's one: words by BM25 and meaning by the pinned model, joined by reciprocal rank, equal places
  by id. The same claims, files and objective give the same section;
- every retrieval leaves a trace, an abstention too. What the shadow policy recommends is written into it after the
  selection is made, and from nowhere else;
- `retrieve` writes nothing; `record_retrieval` appends what follows from it: stale claims first, then the trace.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from memory.index.artifact import IndexDocument, LoadedIndex, build_index
from memory.index.embedding import Embedder, require_semantic
from memory.index.fusion import FusedHit, fuse
from memory.index.known import KnownEmbedder
from memory.index.lexical import terms
from memory.index.ranking import SCORE_UNIT
from memory.ports import CoordinatorPort, all_good
from memory.workspace.again import occasion_key, require_same, section_of, trace_of
from memory.workspace.board import board_of
from memory.workspace.learning import Learned
from memory.workspace.predicates import Checker
from policies.workspace import moves
from policies.workspace.lifecycle import HeldClaim
from policies.workspace.policy import WorkspacePolicy
from policies.workspace.recall import ClaimRecallPolicy
from policies.workspace.rendering import RENDERER
from policies.workspace.selection import Chosen, content_words, is_relevant, select
from policies.workspace.shadow import MEANING, Seen, ShadowPolicy, ShadowState, features
from records.appends import Append
from records.canonical import digest_bytes
from records.claim_traces import (
    ClaimTrace,
    ListRank,
    Refused,
    TraceEnding,
    TraceItem,
)
from records.errors import IdentityConflictError, InvalidInputError, VrmError
from records.flows import Transition
from records.ids import ClaimEventId, WorkspaceClaimId
from records.workspace import ClaimEvent, ClaimState, PredicateFinding, WorkspaceClaim
from store.ledger.port import LedgerReader

_MILLION: Final = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What claims are wanted for.

    Attributes:
        objective: in words.
        task_id: the task; an outcome names it again.
        occasion: tells retrievals apart that ask the same.
        budget: most tokens of the section, at most the policy's, which None is.
    """

    objective: str
    task_id: str
    occasion: str
    budget: int | None = None


@dataclass(frozen=True, slots=True)
class Retrieved:
    """What a retrieval found; nothing of it is appended yet.

    Attributes:
        rendered: the section; empty where it abstains.
        shown: the claims in it, best first.
        stale: the events of claims that turned out to be stale.
    """

    trace: ClaimTrace
    rendered: str
    shown: tuple[WorkspaceClaim, ...]
    stale: tuple[ClaimEvent, ...]


@dataclass(frozen=True, kw_only=True)
class RetrieverParts:
    """What a retriever works with.

    Attributes:
        count: counts the tokens of a text.
        tokenizer: the tokenizer's identity without its release.
        test_index: allow vectors without meaning; for tests only.
    """

    embedder: Embedder
    count: Callable[[str], int]
    tokenizer: str
    policy: ClaimRecallPolicy
    lifecycle: WorkspacePolicy
    shadow: ShadowPolicy
    test_index: bool = False


@dataclass(frozen=True, slots=True)
class _Held:
    """The durable claims of one moment: those that hold, and the findings about those that do not."""

    considered: int
    durable: int
    holding: tuple[HeldClaim, ...]
    failing: tuple[tuple[HeldClaim, tuple[PredicateFinding, ...]], ...]


class ClaimRetriever:
    """Finds the claims of one workspace of a namespace."""

    def __init__(self, namespace: str, workspace: str, parts: RetrieverParts) -> None:
        """Keep vectors and lessons from one retrieval to the next.

        Raises:
            InvalidInputError: the policy is for another layout or tokenizer, or the embedder has no meaning and
                `test_index` is not set.
        """
        style = parts.policy.rendering
        if (style.renderer, style.tokenizer) != (RENDERER, parts.tokenizer):
            wanted = f"The policy is for {style.renderer}, {style.tokenizer}."
            raise InvalidInputError("rendering", f"{RENDERER}, {parts.tokenizer}", wanted)
        if not parts.test_index:
            require_semantic(parts.embedder.id)
        self._namespace, self._workspace, self._parts = namespace, workspace, parts
        self._embedder = KnownEmbedder(parts.embedder, {})
        self._learned = Learned(namespace, workspace, parts.shadow)

    def retrieve(self, reader: LedgerReader, checker: Checker, asked: Asked, now: str) -> Retrieved:
        """Return what is shown for an objective; `reader` is of one moment, `checker` of one pass.

        An occasion that has a trace already is answered by it.

        Raises:
            InvalidInputError: there are no words, or the budget is none.
            IdentityConflictError: the occasion has the trace of another question, or of what does not hold any more.
            UnavailableError: the model cannot be used.
        """
        began, budget = time.perf_counter(), self._budget(asked)
        earlier = trace_of(reader, self._namespace, self._workspace, asked.occasion)
        if earlier is not None:
            require_same(earlier, asked.objective, asked.task_id, budget)
            style = self._parts.policy.rendering
            return Retrieved(earlier, *section_of(reader, earlier, checker, style, self._parts.count), ())
        position = reader.namespace_head(self._namespace).position
        board = board_of(reader, self._namespace, self._workspace)
        held = _checked(board.values(), checker)
        hits = self._found(held.holding, asked.objective)
        by_id = {str(each.claim.id): each for each in held.holding}
        claims = [by_id[hit.id].claim for hit in hits]
        chosen = select(claims, self._parts.policy, budget, self._parts.count)
        shadow = self._learned.at(reader, {name: each.claim for name, each in board.items()})
        trace = ClaimTrace.build(
            namespace=self._namespace,
            created_at=now,
            workspace=self._workspace,
            task_id=asked.task_id,
            occasion=asked.occasion,
            objective=asked.objective,
            policy=self._parts.policy.identity,
            renderer=RENDERER,
            tokenizer=self._parts.tokenizer,
            embedder=self._embedder.id,
            ledger_position=position,
            considered=held.considered,
            durable=held.durable,
            refused=tuple(
                Refused(claim_id=WorkspaceClaimId(each.claim.id), findings=findings) for each, findings in held.failing
            ),
            items=self._items([by_id[hit.id] for hit in hits], hits, chosen, shadow),
            ending=_ending(held, chosen),
            budget=budget,
            token_count=chosen.token_count,
            rendered_digest=digest_bytes(chosen.rendered.encode()),
            shadow=shadow.named(self._parts.shadow),
            latency_us=int((time.perf_counter() - began) * _MILLION),
        )
        shown = tuple(by_id[name].claim for name in trace.selected)
        return Retrieved(trace, chosen.rendered, shown, self._stale(held, now))

    def _budget(self, asked: Asked) -> int:
        most = self._parts.policy.rendering.token_budget
        if not asked.objective.strip():
            raise InvalidInputError("objective", asked.objective, "Say what the claims are for.")
        if asked.budget is not None and not 0 < asked.budget <= most:
            raise InvalidInputError("token budget", asked.budget, f"Give 1 to {most} tokens.")
        return asked.budget or most

    def _found(self, holding: Sequence[HeldClaim], objective: str) -> list[FusedHit]:
        """Return the relevant claims among those that hold, best first."""
        if not holding:
            return []
        rule = self._parts.policy.search
        index = LoadedIndex.from_bytes(
            build_index([IndexDocument(str(each.claim.id), each.claim.text) for each in holding], self._embedder).data
        )
        near = index.semantic(self._parts.embedder.embed([objective], kind="query")[0], limit=rule.candidates)
        cosines = {hit.id: int(hit.score * SCORE_UNIT * 1000) for hit in near}
        wanted = content_words(objective, terms, rule)
        relevant = {
            str(each.claim.id)
            for each in holding
            if is_relevant(
                wanted, content_words(each.claim.text, terms, rule), cosines.get(str(each.claim.id), -1), rule
            )
        }
        words = [hit.id for hit in index.lexical(objective, limit=rule.candidates)]
        joined = fuse({"words": words, MEANING: [hit.id for hit in near]})
        return [hit for hit in joined if hit.id in relevant]

    def _items(
        self, held: Sequence[HeldClaim], hits: Sequence[FusedHit], chosen: Chosen, shadow: ShadowState
    ) -> tuple[TraceItem, ...]:
        made = []
        for each, hit, reason, tokens in zip(held, hits, chosen.reasons, chosen.tokens, strict=True):
            score = int(hit.score * _MILLION)
            by_meaning = any(name == MEANING for name, _ in hit.ranks)
            seen = Seen(score, tokens, by_meaning, each.claim.trust, each.claim.source)
            recommended, value = shadow.recommend(features(seen, self._parts.shadow.learning))
            made.append(
                TraceItem(
                    claim_id=WorkspaceClaimId(each.claim.id),
                    event_id=ClaimEventId(each.head.event_id),
                    claim_type=each.claim.claim_type,
                    reason=reason,
                    score=score,
                    ranks=tuple(ListRank(name=name, rank=rank) for name, rank in hit.ranks),
                    tokens=tokens,
                    recommended=recommended,
                    shadow_value=value,
                )
            )
        return tuple(made)

    def _stale(self, held: _Held, now: str) -> tuple[ClaimEvent, ...]:
        made: list[ClaimEvent] = []
        for each, findings in held.failing:
            done = moves.go_stale(each, findings, self._parts.lifecycle, now)
            made += done if isinstance(done, tuple) else ()
        return tuple(made)


def _checked(board: Iterable[HeldClaim], checker: Checker) -> _Held:
    claims = list(board)
    durable = [each for each in claims if each.head.state is ClaimState.DURABLE]
    found = [(each, checker.findings(each.claim)) for each in durable]
    return _Held(
        considered=len(claims),
        durable=len(durable),
        holding=tuple(each for each, findings in found if not findings),
        failing=tuple((each, findings) for each, findings in found if findings),
    )


def _ending(held: _Held, chosen: Chosen) -> TraceEnding:
    if chosen.rendered:
        return TraceEnding.SELECTED
    if not held.durable:
        return TraceEnding.NO_DURABLE_CLAIM
    if not held.holding:
        return TraceEnding.NO_VALID_CLAIM
    return TraceEnding.BUDGET_TOO_SMALL if chosen.reasons else TraceEnding.NOTHING_RELEVANT


def record_retrieval(coordinator: CoordinatorPort, found: Retrieved) -> None:
    """Append the events of claims that turned out to be stale, then the trace; again it is a replay.

    A claim that somebody else moved meanwhile needs no event of this retrieval.

    Raises:
        IdentityConflictError: a claim that the trace shows has moved on, or the occasion has another trace; retrieve
            again, under another occasion where it has.
        VrmError: a store or an owner cannot be used.
    """
    moved = [Append.direct(Transition.APPEND_CLAIMS, event_key(event), (event,)) for event in found.stale]
    for answer in coordinator.append_direct(moved) if moved else ():
        if isinstance(answer, VrmError) and not isinstance(answer, IdentityConflictError):
            raise answer
    trace = found.trace
    key = occasion_key(trace.workspace, trace.occasion)
    all_good(coordinator.append_direct([Append.direct(Transition.TRACE_CLAIMS, key, (trace,))]))


def event_key(event: ClaimEvent) -> str:
    """Return the operation key of an append that an event is alone in."""
    return f"move-claim/{event.id}"
