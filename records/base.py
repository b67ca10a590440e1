"""What every record shares: frozen models, typed ids, and the registry of record kinds.

Rules kept here:

- a record is frozen, strict (a boolean is no number, text is no id) and refuses unknown fields;
- a kind is declared once, in the header of its model, and that one entry drives the id, the identity projection, the
  table with its columns and foreign keys, the child tables, and the frontier that its commits advance;
- the payload is the canonical bytes of the whole record, the id is never part of it, and `created_at` is part of the
  payload but of no identity (spec 6.3, 9; reference: "Identity table").
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum
from functools import cached_property
from typing import Annotated, Any, ClassVar, Final, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    GetCoreSchemaHandler,
    StringConstraints,
    ValidationError,
    model_validator,
)
from pydantic_core import CoreSchema, core_schema

from records.canonical import DIGEST_PATTERN, canonical_bytes, content_id, digest_bytes, metric_text
from records.errors import InvalidRecordError

Digest = Annotated[str, StringConstraints(pattern=DIGEST_PATTERN)]
Namespace = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{0,62}$")]
UNSCOPED: Final = "legacy_unscoped"
"""The namespace of what came from a ledger without namespaces; nothing in it is ever recalled (spec 6.3)."""
NAME_PATTERN: Final = r"^[A-Za-z0-9][A-Za-z0-9_.:/+-]{0,199}$"
Name = Annotated[str, StringConstraints(pattern=NAME_PATTERN)]
Text = Annotated[str, StringConstraints(max_length=100_000)]


def _check_day(text: str) -> str:
    date.fromisoformat(text[:10])
    return text


Payload = Annotated[str, StringConstraints(max_length=64_000_000)]
"""A whole record as canonical text; a rule over thousands of runs links to every one of them."""
Timestamp = Annotated[
    str,
    StringConstraints(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]\.[0-9]{6}Z$"),
    AfterValidator(_check_day),
]
"""A moment in UTC with microseconds."""


def _check_metric(text: str) -> str:
    try:
        value = float(text)
    except ValueError as error:
        raise ValueError("a metric is the decimal text of a finite number") from error
    try:
        shortest = metric_text(value)
    except InvalidRecordError as error:
        raise ValueError(error.remedy) from error
    if shortest != text:
        raise ValueError(f"the shortest decimal text of this number is {shortest}")
    return text


Metric = Annotated[str, AfterValidator(_check_metric)]
"""A finite number as RFC 8785 writes it; `float(metric)` gives the number back without loss."""


class Id(str):
    """A content-derived id `<noun>:<64 hex>`; each noun has a class of its own, so that ids cannot be mixed up."""

    __slots__ = ()
    noun: ClassVar[str] = ""
    classes: ClassVar[dict[str, type[Id]]] = {}

    def __init_subclass__(cls, *, noun: str, **extra: Any) -> None:
        """Register the class as the id type of `noun`."""
        super().__init_subclass__(**extra)
        if noun in Id.classes:
            raise ValueError(f"noun {noun} is declared twice")
        cls.noun = noun
        Id.classes[noun] = cls

    @classmethod
    def derive(cls, projection: object) -> Self:
        """Return the id of an identity projection."""
        return cls(content_id(cls.noun, projection))

    @classmethod
    def check(cls, text: str) -> Self:
        """Return `text` as an id of this noun.

        Raises:
            ValueError: the text is not an id of this noun.
        """
        if not re.fullmatch(f"{cls.noun}:[0-9a-f]{{64}}", text):
            raise ValueError(f"expected an id of the form {cls.noun}:<64 lower-case hex digits>")
        return cls(text)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Validate as strict text of the noun's form and keep the typed id."""
        return core_schema.no_info_after_validator_function(cls.check, core_schema.str_schema(strict=True))


def noun_of(record_id: str) -> str:
    """Return the noun of an id."""
    return record_id.partition(":")[0]


class Model(BaseModel):
    """A frozen value with strict fields; nested inside records."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, validate_default=True)

    @classmethod
    def load(cls, data: bytes | str) -> Self:
        """Read the model from JSON.

        Raises:
            InvalidRecordError: a field is missing, unknown or refused; the first such field is named.
        """
        with refusing():
            return cls.model_validate_json(data)

    @classmethod
    def build(cls, **fields: Any) -> Self:
        """Make the model from outside values; as `load`, but from Python values."""
        with refusing():
            return cls(**fields)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Copy as pydantic does, but without what was computed from the old values."""
        copied = super().model_copy(update=update, deep=deep)
        for name in set(vars(copied)) - set(type(self).model_fields):
            del vars(copied)[name]
        return copied

    @cached_property
    def canonical(self) -> bytes:
        """The canonical bytes of the whole model."""
        return canonical_bytes(self.as_json())

    @cached_property
    def canonical_digest(self) -> str:
        """SHA-256 of the canonical bytes."""
        return digest_bytes(self.canonical)

    def as_json(self) -> dict[str, Any]:
        """Return the model as strict JSON values."""
        return self.model_dump(mode="json")


