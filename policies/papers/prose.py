"""What of a text is prose: the same text, with everything else blanked, so that every place stays where it is.

Rules kept here:

- code, comments, addresses, bibliographies, citations, pointers to parts of the text, dates and versions hold no
  result. They are blanked character by character; lines and columns stay;
- in doubt a number is shown, for one that is blanked is never asked about: a further item of a pointer is of the
  first one's shape and has no unit, a citation is authors and a year, and what may be an interval is none;
- code inside a line is left out unless it is one number, so that no result hides in backticks;
- Markdown is read by CommonMark's own rules with tables, LaTeX by its commands. Nothing is executed or included.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from itertools import accumulate
from typing import Final, NamedTuple

from markdown_it import MarkdownIt
from markdown_it.token import Token

from policies.papers.policy import PaperPolicy

Span = tuple[int, int]
Find = Callable[[str], Iterable[Span]]

_LINE: Final = re.compile(r"[^\r\n]*(?:\r\n?|\n|\Z)")
_MONTH: Final = (
    r"(?:Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|Sep(?:t(?:ember)?)?"
    r"|Oct(?:ober)?|Nov(?:ember)?|Dec(?:ember)?)\.?"
)
_YEAR: Final = r"(?:19\d|20[0-3])\d[a-z]?"
_NAME: Final = r"[A-Z](?:[^\W\d_]|['\u2019.-])*"
_PARTICLE: Final = r"(?:and|\\?&|et[~\s]+al\.?|van|von|der|den|del|de|di|da|la|le)"
_AUTHORS: Final = rf"(?:(?:see|also|cf\.|e\.g\.),?[~\s]+)*{_NAME}(?:,?[~\s]+(?:{_PARTICLE}(?![^\W\d_])|{_NAME}))*"
_CITED: Final = rf"{_AUTHORS}(?:,[~\s]*|(?<=\bal)[~\s]+|(?<=\bal\.)[~\s]+){_YEAR}(?:,[~\s]*(?:{_YEAR}|[a-z]\b))*"
_EVERYWHERE: Final = (
    r"https?://[^\s)>\]}]+",
    r"\b(?:arXiv|doi|DOI|ISBN|ISSN|RFC)\b[:\s]*\S+",
    r"\b\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2})?(?:\.\d+)?(?:Z|[+-]\d{2}:?\d{2})?)?",
    r"\b\d{1,2}[./]\d{1,2}[./](?:19|20)\d{2}\b",
    rf"\b\d{{1,2}}(?:st|nd|rd|th)?\s+{_MONTH},?(?:\s+{_YEAR})?\b",
    rf"\b{_MONTH}\s+(?:\d{{1,2}}(?:st|nd|rd|th)?,?\s+)?{_YEAR}\b",
    r"\b\d{1,2}:\d{2}(?::\d{2})?\b(?!\d)",
    rf"\({_CITED}(?:;[~\s]*{_CITED})*\)",
    rf"\b(?:et al\.?|[A-Z][a-z]+),?[~\s]+\({_YEAR}\)",
    rf"\bet al\.?,[~\s]+{_YEAR}\b",
    r"\bv\d+(?:\.\d+)*\b",
    r"(?<![\d.])\d+(?:\.\d+){2,}",
)
_AND_MORE: Final = r"(?:\s*(?:[,;\u2013-]|--)\s*\d{1,3})"
_NO_INTERVAL: Final = "".join(
    rf"(?<!{before})"
    for word in (
        r"\bin",
        r"\bwithin",
        r"\bbetween",
        r"\bfrom",
        r"\bof",
        r"\bis",
        r"\bwas",
        "CI",
        "interval",
        "range",
        "%",
        "=",
    )
    for before in (word, rf"{word}[\s~:]", rf"{word}:\s")
)
_CITATION: Final = rf"(?:\[\d{{1,3}}(?:{_AND_MORE}{{2,}})?\]|{_NO_INTERVAL}\[\d{{1,3}}{_AND_MORE}\])(?!\(|\s*\\?%)"
_MARKDOWN: Final = (
    r"\A---\r?\n[\s\S]*?\n---[ \t]*(?=\r?\n|\Z)",
    r"<!--[\s\S]*?(?:-->|\Z)",
    r"</?[A-Za-z][^<>]*>",
    r"\]\([^()\s]*(?:\s+\"[^\"]*\")?\)",
    r"^[ ]{0,3}\[[^\]]+\]:.*$",
    r"\[\^[^\]]+\]:?",
    r"\[-?@[^\]]*\]",
    _CITATION,
)
_CODE: Final = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)", re.DOTALL)
_BRACES: Final = r"\{(?:[^{}]|\{[^{}]*\})*\}"
_OPTION: Final = r"(?:\s*\[[^\]]*\])*"
_LEFT_OUT: Final = frozenset(
    {
        "verbatim", "Verbatim", "lstlisting", "minted", "thebibliography", "tikzpicture", "filecontents", "comment",
        "algorithmic",
    }
)  # fmt: skip
_TABLES: Final = frozenset({"tabular", "tabularx", "longtable", "array"})
_BEGIN: Final = re.compile(r"\\begin\{([A-Za-z]+)(\*?)\}")
_LATEX: Final = (
    r"\A[\s\S]*?\\begin\{document\}",
    r"\\end\{document\}[\s\S]*",
    r"\\verb\*?([^A-Za-z\s])[^\r\n]*?\1",
    (
        rf"\\(?:[a-zA-Z]*cite[a-zA-Z]*|[a-zA-Z]*ref|label|includegraphics|bibliography(?:style)?|url|[vh]space|input|include"
        rf"|usepackage|documentclass|hypersetup|multirow|multicolumn|c(?:mid)?(?:line|rule)|color|textcolor)\*?{_OPTION}"
        rf"(?:\s*\([^)]*\))?{_BRACES}"
    ),
    (
        rf"\\(?:setlength|addtolength|setcounter|resizebox|fontsize|rule|href|newcommand|renewcommand){_OPTION}"
        rf"{_BRACES}(?:{_OPTION}\s*{_BRACES})?"
    ),
    rf"\\begin\{{[A-Za-z]+\*?\}}{_OPTION}(?:\{{[^{{}}]*(?:\{{[^{{}}]*\}}[^{{}}]*)*\}})?{_OPTION}",
    r"\\\\\s*\[[^\]]*\]",
    _CITATION,
)
_COMMENT: Final = re.compile(r"(?<!\\)%.*$", re.MULTILINE)
_MATH: Final = re.compile(r"(?<![\\$])\$(?!\$)[^$]+\$|\$\$[^$]+\$\$|\\\([\s\S]*?\\\)|\\\[[\s\S]*?\\\]")
_SUBSCRIPT: Final = re.compile(r"_(?:\{[^{}]*\}|[A-Za-z0-9])|(?<!10)(?<!10 )\^\s*(?:\{[^{}]*\}|[A-Za-z0-9])")
_ONE_NUMBER: Final = re.compile(
    r"\s*[+\-\u2212]?[\d.,]+(?:[eE][+-]?\d+)?\s*(?:\xb1\s*[\d.,]+\s*)?\\?%?\s*[A-Za-z/]{0,8}\s*"
)


class Form(StrEnum):
    """The form of a text."""

    MARKDOWN = "markdown"
    LATEX = "latex"


class Prose(NamedTuple):
    """A text and what of it is prose; all of one length.

    Attributes:
        text: as it was given.
        shown: with blanks where nothing is prose.
        cells: lines of tables, by their first character, each with the line of its header; of Markdown and LaTeX.
        settings: the lines, from zero, that their writer marks as settings.
        line_starts: the first character of each line.
    """

    text: str
    shown: str
    cells: dict[int, int]
    settings: frozenset[int]
    line_starts: tuple[int, ...]

    def place(self, at: int) -> tuple[int, int]:
        """Return line and column of a character, both from one."""
        low = line_of(self.line_starts, at)
        return low + 1, at - self.line_starts[low] + 1


def line_of(starts: tuple[int, ...], at: int) -> int:
    """Return the line, from zero, that a character is in."""
    low, high = 0, len(starts)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if starts[middle] <= at else (low, middle)
    return low


def prose_of(text: str, form: Form, policy: PaperPolicy) -> Prose:
    """Return what of a text is prose."""
    starts = tuple(accumulate((len(each) for each in _LINE.findall(text)), initial=0))[:-1] or (0,)
    marked = frozenset(line_of(starts, each.start()) for each in re.finditer(re.escape(policy.setting_mark), text))
    of_policy = (_year_alone(policy), _pointers(policy))
    if form is Form.MARKDOWN:
        tokens = MarkdownIt("commonmark").enable("table").parse(text)
        shown = _blanked(text, _markdown_blocks(tokens, text, starts, policy))
        shown = _without(shown, _MARKDOWN)
        shown = _blanked(shown, _inline_code(shown))
        cells = dict(_markdown_rows(tokens, starts))
    else:
        shown = _blanked(text, (each.span() for each in _COMMENT.finditer(text)))
        cells = dict(_latex_rows(shown, starts))
        shown = _without(_blanked(shown, _environments(shown, _LEFT_OUT)), _LATEX)
    shown = _without(shown, (*_EVERYWHERE, *of_policy))
    inside = (each.span() for found in _MATH.finditer(shown) for each in _SUBSCRIPT.finditer(shown, *found.span()))
    return Prose(text, _blanked(shown, inside), cells, marked, starts)


def _year_alone(policy: PaperPolicy) -> str:
    """Return what a year after a preposition looks like: no count, no share, nothing with a unit."""
    verb = r"(?:was|is|has|does|as|this|its|thus)\b"
    counts = rf"\s+(?!{verb})[a-z]+s\b"
    return rf"\b(?:in|since|until|during)\s+(?:19|20)\d{{2}}\b(?!{counts}|[\w./-]*\d|{_unit_follows(policy)})"


def _pointers(policy: PaperPolicy) -> str:
    """Return what a pointer to parts of a text looks like.

    One part, or a range of them without a space; a list only where the word is in the plural, of items of one shape,
    and a further item never where a unit follows, nor after a comma where a word does.
    """
    words = "|".join(re.escape(each) for each in policy.pointers)
    closed = rf"(?!\w|[.,]\d|{_unit_follows(policy)})"
    shapes = (r"\(?\d+[a-z]?\)?", r"\(?[1-9]\d*(?:\.\d+)+[a-z]?\)?")
    ranges = [rf"{shape}(?:(?:\u2013|--?){shape})?{closed}" for shape in shapes]
    spaced = r"\s*(?:and|to|\u2013|--?)\s*"
    lists = "|".join(rf"{one}(?:,\s*{one}(?!\s+(?!(?:and|to)\b)[^\W\d_]))*(?:,?{spaced}{one})?" for one in ranges)
    plural = rf"(?i:\b(?:(?:{words})s|pp))\.?[~\s]*(?:{lists})"
    return rf"{plural}|(?i:\b(?:{words}))\.?[~\s]*(?:{'|'.join(ranges)})"


def _unit_follows(policy: PaperPolicy) -> str:
    units = "|".join(
        re.escape(each).replace(r"\ ", r"[\s~]+") for each in sorted(policy.unit_names, key=len, reverse=True)
    )
    return rf"(?:[\s~]|\\[,;: ])*-?\\?(?:{units})(?![\w/])"


def _without(text: str, patterns: Iterable[str]) -> str:
    for pattern in patterns:
        text = _blanked(text, (each.span() for each in re.finditer(pattern, text, re.MULTILINE)))
    return text


def _blanked(text: str, spans: Iterable[Span]) -> str:
    made, at = [], 0
    for start, end in sorted(spans):
        if end <= at:
            continue
        begin = max(start, at)
        made += [text[at:begin], re.sub(r"[^\r\n]", " ", text[begin:end])]
        at = end
    return "".join((*made, text[at:]))


def _markdown_blocks(tokens: list[Token], text: str, starts: tuple[int, ...], policy: PaperPolicy) -> Iterator[Span]:
    bounds = (*starts, len(text))
    ends, below = len(starts), 0
    headings: list[tuple[int, int, str]] = []
    ordered: list[bool] = []
    for at, token in enumerate(tokens):
        if token.type in {"ordered_list_open", "bullet_list_open"}:
            ordered.append(token.type == "ordered_list_open")
        elif token.type in {"ordered_list_close", "bullet_list_close"}:
            ordered.pop()
        if token.map is None:
            continue
        first, last = token.map
        if token.type in {"fence", "code_block"}:
            yield bounds[first], bounds[min(last, ends)]
        elif token.type == "heading_open":
            headings.append((first, int(token.tag[1:]), tokens[at + 1].content))
            yield from _leading(text, bounds[first], r"[ \t#>]*\d+(?:\.\d+)*\.?(?=[ \t])")
        elif token.type == "list_item_open" and ordered[-1]:
            yield from _leading(text, bounds[first], r"[ \t>]*\d+[.)]")
    for at, (line, level, title) in enumerate(headings):
        if re.sub(r"[^a-z ]", "", title.lower()).strip() in policy.bibliography:
            below = next((other for other, depth, _ in headings[at + 1 :] if depth <= level), ends)
            yield bounds[line], bounds[below]


def _leading(text: str, at: int, pattern: str) -> Iterator[Span]:
    found = re.compile(pattern).match(text, at)
    if found is not None:
        yield found.span()


def _inline_code(text: str) -> Iterator[Span]:
    for found in _CODE.finditer(text):
        if not _ONE_NUMBER.fullmatch(found[2]):
            yield found.span()


def _markdown_rows(tokens: list[Token], starts: tuple[int, ...]) -> Iterator[Span]:
    header = 0
    for token in tokens:
        if token.map is None or token.type not in {"thead_open", "tr_open"}:
            continue
        if token.type == "thead_open":
            header = token.map[0]
        yield starts[token.map[0]], starts[header]


def _environments(text: str, names: frozenset[str]) -> Iterator[Span]:
    """Yield where environments of LaTeX begin and end; one that is not closed ends nowhere and is none."""
    at, open_ended = 0, set[str]()
    for found in _BEGIN.finditer(text):
        name = found[1]
        if found.start() < at or name not in names or name in open_ended:
            continue
        closing = f"\\end{{{name}{found[2]}}}"
        end = text.find(closing, found.end())
        if end < 0:
            open_ended.add(name)
            continue
        at = end + len(closing)
        yield found.start(), at


def _latex_rows(text: str, starts: tuple[int, ...]) -> Iterator[Span]:
    for first, last in _environments(text, _TABLES):
        header: int | None = None
        for line in range(line_of(starts, first), line_of(starts, last) + 1):
            end = starts[line + 1] if line + 1 < len(starts) else len(text)
            if re.search(r"(?<!\\)&", text[starts[line] : end]):
                header = starts[line] if header is None else header
                yield starts[line], header
