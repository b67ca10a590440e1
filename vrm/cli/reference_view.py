"""How sources, quotations and Reference Contexts are shown; a text of a source is always a JSON string on one line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from memory.reference.adding import Added, Addition
from memory.reference.catalogue import StoredSource
from memory.reference.search import ReferenceHit, References, ReferenceStatus
from policies.escaping import quoted
from policies.references.rendering import UNKNOWN, licence_text
from records.reference import ReferenceCard, ReferenceContext, ReferenceIndexBuild, SourceFacts
from vrm.cli.output import short, show_rows, show_title

if TYPE_CHECKING:
    from rich.console import Console

_QUOTED: Final = 160


def facts_json(facts: SourceFacts) -> dict[str, Any]:
    """Return what is said about a source, the licence in words besides."""
    return facts.as_json() | {"licence_text": licence_text(facts)}


def source_json(stored: StoredSource) -> dict[str, Any]:
    """Return a source."""
    source = stored.source
    return {
        "source": str(source.id),
        "namespace": source.namespace,
        **facts_json(source.facts),
        "content_number": stored.number,
        "contents": stored.versions,
        "retrieved_at": source.created_at,
        "sha256": source.content.sha256,
        "size_bytes": source.content.size_bytes,
        "media_type": source.content.media_type,
        "reader": source.reader,
        "chunks": len(stored.chunks.chunks),
        "restated": stored.is_restated,
        "denied": stored.is_denied,
    }


def detail_json(stored: StoredSource, text: str | None) -> dict[str, Any]:
    """Return a source with its chunks, and with the quotation of each if its text is given."""
    parts = [
        part.as_json() | {"quotation": None if text is None else text[part.quote_start : part.quote_end]}
        for part in stored.chunks.chunks
    ]
    return source_json(stored) | {"chunk_set": str(stored.chunks.id), "parts": parts}


def build_json(build: ReferenceIndexBuild, *, recorded: bool) -> dict[str, Any]:
    """Return the receipt of an index."""
    return {
        "index": str(build.id),
        "sha256": build.artifact.sha256,
        "documents": build.document_count,
        "sources": len(build.members),
        "recorded": recorded,
    }


def added_json(namespace: str, done: Sequence[Added], build: ReferenceIndexBuild | None) -> dict[str, Any]:
    """Return what became of every file."""
    counts = Counter(each.addition for each in done)
    return {
        "namespace": namespace,
        **{addition.value: counts[addition] for addition in Addition},
        "sources": [_one_added(each) for each in done],
        "index": None if build is None else build_json(build, recorded=True),
    }


def _one_added(each: Added) -> dict[str, Any]:
    found: dict[str, Any] = {"path": each.path, "addition": each.addition.value, "chunks": each.chunk_count}
    if each.source is not None:
        found |= {"source": str(each.source.id), **facts_json(each.source.facts)}
    if each.error is not None:
        found["error"] = each.error.as_dict()
    return found


def search_json(opened: References, hits: Sequence[ReferenceHit]) -> dict[str, Any]:
    """Return what was found, with the index that was searched."""
    found = [
        card_json(hit.quote.card)
        | {
            "quotation": hit.quote.quotation,
            "ranks": dict(hit.ranks),
            "content_number": hit.stored.number,
            "contents": hit.stored.versions,
        }
        for hit in hits
    ]
    status = ReferenceStatus.of(hits)
    return {"status": status, "index": build_json(opened.build, recorded=opened.is_recorded), "hits": found}


def card_json(card: ReferenceCard) -> dict[str, Any]:
    """Return a card."""
    return {"card": str(card.card_id), **card.as_json(), "licence_text": licence_text(card.facts)}


def context_json(context: ReferenceContext, rendered: str) -> dict[str, Any]:
    """Return a context with its section."""
    return {
        "context": str(context.id),
        "namespace": context.namespace,
        "research_context_digest": context.research_context_digest,
        "index": str(context.index_build_id),
        "tokens": context.token_count,
        "dropped": context.dropped,
        "cards": [card_json(card) for card in context.cards],
        "rendered": rendered,
    }


def show_added(out: Console, found: dict[str, Any]) -> None:
    """Print what became of every file."""
    rows = []
    for each in found["sources"]:
        error = each.get("error")
        what = f"{error['value']}. {error['remedy']}" if error else short(each["source"])
        licence = "" if error else each["licence_text"]
        rows.append((each["path"], each["addition"], str(each["chunks"]), licence, what))
    show_rows(out, ("file", "", "chunks", "licence", "source"), rows)
    counts = ", ".join(f"{found[addition.value]} {addition.value}" for addition in Addition)
    index = found["index"]
    told = "" if index is None else f" Index {short(index['index'])}: {index['documents']} chunks."
    out.print(f"{counts}.{told}", markup=False)


def show_sources(out: Console, sources: Sequence[StoredSource]) -> None:
    """Print sources, one a row."""
    rows = []
    for each in sources:
        facts = each.source.facts
        number = f"{each.number} of {each.versions}" if each.versions > 1 else ""
        version = " ".join(filter(None, (facts.version, f"({number})" if number else "")))
        state = "denied" if each.is_denied else "restated" if each.is_restated else ""
        chunks, day = str(len(each.chunks.chunks)), each.source.created_at[:10]
        rows.append((short(str(each.source.id)), facts.source_kind.value, facts.title, version or UNKNOWN,
                     licence_text(facts), chunks, day, state))  # fmt: skip
    show_rows(out, ("source", "kind", "title", "version", "licence", "chunks", "retrieved", ""), rows)


def show_detail(out: Console, found: dict[str, Any]) -> None:
    """Print a source with its chunks."""
    show_title(out, f"{found['source_kind']} {quoted(found['title'], _QUOTED)}")
    shown = {
        "source": found["source"],
        "at": quoted(found["uri"], _QUOTED),
        "version": found["version"] or UNKNOWN,
        "content": f"{found['content_number']} of {found['contents']} at this address, sha256 {found['sha256']}",
        "licence": found["licence_text"],
        "access": found["access"] or UNKNOWN,
        "retrieved": found["retrieved_at"],
        "read as": f"{found['media_type']}, {found['size_bytes']} bytes, by {found['reader']}",
    }
    for name, value in shown.items():
        out.print(f"{name:<11}{value}", markup=False, soft_wrap=True)
    if found["denied"]:
        out.print("Retention denies it: nothing of it is shown, and it is in no index.")
    rows = [
        (f"{part['start']} to {part['end']}", f"{part['unit']} {part['unit_number']}", str(part["tokens"]),
         "" if part["quotation"] is None else quoted(part["quotation"], _QUOTED))
        for part in found["parts"]
    ]  # fmt: skip
    show_rows(out, ("characters", "part", "tokens", "quotation"), rows)


def show_hits(out: Console, found: dict[str, Any]) -> None:
    """Print what was found."""
    if not found["hits"]:
        out.print("Nothing that counts is near enough to be quoted.")
    for number, hit in enumerate(found["hits"], start=1):
        facts = hit["facts"]
        show_title(out, f"{number}. {facts['source_kind']} {quoted(facts['title'], _QUOTED)}")
        version = facts["version"] or UNKNOWN
        place = f"characters {hit['quote_start']} to {hit['quote_end']}, {hit['unit']} {hit['unit_number']}"
        out.print(f"{quoted(facts['uri'], _QUOTED)}, {place}", markup=False, soft_wrap=True)
        out.print(f"version {version}; licence {hit['licence_text']}; {short(hit['card'])}", markup=False)
        out.print(quoted(hit["quotation"], 2 * _QUOTED), markup=False, soft_wrap=True)
    index = found["index"]
    out.print(f"\nSearched {index['documents']} chunks of {index['sources']} sources, index sha256 {index['sha256']}.")
