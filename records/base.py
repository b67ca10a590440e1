"""What every record shares: frozen models, typed ids, and the registry of record kinds.

Rules kept here:

- a record is frozen, strict (a boolean is no number, text is no id) and refuses unknown fields;
- a kind is declared once, in the header of its model, and that one entry drives the id, the identity projection, the
  table with its columns and foreign keys, the child tables, and the frontier that its commits advance;
- a kind with a discriminator has variants: its own model holds what they share and makes no records, each subclass
  narrows the discriminator to a `Literal` of its own values. Columns, child rows and unique sets are of the shared
  part, so every variant has them; what only one variant has is in the payload alone (docs/adr/0011);
- the payload is the canonical bytes of the whole record, the id is never part of it, and `created_at` is part of the
  payload but of no identity (spec 6.3, 9; reference: "Identity table").
"""

from __future__ import annotations

import re
import typing
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum
from functools import cache, cached_property
from typing import Annotated, Any, ClassVar, Final, Literal, Self, Union

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    StringConstraints,
    TypeAdapter,
    ValidationError,
    model_validator,
)
from pydantic_core import CoreSchema, core_schema

from records.canonical import (
    DIGEST_PATTERN,
    canonical_bytes,
    canonical_json,
    content_id,
    digest_bytes,
    domain_digest_bytes,
    metric_text,
)
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
    def of_bytes(cls, projection: bytes) -> Self:
        """Return the id of an identity projection that is given as canonical bytes."""
        return cls(f"{cls.noun}:{domain_digest_bytes(cls.noun, projection)}")

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
        return self.encode(self.as_json())

    @classmethod
    def encode(cls, dumped: dict[str, Any]) -> bytes:
        """Return the canonical bytes of the model's JSON values, or of some of them."""
        return canonical_json(dumped) if _is_exact(cls) else canonical_bytes(dumped)

    @cached_property
    def canonical_digest(self) -> str:
        """SHA-256 of the canonical bytes."""
        return digest_bytes(self.canonical)

    def as_json(self) -> dict[str, Any]:
        """Return the model as strict JSON values."""
        return self.model_dump(mode="json")


@cache
def _is_exact(model: type[Model]) -> bool:
    """Tell whether no field of a model, however deep, can hold a float or just anything; so with every record."""
    return not _INEXACT & set(_schema_types(model.__pydantic_core_schema__))


_INEXACT: Final = {"float", "any", "decimal", "complex"}


