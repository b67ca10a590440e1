"""What a node is told of its ancestors: by words and meaning, with where the answer comes from (spec 003).

Rules kept here:

- the index is made of the ancestors' entries alone, each time. So not even the weight of a word tells of a sibling;
- search is exact: words by BM25 and meaning by the pinned model, joined by reciprocal rank; equal places are ordered by
  id. The best are taken, and shown from the root to the parent, or best first where that is asked for;
- whether an entry was reproduced is folded from events that ancestors wrote: what a sibling found is a sibling's;
- an answer says how it was made: model, ranking, digest of the words, how many there were and how many came back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from memory.index.artifact import IndexDocument, LoadedIndex, build_index
from memory.index.embedding import Embedder, require_semantic
from memory.index.fusion import K, fuse
from memory.lineage.tree import Tree
from policies.lineage.reading_policy import LineageReadingPolicy
from policies.lineage.scope import EVERYTHING, Wanted, ancestors_of, read_entries
from policies.lineage.standing import status_of
from records.canonical import digest_bytes
from records.errors import InvalidInputError
from records.lineage import LineageEntry, Reproduction

LINEAGE_ORDER: Final = "root-to-parent/1"
RELEVANCE: Final = f"bm25+cosine/reciprocal-rank-{K}"


@dataclass(frozen=True, kw_only=True)
class LineageQuestion:
    """What a node asks.

    Attributes:
        node: the node.
        text: the words to look for; null for everything.
        parent: its parent, where it has not reported yet.
        wanted: which kinds of entry, and whether only with verified files.
        limit: at most so many.
        best_first: the order of relevance, and not that of the lineage.
    """

    node: str
    text: str | None = None
    parent: str | None = None
    wanted: Wanted = EVERYTHING
    limit: int = 8
    best_first: bool = False


@dataclass(frozen=True, slots=True)
class LineageHit:
    """An entry that was found: its place in the order of relevance, from one, and in each list that holds it."""

    entry: LineageEntry
    status: Reproduction
    rank: int
    ranks: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrievalProvenance:
    """How an answer was made.

    Attributes:
        ancestors: whose entries were read, from the root on; of an erased one nothing was.
        model: the identity of the embedder; null where nothing was searched for.
        ranking: how the entries were ranked, and ordered.
        deterministic: whether the same question gives the same answer; it always does.
        query_digest: of the words; null where there were none.
        index_digest: of the index that was searched.
        candidate_count: entries that could be found; `returned_count` is how many were.
    """

    namespace: str
    checkpoint_id: str
    node_id: str
    ancestors: tuple[str, ...]
    kinds: tuple[str, ...]
    artifact_backed: bool
    policy: str
    model: str | None
    ranking: str
    deterministic: bool
    query_digest: str | None
    index_digest: str | None
    candidate_count: int
    returned_count: int
    limit: int


@dataclass(frozen=True, slots=True)
class LineageAnswer:
    """Entries of ancestors, and how they were found."""

    hits: tuple[LineageHit, ...]
    provenance: RetrievalProvenance


def retrieve(
    tree: Tree,
    question: LineageQuestion,
    embedder: Embedder,
    policy: LineageReadingPolicy,
    *,
    test_index: bool = False,
) -> LineageAnswer:
    """Return what a node's ancestors wrote that answers a question.

    Args:
        tree: the checkpoint.
        question: what the node asks.
        embedder: turns texts into vectors; not used without words.
        policy: how long candidate lists are.
        test_index: allow vectors without meaning; for tests only.

    Raises:
        InvalidInputError: the words are none, the limit is below one, or the embedder has no meaning.
        NotFoundError: the node is not known, and no parent was named that is.
        IntegrityError: reports contradict each other.
        UnavailableError: the model cannot be used.
    """
    _require_question(question)
    ancestors = ancestors_of(tree.reports, question.node, question.parent)
    entries = read_entries(tree.entries, tree.checkpoint_id, ancestors, question.wanted)
    found = _searched(entries, question, embedder, policy, test_index=test_index)
    latest, by_id = tree.latest(ancestors), {str(each.id): each for each in entries}
    hits = [
        LineageHit(by_id[key], status_of(key, latest), rank, ranks)
        for rank, (key, ranks) in enumerate(found.ranked[: question.limit], start=1)
    ]
    if not question.best_first:
        places = {key: at for at, key in enumerate(by_id)}
        hits.sort(key=lambda hit: places[str(hit.entry.id)])
    provenance = RetrievalProvenance(
        namespace=tree.namespace,
        checkpoint_id=tree.checkpoint_id,
        node_id=question.node,
        ancestors=tuple(each for each in ancestors if each not in tree.erased),
        kinds=tuple(sorted(question.wanted.kinds)),
        artifact_backed=question.wanted.artifact_backed,
        policy=policy.identity.digest,
        model=found.model,
        ranking=_ranking(question),
        deterministic=True,
        query_digest=None if question.text is None else digest_bytes(question.text.encode()),
        index_digest=found.index_digest,
        candidate_count=len(entries),
        returned_count=len(hits),
        limit=question.limit,
    )
    return LineageAnswer(tuple(hits), provenance)


def _require_question(question: LineageQuestion) -> None:
    if question.limit < 1:
        raise InvalidInputError("limit", question.limit, "Ask for at least one.")
    if question.text is not None and not question.text.strip():
        raise InvalidInputError("text", question.text, "Say what to look for, or leave it out for everything.")


class _Searched(NamedTuple):
    """Entries by id with their ranks in each list, best first, and what found them."""

    ranked: list[tuple[str, tuple[tuple[str, int], ...]]]
    model: str | None = None
    index_digest: str | None = None


def _searched(
    entries: Sequence[LineageEntry],
    question: LineageQuestion,
    embedder: Embedder,
    policy: LineageReadingPolicy,
    *,
    test_index: bool,
) -> _Searched:
    if question.text is None:
        return _Searched([(str(each.id), ()) for each in reversed(entries)])  # the nearest first
    if not test_index:
        require_semantic(embedder.id)
    if not entries:
        return _Searched([], embedder.id)
    documents = [IndexDocument(str(each.id), each.text) for each in entries]
    index = LoadedIndex.from_bytes(build_index(documents, embedder).data)
    depth = max(question.limit, policy.search.candidates)
    vector = embedder.embed([question.text], kind="query")[0]
    lists = {
        "words": [hit.id for hit in index.lexical(question.text, limit=depth)],
        "meaning": [hit.id for hit in index.semantic(vector, limit=depth)],
    }
    return _Searched([(hit.id, hit.ranks) for hit in fuse(lists)], embedder.id, index.members_digest)


def _ranking(question: LineageQuestion) -> str:
    found = "nearest-ancestor-first/1" if question.text is None else RELEVANCE
    return found if question.best_first else f"{found}, {LINEAGE_ORDER}"
