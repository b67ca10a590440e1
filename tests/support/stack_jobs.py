"""A job of the command line over a `Stack`: its steps run on the plain classes, without a cluster."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any, cast

from rich.console import Console

from memory.distillation.pinned import PinnedDistillers
from tests.support.stack import POLICIES, Stack
from tests.support.stores import ticking_clock
from vrm.home import Home
from vrm.mainjob.job import Job
from vrm.mainjob.plan import FULL, Round


class Owners:
    """The owners of a stack, under the names that a job knows them by; each may be another's."""

    def __init__(self, stack: Stack) -> None:
        """Take them from the stack."""
        self.run_owner, self.coordinator, self.heads = stack.owner, stack.coordinator, stack.heads
        self.distillers = PinnedDistillers(stack.stores.ledger, ticking_clock())


class AtHome:
    """The stores of a stack, with a home for what a job notes beside them."""

    def __init__(self, stack: Stack) -> None:
        """Live beside the artifacts."""
        self._stores = stack.stores
        self.home = Home(Path(stack.stores.artifacts.url).parent)

    def __getattr__(self, name: str) -> Any:
        """Return what the stores have."""
        return getattr(self._stores, name)


def job_over(stack: Stack) -> Job:
    """Return a job in the namespace of a stack; what it says goes nowhere."""
    return Job(
        stores=cast("Any", AtHome(stack)),
        owners=cast("Any", Owners(stack)),
        round=Round(namespace=stack.namespace, number=0, size=FULL),
        policies=POLICIES,
        console=Console(file=io.StringIO()),
        holder="test",
        quiet=True,
    )
