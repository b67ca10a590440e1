"""What must hold between Runtime and Ledger after every step.

Rules checked here:

- an authorization that is settled has the receipt that says so, and the authorized bytes if it was committed; one that
  is granted is the only one of its attempt, and its subject waits for it at the fence that it was granted for;
- a receipt of a granted append answers an authorization that the Runtime knows, and is settled so or can be;
- where a subject stands, the records are that it stands for;
- a Run that is over has nothing open, and nothing begins in it; one that is paused has nothing unresolved, and what
  changed its budget was decided on the version before;
- a profile is held until its handoff is released, which no handoff is while its work goes on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, Final

from evaluation.bench.corpus import SPACE
from evaluation.simulation.world import World
from memory.control import ENDS
from records.appends import AppendReceipt
from records.canonical import parse_canonical
from records.control import ControlEvent, RunFacts
from records.flows import ENDING, FLOWS
from records.runtime import Authorization, Subject
from records.states import ARROWS, STARTS, Machine, Phase

WAITING: Final = frozenset(
    (machine, target)
    for (machine, _, event), target in ARROWS.items()
    if any((flow.machine, flow.granted) == (machine, event) for flow in FLOWS.values())
) | frozenset(
    (flow.machine, phase)
    for flow in FLOWS.values()
    if flow.machine is not None and flow.granted is None
    for phase in STARTS[flow.machine]
)
"""Where a subject stands while a grant of it is unresolved."""

_ENDS_WORK: Final = {
    Phase.COMMITTED: "completed",
    Phase.CANCELLED: "cancelled",
    Phase.FAILED: "dead_letter",
}
"""What the one completion of an Activity's item says, by the phase in which the Activity ended (spec 8.1)."""
OVER: Final = frozenset({Phase.COMPLETED, Phase.CANCELLED, Phase.FAILED})
"""Where a Run is over."""

_OVER: Final = frozenset({Phase.OUTCOME_COMMITTED, Phase.RETIRED})
_OF_A_RUN: Final = frozenset({Machine.DECISION, Machine.HANDOFF, Machine.AUTHORIZATION, Machine.ERASURE})
_DECIDED: Final = {
    Phase.CONTEXT_COMMITTED: "decision-recall-context",
    Phase.OUTCOME_COMMITTED: "recall-decision-outcome",
}


