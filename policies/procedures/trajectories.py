"""Trajectories: verified runs that follow one another, each starting from where the one before it ended.

Pure. Rules kept here (docs/adr/0032):

- the runs of one Run, evaluation task and seed are read in order of iteration. They form a trajectory as far as they
  chain: the first is a baseline, each later one changes one knob of the configuration before it, the iterations have no
  gap, and every run is completed and verified valid. What comes after the first break belongs to no trajectory;
- every beginning of a chain, of two runs or more, is a trajectory as well: that the runs went on takes nothing away
  from what they had shown by then;
- two trajectories are comparable if their whole route is the same: changes in order, configurations, catalog, task
  scope, contract, model family, budget class and source;
- the support unit of a trajectory is what it shows: stratum, seed, changes and the evidence of every run. The same
  evidence imported twice is one unit: that of a chain that ended there rather than of one that went on, and of the
  earlier import.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise

from policies.admission import refusal
from policies.distillation_policy import DistillationPolicy
from policies.effects import PairedDelta
from policies.failures import broken
from policies.procedures.policy import ProcedureReason
from policies.strata import stratum_of
from records.evidence import EvaluationContract, Manipulation, VerifiedEvidenceBundle
from records.ids import EvaluationTaskId, ExperienceId, RunId, StratumId, SupportUnitId, TaskScopeId
from records.values import DecisionPoint, Direction, Knob

Chain = tuple[VerifiedEvidenceBundle, ...]
_Place = tuple[RunId, EvaluationTaskId, int]


@dataclass(frozen=True, kw_only=True)
class Route:
    """What comparable trajectories share; `configs` are the digests at the start and after each change."""

    namespace: str
    decision_point: DecisionPoint
    changes: tuple[Knob, ...]
    configs: tuple[str, ...]
    catalog_digest: str
    task_scope_id: TaskScopeId
    contract_digest: str
    domain: str
    model_family: str
    budget_class: str
    source_digest: str

    def begins(self, longer: Route) -> bool:
        """Tell whether this is a shorter route that another one begins with."""
        size = len(self.changes)
        return size < len(longer.changes) and self == replace(
            longer, changes=longer.changes[:size], configs=longer.configs[: size + 1]
        )


@dataclass(frozen=True, kw_only=True)
class Trajectory:
    """One chain of runs, or a beginning of one.

    Attributes:
        rerun: how many came before it of the same route, stratum and seed with another result.
        went_on: whether its runs are the beginning of a longer chain.
    """

    route: Route
    stratum_id: StratumId
    support_unit_id: SupportUnitId
    runs: Chain
    rerun: int
    went_on: bool

    @property
    def start(self) -> VerifiedEvidenceBundle:
        """The run of the configuration that it starts from."""
        return self.runs[0]

    @property
    def end(self) -> VerifiedEvidenceBundle:
        """The run after the last change."""
        return self.runs[-1]

    @property
    def closing_id(self) -> ExperienceId:
        """The Experience that closes it, and leads the procedure made of it."""
        return ExperienceId(self.end.experience.id)

    @property
    def contract(self) -> EvaluationContract:
        """The contract of all of its runs."""
        return self.start.contract

    @property
    def seconds(self) -> float:
        """How long its runs took together, by the times that their observations hold."""
        return sum(_seconds(run) for run in self.runs)

    def values(self, metric: str) -> tuple[float, ...] | None:
        """Return a verified metric of every run in order, or None where a run has it not."""
        found = tuple(value for run in self.runs if (value := run.verification.metric(metric)) is not None)
        return found if len(found) == len(self.runs) else None

    def gains(self, metric: str, direction: Direction) -> tuple[float, ...]:
        """Return what each change gained over the run before it, positive where the metric got better."""
        values = self.values(metric) or ()
        return tuple(_gain(_pair(self, before, after).delta, direction) for before, after in pairwise(values))

    def delta(self, metric: str, place: int = -1) -> PairedDelta | None:
        """Return the start beside the run at a place, the last one unless told; None where one has it not."""
        values = self.values(metric)
        return None if values is None else _pair(self, values[0], values[place])

    def total(self, place: int = -1) -> float:
        """Return what the primary metric gained from the start to a run, positive where it got better."""
        metric = self.contract.primary_metric
        pair = self.delta(metric.name, place)
        return 0.0 if pair is None else _gain(pair.delta, metric.direction)


@dataclass(frozen=True, kw_only=True)
class TrajectoryTable:
    """The trajectories of some bundles in a fixed order, and why runs belong to none; a duplicate's closing run too.

    Attributes:
        trajectories: the chains, as far as each goes; beginnings: the beginnings of those of three runs or more.
    """

    trajectories: tuple[Trajectory, ...]
    beginnings: tuple[Trajectory, ...]
    refused: Mapping[ExperienceId, ProcedureReason]
    duplicates: frozenset[ExperienceId]


def read_trajectories(bundles: Iterable[VerifiedEvidenceBundle], policy: DistillationPolicy) -> TrajectoryTable:
    """Return the trajectories of bundles; neither their order nor a bundle that comes twice makes a difference."""
    refused: dict[ExperienceId, ProcedureReason] = {}
    found: list[Trajectory] = []
    for runs in _groups(bundles).values():
        chain = _chain(runs, policy)
        for run in runs[len(chain) :]:
            refused[ExperienceId(run.experience.id)] = ProcedureReason.NOT_A_CHAIN
        if len(chain) > 1:
            found += (_trajectory(chain, size, policy) for size in range(2, len(chain) + 1))
        elif chain:
            typed = any(run.intervention.knob is not None for run in runs)
            reason = ProcedureReason.NOT_A_CHAIN if typed else ProcedureReason.PROSE_ONLY
            refused[ExperienceId(chain[0].experience.id)] = reason
    return _without_duplicates(found, refused)


def _groups(bundles: Iterable[VerifiedEvidenceBundle]) -> Mapping[_Place, list[VerifiedEvidenceBundle]]:
    unique = {str(bundle.experience.id): bundle for bundle in bundles}
    groups: dict[_Place, list[VerifiedEvidenceBundle]] = defaultdict(list)
    for bundle in sorted(unique.values(), key=lambda each: (each.attempt.iteration, each.experience.id)):
        attempt = bundle.attempt
        groups[attempt.run_id, attempt.evaluation_task_id, attempt.seed].append(bundle)
    return dict(sorted(groups.items()))


def _chain(runs: list[VerifiedEvidenceBundle], policy: DistillationPolicy) -> Chain:
    """Return the longest beginning of runs, in order of iteration, that is a chain."""
    chain: list[VerifiedEvidenceBundle] = []
    for run in runs:
        if not _is_sound(run, policy) or not (_follows(chain[-1], run) if chain else _begins(run)):
            break
        chain.append(run)
    again = {run.attempt.iteration for run in runs[len(chain) :]}
    # Two runs of one iteration: nobody can say which of them was the trajectory's.
    return tuple(run for run in chain if run.attempt.iteration < min(again, default=run.attempt.iteration + 1))


def _is_sound(run: VerifiedEvidenceBundle, policy: DistillationPolicy) -> bool:
    """Tell whether a run worked, was measured, and may be drafted from at all, as a rule's would be."""
    measured = run.verification.metric(run.contract.primary_metric.name) is not None
    return measured and broken(run) is None and refusal(run, policy) is None


