"""A retrieval that is asked for again: the trace of its occasion, and the section that it showed (spec 004).

Rules kept here: an occasion has one trace; asked again the same it is that one, whatever the Ledger holds since. What
is shown again is durable and holds now, as anything that is shown; what is not so any more is shown by no trace.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from memory.workspace.board import heads_of
from memory.workspace.predicates import Checker
from policies.workspace.recall import ClaimRendering
from policies.workspace.rendering import fit_claims, render_claim
from records.canonical import digest_bytes, domain_digest
from records.claim_traces import ClaimTrace, TraceReason
from records.errors import IdentityConflictError
from records.workspace import ClaimState, WorkspaceClaim
from store.ledger.port import LedgerReader

_REMEDY: Final = "Ask under another occasion."


def occasion_key(workspace: str, occasion: str) -> str:
    """Return the operation key of the trace of an occasion."""
    return f"trace-claims/{domain_digest('claim-occasion', [workspace, occasion])}"


def trace_of(reader: LedgerReader, namespace: str, workspace: str, occasion: str) -> ClaimTrace | None:
    """Return the trace of an occasion; None where there is none yet."""
    answer = reader.receipt(namespace, occasion_key(workspace, occasion))
    stored = None if answer is None or not answer.record_ids else reader.get(answer.record_ids[0])
    trace = None if stored is None else stored.load()
    return trace if isinstance(trace, ClaimTrace) else None


def require_same(trace: ClaimTrace, objective: str, task_id: str, budget: int) -> None:
    """Refuse another question on an occasion that has a trace.

    Raises:
        IdentityConflictError: objective, task or budget is another.
    """
    if (trace.objective, trace.task_id, trace.budget) != (objective, task_id, budget):
        asked = "It was asked for another objective, task or budget."
        raise IdentityConflictError("occasion", trace.occasion, f"{asked} {_REMEDY}")


def section_of(
    reader: LedgerReader, trace: ClaimTrace, checker: Checker, style: ClaimRendering, count: Callable[[str], int]
) -> tuple[str, tuple[WorkspaceClaim, ...]]:
    """Return the section that a trace tells of, with its claims, best first.

    Raises:
        IdentityConflictError: a claim of it has moved on or does not hold now, or it was rendered in another way.
    """
    names = [str(name) for name in trace.selected]
    heads, stored = heads_of(reader, trace.namespace, names), reader.get_many(names)
    claims = tuple(
        claim for name in names if name in stored and isinstance(claim := stored[name].load(), WorkspaceClaim)
    )
    for item in trace.items:
        head = heads.get(str(item.claim_id))
        stands = head is not None and head.event_id == item.event_id and head.state is ClaimState.DURABLE
        if item.reason is TraceReason.SELECTED and not stands:
            raise IdentityConflictError("occasion", trace.occasion, f"{item.claim_id} has moved on. {_REMEDY}")
    for claim in claims:
        if checker.findings(claim):
            raise IdentityConflictError("occasion", trace.occasion, f"{claim.id} does not hold now. {_REMEDY}")
    rendered = fit_claims([render_claim(claim, style) for claim in claims], trace.budget, count).text if claims else ""
    if digest_bytes(rendered.encode()) != trace.rendered_digest:
        raise IdentityConflictError("occasion", trace.occasion, f"Its section was rendered otherwise. {_REMEDY}")
    return rendered, claims
