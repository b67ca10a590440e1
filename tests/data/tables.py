"""Published tables made for tests: whole ones, and the means to break them in one place."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

TASKS = ("a", "b", "c", "d", "e", "f")
STEPS = (0.1, 0.2, 0.3)
_CATALOG = """
catalog_id: made-up
version: "1"
domain: made_up
decision_point: intervention
max_changes_per_attempt: 1
knobs:
  step:
    value_type: number
    default: 0.1
    allowed: [0.1, 0.2]
    mechanism: step_size
    summary: A knob.
fixed: {}
"""


def table_lines(effect: float = 0.1, seeds: int = 2) -> list[str]:
    """Return the lines of a table in which the larger step adds `effect` to the score of every task."""
    lines = ["task,seed,step,score"]
    for place, task in enumerate(TASKS):
        for step in STEPS[:2]:
            for seed in range(seeds):
                score = 0.5 + place / 100 + seed / 1000 + (effect + place / 1000 if step == STEPS[1] else 0.0)
                lines.append(f"{task},{seed},{step},{score:.4f}")
    return lines


def write_table(folder: Path, lines: Sequence[str] | None = None, **changed: Any) -> Path:
    """Write a table whose manifest declares exactly what is there, except for what `changed` says."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = table_lines() if lines is None else list(lines)
    _put(folder / "rows.csv", "\n".join(rows) + "\n")
    _put(folder / "catalog.yaml", _CATALOG)
    manifest = {
        "layout": "published-table/1",
        "table_id": "made-up",
        "version": "1",
        "title": "A table made for tests",
        "published_at": "2020-02-29T12:00:00.000000Z",
        "source": {"package": "made-up"},
        "table": _declared(folder / "rows.csv"),
        "catalog": _declared(folder / "catalog.yaml"),
        "rows": len(table_lines()) - 1,
        "seeds": [0, 1],
        "domain": "made_up",
        "model_family": "none",
        "budget_class": "none",
        "metric": {"name": "score", "direction": "maximize", "unit": "share"},
        "metric_low": "0",
        "metric_high": "1",
        "equivalence_margin": "0.01",
        "search_space": {"step": list(STEPS)},
        "tasks": [
            {"name": task, "root": f"root-{task}", "attributes": {"sort": "made_up"}, "description": {}}
            for task in TASKS
        ],
    }
    _put(folder / "manifest.json", json.dumps(manifest | changed))
    return folder


def edited(edit: Callable[[list[str]], object]) -> list[str]:
    """Return the lines of the whole table after one edit in place."""
    lines = table_lines()
    edit(lines)
    return lines


def _put(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def _declared(path: Path) -> dict[str, object]:
    data = path.read_bytes()
    return {"name": path.name, "sha256": hashlib.sha256(data).hexdigest(), "size_bytes": len(data)}
