"""Modes as the command line names them, and what a round in one of them shows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

if TYPE_CHECKING:
    from records.governance import Mode
    from records.ids import RecallInputId
    from store.ledger.port import LedgerReader
    from vrm.mainjob.run import Done

ModeNames = Annotated[
    list[str] | None,
    typer.Option(
        "--mode",
        help="off, record_only, legacy_recall, memory_shadow, decision_memory or frozen_memory; a second "
        "`--mode legacy_recall` adds that arm to compare with.",
        show_default="decision_memory",
    ),
]
RecallInputName = Annotated[
    str | None, typer.Option("--recall-input", help="What frozen_memory queries: a beginning of the id.")
]
_SHOWN: Final = 5


def modes_of(names: Sequence[str]) -> tuple[Mode, ...]:
    """Return modes by their names.

    Raises:
        InvalidInputError: one is unknown, or they do not go together.
    """
    from policies.modes import check_modes  # noqa: PLC0415  # help does without
    from records.errors import InvalidInputError  # noqa: PLC0415
    from records.governance import Mode  # noqa: PLC0415

    wrong = next((name for name in names if name not in set(Mode)), None)
    if wrong is not None:
        raise InvalidInputError("--mode", wrong, f"Modes: {', '.join(Mode)}.")
    modes = tuple(Mode(name) for name in names) or (Mode.DECISION_MEMORY,)
    check_modes(modes)
    return modes


def frozen_of(reader: LedgerReader, prefix: str | None) -> RecallInputId | None:
    """Return the one Recall Input whose id begins so; None where none is asked for.

    Raises:
        NotFoundError: there is none.
        AmbiguousIdError: there are several.
        InvalidInputError: it is no beginning of an id.
    """
    from records.errors import InvalidInputError  # noqa: PLC0415  # as above
    from records.ids import RecallInputId  # noqa: PLC0415
    from vrm.cli.knowledge.entries import only  # noqa: PLC0415

    if prefix is None:
        return None
    noun, _, digits = prefix.strip().lower().rpartition(":")
    if noun not in ("", RecallInputId.noun) or not digits or set(digits) - set("0123456789abcdef"):
        raise InvalidInputError("--recall-input", prefix, f"Give a beginning of {RecallInputId.noun}:<64 hex digits>.")
    found = reader.resolve(f"{RecallInputId.noun}:{digits}", _SHOWN)
    return RecallInputId.check(only("--recall-input", prefix, found))


def arms_told(modes: Sequence[Mode], done: Done) -> dict[str, Any]:
    """Return the modes of a round, and where each arm of each of its trials came to."""
    return {
        "modes": [mode.value for mode in modes],
        "trials": [
            {
                "task": state.task,
                "seed": state.seed,
                "arm": state.arm,
                "mode": state.mode.value,
                "acts": state.leader is None,
                "path": [value if math.isfinite(value) else None for value in state.path if state.leader is None],
                "tried": [f"{action.knob}={action.value}" for action in sorted(state.tried, key=str)],
            }
            for state in done.states
        ],
    }
