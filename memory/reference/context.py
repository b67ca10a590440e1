"""The Reference Context of a Research Context: cards and their rendered section, composed and frozen (spec 8.5, 12).

Rules kept here:

- a context is a pure function of sources, words, policy and Research Context, its time included, which is that of its
  newest source. Composed again it is the same record, and frozen again a replay;
- the section is one of its own and holds nothing of memory; what it holds is digested in the record, quotation by
  quotation, and its bytes are an artifact, which an erasure of one of its sources takes along;
- a context that names something denied is not shown and not frozen.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from memory.ports import CoordinatorPort, all_good
from memory.reference.search import ReferenceHit, References
from memory.retention import denials
from policies.references.policy import ReferencePolicy
from policies.references.rendering import RENDERER, QuotedCard, fit_references
from records.appends import Append
from records.canonical import digest_bytes
from records.errors import ErasedError, InvalidInputError
from records.flows import Transition
from records.ids import ReferenceIndexId
from records.reference import ReferenceContext
from records.values import ArtifactRef
from store.artifacts import ArtifactStore
from store.ledger.port import LedgerReader

_EPOCH: Final = "1970-01-01T00:00:00.000000Z"


@dataclass(frozen=True, slots=True)
class ComposedReferences:
    """A Reference Context and what it stands for; complete, and not in the Ledger yet.

    Attributes:
        quotes: the cards that are in the section, best first.
        rendered: the section for a prompt.
    """

    record: ReferenceContext
    quotes: tuple[QuotedCard, ...]
    rendered: str


def require_rendering(policy: ReferencePolicy, tokenizer: str) -> None:
    """Refuse a policy that is for another layout or tokenizer.

    Args:
        policy: the policy.
        tokenizer: the tokenizer's identity without its release.

    Raises:
        InvalidInputError: it is.
    """
    style = policy.rendering
    if (style.renderer, style.tokenizer) != (RENDERER, tokenizer):
        wanted = f"The policy is for {style.renderer}, {style.tokenizer}."
        raise InvalidInputError("rendering", f"{RENDERER}, {tokenizer}", wanted)


def compose_references(
    references: References,
    hits: list[ReferenceHit],
    text: str,
    research_context_digest: str,
    count: Callable[[str], int],
    *,
    budget: int | None = None,
) -> ComposedReferences:
    """Return the Reference Context of what was found.

    Args:
        references: the sources that were searched.
        hits: what was found, best first.
        text: the words that were searched for.
        research_context_digest: the Research Context that it stands beside.
        count: counts the tokens of a text.
        budget: most tokens of the section, at most the policy's, which None is.

    Raises:
        InvalidInputError: the budget is none.
    """
    style = references.policy.rendering
    if budget is not None and not 0 < budget <= style.token_budget:
        raise InvalidInputError("token budget", budget, f"Give 1 to {style.token_budget} tokens.")
    quotes = [hit.quote for hit in hits[: style.max_cards]]
    section = fit_references(quotes, style, budget or style.token_budget, count)
    shown = quotes[: section.shown]
    record = ReferenceContext.build(
        namespace=references.namespace,
        created_at=max((quote.card.retrieved_at for quote in shown), default=_EPOCH),
        research_context_digest=research_context_digest,
        index_build_id=ReferenceIndexId(references.build.id),
        index_digest=references.build.payload_digest,
        query_digest=digest_bytes(text.encode()),
        policy=references.policy.identity,
        renderer=style.renderer,
        tokenizer=style.tokenizer,
        cards=tuple(quote.card for quote in shown),
        rendered=_artifact(section.text.encode()),
        token_count=section.token_count,
        dropped=len(hits) - section.shown,
    )
    return ComposedReferences(record, tuple(shown), section.text)


def _artifact(data: bytes) -> ArtifactRef:
    sha256, media_type = digest_bytes(data), "text/plain; charset=utf-8"
    return ArtifactRef(role="reference-context", sha256=sha256, size_bytes=len(data), media_type=media_type)


def freeze_references(artifacts: ArtifactStore, coordinator: CoordinatorPort, composed: ComposedReferences) -> None:
    """Publish the section of a context and append the context; again it is a replay.

    Raises:
        VrmError: its index has no receipt in the Ledger, it names something denied, or a store cannot be used.
    """
    artifacts.publish(composed.rendered.encode())
    key = f"freeze-references/{composed.record.id}"
    all_good(coordinator.append_direct([Append.direct(Transition.FREEZE_REFERENCES, key, (composed.record,))]))


def rendered_references(reader: LedgerReader, artifacts: ArtifactStore, context: ReferenceContext) -> str:
    """Return the section of a frozen context.

    Raises:
        ErasedError: retention denies it or one of its sources.
        NotFoundError: its bytes are missing.
        IntegrityError: they were changed.
    """
    denied = {each.target_id for each in denials(reader, context.namespace)}
    named = {context.rendered.sha256}.union(*((str(card.source_id), card.content_digest) for card in context.cards))
    if found := sorted(denied & named):
        raise ErasedError("reference context", context.id, f"Retention denies {found[0]}; compose a new one.")
    return artifacts.read(context.rendered.sha256).decode("utf-8")
