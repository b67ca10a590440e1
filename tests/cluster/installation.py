"""An installation on the session's services: two fresh databases, its own actors, and ways to break into them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import psutil
import psycopg

from actors.handles import Owners, owners_of
from actors.settings import Settings
from memory.fsck import FsckReport, fsck
from memory.leases import admission
from memory.ports import all_good
from memory.spine import Spine
from records.appends import Append, AppendReceipt, Proposal
from records.flows import Authority, Transition
from records.ids import IntentId
from records.knowledge import EventType, LifecycleEvent, MemoryRecord
from records.runtime import Authorization
from records.states import Machine
from records.values import Disposition, RecallRequirement
from store.artifacts import ArtifactStore
from store.ledger.postgres import PostgresLedger
from store.ledger.schema import DEFINITION as LEDGER
from store.runtime.postgres import PostgresRuntimeReader
from store.runtime.schema import DEFINITION as RUNTIME
from store.server import DatabaseUrls
from tests.support.decision_samples import make_intent, sample_records
from tests.support.governance import manifest, publish_admitted
from tests.support.samples import Common, make_event, run_of
from tests.support.stores import Addresses, evidence_append, fresh_database, fresh_namespace
from tests.support.trials import make_contract

LIMIT_SECONDS = 240.0
COORDINATOR = "commit-coordinator/0"


@dataclass(frozen=True)
class Installation:
    """Databases, artifacts and owners of one installation; the process is connected to the session's cluster."""

    ledger_database: Addresses
    runtime_database: Addresses
    folder: Path
    url: str = ""

    @cached_property
    def settings(self) -> Settings:
        """What the actors open."""
        return Settings(self.ledger_database.app, self.runtime_database.app, self.url or str(self.folder))

    @cached_property
    def owners(self) -> Owners:
        """The actors; none is started before it is called."""
        return owners_of(self.settings)

    @cached_property
    def ledger(self) -> PostgresLedger:
        """The Ledger, to read."""
        return PostgresLedger(self.settings.ledger_dsn, "test")

    @cached_property
    def runtime(self) -> PostgresRuntimeReader:
        """The Runtime, to read."""
        return PostgresRuntimeReader(self.settings.runtime_dsn, "test")

    @cached_property
    def artifacts(self) -> ArtifactStore:
        """The artifact store."""
        return ArtifactStore(str(self.folder))

    @cached_property
    def spine(self) -> Spine:
        """The spine over the actors."""
        return Spine(self.artifacts, self.owners.run_owner, self.owners.coordinator)

    def again(self) -> Installation:
        """Return the same installation under another name, so that its actors stand beside those of this one."""
        return Installation(self.ledger_database, self.runtime_database, self.folder, f"{self.folder}/")

    def fsck(self) -> FsckReport:
        """Check the whole store."""
        with self.ledger.reading() as reader:
            return fsck(reader, self.runtime, self.artifacts)

    def watch(self) -> psycopg.Connection[Any]:
        """Connect to the Ledger's database as its superuser."""
        return psycopg.connect(self.ledger_database.superuser, autocommit=True)

    def owner_pid(self, resource: str = COORDINATOR) -> int:
        """Return the process that owns a resource of the Ledger, as the server sees it."""
        with self.watch() as link:
            row = link.execute(
                "SELECT a.application_name FROM ledger.owners o JOIN pg_stat_activity a ON a.pid = o.backend_pid "
                "WHERE o.resource = %s",
                [resource],
            ).fetchone()
        return int(str(row[0]).rsplit(" ", 1)[1]) if row else 0

    def pids(self) -> set[int]:
        """Return the processes of every owner and worker that has opened the Ledger."""
        with self.watch() as link:
            rows = link.execute(
                "SELECT application_name FROM pg_stat_activity WHERE datname = current_database() "
                "AND application_name ~ '^vrm (coordinator|run-owner|lifecycle-head|distiller|retriever)'"
            ).fetchall()
        return {pid for (name,) in rows if psutil.pid_exists(pid := int(str(name).rsplit(" ", 1)[1]))}

    def until_blocked(self, pid: int) -> None:
        """Wait until a process waits for a lock in the Ledger's database."""
        with self.watch() as link:
            until(
                lambda: (
                    link.execute(
                        "SELECT 1 FROM pg_stat_activity WHERE application_name LIKE %s AND wait_event_type = 'Lock'",
                        [f"vrm % writer {pid}"],
                    ).fetchone()
                    is not None
                )
            )

    def close(self) -> None:
        """End the actors and give back the connections."""
        for handle in self.owners.handles().values():
            handle.kill()
        self.ledger.close()
        self.runtime.close()


