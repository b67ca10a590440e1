"""The structured events of spec 16, and the one port through which they are told.

Rules kept here:

- an event is a name of `EVENTS` with exactly the fields that stand there; `docs/observability.md` has the same table;
- values are ids, digests, names, reason codes, numbers and counts of them. What else a text field may hold is withheld
  here, whoever tells it: no claim, question, error message, address or knob value gets into an event;
- telling never stops what is told of: nobody waits for it, and an event that cannot be made is told as lost;
- where nobody listens nothing is made. Events of what was committed are told after it is durable, and again where a
  commit is answered again: the id of the record tells them apart.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final

WITHHELD: Final = "withheld"
"""What stands for a text that is neither an id nor a name nor a code."""

LOST: Final = "event.lost"

_SAFE: Final = re.compile(r"[A-Za-z0-9_.:/+@=,-]{0,300}")


@dataclass(frozen=True)
class EventKind:
    """What an event is about: the item of spec 16 (0: beside it), and its fields besides the namespace."""

    item: int
    fields: tuple[str, ...]


EVENTS: Final[dict[str, EventKind]] = {
    "experience.received": EventKind(1, ("receipt", "experience", "disposition", "reasons", "policy")),
    "evidence.captured": EventKind(1, ("snapshot", "position", "policy", "members", "excluded")),
    "strata.formed": EventKind(2, ("snapshot", "strata", "variants", "contrasts", "support_units", "left_out")),
    "candidate.drafted": EventKind(
        3, ("candidate", "kind", "family", "variant", "snapshot", "support_units", "strata", "findings", "adapter")
    ),
    "candidate.decided": EventKind(3, ("decision", "candidate", "verdict", "reasons", "memory", "policy")),
    "memory.recorded": EventKind(3, ("memory", "kind", "family", "variant", "prior", "grade", "support", "counter")),
    "lifecycle.moved": EventKind(
        3, ("lifecycle_event", "memory", "variant", "transition", "disposition", "prior", "reasons", "policy")
    ),
    "item.disposed": EventKind(3, ("item", "batch", "outcome", "refused", "decisions")),
    "knowledge.frozen": EventKind(4, ("snapshot", "position", "policy", "members")),
    "recall_input.composed": EventKind(
        4, ("recall_input", "knowledge", "evidence", "policy", "renderer", "tokenizer", "indexes")
    ),
    "index.built": EventKind(5, ("snapshot", "model", "dimensions", "documents", "members", "vectors", "seconds")),
    "index.recorded": EventKind(5, ("index", "snapshot", "identity", "identity_digest", "semantic", "documents")),
    "index.failed": EventKind(5, ("failure", "snapshot", "identity", "reason")),
    "references.indexed": EventKind(
        5, ("index", "identity", "identity_digest", "semantic", "documents", "sources")
    ),
    "recall.answered": EventKind(
        6,
        (
            "intent", "recall_input", "point", "status", "reason", "candidates", "filtered", "cards", "tokens",
            "seconds",
        ),
    ),
    "recall.failed": EventKind(6, ("intent", "recall_input", "point", "error", "seconds")),
    "context.committed": EventKind(4, ("context", "intent", "recall_input", "status", "reason", "cards", "tokens")),
    "intent.admitted": EventKind(7, ("intent", "run", "arm", "pair", "iteration", "point", "requirement")),
    "decision.ended": EventKind(
        7,
        (
            "outcome", "intent", "run", "arm", "pair", "source", "source_reason", "decision", "terminal_reason",
            "context", "cards", "knob", "value", "artifact", "config",
        ),
    ),
    "trial.recorded": EventKind(
        8,
        (
            "experience", "attempt", "run", "corpus", "status", "intervention", "provenance", "knob", "config",
            "baseline_config", "manipulation",
        ),
    ),
    "trial.verified": EventKind(
        9, ("experience", "verification", "kind", "valid", "violations", "metrics", "seconds")
    ),
    "outcome.attributed": EventKind(9, ("link", "outcome", "attempt", "experience", "config")),
    "cost.stated": EventKind(9, ("statement", "component", "subject", "amount", "unit", "source", "items")),
    "append.refused": EventKind(0, ("no_commit", "transition", "authority", "reason")),
    LOST: EventKind(0, ("error",)),
}  # fmt: skip
"""Every event by its name."""


@dataclass(frozen=True)
class Event:
    """One event; made by `event`."""

    name: str
    namespace: str
    fields: Mapping[str, Any]


def event(name: str, namespace: str, **fields: Any) -> Event:
    """Return an event whose values are safe to be told.

    Raises:
        ValueError: there is no such event, or it has other fields.
    """
    kind = EVENTS.get(name)
    if kind is None or set(kind.fields) != set(fields):
        raise ValueError(f"{name} with {', '.join(sorted(fields))} is not in the table of events")
    return Event(name, namespace, {key: _safe(fields[key]) for key in kind.fields})


Listener = Callable[[Event], None]
_listeners: list[Listener] = []


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Tell events of this process to a listener for the length of a block."""
    add_listener(listener)
    try:
        yield
    finally:
        remove_listener(listener)


def add_listener(listener: Listener) -> None:
    """Tell events of this process to a listener from now on."""
    _listeners.append(listener)


def remove_listener(listener: Listener) -> None:
    """Tell a listener nothing more."""
    _listeners.remove(listener)


def tell(make: Callable[[], Iterable[Event]]) -> None:
    """Make events and tell them; where nobody listens they are not made."""
    if not _listeners:
        return
    try:
        made = list(make())
    except Exception as error:  # noqa: BLE001  # what is told must never stop what is done; it is told as lost
        made = [event(LOST, "", error=type(error).__name__)]
    for each in made:
        for listener in tuple(_listeners):
            with suppress(Exception):  # whoever listens, as little as what is told, stops what is done
                listener(each)


def _safe(value: Any) -> Any:
    match value:
        case None | bool() | int():
            return value
        case float():
            return value if math.isfinite(value) else None
        case str():
            return str(value) if _SAFE.fullmatch(value) and "://" not in value else WITHHELD
        case Mapping():
            return {_safe(str(key)): _safe(each) for key, each in value.items()}
        case list() | tuple():
            return [_safe(each) for each in value]
    return WITHHELD
