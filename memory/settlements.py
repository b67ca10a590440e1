"""The end of a grant: what the Ledger answered, read back, and the command that settles by it. The spine's fourth step.

Rules kept here:

- a settlement rests on what a Ledger getter reads back, never on an answer that somebody passes in: the receipt must
  answer this authorization, every record that it names must be there and whole, and the one that was authorized must
  have the bytes that were;
- what a group needs is read together: one question for receipts, one for records.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from memory.known import load
from records.appends import AppendReceipt, StoredRecord
from records.base import Record
from records.errors import IntegrityError, NotFoundError, VrmError
from records.flows import FLOWS
from records.ingestion import WorkCompletion
from records.runtime import Authorization, Command, Move, Subject
from records.states import Event, Machine, Phase
from store.ledger.port import LedgerReader
from store.runtime.port import RuntimeReader


class Answer(NamedTuple):
    """An authorization, the receipt that it got, and the event by which its subject moves on."""

    authorization: Authorization
    receipt: AppendReceipt
    moved: Event


def read_answers(
    runtime: RuntimeReader, ledger: LedgerReader, authorization_ids: Sequence[str]
) -> dict[str, Answer | VrmError]:
    """Return the answer of each authorization as the Ledger holds it, or why there is none to settle by."""
    subjects = runtime.subjects(Machine.AUTHORIZATION, authorization_ids)
    found = {key: _authorization(key, subjects.get(key)) for key in authorization_ids}
    granted = {key: each for key, each in found.items() if isinstance(each, Authorization)}
    missing = {key: each for key, each in found.items() if not isinstance(each, Authorization)}
    receipts: dict[str, AppendReceipt] = {}
    for namespace in sorted({each.namespace for each in granted.values()}):
        keys = [key for key, each in granted.items() if each.namespace == namespace]
        receipts |= ledger.receipts(namespace, keys)
    stored = ledger.get_many({name for receipt in receipts.values() for name in _named(receipt)})
    return missing | {key: _checked(each, receipts.get(key), stored) for key, each in granted.items()}


def settlement(answer: Answer, *, is_over: bool) -> Command:
    """Return the command that settles a grant together with its subject; alone, if its attempt is over."""
    authorization, receipt, event = answer
    own, phase = (Event.COMMIT, Phase.COMMITTED) if receipt.committed else (Event.RETIRE, Phase.RETIRED_NO_COMMIT)
    key = Machine.AUTHORIZATION, str(authorization.id)
    settled = Move(machine=key[0], id=key[1], event=own, generation=1, fence=1)
    moved = Move(
        machine=authorization.machine,
        id=authorization.subject_id,
        event=event,
        generation=authorization.generation,
        fence=authorization.fence,
    )
    return Command(key=key, key_phase=phase, moves=(settled,) if is_over else (settled, moved))


def _authorization(authorization_id: str, subject: Subject | None) -> Authorization | VrmError:
    if subject is None:
        return NotFoundError("authorization", authorization_id, "It was never granted.")
    try:
        return Authorization.load(subject.body)
    except VrmError as error:
        return error


def _named(receipt: AppendReceipt) -> tuple[str, ...]:
    return receipt.record_ids if receipt.committed else (str(receipt.no_commit_id),)


def _checked(
    authorization: Authorization, receipt: AppendReceipt | None, stored: Mapping[str, StoredRecord]
) -> Answer | VrmError:
    try:
        return _require_read_back(authorization, receipt, stored)
    except VrmError as error:
        return error


def _require_read_back(
    authorization: Authorization, receipt: AppendReceipt | None, stored: Mapping[str, StoredRecord]
) -> Answer:
    if receipt is None:
        raise NotFoundError("receipt", authorization.id, "The Ledger has no answer yet; append again.")
    if receipt.permit_digest != authorization.canonical_digest:
        raise IntegrityError("receipt", authorization.id, "The receipt answers another authorization.")
    records: dict[str, Record] = {}
    for name in _named(receipt):
        if name not in stored:
            raise IntegrityError("receipt", name, "The receipt names a record that the Ledger does not hold.")
        records[name] = load(stored[name])
    return Answer(authorization, receipt, _moved(authorization, receipt, records.get(authorization.expected_id)))


def _moved(authorization: Authorization, receipt: AppendReceipt, authorized: Record | None) -> Event:
    """Return the event of the subject for this end of the grant."""
    flow = FLOWS[authorization.transition]
    if not receipt.committed:
        event = (flow.retired or {}).get(authorization.origin_phase)
    elif authorized is None or authorized.payload_digest != authorization.expected_digest:
        raise IntegrityError("record", authorization.expected_id, "The Ledger holds other bytes than were authorized.")
    else:
        event = flow.ends.get(authorized.status) if isinstance(authorized, WorkCompletion) else flow.committed
    if event is None:
        raise IntegrityError("flow", flow.transition.value, "It has no event for this end of a grant.")
    return event