@contextmanager
def installed(urls: DatabaseUrls, folder: Path) -> Iterator[Installation]:
    """Make an installation and remove it afterwards."""
    with (
        fresh_database(urls.ledger_admin, urls.ledger_app, LEDGER) as ledger,
        fresh_database(urls.runtime_admin, urls.runtime_app, RUNTIME) as runtime,
    ):
        place = Installation(ledger, runtime, folder)
        yield place
        place.close()


_ADMITTED: Final = manifest(RecallRequirement.REGISTERED_NOT_REQUESTED)


class Study:
    """A Run in a namespace of its own, with decisions that can be admitted."""

    def __init__(self, place: Installation) -> None:
        """Admit the Run and append its contract."""
        self.place = place
        self.namespace = fresh_namespace()
        publish_admitted(place.artifacts, RecallRequirement.REGISTERED_NOT_REQUESTED)
        self.run = run_of(self.namespace, _ADMITTED.canonical_digest)
        all_good(place.owners.run_owner.apply([admission(self.run, ["decide"])]))
        all_good(place.owners.coordinator.append_direct([self.contract()]))

    def contract(self) -> Append:
        """Return the append of the study's contract."""
        return evidence_append([make_contract(self.namespace)], "contract")

    def proposals(self, *iterations: int) -> list[Proposal]:
        """Return one proposal to admit a decision for each iteration."""
        known = sample_records(self.namespace)
        made = []
        for iteration in iterations:
            view, intent = make_intent(Common(self.namespace), known, iteration, manifest=_ADMITTED)
            made.append(
                Proposal(
                    namespace=self.namespace,
                    transition=Transition.APPEND_INTENT,
                    authority=Authority.ADMISSION,
                    machine=Machine.DECISION,
                    subject_id=str(IntentId(intent.id)),
                    run_id=self.run.id,
                    generation=1,
                    fence=1,
                    records=Proposal.bodies((view, intent)),
                )
            )
        return made

    def grant(self, *iterations: int) -> list[str]:
        """Publish and grant; return the authorizations' ids."""
        digests = self.place.artifacts.publish_many([each.canonical for each in self.proposals(*iterations)])
        granted: list[Authorization] = all_good(self.place.owners.run_owner.grant(digests))
        return [str(each.id) for each in granted]

    def events(self) -> list[LifecycleEvent]:
        """Return the first event of a rule."""
        memory = sample_records(self.namespace)["memory-record"]
        assert isinstance(memory, MemoryRecord)
        return [make_event(Common(self.namespace), memory, EventType.PROMOTED_ACTIVE, Disposition.ACTIVE)]

    def append(self, authorization_ids: list[str]) -> list[AppendReceipt]:
        """Append through the coordinator; none may fail."""
        return all_good(self.place.owners.coordinator.append_granted(authorization_ids))

    def require_once(self, authorization_ids: list[str], receipts: list[AppendReceipt]) -> None:
        """Check that each permit got exactly one receipt and each record one row, and that the store is sound."""
        assert [receipt.permit_key for receipt in receipts] == authorization_ids
        assert all(receipt.committed for receipt in receipts)
        assert all_good(self.place.owners.run_owner.reconcile(authorization_ids)) == receipts
        stored = self.place.ledger.receipts(self.namespace, authorization_ids)
        assert [stored[key] for key in authorization_ids] == receipts
        journal = self.place.ledger.journal(self.namespace)
        assert [row.position for row in journal] == list(range(1, len(journal) + 1))
        nouns = [row.noun for row in journal]
        assert nouns.count("decision-intent") == len(authorization_ids)
        assert len(nouns) == len(authorization_ids) + 2, "besides the intents, one contract and one view"
        report = self.place.fsck()
        assert report.clean, report.text()


def until(condition: Callable[[], bool]) -> None:
    """Wait for something that comes by itself; each look is a query or a call, which paces the loop."""
    limit = time.monotonic() + LIMIT_SECONDS
    while not condition():
        assert time.monotonic() < limit, "what the test waits for never came"


def gone(pid: int) -> bool:
    """Return whether a process has ended."""
    try:
        psutil.Process(pid).wait(LIMIT_SECONDS)
    except psutil.NoSuchProcess:
        return True
    except psutil.TimeoutExpired:
        return False
    return True


def session(head: int | None) -> list[psutil.Process]:
    """Return the live processes of a cluster's session."""
    found = []
    for process in psutil.process_iter():
        try:
            if os.getsid(process.pid) == head and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (psutil.NoSuchProcess, ProcessLookupError):
            continue
    return found
