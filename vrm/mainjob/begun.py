"""Runs that were begun with another specification than this program has for them.

An earlier version, another catalog or another Recall Input makes another specification under the same admission key.
Such a Run cannot go on here: it is finished by what began it, or given up. One that is over stays as it is.
"""

from __future__ import annotations

from collections.abc import Sequence

from records.errors import IdentityConflictError
from records.runtime import RunBody, Subject
from records.states import Machine, Phase
from store.runtime.port import SubjectReader


def begun_otherwise(bodies: Sequence[RunBody], runs: dict[str, Subject]) -> list[Subject]:
    """Return those of the Runs that hold another specification than `bodies` have, in that order."""
    found = ((body, runs[str(body.id)]) for body in bodies if str(body.id) in runs)
    return [run for body, run in found if RunBody.load(run.body) != body]


def require_own(runtime: SubjectReader, bodies: Sequence[RunBody]) -> None:
    """Refuse to go on where one of these Runs, which belong together, was begun with another specification.

    Raises:
        IdentityConflictError: one was; the error says what to do.
    """
    runs = runtime.subjects(Machine.RUN, [str(body.id) for body in bodies])
    other = begun_otherwise(bodies, runs)
    if other:
        waiting = [run for run in runs.values() if run.phase in {Phase.RUNNING, Phase.PAUSED}]
        cause = next((run for run in other if run in waiting), other[0])
        raise _refusal(cause, [cause] if cause in waiting else waiting[:1], len(waiting))


def _refusal(cause: Subject, wait: Sequence[Subject], waiting: int) -> IdentityConflictError:
    """Return the refusal: `cause` was begun otherwise; the Run in `wait`, if there is one, is what to end."""
    met = f"{cause.id} {cause.phase} ({RunBody.load(cause.body).admission_key})"
    begun = "It was begun with another specification, by an earlier version or with another catalog or Recall Input."
    if not wait:
        way = "What came of it stays as it is; another seed, version or namespace is another Run."
        return IdentityConflictError("run", met, f"{begun} {way}")
    (run,) = wait
    name = "it" if run is cause else f"{run.id} {run.phase}, which belongs to it,"
    way = f"Finish {name} with what began it, or give it up with `vrm runs cancel {run.id}` and give the command again."
    others = f" {waiting - 1} more wait beside it: `vrm runs list`." if waiting > 1 else ""
    return IdentityConflictError("run", met, f"{begun} {way}{others}")
