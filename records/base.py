"""The registry of record kinds, and what every record shares.

Rules kept here:

- a kind is declared once, in the header of its model, and that one entry drives the id, the identity projection, the
  table with its columns and foreign keys, the child tables, and the frontier that its commits advance;
- a kind with a discriminator has variants: its own model holds what they share and makes no records, each subclass
  narrows the discriminator to a `Literal` of its own values. Columns, child rows and unique sets are of the shared
  part, so every variant has them; what only one variant has is in the payload alone (docs/adr/0011);
- the payload is the canonical bytes of the whole record, the id is never part of it, and `created_at` is part of the
  payload but of no identity (spec 6.3, 9; reference: "Identity table").
"""

from __future__ import annotations

import typing
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal, Self, Union

from pydantic import Field, TypeAdapter, ValidationError, model_validator

from records.errors import InvalidRecordError
from records.fields import UNSCOPED, Namespace, Timestamp
from records.models import Id, Model, once, parsed, refusal


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
        projection = payload.copy()
        for name in ("created_at", *self.outside):
            projection.pop(name, None)
        return projection

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
            return parsed(self._union.validate_json, payload)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            if first["loc"]:
                return self.variants[str(first["loc"][0])].load(payload)  # raises, and names field and model
            if not first["type"].startswith("union_tag"):
                raise refusal(self.model.__name__, first) from error
            met = first.get("ctx", {}).get("tag", first.get("input"))
            remedy = f"It is one of: {', '.join(sorted(self.variants))}."
            raise InvalidRecordError(f"{self.model.__name__}.{self.discriminator}", met, remedy) from error


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

    @once
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
    def _pass(self) -> Self:
        """Let a record through whose fields all keep their rules, and that stands where its kind is at home."""
        if (self.namespace == UNSCOPED) != self.kind.unscoped:
            raise ValueError(f"legacy records stand in the namespace {UNSCOPED}, and no other record does")
        vars(self)["checked"] = True
        return self

    @property
    def is_checked(self) -> bool:
        """Whether a constructor made it, so that every field keeps its rules; not so a copy with changed fields."""
        return "checked" in vars(self)

    def __reduce__(self) -> tuple[Any, ...]:
        """Travel between processes as the payload, read on arrival by the model, whose name brings its module along."""
        return type(self).load, (self.payload,)

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
