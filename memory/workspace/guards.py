"""What must hold inside the Ledger transaction when claims move, are shown, or get an outcome (spec 004).

Rules kept here:

- the events of a claim are one legal chain, read under the lock: an event that consumes another than the last one is
  refused, and so is a state that the arrows do not lead to;
- what contradicts what is decided here again, so that two claims that are added at the same moment cannot both pass by
  each other; durable is what the policy makes durable;
- a trace shows durable claims as they stand at this moment; a receipt repeats its trace, has the reward of its outcome,
  and is the only one of its trace and trial.
"""

from __future__ import annotations

from itertools import chain

from memory.guard_rules import Rules, first_broken, held, of, precondition, rejected
from memory.workspace.board import board_of, heads_of
from memory.workspace.steps import receipt_rules, steps_of
from memory.workspace.together import Moved, against, between, one_content
from policies.workspace.arrows import ClaimHead, advance
from policies.workspace.lifecycle import HeldClaim
from records.appends import Append
from records.claim_traces import ClaimReceipt, ClaimTrace, TraceReason
from records.errors import IllegalTransitionError, IntegrityError
from records.workspace import ClaimEvent, ClaimState, WorkspaceClaim
from store.ledger.port import LedgerReader, Refusal


def guard_claims(reader: LedgerReader, append: Append) -> Refusal | None:
    """Refuse events that are no legal step, and claims that are not held against those that they contradict."""
    events = list(of(append, ClaimEvent))
    new = {str(claim.id): claim for claim in of(append, WorkspaceClaim)}
    wanted = dict.fromkeys(str(event.claim_id) for event in events)
    named = dict.fromkeys(str(event.counterpart) for event in events if event.counterpart is not None)
    stored = reader.get_many([name for name in wanted | named if name not in new])
    claims = new | {name: claim for name in stored if (claim := held(stored, name, WorkspaceClaim)) is not None}
    if missing := [name for name in wanted if name not in claims]:
        return precondition(f"{missing[0]} is not in the Ledger")
    heads: dict[str, ClaimHead | None] = dict(heads_of(reader, append.namespace, wanted))
    before: dict[str, ClaimHead | None] = {}
    for event in events:
        name = str(event.claim_id)
        before[str(event.id)] = head = heads.get(name)
        refused = first_broken(steps_of(event, claims[name], head), rejected)
        if refused is not None:
            return refused
        try:
            heads[name] = advance(head, event)
        except (IllegalTransitionError, IntegrityError) as error:
            return rejected(str(error))
    if unmoved := [name for name in new if heads.get(name) is None]:
        return rejected(f"{unmoved[0]} comes without its first event")
    after = {name: head for name in wanted if (head := heads.get(name)) is not None}
    return _together(reader, Moved(events, new, claims, before, after))


def _together(reader: LedgerReader, moved: Moved) -> Refusal | None:
    """Ask what concerns several claims; the workspace is read only where the append can meet others in it."""
    meets: list[WorkspaceClaim | ClaimEvent] = [*moved.new.values(), *(each for each in moved.events if each.evidence)]
    stored: dict[str, HeldClaim] = {}
    for namespace, workspace in dict.fromkeys((each.namespace, each.workspace) for each in meets):
        stored |= board_of(reader, namespace, workspace)
    board = moved.board(stored)
    rules = chain(one_content(moved, stored), between(moved, board))
    return first_broken(rules, rejected) or first_broken(against(moved, board), precondition)


def guard_traces(reader: LedgerReader, append: Append) -> Refusal | None:
    """Refuse a trace that shows what is not durable at this moment, or as it does not stand."""
    return first_broken(_traces(reader, append), precondition)


def _traces(reader: LedgerReader, append: Append) -> Rules:
    for trace in of(append, ClaimTrace):
        names = [str(item.claim_id) for item in trace.items]
        heads = heads_of(reader, append.namespace, names)
        stored = reader.get_many(names)
        for item in trace.items:
            head, claim = heads.get(str(item.claim_id)), held(stored, item.claim_id, WorkspaceClaim)
            known = claim is not None and claim.workspace == trace.workspace
            yield known, "a claim of the trace is not of its workspace"
            if item.reason is TraceReason.SELECTED:
                stands = head is not None and head.event_id == item.event_id and head.state is ClaimState.DURABLE
                yield stands, f"{item.claim_id} is not durable now as the trace saw it"


def guard_receipts(reader: LedgerReader, append: Append) -> Refusal | None:
    """Refuse a receipt that does not repeat its trace, has another reward, or is a second one."""
    return first_broken(_receipts(reader, append), precondition)


def _receipts(reader: LedgerReader, append: Append) -> Rules:
    for receipt in of(append, ClaimReceipt):
        trace = held(reader.get_many([receipt.trace_id]), receipt.trace_id, ClaimTrace)
        if trace is None:
            yield False, "the trace is not in the Ledger"
            return
        yield from receipt_rules(receipt, trace)
        same = {"trace_id": str(receipt.trace_id), "trial_id": receipt.trial_id}
        others = reader.find(ClaimReceipt.kind.noun, append.namespace, **same)
        only = all(each.id == str(receipt.id) for each in others)
        yield only, "the trial of this trace has another receipt already; an outcome counts once"
