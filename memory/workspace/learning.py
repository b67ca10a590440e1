"""What the shadow policy has learned from a workspace's receipts, read from the Ledger (spec 004).

Rules kept here: receipts count in journal order and once; what was folded is kept in memory alone, and folded again it
is the same. Nothing here is asked when claims are selected.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from policies.workspace.shadow import Lesson, ShadowPolicy, ShadowState, learn
from records.appends import StoredRecord
from records.claim_traces import ClaimReceipt, ClaimTrace
from records.workspace import WorkspaceClaim
from store.ledger.port import LedgerReader, journal_pages


class Learned:
    """The state of a shadow policy for one workspace, folded as far as receipts were read."""

    def __init__(self, namespace: str, workspace: str, policy: ShadowPolicy) -> None:
        """Begin with nothing learned."""
        self._namespace, self._workspace, self._policy = namespace, workspace, policy
        self._kept = 0, ShadowState()  # the position up to which receipts were folded, and what they came to

    def at(self, reader: LedgerReader, claims: Mapping[str, WorkspaceClaim]) -> ShadowState:
        """Return the state after all receipts that the reader sees; `claims` are those of the workspace.

        A reader of an earlier moment than the last one has its receipts folded from the first. What fails on the way
        leaves everything as it was.
        """
        head = reader.namespace_head(self._namespace).position
        known, state = self._kept
        beyond, state = (known, state) if known <= head else (0, ShadowState())
        for lesson in lessons(reader, self._namespace, self._workspace, claims, beyond=beyond, upto=head):
            shown = lesson.shown(self._policy.learning)
            state = learn(state, lesson.receipt.reward, shown, self._policy.learning)
        if known <= head:
            self._kept = head, state
        return state


def lessons(
    reader: LedgerReader,
    namespace: str,
    workspace: str,
    claims: Mapping[str, WorkspaceClaim],
    *,
    beyond: int = 0,
    upto: int | None = None,
) -> Iterator[Lesson]:
    """Yield the receipts of a workspace in journal order, from beyond one position on, and up to another one if given.

    What it costs follows from what was appended in between, and not from what lies before.
    """
    receipts = [each for each in _receipts(reader, namespace, beyond) if upto is None or each.position <= upto]
    loaded = [record for each in receipts if isinstance(record := each.load(), ClaimReceipt)]
    found = reader.get_many([str(receipt.trace_id) for receipt in loaded]) if loaded else {}
    for receipt in loaded:
        trace = found[str(receipt.trace_id)].load() if str(receipt.trace_id) in found else None
        if isinstance(trace, ClaimTrace) and trace.workspace == workspace:
            yield Lesson(receipt, trace, claims)


def _receipts(reader: LedgerReader, namespace: str, beyond: int) -> Iterator[StoredRecord]:
    """Yield the receipts of a namespace in journal order, those of all workspaces."""
    if not beyond:
        yield from reader.find(ClaimReceipt.kind.noun, namespace)
        return
    for rows in journal_pages(reader, namespace, beyond):
        names = [row.id for row in rows if row.noun == ClaimReceipt.kind.noun]
        found = reader.get_many(names) if names else {}
        yield from (found[name] for name in names if name in found)
