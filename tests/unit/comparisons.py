"""Runs for tests of comparisons: arms, pairs and levels, with what each run leaves behind told apart by its label."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from memory.evidence import TaskIdentity
from policies.contrasts import tabulate
from policies.distillation_policy import DistillationPolicy, distillation_policy
from policies.distiller import VariantVerdict, judge
from records.evidence import VerifiedEvidenceBundle
from records.ids import ExperienceId, RunId
from records.values import ArtifactRef
from tests.support.trials import digest, make_task
from tests.unit.test_contrasts import baseline, changed

POLICY = distillation_policy()
FIRST = distillation_policy("1")


def left_behind(label: str) -> tuple[ArtifactRef, ...]:
    """Return the predictions of one run; another label is another run's."""
    return (ArtifactRef(role="predictions", sha256=digest(label), size_bytes=1),)


def run(label: str, value: float, *, seed: int, change: Any = ("scaler", "none", "standard"), **fields: Any) -> Any:
    """Return one run with its balanced accuracy; `change=None` makes it a baseline."""
    own = {
        "run_id": RunId.derive({"run": label}),
        "artifacts": left_behind(label),
        "seed": seed,
        "verified": {"balanced_accuracy": value},
        **fields,
    }
    return baseline(**own) if change is None else changed(change=change, **own)


def arms(changed_values: Sequence[float], baseline_values: Sequence[float], **fields: Any) -> list[Any]:
    """Return two arms of one task, no run of which shares its seed with another."""
    name = str(sorted((key, str(value)) for key, value in fields.items()))
    before = [
        run(f"b{at}{value}{name}", value, seed=1000 + at, **fields | {"change": None})
        for at, value in enumerate(baseline_values)
    ]
    after = [run(f"c{at}{value}{name}", value, seed=2000 + at, **fields) for at, value in enumerate(changed_values)]
    return before + after


def paired(deltas: Iterable[float], *, start: float = 0.5, first: int = 0, **fields: Any) -> list[Any]:
    """Return one pair of runs per delta, each of a seed of its own, from `first` on."""
    name = str(sorted((key, str(value)) for key, value in fields.items()))
    found = []
    for seed, delta in enumerate(deltas, start=first):
        found.append(run(f"b{seed}{name}", start, seed=seed, **fields | {"change": None}))
        found.append(run(f"c{seed}{name}", round(start + delta, 9), seed=seed, **fields))
    return found


def roots(deltas: dict[str, float], **fields: Any) -> list[Any]:
    """Return one pair of runs for each dataset root."""
    return [each for root, delta in deltas.items() for each in paired([delta], task=task(root), **fields)]


def task(name: str, root: str | None = None) -> TaskIdentity:
    """Return a task of the one scope."""
    return replace(make_task(name, root), attributes={"problem": "multiclass", "size": "small"})


def verdicts(
    bundles: Iterable[VerifiedEvidenceBundle], policy: DistillationPolicy = POLICY, knob: str = "scaler"
) -> list[VariantVerdict]:
    """Return the verdicts about one knob, widest scope first."""
    found = judge(tabulate(bundles, policy), policy).values()
    about = [verdict for verdict in found if verdict.variant.target.knob.name == knob]
    return sorted(about, key=lambda verdict: (len(verdict.variant.bound), verdict.scope_variant_id))


def ids(bundles: Iterable[VerifiedEvidenceBundle]) -> set[ExperienceId]:
    """Return the ids of the Experiences of bundles."""
    return {ExperienceId(bundle.experience.id) for bundle in bundles}
