"""`vrm knowledge`: rules and procedures, their evidence and history, what holds evidence back, and forest plots."""

from __future__ import annotations

from vrm.cli.knowledge.commands import app

__all__ = ["app"]
