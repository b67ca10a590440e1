"""Typed ids and frozen models: what the values inside a record share with the record itself.

A model is strict (a boolean is no number, text is no id), refuses unknown fields, and tells the first field that it
refuses by name, with what was met and what to do.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, lru_cache
from typing import Any, ClassVar, Final, Generic, Self, TypeVar, overload

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler, ValidationError
from pydantic_core import CoreSchema, ErrorDetails, PydanticSerializationError, core_schema

from records.canonical import (
    canonical_bytes,
    canonical_json,
    content_id,
    digest_bytes,
    domain_digest_bytes,
    parse_canonical,
    require_plain,
)
from records.errors import InvalidRecordError

T = TypeVar("T")

_TOLD: Final = 70
"""How much of what was met an error tells: findings of one model, characters around a place."""

_REMEDIES: Final = {"string_unicode": "Remove the lone surrogate; text is valid Unicode"}
"""What to do where pydantic's own words do not say it, by its type of finding."""


class once(Generic[T]):  # noqa: N801  # a decorator, named like those of the standard library
    """A value computed from a frozen object on first use: `functools.cached_property` as it is from Python 3.12 on.

    Before that it took a lock, which cost more than most of the values. Two threads that come first at the same time
    compute the same value.
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        """Wrap a method."""
        self._compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type[Any], name: str) -> None:
        """Learn where the value will stand."""
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type[Any]) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type[Any]) -> T: ...
    def __get__(self, instance: object | None, owner: type[Any]) -> T | Self:
        """Compute the value, and leave it where it is found from now on."""
        if instance is None:
            return self
        value = vars(instance)[self._name] = self._compute(instance)
        return value


class Id(str):
    """A content-derived id `<noun>:<64 hex>`; each noun has a class of its own, so that ids cannot be mixed up."""

    __slots__ = ()
    noun: ClassVar[str] = ""
    form: ClassVar[re.Pattern[str]]
    classes: ClassVar[dict[str, type[Id]]] = {}

    def __init_subclass__(cls, *, noun: str, **extra: Any) -> None:
        """Register the class as the id type of `noun`."""
        super().__init_subclass__(**extra)
        if noun in Id.classes:
            raise ValueError(f"noun {noun} is declared twice")
        cls.noun = noun
        cls.form = re.compile(f"{noun}:[0-9a-f]{{64}}")
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
        if not cls.form.fullmatch(text):
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
        frozen=True,
        extra="forbid",
        strict=True,
        validate_default=True,
        ser_json_inf_nan="constants",
        ignored_types=(once,),
    )

    @classmethod
    def load(cls, data: bytes | str) -> Self:
        """Read the model from JSON; equal bytes that were read lately give the same model, which never changes.

        Raises:
            InvalidRecordError: a field is missing, unknown or refused; the first such field is named.
        """
        try:
            return parsed(cls.model_validate_json, data)
        except ValidationError as error:
            raise _first_refusal(error) from _cause(error)

    @classmethod
    def build(cls, **fields: Any) -> Self:
        """Make the model from outside values; as `load`, but from Python values."""
        try:
            return cls(**fields)
        except ValidationError as error:
            raise _first_refusal(error) from _cause(error)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Copy as pydantic does, but without what was computed from the old values."""
        copied = super().model_copy(update=update, deep=deep)
        for name in set(vars(copied)) - set(type(self).model_fields):
            del vars(copied)[name]
        return copied

    @once
    def canonical(self) -> bytes:
        """The canonical bytes of the whole model."""
        return self.encode(self.as_json())

    @classmethod
    def encode(cls, dumped: dict[str, Any]) -> bytes:
        """Return the canonical bytes of the model's JSON values, or of some of them."""
        return canonical_json(dumped) if _is_exact(cls) else canonical_bytes(dumped)

    @once
    def canonical_digest(self) -> str:
        """SHA-256 of the canonical bytes."""
        return digest_bytes(self.canonical)

    def as_json(self) -> dict[str, Any]:
        """Return the model as JSON values; strict ones, if it was built by its constructor.

        Raises:
            InvalidRecordError: a field that no constructor has checked holds what JSON cannot say.
        """
        try:
            # What does not fit its field is refused, not warned of.
            return self.__pydantic_serializer__.to_python(self, mode="json", warnings=False)  # type: ignore[no-any-return]  # of a model it is a dict
        except PydanticSerializationError as error:
            raise InvalidRecordError(type(self).__name__, str(error), "Build it by its constructor.") from error


_LARGE: Final = 16_384
"""Length of JSON from which on a model counts as large."""


def parsed(read: Callable[[bytes | str], T], data: bytes | str) -> T:
    """Return what `read` makes of JSON. A model never changes, so equal bytes need not be parsed and checked twice.

    What is kept is bounded: a number of models, of large ones, such as snapshots, a few. A refusal is not kept.
    """
    return (_small if len(data) <= _LARGE else _large)(read, data)  # type: ignore[return-value]  # what `read` returns


@lru_cache(maxsize=512)
def _small(read: Callable[[bytes | str], object], data: bytes | str) -> object:
    return read(data)


@lru_cache(maxsize=4)
def _large(read: Callable[[bytes | str], object], data: bytes | str) -> object:
    return read(data)


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
        raise _first_refusal(error) from _cause(error)


def _first_refusal(error: ValidationError) -> InvalidRecordError:
    return refusal(error.title, error.errors(include_url=False)[0])


def _cause(error: ValidationError) -> ValidationError | None:
    """Return the cause to show; a long one is left behind, or whoever prints a traceback would print all of it."""
    findings = error.errors(include_url=False)
    long = len(findings) > _TOLD or any(len(str(part)) > _TOLD for each in findings for part in each["loc"])
    return None if long else error


def refusal(title: str, first: ErrorDetails) -> InvalidRecordError:
    """Return our error for the first finding of pydantic about a model of that title."""
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
