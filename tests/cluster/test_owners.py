"""The owners as named actors: found by name, replaced by newer code, typed errors, idempotent commands."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest
import ray

from actors import handles
from actors.cluster import ClusterInfo
from actors.handles import Handle, Role, owners_of
from actors.owners import CommitCoordinatorActor
from actors.settings import code_digest
from memory.leases import admission
from memory.ports import all_good
from records import errors
from records.errors import IdentityConflictError, NotFoundError, StaleError, UnavailableError, VrmError
from records.runtime import Applied
from store.server import DatabaseUrls
from tests.cluster.installation import Installation, Study, gone, installed
from tests.cluster.raising import Raiser
from tests.support.samples import run_of
from tests.support.stores import address, evidence_append, fresh_namespace
from tests.support.trials import make_contract
from vrm import bootstrap
from vrm.home import Home

ROOT = Path(__file__).parents[2]
EVERY_ERROR = sorted(
    name for name, each in vars(errors).items() if isinstance(each, type) and issubclass(each, VrmError)
)


class TestNames:
    def test_second_driver_finds_the_same_owner(self, ray_cluster: ClusterInfo, session_home: Home) -> None:
        space = fresh_namespace()
        append = evidence_append([make_contract(space)], "once")
        opened = bootstrap.open_stores(session_home, {})
        owners = bootstrap.owners(opened, ray_cluster)
        mine = all_good(owners.coordinator.append_direct([append]))[0]
        program = (
            "import vrm\n"
            "from memory.ports import all_good\n"
            "from tests.support.stores import evidence_append\n"
            "from tests.support.trials import make_contract\n"
            "with vrm.connect() as memory:\n"
            f"    append = evidence_append([make_contract({space!r})], 'once')\n"
            "    (receipt,) = all_good(memory.actors.coordinator.append_direct([append]))\n"
            "    actor = memory.actors.coordinator.handle.find()\n"
            "    print(receipt.canonical.decode(), actor._actor_id.hex(), sep='\\n')\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
            cwd=ROOT,
            env=os.environ | {"VRM_HOME": str(session_home.root), "PYTHONPATH": str(ROOT)},
        )
        assert done.returncode == 0, done.stderr
        receipt, actor = done.stdout.split()
        assert receipt == mine.canonical.decode()
        assert actor == owners.coordinator.handle.find()._actor_id.hex()
        owners.coordinator.handle.kill()
        opened.close()

    def test_older_code_is_replaced(self, study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
        place, pid = study.place, study.place.owner_pid()
        assert all_good(owners_of(place.settings).coordinator.append_direct([study.contract()]))
        assert place.owner_pid() == pid, "the same code stays"
        with monkeypatch.context() as newer:
            newer.setattr(handles, "code_digest", lambda: "newer")
            assert all_good(owners_of(place.settings).coordinator.append_direct([study.contract()]))
        assert gone(pid)
        assert place.owner_pid() != pid
        ids = study.grant(0)
        study.require_once(ids, study.append(ids))

    def test_installations_do_not_share_actors(self, study: Study, other: Installation) -> None:
        stranger = Study(other)
        assert stranger.place.owner_pid() != study.place.owner_pid()
        first, second = study.grant(0), stranger.grant(0)
        assert isinstance(other.owners.coordinator.append_granted(first)[0], NotFoundError)
        stranger.require_once(second, stranger.append(second))
        study.require_once(first, study.append(first))

    def test_owners_hold_no_processor_and_end_without_a_trace(self, other: Installation) -> None:
        before = ray.available_resources()["CPU"]  # type: ignore[no-untyped-call]  # Ray's own
        Study(other)
        assert ray.available_resources()["CPU"] == before  # type: ignore[no-untyped-call]  # Ray's own
        pid = other.owner_pid()
        other.owners.coordinator.handle.kill()
        assert gone(pid)
        assert other.owners.coordinator.handle.find() is None


@pytest.fixture(scope="module")
def other(
    ray_cluster: ClusterInfo, postgres_urls: DatabaseUrls, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Installation]:
    """A second installation on the same cluster."""
    assert ray_cluster.address
    with installed(postgres_urls, tmp_path_factory.mktemp("other")) as made:
        yield made


def test_health_is_answered_while_a_call_is_running(study: Study) -> None:
    place, ids = study.place, study.grant(0)
    actor = place.owners.coordinator.handle.find()
    with psycopg.connect(place.ledger_database.superuser) as link, ThreadPoolExecutor(1) as threads:
        link.execute("SELECT 1 FROM ledger.namespace_heads WHERE namespace = %s FOR UPDATE", [study.namespace])
        call = threads.submit(study.append, ids)
        place.until_blocked(place.owner_pid())
        assert ray.get(actor.version.remote(), timeout=20) == code_digest()
        assert not call.done()
        link.rollback()
        study.require_once(ids, call.result())


@pytest.fixture(scope="module")
def raiser(place: Installation) -> Iterator[Handle]:
    handle = Handle(Role("raiser", Raiser), place.settings)
    yield handle
    handle.kill()


class TestErrors:
    @pytest.mark.parametrize("name", EVERY_ERROR)
    def test_every_error_arrives_as_what_it_is(self, raiser: Handle, name: str) -> None:
        with pytest.raises(VrmError) as caught:
            raiser.call("fail", name)
        (returned,) = raiser.call("answer", name)
        for error in (caught.value, returned):
            assert type(error) is getattr(errors, name)
            assert error.field == "field"
            assert error.value == "v" * 160 + "… (500 characters)"
            assert error.remedy == f"Remedy of {name}."

    def test_bugs_keep_their_traceback(self, raiser: Handle) -> None:
        with pytest.raises(RuntimeError, match=r"raising\.py"):
            raiser.call("stumble")

    def test_owner_that_cannot_start_says_why(self, place: Installation) -> None:
        nowhere = replace(place.settings, ledger_dsn=address(place.settings.ledger_dsn, dbname="nowhere"))
        handle = Handle(Role("commit-coordinator", CommitCoordinatorActor), nowhere)
        with pytest.raises(UnavailableError, match='database "nowhere" does not exist'):
            handle.call("append_direct", [])
        assert handle.find() is None

    def test_one_bad_append_does_not_spoil_its_neighbours(self, study: Study) -> None:
        other_contract = make_contract(study.namespace, version="2")
        bad = evidence_append([other_contract], "contract")
        good = evidence_append([other_contract], "contract-2")
        answers = study.place.owners.coordinator.append_direct([bad, good, study.contract()])
        assert isinstance(answers[0], IdentityConflictError)
        assert [each.positions for each in all_good(answers[1:])] == [(2,), (1,)]


class TestTwice:
    """A retry after a lost reply runs a command twice; the second answer is the first."""

    def test_coordinator_and_run_owner(self, study: Study) -> None:
        owners = study.place.owners
        digests = study.place.artifacts.publish_many([each.canonical for each in study.proposals(0, 1)])
        assert owners.run_owner.grant(digests) == owners.run_owner.grant(digests)
        ids = [str(each.id) for each in all_good(owners.run_owner.grant(digests))]
        receipts = all_good(owners.coordinator.append_granted(ids))
        assert owners.coordinator.append_granted(ids) == receipts
        assert owners.run_owner.reconcile(ids) == owners.run_owner.reconcile(ids) == receipts
        direct = [study.contract()]
        assert owners.coordinator.append_direct(direct) == owners.coordinator.append_direct(direct)
        study.require_once(ids, receipts)

    def test_lifecycle_heads(self, study: Study) -> None:
        heads = study.place.owners.heads
        first = heads.reserve(study.namespace, "plan", study.events())
        assert heads.reserve(study.namespace, "plan", study.events()) == first
        with pytest.raises(StaleError):
            heads.reserve(study.namespace, "rival", study.events())
        heads.release("plan")
        heads.release("plan")
        assert heads.reserve(study.namespace, "rival", study.events()) != first
        heads.release("rival")

    def test_keyed_command(self, place: Installation) -> None:
        command = [admission(run_of(fresh_namespace()), ["decide"])]
        answers: list[Any] = [place.owners.run_owner.apply(command) for _ in range(2)]
        assert answers == [[Applied(replayed=False)], [Applied(replayed=True)]]
