"""The chain formula as a forger would write it: neither the writer's nor the checker's function."""

from __future__ import annotations

import hashlib


def chained(previous: str, row: tuple[str, int, str, str, str]) -> str:
    """Return the chain digest of a journal row given as namespace, position, noun, id and payload digest."""
    text = "\n".join([previous, *map(str, row)])
    return hashlib.sha256(b"vrm/ledger-chain/v1\x00" + text.encode()).hexdigest()
