"""Canonical bytes: the published examples of RFC 8785, what has no canonical form, and properties."""

from __future__ import annotations

import hashlib
import json
import math
import unicodedata
from typing import Any

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from records.canonical import (
    canonical_bytes,
    canonical_json,
    content_id,
    domain_digest,
    is_digest,
    metric_text,
    normalise,
    parse_canonical,
)
from records.errors import InvalidRecordError
from tests.support.rfc8785_vectors import CANONICAL, NUMBERS, SOURCE, double


@pytest.mark.parametrize(("bits", "text"), NUMBERS.items())
def test_numbers_of_appendix_b(bits: str, text: str) -> None:
    assert canonical_bytes(double(bits)).decode() == text
    assert metric_text(double(bits)) == text
    assert float(text) == double(bits)


@pytest.mark.parametrize("bits", ["7fffffffffffffff", "7ff0000000000000", "fff0000000000000"])
def test_numbers_without_a_form(bits: str) -> None:
    for refuse in (canonical_bytes, metric_text):
        with pytest.raises(InvalidRecordError):
            refuse(double(bits))


def test_example_of_section_3_2_2() -> None:
    assert canonical_bytes(parse_canonical(SOURCE)).decode() == CANONICAL


def test_keys_are_sorted_by_utf_16_as_in_section_3_2_3() -> None:
    # U+FB33 of the example is not NFC, so a compatibility letter above the surrogates stands in for it.
    names = {"€": "Euro", "\r": "CR", "\uff21": "Letter", "1": "One", "😀": "Emoji", "\x80": "Control", "ö": "O"}
    order = list(json.loads(canonical_bytes(names)).values())
    assert order == ["CR", "One", "Control", "O", "Euro", "Emoji", "Letter"]
    with pytest.raises(InvalidRecordError):
        canonical_bytes({"\ufb33": 1})


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ({"a": [1, {"b": math.nan}]}, "$.a[1].b"),
        ({"a": math.inf}, "$.a"),
        ([-0.0], "$[0]"),
        ("a\0b", "$"),
        ({"a\0": 1}, "$.a\\x00"),
        ("\ud800", "$"),
        ("e\u0301", "$"),
        (2**53, "$"),
        (-(2**53), "$"),
        ({1: "x"}, "$"),
        (b"x", "$"),
        ({"a": {1, 2}}, "$.a"),
        (object(), "$"),
    ],
)
def test_refused_with_the_path_to_it(value: object, path: str) -> None:
    with pytest.raises(InvalidRecordError) as caught:
        canonical_bytes(value)
    assert caught.value.field == path


@pytest.mark.parametrize("value", [2**53 - 1, -(2**53) + 1, 0, True, None, "", "é", [], {}, (1, 2)])
def test_accepted(value: object) -> None:
    assert canonical_bytes(value) == json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


@pytest.mark.parametrize(
    "text",
    [
        '{"a":1,"a":2}',
        '{"x":{"a":1,"b":2,"a":1}}',
        "NaN",
        "[Infinity]",
        "-Infinity",
        "1e400",
        "{",
        "",
        "[" * 100_000,
        "9" * 5000,
        "9007199254740993",
        b"\xff\xfe",
        '"utf 16"'.encode("utf-16"),
    ],
)
def test_what_is_not_strict_json_is_refused(text: str | bytes) -> None:
    with pytest.raises(InvalidRecordError):
        parse_canonical(text)


@pytest.mark.parametrize("value", [True, math.nan, -math.inf])
def test_no_metric(value: float) -> None:
    with pytest.raises(InvalidRecordError):
        metric_text(value)


def test_metric_of_minus_zero_is_zero() -> None:
    assert metric_text(-0.0) == "0"
    assert metric_text(3) == "3"


def test_digests() -> None:
    expected = hashlib.sha256(b'vrm/thing/v1\x00{"a":1}').hexdigest()
    assert domain_digest("thing", {"a": 1}) == expected
    assert content_id("thing", {"a": 1}) == f"thing:{expected}"
    assert is_digest(expected)
    for other in (expected[:-1], expected + "0", expected.upper(), expected + "\n", "", "g" * 64, "٣" * 64):
        assert not is_digest(other)


def test_normalise_repairs_once() -> None:
    assert normalise({"e\u0301": ["e\u0301", (-0.0, 1)]}) == {"é": ["é", [0.0, 1]]}
    assert math.copysign(1, normalise(-0.0)) == 1


TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8).map(
    lambda text: unicodedata.normalize("NFC", text)
)
NUMBER = st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(allow_nan=False, allow_infinity=False).map(lambda x: x or 0.0)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBER | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


@given(JSON)
def test_reading_back_gives_the_value_and_the_same_bytes(value: Any) -> None:
    data = canonical_bytes(value)
    assert parse_canonical(data) == value
    assert canonical_bytes(parse_canonical(data)) == data


@given(st.dictionaries(TEXTS, NUMBER, max_size=6), st.randoms())
def test_order_of_keys_does_not_count(value: dict[str, Any], random: Any) -> None:
    items = list(value.items())
    random.shuffle(items)
    assert canonical_bytes(dict(items)) == canonical_bytes(value)
    keys = list(json.loads(canonical_bytes(value)))
    assert keys == sorted(value, key=lambda key: key.encode("utf-16-be"))


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_metric_text_loses_nothing(value: float) -> None:
    assert float(metric_text(value)) == value


@given(st.text(max_size=12))
def test_any_text_is_refused_or_kept(text: str) -> None:
    try:
        data = canonical_bytes(text)
    except InvalidRecordError:
        proper = "\0" not in text and not any("\ud800" <= char <= "\udfff" for char in text)
        assert not (proper and unicodedata.is_normalized("NFC", text))
    else:
        assert json.loads(data) == text


@given(JSON)
def test_the_short_way_writes_what_the_rfc_8785_library_writes(value: Any) -> None:
    assert canonical_bytes(value) == rfc8785.dumps(value)


# What a dumped record may hold: everything but floats. Control characters, keys that sort differently by UTF-16 and by
# code point (U+10000 and U+FFFF), and combining marks at the edge of a string are what serialisers differ in.
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")).map(
    lambda text: unicodedata.normalize("NFC", text)
)
DUMPED = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


class TestFastForm:
    @given(DUMPED)
    def test_it_is_that_of_an_independent_serialiser(self, value: Any) -> None:
        assert canonical_json(value) == rfc8785.dumps(value) == canonical_bytes(value)

    def test_every_character_of_one_byte(self) -> None:
        for code in range(1, 0x80):
            assert canonical_json([chr(code)]) == rfc8785.dumps([chr(code)]), hex(code)

    @pytest.mark.parametrize(
        "value",
        [
            {"\U00010000": 1, "\uffff": 2},
            ["\u0338 begins with a combining mark"],
            {"a\u0338": "\u0338"},
            ["a literal \\u0000 is six characters"],
        ],
    )
    def test_what_needs_care_is_left_to_the_slow_form(self, value: Any) -> None:
        assert canonical_json(value) == rfc8785.dumps(value)

    @pytest.mark.parametrize(
        ("value", "path"),
        [
            ({"a": ["\0"]}, "$.a[0]"),
            ({"a": "\ud800"}, "$.a"),
            (["e\u0301"], "$[0]"),
            ([2**53], "$[0]"),
            ([2**70], "$[0]"),
            ([object()], "$[0]"),
        ],
    )
    def test_what_has_no_form_is_refused_by_the_same_error(self, value: Any, path: str) -> None:
        for form in (canonical_json, canonical_bytes):
            with pytest.raises(InvalidRecordError) as caught:
                form(value)
            assert caught.value.field == path
