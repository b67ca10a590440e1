"""Runs as people and programs read them: where each stands, what controls it, what it spent, what is open in it.

Everything here is read from the Runtime and from published control events; nothing is decided.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from memory.leases import lease_of
from records.control import ControlEvent, ControlRef, RunFacts
from records.errors import AmbiguousIdError, InvalidInputError, NotFoundError
from records.ids import RunId
from records.runtime import RunBody, Subject
from records.states import Machine, Phase, ends_of, phases_of
from vrm.cli.output import short, show_rows, show_title

if TYPE_CHECKING:
    from rich.console import Console

    from store.artifacts import ArtifactStore
    from store.runtime.port import RuntimeReader

_WAITS_FOR_NOTHING: Final = frozenset({Phase.BOUND, Phase.ABANDONED})
"""Phases of a handoff that have a way on, by which nobody waits."""

OPEN: Final = {
    machine: tuple(phase for phase in phases_of(machine) if phase not in ends_of(machine) | _WAITS_FOR_NOTHING)
    for machine in (Machine.DECISION, Machine.ACTIVITY, Machine.HANDOFF, Machine.ERASURE, Machine.AUTHORIZATION)
}
"""The phases in which something of a Run is open."""

_SHOWN: Final = 10
_LISTED: Final = 50
_KEY_WIDTH: Final = 36


def resolve(runtime: RuntimeReader, prefix: str) -> Subject:
    """Return a Run by any unambiguous beginning of its id, with or without the noun.

    Raises:
        InvalidInputError: no id of a Run can begin so.
        NotFoundError: none does.
        AmbiguousIdError: several do.
    """
    digits = prefix.strip().lower().removeprefix(f"{RunId.noun}:")
    if not re.fullmatch("[0-9a-f]{1,64}", digits):
        raise InvalidInputError("run", prefix, f"Give the first digits of an id of the form {RunId.noun}:3fa2….")
    found = runtime.resolve(Machine.RUN, f"{RunId.noun}:{digits}", _SHOWN)
    if not found:
        raise NotFoundError("run", prefix, "No Run begins so; `vrm runs list --all` shows them.")
    if len(found) > 1:
        raise AmbiguousIdError("run", prefix, f"Give more digits: {', '.join(short(each) for each in found)}.")
    return runtime.subjects(Machine.RUN, found)[found[0]]


def of_phase(text: str) -> Phase:
    """Return a phase of Runs by its name.

    Raises:
        InvalidInputError: there is none of that name.
    """
    known = [phase.value for phase in phases_of(Machine.RUN)]
    if text.upper() not in known:
        raise InvalidInputError("--phase", text, f"Phases of a Run: {', '.join(known)}.")
    return Phase(text.upper())


def rows(runtime: RuntimeReader, runs: Sequence[Subject]) -> list[dict[str, Any]]:
    """Return what is listed of each Run, as JSON values."""
    open_ones: dict[str, dict[str, Counter[str]]] = {run.id: {} for run in runs}
    for subject in _open(runtime, [run.id for run in runs]):
        machines = open_ones[str(subject.run_id)]
        machines.setdefault(subject.machine.value, Counter())[subject.phase.value] += 1
    return [
        _row(run) | {"open": {machine: dict(sorted(found.items())) for machine, found in open_ones[run.id].items()}}
        for run in runs
    ]


def detail(runtime: RuntimeReader, artifacts: ArtifactStore, run: Subject) -> dict[str, Any]:
    """Return all that is known of a Run, as JSON values."""
    body, facts = RunBody.load(run.body), RunFacts.load(run.facts)
    (row,) = rows(runtime, [run])
    listed = [each for each in _open(runtime, [run.id]) if each.machine is not Machine.ACTIVITY]
    return row | {
        "specification_digest": body.specification_digest,
        "admitted_at": body.admitted_at,
        "control": _event(artifacts, facts.control),
        "superseded": _event(artifacts, facts.superseded),
        "secondary": [_event(artifacts, ref) for ref in facts.secondary],
        "coverage": None if facts.coverage is None else facts.coverage.as_json(),
        "decisions": _counted(runtime.find(Machine.DECISION, run_id=run.id)),
        "activities": [_activity(each) for each in runtime.find(Machine.ACTIVITY, run_id=run.id)],
        "open_subjects": [{"machine": each.machine.value, "id": each.id, "phase": each.phase.value} for each in listed],
    }


def show_list(out: Console, found: Iterable[dict[str, Any]]) -> None:
    """Print Runs for people."""
    header = ("run", "kind", "admitted as", "phase", "spent", "open")
    show_rows(out, header, (_cells(row) for row in found))


def show_detail(out: Console, found: dict[str, Any]) -> None:
    """Print a Run for people."""
    show_title(out, f"{found['id']}")
    out.print(f"{found['kind']} in {found['namespace']}, admitted as {found['admission_key']}", markup=False)
    out.print(f"{found['phase']}, version {found['version']}", markup=False)
    for name in ("control", "superseded"):
        if found[name]:
            out.print(f"{name}: {_said(found[name])}", markup=False)
    for each in found["secondary"]:
        out.print(f"secondary evidence: {_said(each)}", markup=False)
    if found["budget"]:
        show_title(out, "Budget")
        show_rows(out, ("resource", "spent", "limit"), (_line_cells(line) for line in found["budget"]))
    show_title(out, "Activities")
    cells = ((short(a["id"]), a["phase"], str(a["attempt"]), _held(a)) for a in found["activities"][:_LISTED])
    show_rows(out, ("activity", "phase", "attempt", "lease"), cells)
    show_title(out, "Decisions")
    out.print(_numbers(found["decisions"]), markup=False)
    show_title(out, "Open")
    show_open(out, found["open_subjects"])


def show_open(out: Console, subjects: Sequence[dict[str, str]]) -> None:
    """Print what is open in a Run for people."""
    if not subjects:
        out.print("Nothing.")
        return
    show_rows(out, ("what", "id", "phase"), ((e["machine"], short(e["id"]), e["phase"]) for e in subjects[:_LISTED]))
    if len(subjects) > _LISTED:
        out.print(f"{len(subjects) - _LISTED} more; --json lists them.")


def _open(runtime: RuntimeReader, run_ids: Sequence[str]) -> list[Subject]:
    if not run_ids:
        return []
    return [each for machine, phases in OPEN.items() for each in runtime.find(machine, phases, run_ids)]


def _row(run: Subject) -> dict[str, Any]:
    body, facts = RunBody.load(run.body), RunFacts.load(run.facts)
    return {
        "id": run.id,
        "namespace": body.namespace,
        "kind": body.run_kind,
        "admission_key": body.admission_key,
        "phase": run.phase.value,
        "version": run.version,
        "control": None if facts.control is None else facts.control.as_json(),
        "budget": [line.as_json() for line in facts.budget],
    }


def _event(artifacts: ArtifactStore, ref: ControlRef | None) -> dict[str, Any] | None:
    """Return a control event with what was said with it; by its digest alone, if its bytes are gone."""
    if ref is None:
        return None
    if not artifacts.holds(ref.digest):
        return ref.as_json()
    event = ControlEvent.read(artifacts.read(ref.digest), ref.digest)
    return ref.as_json() | {"cause": event.cause.value, "detail": event.detail, "at": event.at}


def _activity(activity: Subject) -> dict[str, Any]:
    lease = lease_of(activity)
    return {
        "id": activity.id,
        "phase": activity.phase.value,
        "attempt": activity.generation,
        "holder": None if lease is None else lease.holder,
        "until": None if lease is None else lease.until,
    }


def _counted(subjects: Iterable[Subject]) -> dict[str, int]:
    return dict(sorted(Counter(subject.phase.value for subject in subjects).items()))


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    spent = ", ".join(_spent(line) for line in row["budget"])
    open_ones = "; ".join(f"{machine} {_numbers(phases)}" for machine, phases in row["open"].items())
    key = row["admission_key"]
    known = key if len(key) <= _KEY_WIDTH else f"{key[: _KEY_WIDTH - 1]}…"
    phase = f"{row['phase']} by {row['control']['kind']}" if row["control"] else row["phase"]
    return short(row["id"]), row["kind"], known, phase, spent or "-", open_ones or "-"


def _spent(line: dict[str, Any]) -> str:
    limit = "" if line["limit"] is None else f" of {line['limit']}"
    return f"{line['resource']} {line['spent']}{limit}"


def _line_cells(line: dict[str, Any]) -> tuple[str, str, str]:
    return line["resource"], str(line["spent"]), "no limit" if line["limit"] is None else str(line["limit"])


def _held(activity: dict[str, Any]) -> str:
    return f"{activity['holder']} until {activity['until']}" if activity["holder"] else "-"


def _numbers(phases: dict[str, int]) -> str:
    return ", ".join(f"{number} {phase}" for phase, number in phases.items()) or "none"


def _said(event: dict[str, Any]) -> str:
    if "cause" not in event:
        return f"{event['kind']}, artifact {event['digest']} (its bytes are gone)"
    words = f": {event['detail']}" if event["detail"] else ""
    return f"{event['kind']}, {event['cause']}, {event['at']}{words}"
