"""A small search that is really run: support vector machines on a data set of scikit-learn, node by node.

Every node has a folder with its program, what it ran with, its predictions for the rows that were held out, its log and
its report. The same seed gives the same bytes. One node fails as scikit-learn fails, at a kernel that it does not know;
one measures what another did before.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from sklearn.datasets import load_wine
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from records.lineage import NodeReport

BASE: Final[dict[str, Any]] = {
    "scaler": "none", "C": 1, "class_weight": "none", "kernel": "rbf", "tol": 0.001, "shrinking": True,
}  # fmt: skip
METRIC: Final = "balanced_accuracy"
PROGRAM: Final = "fit.py"
ENVIRONMENT: Final = {"executor": "local", "cpu_info": {"model": "example-cpu", "arch": "x86_64"}}


@dataclass(frozen=True, kw_only=True)
class Step:
    """A node of the search: its parent, what it changes there, and what it would do next."""

    node: str
    parent: str | None
    change: Mapping[str, Any] = field(default_factory=dict)
    hints: tuple[str, ...] = ()


SEARCH: Final = (
    Step(node="node_root", parent=None, hints=("bring the features to one scale",)),
    Step(node="node_scaled", parent="node_root", change={"scaler": "standard"}),
    Step(node="node_scaled_c", parent="node_scaled", change={"C": 10}, hints=("stop here",)),
    Step(node="node_failed", parent="node_root", change={"kernel": "wavelet"}),
)


def held_out(seed: int) -> tuple[list[int], list[int]]:
    """Return the rows that a seed trains on and those that it holds out."""
    labels = load_wine().target
    train, test = train_test_split(range(len(labels)), test_size=0.4, random_state=seed, stratify=labels)
    return sorted(train), sorted(test)


def predictions(config: Mapping[str, Any], seed: int) -> list[tuple[int, int]]:
    """Fit and return the predicted class of every row that is held out."""
    data = load_wine()
    train, test = held_out(seed)
    weight = None if config["class_weight"] == "none" else config["class_weight"]
    model = SVC(
        C=config["C"], kernel=config["kernel"], class_weight=weight, tol=config["tol"], shrinking=config["shrinking"],
        random_state=seed,
    )  # fmt: skip
    steps = [StandardScaler()] if config["scaler"] == "standard" else []
    fitted = make_pipeline(*steps, model).fit(data.data[train], data.target[train])
    return list(zip(test, map(int, fitted.predict(data.data[test])), strict=True))


def score(found: list[tuple[int, int]]) -> float:
    """Return what scikit-learn says of predictions."""
    labels = load_wine().target
    return float(balanced_accuracy_score([labels[row] for row, _ in found], [value for _, value in found]))


def rows_text(header: tuple[str, ...], rows: list[tuple[Any, ...]]) -> str:
    """Return rows as CSV."""
    made = io.StringIO()
    csv.writer(made, lineterminator="\n").writerows([header, *rows])
    return made.getvalue()


def run_search(root: Path, seed: int = 0, run: str | None = None, steps: tuple[Step, ...] = SEARCH) -> Path:
    """Run a search and leave one folder a node; return the folder of the run."""
    folder = root / (run or f"run_{seed}")
    configs: dict[str, dict[str, Any]] = {}
    ancestors: dict[str, list[str]] = {}
    for place, step in enumerate(steps):
        above = [] if step.parent is None else [*ancestors[step.parent], step.parent]
        configs[step.node] = (BASE if step.parent is None else configs[step.parent]) | dict(step.change)
        ancestors[step.node] = above
        _run_node(folder / step.node, step, configs[step.node], above, (seed, place))
    return folder


def _run_node(folder: Path, step: Step, config: dict[str, Any], above: list[str], at: tuple[int, int]) -> None:
    seed, place = at
    folder.mkdir(parents=True)
    files = {
        PROGRAM: Path(__file__).read_text(encoding="utf-8"),
        "trial.json": json.dumps({"task": "wine", "seed": seed, "config": config}, indent=1),
    }
    metrics: dict[str, float] = {}
    try:
        found = predictions(config, seed)
    except ValueError as error:
        status, reason = "failed", str(error).splitlines()[0]
        files["run.log"] = f"{type(error).__name__}: {error}\n"
    else:
        metrics = {METRIC: score(found), "_scientific_score": 0.99 - place / 100}
        status, reason = "success", ""
        files["predictions.csv"] = rows_text(("row", "predicted"), list(found))
        files["run.log"] = f"{len(found)} rows held out\n"
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    report = _report(folder, step, above, place) | {"status": status, "metrics": metrics, "evaluator_reason": reason}
    write_report(folder, report)


def _report(folder: Path, step: Step, above: list[str], place: int) -> dict[str, Any]:
    changed = ", ".join(f"{name} {value}" for name, value in step.change.items()) or "nothing"
    minute = f"2026-06-11T02:{place:02}"
    program = {"path": PROGRAM, "sha256": digest_of(folder / PROGRAM)}
    new = step.parent is None
    return {
        "schema_version": 1, "node_id": step.node, "parent_id": step.parent, "ancestor_ids": above,
        "label": "draft" if new else "improve", "raw_label": "Draft" if new else "Improve", "depth": len(above),
        "started_at": f"{minute}:00Z", "completed_at": f"{minute}:30Z",
        "files_changed": {
            "added": [program] if new else [], "modified": [], "deleted": [],
            "inherited_unchanged": [] if new else [program],
        },
        "what_was_done": f"Changed {changed} and predicted the rows that were held out.",
        "next_steps_hints": list(step.hints), "artifacts": artifacts_of(folder), **ENVIRONMENT,
    }  # fmt: skip


def artifacts_of(folder: Path) -> list[dict[str, Any]]:
    """Return the files of a node as its report names them."""
    roles = {"predictions.csv": "data_output", "trial.json": "data_output", "run.log": "log"}
    names = sorted(each.name for each in folder.iterdir() if each.name in roles)
    return [
        {
            "filename": name, "role": roles[name], "sha256": digest_of(folder / name),
            "size": (folder / name).stat().st_size,
        }
        for name in names
    ]  # fmt: skip


def write_report(folder: Path, report: dict[str, Any]) -> None:
    """Write a report as the search does."""
    (folder / "node_report.json").write_text(json.dumps(report, indent=1), encoding="utf-8")


def change_report(folder: Path, **changes: Any) -> None:
    """Write some fields of a report anew; null takes a field away."""
    report = json.loads((folder / "node_report.json").read_text(encoding="utf-8")) | changes
    write_report(folder, {name: value for name, value in report.items() if value is not None})


def rerun_matches(folder: Path) -> bool:
    """Run a node again and tell whether its predictions are the same bytes."""
    trial = json.loads((folder / "trial.json").read_text(encoding="utf-8"))
    found = rows_text(("row", "predicted"), list(predictions(trial["config"], trial["seed"])))
    return found == (folder / "predictions.csv").read_text(encoding="utf-8")


def digest_of(path: Path) -> str:
    """Return the digest of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def value_of(report: NodeReport, name: str) -> float:
    """Return a metric of a report."""
    (found,) = (each.value for each in report.metrics if each.name == name)
    return float(found)


