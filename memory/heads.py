"""Owner of lifecycle heads: one logical owner per scope variant, many of them on one host (design, section 6).

Rules kept here:

- a plan reserves every scope variant that its events touch before it is granted, so plans on one variant are serialised
  and two plans on different variants never wait for each other; what is taken by another plan is refused, not queued;
- the events of a plan must be legal arrows of the Lifecycle Policy from the head that is kept warm here;
- a reservation carries the host's epoch, which the commit holds to the end: a host that was replaced can pass nothing;
- idle variants are dropped from memory and read again on first use. The database's compare-and-swap stays the lock.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from policies.lifecycle_policy import LifecycleFact, LifecycleHead, advance
from records.errors import StaleError
from records.knowledge import LifecycleEvent
from records.values import Disposition
from store.ledger.port import LedgerStore

WARM = 10_000
"""How many heads a host keeps in memory."""


@dataclass(frozen=True)
class Reservation:
    """Scope variants held for one plan; the fence goes into the append."""

    plan: str
    fence: tuple[str, int]


class LifecycleHeads:
    """Hosts the heads of a share of the scope variants."""

    def __init__(self, ledger: LedgerStore, holder: str, host: int = 0, warm: int = WARM) -> None:
        """Claim the host's share."""
        self._ledger = ledger
        self._warm = warm
        self._heads: OrderedDict[tuple[str, str], LifecycleHead | None] = OrderedDict()
        self._taken: dict[tuple[str, str], str] = {}
        self._epoch = ledger.claim(f"lifecycle-head/{host}", holder)

    def reserve(self, namespace: str, plan: str, events: Sequence[LifecycleEvent]) -> Reservation:
        """Take the variants of a plan's events, in sorted order, after checking that every event is legal.

        Raises:
            StaleError: a variant is held for another plan, or an event does not consume the head that is there.
            IllegalTransitionError: an event has no arrow in the Lifecycle Policy.
        """
        keys = sorted({(namespace, str(event.scope_variant_id)) for event in events})
        for key in keys:
            if self._taken.get(key, plan) != plan:
                raise StaleError("scope_variant", key[1], f"It is held for {self._taken[key]}; propose again later.")
        heads = {key: self._head(key) for key in keys}
        for event in events:
            key = (namespace, str(event.scope_variant_id))
            current = heads[key]
            if current is not None and event.expected_prior != current.event_id:
                raise StaleError("scope_variant_head", event.expected_prior, f"It stands at {current.event_id} now.")
            heads[key] = advance(current, LifecycleFact.of(event))
        self._taken |= dict.fromkeys(keys, plan)
        return Reservation(plan, (self._epoch.resource, self._epoch.number))

    def release(self, plan: str) -> None:
        """Let go of a plan's variants; their heads are read again on next use."""
        for key in [key for key, holder in self._taken.items() if holder == plan]:
            del self._taken[key]
            self._heads.pop(key, None)

    def head(self, namespace: str, scope_variant_id: str) -> LifecycleHead | None:
        """Return the head of a variant as kept here."""
        return self._head((namespace, scope_variant_id))

    def _head(self, key: tuple[str, str]) -> LifecycleHead | None:
        if key not in self._heads:
            self._heads[key] = self._read(key)
            self._passivate(key)
        self._heads.move_to_end(key)
        return self._heads[key]

    def _read(self, key: tuple[str, str]) -> LifecycleHead | None:
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

    def _passivate(self, keep: tuple[str, str]) -> None:
        for key in self._idle(keep):
            if len(self._heads) <= self._warm:
                return
            del self._heads[key]

    def _idle(self, keep: tuple[str, str]) -> Iterable[tuple[str, str]]:
        return [key for key in self._heads if key not in self._taken and key != keep]
