"""Claims about a code base, from Python and for the command line: what is shown for an objective, and its trace.

Rules kept here: a retrieval writes its trace, and the events of claims that turned out to be stale; nothing else. What
comes back is about a code base, and never evidence of an experiment.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from pathlib import Path

from actors.settings import now
from memory.index.embedding import Embedder
from memory.ports import CoordinatorPort
from memory.recall.retriever import tokenizer_name
from memory.tokens import Tokenizer
from memory.workspace.place import Workspace
from memory.workspace.predicates import Checker
from memory.workspace.retrieving import Asked, ClaimRetriever, Retrieved, RetrieverParts, record_retrieval
from policies.workspace.policy import workspace_policy
from policies.workspace.recall import claim_recall_policy
from policies.workspace.shadow import shadow_policy
from records.workspace import WorkspaceClaim
from store.ledger.port import OpenLedger

DEFAULT_WORKSPACE = "app"


def fresh_occasion() -> str:
    """Return a name that no other retrieval has."""
    return uuid.uuid4().hex


@dataclass(frozen=True, kw_only=True)
class ClaimQuestion:
    """What claims are wanted for.

    Attributes:
        text: the objective in words.
        task: the task; the receipt of its outcome names the trace.
        workspace: the name of the code base.
        root: its folder, against which predicates are checked.
        occasion: tells retrievals apart that ask the same; given again, the same retrieval is the same trace.
        budget: most tokens of the section; null is the policy's.
    """

    text: str
    task: str
    workspace: str = DEFAULT_WORKSPACE
    root: Path = field(default_factory=Path.cwd)
    occasion: str = field(default_factory=fresh_occasion)
    budget: int | None = None


@dataclass(frozen=True, kw_only=True)
class ClaimAnswer:
    """What is known about a code base that holds now.

    `rendered` is the delimited section for a prompt; `trace_id` names what an outcome is recorded for
    (`vrm claims receipt`). `reason` says how it ended: selected, or why there is nothing.
    """

    claims: tuple[WorkspaceClaim, ...]
    rendered: str
    tokens: int
    reason: str
    trace_id: str


def retriever_of(namespace: str, workspace: str, embedder: Embedder) -> ClaimRetriever:
    """Return what finds the claims of a workspace, by the policies that ship.

    Raises:
        InvalidInputError: the embedder has no meaning.
        UnavailableError: the tokenizer cannot be used.
    """
    tokenizer = Tokenizer()
    parts = RetrieverParts(
        embedder=embedder,
        count=tokenizer.count,
        tokenizer=tokenizer_name(tokenizer.id),
        policy=claim_recall_policy(),
        lifecycle=workspace_policy(),
        shadow=shadow_policy(),
    )
    return ClaimRetriever(namespace, workspace, parts)


def retrieve(
    ledger: OpenLedger, coordinator: CoordinatorPort, retriever: ClaimRetriever, question: ClaimQuestion
) -> Retrieved:
    """Find claims, and append what follows from it.

    Raises:
        InvalidInputError: words, budget or root are none.
        IdentityConflictError: a claim moved meanwhile, or the occasion has a trace that cannot be shown again.
        VrmError: a store or the model cannot be used.
    """
    asked = Asked(objective=question.text, task_id=question.task, occasion=question.occasion, budget=question.budget)
    with Workspace(question.root) as workspace, ledger.reading() as reader:
        checker = Checker(workspace, claim_recall_policy().predicates)
        found = retriever.retrieve(reader, checker, asked, now())
    record_retrieval(coordinator, found)
    return found


def answer_of(found: Retrieved) -> ClaimAnswer:
    """Return a retrieval as callers see it."""
    return ClaimAnswer(
        claims=found.shown,
        rendered=found.rendered,
        tokens=found.trace.token_count,
        reason=found.trace.ending.value,
        trace_id=str(found.trace.id),
    )
