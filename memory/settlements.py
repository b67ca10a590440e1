"""The end of a grant: what the Ledger answered, read back, and the command that settles by it. The spine's fourth step.

Rules kept here:

- a settlement rests on what a Ledger getter reads back, never on an answer that somebody passes in: the receipt must
  answer this authorization, and the record that it names must be there, in the bytes that were authorized;
- what a group needs is read together: receipts and, after them, the records that were authorized in one round trip.
"""

from __future__ import annotations

from collections.abc import Sequence

from records.appends import AppendReceipt, StoredRecord
from records.errors import IntegrityError, NotFoundError, VrmError
from records.flows import FLOWS
from records.runtime import Authorization, Command, Move, Subject
from records.states import Event, Machine, Phase
from store.ledger.port import LedgerReader, answers, records
from store.runtime.port import SubjectReader

Answer = tuple[Authorization, AppendReceipt]
"""An authorization and the receipt that it got."""


def read_answers(
    runtime: SubjectReader, ledger: LedgerReader, authorization_ids: Sequence[str]
) -> dict[str, Answer | VrmError]:
    """Return the answer of each authorization as the Ledger holds it, or why there is none to settle by."""
    subjects = runtime.subjects(Machine.AUTHORIZATION, authorization_ids)
    found = {key: _authorization(key, subjects.get(key)) for key in authorization_ids}
    granted = {key: each for key, each in found.items() if isinstance(each, Authorization)}
    missing = {key: each for key, each in found.items() if not isinstance(each, Authorization)}
    receipts: dict[str, AppendReceipt] = {}
    stored: dict[str, StoredRecord] = {}
    for namespace in sorted({each.namespace for each in granted.values()}):
        mine = {key: each.expected_id for key, each in granted.items() if each.namespace == namespace}
        answered, written = ledger.both(answers(namespace, mine), records(mine.values()))
        receipts |= answered
        stored |= written
    names = {key: _named(granted[key], receipt) for key, receipt in receipts.items()}
    refusals = [names[key] for key, receipt in receipts.items() if not receipt.committed]
    stored |= ledger.get_many(refusals) if refusals else {}
    return missing | {
        key: _checked(each, receipts.get(key), stored.get(names.get(key, ""))) for key, each in granted.items()
    }


def settlement(authorization: Authorization, receipt: AppendReceipt, *, is_over: bool) -> Command:
    """Return the command that settles a grant together with its subject; alone, if its attempt is over.

    Raises:
        IntegrityError: the flow has no such end.
    """
    own, other, phase = _end_of_grant(authorization, receipt)
    key = Machine.AUTHORIZATION, str(authorization.id)
    settled = Move(machine=key[0], id=key[1], event=own, generation=1, fence=1)
    moved = Move(
        machine=authorization.machine,
        id=authorization.subject_id,
        event=other,
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


def _named(authorization: Authorization, receipt: AppendReceipt) -> str:
    return authorization.expected_id if receipt.committed else str(receipt.no_commit_id)


def _checked(
    authorization: Authorization, receipt: AppendReceipt | None, stored: StoredRecord | None
) -> Answer | VrmError:
    try:
        return authorization, _require_read_back(authorization, receipt, stored)
    except VrmError as error:
        return error


def _require_read_back(
    authorization: Authorization, receipt: AppendReceipt | None, stored: StoredRecord | None
) -> AppendReceipt:
    if receipt is None:
        raise NotFoundError("receipt", authorization.id, "The Ledger has no answer yet; append again.")
    if receipt.permit_digest != authorization.canonical_digest:
        raise IntegrityError("receipt", authorization.id, "The receipt answers another authorization.")
    if stored is None:
        wanted = _named(authorization, receipt)
        raise IntegrityError("receipt", wanted, "The receipt names a record that the Ledger does not hold.")
    record = stored.load()
    if receipt.committed and record.payload_digest != authorization.expected_digest:
        raise IntegrityError("record", record.id, "The Ledger holds other bytes than were authorized.")
    _end_of_grant(authorization, receipt)
    return receipt


def _end_of_grant(authorization: Authorization, receipt: AppendReceipt) -> tuple[Event, Event, Phase]:
    """Return the event of the authorization, that of its subject, and the phase the authorization comes to."""
    flow = FLOWS[authorization.transition]
    if receipt.committed:
        own, other, phase = Event.COMMIT, flow.committed, Phase.COMMITTED
    else:
        own, other = Event.RETIRE, (flow.retired or {}).get(authorization.origin_phase)
        phase = Phase.RETIRED_NO_COMMIT
    if other is None:
        raise IntegrityError("flow", flow.transition.value, "It has no event for this end of a grant.")
    return own, other, phase
