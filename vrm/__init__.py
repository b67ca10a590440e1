"""Verified Research Memory: memory for research agents that keeps only what was independently verified.

This package is the whole public face; every other package may change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from memory.lineage.retrieval import LineageQuestion
    from memory.lineage.working_context import WorkingQuestion
    from records.errors import VrmError
    from vrm.claims import ClaimAnswer, ClaimQuestion
    from vrm.client import Answer, Memory, Question, connect
    from vrm.lineage import PaperQuestion
    from vrm.references import ReferenceAnswer, ReferenceQuestion

__all__ = [
    "Answer", "ClaimAnswer", "ClaimQuestion", "LineageQuestion", "Memory", "PaperQuestion", "Question",
    "ReferenceAnswer", "ReferenceQuestion", "VrmError", "WorkingQuestion", "connect",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Import what is asked for on first use, so that `vrm --help` does not wait for the drivers."""
    if name == "VrmError":
        from records.errors import VrmError  # noqa: PLC0415

        return VrmError
    if name in {"ClaimAnswer", "ClaimQuestion"}:
        from vrm import claims  # noqa: PLC0415

        return getattr(claims, name)
    if name in {"ReferenceAnswer", "ReferenceQuestion"}:
        from vrm import references  # noqa: PLC0415

        return getattr(references, name)
    if name in {"LineageQuestion", "PaperQuestion", "WorkingQuestion"}:
        from vrm import lineage  # noqa: PLC0415

        return getattr(lineage, name)
    if name in __all__:
        from vrm import client  # noqa: PLC0415

        return getattr(client, name)
    raise AttributeError(f"module 'vrm' has no attribute {name!r}")
