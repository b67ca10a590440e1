"""The names of the domain that ships: its catalog, the model family it tunes, and what one trial may cost."""

from __future__ import annotations

from typing import Final

CATALOG: Final = "tabular-svm-v1"
MODEL_FAMILY: Final = "svm"
BUDGET_CLASS: Final = "one-fit"
