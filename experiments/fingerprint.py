"""Digests of the code and of the environment that produced a result.

Rules kept here: a source digest covers names relative to the project and the files' bytes, no absolute path; an
environment digest covers versions and the machine's architecture, never host names, paths, users or secrets.
"""

from __future__ import annotations

import platform
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Final

from records.canonical import digest_bytes, domain_digest

PROJECT_ROOT: Final = Path(__file__).resolve().parents[1]
_PACKAGES: Final = ("numpy", "scikit-learn", "scipy", "threadpoolctl")


def source_set_digest(files: tuple[str, ...]) -> str:
    """Return the digest of source files, given by their paths relative to the project's root."""
    content = {name: digest_bytes((PROJECT_ROOT / name).read_bytes()) for name in files}
    return domain_digest("source-set", content)


@cache
def environment() -> dict[str, str]:
    """Return what a fit can depend on: the interpreter, the numerical packages and the architecture."""
    return {
        "implementation": platform.python_implementation(),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "system": platform.system(),
    } | {name: version(name) for name in _PACKAGES}


def environment_digest() -> str:
    """Return the digest of `environment()`."""
    return domain_digest("environment", environment())
