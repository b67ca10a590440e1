"""The text of a PDF, read by a process of its own that may take so much and no more.

A PDF is a program for a reader, written by anybody: a small file can unfold into gigabytes, or keep a library busy for
hours. Rules kept here:

- the library runs in a child process with limits of processor time, wall clock and memory, set before it is imported;
- pages, the unfolded size of a stream and the size of the whole text are limited too, and so is what the parent takes;
- whatever goes over is an `InvalidSourceError` that names the limit; whatever else goes wrong is one as well;
- the child imports nothing of the project but this module and the errors.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

from records.errors import InvalidSourceError

if TYPE_CHECKING:
    from policies.references.policy import PdfLimits

_ROOT: Final = Path(__file__).resolve().parents[2]
_SMALLER: Final = "Split it, or add the parts that you cite."
_REPAIR: Final = "Repair the file, for instance by printing it to a new PDF."
_CHILD: Final = "from memory.reference.pdf import main; main()"
_STREAMS: Final = (
    "maximum_declared_stream_length", "array_based_stream_maximum_output_length", "jbig2_maximum_output_length",
    "lzw_maximum_output_length", "run_length_maximum_output_length", "zlib_maximum_output_length",
    "brotli_maximum_output_length", "image_maximum_buffer_size",
)  # fmt: skip
"""The library's settings for how far a stream may unfold; its other limits are left as they are."""


def pdf_pages(name: str, data: bytes, limits: PdfLimits) -> list[str]:
    """Return the text of each page.

    Raises:
        InvalidSourceError: the file is damaged, encrypted, or goes over a limit, which the error names.
    """
    told = _child(data, limits)
    match told:
        case {"pages": list() as pages}:
            return [str(page) for page in pages]
        case {"over": str() as over, "met": met}:
            raise InvalidSourceError(name, str(met), f"{over} {_SMALLER}")
        case {"encrypted": True}:
            raise InvalidSourceError(name, "an encrypted PDF", "Save it without a password.")
    raise InvalidSourceError(name, f"no PDF that can be read: {told.get('error', 'no answer')}", _REPAIR)


def _child(data: bytes, limits: PdfLimits) -> Mapping[str, Any]:
    environment = {key: os.environ[key] for key in ("PATH", "LD_LIBRARY_PATH", "SYSTEMROOT") if key in os.environ}
    fixed = {"PYTHONPATH": str(_ROOT), "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1", "LANG": "C.UTF-8"}
    try:
        done = subprocess.run(  # noqa: S603  # the program is ours
            [sys.executable, "-c", _CHILD, limits.canonical.decode()],
            input=data,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # nobody reads it, and nothing bounds what a library writes there
            timeout=limits.seconds * 2,  # a process that waits uses no processor time
            env=environment | fixed,
            cwd=_ROOT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return _over_time(limits)
    try:
        told = json.loads(done.stdout)
    except ValueError:
        if done.returncode < 0:  # a signal ended it: that of the processor time, or of a system without memory
            return _over_time(limits)
        return {"error": f"the reader ended with {done.returncode}"}
    return told if isinstance(told, dict) else {}


def _over_time(limits: PdfLimits) -> Mapping[str, Any]:
    return {"met": "a PDF that takes too long to read", "over": f"Reading may take {limits.seconds} seconds."}


def main() -> None:
    """Read a PDF from standard input under the limits of the first argument, and answer on standard output."""
    limits = SimpleNamespace(**json.loads(sys.argv[1]))
    _limit(limits)
    try:
        answer = _read(sys.stdin.buffer.read(), limits)
    except MemoryError:
        answer = _over_memory(limits)
    except Exception as error:  # noqa: BLE001  # a damaged file fails anywhere in the library, with any error of Python's
        answer = _flaw(error, limits)
    text = json.dumps(answer, ensure_ascii=False)  # an escape is up to six times as long as what was counted
    sys.stdout.buffer.write(text.encode("utf-8", "replace"))


def _limit(limits: SimpleNamespace) -> None:
    """Take no more than is allowed; where a system has no such limit the others hold."""
    import resource  # noqa: PLC0415  # the child alone

    for kind, most in (
        (resource.RLIMIT_CPU, limits.seconds), (resource.RLIMIT_AS, limits.memory_bytes), (resource.RLIMIT_CORE, 0),
    ):  # fmt: skip
        try:
            resource.setrlimit(kind, (most, most))
        except (OSError, ValueError):
            continue


def _read(data: bytes, limits: SimpleNamespace) -> dict[str, Any]:
    import logging  # noqa: PLC0415  # the child alone

    import pypdf  # noqa: PLC0415

    pypdf.overwrite_configuration(**dict.fromkeys(_STREAMS, limits.stream_bytes))
    logging.getLogger("pypdf").setLevel(logging.CRITICAL)  # it tells of every flaw that it gets along with
    document = pypdf.PdfReader(io.BytesIO(data))
    if document.is_encrypted:
        return {"encrypted": True}
    count = len(document.pages)
    if count > limits.pages:
        return {"met": f"{count} pages", "over": f"PDFs of up to {limits.pages} pages are read."}
    pages, held = [], 0
    for page in document.pages:
        text = page.extract_text().encode("utf-8", "replace")
        held += len(text)
        if held > limits.text_bytes:
            return {"met": f"{held} bytes of text or more", "over": f"Up to {limits.text_bytes} bytes are read."}
        pages.append(text.decode())
    return {"pages": pages}


def _over_memory(limits: SimpleNamespace) -> dict[str, Any]:
    over = f"Reading may take {limits.memory_bytes} bytes of memory."
    return {"met": "a PDF that takes too much memory", "over": over}


def _flaw(error: Exception, limits: SimpleNamespace) -> dict[str, Any]:
    if type(error).__name__ == "LimitReachedError":
        over = f"A stream may unfold into {limits.stream_bytes} bytes, and no part of the file may be without end."
        return {"met": f"a PDF that unfolds too far: {error}", "over": over}
    return {"error": f"{type(error).__name__} {error}"}
