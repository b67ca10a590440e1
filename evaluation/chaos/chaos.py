"""A run of faults over an installation of its own, and its report.

At first Ray actors serve, then plain processes, which are replaced in no time.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from evaluation.chaos.accounting import Balance, Unit, balance, due_of, there_is
from evaluation.chaos.driver import Driver
from evaluation.chaos.faults import draw
from evaluation.chaos.place import Place, StuckError, installed
from evaluation.chaos.striker import Striker
from evaluation.chaos.work import Ground, Plan
from memory.fsck import FsckReport
from records.errors import InvalidInputError

Progress = Callable[[str, int, int], None]
_OF_ACTORS: Final = 0.3
"""The share of the faults that strike while Ray actors serve; they take seconds to come back."""
_PATIENCE: Final = 20
"""How many pieces of work in a row may miss the point of a fault."""
_SHOWN: Final = 20
"""How many of the units and findings that are wrong the report names."""


def chaos(faults: int, seed: int, told: Progress, keep: Path | None = None) -> dict[str, Any]:
    """Inject faults into real processes while work goes on, recover, and compare what is due with what is there.

    Args:
        faults: how many; the work goes on until so many have happened.
        seed: decides the faults, their order, and the work.
        told: is told how far it is.
        keep: a folder for the installation, whose databases then stay for whoever wants to look.

    Returns:
        The report, as `--json` prints it.

    Raises:
        InvalidInputError: there is to be no fault at all, or the folder holds something.
        UnavailableError: no installation can be made here, or something waits for ever.
    """
    if faults < 1:
        raise InvalidInputError("faults", faults, "Give at least 1.")
    if keep is not None and keep.exists() and any(keep.iterdir()):
        raise InvalidInputError("keep", str(keep), "Name a folder that is empty, or does not exist yet.")
    begun = time.monotonic()
    with installed(keep) as place:
        return _Run(place, faults, seed, told).report(begun)


class _Run:
    """One run: the work until every fault has happened, then recovery and the accounts."""

    def __init__(self, place: Place, faults: int, seed: int, told: Progress) -> None:
        chance = random.Random(f"vrm chaos {seed}")  # noqa: S311 - it draws faults, not secrets
        self._place, self._faults, self._seed, self._told = place, faults, seed, told
        self._striker = Striker(place, draw(faults, chance), chance)
        self._plan, self._driver = Plan(chance), Driver(place, self._striker)

    def report(self, begun: float) -> dict[str, Any]:
        """Do everything, and say what came of it."""
        asked = self._work()
        self._driver.settle()
        told = self._striker.told
        urls = self._place.urls
        found = balance(due_of(urls, asked, told.receipts, told.grants), there_is(urls, told.receipts))
        checked = self._place.check()
        return self._summary(found, checked) | {"seconds": round(time.monotonic() - begun, 1)}

    def _work(self) -> list[Unit]:
        """Work until every fault has happened; return what is due for it."""
        self._place.build_gates()
        self._driver.finish(Ground())
        asked: list[Unit] = []
        vain = 0
        while (fault := self._striker.next) is not None:
            if vain == _PATIENCE:
                raise StuckError("fault", f"{fault.kind}, {fault.point}", f"{vain} pieces of work never came there.")
            self._striker.serve_by(self._place.crews[len(self._striker.struck) >= self._faults * _OF_ACTORS])
            work = self._plan.next(fault)
            asked += work.due()
            self._driver.finish(work)
            vain = vain + 1 if self._striker.next is fault else 0
            self._told("faults", len(self._striker.struck), self._faults)
        return asked

    def _summary(self, found: Balance, checked: FsckReport) -> dict[str, Any]:
        struck, told = [each for _, each in self._striker.struck], self._striker.told
        return {
            "faults": len(struck),
            "lost": len(found.lost),
            "doubled": len(found.doubled) + len(told.findings),
            "fsck": "clean" if checked.clean else f"{len(checked.violations)} violations",
            "faults_by_kind": _counted(each.kind for each in struck),
            "faults_by_processes": _counted(crew for crew, _ in self._striker.struck),
            "faults_by_point": _counted(each.point for each in struck),
            "decisions": self._plan.decisions,
            "experiences": self._plan.experiences,
            "pieces_of_work": self._plan.pieces,
            "receipts_told": len(told.receipts),
            "recoveries": self._driver.recoveries,
            "recovered_authorizations": self._driver.resolved,
            "seed": self._seed,
            "unfinished": self._driver.unfinished[:_SHOWN],
            "lost_units": _named(found.lost),
            "doubled_units": [*_named(found.doubled), *told.findings[:_SHOWN]],
            "violations": [f"{each.code} {each.record}: {each.met}" for each in checked.violations[:_SHOWN]],
        }


def _counted(names: Any) -> dict[str, int]:
    return dict(sorted(Counter(names).items()))


def _named(units: Sequence[Unit]) -> list[str]:
    return [f"{unit.what} of {unit.whose}" for unit in units[:_SHOWN]]
