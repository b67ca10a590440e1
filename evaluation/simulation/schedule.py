"""One seed: who takes part, in which order they step, what breaks, and what was found.

A schedule has two parts. In the first one the participants step in a drawn order and the faults strike, until all are
done or everything stops at a drawn step. In the second one new owners claim, recovery runs from what is stored, every
role is taken up again without faults, calls that are still under way arrive at the very end, and recovery runs once
more. What must hold is checked after every step of both.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, Final, NamedTuple

from evaluation.simulation import roles, stewards
from evaluation.simulation.beginnings import Begins, beginning
from evaluation.simulation.between import BetweenCheck
from evaluation.simulation.casting import draw_cast
from evaluation.simulation.denials import DenialCheck
from evaluation.simulation.ending import check_ending
from evaluation.simulation.faults import Fate, Fault, FaultPlan, Step
from evaluation.simulation.invariants import LedgerCheck, RuntimeCheck
from evaluation.simulation.lines import Line
from evaluation.simulation.remembering import remembering
from evaluation.simulation.roles import Named
from evaluation.simulation.strands import Gone, Steps, Straight, Strand
from evaluation.simulation.world import RESOURCES, Parts, World
from records.canonical import digest_bytes
from records.errors import VrmError

LIMIT: Final = 3000
"""More steps than any schedule needs; whatever takes more does not come to an end."""
_CUT: Final = 120
_PACES: Final = (1.0, 4.0, 11.0)
"""From reservations that hold to ones that lapse at once; that must cost a typed no-commit and nothing else."""
_THOROUGH: Final = {Begins.EMPTY: 1, Begins.ASSIGNED: 10, Begins.EVIDENCE: 10}
"""The integrity check runs over one in so many schedules; with evidence it costs half as much as the schedule."""


class Event(NamedTuple):
    """One line of a history."""

    who: str
    what: Step
    fault: Fault | None
    outcome: str

    def __str__(self) -> str:
        """Return the line."""
        fault = f" [{self.fault.value}]" if self.fault else ""
        return f"{self.who}: {self.what}{fault}" + (f" -> {self.outcome}" if self.outcome else "")


@dataclass
class Verdict:
    """What came of a seed."""

    seed: int
    violations: list[str] = field(default_factory=list)
    faults: dict[str, int] = field(default_factory=dict)
    history: list[Event] = field(default_factory=list)

    @property
    def steps(self) -> int:
        """How many steps were taken."""
        return len(self.history)

    def lines(self) -> Iterator[str]:
        """Yield the history, numbered, and then what was found."""
        for number, event in enumerate(self.history, start=1):
            yield f"{number:4}  {event}"
        yield from (f"      VIOLATION {violation}" for violation in self.violations)


class Schedule:
    """Carries out one seed."""

    def __init__(self, seed: int, parts: Parts) -> None:
        """Draw what the seed decides."""
        self._rng = Random(seed)  # noqa: S311  # a schedule must replay; nothing is secret here
        self._cast = draw_cast(self._rng)
        self._plan = FaultPlan(self._rng)
        self._cut = self._rng.randint(1, _CUT) if self._rng.random() < 1 / 3 else LIMIT
        self.verdict = Verdict(seed)
        begun = beginning(self._cast.begins)
        left = {digest_bytes(data): data for data in self._cast.left}
        self._world = World(parts, replace(begun, artifacts={**begun.artifacts, **left}), self._rng.choice(_PACES))
        self._runtime, self._ledger = RuntimeCheck(self._world), LedgerCheck(self._world)
        self._between = BetweenCheck(self._world)
        self._denials = DenialCheck(self._world)
        self._checked = self._world.writes
        self._running: list[tuple[Strand[Step, Fate], Named]] = []
        self._world.oldest = self._oldest
        self._waiting: list[Named] = []
        self._couriers: list[Named] = []

    def run(self) -> Verdict:
        """Run to the end, or to the first violation."""
        with remembering():
            try:
                self._disturbed()
                if not self._world.complaints:
                    self._closing()
            finally:
                for strand, _ in self._running:
                    strand.end()
        self.verdict.violations = list(self._world.complaints)
        self.verdict.faults = dict(sorted(self._world.faults.items()))
        return self.verdict

    def _disturbed(self) -> None:
        self._waiting = list(self._cast.roles)
        while (self._running or self._waiting) and not self._world.complaints and self.verdict.steps < self._cut:
            if self._waiting and (not self._running or self._rng.random() < 1 / 4):
                self._begin(self._waiting.pop(self._rng.randrange(len(self._waiting))))
                continue
            place = self._chosen()
            self._step(place, self._plan.draw(self._running[place][0].offer))
            if self._couriers and self._rng.random() < 1 / 8:
                self._begin(self._couriers.pop(self._rng.randrange(len(self._couriers))))

    def _chosen(self) -> int:
        """Choose who steps; whoever only waits is passed over most of the time."""
        place = self._rng.randrange(len(self._running))
        for _ in range(3):
            offer = self._running[place][0].offer
            if offer is None or offer.port != "clock":
                break
            place = self._rng.randrange(len(self._running))
        return place

    def _closing(self) -> None:
        for strand, _ in self._running:
            strand.end()
        self._running = []
        for port in RESOURCES:
            self._world.succeed(port)
        self._world.lapse()
        scanner = Named("scanner", roles.recover)
        late, self._couriers = self._couriers, []
        after = Named("releaser", stewards.release)
        for named in (scanner, *self._cast.closing, *late, scanner, after):
            self._alone(named)
            if self._world.complaints:
                return
        thorough = self.verdict.seed % _THOROUGH[self._cast.begins] == 0
        self._ledger.changed(whole=True)
        if not self._world.complaints:
            check_ending(self._world, self._cast.driven, thorough=thorough)

    def _alone(self, named: Named) -> None:
        """Let somebody do all of its work, step by step and without a fault."""

        def between() -> None:
            self._check()
            if self.verdict.steps > LIMIT:
                self._world.complain(f"{named.name} does not come to an end")
            if self._world.complaints:
                raise Gone

        try:
            self._work(Straight(named.name, Fate(), between), named)
        except (Gone, VrmError):
            pass
        except Exception as error:  # noqa: BLE001  # whatever it is, it is told
            self._world.complain(f"{named.name} failed: {error!r}")
        self._check()

    def _begin(self, named: Named) -> None:
        begun = named if named.since is not None else replace(named, since=self._world.artifacts.moment)
        strand: Strand[Step, Fate] = Strand(named.name, lambda own: self._work(own, begun))
        self._running.append((strand, begun))
        self._after(len(self._running) - 1)

    def _work(self, strand: Steps[Step, Fate], named: Named) -> None:
        named.role(Line(self._world, strand, self._told, self._post, named.since))

    def _oldest(self) -> float:
        """Return when the oldest of those began who are at work or whose call is still under way."""
        under_way = (*(named for _, named in self._running), *self._couriers)
        return min([each.since for each in under_way if each.since is not None], default=self._world.artifacts.moment)

    def _step(self, place: int, fate: Fate) -> None:
        self._running[place][0].resume(fate)
        self._after(place)

    def _after(self, place: int) -> None:
        """Check what a step did, and see to a participant that came to its end."""
        strand, named = self._running[place]
        self._check()
        if strand.over:
            self._running.pop(place)
            if strand.failure is not None and not isinstance(strand.failure, VrmError):
                self._world.complain(f"{named.name} failed: {strand.failure!r}")
            elif strand.crashed:
                self._waiting.append(replace(named, since=None))

    def _check(self) -> None:
        """Check what a step did; one that wrote nothing did nothing."""
        if self._world.writes == self._checked:
            return
        self._checked = self._world.writes
        rows, receipts = self._ledger.changed()
        subjects = self._runtime.changed()
        self._denials.check(rows)
        if rows or receipts or subjects:
            self._between.check(subjects, receipts)

    def _told(self, who: str, step: Step, fate: Fate, outcome: str) -> None:
        self.verdict.history.append(Event(who, step, fate.fault, outcome))

    def _post(self, line: Line, call: Any) -> None:
        """Keep a call that is to be delivered later; nobody waits for its answer."""
        step, act = call
        self._couriers.append(Named(f"late call of {line.name}", lambda own: own.call(step, act), line.since))


def run_seed(seed: int, parts: Parts | None = None) -> Verdict:
    """Carry out one seed over the product's own parts, or over those of a planted bug."""
    return Schedule(seed, parts or Parts()).run()
