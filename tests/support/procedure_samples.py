"""Trajectories made up for tests: chains of trials over the shipped catalog, with the scores that a test gives them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from memory.evidence import Trial, bundle_records
from policies.bundles import cross_validate
from policies.catalog import KnobValue, load_catalog
from records.evidence import Experience, VerifiedEvidenceBundle
from records.ids import RunId
from records.values import ArtifactRef
from tests.support.trials import digest, make_contract, make_task, make_trial

CATALOG: Final = load_catalog("tabular-svm-v1")
DOMAIN: Final = "tabular-classification"
CHANGES: Final[tuple[tuple[str, KnobValue], ...]] = (("scaler", "standard"), ("class_weight", "balanced"))
Scores = dict[str, Sequence[float]]
"""The primary metric at the start and after each change, by dataset root."""

GOOD: Final[Scores] = {"a": (0.5, 0.6, 0.7), "b": (0.5, 0.59, 0.71), "c": (0.6, 0.69, 0.79)}
"""Three roots on which the whole sequence gains 0.2, 0.21 and 0.19."""


def chain(
    root: str,
    scores: Sequence[float],
    *,
    namespace: str = "test",
    run: str = "study",
    seed: int = 0,
    changes: Sequence[tuple[str, KnobValue]] = CHANGES,
    **fields: Any,
) -> list[Trial]:
    """Return one trial for each score: the baseline, then one more change each; other fields go into every trial."""
    contract = fields.pop("contract", make_contract(namespace, domain=DOMAIN))
    task = replace(make_task(root), domain=DOMAIN)
    before, trials = dict(CATALOG.baseline), []
    for place, score in enumerate(scores):
        change = changes[place - 1] if place else None
        after = before | ({change[0]: change[1]} if change else {})
        left = f"{root} {seed} {sorted(after.items())} {score}"
        given: dict[str, Any] = {
            "task": task,
            "contract": contract,
            "catalog_digest": CATALOG.digest,
            "run_id": RunId.derive({"namespace": namespace, "run": run}),
            "iteration": place,
            "seed": seed,
            "change": (change[0], before[change[0]], change[1]) if change else None,
            "mechanism": CATALOG.knobs[change[0]].mechanism if change else "baseline",
            "config_digest": CATALOG.config_digest(after),
            "baseline_config_digest": CATALOG.config_digest(before),
            "model_family": "svm",
            "budget_class": "one-fit",
            "artifacts": (ArtifactRef(role="predictions", sha256=digest(left), size_bytes=12),),
            "verified": {"balanced_accuracy": round(score, 6)},
        }
        trials.append(make_trial(namespace, **(given | fields)))
        before = after
    return trials


def chains(scores: Scores, **fields: Any) -> list[Trial]:
    """Return the trials of one chain for each root."""
    return [trial for root, given in scores.items() for trial in chain(root, given, **fields)]


def bundle(trial: Trial) -> VerifiedEvidenceBundle:
    """Return a trial as the evidence that the policies read."""
    rows = {str(record.id): record for record in bundle_records(trial)}
    experience = next(row for row in rows.values() if isinstance(row, Experience))
    found = cross_validate(experience, rows)
    assert isinstance(found, VerifiedEvidenceBundle), found
    return found


def bundles(trials: Sequence[Trial]) -> list[VerifiedEvidenceBundle]:
    """Return trials as evidence."""
    return list(map(bundle, trials))


def again(trials: Sequence[Trial], run: str) -> Iterator[Trial]:
    """Return the same results as another Run's."""
    return (replace(trial, run_id=RunId.derive({"namespace": trial.namespace, "run": run})) for trial in trials)
