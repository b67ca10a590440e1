"""An owner in a process of its own: it claims, and commits one append for each line that it is told.

Run as `python -m tests.support.owner_process DSN`. It answers each line with one line: `epoch N` to `claim NAMESPACE`,
after which it is a new owner of that namespace; `committed KEY`, `fenced` or the name of another error to
`commit SEED`. The line `hold SEED` commits with a guard that says `inside` and waits for one more line, with its
transaction open.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from records.appends import AppendReceipt
from records.errors import FencedError, VrmError
from store.ledger.port import Request, no_guard
from store.ledger.postgres import PostgresLedger
from tests.support.stores import Writer, evidence_append
from tests.support.trials import make_evidence

ROOT = Path(__file__).parents[2]


class OwnerProcess:
    """The other end: a live process that owns, or believes that it does."""

    def __init__(self, dsn: str) -> None:
        """Start it."""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.owner_process", dsn],
            cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True,
        )  # fmt: skip
        self.epoch = 0

    def claim(self, namespace: str) -> OwnerProcess:
        """Let it claim, and wait until it has."""
        self.tell(f"claim {namespace}")
        self.epoch = int(self.hear().removeprefix("epoch "))
        return self

    def tell(self, line: str) -> None:
        """Send a line."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    def hear(self) -> str:
        """Wait for a line."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline().strip()
        assert line, "the process ended"
        return line

    def commit(self, seed: int) -> str:
        """Let it commit an append, and return its answer."""
        self.tell(f"commit {seed}")
        return self.hear()

    def signal(self, number: int) -> None:
        """Stop or continue it."""
        self._process.send_signal(number)

    def stopped(self) -> bool:
        """Tell whether the kernel has it stopped."""
        return Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"

    def end(self) -> None:
        """End it."""
        self._process.kill()
        self._process.communicate()


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _answer(writer: Writer, line: str) -> str:
    word, seed = line.split()
    append = evidence_append(make_evidence(writer.namespace, seed=int(seed)), f"k{seed}")

    def wait(_reader: object, _append: object) -> None:
        _say("inside")
        sys.stdin.readline()

    request = Request(append, wait if word == "hold" else no_guard)
    try:
        (answer,) = writer.store.commit(writer.epoch, [request])
    except FencedError:
        return "fenced"
    except VrmError as error:
        return type(error).__name__
    return f"committed {append.permit_key}" if isinstance(answer, AppendReceipt) else type(answer).__name__


def _claimed(dsn: str, namespace: str) -> Writer:
    store = PostgresLedger(dsn, "process")
    return Writer(store, namespace, store.claim(resource_of(namespace), f"process {os.getpid()}"))


def resource_of(namespace: str) -> str:
    """Return what owners of a namespace claim here."""
    return f"owner/{namespace}"


def main(dsn: str) -> None:
    """Answer line by line until the input ends."""
    writer: Writer | None = None
    for line in sys.stdin:
        if line.startswith("claim"):
            if writer is not None:
                writer.store.close()
            writer = _claimed(dsn, line.split()[1])
            _say(f"epoch {writer.epoch.number}")
        elif writer is not None:
            _say(_answer(writer, line))


if __name__ == "__main__":
    main(*sys.argv[1:])
