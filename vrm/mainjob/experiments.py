"""Running experiments: settings in, verified evidence in the Ledger out.

Every setting has an operation key. What the Ledger holds under its key is not run again, so a job that was killed goes
on where it stopped, and a second run of a round runs nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from actors.fits import Block, Fit, fit_blocks, judged, split_all
from experiments.evaluator.protocol import EvaluationRequest
from experiments.tabular.custody import CustodyReceipt
from memory.evidence import Trial, bundle_records
from memory.leases import spending
from policies.catalog import InterventionCatalog
from records.appends import Append, AppendReceipt
from records.base import Record
from records.canonical import domain_digest
from records.errors import NotFoundError
from records.evidence import Attempt, EvaluationContract, Experience, Intervention, Verification
from records.flows import Transition
from records.ids import AttemptId, ExperienceId, HypothesisId, InterventionId, RunId
from vrm.mainjob.job import Job, require
from vrm.mainjob.tabular import EVALUATOR, Setting, trial_of

BATCH = 128
"""Fits that one evaluator process judges; starting it costs a second or so."""

EXPERIMENTS: Final = "experiments"
"""The resource of which each experiment is charged one, before it runs."""


@dataclass(frozen=True)
class Fitted:
    """A setting with its fit and the custodian's receipt."""

    setting: Setting
    fit: Fit
    custody: CustodyReceipt


@dataclass(frozen=True)
class Verified:
    """A setting with its evidence in the Ledger; an invalid result has no metrics."""

    setting: Setting
    experience_id: ExperienceId
    attempt_id: AttemptId
    hypothesis_id: HypothesisId
    intervention_id: InterventionId
    config_digest: str
    metrics: Mapping[str, float]


