"""The revisions of one schema in their order, and Alembic as what walks along them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.script import Script, ScriptDirectory

from store.install import Definition
from store.ledger.schema import DEFINITION as LEDGER_DEFINITION
from store.migrations.steps import Steps
from store.runtime.schema import DEFINITION as RUNTIME_DEFINITION

_HERE: Final = Path(__file__).parent


@dataclass(frozen=True)
class Step:
    """One revision that is applied: its number and what it does, in a line."""

    revision: str
    what: str


@dataclass(frozen=True)
class Chain:
    """The revisions of a schema.

    Attributes:
        definition: what the last revision leads to.
        folders: where the modules of the revisions are.
    """

    definition: Definition
    folders: tuple[Path, ...]

    @property
    def head(self) -> str:
        """The last revision."""
        return str(self._scripts().get_current_head())

    def digest(self, revision: str) -> str | None:
        """Return the digest of the definition that a revision led to; None if there is no such revision."""
        return next((_digest(script) for script in self._walk("base") if script.revision == revision), None)

    def after(self, revision: str) -> tuple[Step, ...]:
        """Return the steps that lead from a revision to the last one."""
        return tuple(Step(script.revision, script.doc) for script in self._walk(revision))

    def upgrade(self, connection: sa.Connection, steps: Steps, revision: str) -> None:
        """Apply every revision up to the one given, in the transaction of the caller."""
        command.upgrade(self._config(connection, steps), revision)

    def stamp(self, connection: sa.Connection, steps: Steps, revision: str) -> None:
        """Mark a schema as being of a revision."""
        command.stamp(self._config(connection, steps), revision)

    def _walk(self, revision: str) -> list[Script]:
        return list(reversed(list(self._scripts().iterate_revisions("head", revision))))

    def _scripts(self) -> ScriptDirectory:
        return ScriptDirectory(_HERE, version_locations=list(self.folders))

    def _config(self, connection: sa.Connection, steps: Steps) -> Config:
        given = {"connection": connection, "schema": self.definition.schema, "steps": steps}
        config = Config(attributes=given)
        locations = "\n".join(str(folder) for folder in self.folders)
        for name, value in (("script_location", str(_HERE)), ("version_locations", locations)):
            config.set_main_option(name, value.replace("%", "%%"))
        config.set_main_option("path_separator", "newline")
        return config


def _digest(script: Script) -> str:
    return str(script.module.definition_digest)


LEDGER: Final = Chain(LEDGER_DEFINITION, (_HERE / "ledger" / "versions",))
"""The Ledger's revisions."""

RUNTIME: Final = Chain(RUNTIME_DEFINITION, (_HERE / "runtime" / "versions",))
"""The Runtime's revisions."""
