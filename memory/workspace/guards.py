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

from collections.abc import Iterable
from typing import Final

from memory.guard_rules import Rules, first_broken, held, of, precondition, rejected
from memory.index.lexical import terms
from memory.workspace.board import board_of, heads_of
from policies.workspace.arrows import LIVE, ClaimHead, advance
from policies.workspace.lifecycle import apart, independent, lacks_of, new_evidence
from policies.workspace.likeness import contradicts, said
from policies.workspace.policy import WorkspacePolicy, workspace_policy
from policies.workspace.reward import reward
from policies.workspace.shadow import ShadowPolicy, shadow_policy
from records.appends import Append
from records.claim_traces import ClaimReceipt, ClaimTrace, TraceReason
from records.errors import IllegalTransitionError, IntegrityError, InvalidInputError
from records.values import PolicyIdentity
from records.workspace import (
    ClaimEvent,
    ClaimReason,
    ClaimSource,
    ClaimState,
    EvidenceEvent,
    WorkspaceClaim,
)
from store.ledger.port import LedgerReader, Refusal

_NEW: Final = frozenset({ClaimReason.NEW_EVIDENCE, ClaimReason.RELEASED, ClaimReason.UPHELD})


def guard_claims(reader: LedgerReader, append: Append) -> Refusal | None:
    """Refuse events that are no legal step, and claims that are not held against those that they contradict."""
    events = list(of(append, ClaimEvent))
    new = {str(claim.id): claim for claim in of(append, WorkspaceClaim)}
    wanted = dict.fromkeys(str(event.claim_id) for event in events)
    stored = reader.get_many([name for name in wanted if name not in new])
    claims = new | {name: claim for name in wanted if (claim := held(stored, name, WorkspaceClaim)) is not None}
    if missing := [name for name in wanted if name not in claims]:
        return precondition(f"{missing[0]} is not in the Ledger")
    heads: dict[str, ClaimHead | None] = dict(heads_of(reader, append.namespace, wanted))
    for event in events:
        name = str(event.claim_id)
        head, claim = heads.get(name), claims[name]
        refused = first_broken(_steps(event, claim, head), rejected)
        if refused is not None:
            return refused
        try:
            heads[name] = advance(head, event)
        except (IllegalTransitionError, IntegrityError) as error:
            return rejected(str(error))
    if unmoved := [name for name in new if heads.get(name) is None]:
        return rejected(f"{unmoved[0]} comes without its first event")
    return first_broken(_against(reader, append, new), precondition)


def _steps(event: ClaimEvent, claim: WorkspaceClaim, head: ClaimHead | None) -> Rules:
    policy = _policy(event.policy)
    if policy is None:
        yield False, "the event is by a policy that this program does not have"
        return
    yield event.workspace == claim.workspace, "the event is of another workspace than its claim"
    had = (*claim.certificate.evidence, *(() if head is None else head.evidence))
    yield _is_consistent(had, event.evidence), "an event of evidence has another content than before"
    if head is None:
        start = apart(claim)
        yield start is None or event.reason is start, f"a claim like this starts as {start}"
    if event.reason is ClaimReason.LOCALLY_VERIFIED:
        yield claim.source is ClaimSource.DETERMINISTIC, "only what was extracted deterministically starts durable"
        yield not lacks_of(claim, had, policy.deterministic_start), "it has not what starts a claim durable"
    if event.reason is ClaimReason.PROMOTED:
        yield not lacks_of(claim, (*had, *event.evidence), policy.promotion), "it has not what a promotion needs"
    if event.reason in _NEW:
        least = policy.resolution if event.reason is ClaimReason.UPHELD else policy.revival
        fresh = independent(new_evidence(had, event.evidence))
        yield fresh >= least.evidence, "the evidence is not new"
    if event.reason is ClaimReason.RELEASED:
        yield apart(claim) is not ClaimReason.UNTRUSTED_SOURCE, "a claim of an untrusted source stays quarantined"


def _is_consistent(had: Iterable[EvidenceEvent], brought: Iterable[EvidenceEvent]) -> bool:
    contents = {each.event_id: each.content_digest for each in had}
    return all(contents.get(each.event_id, each.content_digest) == each.content_digest for each in brought)


def _policy(identity: PolicyIdentity) -> WorkspacePolicy | None:
    try:
        found = workspace_policy(identity.version)
    except InvalidInputError:
        return None
    return found if found.identity == identity else None


def _against(reader: LedgerReader, append: Append, new: dict[str, WorkspaceClaim]) -> Rules:
    """Say which contradictions a new claim must be contested for: those with what is live in this transaction."""
    events = list(of(append, ClaimEvent))
    for name, claim in new.items():
        policy = _policy(next(event.policy for event in events if event.claim_id == name))
        if apart(claim) is not None or policy is None:
            continue
        rules = policy.likeness
        ended = {str(event.claim_id) for event in events if event.state is ClaimState.SUPERSEDED}
        mine = said(claim.text, terms, rules)
        others = board_of(reader, append.namespace, claim.workspace).items()
        found = {
            other
            for other, each in others
            if other != name and other not in ended and each.head.state in LIVE
            and contradicts(mine, said(each.claim.text, terms, rules), rules)
        }  # fmt: skip
        contested = [event for event in events if event.reason is ClaimReason.CONTRADICTED]
        named = {str(event.counterpart) for event in contested if event.claim_id == name}
        back = {str(event.claim_id) for event in contested if event.counterpart == name}
        yield found == named == back, "the claim is not contested with exactly what it contradicts now"


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
        yield receipt.task_id == trace.task_id, "the receipt is of another task than its trace"
        yield receipt.selected == trace.selected, "the receipt does not name what its trace showed"
        yield receipt.shadow == trace.shadow, "the receipt names another shadow version than its trace"
        policy = _shadow(receipt.policy)
        if policy is None:
            yield False, "the reward is by a policy that this program does not have"
            return
        yield receipt.reward == reward(receipt.outcome, policy.reward), "the reward is not that of the outcome"
        same = {"trace_id": str(receipt.trace_id), "trial_id": receipt.trial_id}
        others = reader.find(ClaimReceipt.kind.noun, append.namespace, **same)
        only = all(each.id == str(receipt.id) for each in others)
        yield only, "the trial of this trace has another receipt already; an outcome counts once"


def _shadow(identity: PolicyIdentity) -> ShadowPolicy | None:
    try:
        found = shadow_policy(identity.version)
    except InvalidInputError:
        return None
    return found if found.identity == identity else None
