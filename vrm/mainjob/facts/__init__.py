"""The facts of one round: what a report shows, computed from the Ledger so that it can be computed again."""

from __future__ import annotations

from vrm.mainjob.facts.collect import facts_of
from vrm.mainjob.facts.shapes import RoundFacts
from vrm.mainjob.facts.versions import program_versions

__all__ = ["RoundFacts", "facts_of", "program_versions"]
