"""Questions about published tables that ship with the project.

Rules kept here:

- a table is imported as a user imports it, into a Ledger of its own, and distilled by the same path;
- a question is about one task of a table and one knob of its catalog, or about all knobs at once, from the settings
  that the table calls its defaults;
- the answer is computed from the bare numbers of the table with numpy and scipy: a one-sample t test over paired seeds,
  or Welch's over arms that share no seed, Benjamini-Hochberg over the changes of the task, and an effect beyond the
  margin. A change of an arm that differs in budget or machine has no comparator. Nothing of policies is used.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from scipy import stats

from evaluation.retrieval.questions import Act, Question, Stratum, grade_of
from evaluation.writer.groups import SPACE
from evaluation.writer.path import Writer
from importers.published_table import HPOBENCH_MLP, contract, import_run, read_published_table, trials
from memory.evidence import Trial
from policies.catalog import InterventionCatalog, value_text
from records.evidence import EvaluationContract
from records.values import ActionKind, Direction, MemoryScope, MetricSpec

TABLES: Final = ("nanogpt_arms", "hpobench_mlp_axes")
_Q: Final = 0.05
"""The false discovery rate at which a change of a table counts as shown."""
LEAST_RUNS: Final = 5
"""Runs a side below which one task does not speak for itself."""
_SEVERAL: Final = 2
Place = tuple[str, str, str, str]
"""Environment, source, budget class and model family, which a comparison must share."""
Made = tuple[tuple[str, object, object], Place]
"""A change and where it was made."""


@dataclass(frozen=True)
class Shown:
    """What the numbers of one task say about a change: mean difference, p value, whether it is for the better."""

    mean: float
    p_value: float
    helps: bool


@dataclass(frozen=True)
class Table:
    """A table's writer, which has learned from it, and the questions."""

    name: str
    writer: Writer
    questions: tuple[Question, ...]


def learned(name: str, writer: Writer) -> Table:
    """Import a table into the Ledger of a writer, distil it, and return what is asked about it."""
    table = read_published_table(HPOBENCH_MLP.parent / name)
    found = list(trials(table, SPACE, writer.artifacts))
    writer.import_trials(import_run(table, SPACE), found)
    return Table(name, writer, tuple(_questions(name, contract(table, SPACE), found, table.catalog)))


def _questions(
    name: str, agreed: EvaluationContract, found: Sequence[Trial], catalog: InterventionCatalog
) -> Iterator[Question]:
    by_task: dict[str, list[Trial]] = defaultdict(list)
    for trial in found:
        by_task[trial.task.name].append(trial)
    for task, runs in sorted(by_task.items()):
        grades = _grades(agreed, runs)
        changed = [(trial.change[0], value_text(trial.change[2]), trial) for trial in runs if trial.change is not None]
        asking = {(knob, _place(trial)): trial for knob, _, trial in changed}
        for number, ((knob, place), trial) in enumerate(sorted(asking.items(), key=lambda item: item[0])):
            there = {(knob, value) for other, value, run in changed if other == knob and _place(run) == place}
            own = {
                act: grades[act, place]
                for act, _ in grades
                if (act.knob, act.value) in there and (act, place) in grades
            }
            yield _question(f"{name}/{task}/{knob}/{number}", agreed, trial, catalog, own, frozenset({knob}))
        if len({place for _, place in asking}) == 1 < len(asking):
            whole = {act: grade for (act, _), grade in grades.items()}
            yield _question(f"{name}/{task}/any", agreed, next(iter(asking.values())), catalog, whole)


def _question(  # noqa: PLR0917  # the parts of one question
    name: str,
    agreed: EvaluationContract,
    trial: Trial,
    catalog: InterventionCatalog,
    grades: Mapping[Act, int],
    only: frozenset[str] = frozenset(),
) -> Question:
    task, knobs = trial.task, ", ".join(sorted(only)) or "any setting"
    scope = MemoryScope(
        task_scope_id=task.task_scope_id,
        evaluation_task_id=task.evaluation_task_id,
        domain=agreed.domain,
        dataset_digest=task.dataset_digest,
        source_digest=trial.source_digest,
        model_family=trial.model_family,
        environment_digest=trial.environment_digest,
        contract_digest=agreed.comparability_digest,
        budget_class=trial.budget_class,
        visibility=SPACE,
    )
    return Question(
        name=name,
        origin=name.partition("/")[0],
        stratum=(Stratum.ABSTAIN, Stratum.ONE, Stratum.SEVERAL)[min(len(grades), _SEVERAL)],
        scope=scope,
        contract=agreed,
        catalog=catalog,
        text=f"Is a change of {knobs} worth a run on {task.name} ({task.scope_description})?",
        config=catalog.baseline,
        grades=grades,
        only=only,
    )


def _place(trial: Trial) -> Place:
    return trial.environment_digest, trial.source_digest, trial.budget_class, trial.model_family


def _grades(agreed: EvaluationContract, runs: Sequence[Trial]) -> dict[tuple[Act, Place], int]:
    """Return what the runs of one task show, by act and place; a gain that is paid for with a guardrail is no act."""
    primary, margin = agreed.primary_metric, float(agreed.equivalence_margin)
    shown = {made: found for made in _changes(runs) if (found := _compared(primary, runs, made)) is not None}
    adjusted = stats.false_discovery_control([found.p_value for found in shown.values()]) if shown else []
    grades = {}
    for ((change, place), found), p_value in zip(shown.items(), adjusted, strict=True):
        if p_value > _Q or abs(found.mean) <= margin or _is_trade(agreed, runs, (change, place), helps=found.helps):
            continue
        action = ActionKind.RECOMMEND if found.helps else ActionKind.AVOID
        grades[Act(change[0], value_text(change[2]), action), place] = grade_of(found.mean, margin, action)
    return grades


def _is_trade(agreed: EvaluationContract, runs: Sequence[Trial], made: Made, *, helps: bool) -> bool:
    guards = (_compared(guard, runs, made) for guard in agreed.guardrail_metrics)
    return any(found.helps != helps for found in guards if found is not None and found.p_value <= _Q)


def _changes(runs: Iterable[Trial]) -> list[Made]:
    return list(dict.fromkeys((trial.change, _place(trial)) for trial in runs if trial.change is not None))


def _compared(metric: MetricSpec, runs: Sequence[Trial], made: Made) -> Shown | None:
    """Return what a change does beside the baselines that share everything else; None where too few runs say so."""
    changed = [trial for trial in runs if (trial.change, _place(trial)) == made]
    beside = [
        trial
        for trial in runs
        if trial.change is None
        and any(
            (_place(trial), trial.config_digest) == (_place(other), other.baseline_config_digest) for other in changed
        )
    ]
    before, after = ({trial.seed: trial.verified[metric.name] for trial in side} for side in (beside, changed))
    shared = sorted(before.keys() & after.keys())
    if len(shared) >= LEAST_RUNS:
        deltas = np.array([after[seed] - before[seed] for seed in shared])
        return _shown(metric, deltas.mean(), stats.ttest_1samp(deltas, 0.0).pvalue if deltas.std() > 0 else 1.0)
    if min(len(before), len(after)) < LEAST_RUNS:
        return None
    sides = list(after.values()), list(before.values())
    return _shown(metric, np.mean(sides[0]) - np.mean(sides[1]), stats.ttest_ind(*sides, equal_var=False).pvalue)


def _shown(metric: MetricSpec, mean: Any, p_value: Any) -> Shown:
    return Shown(float(mean), float(p_value), helps=(float(mean) > 0) == (metric.direction is Direction.MAXIMIZE))
