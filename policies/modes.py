"""What each mode does: the one table of specification section 18, and the arms that a round has in a mode.

Pure. Rules kept here (docs/adr/0072):

- whether evidence is recorded, whether it is distilled, which memory is recalled and which memory changes follow from
  the mode alone; nothing else may switch any of them on or off;
- a decision has one arm, an arm one profile, a profile one mode: so no decision can be given lessons of the earlier
  design and cards of this one. An arm whose mode exposes no cards is registered as not requesting them;
- changing the mode of the next Run changes nothing that was written: it only says what is written from then on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from records.errors import InvalidInputError
from records.governance import Mode
from records.values import RecallRequirement


class Lane(StrEnum):
    """Which memory something is about: none, the earlier design's lessons, or verified knowledge."""

    NONE = "none"
    LEGACY = "legacy"
    VERIFIED = "verified"


class RecallPath(StrEnum):
    """What is recalled for a decision, and who sees it."""

    NONE = "none"
    LEGACY = "legacy"
    SHADOW = "shadow"
    EXPOSE = "expose"
    FROZEN = "frozen"


@dataclass(frozen=True, kw_only=True)
class ModeRules:
    """One row of the table.

    Attributes:
        records: whether Experiences are appended.
        distils: of which memory what was recorded becomes a part.
        recalls: what is recalled; under `shadow` nobody is shown it.
        mutates: which memory a round may change.
    """

    records: bool
    distils: Lane
    recalls: RecallPath
    mutates: Lane


_TABLE: Final = {
    Mode.OFF: ModeRules(records=False, distils=Lane.NONE, recalls=RecallPath.NONE, mutates=Lane.NONE),
    Mode.RECORD_ONLY: ModeRules(records=True, distils=Lane.NONE, recalls=RecallPath.NONE, mutates=Lane.NONE),
    Mode.LEGACY_RECALL: ModeRules(
        records=True, distils=Lane.LEGACY, recalls=RecallPath.LEGACY, mutates=Lane.LEGACY
    ),
    Mode.MEMORY_SHADOW: ModeRules(
        records=True, distils=Lane.VERIFIED, recalls=RecallPath.SHADOW, mutates=Lane.VERIFIED
    ),
    Mode.DECISION_MEMORY: ModeRules(
        records=True, distils=Lane.VERIFIED, recalls=RecallPath.EXPOSE, mutates=Lane.VERIFIED
    ),
    Mode.FROZEN_MEMORY: ModeRules(records=True, distils=Lane.NONE, recalls=RecallPath.FROZEN, mutates=Lane.NONE),
}  # fmt: skip


def rules_of(mode: Mode) -> ModeRules:
    """Return what a mode does (specification 18)."""
    return _TABLE[mode]


@dataclass(frozen=True, kw_only=True)
class Arm:
    """One arm of a round.

    Attributes:
        name: of the arm, in intents and evidence.
        mode: its mode, from which its profile follows.
        requirement: what its intents are registered with.
        acts: whether its decisions are carried out; a shadow's are recalled for and go no further.
    """

    name: str
    mode: Mode
    requirement: RecallRequirement
    acts: bool = True


CONTROL: Final = "control"
MEMORY: Final = "memory"
SHADOW: Final = "shadow"
LEGACY: Final = "legacy"

_REQUESTS: Final = frozenset({RecallPath.SHADOW, RecallPath.EXPOSE, RecallPath.FROZEN})
_NO, _YES = RecallRequirement.REGISTERED_NOT_REQUESTED, RecallRequirement.REQUIRED
_COMPARED: Final = frozenset({Mode.DECISION_MEMORY, Mode.FROZEN_MEMORY})


def may_require(mode: Mode) -> bool:
    """Tell whether an intent under a mode may be registered as requiring a Recall Context."""
    return rules_of(mode).recalls in _REQUESTS


def arms_of(modes: Sequence[Mode]) -> tuple[Arm, ...]:
    """Return the arms of a round: those of its own mode, and that of the earlier design where it is compared.

    Args:
        modes: the round's own mode, then `legacy_recall` if a round with memory is to have that arm too.

    Raises:
        InvalidInputError: these modes do not go together in one round.
    """
    check_modes(modes)
    own = modes[0]
    control = Arm(name=CONTROL, mode=Mode.RECORD_ONLY if own is Mode.LEGACY_RECALL else own, requirement=_NO)
    legacy = Arm(name=LEGACY, mode=Mode.LEGACY_RECALL, requirement=_NO)
    second = {
        RecallPath.NONE: (),
        RecallPath.LEGACY: (legacy,),
        RecallPath.SHADOW: (Arm(name=SHADOW, mode=own, requirement=_YES, acts=False),),
        RecallPath.EXPOSE: (Arm(name=MEMORY, mode=own, requirement=_YES),),
        RecallPath.FROZEN: (Arm(name=MEMORY, mode=own, requirement=_YES),),
    }[rules_of(own).recalls]
    return (control, *second, *((legacy,) if len(modes) > 1 else ()))


def check_modes(modes: Sequence[Mode]) -> None:
    """Refuse modes that do not go together in one round.

    Raises:
        InvalidInputError: none is given, or another one than `legacy_recall` beside a mode that exposes memory.
    """
    if not modes:
        raise InvalidInputError("--mode", "none", f"Modes: {', '.join(Mode)}.")
    own, *further = modes
    if further and (further != [Mode.LEGACY_RECALL] or own not in _COMPARED):
        remedy = "Modes exclude each other; only legacy_recall may stand second, as an arm to compare with."
        raise InvalidInputError("--mode", " ".join(modes), f"{remedy} It goes with {' or '.join(sorted(_COMPARED))}.")
