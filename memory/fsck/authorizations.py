"""Authorizations of the Runtime against receipts of the Ledger, both ways, and Runs that are over.

Rules kept here:

- the Runtime is read first and put down in files, for what it had settled by then must be found in the Ledger; what it
  settles later cannot be taken for a loss. A file is read back once, in order, so its length bounds no memory;
- an authorization that the Ledger answers is looked up afterwards.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import islice
from types import TracebackType
from typing import IO, Final, Self

from memory.assignments import CAMPAIGN
from memory.fsck.case import Case
from memory.fsck.codes import Code
from memory.fsck.report import Findings
from records.appends import AppendReceipt
from records.decisions import DecisionIntent
from records.errors import VrmError
from records.evidence import Attempt, Experience
from records.flows import FLOWS
from records.ingestion import ExperienceReceipt, WorkCompletion
from records.outcomes import RecallOutcome
from records.runtime import Authorization, RunBody, Subject
from records.states import Machine, Phase
from store.runtime.audit import scan_subjects
from store.runtime.port import RuntimeReader

_GROUP: Final = 500
_RUNS: Final = 20
_OVER: Final = (Phase.COMPLETED, Phase.CANCELLED, Phase.FAILED)
_SETTLED: Final = (Phase.COMMITTED, Phase.RETIRED_NO_COMMIT)


class RuntimeBefore:
    """What the Runtime held before the Ledger was read: authorizations, and Runs that were over."""

    def __init__(self, runtime: RuntimeReader | None, namespace: str | None, findings: Findings) -> None:
        """Read the Runtime, if there is one, into files that are gone when this is closed."""
        self._namespace = namespace
        self._files = ExitStack()
        self._grants = self._file()
        self._runs = self._file()
        self._campaigns = self._file()
        if runtime is not None:
            self._put_grants(runtime, findings)
            self._put_runs(runtime)

    def __enter__(self) -> Self:
        """Use until the end of a block."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Remove the files."""
        self._files.close()

    def check_settled(self, case: Case) -> None:
        """Every authorization that the Runtime had settled must have its receipt in the Ledger."""
        settled = (line for line in self._lines(self._grants) if line[1] in _SETTLED)
        while group := list(islice(settled, _GROUP)):
            for namespace in sorted({line[0] for line in group}):
                phases = {line[2]: line[1] for line in group if line[0] == namespace}
                found = case.scan.receipts(namespace, sorted(phases))
                for key in sorted(phases.keys() - found.keys()):
                    met = f"the Runtime has it as {phases[key]}, the Ledger has no receipt"
                    case.findings.add(Code.AUTHORIZATION_UNANSWERED, key, met)
            case.findings.checked["authorizations"] += len(group)
            case.progress("authorizations", case.findings.checked["authorizations"], 0)

    def check_ended(self, case: Case) -> None:
        """What was over must be whole: intents, Experiences and work items of Runs (spec 6.3, 8.1, VRM-R07, W09)."""
        for namespace, lines in self._grouped(self._runs, _RUNS):
            wanted = [line[2] for line in lines]
            _check_decided(case, namespace, wanted)
            _check_received(case, namespace, wanted)
        for namespace, lines in self._grouped(self._campaigns, _GROUP):
            items = {line[3]: line[2] for line in lines}
            found = case.find(WorkCompletion, namespace, "work_item_id", items).values()
            done = {str(each.work_item_id) for each in found}
            for item in sorted(items.keys() - done):
                case.findings.add(Code.COMPLETION_MISSING, item, f"{items[item]} is over and this item has none")

    def proposals(self) -> Iterator[tuple[str, str]]:
        """Yield id and proposal digest of every authorization."""
        return ((line[2], line[3]) for line in self._lines(self._grants))

    def _put_grants(self, runtime: RuntimeReader, findings: Findings) -> None:
        for subject in scan_subjects(runtime, Machine.AUTHORIZATION, (*_SETTLED, Phase.GRANTED)):
            try:
                body = Authorization.load(subject.body)
            except VrmError as error:
                findings.add(Code.AUTHORIZATION_MISMATCH, subject.id, str(error))
                continue
            if self._namespace in (None, body.namespace):
                self._put(self._grants, body.namespace, subject, body.proposal_digest)
                if subject.phase is Phase.GRANTED:
                    findings.note("unresolved", subject.id, "granted and not settled; recovery resolves it")

    def _put_runs(self, runtime: RuntimeReader) -> None:
        for subject in scan_subjects(runtime, Machine.RUN, _OVER):
            try:
                body = RunBody.load(subject.body)
            except VrmError:
                continue
            if self._namespace in (None, body.namespace):
                scientific = body.run_kind != CAMPAIGN
                file, named = (self._runs, "-") if scientific else (self._campaigns, body.admission_key)
                self._put(file, body.namespace, subject, named)

    def _file(self) -> IO[str]:
        return self._files.enter_context(tempfile.TemporaryFile("w+", encoding="utf-8"))

    @staticmethod
    def _put(file: IO[str], namespace: str, subject: Subject, digest: str) -> None:
        file.write(f"{namespace} {subject.phase} {subject.id} {digest}\n")  # none of these holds a blank

    def _grouped(self, file: IO[str], size: int) -> Iterator[tuple[str, list[list[str]]]]:
        """Yield lines by namespace, so many at a time."""
        lines = self._lines(file)
        while group := list(islice(lines, size)):
            for namespace in sorted({line[0] for line in group}):
                yield namespace, [line for line in group if line[0] == namespace]

    @staticmethod
    def _lines(file: IO[str]) -> Iterator[list[str]]:
        file.seek(0)
        return (line.split() for line in file)


