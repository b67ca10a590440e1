"""Who takes part in a schedule.

Rules kept here:

- workers are drawn first, and then those who see to what they work on; some schedules have none of the latter;
- who leaves something unfinished on purpose has somebody among the closing roles who finishes it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Final

from evaluation.simulation import erasures, material, roles, stewards, trials
from evaluation.simulation.beginnings import Begins
from evaluation.simulation.erasures import Target
from evaluation.simulation.roles import Named
from records.control import ControlKind
from records.flows import Transition
from records.runtime import RunBody

_DECIDES, _ASSIGNED, _CAMPAIGNS = 14, 4, 2
"""Of twenty schedules so many decide only, so many distil what is assigned, so many carry evidence all the way."""
_ACTS: Final = (ControlKind.PAUSE, ControlKind.RESUME, ControlKind.AMEND_BUDGET)


@dataclass
class Cast:
    """Who takes part in a schedule.

    Attributes:
        begins: what is there at the beginning.
        roles: those who take part from the beginning.
        closing: those who finish the work in the end, in this order.
        driven: Runs whose evidence is carried through.
        left: what an earlier life of somebody published, and what nobody came to name.
    """

    begins: Begins
    roles: list[Named] = field(default_factory=list)
    closing: list[Named] = field(default_factory=list)
    driven: list[RunBody] = field(default_factory=list)
    left: list[bytes] = field(default_factory=list)


def draw_cast(rng: Random) -> Cast:
    """Draw who takes part."""
    (begins,) = rng.choices(list(Begins), (_DECIDES, _ASSIGNED, _CAMPAIGNS))
    cast = Cast(begins)
    decisions = {Begins.EMPTY: rng.choice((1, 1, 1, 2)), Begins.ASSIGNED: 0, Begins.EVIDENCE: rng.randint(0, 1)}
    runs = [_add_decision(cast, rng, number) for number in range(decisions[begins])]
    if begins is Begins.EVIDENCE:
        _add_campaign(cast, rng)
    if begins is not Begins.EMPTY:
        _add_distillers(cast, rng)
    if cast.driven:
        cast.closing.insert(0, Named("recoverer", stewards.recover))
        _add_stewards_of_handoffs(cast, rng)
        _add_enders(cast, rng)
    for _ in range(rng.randint(0, 2)):
        cast.roles.append(Named("scanner", roles.recover))
    if rng.random() < 1 / 2 and runs:
        cast.roles.append(Named("finisher", roles.finish(tuple(runs))))
    if rng.random() < 1 / 5:
        _add_controllers(cast, rng)
    if rng.random() < 1 / 6:
        _add_erasers(cast, rng)
    if rng.random() < 1 / 6:
        cast.roles += [Named("collector", stewards.collect)] * rng.randint(1, 2)
        cast.closing.append(cast.roles[-1])
    cast.closing += [Named("closer", roles.close), Named("finisher", roles.finish((*runs, *cast.driven)))]
    return cast


def _add_controllers(cast: Cast, rng: Random) -> None:
    """Add one or two who control Runs, the same one perhaps; what they leave paused is resumed."""
    for number in range(rng.randint(1, 2)):
        acts = rng.choices(_ACTS, k=rng.randint(1, 5))
        cast.roles.append(Named(f"controller {number}", stewards.control(rng.randint(0, 1), acts)))
    cast.closing.insert(0, Named("resumer", stewards.resume))


def _add_erasers(cast: Cast, rng: Random) -> None:
    """Add one or two who erase, the same thing perhaps."""
    targets = [Target.ARTIFACT] if cast.begins is Begins.EMPTY else list(Target)
    for target in rng.choices(targets, k=rng.randint(1, 2)):
        cast.roles.append(Named(f"eraser of the {target}", erasures.erase(target)))
        cast.closing.append(cast.roles[-1])


def _add_stewards_of_handoffs(cast: Cast, rng: Random) -> None:
    """Add those who end handoffs in other ways than by their enqueue."""
    if rng.random() < 2 / 3:
        cast.roles.append(Named("retirer", stewards.retire))
    begun = 0 if cast.begins is Begins.EVIDENCE else len(trials.SWEEPS)  # whose handoffs are bound already
    if cast.driven[begun:] and rng.random() < 1 / 2:
        cast.roles.append(Named("abandoner", stewards.abandon(rng.choice(cast.driven[begun:]))))
        cast.closing.append(cast.roles[-1])
    if rng.random() < 1 / 2:
        cast.roles.append(Named("releaser", stewards.release))


def _add_enders(cast: Cast, rng: Random) -> None:
    """Add those who end campaigns before their work is done, or source Runs before their evidence is received."""
    for number in range(rng.choice((0, 0, 1, 2))):
        ender = stewards.stop_campaign(rng.randint(0, 3), fail=rng.random() < 1 / 2)
        cast.roles.append(Named(f"ender {number} of campaigns", ender))
    if rng.random() < 1 / 3:
        cast.roles.append(Named("hasty finisher", roles.finish(tuple(cast.driven))))


def _add_decision(cast: Cast, rng: Random, number: int) -> RunBody:
    """Add the workers of a decision: one, or several who do not agree."""
    endings = rng.choice((material.REQUESTED, material.CONTROL))
    workers = [
        material.decision(
            number,
            rng.choice(endings),
            late=rng.random() < 1 / 3,
            arm="rival" if rng.random() < 1 / 6 else "arm",
        )
        for _ in range(rng.choice((1, 2, 2, 3)))
    ]
    for worker in workers:
        intent = material.proposal(worker, Transition.APPEND_INTENT, (1, 1), None, None)
        cast.left.append(intent.canonical)
        name = f"decider of {number} ({worker.ending.name.lower()}, {worker.arm}{', late' if worker.late else ''})"
        cast.roles.append(Named(name, roles.decide(worker)))
        cast.closing.append(cast.roles[-1])
    return workers[0].run


def _add_campaign(cast: Cast, rng: Random) -> None:
    """Add evidence of one or two Runs, and those who carry it to knowledge, some of them twice."""
    for number in range(rng.randint(1, 2)):
        run = material.study(trials.SWEEPS[number])
        made = (trials.trial(trials.SWEEPS[number], 2 + number, changed=True),)
        cast.driven.append(run)
        cast.roles.append(Named(f"evidence of {number}", roles.append_evidence(run, made)))
        cast.closing += [cast.roles[-1], Named(f"ingester of {number}", roles.ingest(run))]
        cast.roles.append(Named(f"driver of {number}", roles.campaign(run)))
        if rng.random() < 1 / 3:
            cast.roles.append(Named(f"ingester of {number}", roles.ingest(run)))
    cast.closing.append(Named("projector", roles.project))
    if rng.random() < 1 / 2:
        cast.roles.append(cast.closing[-1])


def _add_news(cast: Cast) -> None:
    """Add evidence that comes meanwhile, so that what two distillers capture differs."""
    run = material.study(trials.NEWS)
    made = (trials.trial(trials.NEWS, 4, changed=True),)
    cast.driven.append(run)
    cast.roles.append(Named("news", roles.append_evidence(run, made)))
    cast.closing = [
        cast.roles[-1], Named("ingester of the news", roles.ingest(run)), Named("projector", roles.project),
        *cast.closing,
    ]  # fmt: skip


def _add_distillers(cast: Cast, rng: Random) -> None:
    """Add those who distil what is assigned; two of them race for items and heads."""
    distiller = Named("distiller", roles.distil)
    cast.closing.append(distiller)
    if cast.begins is Begins.ASSIGNED:
        cast.driven += [material.study(name) for name in trials.SWEEPS]
        leaders = [Named(f"distiller of item {place}", roles.distil_one(place)) for place in range(2)]
        cast.roles += leaders if rng.random() < 2 / 3 else [distiller]
        cast.roles += rng.choices((distiller, *leaders), k=rng.randint(0, 1))
        if rng.random() < 2 / 3:
            _add_news(cast)
    elif rng.random() < 1 / 3:
        cast.roles.append(distiller)
