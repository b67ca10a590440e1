"""The integrity check: everything that can be recomputed is recomputed from the rows.

Rules kept here:

- it reads and never writes, and it looks at one moment of the Ledger, whatever is written meanwhile;
- the Runtime is read BEFORE the Ledger: what was settled or over by then must be found in the Ledger, and what is
  settled later cannot be taken for a loss. Authorizations that the Ledger answers are looked up afterwards;
- what is found is told and never repaired. An authorization that was granted and not settled is no fault: recovery
  resolves it;
- memory is bounded by a stretch of journal, except for lifecycle events, settled authorizations and the digests of
  artifacts already read.
"""

from __future__ import annotations

from memory.fsck.artifacts import ArtifactCheck
from memory.fsck.case import Case, Progress
from memory.fsck.decisions import check_decisions
from memory.fsck.distillation import check_distillation
from memory.fsck.evidence import BundleCheck
from memory.fsck.journal import check_namespace
from memory.fsck.lifecycle import LifecycleCheck
from memory.fsck.receipts import check_permits, check_receipts, check_settled
from memory.fsck.report import Code, Findings, FsckReport, Note, Violation
from memory.fsck.rows import check_strays
from records.errors import VrmError
from records.runtime import RunBody, Subject
from records.states import Machine, Phase
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
) -> FsckReport:
    """Check a whole store.

    Args:
        reader: the Ledger in one read transaction, as `reading()` gives it, with nothing read yet.
        runtime: the Runtime, or None to leave out what needs it.
        artifacts: the artifact store, or None to leave artifact bytes alone.
        progress: told after each piece; may draw a bar.

    Raises:
        UnavailableError: a store cannot be read.
    """
    findings = Findings()
    settled, granted, ended = _runtime_before(runtime, findings)
    case = Case(
        reader=reader,
        scan=open_scan(reader),
        runtime=runtime,
        artifacts=artifacts,
        findings=findings,
        progress=progress,
        settled=settled,
        ended=ended,
    )
    bytes_of = ArtifactCheck()
    for namespace in case.scan.namespaces():
        _check_whole_namespace(case, namespace, bytes_of)
    check_strays(case)
    check_receipts(case)
    check_settled(case)
    bytes_of.check_proposals(case, [*settled.values(), *granted])
    return findings.report()


def _check_whole_namespace(case: Case, namespace: str, bytes_of: ArtifactCheck) -> None:
    lifecycle, bundles = LifecycleCheck(), BundleCheck()
    checks = (
        check_permits, lifecycle.collect, check_decisions, check_distillation, bundles.check, bytes_of.check,
    )  # fmt: skip
    check_namespace(case, namespace, checks)
    lifecycle.finish(case, namespace)
    case.findings.checked["namespaces"] += 1


def _runtime_before(
    runtime: RuntimeReader | None, findings: Findings
) -> tuple[dict[str, Subject], list[Subject], frozenset[str]]:
    if runtime is None:
        return {}, [], frozenset()
    closed = runtime.find(Machine.AUTHORIZATION, [Phase.COMMITTED, Phase.RETIRED_NO_COMMIT])
    granted = runtime.find(Machine.AUTHORIZATION, [Phase.GRANTED])
    for subject in granted:
        findings.note("unresolved", subject.id, "granted and not settled; recovery resolves it")
    over = runtime.find(Machine.RUN, [Phase.COMPLETED, Phase.FAILED])
    ended = frozenset(subject.id for subject in over if _is_scientific(subject))
    return {subject.id: subject for subject in closed}, granted, ended


def _is_scientific(run: Subject) -> bool:
    try:
        return RunBody.load(run.body).run_kind == "SCIENTIFIC"
    except VrmError:
        return False
