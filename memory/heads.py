"""Owner of lifecycle heads: one logical owner per scope variant, many of them on one host.

Rules kept here:

- a plan reserves every scope variant that its events touch before it is granted, so plans on one variant are serialised
  and two plans on different variants never wait for each other; what is taken by another plan is refused, not queued;
- a reservation lapses, so that a plan whose maker died holds nothing for ever. One that lapsed too early costs a typed
  no-commit and nothing else;
- the events of a plan must be legal arrows of the Lifecycle Policy from the head that is kept warm here;
- a reservation carries the host's epoch, which the commit holds to the end: a host that was replaced can pass nothing;
- idle variants are dropped from memory and read again on first use, and so is a head that a plan found stale, because
  recovery appends without a reservation. The database's compare-and-swap stays the lock.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from policies.lifecycle_policy import LifecycleFact, LifecycleHead, advance
from records.errors import StaleError, VrmError
from records.knowledge import GENESIS, LifecycleEvent
from records.values import Disposition
from store.ledger.port import LedgerStore

WARM: Final = 10_000
"""How many heads a host keeps in memory."""

HOLD_SECONDS: Final = 10.0
"""How long a reservation holds; many times what granting and appending one group takes."""

Key = tuple[str, str]


@dataclass(frozen=True)
class Reservation:
    """Scope variants held for one plan; the fence goes into the append."""

    plan: str
    fence: tuple[str, int]


class LifecycleHeads:
    """Hosts the heads of a share of the scope variants."""

    def __init__(
        self,
        ledger: LedgerStore,
        holder: str,
        host: int = 0,
        *,
        warm: int = WARM,
        seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        """Claim the host's share; `warm` heads are kept in memory, and `seconds` tells when a reservation lapses."""
        self._ledger = ledger
        self._warm = warm
        self._seconds = seconds
        self._heads: OrderedDict[Key, LifecycleHead | None] = OrderedDict()
        self._taken: dict[Key, tuple[str, float]] = {}
        self._epoch = ledger.claim(f"lifecycle-head/{host}", holder)

    def reserve(self, namespace: str, plan: str, events: Sequence[LifecycleEvent]) -> Reservation:
        """Take the variants of a plan's events, in sorted order, after checking that every event is legal.

        Raises:
            StaleError: a variant is held for another plan, or an event does not consume the head that is there.
            IllegalTransitionError: an event has no arrow in the Lifecycle Policy.
        """
        keys = sorted({(namespace, str(event.scope_variant_id)) for event in events})
        self._lapse()
        for key in keys:
            holder, _ = self._taken.get(key, (plan, 0.0))
            if holder != plan:
                raise StaleError("scope_variant", key[1], f"It is held for {holder}; propose again later.")
        try:
            self._require_legal(namespace, keys, events)
        except VrmError:
            self._forget(keys)
            raise
        self._taken |= dict.fromkeys(keys, (plan, self._seconds() + HOLD_SECONDS))
        return Reservation(plan, (self._epoch.resource, self._epoch.number))

    def release(self, plan: str) -> None:
        """Let go of a plan's variants; their heads are read again on next use."""
        self._forget([key for key, (holder, _) in self._taken.items() if holder == plan])

    def head(self, namespace: str, scope_variant_id: str) -> LifecycleHead | None:
        """Return the head of a variant as kept here."""
        return self._head((namespace, scope_variant_id))

    def _require_legal(self, namespace: str, keys: Sequence[Key], events: Sequence[LifecycleEvent]) -> None:
        heads = {key: self._head(key) for key in keys}
        for event in events:
            key = (namespace, str(event.scope_variant_id))
            now = GENESIS if (current := heads[key]) is None else current.event_id
            if event.expected_prior != now:
                raise StaleError("scope_variant_head", event.expected_prior, f"It stands at {now} now.")
            heads[key] = advance(current, LifecycleFact.of(event))

    def _lapse(self) -> None:
        now = self._seconds()
        self._forget([key for key, (_, until) in self._taken.items() if until <= now])

    def _forget(self, keys: Iterable[Key]) -> None:
        for key in keys:
            self._taken.pop(key, None)
            self._heads.pop(key, None)

    def _head(self, key: Key) -> LifecycleHead | None:
        if key not in self._heads:
            self._heads[key] = self._read(key)
            self._passivate(key)
        self._heads.move_to_end(key)
        return self._heads[key]

    def _read(self, key: Key) -> LifecycleHead | None:
        stored = self._ledger.variant_heads(key[0], [key[1]]).get(key[1])
        if stored is None:
            return None
        return LifecycleHead(
            scope_variant_id=stored.scope_variant_id,
            event_id=stored.event_id,
            memory_id=stored.memory_id,
            disposition=Disposition(stored.disposition),
            length=stored.version,
        )

    def _passivate(self, keep: Key) -> None:
        for key in self._idle(keep):
            if len(self._heads) <= self._warm:
                return
            del self._heads[key]

    def _idle(self, keep: Key) -> Iterable[Key]:
        return [key for key in self._heads if key not in self._taken and key != keep]
