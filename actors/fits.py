"""Experiments as Ray tasks: the custodian's split, the fits, the evaluator; three tasks that share no secret.

A fit task gets the public problem only. Its predictions and configuration go into the artifact store before anything is
returned, so that a driver which dies loses no result that it was told of.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import ray

from actors.settings import now
from experiments.evaluator.client import evaluate
from experiments.evaluator.protocol import EvaluationRequest, EvaluationResult, EvaluatorSettings
from experiments.tabular.custody import CustodyReceipt, take_custody
from experiments.tabular.pipelines import fit_predict, predictions_bytes
from experiments.tabular.tasks import load_task
from policies.catalog import Config
from records.canonical import canonical_bytes
from records.values import ArtifactRef
from store.artifacts import ArtifactStore


@dataclass(frozen=True)
class Folders:
    """Where the custodian keeps public problems and private labels, and where artifacts go."""

    public: str
    private: str
    artifacts_url: str


@dataclass(frozen=True)
class Fit:
    """One finished fit: its artifacts, times and what the runner says of itself."""

    artifacts: tuple[ArtifactRef, ...]
    started_at: str
    completed_at: str
    seconds: float
    converged: bool

    @property
    def predictions(self) -> ArtifactRef:
        """The reference of the stored predictions."""
        return next(item for item in self.artifacts if item.role == "predictions")


@ray.remote(num_cpus=1)
def split(task_name: str, seeds: Sequence[int], folders: Folders) -> list[CustodyReceipt]:
    """The custodian: write public problems and private labels of one task for several seeds."""
    task = load_task(task_name)
    return [take_custody(task, seed, Path(folders.public), Path(folders.private)) for seed in seeds]


@ray.remote(num_cpus=1)
def fit_all(
    problem: str, problem_sha256: str, configs: Sequence[Config], seed: int, folders: Folders
) -> list[Fit]:
    """The runner: fit several configurations on one problem, one after the other."""
    artifacts = ArtifactStore(folders.artifacts_url)
    return [_fit(Path(problem), problem_sha256, config, seed, artifacts) for config in configs]


@ray.remote(num_cpus=1)
def judge(
    requests: Sequence[EvaluationRequest], contract: EvaluatorSettings, folders: Folders, workdir: str
) -> list[EvaluationResult]:
    """Start the independent evaluator in its own process and return what it found."""
    return evaluate(
        list(requests),
        contract=contract,
        private_dir=Path(folders.private),
        artifact_dir=Path(folders.artifacts_url),
        workdir=Path(workdir),
    )


def _fit(problem: Path, sha256: str, config: Config, seed: int, artifacts: ArtifactStore) -> Fit:
    started = now()
    predictions = fit_predict(problem, config, seed, sha256)
    completed = now()
    data, settings = predictions_bytes(predictions), canonical_bytes(config)
    digests = artifacts.publish_many([data, settings])
    return Fit(
        artifacts=(
            ArtifactRef(role="predictions", sha256=digests[0], size_bytes=len(data)),
            ArtifactRef(role="config", sha256=digests[1], size_bytes=len(settings), media_type="application/json"),
        ),
        started_at=started,
        completed_at=completed,
        seconds=predictions.seconds,
        converged=predictions.converged,
    )