@contextmanager
def refusing() -> Iterator[None]:
    """Turn the first finding of pydantic about values from outside into our error; also usable as a decorator.

    Raises:
        InvalidRecordError: a field is missing, unknown or refused.
    """
    try:
        yield
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        path = ".".join(str(part) for part in first["loc"]) or "$"
        raise InvalidRecordError(f"{error.title}.{path}", first.get("input"), f"{first['msg']}.") from error


class Frontier(StrEnum):
    """The typed frontiers of a namespace (spec 6.3); a kind advances at most one."""

    EVIDENCE = "evidence"
    LIFECYCLE = "lifecycle"
    RETENTION = "retention"


@dataclass(frozen=True, kw_only=True)
class Child:
    """A list in the payload that is also kept as rows, so that the database can hold its foreign keys.

    `path` is the payload field, `table` the child table, `columns` the item fields that become columns. Child rows are
    exact projections of their parent and have no journal position of their own (spec 6.3).
    """

    path: str
    table: str
    columns: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One entry of the kind registry.

    Attributes:
        table: the table of the records.
        frontier: the frontier that a commit of this kind advances, if any.
        outside: payload fields that the identity leaves out; `created_at` always is.
        columns: payload fields kept as indexed columns; fields typed as the id of a kind always are.
        unique: sets of columns that are unique together, besides the id.
        children: lists kept as rows.
        unscoped: whether the kind is at home in `legacy_unscoped`, and there alone.
    """

    noun: str
    table: str
    frontier: Frontier | None = None
    outside: frozenset[str] = frozenset()
    columns: tuple[str, ...] = ()
    unique: tuple[tuple[str, ...], ...] = ()
    children: tuple[Child, ...] = ()
    unscoped: bool = False
    model: type[Record] = field(init=False)

    @property
    def id_class(self) -> type[Id]:
        """The id type of the kind."""
        return Id.classes[self.noun]

    def project(self, payload: dict[str, Any]) -> dict[str, Any]:
        """Return the identity projection of a payload."""
        return {key: value for key, value in payload.items() if key != "created_at" and key not in self.outside}


KINDS: dict[str, Kind] = {}
"""Every record kind by its noun; filled by the declarations of the record models."""


class Record(Model):
    """A canonical record: content-addressed, append-only, at home in one namespace."""

    kind: ClassVar[Kind]

    schema_version: Literal["1"] = "1"
    namespace: Namespace
    created_at: Timestamp

    def __init_subclass__(cls, *, kind: Kind) -> None:
        """Accept the registry entry; `__pydantic_init_subclass__` uses it once the fields are known."""
        super().__init_subclass__()

    @classmethod
    def __pydantic_init_subclass__(cls, **header: Any) -> None:
        """Enter the model into the registry under its noun."""
        kind: Kind = header.pop("kind")
        super().__pydantic_init_subclass__(**header)
        if kind.noun in KINDS:
            raise ValueError(f"kind {kind.noun} is declared twice")
        object.__setattr__(kind, "model", cls)
        cls.kind = kind
        KINDS[kind.noun] = kind

    @model_validator(mode="after")
    def _is_at_home(self) -> Self:
        if (self.namespace == UNSCOPED) != self.kind.unscoped:
            raise ValueError(f"legacy records stand in the namespace {UNSCOPED}, and no other record does")
        return self

    @property
    def payload(self) -> bytes:
        """The canonical bytes that the Ledger stores."""
        return self.canonical

    @property
    def payload_digest(self) -> str:
        """SHA-256 of the payload."""
        return self.canonical_digest

    @cached_property
    def id(self) -> Id:
        """The content-derived id."""
        return self.kind.id_class.derive(self.kind.project(self.as_json()))


def load_record(noun: str, payload: bytes | str) -> Record:
    """Read a record of a kind from its payload.

    Raises:
        InvalidRecordError: the noun is unknown, or a field is refused.
    """
    if noun not in KINDS:
        raise InvalidRecordError("noun", noun, f"Known kinds: {', '.join(sorted(KINDS))}.")
    return KINDS[noun].model.load(payload)
