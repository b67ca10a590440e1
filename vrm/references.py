"""Sources to consult, from Python: quotations for a prompt, apart from what memory verified.

Rules kept here: nothing is written; what comes back is never evidence, and no rule can rest on it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from memory.index.embedding import Embedder
from memory.recall.retriever import tokenizer_name
from memory.reference.context import compose_references, require_rendering
from memory.reference.search import ReferenceStatus, open_references
from memory.tokens import Tokenizer
from policies.references.policy import reference_policy
from policies.references.rendering import QuotedCard
from records.canonical import domain_digest
from records.reference import ReferenceKind
from store.artifacts import ArtifactStore
from store.ledger.port import OpenLedger


@dataclass(frozen=True, kw_only=True)
class ReferenceAnswer:
    """What external sources say: quotations with source, place, version and licence.

    `status` is `empty` where nothing is near enough to be quoted; then there are no quotes and `rendered` says so.
    `rendered` is the delimited section for a prompt, to stand beside the section of Evidence Cards and never inside it;
    `context_id` names the Reference Context that it would be frozen as, `dropped` counts what did not fit.
    """

    status: ReferenceStatus
    quotes: tuple[QuotedCard, ...]
    rendered: str
    tokens: int
    dropped: int
    context_id: str


@dataclass(frozen=True, kw_only=True)
class ReferenceQuestion:
    """What is looked for.

    Attributes:
        text: the words.
        point: the decision that the answer is for; null for a survey or an implementation, which are no decisions.
        kinds: only sources of these kinds; none for all.
        research_context_digest: the Research Context that the answer stands beside.
        budget: most tokens of the section; null is the policy's.
    """

    text: str
    point: str | None = None
    kinds: Collection[ReferenceKind] = ()
    research_context_digest: str | None = None
    budget: int | None = None


def consult(
    ledger: OpenLedger, artifacts: ArtifactStore, namespace: str, embedder: Embedder, question: ReferenceQuestion
) -> ReferenceAnswer:
    """Answer a question from the sources of a namespace.

    Raises:
        InvalidInputError: the decision point takes no Reference Context, or words or budget are none.
        NotFoundError: the namespace has no source that counts.
        UnavailableError: the model or the tokenizer cannot be used.
    """
    policy, tokenizer = reference_policy(), Tokenizer()
    if question.point is not None:
        policy.require_adjacent(question.point)
    require_rendering(policy, tokenizer_name(tokenizer.id))
    found = open_references(ledger, artifacts, namespace, embedder, policy)
    hits = found.search(question.text, policy.rendering.max_cards, question.kinds)
    digest = question.research_context_digest or domain_digest("reference-question", [namespace, question.text])
    composed = compose_references(found, hits, question.text, digest, tokenizer.count, budget=question.budget)
    return ReferenceAnswer(
        status=ReferenceStatus.of(hits),
        quotes=composed.quotes,
        rendered=composed.rendered,
        tokens=composed.record.token_count,
        dropped=composed.record.dropped,
        context_id=str(composed.record.id),
    )