class Experiments:
    """Runs settings of one catalog under one contract."""

    def __init__(self, job: Job, catalog: InterventionCatalog, contract: EvaluationContract) -> None:
        """Run within `job`."""
        self._job = job
        self._catalog = catalog
        self._contract = contract
        self._splits: dict[tuple[str, int], CustodyReceipt] = {}

    def key(self, setting: Setting) -> str:
        """Return the operation key of a setting."""
        parts = [setting.run_id, setting.task, setting.seed, setting.iteration, self._digest(setting)]
        return f"trial/{domain_digest('trial-key', parts)}"

    def missing(self, settings: Sequence[Setting]) -> list[Setting]:
        """Return the settings whose evidence the Ledger does not hold yet."""
        keys = [self.key(setting) for setting in settings]
        known = self._job.stores.ledger.receipts(self._job.namespace, keys)
        return [setting for setting, key in zip(settings, keys, strict=True) if key not in known]

    def run(self, settings: Sequence[Setting], step: str) -> None:
        """Run what is missing and append its evidence; what fits together is judged and committed together."""
        missing = self._begun(settings)
        with self._job.step(step, len(settings)) as advance:
            advance(len(settings) - len(missing))
            waiting: list[Fitted] = []
            for group in self._fits(missing):
                waiting += group
                if len(waiting) >= BATCH:
                    self.commit(self._judged(waiting))
                    waiting = []
                advance(len(group))
            if waiting:
                self.commit(self._judged(waiting))

    def run_wave(self, settings: Sequence[Setting]) -> list[Verified]:
        """Run a wave of settings and return each with its evidence, in order; what is there already is read back."""
        missing = self._begun(settings)
        self.commit(self._judged([fitted for group in self._fits(missing) for fitted in group]))
        return self.read_back(settings)

    def run_unrecorded(self, settings: Sequence[Setting]) -> list[Verified]:
        """Run settings and return each with what the evaluator found, in order; nothing is appended or charged."""
        judged = self._judged([fitted for group in self._fits(settings) for fitted in group])
        found = {self.key(setting): verified_of(setting, bundle_records(trial)) for setting, trial in judged}
        return [found[self.key(setting)] for setting in settings]

    def read_back(self, settings: Sequence[Setting]) -> list[Verified]:
        """Return the evidence that the Ledger holds for settings, in order.

        Raises:
            NotFoundError: a setting has none.
        """
        keys = [self.key(setting) for setting in settings]
        receipts = self._job.stores.ledger.receipts(self._job.namespace, keys)
        wanted = [record_id for receipt in receipts.values() for record_id in receipt.record_ids]
        records = {key: item.load() for key, item in self._job.stores.ledger.get_many(wanted).items()}
        return [_read_back(setting, receipts.get(key), records) for setting, key in zip(settings, keys, strict=True)]

    def commit(self, judged: Sequence[tuple[Setting, Trial]]) -> None:
        """Append the evidence of judged trials under their operation keys."""
        appends = [
            Append.direct(Transition.APPEND_EVIDENCE, self.key(setting), bundle_records(trial))
            for setting, trial in judged
        ]
        require(self._job.spine.direct(appends))

    def _begun(self, settings: Sequence[Setting]) -> list[Setting]:
        """Return the settings that are to run now, after charging them to their Runs; the same ones are charged once.

        Raises:
            BudgetExceededError: a Run may not have that many more; nothing is run.
        """
        missing = self.missing(settings)
        keys: dict[RunId, list[str]] = defaultdict(list)
        for setting in missing:
            keys[setting.run_id].append(self.key(setting))
        self._job.apply(
            [
                spending(run_id, domain_digest("experiments-key", own), {EXPERIMENTS: len(own)})
                for run_id, own in keys.items()
            ]
        )
        return missing

    def _fits(self, settings: Sequence[Setting]) -> Iterator[list[Fitted]]:
        """Yield groups of finished fits as they come; one group per task and seed."""
        self._take_custody(settings)
        groups: dict[tuple[str, int], list[Setting]] = defaultdict(list)
        for setting in settings:
            groups[setting.task, setting.seed].append(setting)
        places = list(groups)
        blocks = [Block(self._splits[place], tuple(setting.config for setting in groups[place])) for place in places]
        for number, fits in fit_blocks(blocks, self._job.folders):
            custody, group = blocks[number].custody, groups[places[number]]
            yield [Fitted(setting, fit, custody) for setting, fit in zip(group, fits, strict=True)]

    def _take_custody(self, settings: Sequence[Setting]) -> None:
        seeds: dict[str, list[int]] = defaultdict(list)
        for task, seed in sorted({(setting.task, setting.seed) for setting in settings} - self._splits.keys()):
            seeds[task].append(seed)
        for receipt in split_all(seeds, self._job.folders):
            self._splits[receipt.task_name, receipt.seed] = receipt

    def _judged(self, fitted: Sequence[Fitted]) -> list[tuple[Setting, Trial]]:
        artifacts = self._job.stores.artifacts
        requests = [
            EvaluationRequest(
                observation_key=self.key(item.setting),
                predictions_path=artifacts.location(item.fit.predictions.sha256),
                predictions_sha256=item.fit.predictions.sha256,
                labels_path=str(item.custody.labels_path),
                labels_sha256=item.custody.labels_sha256,
            )
            for item in fitted
        ]
        results = judged(requests, EVALUATOR, self._job.folders, self._job.work_folder)
        return [
            (item.setting, trial_of(item.setting, item.fit, result, self._catalog, self._contract))
            for item, result in zip(fitted, results, strict=True)
        ]

    def _digest(self, setting: Setting) -> str:
        return self._catalog.config_digest(setting.config)


def verified_of(setting: Setting, bundle: Sequence[Record]) -> Verified:
    """Return a setting with what the records of its bundle say."""
    attempt = next(item for item in bundle if isinstance(item, Attempt))
    experience = next(item for item in bundle if isinstance(item, Experience))
    verification = next(item for item in bundle if isinstance(item, Verification))
    intervention = next(item for item in bundle if isinstance(item, Intervention))
    return Verified(
        setting=setting,
        experience_id=ExperienceId(experience.id),
        attempt_id=AttemptId(attempt.id),
        hypothesis_id=attempt.hypothesis_id,
        intervention_id=InterventionId(intervention.id),
        config_digest=attempt.config_digest,
        metrics={item.name: float(item.value) for item in verification.verified_metrics},
    )


def _read_back(setting: Setting, receipt: AppendReceipt | None, records: Mapping[str, Record]) -> Verified:
    if receipt is None:
        raise NotFoundError("evidence", f"{setting.task}, seed {setting.seed}", "Run the job again; it will be run.")
    return verified_of(setting, [records[record_id] for record_id in receipt.record_ids])
