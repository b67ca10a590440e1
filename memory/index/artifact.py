"""Build an index of a frozen set of documents as bytes, and search those bytes.

Rules kept here (specification section 14, VRM-O01):

- the same documents and the same embedder give the same bytes, whatever the order they come in; the digest of the bytes
  names the build, `members_digest` its documents and `vector_digest` its vectors;
- documents lie in id order; row numbers are positions in it;
- search is exact. The caller's hard filters choose rows first, and only those rows are scored and returned; the score
  of a row does not depend on which other rows were chosen, for word statistics cover the whole index;
- building keeps numbers and ids, never a text: what a million documents take is what their index takes;
- loading checks every byte and every array, copies nothing and writes nothing, so a thousand readers can share one
  buffer; what does not hold is an `IntegrityError` that names the part;
- an index is only read by the code that would build the same one: another schema, word rule or scoring rule is refused.

Not held here: the columns of the hard filters, the texts themselves, who may read what.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from memory.index.embedding import Embedder
from memory.index.framing import Buffer, Frame, pack, unpack, view_of
from memory.index.lexical import LEXICAL_VERSION, TERM_RULES, TERMS_VERSION, Postings, PostingsBuilder
from memory.index.packed import PackedTexts
from memory.index.ranking import SCORE_BITS, Hit, Rows, best, select_rows
from memory.index.vectors import LEVELS, MULTIPLIER_BITS, Quantised, nearest, quantise
from records.canonical import DIGEST_PATTERN, digest_bytes, domain_digest, domain_digest_list
from records.errors import IntegrityError, InvalidInputError, NotFoundError

INDEX_SCHEMA: Final = "vrm-index/1"
BUILD_TOOL: Final = "vrm-index-build/1"
SEMANTIC_VERSION: Final = f"exact-int8/1+levels={LEVELS}+multiplier-bits={MULTIPLIER_BITS}+bits={SCORE_BITS}"
_REBUILD: Final = "Build the index again from its snapshot with this release."
_DIGEST_BYTES: Final = 32
_EMBEDDED_AT_ONCE: Final = 256


@dataclass(frozen=True, slots=True)
class IndexDocument:
    """One document to index.

    Attributes:
        id: its canonical id, unique in the index, NFC.
        text: what is searched: words and meaning both come from it.
    """

    id: str
    text: str


class IndexIdentity(BaseModel):
    """Everything besides the documents that decides the bytes of an index."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    index_schema: str = INDEX_SCHEMA
    build_tool: str = BUILD_TOOL
    lexical_adapter: str = LEXICAL_VERSION
    semantic_adapter: str = SEMANTIC_VERSION
    words: str = TERMS_VERSION
    embedder_id: str
    dimensions: int = Field(gt=0)

    @property
    def digest(self) -> str:
        """Return the SHA-256 of the canonical identity."""
        return domain_digest("memory-index-identity", self.model_dump())


