"""The parts of a text by its format: sections, definitions, or the text as a whole.

Rules kept here: a part begins at a character of the text itself, the first at its beginning; what a parser refuses is a
text without parts, never an error, for whatever can be read can be cut by paragraphs. Another rule for parts is another
`policies.references.chunking.CHUNK_RULE`.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterable
from itertools import accumulate
from typing import Final

from markdown_it import MarkdownIt

from policies.references.chunking import Unit
from records.reference import ChunkUnit

_LINE: Final = re.compile(r"[^\r\n]*(?:\r\n?|\n|\Z)")
_RST_TITLE: Final = re.compile(
    r"^(?:([=\-~^\"'`#*+:.<>_])\1{2,}[ \t]*\r?\n)?\S.*\r?\n([=\-~^\"'`#*+:.<>_])\2{2,}[ \t]*$", re.MULTILINE
)
_TOP_LEVEL: Final = re.compile(r"(?:\A|\n[ \t]*\r?\n)(?=[^\s\])}])")
_DEFINITIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def whole(_text: str) -> list[Unit]:
    """Return the text as one part."""
    return [Unit(0, ChunkUnit.TEXT, 1)]


def markdown_sections(text: str) -> list[Unit]:
    """Return the parts that begin with a heading of CommonMark."""
    starts = _line_starts(text)
    found = [
        token.map[0] for token in MarkdownIt("commonmark").parse(text) if token.type == "heading_open" and token.map
    ]
    return numbered((starts[line] for line in found), ChunkUnit.SECTION)


def rst_sections(text: str) -> list[Unit]:
    """Return the parts that begin with an underlined title of reStructuredText."""
    return numbered((found.start() for found in _RST_TITLE.finditer(text)), ChunkUnit.SECTION)


def python_definitions(text: str) -> list[Unit]:
    """Return the functions, classes and methods of a Python module; what does not parse is read as other code."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the source, which is none of ours
            module = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return definitions(text)
    tops = [node for node in module.body if isinstance(node, _DEFINITIONS)]
    members = [inner for node in tops if isinstance(node, ast.ClassDef) for inner in node.body]
    nested = [inner for inner in members if isinstance(inner, _DEFINITIONS)]
    lines = (min([node.lineno, *(each.lineno for each in node.decorator_list)]) for node in (*tops, *nested))
    starts = _line_starts(text)
    return numbered((starts[line - 1] for line in lines), ChunkUnit.DEFINITION)


def definitions(text: str) -> list[Unit]:
    """Return the parts of code that begin without indentation after an empty line."""
    return numbered((found.end() for found in _TOP_LEVEL.finditer(text)), ChunkUnit.DEFINITION)


def numbered(starts: Iterable[int], unit: ChunkUnit) -> list[Unit]:
    """Return parts that begin at characters of a text; what stands before the first of them is a part as well."""
    return [Unit(start, unit, number) for number, start in enumerate(sorted({0, *starts}), start=1)]


def _line_starts(text: str) -> list[int]:
    """Return where each line begins; lines end as in CommonMark and Python: CR LF, LF or CR."""
    return list(accumulate((len(found) for found in _LINE.findall(text)), initial=0))
