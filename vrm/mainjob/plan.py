"""What the main job does in one round: which tasks, seeds and contrasts, and which held-out decisions. Pure.

A store is extended round by round: round 0 has the first seeds, every later round brings new ones, so that running the
job again adds evidence and repeats nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from experiments.tabular.tasks import load_task, task_names
from policies.catalog import InterventionCatalog, KnobValue
from policies.modes import MEMORY, Arm, ModeRules, arms_of, rules_of
from policies.retrieval_policy import RetrievalPolicy, retrieval_policy, shipped_policy
from records.canonical import domain_digest
from records.governance import Mode
from records.ids import RecallInputId, RunId
from records.runtime import RunBody
from records.values import CampaignProfile, PolicyIdentity

PUBLISHED_AT: Final = "2026-11-30T00:00:00.000000Z"
"""When the contracts and profiles below were published; what is derived from them is the same on every day."""

PROFILE: Final = CampaignProfile(
    profile="campaign-default/v1",
    workflow="propose-grant-append-reconcile/v1",
    drafting_adapter="structured-template/v1",
    budget_class="default",
    retention="keep",
)


@dataclass(frozen=True, kw_only=True)
class Size:
    """How much one round does.

    Attributes:
        name: enters the admission keys, so that rounds of two sizes are different Runs.
        first_seeds: seeds of round 0; later_seeds: seeds of each later round.
        scope: public attributes that tasks must have; None takes the tasks of every scope.
        held_out: most held-out tasks; None takes all.
        contrasts: knob changes to try on development tasks, by knob and value; None takes all of the catalog.
        trial_seeds: seeds per held-out task and arm; decisions: decisions per trial.
        published: whether the published table is imported.
    """

    name: str
    first_seeds: int
    later_seeds: int
    scope: tuple[tuple[str, str], ...] | None
    held_out: int | None
    contrasts: tuple[tuple[str, KnobValue], ...] | None
    trial_seeds: int
    decisions: int
    published: bool


FULL: Final = Size(
    name="full",
    first_seeds=2,
    later_seeds=1,
    scope=None,
    held_out=None,
    contrasts=(
        ("scaler", "standard"),
        ("C", 10),
        ("C", 0.1),
        ("class_weight", "balanced"),
        ("kernel", "poly"),
        ("tol", 0.0001),
        ("tol", 0.01),
    ),
    trial_seeds=1,
    decisions=3,
    published=True,
)
"""About 600 fits: 32 development tasks, two seeds, a baseline and seven changes; 12 held-out tasks, two arms."""

SMALL: Final = Size(
    name="small",
    first_seeds=1,
    later_seeds=1,
    scope=(("problem_type", "binary"), ("class_balance", "imbalanced"), ("feature_kinds", "numeric")),
    held_out=2,
    contrasts=(("class_weight", "balanced"), ("tol", 0.0001)),
    trial_seeds=1,
    decisions=2,
    published=False,
)
"""A first look in seconds: one task scope, one effect that the full size finds and one knob that does nothing."""

SIZES: Final = {size.name: size for size in (FULL, SMALL)}


@dataclass(frozen=True, kw_only=True)
class FrozenInput:
    """What frozen memory queries, and the Retrieval Policy that it pins and is answered under."""

    recall_input_id: RecallInputId
    retrieval_policy: PolicyIdentity


@dataclass(frozen=True, kw_only=True)
class Round:
    """One round of a namespace.

    Attributes:
        modes: the round's own mode, then that of a further arm to compare with.
        frozen_input: what frozen memory queries; None in every other mode.
        actor: the model that decides; None where the planner does. It is part of what the trials' Runs are admitted
            with, so a round that was begun with one model cannot go on with another.
    """

    namespace: str
    number: int
    size: Size
    modes: tuple[Mode, ...] = (Mode.DECISION_MEMORY,)
    frozen_input: FrozenInput | None = None
    actor: str | None = None

    @property
    def rules(self) -> ModeRules:
        """What the round's own mode does."""
        return rules_of(self.modes[0])

    @property
    def arms(self) -> tuple[Arm, ...]:
        """The arms of its held-out decisions."""
        return arms_of(self.modes)

    @property
    def retrieval_policy(self) -> RetrievalPolicy:
        """The policy under which its decisions recall: that of a frozen input, else the present one.

        Raises:
            NotFoundError: the policy of the frozen input does not ship.
        """
        frozen = self.frozen_input
        return retrieval_policy() if frozen is None else shipped_policy(frozen.retrieval_policy)

    @property
    def compares_memory(self) -> bool:
        """Whether there is an arm that acts with verified memory, to be told beside one without."""
        return any(arm.name == MEMORY for arm in self.arms)

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds of the sweep, disjoint between rounds."""
        if self.number == 0:
            return tuple(range(self.size.first_seeds))
        start = self.size.first_seeds + (self.number - 1) * self.size.later_seeds
        return tuple(range(start, start + self.size.later_seeds))

    @property
    def trial_seeds(self) -> tuple[int, ...]:
        """The seeds of the held-out trials; far from those of the sweep."""
        start = 10_000 + self.number * self.size.trial_seeds
        return tuple(range(start, start + self.size.trial_seeds))

    def run_body(self, key: str, specification_digest: str) -> RunBody:
        """Return the specification of a Run of this round."""
        return RunBody(
            namespace=self.namespace,
            run_kind="SCIENTIFIC",
            admission_key=f"{self.size.name}/{self._modes}round-{self.number}/{key}",
            specification_digest=specification_digest,
            admitted_at=PUBLISHED_AT,
        )

    @property
    def _modes(self) -> str:
        """What tells Runs of other modes and actors apart; decision memory was there before there were others."""
        modes = "" if self.modes == (Mode.DECISION_MEMORY,) else f"{'+'.join(self.modes)}/"
        return modes if self.actor is None else f"{modes}llm/"

    def run_id(self, key: str) -> RunId:
        """Return the id of a Run of this round."""
        return self.run_body(key, "0" * 64).id


def sweep_body(round_: Round, catalog: InterventionCatalog) -> RunBody:
    """Return the specification of the Run that owns the experiments of a round's sweep."""
    return round_.run_body("sweep", domain_digest("sweep-specification", [catalog.digest, list(round_.seeds)]))


def development_tasks(size: Size) -> tuple[str, ...]:
    """Return the tasks of the sweep."""
    return in_scope(task_names("development"), size)


def held_out_tasks(size: Size) -> tuple[str, ...]:
    """Return the tasks of the held-out decisions; their roots are disjoint from those of the sweep."""
    return in_scope(task_names("held_out"), size)[: size.held_out]


def arms(size: Size, catalog: InterventionCatalog) -> tuple[tuple[str, KnobValue] | None, ...]:
    """Return the baseline (None) and the changes that a sweep tries on every task and seed."""
    if size.contrasts is None:
        return (None, *((change.knob, change.to_value) for change in catalog.contrasts))
    for knob, value in size.contrasts:
        catalog.check_change(knob, value)
    return (None, *size.contrasts)


def in_scope(names: tuple[str, ...], size: Size) -> tuple[str, ...]:
    """Return the tasks among `names` that have the public attributes of a size."""
    if size.scope is None:
        return names
    wanted = dict(size.scope)
    return tuple(name for name in names if wanted.items() <= load_task(name).task.public_attributes.items())
