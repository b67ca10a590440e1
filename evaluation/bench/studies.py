"""Made-up studies whose verdicts differ: trials in many task scopes, on roots, seeds and knobs, that cross-validate.

A study is 50 trials in one task scope: five dataset roots, two seeds, a baseline and four changes of one knob each. The
first change helps on every root (in every third scope it harms), the second harms, the third does nothing beyond the
equivalence margin, the fourth helps on some roots and harms on others. So a scope has four variants, and what is to be
said of them differs. Number `i` always gives the same trial.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from evaluation.bench import corpus
from evaluation.bench.corpus import BUDGET, CATALOG, CONTRACT, METRIC, MODEL_FAMILY, NOW, SPACE
from memory.evidence import TaskIdentity, Trial
from policies.catalog import Change
from records.canonical import digest_bytes
from records.ids import RunId
from records.values import ArtifactRef

ROOTS: Final = 5
SEEDS: Final = 2
CHANGES: Final[tuple[Change, ...]] = CATALOG.contrasts[:4]
TRIALS: Final = ROOTS * SEEDS * (1 + len(CHANGES))
"""Trials of a study; each becomes one Experience."""
_EFFECT: Final = 0.03
_NOISE: Final = 0.002


class Made(NamedTuple):
    """A trial, and the bytes that it left behind."""

    trial: Trial
    predictions: bytes


def trial(number: int, run_id: RunId) -> Made:
    """Return trial `number` of all studies, as made in a Run."""
    study, within = divmod(number, TRIALS)
    cell, arm = divmod(within, 1 + len(CHANGES))
    root, seed = divmod(cell, SEEDS)
    change = None if arm == 0 else CHANGES[arm - 1]
    settings = {} if change is None else {change.knob: change.to_value}
    predictions = f"predictions of trial {number}".encode()
    noise = float(np.random.default_rng([study, root, seed, arm]).normal(0, _NOISE))
    score = 0.6 + root / 50 + seed / 500 + _effect(study, root, arm) + noise
    return Made(
        Trial(
            namespace=SPACE,
            task=_task(study, root),
            contract=CONTRACT,
            catalog_digest=CATALOG.digest,
            run_id=run_id,
            iteration=arm,
            seed=seed,
            change=None if change is None else (change.knob, change.from_value, change.to_value),
            mechanism="baseline" if change is None else change.mechanism,
            config_digest=CATALOG.config_digest(CATALOG.effective_config(settings)),
            baseline_config_digest=CATALOG.config_digest(CATALOG.baseline),
            source_digest=digest_bytes(b"source"),
            environment_digest=digest_bytes(b"environment"),
            model_family=MODEL_FAMILY,
            budget_class=BUDGET,
            artifacts=(ArtifactRef(role="predictions", sha256=digest_bytes(predictions), size_bytes=len(predictions)),),
            verified={METRIC.name: round(score, 6)},
            violations=(),
            times=(NOW, NOW, NOW),
        ),
        predictions,
    )


def _effect(study: int, root: int, arm: int) -> float:
    helps = -_EFFECT if study % 3 == 0 else _EFFECT
    mixed = _EFFECT if root % 2 else -_EFFECT
    return (0.0, helps, -_EFFECT, 0.0, mixed)[arm]


def _task(study: int, root: int) -> TaskIdentity:
    name = f"study-{study}-root-{root}"
    return TaskIdentity(
        name=name,
        root=name,
        domain=CATALOG.domain,
        attributes=corpus.task(study).attributes,
        dataset_digest=digest_bytes(name.encode()),
    )
