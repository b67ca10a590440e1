"""The types of fields: text, names, digests, moments and metrics, each with the form that it has for ever."""

from __future__ import annotations

import re
from datetime import date
from functools import lru_cache
from typing import Annotated, Final

from pydantic import AfterValidator, StringConstraints

from records.canonical import DIGEST_PATTERN, metric_text, text_fault
from records.errors import InvalidInputError, InvalidRecordError

Digest = Annotated[str, StringConstraints(pattern=DIGEST_PATTERN)]
NAMESPACE_PATTERN: Final = r"^[a-z][a-z0-9_]{0,62}$"
Namespace = Annotated[str, StringConstraints(pattern=NAMESPACE_PATTERN)]
UNSCOPED: Final = "legacy_unscoped"
"""The namespace of what came from a ledger without namespaces; nothing in it is ever recalled (spec 6.3)."""
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


@lru_cache(maxsize=4096)  # a refusal is not kept
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
