"""The integrity check: everything that can be recomputed is recomputed from the rows.

Rules kept here:

- it reads and never writes, and it looks at one moment of the Ledger, whatever is written meanwhile;
- the Runtime is read BEFORE the Ledger: what was settled or over by then must be found in the Ledger, and what is
  settled later cannot be taken for a loss. Authorizations that the Ledger answers are looked up afterwards;
- what is found is told and never repaired. An authorization that was granted and not settled is no fault: recovery
  resolves it;
- digests and chain tell damage; whoever rewrites a record and everything that follows from it is found by the rules
  that the record must keep: those of its model, of its flow, and between it and the records that it names.

What bounds memory, whatever the number of rows: a stretch of journal with its payloads (`memory.fsck.journal`: a
thousand rows and eight megabytes, or one append); the longest chain of one scope variant; the members of the two
snapshots of a sort that were used last; the intents of twenty Runs; fixed numbers of places, verdicts and artifact
digests that were met last (`memory.fsck.case.Recent`); the digests of erased bytes; a hundred findings of each code.
All else is streamed by the database in order, and what the Runtime held goes through a file.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

from memory.fsck.artifacts import ArtifactCheck
from memory.fsck.authorizations import RuntimeBefore
from memory.fsck.case import Case, Progress
from memory.fsck.claims import check_claims
from memory.fsck.codes import Code
from memory.fsck.decisions import DecisionCheck
from memory.fsck.distillation import check_distillation
from memory.fsck.erasures import check_erasures
from memory.fsck.evidence import BundleCheck
from memory.fsck.journal import check_namespace
from memory.fsck.knowledge import CommitCheck
from memory.fsck.lifecycle import check_chains, check_memory
from memory.fsck.lineage import check_lineage
from memory.fsck.receipts import check_proofs, check_unused_receipts
from memory.fsck.references import check_references
from memory.fsck.report import Findings, FsckReport, Note, Violation
from memory.fsck.rows import check_strays
from memory.fsck.snapshots import check_snapshots
from records.errors import NotFoundError
from store.artifacts import ArtifactStore
from store.ledger.audit import open_scan
from store.ledger.port import LedgerReader
from store.runtime.port import RuntimeReader

__all__ = ["Code", "FsckReport", "Note", "Progress", "Violation", "fsck"]


def fsck(
    reader: LedgerReader,
    runtime: RuntimeReader | None,
    artifacts: ArtifactStore | None,
    progress: Progress = lambda _what, _done, _total: None,
    *,
    namespace: str | None = None,
) -> FsckReport:
    """Check a whole store, or one namespace of it.

    Args:
        reader: the Ledger in one read transaction, as `reading()` gives it, with nothing read yet.
        runtime: the Runtime, or None to leave out what needs it.
        artifacts: the artifact store, or None to leave artifact bytes alone.
        progress: told after each piece; may draw a bar.
        namespace: the only namespace to check; None for all.

    Raises:
        NotFoundError: nothing was ever written in the namespace.
        UnavailableError: a store cannot be read.
    """
    findings = Findings()
    with _collecting_less(), RuntimeBefore(runtime, namespace, findings) as before:
        case = Case(
            reader=reader, scan=open_scan(reader), runtime=runtime, artifacts=artifacts, findings=findings,
            progress=progress, namespace=namespace,
        )  # fmt: skip
        bytes_of = ArtifactCheck()
        for name in _chosen(case):
            _check_whole_namespace(case, name, bytes_of)
        check_strays(case)
        _check_owners(case)
        before.check_settled(case)
        before.check_ended(case)
        bytes_of.check_proposals(case, before.proposals())
    return findings.report()


@contextmanager
def _collecting_less() -> Iterator[None]:
    """Keep the garbage collector from what was there before: it outlives the check, and looking at it costs a tenth."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _chosen(case: Case) -> list[str]:
    known = case.scan.namespaces()
    if case.namespace is None:
        return known
    if case.namespace not in known:
        raise NotFoundError("namespace", case.namespace, f"There are: {', '.join(known) or 'none'}.")
    return [case.namespace]


def _check_whole_namespace(case: Case, namespace: str, bytes_of: ArtifactCheck) -> None:
    checks = (
        check_proofs, check_memory, DecisionCheck().check, check_distillation, CommitCheck().check,
        BundleCheck().check, check_snapshots, check_references, check_lineage, check_claims,
        check_erasures, bytes_of.check,
    )  # fmt: skip
    check_namespace(case, namespace, checks)
    check_unused_receipts(case, namespace)
    check_chains(case, namespace)
    case.findings.checked["namespaces"] += 1


def _check_owners(case: Case) -> None:
    """Epochs count up from one, and somebody must have owned the appends of what is there."""
    owners = case.scan.owners()
    for resource, epoch in owners.items():
        if epoch < 1:
            case.findings.add(Code.OWNER_EPOCH, resource, f"epoch {epoch}")
    if case.findings.checked["journal rows"] and not owners:
        case.findings.add(Code.OWNER_EPOCH, "owners", "records were written, and nobody ever claimed to write them")
