"""What the Runtime keeps: subjects of state machines, commands that move them, authorizations (spec 6.3).

A subject's body is immutable canonical JSON; its phase, version, generation, fence and facts change only through the
commands here, each of which is all or nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field, StringConstraints

from records.control import Charge
from records.fields import Digest, Name, Namespace, Text, Timestamp
from records.flows import Authority, Transition
from records.ids import ActivityId, AuthorizationId, EnqueueAttemptId, HandoffId, ReferenceId, RunId, WorkItemId
from records.models import Model, once
from records.states import Event, Machine, Phase
from records.values import Count


class RunBody(Model):
    """The admitted specification of a Run. (run_kind, admission_key) is unique."""

    namespace: Namespace
    run_kind: Annotated[str, Field(pattern="^(SCIENTIFIC|MEMORY_DISTILLATION)$")]
    admission_key: Name
    specification_digest: Digest
    admitted_at: Timestamp

    @once
    def id(self) -> RunId:
        """The id that admission converges on: kind and key, nothing else."""
        return RunId.derive(
            {"namespace": self.namespace, "run_kind": self.run_kind, "admission_key": self.admission_key}
        )


def activity_id(run_id: RunId, slot: str) -> ActivityId:
    """Return the id of one Activity of a Run."""
    return ActivityId.derive({"run_id": run_id, "slot": slot})


def handoff_id(work_item_id: WorkItemId) -> HandoffId:
    """Return the id of the one enqueue handoff of a work item."""
    return HandoffId.derive({"work_item_id": work_item_id})


def enqueue_attempt_id(handoff: HandoffId, generation: int, fence: int) -> EnqueueAttemptId:
    """Return the id of one attempt of a handoff."""
    return EnqueueAttemptId.derive({"handoff_id": handoff, "generation": generation, "fence": fence})


def reference_id(owner: str, digest: str) -> ReferenceId:
    """Return the id of the reference by which `owner` holds the bytes with `digest`."""
    return ReferenceId.derive({"owner": owner, "digest": digest})


class Authorization(Model):
    """A single-use permission for one append.

    Its id covers who may act and on what attempt, never what is written; the body binds the output, and the digest of
    the body is what Completion and the append receipt hold.
    """

    namespace: Namespace
    transition: Transition
    authority: Authority
    machine: Machine
    subject_id: Name
    run_id: RunId
    origin_phase: Phase
    generation: Count
    fence: Count
    expected_id: Name
    expected_digest: Digest
    proposal_digest: Digest
    granted_at: Timestamp

    @once
    def id(self) -> AuthorizationId:
        """The id of the authorization; independent of the payload that it binds."""
        own = {"expected_id", "expected_digest", "proposal_digest", "granted_at"}
        projection = {key: value for key, value in self.as_json().items() if key not in own}
        return AuthorizationId.of_bytes(self.encode(projection))


class Subject(Model):
    """One row of the Runtime: where a machine stands."""

    machine: Machine
    id: Name
    run_id: RunId | None
    phase: Phase
    version: Count
    generation: Count
    fence: Count
    body: Text
    facts: Text


Holder = Annotated[Text, StringConstraints(min_length=1, max_length=200)]
"""The name of whoever holds a lease; the same after a crash."""


class Lease(Model):
    """Who works on an Activity, and until when nobody else may."""

    holder: Holder
    until: Timestamp


class ActivityFacts(Model):
    """What an Activity keeps besides its phase.

    Attributes:
        authorization: the last grant of an attempt at it.
        lease: given while it is LEASED or RUNNING. A grant ends it: what is granted has no deadline (spec 8.1).
    """

    authorization: AuthorizationId | None = None
    lease: Lease | None = None


class Create(Model):
    """Let a subject come to be in a start phase."""

    machine: Machine
    id: Name
    run_id: RunId | None
    phase: Phase
    body: Text
    facts: Text = "{}"


class Move(Model):
    """Move a subject by an event, if it still has the generation and fence that were read."""

    machine: Machine
    id: Name
    event: Event
    generation: Count
    fence: Count
    facts: Text | None = None

    @classmethod
    def of(cls, subject: Subject, event: Event, facts: str | None = None, *, raised: int = 0) -> Move:
        """Return the move of a subject as it was read; `raised` is by how much a move before it raised the fence."""
        return cls(
            machine=subject.machine,
            id=subject.id,
            event=event,
            generation=subject.generation + raised,
            fence=subject.fence + raised,
            facts=facts,
        )


class Require(Model):
    """Demand that a subject is in a phase, and at a version if one is given, without moving it."""

    machine: Machine
    id: Name
    phase: Phase
    version: Count | None = None

    @classmethod
    def of(cls, subject: Subject) -> Require:
        """Demand that a subject is as it was read."""
        return cls(machine=subject.machine, id=subject.id, phase=subject.phase, version=subject.version)


class Command(Model):
    """One atomic step of the Runtime.

    `key` names the subject whose phase tells that the command was carried out before: if that subject exists (or, where
    `key_phase` is given, is in that phase) the command is a replay and changes nothing. Without a key there is no such
    sign: the moves' generations and fences alone say whether it may be carried out.

    `charges` are spent of the budgets of Runs that are RUNNING. One with a key that was made before is left out; a
    command that holds nothing else is then a replay.
    """

    key: tuple[Machine, Name] | None = None
    key_phase: Phase | None = None
    requires: tuple[Require, ...] = ()
    creates: tuple[Create, ...] = ()
    moves: tuple[Move, ...] = ()
    charges: tuple[Charge, ...] = ()


@dataclass(frozen=True)
class Applied:
    """The answer to a command: whether it was carried out now or had been before."""

    replayed: bool
