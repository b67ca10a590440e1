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


def run_lines(runs: int = 3) -> list[str]:
    """Return two records of unpaired arms: r1 at two lengths, r2 with an arm that changes its length too."""
    arms = (
        ("r1", "old", 10, 1.0, "a"),
        ("r1", "new", 10, 0.9, "b"),
        ("r1", "old-long", 20, 0.8, "a"),
        ("r2", "base", 10, 1.1, "c"),
        ("r2", "shorter", 9, 1.0, "d"),
    )
    lines = ["record,arm,run,steps,loss,source,log"]
    for record, arm, steps, loss, program in arms:
        for run in range(runs):
            log = f"{len(lines) - 1:064x}"
            lines.append(f"{record},{arm},{record}-{arm}-{run},{steps},{loss + run / 1000:.3f},{program * 64},{log}")
    return lines


RUN_LINES = tuple(run_lines())

_RUN_CATALOG = """
catalog_id: made-up-records
version: "1"
domain: made_up
decision_point: intervention
max_changes_per_attempt: 1
knobs:
  first: {value_type: string, default: old, allowed: [old, new], mechanism: one, summary: A record.}
  second: {value_type: string, default: base, allowed: [base, shorter], mechanism: two, summary: Another.}
fixed: {}
"""


def _arms(runs: int) -> list[dict[str, object]]:
    """Return the arms of `run_lines` as a manifest declares them."""
    return [
        {"record": record, "arm": arm, "knob": knob, "setting": setting, "machine": "box", "runs": runs}
        for record, arm, knob, setting in (
            ("r1", "old", "first", "old"),
            ("r1", "new", "first", "new"),
            ("r1", "old-long", "first", "old"),
            ("r2", "base", "second", "base"),
            ("r2", "shorter", "second", "shorter"),
        )
    ]


def write_runs(
    folder: Path,
    lines: Sequence[str] = RUN_LINES,
    *,
    name: str = "runs.csv",
    data: bytes | None = None,
    runs: int = 3,
    **changed: Any,
) -> Path:
    """Write a table of layout 2 whose manifest declares exactly what is there, except for what `changed` says."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes("".join(f"{line}\n" for line in lines).encode() if data is None else data)
    _put(folder / "catalog.yaml", changed.pop("catalog_text", _RUN_CATALOG))
    roles = ("record", "arm", "run", "budget", "metric", "source", "log")
    manifest = {
        "layout": "published-table/2",
        "table_id": "made-up-records",
        "version": "1",
        "title": "Records made for tests",
        "published_at": "2020-02-29T12:00:00.000000Z",
        "source": {"package": "made-up"},
        "verification": "published_record",
        "table": _declared(folder / name),
        "catalog": _declared(folder / "catalog.yaml"),
        "rows": 5 * runs,
        "columns": [{"name": col, "role": role} for col, role in zip(RUN_LINES[0].split(","), roles, strict=True)],
        "seeds": [],
        "domain": "made_up",
        "model_family": "none",
        "budget_class": "short",
        "metrics": [{"spec": {"name": "loss", "direction": "minimize", "unit": "nats"}, "low": "0", "high": "9"}],
        "equivalence_margin": "0.01",
        "search_space": {},
        "comparison": "defaults",
        "tuned_knob": None,
        "tasks": [{"name": "only", "root": "only", "attributes": {"sort": "made_up"}, "description": {}}],
        "machines": {"box": {"hardware": "1xbox", "description": {"cpu": "made up"}}},
        "arms": _arms(runs),
    }
    _put(folder / "manifest.json", json.dumps(manifest | changed))
    return folder
