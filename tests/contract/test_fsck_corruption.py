"""The integrity check on a real Postgres: every code is brought about with every protection switched off, and found.

The world is written once, by the owners, into databases of its own. Each case damages it as the superuser inside
transactions, checks on those very connections, and rolls back.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from memory.fsck import Code, fsck
from records.errors import NotFoundError
from records.evidence import Observation
from store.server import DatabaseUrls
from tests.support.forging import Forgery
from tests.support.fsck_damage import CLAIMS, ERASURES, FORGERIES, LINEAGE, REFERENCES, ROWS, Forged, RowDamage
from tests.support.fsck_scene import Defenceless, Scene, defenceless, named, set_scene

BYTES = frozenset({Code.ARTIFACT_MISSING, Code.ARTIFACT_CHANGED})
"""Codes that are brought about in the artifact store."""

DAMAGE = frozenset(
    {
        Code.JOURNAL_GAP, Code.CHAIN_BROKEN, Code.NAMESPACE_HEAD, Code.FRONTIER, Code.ROW_MISSING, Code.ROW_UNJOURNALED,
        Code.ROW_POSITION, Code.PAYLOAD_UNREADABLE, Code.PAYLOAD_NOT_CANONICAL, Code.PAYLOAD_DIGEST, Code.ID_MISMATCH,
        Code.COLUMN_MISMATCH, Code.CHILD_MISMATCH, Code.CHILD_STRAY, Code.RECEIPT_MISMATCH, Code.RECEIPT_MISSING,
    }
)  # fmt: skip
"""Codes that tell of rows which do not fit each other; a careful forger leaves none of them."""


@pytest.fixture(scope="module")
def scene(postgres_urls: DatabaseUrls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with set_scene(postgres_urls, tmp_path_factory.mktemp("fsck")) as found:
        yield found


@pytest.fixture
def bare(scene: Scene) -> Iterator[Defenceless]:
    with defenceless(scene) as opened:
        yield opened


def test_every_code_has_damage_that_brings_it_about() -> None:
    seeded = {damage.code for damage in ROWS} | {forged.code for forged in FORGERIES} | BYTES | {Code.LIFECYCLE_CHAIN}
    assert seeded | ERASURES | REFERENCES | LINEAGE | CLAIMS == set(Code)


@pytest.mark.parametrize("damage", ROWS, ids=[f"{place}-{damage.code}" for place, damage in enumerate(ROWS)])
def test_damage_to_rows_is_found_where_it_is(bare: Defenceless, damage: RowDamage) -> None:
    wanted = bare.ids(damage.names)
    bare.run(damage.statement)
    report = bare.check()
    assert wanted
    assert wanted <= named(report, damage.code), report.text()
    found = [violation for violation in report.violations if violation.code is damage.code]
    assert all(violation.met and violation.remedy for violation in found)
    assert report.exit_code == 1


@pytest.mark.parametrize("forged", FORGERIES, ids=[f"{forged.code}-{forged.name}" for forged in FORGERIES])
def test_what_a_careful_forger_wrote_is_found(bare: Defenceless, forged: Forged) -> None:
    forgery = Forgery(bare.ledger, bare.scene.world.namespace)
    wanted = list(forged.act(forgery))
    renamed = forgery.seal()
    report = bare.check(with_runtime=False)
    assert not DAMAGE & {Code(code) for code in report.counts}, report.text()
    assert wanted
    records = {renamed.get(each, each) if isinstance(each, str) else each() for each in wanted}
    assert records <= named(report, forged.code), report.text()


def test_a_chain_that_the_policy_does_not_know_is_found(bare: Defenceless) -> None:
    forgery = Forgery(bare.ledger, bare.scene.world.namespace)
    content = forgery.content(forgery.all("knowledge-lifecycle-event")[0])
    content["event_type"] = "superseded"
    forgery.seal()
    report = bare.check(with_runtime=False)
    assert named(report, Code.LIFECYCLE_CHAIN) == {content["scope_variant_id"]}


def test_a_forger_who_changes_nothing_leaves_a_clean_store(bare: Defenceless) -> None:
    assert Forgery(bare.ledger, bare.scene.world.namespace).seal()
    report = bare.check()
    assert report.clean, report.text()


def test_the_world_is_clean_in_one_read_transaction(scene: Scene) -> None:
    told: list[tuple[str, int, int]] = []
    with scene.world.ledger.reading() as reader:
        report = fsck(reader, scene.world.runtime, scene.world.artifacts, lambda *step: told.append(step))
        position = reader.namespace_head("world").position
    assert report.clean, report.text()
    assert report.counts == {}
    assert report.checked["journal rows"] == report.checked["records"] == position
    assert ("journal of world", position, position) in told


def test_one_namespace_can_be_checked_alone(bare: Defenceless) -> None:
    bare.run("UPDATE ledger.namespace_heads SET evidence = evidence - 1")
    whole, own = bare.check(), bare.check(namespace="world")
    assert whole.counts == own.counts == {Code.FRONTIER.value: 1}
    assert own.checked == whole.checked
    with pytest.raises(NotFoundError, match="world"):
        bare.check(namespace="other")


def test_a_reader_without_a_transaction_is_refused(scene: Scene) -> None:
    with pytest.raises(ValueError, match="reading"):
        fsck(scene.world.ledger, None, None)


def test_bytes_that_vanish_or_change_are_found(scene: Scene) -> None:
    artifacts = scene.world.artifacts
    observation = scene.world.ledger.find("observation", "world")[0].load()
    assert isinstance(observation, Observation)
    paths = [Path(artifacts.location(item.sha256)) for item in observation.artifacts]
    kept = [path.read_bytes() for path in paths]
    try:
        paths[0].unlink()
        paths[1].write_bytes(b"other bytes")
        with scene.world.ledger.reading() as reader:
            report = fsck(reader, scene.world.runtime, artifacts)
        with scene.world.ledger.reading() as reader:
            assert fsck(reader, scene.world.runtime, None).clean
    finally:
        for path, data in zip(paths, kept, strict=True):
            path.write_bytes(data)
    assert report.counts == {Code.ARTIFACT_MISSING.value: 1, Code.ARTIFACT_CHANGED.value: 1}
    assert all(named(report, code) == {str(observation.id)} for code in BYTES)
