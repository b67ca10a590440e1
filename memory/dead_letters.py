"""Work items that are given up: their campaign fails, and closure writes the dead letter (spec 8.1, 9.8).

A dead letter stays visible as the completion of its item, with the control event that says why. It is no success, and
nothing is ever distilled from it again under the same policies.
"""

from __future__ import annotations

from collections.abc import Iterable

from memory.assignments import campaign_id
from memory.campaigns import Failure
from memory.closure import RunClosure
from memory.commands import RunCommands
from records.states import Phase


class DeadLetters:
    """Gives up what cannot be distilled."""

    def __init__(self, commands: RunCommands, closure: RunClosure, namespace: str) -> None:
        """Fail campaigns of a namespace by commands, and end them by closure."""
        self._commands = commands
        self._closure = closure
        self._namespace = namespace

    def bury(self, failures: Iterable[Failure]) -> dict[str, Phase]:
        """End the campaign of every failure that is hopeless; return by item the phase in which it ended.

        Raises:
            VrmError: what the run owner, the coordinator or closure answered; it is safe to bury again.
        """
        ended: dict[str, Phase] = {}
        for failure in failures:
            if failure.hopeless is not None:
                run_id = campaign_id(self._namespace, failure.subject)
                self._commands.fail_run(run_id, failure.hopeless, str(failure.error))
                ended[failure.subject] = self._closure.close(run_id)
        return ended
