"""Experiments as Ray tasks: the custodian's split, the fits, the evaluator; three tasks that share no secret.

A fit task gets the public problem only. Its predictions, and the configuration, environment and data digests that they
came from, go into the artifact store before anything is returned, so that a driver which dies loses no result that it
was told of.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import ray
from ray.exceptions import RayTaskError

from actors.settings import now
from experiments.evaluator.client import evaluate
from experiments.evaluator.protocol import EvaluationRequest, EvaluationResult, EvaluatorSettings
from experiments.fingerprint import environment
from experiments.tabular.custody import CustodyReceipt, take_custody
from experiments.tabular.pipelines import fit_predict, predictions_bytes
from experiments.tabular.tasks import load_task
from policies.catalog import Config
from records.canonical import canonical_bytes
from records.errors import VrmError
from records.values import ArtifactRef
from store.artifacts import ArtifactStore

_JSON = "application/json"
_MEDIA = {"predictions": "application/zip"}


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


@dataclass(frozen=True)
class Problem:
    """What the runner gets of a task: the public file, its digest and the seed; nothing of the labels."""

    task: str
    path: str
    sha256: str
    seed: int


@dataclass(frozen=True)
class Block:
    """Configurations to fit on one problem, one after the other, with the custodian's receipt for it."""

    custody: CustodyReceipt
    configs: tuple[Config, ...]

    @property
    def problem(self) -> Problem:
        """The public half of the receipt."""
        custody = self.custody
        return Problem(custody.task_name, str(custody.problem_path), custody.problem_sha256, custody.seed)


def split_all(seeds: Mapping[str, Sequence[int]], folders: Folders) -> Iterator[CustodyReceipt]:
    """Let the custodian split tasks for seeds; yields every receipt."""
    tasks = [_split.remote(task, sorted(wanted), folders) for task, wanted in sorted(seeds.items())]
    for receipts in ray.get(tasks):
        yield from receipts


def fit_blocks(blocks: Sequence[Block], folders: Folders) -> Iterator[tuple[int, list[Fit]]]:
    """Fit blocks in parallel; yields the place of a block and its fits, as they are finished."""
    running = {_fit_all.remote(block.problem, block.configs, folders): place for place, block in enumerate(blocks)}
    while running:
        done, _ = ray.wait(list(running), num_returns=1)
        yield running.pop(done[0]), ray.get(done[0])


def judged(
    requests: Sequence[EvaluationRequest], contract: EvaluatorSettings, folders: Folders, workdir: Path
) -> list[EvaluationResult]:
    """Let the independent evaluator judge predictions, in a process of its own.

    Raises:
        EvaluatorError: it crashed, hung or gave an answer that is none.
    """
    if not requests:
        return []
    try:
        results: list[EvaluationResult] = ray.get(_judge.remote(requests, contract, folders, str(workdir)))
    except RayTaskError as error:
        if isinstance(error.cause, VrmError):
            raise error.cause from error
        raise
    return results


@ray.remote(num_cpus=1)
def _split(task_name: str, seeds: Sequence[int], folders: Folders) -> list[CustodyReceipt]:
    """The custodian: write public problems and private labels of one task for several seeds."""
    task = load_task(task_name)
    return [take_custody(task, seed, Path(folders.public), Path(folders.private)) for seed in seeds]


@ray.remote(num_cpus=1)
def _fit_all(problem: Problem, configs: Sequence[Config], folders: Folders) -> list[Fit]:
    """The runner: fit several configurations on one problem, one after the other."""
    artifacts = ArtifactStore(folders.artifacts_url)
    return [_fit(problem, config, artifacts) for config in configs]


@ray.remote(num_cpus=1)
def _judge(
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


def _fit(problem: Problem, config: Config, artifacts: ArtifactStore) -> Fit:
    """Fit one configuration and store what it left: predictions, and what they came from."""
    started = now()
    predictions = fit_predict(Path(problem.path), config, problem.seed, problem.sha256)
    completed = now()
    dataset = {"task": problem.task, "seed": problem.seed, "problem_sha256": problem.sha256}
    left = {
        "predictions": predictions_bytes(predictions),
        "config": canonical_bytes(config),
        "environment": canonical_bytes(environment()),
        "dataset": canonical_bytes(dataset),
    }
    digests = artifacts.publish_many(list(left.values()))
    return Fit(
        artifacts=tuple(
            ArtifactRef(role=role, sha256=digest, size_bytes=len(data), media_type=_MEDIA.get(role, _JSON))
            for (role, data), digest in zip(left.items(), digests, strict=True)
        ),
        started_at=started,
        completed_at=completed,
        seconds=predictions.seconds,
        converged=predictions.converged,
    )
