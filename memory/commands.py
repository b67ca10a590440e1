"""The commands that are given to Runs: DriveRun, PauseRun, ResumeRun, CancelRun, FailRun, AmendBudget (spec 6.3).

DriveRun admits a Run: the same specification again is a replay. Each of the others publishes one immutable control
event and hands its digest to the run owner, which says what becomes of it. Such a command that is given again is
another event; only the same event is a replay.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from memory.leases import admission
from memory.ports import Clock, RunControlPort, all_good
from records.control import BudgetLimit, ControlCause, ControlEvent, ControlKind, Controlled
from records.errors import NotFoundError
from records.ids import IntentId, RunId
from records.outcomes import ExecutedActor
from records.runtime import Applied, RunBody
from records.states import Machine
from store.artifacts import ArtifactStore
from store.runtime.port import RuntimeReader


class RunCommands:
    """Gives commands to Runs. All of them raise what the run owner answers, and `NotFoundError` for an unknown Run."""

    def __init__(self, runtime: RuntimeReader, artifacts: ArtifactStore, owner: RunControlPort, clock: Clock) -> None:
        """Read Runs, publish events, and tell the owner."""
        self._runtime = runtime
        self._artifacts = artifacts
        self._owner = owner
        self._clock = clock

    def drive_run(self, body: RunBody, slots: Iterable[str], budget: Sequence[BudgetLimit] = ()) -> Applied:
        """Admit a scientific Run with one Activity per slot, or find it admitted.

        Args:
            body: the specification.
            slots: the names of its Activities.
            budget: the limits that it begins with; those of a Run that is there are amended instead.

        Raises:
            IdentityConflictError: its kind and admission key have another specification; nothing was written.
        """
        return self.drive_runs([body], slots, budget)[0]

    def drive_runs(
        self, bodies: Sequence[RunBody], slots: Iterable[str], budget: Sequence[BudgetLimit] = ()
    ) -> list[Applied]:
        """Admit scientific Runs that have the same slots and limits, as `drive_run` does each of them."""
        kept = tuple(slots)
        return all_good(self._owner.apply([admission(body, kept, budget) for body in bodies]))

    def pause_run(self, run_id: RunId, cause: ControlCause = ControlCause.COMMAND, detail: str = "") -> Controlled:
        """Let nothing more be granted until the Run is resumed.

        Raises:
            CommitArbitrationBusyError: a grant of the Run is unresolved; nothing was changed.
            IllegalTransitionError: the Run is not running.
        """
        return self._give(run_id, kind=ControlKind.PAUSE, cause=cause, detail=detail)

    def resume_run(self, run_id: RunId, detail: str = "") -> Controlled:
        """Let a paused Run go on.

        Raises:
            IllegalTransitionError: the Run is not paused.
        """
        return self._give(run_id, kind=ControlKind.RESUME, cause=ControlCause.COMMAND, detail=detail)

    def cancel_run(self, run_id: RunId, cause: ControlCause = ControlCause.COMMAND, detail: str = "") -> Controlled:
        """Let the Run begin to cancel; what is granted stays valid, and closure ends the Run.

        Raises:
            IllegalTransitionError: the Run is over.
        """
        return self._give(run_id, kind=ControlKind.CANCEL_EVENT, cause=cause, detail=detail)

    def fail_run(
        self,
        run_id: RunId,
        cause: ControlCause,
        detail: str = "",
        *,
        intent_id: IntentId | None = None,
        executed_actor: ExecutedActor | None = None,
    ) -> Controlled:
        """Let the Run begin to fail; the decision whose actor failed is named, and who answered if anybody did.

        Raises:
            InvalidRecordError: the cause is not one of a failure, or needs other facts.
            IllegalTransitionError: the Run is over.
        """
        facts = {"intent_id": intent_id, "executed_actor": executed_actor}
        return self._give(run_id, kind=ControlKind.RUNTIME_FAILURE, cause=cause, detail=detail, **facts)

    def amend_budget(
        self, run_id: RunId, limits: Sequence[BudgetLimit], expected_version: int, detail: str = ""
    ) -> Controlled:
        """Set limits of the Run's Budget Envelope, as decided on one version of the Run.

        Raises:
            StaleError: the Run has another version by now.
            InvalidInputError: a limit is below what is spent.
            IllegalTransitionError: the Run is neither running nor paused.
        """
        facts = {"limits": tuple(limits), "expected_version": expected_version}
        return self._give(run_id, kind=ControlKind.AMEND_BUDGET, cause=ControlCause.COMMAND, detail=detail, **facts)

    def _give(self, run_id: RunId, **facts: Any) -> Controlled:
        run = self._runtime.subject(Machine.RUN, run_id)
        if run is None:
            raise NotFoundError("run", run_id, "It was never admitted; admit it first.")
        event = ControlEvent.build(namespace=RunBody.load(run.body).namespace, run_id=run_id, at=self._clock(), **facts)
        (answer,) = all_good(self._owner.control([self._artifacts.publish(event.canonical)]))
        return answer