class _Meta(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    identity: IndexIdentity
    members_digest: str = Field(pattern=DIGEST_PATTERN)
    size: int = Field(ge=0)
    vector_digest: str = Field(pattern=DIGEST_PATTERN)


@dataclass(frozen=True, slots=True)
class IndexArtifact:
    """A built index.

    Attributes:
        data: its bytes, to be kept under their digest.
        digest: SHA-256 of `data`.
        identity: what built it.
        members_digest: digest of (document id, SHA-256 of its text), in row order.
        vector_digest: digest of codes, multipliers and dimensions.
    """

    data: bytes
    digest: str
    identity: IndexIdentity
    members_digest: str
    vector_digest: str


def build_index(documents: Iterable[IndexDocument], embedder: Embedder) -> IndexArtifact:
    """Return the index of `documents`; none at all is legal.

    Raises:
        InvalidInputError: an id is empty, not canonical or given twice, a text is not valid Unicode, or the embedder
            returned something other than one finite unit vector a text.
        UnavailableError: the embedder cannot be used.
    """
    builder = IndexBuilder(embedder)
    for document in documents:
        builder.add(document)
    return builder.finish()


class IndexBuilder:
    """Takes documents one by one, in any order."""

    def __init__(self, embedder: Embedder, *, rule: str = TERMS_VERSION) -> None:
        """Begin without documents; `embedder` is asked for some texts at a time, `rule` of `TERM_RULES` splits them."""
        self._embedder, self._rule = embedder, rule
        self._ids: list[str] = []
        self._digests = bytearray()
        self._postings = PostingsBuilder(rule)
        self._waiting: list[str] = []
        self._vectors: list[Quantised] = []

    def add(self, document: IndexDocument) -> None:
        """Take a document.

        Raises:
            InvalidInputError: its id is empty, its text is not valid Unicode, or its vector is not one.
            UnavailableError: the embedder cannot be used.
        """
        if not document.id:
            raise InvalidInputError("document.id", "empty", "Give each document its canonical id.")
        try:
            self._digests += hashlib.sha256(document.text.encode()).digest()
        except UnicodeEncodeError as error:
            raise InvalidInputError(f"text of {document.id}", str(error), "Give valid Unicode text.") from error
        self._ids.append(document.id)
        self._postings.add(document.text)
        self._waiting.append(document.text)
        if len(self._waiting) == _EMBEDDED_AT_ONCE:
            self._embed()

    def finish(self) -> IndexArtifact:
        """Return the index of what was added.

        Raises:
            InvalidInputError: an id was given twice, or a vector is not one.
            UnavailableError: the embedder cannot be used.
        """
        self._embed()
        order = np.array(sorted(range(len(self._ids)), key=self._ids.__getitem__), dtype=np.int64)
        ids = [self._ids[at] for at in order]
        double = next((one for one, other in pairwise(ids) if one == other), None)
        if double is not None:
            raise InvalidInputError("document.id", double, "Give each document once.")
        rows = np.empty_like(order)
        rows[order] = np.arange(order.size)
        digests = np.frombuffer(bytes(self._digests), dtype=np.uint8).reshape(-1, _DIGEST_BYTES)[order]
        identity = IndexIdentity(embedder_id=self._embedder.id, dimensions=self._embedder.dimensions, words=self._rule)
        codes, multipliers = (np.concatenate(groups)[order] for groups in zip(*self._vectors, strict=True))
        self._vectors.clear()
        quantised = Quantised(codes, multipliers)
        meta = _Meta(
            identity=identity,
            members_digest=_members_digest(ids, digests),
            size=len(ids),
            vector_digest=_vector_digest(quantised),
        )
        data = pack(meta.model_dump(), _parts(PackedTexts.pack(ids), digests, self._postings.finish(rows), quantised))
        return IndexArtifact(data, digest_bytes(data), identity, meta.members_digest, meta.vector_digest)

    def _embed(self) -> None:
        vectors = self._embedder.embed(self._waiting)
        wanted = (len(self._waiting), self._embedder.dimensions)
        if vectors.shape != wanted:
            expected = f"{wanted[0]} vectors of {wanted[1]} dimensions are expected."
            raise InvalidInputError("embedder", f"shape {vectors.shape}", expected)
        self._vectors.append(quantise(vectors))
        self._waiting.clear()


class LoadedIndex:
    """An index ready to be searched; immutable, safe to share between threads."""

    __slots__ = ("_ids", "_meta", "_postings", "_quantised", "_texts")

    def __init__(self, frame: Frame) -> None:
        """Check a frame and hold views of its arrays; use `from_bytes`."""
        self._meta = _read_meta(frame)
        parts = _shaped(frame, self._meta)
        self._ids = PackedTexts(parts["ids"], parts["id_starts"])
        self._texts: NDArray[np.uint8] = parts["text_digests"]
        terms = PackedTexts(parts["terms"], parts["term_starts"])
        starts, rows, impacts = (parts[f"posting_{name}"] for name in ("starts", "rows", "impacts"))
        self._postings = Postings(terms, starts, rows, impacts, self._meta.size, self._meta.identity.words)
        self._quantised = Quantised(parts["codes"], parts["multipliers"])
        self._check()

    @classmethod
    def from_bytes(cls, data: Buffer, *, digest: str | None = None) -> Self:
        """Load an artifact as views of `data`, which must not change while the index is in use.

        Args:
            data: the bytes, or a contiguous uint8 array, for instance in shared memory.
            digest: the SHA-256 that the caller has from a receipt.

        Raises:
            IntegrityError: the bytes are not a whole, unchanged artifact, not the one of `digest`, or one that this
                release would build otherwise.
        """
        if digest is not None:
            met = hashlib.sha256(view_of(data)).hexdigest()
            if met != digest:
                raise IntegrityError("index.digest", met, f"{digest} is expected. {_REBUILD}")
        return cls(unpack(data))

    @property
    def identity(self) -> IndexIdentity:
        """Return what built the index."""
        return self._meta.identity

    @property
    def size(self) -> int:
        """Return the number of documents."""
        return self._meta.size

    @property
    def members_digest(self) -> str:
        """Return the digest of the documents' ids and texts."""
        return self._meta.members_digest

    @property
    def vector_digest(self) -> str:
        """Return the digest of the vectors."""
        return self._meta.vector_digest

    @property
    def ids(self) -> PackedTexts:
        """Return the document ids in row order."""
        return self._ids

    def row(self, document_id: str) -> int:
        """Return the row of a document.

        Raises:
            NotFoundError: the index does not hold it.
        """
        found = self._ids.find(document_id)
        if found is None:
            raise NotFoundError(
                "document", document_id, "The index holds no such document; ask for one of its members."
            )
        return found

    def rows(self, document_ids: Iterable[str]) -> Rows:
        """Return the rows of documents, ascending.

        Raises:
            NotFoundError: the index does not hold one of them.
        """
        return select_rows([self.row(found) for found in document_ids], self.size)

    def text_digest(self, row: int) -> str:
        """Return the SHA-256 of the text that was indexed at a row."""
        return bytes(self._texts[row]).hex()

    def lexical(self, query: str, rows: Sequence[int] | Rows | None = None, *, limit: int) -> list[Hit]:
        """Return the `limit` best chosen documents that share a word with `query`, by BM25.

        Args:
            query: any text.
            rows: the rows that passed the hard filters; None for all.
            limit: at most so many hits.

        Raises:
            ValueError: a row is not in the index, or `limit` is negative.
        """
        chosen = None if rows is None else select_rows(rows, self.size)
        return self._hits(*self._postings.leading(query, chosen, limit), limit)

    def semantic(
        self, vector: NDArray[np.float32], rows: Sequence[int] | Rows | None = None, *, limit: int
    ) -> list[Hit]:
        """Return the `limit` chosen documents nearest to `vector` by cosine; the caller decides what is near enough.

        Args:
            vector: a unit vector by the embedder named in `identity`, shape (d,).
            rows: the rows that passed the hard filters; None for all.
            limit: at most so many hits.

        Raises:
            InvalidInputError: the vector has another length, is not finite or not of unit norm.
            ValueError: a row is not in the index, or `limit` is negative.
        """
        if vector.shape != (self.identity.dimensions,):
            wanted = f"Give one vector of {self.identity.dimensions} dimensions by {self.identity.embedder_id}."
            raise InvalidInputError("vector", f"shape {vector.shape}", wanted)
        chosen = None if rows is None else select_rows(rows, self.size)
        return self._hits(*nearest(self._quantised, quantise(vector[np.newaxis, :]), chosen, limit), limit)

    def _hits(self, rows: Rows, found: NDArray[np.int64], limit: int) -> list[Hit]:
        order = best(found, rows, limit)
        return [Hit(int(rows[at]), self._ids[int(rows[at])], int(found[at])) for at in order]

    def _check(self) -> None:
        flaws = {
            "index.ids": self._ids.flaw(),
            "index.terms": self._postings.terms.flaw(),
            "index.postings": self._postings.flaw(),
        }
        for field, flaw in flaws.items():
            if flaw is not None:
                raise IntegrityError(field, flaw, _REBUILD)
        if _members_digest(self._ids, self._texts) != self.members_digest:
            raise IntegrityError("index.members_digest", self.members_digest, f"The members differ. {_REBUILD}")
        if _vector_digest(self._quantised) != self.vector_digest:
            raise IntegrityError("index.vector_digest", self.vector_digest, f"The vectors differ. {_REBUILD}")


def _members_digest(ids: Iterable[str], digests: NDArray[np.uint8]) -> str:
    """Return the digest of ids, in row order, with the SHA-256 of their texts, uint8, shape (n, 32)."""
    whole, width = digests.tobytes().hex(), 2 * _DIGEST_BYTES
    members = ([found, whole[width * row : width * (row + 1)]] for row, found in enumerate(ids))
    return domain_digest_list("memory-index-members", members)


def _vector_digest(quantised: Quantised) -> str:
    projection = {
        "codes": hashlib.sha256(quantised.codes.reshape(-1).data).hexdigest(),
        "multipliers": hashlib.sha256(quantised.multipliers.data).hexdigest(),
        "shape": list(quantised.codes.shape),
    }
    return domain_digest("memory-index-vectors", projection)


def _parts(
    ids: PackedTexts, digests: NDArray[np.uint8], postings: Postings, quantised: Quantised
) -> dict[str, NDArray[Any]]:
    return {
        "ids": ids.blob,
        "id_starts": ids.starts,
        "text_digests": digests,
        "terms": postings.terms.blob,
        "term_starts": postings.terms.starts,
        "posting_starts": postings.starts,
        "posting_rows": postings.rows,
        "posting_impacts": postings.impacts,
        "codes": quantised.codes,
        "multipliers": quantised.multipliers,
    }


def _read_meta(frame: Frame) -> _Meta:
    try:
        meta = _Meta.model_validate(frame.meta)
    except ValidationError as error:
        raise IntegrityError("index.meta", str(error), _REBUILD) from error
    theirs = meta.identity
    words = theirs.words if theirs.words in TERM_RULES else TERMS_VERSION
    ours = IndexIdentity(embedder_id=theirs.embedder_id, dimensions=theirs.dimensions, words=words)
    for field, value in ours.model_dump().items():
        if (met := getattr(theirs, field)) != value:
            raise IntegrityError(f"index.identity.{field}", met, f"{value} is read here. {_REBUILD}")
    return meta


def _shaped(frame: Frame, meta: _Meta) -> dict[str, NDArray[Any]]:
    """Return the parts, each with the dtype and as many rows as it must have."""
    free = -1
    expected: dict[str, tuple[str, tuple[int, ...]]] = {
        "ids": ("|u1", (free,)),
        "id_starts": ("<i8", (meta.size + 1,)),
        "text_digests": ("|u1", (meta.size, _DIGEST_BYTES)),
        "terms": ("|u1", (free,)),
        "term_starts": ("<i8", (free,)),
        "posting_starts": ("<i8", (free,)),
        "posting_rows": ("<i4", (free,)),
        "posting_impacts": ("<i4", (free,)),
        "codes": ("|i1", (meta.size, meta.identity.dimensions)),
        "multipliers": ("<i4", (meta.size,)),
    }
    if list(frame.parts) != list(expected):
        raise IntegrityError("index.parts", ", ".join(frame.parts), f"{', '.join(expected)} are expected. {_REBUILD}")
    for name, (dtype, shape) in expected.items():
        part = frame.parts[name]
        sides = len(shape) == part.ndim and all(
            side in (free, met) for side, met in zip(shape, part.shape, strict=True)
        )
        if part.dtype.str != dtype or not sides:
            raise IntegrityError(f"index.{name}", f"{part.dtype.str} {part.shape}", f"{dtype} {shape}. {_REBUILD}")
    return dict(frame.parts)
