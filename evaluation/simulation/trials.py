"""The trials that schedules are about, made once in a process and used by all of them."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Final

from evaluation.bench import corpus
from evaluation.bench.corpus import CATALOG, CONTRACT, METRIC, SPACE
from evaluation.simulation.material import ANSWER, TIMES, study
from memory.evidence import Trial, bundle_records
from records.base import Record
from records.canonical import digest_bytes
from records.values import ArtifactRef

SWEEPS: Final = ("sweep/0", "sweep/1")
"""Runs whose evidence becomes knowledge."""
NEWS: Final = "news"
"""A Run whose evidence comes while others distil."""
_CHANGE: Final = CATALOG.contrasts[0]


@lru_cache(maxsize=64)
def trial(run: str, task: int, *, changed: bool, seed: int = 0, scope: int = 0) -> tuple[Record, ...]:
    """Return the eight records of a trial of a Run: the baseline or the one change, on a task with roots of its own.

    `scope` numbers the kinds of tasks; rules about two kinds have nothing to do with each other.
    """
    settings = {_CHANGE.knob: _CHANGE.to_value} if changed else {}
    name = f"dataset-{task}" + (f"-of-{scope}" if scope else "")
    subject = replace(corpus.task(scope), name=name, root=name, dataset_digest=digest_bytes(name.encode()))
    return bundle_records(
        Trial(
            namespace=SPACE,
            task=subject,
            contract=CONTRACT,
            catalog_digest=CATALOG.digest,
            run_id=study(run).id,
            iteration=int(changed),
            seed=seed,
            change=(_CHANGE.knob, _CHANGE.from_value, _CHANGE.to_value) if changed else None,
            mechanism=_CHANGE.mechanism if changed else "baseline",
            config_digest=CATALOG.config_digest(CATALOG.baseline | settings),
            baseline_config_digest=CATALOG.config_digest(CATALOG.baseline),
            source_digest=digest_bytes(b"source"),
            environment_digest=digest_bytes(b"environment"),
            model_family=corpus.MODEL_FAMILY,
            budget_class=corpus.BUDGET,
            artifacts=(ArtifactRef(role="predictions", sha256=digest_bytes(ANSWER), size_bytes=len(ANSWER)),),
            verified={METRIC.name: round(0.7 + task / 100 + (0.05 + task / 1000 if changed else 0.0), 6)},
            violations=(),
            times=(TIMES[0], TIMES[0], TIMES[0]),
        )
    )
