"""Erased bytes are gone from every kind of artifact store, and no publisher brings them back, whenever he comes."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from records.canonical import digest_bytes
from records.errors import ErasedError, NotFoundError
from store.artifacts import ArtifactStore
from tests.support.stores import fresh_namespace

DATA = b"somebody's answers"
DIGEST = digest_bytes(DATA)


@pytest.fixture(params=["folder", "memory"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(tmp_path) if request.param == "folder" else f"memory://{fresh_namespace()}"


def test_what_is_erased_is_gone_for_every_process_and_stays_so(url: str) -> None:
    store, kept = ArtifactStore(url), digest_bytes(b"kept")
    store.publish_many([DATA, b"kept"])
    for _ in range(2):
        store.erase(DIGEST)
        for each in (store, ArtifactStore(url)):
            assert (each.holds(DIGEST), each.erased(DIGEST), each.erased(kept)) == (False, True, False)
            with pytest.raises(ErasedError):
                each.read(DIGEST)
            with pytest.raises(ErasedError):
                each.publish_many([b"new", DATA])
        assert list(store.digests()) == [kept]
    assert store.read(kept) == b"kept"
    with pytest.raises(NotFoundError) as missing:
        store.read(digest_bytes(b"never"))
    assert not isinstance(missing.value, ErasedError)


def test_bytes_that_are_not_there_yet_can_be_erased(url: str) -> None:
    ArtifactStore(url).erase(DIGEST)
    with pytest.raises(ErasedError):
        ArtifactStore(url).publish(DATA)


class _Late(ArtifactStore):
    """A publisher who looks for marks, and is overtaken by an erasure before his bytes are there."""

    looked = 0

    def _refuse_erased(self, digests: Iterable[str]) -> None:
        super()._refuse_erased(digests)
        self.looked += 1
        if self.looked == 1:
            ArtifactStore(self.url).erase(DIGEST)


def test_a_publisher_who_looked_before_the_erasure_removes_his_bytes_himself(url: str) -> None:
    with pytest.raises(ErasedError):
        _Late(url).publish(DATA)
    assert not ArtifactStore(url).holds(DIGEST)


def test_an_unfinished_file_of_a_writer_that_died_goes_too(tmp_path: Path) -> None:
    store = ArtifactStore(str(tmp_path))
    store.publish(DATA)
    draft = Path(store.location(DIGEST)).with_name(f"{DIGEST}.{'0' * 32}")
    draft.write_bytes(DATA[:5])
    store.erase(DIGEST)
    assert [each.name for each in draft.parent.iterdir()] == [f"{DIGEST}.erased"]
    assert not list(store.ages()), "the mark is nothing that a collection looks at"