def _schema_types(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        if isinstance(schema.get("type"), str):
            yield schema["type"]
        schema = schema.values()
    if not isinstance(schema, str) and isinstance(schema, Iterable):
        for part in schema:
            yield from _schema_types(part)


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

    `path` is the payload field, `table` the child table, `columns` the item fields that become columns, `unique` those
    that no two items of one parent share. Child rows are exact projections of their parent and have no journal position
    of their own (spec 6.3).
    """

    path: str
    table: str
    columns: tuple[str, ...]
    unique: tuple[str, ...] = ()


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
        discriminator: the closed field that tells the variants of the kind apart; always a column.
        model: the model of the kind; where there are variants, what they share.
        variants: the model of each value of the discriminator.
        unscoped: whether the kind is at home in `legacy_unscoped`, and there alone.
    """

    noun: str
    table: str
    frontier: Frontier | None = None
    outside: frozenset[str] = frozenset()
    columns: tuple[str, ...] = ()
    unique: tuple[tuple[str, ...], ...] = ()
    children: tuple[Child, ...] = ()
    discriminator: str | None = None
    unscoped: bool = False
    model: type[Record] = field(init=False)
    variants: dict[str, type[Record]] = field(init=False, compare=False, default_factory=dict)

    @property
    def id_class(self) -> type[Id]:
        """The id type of the kind."""
        return Id.classes[self.noun]

    def project(self, payload: dict[str, Any]) -> dict[str, Any]:
        """Return the identity projection of a payload."""
        return {key: value for key, value in payload.items() if key != "created_at" and key not in self.outside}

    def declare(self, model: type[Record]) -> None:
        """Enter the kind into the registry with its own model."""
        if self.noun in KINDS:
            raise ValueError(f"kind {self.noun} is declared twice")
        object.__setattr__(self, "model", model)
        KINDS[self.noun] = self
        if self.discriminator is not None:  # only a variant makes records
            model.__abstractmethods__ = frozenset({self.discriminator})

    def admit(self, model: type[Record]) -> None:
        """Enter a variant under the values that its discriminator may have."""
        narrowed = None if self.discriminator is None else model.model_fields[self.discriminator].annotation
        if typing.get_origin(narrowed) is not Literal or self.model not in model.__bases__:
            raise ValueError(f"{model.__name__} is no variant: it narrows no discriminator of {self.noun}")
        for value in map(str, typing.get_args(narrowed)):
            if value in self.variants:
                raise ValueError(f"{self.noun} has two variants for {value}")
            self.variants[value] = model
        vars(self).pop("_union", None)

    @cached_property
    def _union(self) -> TypeAdapter[Record]:
        models = tuple(dict.fromkeys(self.variants.values()))
        apart = Field(discriminator=self.discriminator)
        return TypeAdapter(Annotated[Union[models], apart])  # type: ignore[arg-type]  # noqa: UP007  # made at run time

    def load(self, payload: bytes | str) -> Record:
        """Read a record from its payload, as the variant that the discriminator names.

        Raises:
            InvalidRecordError: no variant has that discriminator, or a field is refused.
        """
        models = set(self.variants.values())
        if len(models) <= 1:
            return (models.pop() if models else self.model).load(payload)
        try:
            return self._union.validate_json(payload)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            if first["loc"]:
                return self.variants[str(first["loc"][0])].load(payload)  # raises, and names field and model
            path = self.discriminator if first["type"].startswith("union_tag") else "$"
            met = first.get("ctx", {}).get("tag", first.get("input"))
            remedy = f"It is one of: {', '.join(sorted(self.variants))}."
            raise InvalidRecordError(f"{self.model.__name__}.{path}", met, remedy) from error


KINDS: dict[str, Kind] = {}
"""Every record kind by its noun; filled by the declarations of the record models."""


class Record(Model):
    """A canonical record: content-addressed, append-only, at home in one namespace."""

    kind: ClassVar[Kind]

    schema_version: Literal["1"] = "1"
    namespace: Namespace
    created_at: Timestamp

    def __init_subclass__(cls, *, kind: Kind | None = None) -> None:
        """Accept the registry entry; `__pydantic_init_subclass__` uses it once the fields are known."""
        super().__init_subclass__()

    @classmethod
    def __pydantic_init_subclass__(cls, **header: Any) -> None:
        """Enter the model into the registry: under a new kind, or as a variant of the kind that it inherits."""
        kind: Kind | None = header.pop("kind", None)
        super().__pydantic_init_subclass__(**header)
        if kind is None:
            cls.kind.admit(cls)
        else:
            cls.kind = kind
            kind.declare(cls)

    @cached_property
    def sealed(self) -> tuple[bytes, Id]:
        """The canonical bytes and the content-derived id, made from the fields in one go."""
        dumped = self.as_json()
        payload = self.encode(dumped)
        return payload, self.kind.id_class.of_bytes(self.encode(self.kind.project(dumped)))

    @property
    def canonical(self) -> bytes:
        """The canonical bytes of the whole record."""
        return self.sealed[0]

    @model_validator(mode="after")
    def _is_at_home(self) -> Self:
        if (self.namespace == UNSCOPED) != self.kind.unscoped:
            raise ValueError(f"legacy records stand in the namespace {UNSCOPED}, and no other record does")
        return self

    @property
    def payload(self) -> bytes:
        """The canonical bytes that the Ledger stores."""
        return self.sealed[0]

    @property
    def payload_digest(self) -> str:
        """SHA-256 of the payload."""
        return self.canonical_digest

    @property
    def id(self) -> Id:
        """The content-derived id."""
        return self.sealed[1]


def load_record(noun: str, payload: bytes | str) -> Record:
    """Read a record of a kind from its payload.

    Raises:
        InvalidRecordError: the noun is unknown, or a field is refused.
    """
    if noun not in KINDS:
        raise InvalidRecordError("noun", noun, f"Known kinds: {', '.join(sorted(KINDS))}.")
    return KINDS[noun].load(payload)
