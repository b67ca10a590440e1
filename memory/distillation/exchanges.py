"""What was asked of a model and what it said, kept by what was asked, so that one question is asked once.

Rules kept here: an exchange is found under the digest of its facts and of the adapter that worded the request; the
first one kept stands, whoever else asked meanwhile; it is a note, not a record: without it the question is asked again,
and what is damaged counts as missing. The key to the server is no part of it.
"""

from __future__ import annotations

import json
import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

from records.canonical import digest_bytes, domain_digest


class Exchanges:
    """A folder of exchanges; several processes may share it."""

    def __init__(self, folder: Path) -> None:
        """Keep exchanges in a folder, which is made when the first one is kept."""
        self._folder = folder

    def find(self, facts: str, adapter: str) -> tuple[str, str] | None:
        """Return what a model said about facts, and the digest of the exchange; None if it was not asked yet.

        Args:
            facts: the digest of the facts.
            adapter: the identity of the adapter.
        """
        try:
            data = self._path(facts, adapter).read_bytes()
            body = json.loads(data)
        except (OSError, ValueError, RecursionError):
            return None
        if not isinstance(body, dict) or (body.get("facts"), body.get("adapter")) != (facts, adapter):
            return None
        answer = body.get("answer")
        return (answer, digest_bytes(data)) if isinstance(answer, str) else None

    def keep(self, facts: str, adapter: str, request: Any, answer: str) -> tuple[str, str]:
        """Keep an exchange durably and return what `find` returns from now on: the first one kept.

        Raises:
            OSError: the folder cannot be written.
        """
        body = {"facts": facts, "adapter": adapter, "request": request, "answer": answer}
        data = json.dumps(body, sort_keys=True).encode()  # an answer need not be text that a record could hold
        path = self._path(facts, adapter)
        self._folder.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=self._folder, prefix=f"{path.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            if path.exists() and self.find(facts, adapter) is None:  # damaged; the new one takes its place
                path.unlink(missing_ok=True)
            with suppress(FileExistsError):
                os.link(name, path)
        finally:
            Path(name).unlink()
        return self.find(facts, adapter) or (answer, digest_bytes(data))

    def _path(self, facts: str, adapter: str) -> Path:
        return self._folder / f"{domain_digest('drafting-exchange', [facts, adapter])}.json"
