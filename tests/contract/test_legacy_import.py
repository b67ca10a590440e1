"""Legacy imports on each adapter: nothing half-written, nothing doubled, every byte read back, fsck clean."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from importers.ai_researcher import Filed, LegacyContent, file_content, read_bundle, read_ledger
from memory.coordinator import CommitCoordinator
from memory.fsck import fsck
from memory.ports import Fence
from records.appends import Append, AppendReceipt
from records.errors import IdentityConflictError, IntegrityError, UnavailableError, VrmError
from records.fields import UNSCOPED
from records.flows import Transition
from records.legacy import LegacyArtifactStatus, LegacyImport, LegacyRecord
from store.artifacts import ArtifactStore
from store.ledger.port import LedgerReader, LedgerStore
from store.runtime.memory import MemoryRuntime
from tests.data.legacy import bundle_to, full_rows, hypothesis, real_rows, write_ledger
from tests.support.stores import Addresses


@dataclass
class House:
    """A Ledger with its one writer and an artifact store."""

    ledger: LedgerStore
    coordinator: CommitCoordinator
    artifacts: ArtifactStore

    def file(self, content: LegacyContent) -> Filed:
        """Import what was read."""
        return file_content(content, self.ledger, self.coordinator, self.artifacts)

    def position(self) -> int:
        """Return where the journal of the legacy namespace stands."""
        return self.ledger.namespace_head(UNSCOPED).position

    def clean(self) -> bool:
        """Check everything."""
        with self.ledger.reading() as reader:
            report = fsck(reader, None, self.artifacts)
        assert report.clean, report.text()
        return True


@pytest.fixture
def house(ledger: LedgerStore, tmp_path_factory: pytest.TempPathFactory) -> House:
    artifacts = ArtifactStore(str(tmp_path_factory.getbasetemp() / f"artifacts-{type(ledger).__name__}"))
    return House(ledger, CommitCoordinator(ledger, MemoryRuntime(), artifacts, "test"), artifacts)


def _made_up(tmp_path: Path, name: str, count: int) -> LegacyContent:
    rows = [hypothesis(f"{name}-{number:04d}") for number in range(count)]
    return read_ledger(write_ledger(tmp_path / name, rows, revision=1))


def test_both_sources_import_whole_and_twice_adds_nothing(house: House, tmp_path: Path) -> None:
    bundle = read_bundle(bundle_to(tmp_path / "bundle"))
    ledger = read_ledger(write_ledger(tmp_path / "real.sqlite", real_rows(), revision=1))
    everything = read_ledger(write_ledger(tmp_path / "full.sqlite", full_rows()))
    contents = (bundle.content, ledger, everything)
    # What they share is one record: 32 knowledge, 34 verification, 11 recall records, one hypothesis, one attempt.
    wanted = {str(each) for content in contents for each in content.records}
    assert len(wanted) == sum(len(content.records) for content in contents) - (32 + 34 + 11) - 2
    wanted |= {str(content.receipt.id) for content in contents}
    there = house.ledger.get_many(wanted)  # another test may have been here
    filed = [house.file(content) for content in contents]
    assert [each.repeated for each in filed] == [str(each.import_id) in there for each in filed]
    assert sum(each.new_records for each in filed) == len(wanted) - len(there)
    again = [house.file(content) for content in contents]
    assert [each.import_id for each in again] == [each.import_id for each in filed]
    assert all(each.repeated and each.new_records == 0 for each in again)
    for content in contents:
        stored = house.ledger.get_many([str(record_id) for record_id in content.records])
        kept = [row.load() for row in stored.values()]
        assert sorted(record.data for record in kept if isinstance(record, LegacyRecord)) == sorted(
            {row.data for row in content.rows}
        )
    assert house.clean()


def test_the_receipt_holds_reasons_and_digests_and_its_files_are_artifacts(house: House, tmp_path: Path) -> None:
    content = read_bundle(bundle_to(tmp_path / "bundle")).content
    stored = house.ledger.get(str(house.file(content).import_id))
    assert stored is not None
    receipt = stored.load()
    assert isinstance(receipt, LegacyImport)
    assert [str(member.record_id) for member in receipt.members] == [str(each) for each in content.records]
    assert all(member.reasons for member in receipt.members)
    verified = [each for each in receipt.artifacts if each.status is LegacyArtifactStatus.VERIFIED]
    assert len(verified) == 119
    for artifact in verified:
        assert len(house.artifacts.read(artifact.sha256)) == artifact.size_bytes
    assert not [each.path for each in verified if each.path.endswith(".py")]


class _Dying:
    """A coordinator that is lost after some groups; what it wrote stays."""

    def __init__(self, inner: CommitCoordinator, groups: int) -> None:
        self._inner = inner
        self._left = groups

    def append_direct(self, appends: Sequence[Append]) -> list[AppendReceipt | VrmError]:
        if self._left == 0:
            raise UnavailableError("coordinator", "gone", "Run the command again.")
        self._left -= 1
        return self._inner.append_direct(appends)

    def append_granted(self, ids: Sequence[str], fences: Sequence[Fence] = ()) -> list[AppendReceipt | VrmError]:
        raise NotImplementedError  # an import has nothing that needs a grant


@pytest.mark.parametrize("groups", [0, 1, 2])
def test_an_import_that_was_cut_short_goes_on(
    house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, groups: int
) -> None:
    """Nine batches are two groups; the receipt comes third."""
    monkeypatch.setattr("importers.ai_researcher.filing._BATCH", 2)
    content = _made_up(tmp_path, f"cut-{groups}-{type(house.ledger).__name__}", 17)
    before = house.position()
    with pytest.raises(UnavailableError):
        file_content(content, house.ledger, _Dying(house.coordinator, groups), house.artifacts)
    assert house.position() - before == (0, 16, 17)[groups]
    assert house.ledger.get(str(content.receipt.id)) is None
    assert house.clean()
    filed = house.file(content)
    assert (filed.new_records, filed.repeated) == (18 - (0, 16, 17)[groups], False)
    assert house.position() - before == 18
    assert house.clean()


class _Forgetful:
    """A reader that gives back other bytes than were written."""

    def __init__(self, inner: LedgerReader, other: LegacyContent) -> None:
        self._inner = inner
        self._other = other

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)

    def get_many(self, _ids: object) -> dict[str, object]:
        return {}


def test_without_its_bytes_read_back_there_is_no_receipt(house: House, tmp_path: Path) -> None:
    content = _made_up(tmp_path, f"lost-{type(house.ledger).__name__}", 3)
    reader = _Forgetful(house.ledger, content)
    with pytest.raises(IntegrityError, match="other bytes"):
        file_content(content, reader, house.coordinator, house.artifacts)  # type: ignore[arg-type]  # a broken reader
    assert house.ledger.get(str(content.receipt.id)) is None


def test_the_same_record_with_another_time_is_refused(house: House, tmp_path: Path) -> None:
    """Nobody can file a legacy record under a time of their own."""
    content = _made_up(tmp_path, f"time-{type(house.ledger).__name__}", 1)
    house.file(content)
    (record,) = content.records.values()
    later = record.model_copy(update={"created_at": "2030-01-01T00:00:00.000000Z"})
    (answer,) = house.coordinator.append_direct([Append.direct(Transition.IMPORT_LEGACY, f"t/{record.id}", (later,))])
    assert isinstance(answer, IdentityConflictError)


def test_a_receipt_of_records_that_are_not_there_is_refused(house: House, tmp_path: Path) -> None:
    content = _made_up(tmp_path, f"gone-{type(house.ledger).__name__}", 2)
    before = house.position()
    (answer,) = house.coordinator.append_direct([Append.direct(Transition.IMPORT_LEGACY, "early", (content.receipt,))])
    assert isinstance(answer, IntegrityError)
    assert house.position() == before


def test_a_legacy_record_is_append_only(house: House, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    content = _made_up(tmp_path, f"kept-{type(house.ledger).__name__}", 1)
    house.file(content)
    if type(house.ledger).__name__ == "MemoryLedger":
        return
    addresses: Addresses = request.getfixturevalue("ledger_database")
    with psycopg.connect(addresses.superuser, autocommit=True) as link:
        for statement in ("UPDATE ledger.legacy_records SET payload = ''", "DELETE FROM ledger.legacy_records"):
            with pytest.raises(psycopg.errors.RaiseException, match="append-only"):
                link.execute(statement)
