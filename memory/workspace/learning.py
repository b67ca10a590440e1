"""What the shadow policy has learned from a workspace's receipts, read from the Ledger (spec 004).

Rules kept here: receipts count in journal order and once; what was folded is kept in memory alone, and folded again it
is the same. Nothing here is asked when claims are selected.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from policies.workspace.shadow import Lesson, ShadowPolicy, ShadowState, learn
from records.claim_traces import ClaimReceipt, ClaimTrace
from records.workspace import WorkspaceClaim
from store.ledger.port import LedgerReader


class Learned:
    """The state of a shadow policy for one workspace, folded as far as receipts were read."""

    def __init__(self, namespace: str, workspace: str, policy: ShadowPolicy) -> None:
        """Begin with nothing learned."""
        self._namespace, self._workspace, self._policy = namespace, workspace, policy
        self._position = 0
        self._state = ShadowState()

    def at(self, reader: LedgerReader, claims: Mapping[str, WorkspaceClaim]) -> ShadowState:
        """Return the state after all receipts that the reader sees; `claims` are those of the workspace."""
        for position, lesson in lessons(reader, self._namespace, self._workspace, claims, after=self._position):
            shown = lesson.shown(self._policy.learning)
            self._state = learn(self._state, lesson.receipt.reward, shown, self._policy.learning)
            self._position = position
        return self._state


def lessons(
    reader: LedgerReader, namespace: str, workspace: str, claims: Mapping[str, WorkspaceClaim], after: int = 0
) -> Iterator[tuple[int, Lesson]]:
    """Yield the receipts of a workspace with their journal positions, in that order, from beyond one on."""
    receipts = [each for each in reader.find(ClaimReceipt.kind.noun, namespace) if each.position > after]
    if not receipts:
        return
    found = reader.find(ClaimTrace.kind.noun, namespace, workspace=workspace)
    traces = {each.id: trace for each in found if isinstance(trace := each.load(), ClaimTrace)}
    for each in receipts:
        receipt = each.load()
        if isinstance(receipt, ClaimReceipt) and str(receipt.trace_id) in traces:
            yield each.position, Lesson(receipt, traces[str(receipt.trace_id)], claims)
