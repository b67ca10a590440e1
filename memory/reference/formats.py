"""Bytes of a file to the text that is read out of them, by the form of the file.

Rules kept here:

- plain text, Markdown, reStructuredText, source code and tables are read as they stand: their text is the file, so
  offsets in bytes are offsets in the file. Of a notebook the sources of its cells are read, of HTML what a browser
  would show as text, of a PDF the text of its pages, which another process reads (`pdf`);
- what cannot be read is an `InvalidSourceError` that names the file and the remedy. Nothing is guessed: an encoding is
  UTF-8 unless it was given, and no byte is replaced;
- nothing in a file is run, and nothing that it points at is fetched.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html.parser import HTMLParser
from importlib import metadata
from pathlib import PurePath
from typing import Any, Final

from memory.reference.pdf import pdf_pages
from memory.reference.structure import (
    definitions,
    markdown_sections,
    numbered,
    python_definitions,
    rst_sections,
    whole,
)
from policies.references.chunking import Unit
from policies.references.policy import PdfLimits
from records.errors import InvalidSourceError
from records.reference import ChunkUnit, ReferenceKind


@dataclass(frozen=True, slots=True)
class ReadText:
    """What was read out of a file: its text, the parts of it, and by what it was read."""

    text: str
    units: Sequence[Unit]
    reader: str


Reads = Callable[[str, bytes, str, PdfLimits], ReadText]


@dataclass(frozen=True, slots=True)
class Format:
    """One form of file.

    Attributes:
        media_type: the media type of its bytes.
        kind: what a file of this form is taken for where nobody says it.
        read: reads bytes; it is given the name of the file for errors, the encoding, and what a PDF may take.
        is_text: whether the bytes are text in some encoding.
    """

    media_type: str
    kind: ReferenceKind
    read: Reads
    is_text: bool = True


def decoded(name: str, data: bytes, encoding: str) -> str:
    """Return bytes as text in an encoding.

    Raises:
        InvalidSourceError: there is no such encoding, the bytes are no text in it, or the text holds a NUL.
    """
    try:
        text = data.decode(encoding)
    except LookupError as error:
        raise InvalidSourceError(name, f"encoding {encoding}", "Name an encoding that Python knows.") from error
    except UnicodeError as error:
        remedy = "Give its encoding by --encoding, or save it as UTF-8."
        raise InvalidSourceError(name, f"no text in {encoding}: {error}", remedy) from error
    if "\0" in text:
        remedy = "It is a binary file, or in another encoding: give a text, notebook, HTML or PDF file, or --encoding."
        raise InvalidSourceError(name, f"a NUL character at {text.index(chr(0))}", remedy)
    return text


def _plain(parts: Callable[[str], list[Unit]], reader: str) -> Reads:
    def read(name: str, data: bytes, encoding: str, _limits: PdfLimits) -> ReadText:
        text = decoded(name, data, encoding)
        return ReadText(text, parts(text), reader)

    return read


def _notebook(name: str, data: bytes, encoding: str, _limits: PdfLimits) -> ReadText:
    try:
        cells = _cells(json.loads(decoded(name, data, encoding)))
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        remedy = "Give a notebook that Jupyter opens, or save it again."
        raise InvalidSourceError(name, f"no notebook: {error}", remedy) from error
    text, units = _joined(cells, ChunkUnit.CELL)
    return ReadText(text, units, "notebook/1")


def _cells(found: Any) -> list[str]:
    cells = found["cells"] if "cells" in found else [cell for sheet in found["worksheets"] for cell in sheet["cells"]]
    sources = [cell["source"] if "source" in cell else cell["input"] for cell in cells]
    return ["".join(source) for source in sources]


def _joined(parts: Sequence[str], unit: ChunkUnit) -> tuple[str, list[Unit]]:
    """Return parts as one text, with where each of them begins; an empty one is counted and has no place."""
    text, units = "", []
    for number, part in enumerate(parts, start=1):
        if part.strip():
            text += "\n\n" if text else ""
            units.append(Unit(len(text), unit, number))
            text += part
    return text, units


class _Shown(HTMLParser):
    """Collects what HTML shows as text, with where its headings begin."""

    _HIDDEN: Final = frozenset({"script", "style", "template", "noscript", "title", "svg", "math", "textarea"})
    _INLINE: Final = frozenset(
        {"a", "abbr", "b", "bdi", "bdo", "cite", "code", "data", "del", "dfn", "em", "font", "i", "ins", "kbd", "mark",
         "q", "s", "samp", "small", "span", "strong", "sub", "sup", "time", "tt", "u", "var", "wbr"}
    )  # fmt: skip

    def __init__(self) -> None:
        """Begin with nothing shown."""
        super().__init__(convert_charrefs=True)
        self.blocks: list[tuple[bool, str]] = [(False, "")]
        self._hidden: list[str] = []
        self._pre = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002  # the library's
        if tag in self._HIDDEN:
            self._hidden.append(tag)
        self._pre += tag == "pre"
        self._break(tag, is_heading=bool(re.fullmatch(r"h[1-6]", tag)))

    def handle_endtag(self, tag: str) -> None:
        if tag in self._hidden:
            while self._hidden.pop() != tag:
                pass
        self._pre = max(0, self._pre - (tag == "pre"))
        self._break(tag, is_heading=False)

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            is_heading, held = self.blocks[-1]
            self.blocks[-1] = (is_heading, held + (data if self._pre else re.sub(r"\s+", " ", data)))

    def _break(self, tag: str, *, is_heading: bool) -> None:
        if tag not in self._INLINE:
            self.blocks.append((is_heading, ""))


def _html(name: str, data: bytes, encoding: str, _limits: PdfLimits) -> ReadText:
    shown = _Shown()
    shown.feed(decoded(name, data, encoding))
    shown.close()
    text, starts = "", []
    for is_heading, held in shown.blocks:
        if block := held.strip():
            text += "\n\n" if text else ""
            starts += [len(text)] if is_heading else []
            text += block
    return ReadText(text, numbered(starts, ChunkUnit.SECTION), "html/1")


def _pdf(name: str, data: bytes, _encoding: str, limits: PdfLimits) -> ReadText:
    pages = pdf_pages(name, data, limits)
    text, units = _joined(pages, ChunkUnit.PAGE)
    if not units:
        raise InvalidSourceError(name, f"{len(pages)} pages without text", "Add a text layer to the PDF (OCR).")
    return ReadText(text, units, f"pdf/1+pypdf-{metadata.version('pypdf')}")


TEXT: Final = Format("text/plain", ReferenceKind.TOOL, _plain(whole, "plain/1"))
"""What a file of an unknown form is read as."""
_MARKDOWN: Final = Format(
    "text/markdown",
    ReferenceKind.TOOL,
    _plain(markdown_sections, f"markdown/1+markdown-it-py-{metadata.version('markdown-it-py')}"),
)
_RST: Final = Format("text/x-rst", ReferenceKind.TOOL, _plain(rst_sections, "rst/1"))
_PYTHON: Final = Format("text/x-python", ReferenceKind.CODE, _plain(python_definitions, "python/1"))
_CODE: Final = Format("text/x-source", ReferenceKind.CODE, _plain(definitions, "code/1"))
_TABLE: Final = Format("text/plain", ReferenceKind.DATASET, _plain(whole, "plain/1"))
_NOTEBOOK: Final = Format("application/x-ipynb+json", ReferenceKind.CODE, _notebook)
_HTML: Final = Format("text/html", ReferenceKind.TOOL, _html)
_PDF: Final = Format("application/pdf", ReferenceKind.PAPER, _pdf, is_text=False)
_CODE_SUFFIXES: Final = (
    ".c .cc .cfg .clj .cpp .cs .cu .cuh .go .h .hpp .hs .ini .java .jl .js .jsx .kt .lua .m .ml .php .pl .proto .ps1 "
    ".r .rb .rs .scala .sh .sql .swift .tex .toml .ts .tsx .yaml .yml .zig"
)
_FORMATS: Final[dict[str, Format]] = {
    ".md": _MARKDOWN,
    ".markdown": _MARKDOWN,
    ".rst": _RST,
    ".py": _PYTHON,
    ".pyi": _PYTHON,
    ".ipynb": _NOTEBOOK,
    ".html": _HTML,
    ".htm": _HTML,
    ".xhtml": _HTML,
    ".pdf": _PDF,
    **dict.fromkeys((".arff", ".csv", ".json", ".jsonl", ".ndjson", ".tsv"), _TABLE),
    **dict.fromkeys(_CODE_SUFFIXES.split(), _CODE),
}


def format_of(name: str, data: bytes) -> Format:
    """Return the form of a file by the end of its name; a PDF is known by its first bytes whatever it is called."""
    return _PDF if data.startswith(b"%PDF-") else _FORMATS.get(PurePath(name).suffix.lower(), TEXT)