def declare(folder: Path, seeds: tuple[int, ...] = (0,), **changes: Any) -> Path:
    """Write the evaluation contract of the search, with the labels of the rows that were held out; return its path."""
    labels = load_wine().target
    rows = [("wine", seed, row, int(labels[row])) for seed in seeds for row in held_out(seed)[1]]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "labels.csv").write_text(rows_text(("task", "seed", "row", "label"), rows), encoding="utf-8")
    data = load_wine()
    declared = {
        "layout": "lineage-evaluation/1", "name": "wine-search", "version": "1",
        "published_at": "2026-06-01T00:00:00.000000Z", "catalog": "tabular-svm-v1", "model_family": "svm",
        "budget_class": "one-fit", "metric": {"name": METRIC, "direction": "maximize", "unit": "share"},
        "measure": METRIC, "metric_low": "0", "metric_high": "1", "equivalence_margin": "0.005", "trial": "trial.json",
        "predictions": "predictions.csv", "program": PROGRAM,
        "labels": {"name": "labels.csv", "sha256": digest_of(folder / "labels.csv")},
        "tasks": [
            {
                "name": "wine", "root": "wine", "attributes": {"problem_type": "multiclass", "size_band": "small"},
                "dataset_digest": hashlib.sha256(data.data.tobytes() + data.target.tobytes()).hexdigest(),
            }
        ],
        "baselines": {},
    }  # fmt: skip
    path = folder / "evaluation.yaml"
    path.write_text(json.dumps(declared | changes), encoding="utf-8")  # JSON is YAML
    return path
