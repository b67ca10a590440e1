"""The second canonicaliser is RFC 8785 by its published vectors, and writes what the product writes."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
from hypothesis import given

from records.canonical import canonical_bytes, content_id
from tests.support.rfc8785_vectors import CANONICAL, NAMES, NUMBERS, ORDER, SOURCE, double
from tests.support.second_canonicaliser import canonicalise, derive, digest
from tests.unit.test_canonical import JSON


@pytest.mark.parametrize(("bits", "text"), NUMBERS.items())
def test_numbers_of_appendix_b(bits: str, text: str) -> None:
    assert canonicalise(double(bits)).decode() == text


@pytest.mark.parametrize("bits", ["7fffffffffffffff", "7ff0000000000000", "fff0000000000000"])
def test_numbers_without_a_form(bits: str) -> None:
    with pytest.raises(AssertionError):
        canonicalise(double(bits))


def test_example_of_section_3_2_2() -> None:
    assert canonicalise(json.loads(SOURCE)).decode() == CANONICAL


def test_names_of_section_3_2_3() -> None:
    assert list(json.loads(canonicalise(NAMES)).values()) == ORDER


def test_control_characters_and_escapes() -> None:
    assert canonicalise('\x00\x1f\x7f\b\t\n\f\r"\\/\u2028') == (
        b'"\\u0000\\u001f\x7f\\b\\t\\n\\f\\r\\"\\\\/' + "\u2028".encode() + b'"'
    )


def test_domain_and_digest() -> None:
    assert derive("thing", {"a": 1}) == "thing:" + hashlib.sha256(b'vrm/thing/v1\x00{"a":1}').hexdigest()
    assert digest([]) == hashlib.sha256(b"[]").hexdigest()


@given(JSON)
def test_both_write_the_same_bytes_and_ids(value: Any) -> None:
    plain = json.loads(json.dumps(value))  # tuples are lists here
    assert canonicalise(plain) == canonical_bytes(value)
    assert derive("thing", plain) == content_id("thing", value)
