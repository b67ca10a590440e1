"""Chunks: whatever the text and its structure, offsets slice it back exactly, and no chunk is over the limit."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory.reference.adding import Given, chunks_of, source_of
from memory.reference.formats import ReadText
from memory.reference.reading import SourceFile
from memory.reference.structure import definitions, markdown_sections, python_definitions, rst_sections, whole
from memory.tokens import Tokenizer
from policies.references.chunking import Unit, chunk, quotation
from policies.references.policy import ChunkLimits, ReferencePolicy, reference_policy
from records.errors import InvalidInputError
from records.reference import ChunkUnit, ReferenceChunks, ReferenceKind
from tests.support.trials import NOW

COUNT = Tokenizer().count
STRUCTURES: tuple[Callable[[str], list[Unit]], ...] = (
    whole, markdown_sections, rst_sections, python_definitions, definitions,
)  # fmt: skip
LINES = st.sampled_from(
    ["# Title", "Title\n=====", "", "   ", "def f(x):", "    return x", "A sentence. Another one! And a third?", "\t",
     "```", "class A:", "é\u0301 \U0001f600 日本語", "x" * 90, "\r", "- item", "\ufeff", "end  "]
)  # fmt: skip
TEXTS = st.one_of(
    st.text(min_size=1, max_size=300),
    st.lists(LINES, min_size=1, max_size=40).map("\n".join).filter(bool),
    st.lists(LINES, min_size=1, max_size=40).map("\r\n".join).filter(bool),
)


def policy(tokens: int, smallest: int) -> ReferencePolicy:
    limits = ChunkLimits(rule="vrm-chunks/1", tokens=tokens, smallest=smallest)
    return reference_policy().model_copy(update={"chunks": limits})


def chunked(text: str, units: Sequence[Unit], tokens: int = 200, smallest: int = 24) -> ReferenceChunks:
    read = ReadText(text, units, "plain/1")
    file = SourceFile("a.txt", text.encode(), "text/plain", ReferenceKind.TOOL, read, None, NOW)
    return chunks_of(source_of("space", file, Given()), file, policy(tokens, smallest), COUNT)


@given(text=TEXTS, structure=st.sampled_from(STRUCTURES), tokens=st.integers(4, 60), smallest=st.integers(0, 12))
@settings(max_examples=150)
def test_offsets_slice_the_text_back_exactly(
    text: str, structure: Callable[[str], list[Unit]], tokens: int, smallest: int
) -> None:
    data, parts = text.encode(), chunked(text, structure(text), tokens, smallest).chunks
    assert "".join(text[part.start : part.end] for part in parts) == text
    assert b"".join(data[part.start_byte : part.end_byte] for part in parts) == data
    for part in parts:
        held = text[part.start : part.end]
        assert data[part.start_byte : part.end_byte].decode() == held
        assert hashlib.sha256(held.encode()).hexdigest() == part.sha256
        assert part.tokens == COUNT(held) <= tokens
        quote = text[part.quote_start : part.quote_end]
        assert quote == quote.strip()
        assert not held[: part.quote_start - part.start].strip().strip("\ufeff")
        assert not held[part.quote_end - part.start :].strip()


@pytest.mark.parametrize("text", ["a" * 100_000, "\U0001f600" * 5_000, "\n" * 50_000, " " * 50_000, "ab " * 40_000])
def test_no_text_is_too_much_of_one_thing(text: str) -> None:
    parts = chunked(text, whole(text)).chunks
    assert "".join(text[part.start : part.end] for part in parts) == text
    assert max(part.tokens for part in parts) <= 200


def test_paragraphs_stay_whole_while_they_fit() -> None:
    paragraphs = [f"Paragraph {number} says one thing. It says it twice.\n\n" for number in range(60)]
    text = "".join(paragraphs)
    parts = chunked(text, whole(text), tokens=50).chunks
    starts = {sum(map(len, paragraphs[:number])) for number in range(60)}
    assert {part.start for part in parts} <= starts
    assert all(part.tokens > 50 - 14 for part in parts[:-1]), "no further paragraph would have fit"


def test_sections_of_markdown_are_those_of_commonmark() -> None:
    text = "intro\n\n# One\n\n```\n# no heading\n```\n\nTwo\n---\n\ntext\n\n    # code\n"
    assert [text[unit.start :].partition("\n")[0] for unit in markdown_sections(text)] == ["intro", "# One", "Two"]
    windows = text.replace("\n", "\r\n")
    assert [windows[unit.start :].partition("\r")[0] for unit in markdown_sections(windows)] == [
        "intro",
        "# One",
        "Two",
    ]


def test_titles_of_restructuredtext() -> None:
    text = "=====\nTitle\n=====\n\ntext\n\nPart\n----\n\nmore\n\n* no\n* title\n"
    assert [text[unit.start :].split("\n")[:2] for unit in rst_sections(text)] == [["=====", "Title"], ["Part", "----"]]


def test_definitions_of_python_are_functions_classes_and_methods() -> None:
    text = '"""Doc."""\n\n@cache\ndef f():\n    def inner(): ...\n\nclass A:\n    x = 1\n\n    def m(self): ...\n'
    firsts = [text[unit.start :].partition("\n")[0] for unit in python_definitions(text)]
    assert firsts == ['"""Doc."""', "@cache", "class A:", "    def m(self): ..."]


@pytest.mark.parametrize("text", ["def broken(:\n\nx = 1\n", "x = '\\d'\n\ny = 2\n", "(" * 5_000])
def test_what_python_refuses_is_cut_all_the_same(text: str) -> None:
    units = python_definitions(text)
    assert units[0].start == 0
    assert "".join(text[part.start : part.end] for part in chunked(text, units).chunks) == text


def test_a_heading_alone_is_no_chunk() -> None:
    text = "# Title\n\n## Part\n\n" + "Words of the first part. " * 12 + "\n\n## Next\n\n" + "Other words. " * 20
    parts = chunked(text, markdown_sections(text)).chunks
    assert [text[part.quote_start :].partition("\n")[0] for part in parts] == ["# Title", "## Next"]
    assert [(part.unit, part.unit_number) for part in parts] == [(ChunkUnit.SECTION, 1), (ChunkUnit.SECTION, 3)]


def test_a_policy_for_another_algorithm_is_refused() -> None:
    limits = ChunkLimits(rule="other/1", tokens=10, smallest=1)
    with pytest.raises(InvalidInputError, match="vrm-chunks/1"):
        chunk("a", whole("a"), limits, COUNT)


def test_a_quotation_of_space_is_empty() -> None:
    assert quotation("a  \n b", 1, 5) == (5, 5)
    assert quotation("\ufeff # a\n", 0, 6) == (2, 5)


def test_this_file_is_cut_at_its_functions() -> None:
    text = Path(__file__).read_text(encoding="utf-8")
    parts = chunked(text, python_definitions(text), smallest=0).chunks
    firsts = [text[part.start :].partition("\n")[0] for part in parts]
    assert "def test_this_file_is_cut_at_its_functions() -> None:" in firsts
