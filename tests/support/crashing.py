"""The Ledger in memory, whose writer can be gone in the middle of a transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from records.appends import AppendReceipt, NamespaceHead
from records.errors import VrmError
from records.knowledge import HeadMove
from store.ledger.engine import Placed, commit_group
from store.ledger.memory import MemoryLedger, MemoryTransaction
from store.ledger.port import Epoch, Request
from tests.support.stack import Crash


class CrashingTransaction(MemoryTransaction):
    """Ends the writer at primitive number `at` (from 1), or before the commit if there are fewer."""

    def __init__(self, state: Any, at: int) -> None:
        super().__init__(state)
        self._left = at

    def _step(self, act: Callable[..., Any], *arguments: Any) -> Any:
        self._left -= 1
        if self._left == 0:
            raise Crash
        return act(*arguments)

    def check_fences(self, fences: Iterable[tuple[str, int]]) -> None:
        self._step(super().check_fences, fences)

    def lock_namespaces(self, namespaces: Sequence[str]) -> dict[str, NamespaceHead]:
        heads: dict[str, NamespaceHead] = self._step(super().lock_namespaces, namespaces)
        return heads

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        self._step(lambda: None)
        with super().savepoint():
            yield

    def insert(self, placed: Sequence[Placed]) -> None:
        for item in placed:
            self._step(super().insert, [item])

    def insert_receipt(self, receipt: AppendReceipt) -> None:
        self._step(super().insert_receipt, receipt)

    def move_head(self, move: HeadMove, namespace: str) -> bool:
        return bool(self._step(super().move_head, move, namespace))

    def save_namespace(self, head: NamespaceHead) -> None:
        self._step(super().save_namespace, head)


class CrashingLedger(MemoryLedger):
    """Like the one it is, and with a commit during which the writer is lost."""

    def crash(self, epoch: Epoch, group: Sequence[Request], at: int) -> None:
        """Begin to commit a group; the process is gone at primitive number `at`, and nothing is written."""
        with self._lock:
            transaction = CrashingTransaction(self._state, at)
            try:
                commit_group(transaction, [(epoch.resource, epoch.number)], group)
            except Crash:
                pass
            finally:
                transaction.rollback()

    def lose_the_answer(self, epoch: Epoch, group: Sequence[Request]) -> list[AppendReceipt | VrmError]:
        """Commit a group; the caller is gone before it hears of it. Returned for the test alone."""
        return self.commit(epoch, group)
