"""An actor that raises what it is asked to; it lies in a module, so that workers import it by name."""

from __future__ import annotations

import ray

from actors.settings import Settings, code_digest
from records import errors
from records.errors import VrmError


class Raiser:
    """Raises and returns errors of the project's family."""

    def __init__(self, settings: Settings) -> None:
        """Take what every actor takes."""
        self._settings = settings

    @ray.method
    def fail(self, name: str) -> None:
        """Raise an error of that class."""
        raise self._error(name)

    @ray.method
    def answer(self, name: str) -> list[VrmError]:
        """Return an error of that class among the answers."""
        return [self._error(name)]

    @ray.method
    def stumble(self) -> None:
        """Raise what is no error of the family."""
        raise RuntimeError("a bug")

    @ray.method(concurrency_group="health")
    def version(self) -> str:
        """Return the digest of the code that runs here."""
        return code_digest()

    def _error(self, name: str) -> VrmError:
        kind: type[VrmError] = getattr(errors, name)
        return kind("field", "v" * 500, f"Remedy of {name}.")