class BetweenCheck:
    """Compares what changed in one store with the other."""

    def __init__(self, world: World) -> None:
        """Compare the stores of a world."""
        self._world = world
        self._bodies: dict[str, Authorization] = {}
        self._taken: dict[str, tuple[str, ...]] = {}

    def check(self, subjects: Iterable[Subject], receipts: Iterable[AppendReceipt]) -> None:
        """Check what changed since the last time."""
        for subject in subjects:
            for broken in self._of_subject(subject):
                self._world.complain(f"{subject.machine} {subject.id} at {subject.phase}: {broken}")
        for receipt in receipts:
            for broken in self._of_receipt(receipt):
                self._world.complain(f"receipt {receipt.permit_key}: {broken}")

    def _beginning(self, subject: Subject) -> frozenset[Phase]:
        """Return the phases of a Run in which a subject may begin: what ends a Run is granted once it is ending."""
        if subject.machine is Machine.AUTHORIZATION:
            body = self._body(subject)
            if FLOWS[body.transition].ends_what_began:
                return frozenset({Phase.RUNNING, Phase.PAUSED, *ENDS})
            if body.authority in ENDING:
                return frozenset(ENDS)
        return frozenset({Phase.RUNNING})

    def _of_subject(self, subject: Subject) -> Iterator[str]:
        if subject.machine is Machine.AUTHORIZATION:
            yield from self._authorization(subject)
        elif subject.machine is Machine.RUN:
            yield from self._run(subject)
        else:
            yield from self._waits(subject)
        if subject.machine is Machine.DECISION:
            yield from self._decision(subject)
        elif subject.machine is Machine.ERASURE:
            yield from self._erasure(subject)
        elif subject.machine is Machine.HANDOFF:
            yield from self._handoff(subject, str(_parsed(subject.body)["work_item_id"]))
        elif subject.machine is Machine.ACTIVITY and subject.phase in _ENDS_WORK:
            yield from self._completed(subject)
        if subject.machine in _OF_A_RUN and subject.version == 1:
            run = self._world.runtime.subject(Machine.RUN, str(subject.run_id))
            if run is None or run.phase not in self._beginning(subject):
                yield "it began in a Run that is not running"

    def _authorization(self, subject: Subject) -> Iterator[str]:
        body = self._body(subject)
        receipt = self._world.ledger.receipt(body.namespace, subject.id)
        if subject.phase is Phase.GRANTED:
            yield from self._granted(subject, body)
            return
        if receipt is None:
            yield "the Ledger has no receipt"
            return
        if receipt.committed != (subject.phase is Phase.COMMITTED):
            yield f"the receipt says {'success' if receipt.committed else 'no-commit'}"
        if receipt.permit_digest != body.canonical_digest:
            yield "the receipt answers another body"
        known = self._world.ledger.content.digests.get(body.expected_id)
        if subject.phase is Phase.COMMITTED and (known is None or known[1] != body.expected_digest):
            yield f"{body.expected_id} is not in the Ledger with the authorized bytes"

    def _granted(self, subject: Subject, body: Authorization) -> Iterator[str]:
        moved = self._world.runtime.subject(body.machine, body.subject_id)
        if moved is None or _parsed(moved.facts).get("authorization") != subject.id:
            yield "its subject does not know of it"
        elif (moved.machine, moved.phase) not in WAITING:
            yield f"its subject is at {moved.phase} and does not wait"
        elif (moved.generation, moved.fence) != (body.generation, body.fence):
            yield f"it is for fence {body.fence}, its subject is at {moved.fence}"
        for other in self._unresolved():
            if other.id != subject.id and _attempt(self._body(other)) == _attempt(body):
                yield f"{other.id} is granted for the same attempt"

    def _unresolved(self) -> Iterator[Subject]:
        content = self._world.runtime.content.items()
        return (each for key, each in content if key[0] is Machine.AUTHORIZATION and each.phase is Phase.GRANTED)

    def _waits(self, subject: Subject) -> Iterator[str]:
        """A subject waits exactly while the authorization that it names is granted, for the attempt that it is at."""
        name = _parsed(subject.facts).get("authorization")
        found = None if name is None else self._world.runtime.subject(Machine.AUTHORIZATION, str(name))
        granted = found is not None and found.phase is Phase.GRANTED and self._body(found).fence == subject.fence
        if granted != ((subject.machine, subject.phase) in WAITING):
            yield f"its authorization is {'nowhere' if found is None else found.phase}"

    def _decision(self, subject: Subject) -> Iterator[str]:
        held = self._world.ledger.content
        admitted = subject.phase not in {Phase.REGISTERING, Phase.RETIRED}
        if admitted != (subject.id in held.records) and subject.phase is not Phase.REGISTERING:
            yield "its intent is " + ("missing" if admitted else "in the Ledger")
        noun = _DECIDED.get(subject.phase)
        if noun is not None and not self._held(noun, "intent_id", subject.id):
            yield f"there is no {noun}"

    def _erasure(self, subject: Subject) -> Iterator[str]:
        begun = subject.phase not in {Phase.REGISTERING, Phase.RETIRED}
        if begun != (subject.id in self._world.ledger.content.records) and subject.phase is not Phase.REGISTERING:
            yield "its intent is " + ("missing" if begun else "in the Ledger")
        if subject.phase is Phase.CLOSED and not self._held("memory-retention-tombstone", "intent_id", subject.id):
            yield "there is no tombstone"

    def _handoff(self, handoff: Subject, item: str) -> Iterator[str]:
        """What a handoff says of its item is so, and its profile is held until it is released."""
        reference = self._world.runtime.subject(Machine.REFERENCE, str(_parsed(handoff.body)["reference_id"]))
        let_go = reference is None or reference.phase is not Phase.ACTIVE
        if let_go != (handoff.phase is Phase.RELEASED):
            yield "its reference is " + ("gone" if let_go else "held")
        queued = item in self._world.ledger.content.records
        if handoff.phase is Phase.BOUND:
            yield from self._queued(item)
        elif handoff.phase in {Phase.PROVED_ABSENT, Phase.ABANDONED} and queued:
            yield f"{item} is in the Ledger"
        elif handoff.phase is Phase.RELEASED and queued:
            yield from self._done_with(handoff, item)
        experience = str(_parsed(handoff.body)["experience_id"])
        if handoff.phase is Phase.ABANDONED and not self._held("distillation-receipt", "experience_id", experience):
            yield f"there is no receipt of {experience}"

    def _done_with(self, handoff: Subject, item: str) -> Iterator[str]:
        """The profile of an item is needed until its source Run and its campaign are over."""
        if not self._held("distillation-work-completion", "work_item_id", item):
            yield f"there is no completion of {item}"
        content = self._world.ledger.content
        assigned = content.by_kind.get(("distillation-work-assignment", SPACE), [])
        campaigns = [
            content.columns[each]["run_id"] for each in assigned if content.columns[each]["work_item_id"] == item
        ]
        for run_id in (handoff.run_id, *campaigns):
            run = self._world.runtime.subject(Machine.RUN, str(run_id))
            if run is None or run.phase not in OVER:
                yield f"{run_id} is not over"

    def _queued(self, item: str) -> Iterator[str]:
        if item not in self._world.ledger.content.records:
            yield f"{item} is not in the Ledger"
        for noun in ("distillation-receipt", "enqueue-transaction"):
            if not self._held(noun, "work_item_id", item):
                yield f"there is no {noun} of {item}"

    def _completed(self, subject: Subject) -> Iterator[str]:
        item, due = _parsed(subject.body).get("work_item_id"), _ENDS_WORK[subject.phase]
        if item is None:
            return
        content = self._world.ledger.content
        done = [content.columns[each] for each in content.by_kind.get(("distillation-work-completion", SPACE), [])]
        statuses = [each["status"] for each in done if each["work_item_id"] == item]
        if statuses != [due]:
            yield f"its item {item} is {statuses} and not {due}"

    def _held(self, noun: str, column: str, value: str) -> bool:
        content = self._world.ledger.content
        return any(
            content.columns[each].get(column) == value
            for (kind, _), ids in content.by_kind.items()
            if kind == noun
            for each in ids
        )

    def _run(self, run: Subject) -> Iterator[str]:
        yield from self._controlled(run)
        if run.phase not in OVER:
            return
        for (machine, key), subject in self._world.runtime.content.items():
            if subject.run_id != run.id or machine not in _OF_A_RUN:
                continue
            if (machine, subject.phase) in WAITING or subject.phase is Phase.GRANTED:
                yield f"{machine} {key} is {subject.phase}"
            elif machine is Machine.DECISION and subject.phase not in _OVER:
                yield f"decision {key} is {subject.phase}"

    def _controlled(self, run: Subject) -> Iterator[str]:
        """Nothing is unresolved in a Run that is paused; what changed its budget was decided on the version before."""
        if run.phase is Phase.PAUSED:
            yield from (f"{each.id} is granted" for each in self._unresolved() if each.run_id == run.id)
        taken = RunFacts.load(run.facts).taken
        before = self._taken.get(run.id, ())
        self._taken[run.id] = taken
        if taken[: len(before)] != before or len(set(taken)) != len(taken):
            yield "an event that took effect was lost, or took effect twice"
        for digest in taken[len(before) :]:
            event = ControlEvent.read(self._world.artifacts.read(digest), digest)
            if event.expected_version is not None and event.expected_version != run.version - 1:
                yield f"its budget was amended as of version {event.expected_version}"

    def _of_receipt(self, receipt: AppendReceipt) -> Iterator[str]:
        if not FLOWS[receipt.transition].is_granted:
            return
        subject = self._world.runtime.subject(Machine.AUTHORIZATION, receipt.permit_key)
        if subject is None:
            yield "the Runtime never granted it"
            return
        if self._body(subject).canonical_digest != receipt.permit_digest:
            yield "it answers another body"
        wrong = Phase.RETIRED_NO_COMMIT if receipt.committed else Phase.COMMITTED
        if subject.phase is wrong:
            yield f"the Runtime has it as {subject.phase}"
        if receipt.committed and self._body(subject).expected_id not in receipt.record_ids:
            yield "what was authorized was not written"

    def _body(self, subject: Subject) -> Authorization:
        if subject.id not in self._bodies:
            self._bodies[subject.id] = Authorization.load(subject.body)
        return self._bodies[subject.id]


def _attempt(body: Authorization) -> tuple[Machine, str, int]:
    return body.machine, body.subject_id, body.fence


@lru_cache(maxsize=4096)
def _parsed(text: str) -> Any:
    """Return facts or a body, which nobody changes."""
    return parse_canonical(text)


def unsettled(world: World) -> list[str]:
    """Return what waits for a grant to be resolved."""
    content: dict[Any, Subject] = world.runtime.content
    return [
        f"{machine} {key} is {subject.phase}"
        for (machine, key), subject in content.items()
        if subject.phase is Phase.GRANTED or (machine, subject.phase) in WAITING
    ]