def _begins(run: VerifiedEvidenceBundle) -> bool:
    return run.intervention.manipulation is Manipulation.BASELINE


def _follows(before: VerifiedEvidenceBundle, run: VerifiedEvidenceBundle) -> bool:
    return (
        run.intervention.manipulation is Manipulation.CHANGED
        and run.attempt.iteration == before.attempt.iteration + 1
        and run.intervention.baseline_config_digest == before.intervention.config_digest
        and _context(run) == _context(before)
    )


def _context(run: VerifiedEvidenceBundle) -> tuple[str, ...]:
    """Return what stays the same along a trajectory, environment and corpus included."""
    attempt = run.attempt
    return (
        run.intervention.catalog_digest, run.intervention.decision_point, attempt.task_scope_id, attempt.dataset_digest,
        run.contract.id, attempt.model_family, attempt.budget_class, attempt.source_digest, attempt.corpus,
        run.observation.environment_digest,
    )  # fmt: skip


def _trajectory(whole: Chain, size: int, policy: DistillationPolicy) -> Trajectory:
    """Return the trajectory of the first runs of a chain."""
    chain = whole[:size]
    stratum, changes = stratum_of(chain[0], policy), tuple(run.intervention.knob for run in chain[1:])
    unit = SupportUnitId.derive(
        {
            "stratum_id": stratum,
            "seed": chain[0].attempt.seed,
            "changes": [change.as_json() for change in changes if change is not None],
            "evidence": [run.provenance.evidence_digest for run in chain],
        }
    )
    return Trajectory(
        route=_route(chain),
        stratum_id=stratum,
        support_unit_id=unit,
        runs=chain,
        rerun=0,
        went_on=size < len(whole),
    )


def _route(chain: Chain) -> Route:
    start = chain[0]
    return Route(
        namespace=start.attempt.namespace,
        decision_point=start.intervention.decision_point,
        changes=tuple(knob for run in chain[1:] if (knob := run.intervention.knob) is not None),
        configs=tuple(run.intervention.config_digest for run in chain),
        catalog_digest=start.intervention.catalog_digest,
        task_scope_id=start.attempt.task_scope_id,
        contract_digest=start.contract.comparability_digest,
        domain=start.contract.domain,
        model_family=start.attempt.model_family,
        budget_class=start.attempt.budget_class,
        source_digest=start.attempt.source_digest,
    )


def _without_duplicates(found: list[Trajectory], refused: dict[ExperienceId, ProcedureReason]) -> TrajectoryTable:
    seen: set[SupportUnitId] = set()
    reruns: dict[tuple[Route, StratumId, int], int] = defaultdict(int)
    kept: list[Trajectory] = []
    duplicates: set[ExperienceId] = set()
    for each in sorted(found, key=lambda item: (item.went_on, item.end.attempt.created_at, item.closing_id)):
        if each.support_unit_id in seen:
            duplicates |= set() if each.went_on else {each.closing_id}
            continue
        seen.add(each.support_unit_id)
        place = (each.route, each.stratum_id, each.start.attempt.seed)
        kept.append(replace(each, rerun=reruns[place]))
        reruns[place] += 1
    return TrajectoryTable(
        trajectories=tuple(each for each in kept if not each.went_on),
        beginnings=tuple(each for each in kept if each.went_on),
        refused=refused,
        duplicates=frozenset(duplicates),
    )


def _pair(trajectory: Trajectory, before: float, after: float) -> PairedDelta:
    attempt = trajectory.start.attempt
    seed = f"{attempt.seed}#{trajectory.rerun}" if trajectory.rerun else str(attempt.seed)
    return PairedDelta(
        root=attempt.dataset_root,
        evaluation_task=trajectory.stratum_id,
        seed=seed,
        baseline=before,
        changed=after,
    )


def _gain(delta: float, direction: Direction) -> float:
    return delta if direction is Direction.MAXIMIZE else -delta


def _seconds(run: VerifiedEvidenceBundle) -> float:
    began, ended = (datetime.fromisoformat(each) for each in (run.observation.started_at, run.observation.completed_at))
    return max((ended - began).total_seconds(), 0.0)
