"""Names in the environment that the cluster and the commands share; loaded by both, so it needs nothing."""

from __future__ import annotations

from typing import Final

MODEL_KEY: Final = "VRM_LLM_KEY"
"""The environment variable with the key to a language model's server; no server or worker of ours is given it."""
