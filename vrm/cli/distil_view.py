"""Distillation work as people and programs read it: read from the stores, nothing is decided here."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from actors.settings import now
from memory.dead_letters import DeadLetter, dead_letters
from memory.leases import attempts_left
from memory.receipts import unreceipted
from memory.work_state import Work, unassigned, unreceipted_runs, waiting, work_of
from records.errors import AmbiguousIdError, InvalidInputError, NotFoundError
from records.ids import ExperienceId, WorkItemId
from records.ingestion import CompletionStatus, WorkDisposition
from records.states import Machine, Phase
from vrm.cli.output import short, show_rows, show_title

if TYPE_CHECKING:
    from rich.console import Console

    from store.ledger.port import LedgerReader
    from vrm.cli.connection import OpenStores
    from vrm.mainjob.distillation import Retried

_DIGITS = re.compile("[0-9a-f]{1,64}")


def standing(stores: OpenStores, namespace: str) -> dict[str, Any]:
    """Return where the distillation work of a namespace stands."""
    work = work_of(stores.ledger, namespace)
    found = stores.ledger.find("distillation-work-disposition", namespace)
    outcomes = Counter(record.outcome.value for stored in found if isinstance(record := stored.load(), WorkDisposition))
    ends = Counter(each.completion.status for each in work if each.completion)
    assigned = [assignment for _, assignment in waiting(work)]
    activities = stores.runtime.subjects(Machine.ACTIVITY, [each.activity_id for each in assigned]) if assigned else {}
    runs = stores.runtime.subjects(Machine.RUN, [each.run_id for each in assigned]) if assigned else {}
    missing = unreceipted(stores.ledger, namespace, unreceipted_runs(stores.ledger, namespace))
    return {
        "namespace": namespace,
        "without_receipt": sum(len(each) for each in missing.values()),
        "waiting": len(unassigned(work)) + len(assigned),
        "unassigned": len(unassigned(work)),
        "assigned": dict(sorted(Counter(each.phase.value for each in activities.values()).items())),
        "paused": sum(run.phase is Phase.PAUSED for run in runs.values()),
        "out_of_attempts": sum(attempts_left(run) == 0 for run in runs.values()),
        "completed": dict(sorted(outcomes.items())),
        "cancelled": ends[CompletionStatus.CANCELLED],
        "dead_letters": letters(stores, namespace, work),
    }


def letters(stores: OpenStores, namespace: str, work: Iterable[Work] | None = None) -> list[dict[str, Any]]:
    """Return the dead letters of a namespace."""
    known = work_of(stores.ledger, namespace) if work is None else work
    return [_letter(each) for each in dead_letters(stores.ledger, stores.artifacts, namespace, known)]


def asked_for(ledger: LedgerReader, namespace: str, prefixes: Sequence[str]) -> list[Work]:
    """Return the items that beginnings of ids name, of items or of their Experiences; none means all that are open.

    Raises:
        InvalidInputError: no id of either can begin so.
        NotFoundError: none does.
        AmbiguousIdError: several items do.
    """
    work = work_of(ledger, namespace)
    if not prefixes:
        return [each for each in work if each.completion is None or each.completion.status is _DEAD]
    return list({str(each.item.id): each for prefix in prefixes for each in [_named(work, prefix)]}.values())


_DEAD = CompletionStatus.DEAD_LETTER


def show_summary(out: Console, found: dict[str, Any]) -> None:
    """Print what a sweep did."""
    for name in ("recovered", "queued", "distilled", "dead_letters", "waiting", "recall_input"):
        out.print(f"{name.replace('_', ' '):<16}{found[name]}", markup=False)
    for failure in found["failures"]:
        out.print(f"{short(failure['subject'])} waits. {failure['field']}: {failure['value']}", markup=False)
        out.print(f"  {failure['remedy']}", markup=False)
    if found["dead_letters"]:
        out.print("`vrm distil dead-letters` says what was given up, and why.")


def show_standing(out: Console, found: dict[str, Any]) -> None:
    """Print where the work stands."""
    show_title(out, f"Distillation in {found['namespace']}")
    rows = [("without a receipt", found["without_receipt"]), ("without a campaign", found["unassigned"])]
    rows += [(f"assigned, {phase}", count) for phase, count in found["assigned"].items()]
    rows += [("of these paused", found["paused"]), ("of these out of attempts", found["out_of_attempts"])]
    rows += list(found["completed"].items())
    rows += [("cancelled", found["cancelled"]), ("dead letters", len(found["dead_letters"]))]
    show_rows(out, ("work", "items"), ((name, str(count)) for name, count in rows))
    if found["out_of_attempts"]:
        out.print("The next sweep gives up what is out of attempts; `vrm distil retry --all` gives it more.")
    if found["dead_letters"]:
        show_letters(out, found["dead_letters"])


def show_letters(out: Console, found: Sequence[dict[str, Any]]) -> None:
    """Print dead letters."""
    show_title(out, "Dead letters")
    if not found:
        out.print("None.")
    for each in found:
        out.print(f"{short(each['work_item'])}  {each['cause']}, {each['age']} ago", markup=False)
        out.print(f"  experience {each['experience']}", markup=False)
        out.print(f"  run        {each['run']}", markup=False)
        out.print(f"  reason     {each['reason']}", markup=False, soft_wrap=True)
        out.print(f"  to do      {each['to_do']}", markup=False, soft_wrap=True)
        resting = ", ".join(map(short, each["decisions"])) or "none yet"
        out.print(f"  Decisions that rest on its Experience all the same: {resting}", markup=False)


def show_retried(out: Console, answers: Iterable[Retried]) -> None:
    """Print what became of items that were to be taken up again."""
    for each in answers:
        done = "taken up" if each.retried else "left as it is"
        out.print(f"{short(each.work_item_id)}  {each.outcome}, {done}", markup=False)
        if each.detail:
            out.print(f"  {each.detail}", markup=False, soft_wrap=True)


def _letter(letter: DeadLetter) -> dict[str, Any]:
    return {
        "work_item": letter.work_item_id,
        "experience": letter.experience_id,
        "run": letter.run_id,
        "cause": letter.cause.value,
        "reason": letter.detail,
        "at": letter.at,
        "age": str(_age(letter.at)),
        "decisions": list(letter.decisions),
        "retry": False,
        "to_do": letter.remedy,
    }


def _age(moment: str) -> timedelta:
    passed = datetime.fromisoformat(now()) - datetime.fromisoformat(moment)
    return timedelta(seconds=max(0, int(passed.total_seconds())))


def _named(work: Sequence[Work], prefix: str) -> Work:
    wanted = prefix.strip().lower()
    noun, _, digits = wanted.rpartition(":")
    if noun not in {"", WorkItemId.noun, ExperienceId.noun} or not _DIGITS.fullmatch(digits):
        raise InvalidInputError("ID", prefix, f"Give the first digits of a {WorkItemId.noun} or {ExperienceId.noun}.")
    names = [f"{kind}:{digits}" for kind in ([noun] if noun else [WorkItemId.noun, ExperienceId.noun])]
    found = [
        each
        for each in work
        if any(key.startswith(name) for key in (each.item.id, each.item.experience_id) for name in names)
    ]
    if not found:
        raise NotFoundError("ID", prefix, "No work item begins so, and none is about such an Experience.")
    if len(found) > 1:
        raise AmbiguousIdError("ID", prefix, f"Give more digits: {', '.join(short(each.item.id) for each in found)}.")
    return found[0]
