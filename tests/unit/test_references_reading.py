"""Files as sources: what is read out of each form, and what is refused, with the file and the remedy."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import pytest

from memory.reference import pdf
from memory.reference.adding import Given, source_of
from memory.reference.pdf import pdf_pages
from memory.reference.reading import files_of, read_source
from policies.references.policy import reference_policy
from records.errors import InvalidRecordError, InvalidSourceError
from records.reference import ChunkUnit, LicenceOrigin, ReferenceKind
from tests.support.reference_samples import make_pdf

MAX = 1 << 20
LIMITS = reference_policy().files.model_copy(update={"max_bytes": MAX})


def written(folder: Path, name: str, data: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def notebook(*cells: Any, key: str = "source") -> str:
    return json.dumps({"cells": [{"cell_type": "code", key: cell, "outputs": ["never read"]} for cell in cells]})


@pytest.mark.parametrize(
    ("name", "kind", "reader"),
    [
        ("a.txt", ReferenceKind.TOOL, "plain/1"),
        ("NOTES", ReferenceKind.TOOL, "plain/1"),
        ("a.md", ReferenceKind.TOOL, "markdown/1+markdown-it-py-4.3.0"),
        ("a.rst", ReferenceKind.TOOL, "rst/1"),
        ("a.py", ReferenceKind.CODE, "python/1"),
        ("a.RS", ReferenceKind.CODE, "code/1"),
        ("a.csv", ReferenceKind.DATASET, "plain/1"),
    ],
)
def test_text_is_the_file_itself(tmp_path: Path, name: str, kind: ReferenceKind, reader: str) -> None:
    data = "\ufeffé\r\n\r\nline 2\n".encode()
    read = read_source(written(tmp_path, name, data), LIMITS)
    assert (read.read.text.encode(), read.kind, read.read.reader) == (data, kind, reader)
    source = source_of("space", read, Given())
    assert source.content.sha256 == source.text.sha256
    assert len(source.artifacts) == 1


def test_a_notebook_gives_the_sources_of_its_cells(tmp_path: Path) -> None:
    read = read_source(written(tmp_path, "a.ipynb", notebook(["x = 1\n", "y = 2"], "  ", "# Title")), LIMITS).read
    assert read.text == "x = 1\ny = 2\n\n# Title"
    assert [(read.text[unit.start :][:3], unit.unit, unit.number) for unit in read.units] == [
        ("x =", ChunkUnit.CELL, 1),
        ("# T", ChunkUnit.CELL, 3),
    ]


@pytest.mark.parametrize(
    ("name", "data", "encoding"),
    [("a.ipynb", notebook("x = '\ud800'"), "utf-8"), ("a.txt", "x +2AA- y", "utf-7")],
)
def test_half_a_character_makes_no_source(tmp_path: Path, name: str, data: str, encoding: str) -> None:
    with pytest.raises(InvalidSourceError, match="D800"):
        read_source(written(tmp_path, name, data), LIMITS, encoding)


def test_a_notebook_of_version_3(tmp_path: Path) -> None:
    old = json.dumps({"worksheets": [{"cells": [{"input": ["print 1"]}, {"source": "words"}]}]})
    assert read_source(written(tmp_path, "a.ipynb", old), LIMITS).read.text == "print 1\n\nwords"


def test_html_gives_what_it_shows(tmp_path: Path) -> None:
    page = (
        "<!doctype html><html><head><title>no</title><style>p{}</style><script>evil()</script></head><body>"
        "<h1>Ridge &amp; lasso</h1><p>Some <b>bold</b>\n words.</p><ul><li>one<li>two</ul>"
        "<script>if (a < b) { evil() }</script><h2>Next</h2><pre>x\n  y</pre></body></html>"
    )
    read = read_source(written(tmp_path, "a.html", page), LIMITS).read
    assert read.text == "Ridge & lasso\n\nSome bold words.\n\none\n\ntwo\n\nNext\n\nx\n  y"
    assert [read.text[unit.start :].split("\n")[0] for unit in read.units] == ["Ridge & lasso", "Next"]


def test_a_pdf_gives_its_pages_whatever_it_is_called(tmp_path: Path) -> None:
    read = read_source(written(tmp_path, "paper.bin", make_pdf("Ridge regression", "", "Lasso")), LIMITS)
    assert (read.kind, read.media_type) == (ReferenceKind.PAPER, "application/pdf")
    assert [part.strip() for part in read.read.text.split("\n\n")] == ["Ridge regression", "Lasso"]
    assert [(unit.unit, unit.number) for unit in read.read.units] == [(ChunkUnit.PAGE, 1), (ChunkUnit.PAGE, 3)]


@pytest.mark.parametrize(
    ("name", "data", "met", "remedy"),
    [
        ("empty.txt", b"", "0 bytes without content", "holds something"),
        ("space.md", b" \n\t\n", "4 bytes without content", "holds something"),
        ("bom.txt", b"\xef\xbb\xbf\n", "no text in it", "holds text"),
        ("binary.txt", b"\x7fELF\x00\x01", "NUL", "binary"),
        ("latin.txt", b"caf\xe9", "no text in utf-8", "--encoding"),
        ("wide.txt", "café".encode("utf-16"), "no text in utf-8", "--encoding"),
        ("large.txt", b"x" * (MAX + 1), f"{MAX + 1} bytes", "split it"),
        ("broken.ipynb", b"{", "no notebook", "Jupyter"),
        ("list.ipynb", b"[1]", "no notebook", "Jupyter"),
        ("deep.ipynb", b"[" * 100_000, "no notebook", "Jupyter"),
        ("script.html", b"<script>x()</script>", "no text in it", "holds text"),
        ("broken.pdf", b"%PDF-1.7\nnothing", "no PDF that can be read", "Repair"),
        ("scan.pdf", make_pdf("", ""), "2 pages without text", "OCR"),
        ("locked.pdf", make_pdf("secret", encrypted=True), "encrypted", "password"),
    ],
)
def test_what_cannot_be_read_is_refused_with_file_and_remedy(
    tmp_path: Path, name: str, data: bytes, met: str, remedy: str
) -> None:
    path = written(tmp_path, name, data)
    with pytest.raises(InvalidSourceError) as refusal:
        read_source(path, LIMITS)
    assert refusal.value.field.endswith(name) or len(str(path)) > 160
    assert met in refusal.value.value
    assert remedy in refusal.value.remedy


def test_an_encoding_that_is_given_counts(tmp_path: Path) -> None:
    path = written(tmp_path, "wide.txt", "café".encode("utf-16"))
    assert read_source(path, LIMITS, "utf-16").read.text == "café"
    with pytest.raises(InvalidSourceError, match="Python knows"):
        read_source(path, LIMITS, "no-such-code")


def test_a_folder_gives_its_files_in_order_without_hidden_ones_and_links(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / ".git").mkdir()
    made = [written(tmp_path, name, "x") for name in ("z.txt", "a.txt", "b/c.txt", ".hidden", ".git/config")]
    (tmp_path / "link.txt").symlink_to("/etc/passwd")
    assert files_of([tmp_path, made[1]]) == [made[1], made[0], made[2]]
    with pytest.raises(InvalidSourceError, match="no such file"):
        files_of([tmp_path / "missing"])
    (tmp_path / "none").mkdir()
    with pytest.raises(InvalidSourceError, match="without files"):
        files_of([tmp_path / "none"])


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InvalidSourceError, match="no regular file"):
        read_source(tmp_path / "pipe", LIMITS)


def test_the_licence_is_given_or_stated_or_unknown(tmp_path: Path) -> None:
    tagged = read_source(written(tmp_path, "a.py", "# SPDX-License-Identifier: MIT OR Apache-2.0\nx = 1\n"), LIMITS)
    plain = read_source(written(tmp_path, "b.py", "x = 1  # MIT\n"), LIMITS)
    for file, given, licence, origin in (
        (tagged, Given(), "MIT OR Apache-2.0", LicenceOrigin.STATED),
        (tagged, Given(licence="BSD-3-Clause"), "BSD-3-Clause", LicenceOrigin.GIVEN),
        (plain, Given(), None, LicenceOrigin.UNKNOWN),
    ):
        facts = source_of("space", file, given).facts
        assert (facts.licence, facts.licence_origin) == (licence, origin)


def test_the_time_is_that_of_the_file_and_in_no_id(tmp_path: Path) -> None:
    path = written(tmp_path, "a.txt", "words")
    os.utime(path, ns=(0, 1_700_000_000_123_456_789))
    first = source_of("space", read_source(path, LIMITS), Given())
    assert first.created_at == "2023-11-14T22:13:20.123456Z"
    given = source_of("space", read_source(path, LIMITS), Given(retrieved_at="2020-01-01T00:00:00.000000Z"))
    assert (given.created_at, given.id) == ("2020-01-01T00:00:00.000000Z", first.id)


@pytest.mark.parametrize("field", ["uri", "title", "licence", "version", "access"])
def test_what_is_given_is_checked_and_brought_to_nfc(tmp_path: Path, field: str) -> None:
    file = read_source(written(tmp_path, "a.txt", "words"), LIMITS)
    short: dict[str, Any] = {field: "e\u0301"}
    long: dict[str, Any] = {field: "x" * 2_001}
    facts = source_of("space", file, Given(**short)).facts
    assert getattr(facts, field) == "é"
    with pytest.raises(InvalidRecordError, match=field):
        source_of("space", file, Given(**long))


def unfolding(content: bytes) -> bytes:
    """Return a PDF of one page whose content is compressed."""
    return make_pdf("x").replace(
        b"<< /Length 32 >>\nstream\nBT /F1 12 Tf 72 720 Td (x) Tj ET\nendstream",
        b"<< /Filter /FlateDecode /Length %d >>\nstream\n%s\nendstream"
        % (len(packed := zlib.compress(content)), packed),
    )


SLOW = b"BT /F1 12 Tf " + b"(word) Tj " * 600_000 + b"ET"
"""Six megabytes of operators in a few kilobytes: long and large for a reader without limits."""


@pytest.mark.parametrize(
    ("data", "limits", "met", "remedy"),
    [
        (make_pdf("one", "two", "three"), {"pages": 2}, "3 pages", "up to 2 pages"),
        (make_pdf("one word", "two words"), {"text_bytes": 12}, "bytes of text", "Up to 12 bytes"),
        (unfolding(b" " * 20_000_000), {"stream_bytes": 1_000_000}, "unfolds too far", "1000000 bytes"),
        (unfolding(SLOW), {"seconds": 1}, "takes too long", "1 seconds"),
        (unfolding(SLOW), {"memory_bytes": 150_000_000}, "too much memory", "150000000 bytes"),
    ],
    ids=["pages", "text", "stream", "time", "memory"],
)
def test_a_pdf_that_asks_too_much_is_refused_by_the_limit_that_it_goes_over(
    tmp_path: Path, data: bytes, limits: dict[str, int], met: str, remedy: str
) -> None:
    path = written(tmp_path, "hostile.pdf", data)
    assert len(data) < 100_000
    narrow = LIMITS.model_copy(update={"pdf": LIMITS.pdf.model_copy(update=limits)})
    with pytest.raises(InvalidSourceError, match=met) as refused:
        read_source(path, narrow)
    assert remedy in refused.value.remedy


def test_the_reader_answers_in_utf_8_and_what_it_says_besides_goes_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Octal 351 is Oslash in StandardEncoding (ISO 32000-1, annex D); an escape would be three times as long."""
    data = make_pdf("\\351" * 100)
    assert pdf_pages("a.pdf", data, LIMITS.pdf) == ["Ø" * 100]
    command = [sys.executable, "-c", pdf._CHILD, LIMITS.pdf.canonical.decode()]
    answer = subprocess.run(command, input=data, capture_output=True, check=True).stdout
    assert answer.count("Ø".encode()) == 100
    program = (
        "import json, os, sys; found, null = os.fstat(2), os.stat(os.devnull); "
        "json.dump({'pages': [str(os.path.samestat(found, null))]}, sys.stdout)"
    )
    monkeypatch.setattr(pdf, "_CHILD", program)
    assert pdf_pages("a.pdf", b"", LIMITS.pdf) == ["True"]
