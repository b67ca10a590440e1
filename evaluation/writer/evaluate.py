"""Many corpora through the writer, with one report."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

from evaluation.simulation.material import POLICIES
from evaluation.simulation.spread import spread
from evaluation.writer.corpus import corpus
from evaluation.writer.groups import Group
from evaluation.writer.path import Writer
from evaluation.writer.reading import Outcome, read_outcomes
from evaluation.writer.score import Tally, report
from memory.distillation.policies import Policies
from records.errors import InvalidInputError

SEEDS: Final = 20
GROUPS: Final = 120
DEFINITION: Final = (
    "A group's gold rule must become active: an effect beyond the margin was planted, it moves no more than a quarter "
    "of the roots the other way, the design has the roots that the Distillation Policy asks for, and the evidence is "
    "admissible. Recall is therefore also the realised power of the designs."
)

_COLLECTED: Final = 20
"""Groups after which garbage is collected; a collector that looks by itself takes a fifth of the time."""

Told = Callable[[str, int, int], None]


def evaluate_writer(seeds: int, groups: int, told: Told, processes: int = 1) -> dict[str, Any]:
    """Write the corpora of the seeds from 0 on, and return the report as JSON values.

    Args:
        seeds: how many corpora.
        groups: of each corpus.
        told: what is done, how far, of how much.
        processes: how many share the seeds; what is found does not depend on it.

    Raises:
        InvalidInputError: a number is below one.
        IntegrityError: a step of the path failed, so that nothing can be said about the writer.
    """
    for name, value in (("seeds", seeds), ("groups", groups), ("processes", processes)):
        if value < 1:
            raise InvalidInputError(name, value, "Give a whole number from 1 on.")
    begun, tally = time.perf_counter(), Tally()
    with spread(min(processes, seeds)) as each:
        for done, found in enumerate(each(partial(tally_of_seed, groups=groups), range(seeds)), 1):
            tally.merge(found)
            told("corpora", done, seeds)
    return {
        "evaluation": "writer",
        **report(tally),
        "definition": DEFINITION,
        "policies": _identities(POLICIES),
        "seeds": list(range(seeds)),
        "groups": groups * seeds,
        "runs": tally.runs,
        "seconds": round(time.perf_counter() - begun, 1),
        "processes": min(processes, seeds),
    }


def tally_of_seed(seed: int, groups: int = GROUPS, policies: Policies = POLICIES) -> Tally:
    """Write the corpus of one seed and count what came of it."""
    return tally_of(corpus(seed, groups), policies)


def tally_of(groups: Iterable[Group], policies: Policies = POLICIES) -> Tally:
    """Write groups, each into a Ledger of its own, and count what came of them."""
    tally = Tally()
    with _collecting_rarely() as collect:
        for place, group in enumerate(groups, 1):
            alone = group.without_copies()
            copied = len(alone.runs) < len(group.runs)
            tally.add(decided(group, policies), decided(alone, policies) if copied else None)
            if not place % _COLLECTED:
                collect()
    return tally


def decided(group: Group, policies: Policies = POLICIES) -> Outcome:
    """Write one group into a Ledger of its own and return what became of it."""
    return decided_together([group], policies)[0]


def decided_together(groups: Sequence[Group], policies: Policies = POLICIES, *, whole: bool = False) -> list[Outcome]:
    """Write groups into one Ledger; with `whole` every Experience is enqueued (see `evaluation.writer.path`)."""
    writer = Writer(policies, whole=whole)
    writer.write(groups)
    return read_outcomes(writer, groups)


def _identities(policies: Policies) -> dict[str, Any]:
    found = (policies.distillation.identity, policies.lifecycle.identity)
    return {each.policy_id: each.as_json() for each in found} | {"policy_set_digest": policies.digest}


@contextmanager
def _collecting_rarely() -> Iterator[Callable[[], int]]:
    """Keep the garbage collector from looking by itself, and give what makes it look."""
    wanted = gc.isenabled()
    gc.disable()
    try:
        yield gc.collect
    finally:
        if wanted:
            gc.enable()
        gc.collect()
