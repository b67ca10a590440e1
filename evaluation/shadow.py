"""The shadow policy of workspace claims, held against its promotion gates by what the Ledger has (spec 004).

Nothing is written, and nothing is activated: there is no way to.
"""

from __future__ import annotations

from memory.workspace.board import board_of
from memory.workspace.learning import lessons
from policies.workspace.gates import ShadowReport, Standing, report
from policies.workspace.shadow import Lesson, ShadowPolicy, ShadowState, learn
from records.claim_traces import ClaimTrace, ShadowVersion, TraceReason
from records.workspace import ClaimEvent, ClaimState
from store.ledger.port import LedgerReader

_MS = 1_000


def evaluate_shadow(reader: LedgerReader, namespace: str, workspace: str, policy: ShadowPolicy) -> ShadowReport:
    """Return what the receipts of a workspace tell; `reader` is of one moment."""
    claims = {name: held.claim for name, held in board_of(reader, namespace, workspace).items()}
    found = list(lessons(reader, namespace, workspace, claims))
    stored = reader.find(ClaimTrace.kind.noun, namespace, workspace=workspace)
    traces = [trace for each in stored if isinstance(trace := each.load(), ClaimTrace)]
    return report(found, _standing(reader, traces, versions(found, policy)), policy)


def versions(found: list[Lesson], policy: ShadowPolicy) -> list[ShadowVersion]:
    """Return every version that receipts lead to, from the one before the first."""
    state = ShadowState()
    made = [state.named(policy)]
    for lesson in found:
        state = learn(state, lesson.receipt.reward, lesson.shown(policy.learning), policy.learning)
        made.append(state.named(policy))
    return made


def _standing(reader: LedgerReader, traces: list[ClaimTrace], known: list[ShadowVersion]) -> Standing:
    shown = [item for trace in traces for item in trace.items if item.reason is TraceReason.SELECTED]
    stored = reader.get_many({str(item.event_id) for item in shown})
    events = {name: event for name, each in stored.items() if isinstance(event := each.load(), ClaimEvent)}
    durable = {name for name, event in events.items() if event.state is ClaimState.DURABLE}
    return Standing(
        traces=len(traces),
        replayed=sum(trace.shadow in known[trace.shadow.version : trace.shadow.version + 1] for trace in traces),
        shown=len(shown),
        not_durable=sum(str(item.event_id) not in durable for item in shown),
        refused=sum(len(trace.refused) for trace in traces),
        latencies_ms=tuple(trace.latency_us / _MS for trace in traces),
    )
