"""What must hold in each of the two stores after every step.

Rules checked here:

- Runtime: a body never changes, nothing is lost; phases move along arrows only, as many as the version says; generation
  and fence rise with the events that end an attempt and never fall; there is one Run to a kind and admission key, one
  Activity to a Run's slot;
- Ledger: the journal is gapless and chained and only grows; a permit has one answer, which never changes; success and
  no-commit exclude each other, and each names exactly the rows of its permit; heads move forward by one, along the
  events that consume them; what there may be one of there is one of.

Only what changed since the last check is looked at, so a check costs little. The rules are written down here a second
time on purpose: a checker that asked the writers could not find a mistake in them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import cache
from operator import is_
from typing import Any, Final

from evaluation.simulation.world import World
from records.appends import AppendReceipt, Head, JournalRow, NamespaceHead
from records.flows import FLOWS
from records.knowledge import GENESIS
from records.runtime import RunBody, Subject
from records.states import ARROWS, FENCING, STARTS, Machine, Phase
from store.runtime.engine import Key

_ONE_OF: Final = {
    "recall-decision-outcome": "intent_id",
    "decision-recall-context": "intent_id",
    "distillation-receipt": "experience_id",
    "distillation-work-assignment": "work_item_id",
    "distillation-work-completion": "work_item_id",
    "enqueue-transaction": "work_item_id",
    "no-commit-receipt": "authorization_id",
}
"""Of which kinds there is at most one to what."""
_PROOFS: Final = frozenset({"no-commit-receipt", "distillation-commit-conflict"})


class RuntimeCheck:
    """Follows the subjects of a Runtime."""

    def __init__(self, world: World) -> None:
        """Follow the Runtime of a world from here on."""
        self._world = world
        self._seen: dict[Key, Subject] = {}
        self._admitted: dict[tuple[str, str], str] = {}
        self._slots: dict[tuple[str, str], str] = {}
        self.changed()  # what there is at the beginning is checked as well

    def changed(self) -> list[Subject]:
        """Return the subjects that changed since the last time, after checking how."""
        content = self._world.runtime.content
        if len(content) == len(self._seen) and all(map(is_, content.values(), self._seen.values())):
            return []
        fresh = [subject for key, subject in content.items() if self._seen.get(key) is not subject]
        if len(content) < len(self._seen):
            self._world.complain("the Runtime lost a subject")
        for subject in fresh:
            before = self._seen.get((subject.machine, subject.id))
            for broken in self._created(subject) if before is None else _moved(before, subject):
                self._world.complain(f"{subject.machine} {subject.id}: {broken}")
            self._seen[subject.machine, subject.id] = subject
        return fresh

    def _created(self, subject: Subject) -> Iterator[str]:
        starts = {(phase, 0) for phase in STARTS[subject.machine]}
        reached = {end for start, _ in starts for end in _reach(subject.machine, start, subject.version - 1)}
        if subject.version == 1 and (subject.phase, 0) not in starts:
            yield f"it began in {subject.phase}"
        elif (subject.phase, subject.fence - 1) not in reached or subject.fence != subject.generation:
            yield f"no way leads to {subject.phase}, fence {subject.fence}, in {subject.version - 1} arrows"
        if subject.machine is Machine.RUN:
            body = RunBody.load(subject.body)
            yield from self._only(self._admitted, (body.run_kind, body.admission_key), subject.id, "Run")
        if subject.machine is Machine.ACTIVITY:
            yield from self._only(self._slots, (str(subject.run_id), subject.body), subject.id, "Activity")

    @staticmethod
    def _only(known: dict[tuple[str, str], str], key: tuple[str, str], own: str, what: str) -> Iterator[str]:
        if known.setdefault(key, own) != own:
            yield f"{what} {known[key]} was admitted for {key} already"


def _moved(before: Subject, after: Subject) -> Iterator[str]:
    if (before.body, before.run_id) != (after.body, after.run_id):
        yield "its body or its Run changed"
    steps, raised = after.version - before.version, after.fence - before.fence
    if raised != after.generation - before.generation or raised < 0:
        yield f"generation and fence went from {before.generation}, {before.fence} to {after.generation}, {after.fence}"
    if steps < 1 or (after.phase, raised) not in _reach(after.machine, before.phase, steps):
        yield f"no way leads from {before.phase} to {after.phase} in {steps} arrows that end {raised} attempts"


@cache
def _reach(machine: Machine, phase: Phase, steps: int) -> frozenset[tuple[Phase, int]]:
    """Return where `steps` arrows lead from a phase, and how many of them end an attempt on the way."""
    places = {(phase, 0)}
    for _ in range(min(steps, _LONGEST)):
        places = {
            (target, ended + (event in FENCING))
            for at, ended in places
            for (kind, start, event), target in ARROWS.items()
            if kind is machine and start is at
        }
    return frozenset(places)


_LONGEST: Final = 8
"""More arrows than any one command takes."""


class LedgerCheck:
    """Follows the rows of a Ledger."""

    def __init__(self, world: World) -> None:
        """Follow the Ledger of a world from here on."""
        self._world = world
        content = world.ledger.content
        self._rows = {name: len(rows) for name, rows in content.journals.items()}
        self._last = {name: rows[-1] for name, rows in content.journals.items() if rows}
        self._receipts = dict(content.receipts)
        self._heads: dict[str, Head] = dict(content.variants)
        self._size = (0, 0, 0)
        self._one: dict[tuple[str, str], str] = {}
        self._permits: dict[str, list[JournalRow]] = {}
        for row in (row for rows in content.journals.values() for row in rows if row.noun in _ONE_OF):
            self._one[row.noun, self._about(row)] = row.id

    def changed(self, *, whole: bool = False) -> tuple[list[JournalRow], list[AppendReceipt]]:
        """Return the rows and receipts that are new since the last time, after checking them.

        Nothing is looked at while there are no more rows than before, unless it is to be the `whole`.
        """
        content = self._world.ledger.content
        size = (len(content.records), len(content.receipts), len(content.variants))
        if size == self._size and not whole:
            return [], []
        self._size = size
        rows = [row for name in self._world.ledger.content.journals for row in self._new_rows(name)]
        receipts = self._new_receipts()
        for receipt in receipts:
            for broken in self._answered(receipt):
                self._world.complain(f"receipt {receipt.permit_key}: {broken}")
        known = {receipt.permit_key for receipt in receipts}
        for row in rows:
            if row.permit_key not in known:
                self._world.complain(f"{row.id} was written under {row.permit_key}, which got no receipt with it")
        self._check_heads()
        return rows, receipts

    def _new_rows(self, name: str) -> list[JournalRow]:
        content = self._world.ledger.content
        journal, seen = content.journals[name], self._rows.get(name, 0)
        if len(journal) < seen or (seen and journal[seen - 1] is not self._last[name]):
            self._world.complain(f"the journal of {name} changed behind its end")
        rows = journal[seen:]
        for row in rows:
            for broken in self._follows(name, row):
                self._world.complain(f"journal row {row.position}, {row.id}: {broken}")
            self._last[name] = row
            self._permits.setdefault(row.permit_key, []).append(row)
        self._rows[name] = len(journal)
        head = content.heads.get(name, NamespaceHead(name))
        if rows and (head.position, head.chain_digest) != (rows[-1].position, rows[-1].chain_digest):
            self._world.complain(f"the head of {name} is at {head.position}, its journal at {rows[-1].position}")
        return rows

    def _follows(self, name: str, row: JournalRow) -> Iterator[str]:
        before = self._last.get(name)
        position, digest = (0, "0" * 64) if before is None else (before.position, before.chain_digest)
        if row.position != position + 1:
            yield f"it comes after {position}"
        text = "\n".join((digest, row.namespace, str(row.position), row.noun, row.id, row.payload_digest))
        if row.chain_digest != hashlib.sha256(b"vrm/ledger-chain/v1\0" + text.encode()).hexdigest():
            yield "the chain is broken"
        stored = self._world.ledger.content.records.get(row.id)
        if stored is None or (stored.position, stored.noun) != (row.position, row.noun):
            yield "its record is not there"
        if row.noun in _ONE_OF:
            about = self._about(row)
            if self._one.setdefault((row.noun, about), row.id) != row.id:
                yield f"{self._one[row.noun, about]} is there for {about}"

    def _about(self, row: JournalRow) -> str:
        return str(self._world.ledger.content.columns[row.id].get(_ONE_OF[row.noun]))

    def _new_receipts(self) -> list[AppendReceipt]:
        held = self._world.ledger.content.receipts
        fresh = [receipt for key, receipt in held.items() if self._receipts.get(key) is not receipt]
        for receipt in fresh:
            if (receipt.namespace, receipt.permit_key) in self._receipts:
                self._world.complain(f"the answer of {receipt.permit_key} changed")
        if len(held) < len(self._receipts):
            self._world.complain("a receipt was lost")
        self._receipts.update(((each.namespace, each.permit_key), each) for each in fresh)
        return fresh

    def _answered(self, receipt: AppendReceipt) -> Iterator[str]:
        rows = self._permits.get(receipt.permit_key, [])
        named = set(zip(receipt.record_ids, receipt.positions, strict=True))
        written = {(row.id, row.position) for row in rows}
        if not written <= named:
            yield f"{len(written - named)} rows of its permit are not named"
        proofs = [row for row in rows if row.noun in _PROOFS]
        if receipt.committed and proofs:
            yield "it says success, and a no-commit is there"
        if not receipt.committed and ([row.id for row in rows] != [str(receipt.no_commit_id)] or not proofs):
            yield "it says no-commit, and other rows are there"
        held = self._world.ledger.content.records
        for record_id, position in named:
            stored: Any = held.get(record_id)
            if stored is None or stored.position != position:
                yield f"{record_id} is not at {position}"
        shared = FLOWS[receipt.transition].shared
        if receipt.committed and any(held[each].noun not in shared for each, _ in named - written if each in held):
            yield "it names a row that another permit wrote"

    def _check_heads(self) -> None:
        heads = self._world.ledger.content.variants
        for key, head in heads.items():
            before = self._heads.get(key)
            if before is head:
                continue
            for broken in self._advanced(before, head):
                self._world.complain(f"head of {key}: {broken}")
            self._heads[key] = head
        if len(heads) < len(self._heads):
            self._world.complain("a head was lost")

    def _advanced(self, before: Head | None, head: Head) -> Iterator[str]:
        """Follow the events back from the new head: as many as it moved by must lead to the head before."""
        event, length = head.event_id, head.version - (before.version if before else 0)
        if length < 1:
            yield f"it went from version {before.version if before else 0} to {head.version}"
        for _ in range(length):
            stored = self._world.ledger.content.records.get(event)
            if stored is None:
                yield f"{event} is not in the Ledger"
                return
            event = str(getattr(stored.load(), "expected_prior", ""))
        if event != (before.event_id if before else GENESIS):
            yield f"its events lead back to {event}, and it stood at {before.event_id if before else GENESIS}"
