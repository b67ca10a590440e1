"""Whether a result was reproduced, as of now: the latest event about it (spec 003, principle 7).

Rules kept here (docs/adr/0081):

- of several events about one entry the one with the latest `observed_at` counts; of those that were observed at one
  moment, the one that was appended last. An event that is imported late does not undo a later finding;
- no entry and no event ever changes; the fold is made anew whenever it is read.
"""

from __future__ import annotations

from collections.abc import Iterable

from records.lineage import ReproducibilityEvent, Reproduction


def latest_events(events: Iterable[ReproducibilityEvent]) -> dict[str, ReproducibilityEvent]:
    """Return the event that counts by the entry that it is about; `events` are in the order of the journal."""
    found: dict[str, ReproducibilityEvent] = {}
    for event in events:
        before = found.get(event.target_id)
        if before is None or before.observed_at <= event.observed_at:
            found[event.target_id] = event
    return found


def status_of(entry_id: str, latest: dict[str, ReproducibilityEvent]) -> Reproduction:
    """Return what is known of an entry; nobody having said anything is `unverified`."""
    event = latest.get(entry_id)
    return Reproduction.UNVERIFIED if event is None else event.status
