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

from pydantic import AfterValidator, BaseModel, ConfigDict, GetCoreSchemaHandler, StringConstraints, ValidationError
from pydantic_core import CoreSchema, ErrorDetails, PydanticSerializationError, core_schema

from records.canonical import (
    DIGEST_PATTERN,
    canonical_bytes,
    content_id,
    digest_bytes,
    metric_text,
    parse_canonical,
    require_plain,
    text_fault,
)
from records.errors import InvalidInputError, InvalidRecordError

_TOLD: Final = 70
"""How much of what was met an error tells: findings of one model, characters around a place."""

_REMEDIES: Final = {"string_unicode": "Remove the lone surrogate; text is valid Unicode"}
"""What to do where pydantic's own words do not say it, by its type of finding."""

Digest = Annotated[str, StringConstraints(pattern=DIGEST_PATTERN)]
NAMESPACE_PATTERN: Final = r"^[a-z][a-z0-9_]{0,62}$"
Namespace = Annotated[str, StringConstraints(pattern=NAMESPACE_PATTERN)]
NAME_PATTERN: Final = r"^[A-Za-z0-9][A-Za-z0-9_.:/+-]{0,199}$"
Name = Annotated[str, StringConstraints(pattern=NAME_PATTERN)]


def require_namespace(name: str) -> str:
    """Return a name from outside as that of a namespace.

    Raises:
        InvalidInputError: it cannot be one.
    """
    if not re.fullmatch(NAMESPACE_PATTERN, name):
        raise InvalidInputError("namespace", name, "Use up to 63 lower-case letters, digits and _, a letter first.")
    return name


def _check_text(text: str) -> str:
    fault = text_fault(text)
    if fault is not None:
        raise ValueError(fault)
    return text


Text = Annotated[str, StringConstraints(max_length=100_000), AfterValidator(_check_text)]
"""Free text: valid Unicode in NFC, without NUL."""


def _check_day(text: str) -> str:
    date.fromisoformat(text[:10])
    return text


Payload = Annotated[str, StringConstraints(max_length=64_000_000), AfterValidator(_check_text)]
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

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, validate_default=True, ser_json_inf_nan="constants"
    )

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
        """Return the model as JSON values; strict ones, if it was built by its constructor.

        Raises:
            InvalidRecordError: a field that no constructor has checked holds what JSON cannot say.
        """
        try:
            return self.model_dump(mode="json", warnings=False)  # what does not fit its field is refused, not warned of
        except PydanticSerializationError as error:
            raise InvalidRecordError(type(self).__name__, str(error), "Build it by its constructor.") from error


@contextmanager
def refusing() -> Iterator[None]:
    """Turn the first finding of pydantic about values from outside into our error; also usable as a decorator.

    Raises:
        InvalidRecordError: a field is missing, unknown or refused.
    """
    try:
        yield
    except ValidationError as error:
        findings = error.errors(include_url=False)
        # A long cause is left behind: whoever prints a traceback would print all of it.
        long = len(findings) > _TOLD or any(len(str(part)) > _TOLD for each in findings for part in each["loc"])
        raise _refusal(error.title, findings[0]) from (None if long else error)


def _refusal(title: str, first: ErrorDetails) -> InvalidRecordError:
    path = ".".join(str(part) for part in first["loc"]) or "$"
    met = first.get("input")
    if first["type"] == "json_invalid" and isinstance(met, str | bytes):
        try:
            require_plain(parse_canonical(met), title)
        except InvalidRecordError as fault:
            if fault.field != "json":
                return fault  # it can be read, but a text in it has no canonical form
        met = _excerpt(met, str(first["msg"]))
    remedy = _REMEDIES.get(first["type"]) or first["msg"].removeprefix("Value error, ").removesuffix(".")
    return InvalidRecordError(f"{title}.{path}", met, f"{remedy}.")


def _excerpt(data: str | bytes, message: str) -> str | bytes:
    """Return the part of a line of JSON that a message speaks of."""
    found = re.search(r"line 1 column (\d+)", message)
    begin = max(0, int(found[1]) - _TOLD) if found else 0
    return data[begin : begin + 2 * _TOLD] if found else data


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
    """

    noun: str
    table: str
    frontier: Frontier | None = None
    outside: frozenset[str] = frozenset()
    columns: tuple[str, ...] = ()
    unique: tuple[tuple[str, ...], ...] = ()
    children: tuple[Child, ...] = ()
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
