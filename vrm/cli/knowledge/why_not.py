"""What holds the Experiences of a Run back, and what would complete them, as people and programs read it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from rich.console import Console
from rich.padding import Padding

from memory.standing import Standing, State, standings
from records.errors import InvalidInputError
from records.evidence import Attempt, Experience
from records.ids import ExperienceId, RunId
from records.runtime import RunBody
from records.states import Machine
from store.ledger.port import LedgerReader
from store.runtime.port import RuntimeReader
from vrm.cli.connection import OpenStores
from vrm.cli.knowledge import words
from vrm.cli.knowledge.entries import only
from vrm.cli.output import short, show_title

_SHOWN: Final = 10
_NAMED: Final = 4


@dataclass(frozen=True, kw_only=True)
class Answer:
    """Where every Experience of what was asked about stands."""

    subject: str
    standings: Sequence[Standing]

    @property
    def counts(self) -> list[tuple[str, str | None, int]]:
        """How many Experiences are in a state for a leading reason code, the most frequent first."""
        counted = Counter((each.state.value, next(iter(each.codes), None)) for each in self.standings)
        ordered = sorted(counted.items(), key=lambda item: (-item[1], item[0][0], item[0][1] or ""))
        return [(state, code, count) for (state, code), count in ordered]

    def as_json(self) -> dict[str, Any]:
        """Return the answer as JSON values."""
        counts = [{"state": state, "code": code, "count": count} for state, code, count in self.counts]
        return {
            "subject": self.subject,
            "experiences": len(self.standings),
            "counts": counts,
            "standings": [_as_json(each) for each in self.standings],
        }


def answer(stores: OpenStores, reader: LedgerReader, prefix: str) -> Answer:
    """Return the answer about a Run or an Experience, by any unambiguous beginning of its id.

    Raises:
        InvalidInputError: no such id can begin so.
        NotFoundError, AmbiguousIdError: nothing begins so, or several things do.
    """
    noun, separator, digits = prefix.strip().lower().rpartition(":")
    if (separator and noun not in {RunId.noun, ExperienceId.noun}) or not re.fullmatch("[0-9a-f]{1,64}", digits):
        raise InvalidInputError("run", prefix, "Give the first digits of the id of a Run or an Experience.")
    found: list[str] = []
    if noun != ExperienceId.noun:
        found += stores.runtime.resolve(Machine.RUN, f"{RunId.noun}:{digits}", _SHOWN)
    if noun != RunId.noun:
        found += reader.resolve(f"{ExperienceId.noun}:{digits}", _SHOWN)
    subject = only("run", prefix, found)
    experiences = _experiences(stores.runtime, reader, subject)
    return Answer(subject=subject, standings=standings(reader, stores.artifacts, experiences))


def _experiences(runtime: RuntimeReader, reader: LedgerReader, subject: str) -> list[Experience]:
    if subject.startswith(f"{ExperienceId.noun}:"):
        stored = reader.get(subject)
        found = [] if stored is None else [stored.load()]
    else:
        namespace = RunBody.load(runtime.subjects(Machine.RUN, [subject])[subject].body).namespace
        attempts = [item.load() for item in reader.find(Attempt.kind.noun, namespace, run_id=subject)]
        wanted = [str(each.id) for each in attempts]
        stored_all = reader.find(Experience.kind.noun, namespace, attempt_id=wanted) if wanted else []
        found = [item.load() for item in stored_all]
    return [each for each in found if isinstance(each, Experience)]


def _as_json(standing: Standing) -> dict[str, Any]:
    bundle, decision = standing.bundle, standing.decision
    return {
        "experience_id": str(standing.experience.id),
        "analysis": standing.experience.analysis,
        "dataset_root": None if bundle is None else bundle.attempt.dataset_root,
        "seed": None if bundle is None else bundle.attempt.seed,
        "state": standing.state.value,
        "codes": list(standing.codes),
        "remedies": list(standing.remedies),
        "rules": list(standing.rules),
        "receipt": None if standing.receipt is None else standing.receipt.as_json(),
        "work_outcome": None if standing.disposition is None else standing.disposition.outcome.value,
        "candidate_id": None if decision is None else str(decision.candidate_id),
        "decision_id": None if decision is None else str(decision.id),
        "decision": None if decision is None else decision.decision.value,
        "claim": standing.claim,
        "verdict_now": None if standing.verdict is None else standing.verdict.value,
    }


def show_answer(out: Console, found: Answer, *, every: bool) -> None:
    """Print the answer: counts, then what is held back for the same reasons; `every` names every Experience of it."""
    show_title(
        out, f"{len(found.standings)} experience{'' if len(found.standings) == 1 else 's'} of {short(found.subject)}"
    )
    for state, code, count in found.counts:
        out.print(f"{count:>6}  {state}{f': {code}' if code else ''}", markup=False)
    groups: dict[tuple[State, tuple[str, ...], tuple[str, ...], str | None], list[Standing]] = {}
    for each in found.standings:
        key = (each.state, each.codes, each.remedies, each.claim)
        groups.setdefault(key, []).append(each)
    for (state, codes, remedies, claim), own in sorted(groups.items(), key=lambda item: -len(item[1])):
        if not codes and state is State.ACTIVE:
            continue
        show_title(out, f"{len(own)} {state.value}: {', '.join(codes)}" if codes else f"{len(own)} {state.value}")
        if claim is not None:
            out.print(Padding(claim, (0, 0, 0, 2)), markup=False)
        for told in remedies:
            out.print(Padding(f"- {told}", (0, 0, 0, 2)), markup=False)
        for now in {each.verdict for each in own} - {None}:
            line = f"- The evidence there is now gives another verdict: {now}; `vrm distil` decides on it."
            out.print(Padding(line, (0, 0, 0, 2)), markup=False)
        out.print(Padding(_named(own, every=every), (0, 0, 0, 2)), markup=False)


def _named(own: Sequence[Standing], *, every: bool) -> str:
    shown = own if every else own[:_NAMED]
    more = "" if len(shown) == len(own) else f", and {len(own) - len(shown)} more"
    return f"experiences {', '.join(_one(each) for each in shown)}{more}"


def _one(standing: Standing) -> str:
    digits = words.digits(standing.experience.id, 8)
    bundle = standing.bundle
    return digits if bundle is None else f"{digits} ({bundle.attempt.dataset_root}, seed {bundle.attempt.seed})"