def _check_decided(case: Case, namespace: str, run_ids: list[str]) -> None:
    intents = case.find(DecisionIntent, namespace, "run_id", run_ids)
    outcomes = case.find(RecallOutcome, namespace, "intent_id", intents).values()
    closed = {str(outcome.intent_id) for outcome in outcomes}
    for key in sorted(intents.keys() - closed):
        met = f"{intents[key].run_id} is over and this intent has no outcome"
        case.findings.add(Code.OUTCOME_MISSING, key, met)


def _check_received(case: Case, namespace: str, run_ids: list[str]) -> None:
    attempts = case.find(Attempt, namespace, "run_id", run_ids)
    experiences = case.find(Experience, namespace, "attempt_id", attempts)
    receipts = case.find(ExperienceReceipt, namespace, "experience_id", experiences).values()
    received = {str(receipt.experience_id) for receipt in receipts}
    for key in sorted(experiences.keys() - received):
        case.findings.add(Code.EXPERIENCE_UNRECEIPTED, key, "its Run is over and it has no receipt")


def check_answers(case: Case, receipts: dict[str, AppendReceipt]) -> None:
    """The receipt of a granted append must answer an authorization that the Runtime knows, and answer it rightly."""
    if case.runtime is None:
        return
    granted = {key: receipt for key, receipt in receipts.items() if FLOWS[receipt.transition].is_granted}
    subjects = case.runtime.subjects(Machine.AUTHORIZATION, sorted(granted)) if granted else {}
    for key, receipt in granted.items():
        subject = subjects.get(key)
        if subject is None:
            case.findings.add(Code.AUTHORIZATION_UNKNOWN, key, "the Runtime never granted it")
            continue
        for broken in _answers(receipt, subject):
            case.findings.add(Code.AUTHORIZATION_MISMATCH, key, broken)


def _answers(receipt: AppendReceipt, subject: Subject) -> Iterator[str]:
    """Yield what keeps a receipt from being the answer of an authorization."""
    try:
        authorization = Authorization.load(subject.body)
    except VrmError as error:
        yield str(error)
        return
    if str(authorization.id) != receipt.permit_key:
        yield f"its body belongs to {authorization.id}"
    if authorization.canonical_digest != receipt.permit_digest:
        yield "the receipt answers another body"
    asked = (authorization.namespace, authorization.transition, authorization.authority)
    if asked != (receipt.namespace, receipt.transition, receipt.authority):
        yield f"it was granted for {', '.join(asked)}"
    if receipt.committed and authorization.expected_id not in receipt.record_ids:
        yield f"{authorization.expected_id} was authorized and not written"
    wrong = Phase.RETIRED_NO_COMMIT if receipt.committed else Phase.COMMITTED
    if subject.phase is wrong:
        yield f"the Runtime has it as {subject.phase}, the Ledger says otherwise"
