"""Erasures: what one affects (`planning`), and the officer who carries it to its end (`officer`)."""

from memory.erasing.officer import ErasurePorts, RetentionOfficer
from memory.erasing.planning import ErasurePlan, ErasureRequest, plan

__all__ = ["ErasurePlan", "ErasurePorts", "ErasureRequest", "RetentionOfficer", "plan"]
