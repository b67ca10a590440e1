"""The integrity check on a real Postgres: damage done with every protection switched off, each sort found by its code.

The world is written once, by the owners, into databases of its own. Each case damages it as the superuser inside a
transaction, checks on that very connection, and rolls back, so no case can hide behind another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import TupleRow

from importers.published_table import read_published_table
from memory.fsck import Code, FsckReport, fsck
from records.base import KINDS
from records.canonical import canonical_bytes, digest_bytes, parse_canonical
from records.evidence import Observation
from store.artifacts import ArtifactStore
from store.embedded.databases import SUPERUSER
from store.install import install
from store.ledger.postgres import PostgresLedger
from store.ledger.reader import PostgresReader
from store.ledger.schema import DEFINITION as LEDGER
from store.runtime.postgres import PostgresRuntime
from store.runtime.schema import DEFINITION as RUNTIME
from store.server import DatabaseUrls
from tests.data.tables import write_table
from tests.data.world import World, build_world, one

Connection = psycopg.Connection[TupleRow]


@dataclass(frozen=True)
class Scene:
    """A world on Postgres, with the superuser's address of its Ledger."""

    world: World
    superuser: str


def _own_database(urls: tuple[str, str], name: str) -> tuple[str, str]:
    """Make a database of the same owner as an existing one; return its admin and application addresses."""
    admin, application = urls
    owner = str(conninfo_to_dict(admin)["user"])
    with psycopg.connect(make_conninfo(admin, user=SUPERUSER), autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {} OWNER {}").format(sql.Identifier(name), sql.Identifier(owner)))
    return make_conninfo(admin, dbname=name), make_conninfo(application, dbname=name)


@pytest.fixture(scope="module")
def scene(postgres_urls: DatabaseUrls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    ledger_urls = _own_database((postgres_urls.ledger_admin, postgres_urls.ledger_app), "fsck_ledger")
    runtime_urls = _own_database((postgres_urls.runtime_admin, postgres_urls.runtime_app), "fsck_runtime")
    for (admin, application), definition in ((ledger_urls, LEDGER), (runtime_urls, RUNTIME)):
        install(admin, str(conninfo_to_dict(application)["user"]), definition)
    folder = tmp_path_factory.mktemp("fsck")
    ledger, runtime = PostgresLedger(ledger_urls[1], "test"), PostgresRuntime(runtime_urls[1], "test")
    table = read_published_table(write_table(folder / "table"))
    world = build_world(ledger, runtime, ArtifactStore(str(folder / "artifacts")), table)
    yield Scene(world, make_conninfo(ledger_urls[0], user=SUPERUSER))
    ledger.close()
    runtime.close()


@pytest.fixture
def defenceless(scene: Scene) -> Iterator[Connection]:
    """The superuser in a transaction in which no trigger and no foreign key holds; rolled back."""
    with psycopg.connect(scene.superuser) as connection:
        for name in sorted(table.name for table in LEDGER.metadata.sorted_tables):
            statement = sql.SQL("ALTER TABLE {} DISABLE TRIGGER ALL").format(sql.Identifier("ledger", name))
            connection.execute(statement)
        yield connection
        connection.rollback()


def _check(scene: Scene, connection: Connection) -> FsckReport:
    return fsck(PostgresReader(connection), scene.world.runtime, scene.world.artifacts)


def _rewrite(connection: Connection, record_id: str, change: Callable[[dict[str, object]], object]) -> None:
    """Change a payload and keep digest and columns in step, as somebody would who wants to go unnoticed."""
    kind = KINDS[record_id.partition(":")[0]]
    table = sql.Identifier("ledger", kind.table)
    (payload,) = connection.execute(
        sql.SQL("SELECT payload FROM {} WHERE id = %s").format(table), [record_id]
    ).fetchone() or ("",)
    content = parse_canonical(payload)
    change(content)
    fresh = canonical_bytes(content).decode()
    connection.execute(sql.SQL("UPDATE {} SET payload = %s WHERE id = %s").format(table), [fresh, record_id])
    connection.execute(
        "UPDATE ledger.ledger_commits_v1 SET payload_digest = %s WHERE id = %s",
        [digest_bytes(fresh.encode()), record_id],
    )


_SQL = (
    (Code.JOURNAL_GAP, "DELETE FROM ledger.ledger_commits_v1 WHERE position = 7"),
    (Code.CHAIN_BROKEN, "UPDATE ledger.ledger_commits_v1 SET chain_digest = repeat('0', 64) WHERE position = 5"),
    (Code.CHAIN_BROKEN, "UPDATE ledger.ledger_commits_v1 SET payload_digest = repeat('0', 64) WHERE position = 5"),
    (Code.UNKNOWN_KIND, "UPDATE ledger.ledger_commits_v1 SET noun = 'rumour' WHERE position = 5"),
    (Code.NAMESPACE_HEAD, "UPDATE ledger.namespace_heads SET position = position + 1"),
    (Code.NAMESPACE_HEAD, "DELETE FROM ledger.namespace_heads"),
    (Code.FRONTIER, "UPDATE ledger.namespace_heads SET evidence = evidence - 1"),
    (Code.ROW_MISSING, "DELETE FROM ledger.experiences WHERE id = (SELECT min(id) FROM ledger.experiences)"),
    (Code.ROW_UNJOURNALED, "DELETE FROM ledger.ledger_commits_v1 WHERE noun = 'decision-intent'"),
    (Code.ROW_POSITION, "UPDATE ledger.experiences SET position = position + 1"),
    (Code.ROW_POSITION, "UPDATE ledger.experiences SET namespace = 'elsewhere'"),
    (Code.PAYLOAD_DIGEST, "UPDATE ledger.experiences SET payload = replace(payload, 'seed 0', 'seed 9')"),
    (Code.PAYLOAD_NOT_CANONICAL, "UPDATE ledger.experiences SET payload = payload || ' '"),
    (Code.PAYLOAD_UNREADABLE, "UPDATE ledger.experiences SET payload = left(payload, 40)"),
    (Code.ID_MISMATCH, "UPDATE ledger.experiences SET payload = replace(payload, 'seed 0', 'seed 9')"),
    (Code.COLUMN_MISMATCH, "UPDATE ledger.attempts SET seed = seed + 1"),
    (Code.CHILD_MISMATCH, "UPDATE ledger.observation_artifacts SET size_bytes = size_bytes + 1 WHERE ordinal = 2"),
    (Code.CHILD_MISMATCH, "DELETE FROM ledger.evidence_snapshot_members WHERE ordinal = 3"),
    (Code.CHILD_STRAY, "DELETE FROM ledger.observations"),
    (Code.REFERENCE_DANGLING, "DELETE FROM ledger.ledger_commits_v1 WHERE noun = 'evaluation-contract'"),
    (Code.HEAD_NOT_FOLD, "UPDATE ledger.scope_variant_heads SET disposition = 'retracted'"),
    (Code.HEAD_NOT_FOLD, "UPDATE ledger.scope_variant_heads SET version = 7"),
    (Code.HEAD_NOT_FOLD, "DELETE FROM ledger.scope_variant_heads"),
    (Code.RECEIPT_MISSING, "DELETE FROM ledger.append_receipts WHERE transition = 'APPEND_EVIDENCE'"),
    (Code.RECEIPT_MISMATCH, "UPDATE ledger.append_receipts SET permit_digest = repeat('0', 64)"),
    (
        Code.RECEIPT_MISMATCH,
        "UPDATE ledger.append_receipts SET receipt = regexp_replace(receipt, 'positions\":\\[\\d+', 'positions\":[1')",
    ),
    (Code.OUTCOME_MISSING, "DELETE FROM ledger.recall_decision_outcomes"),
    (Code.OUTCOME_CONTEXT, "DELETE FROM ledger.decision_recall_contexts"),
    (Code.QUEUED_INCOMPLETE, "DELETE FROM ledger.enqueue_transactions"),
    (Code.QUEUED_INCOMPLETE, "DELETE FROM ledger.distillation_work_items"),
    (Code.WORK_ITEM_UNRECEIPTED, "DELETE FROM ledger.experience_distillation_receipts"),
    (Code.COMPLETION_UNBOUND, "DELETE FROM ledger.distillation_reports"),
    (Code.COMPLETION_UNBOUND, "DELETE FROM ledger.distillation_batches"),
    (Code.COMPLETION_UNBOUND, "DELETE FROM ledger.distillation_work_dispositions"),
    (Code.COMPLETION_UNBOUND, "DELETE FROM ledger.distillation_work_assignments"),
    (Code.BUNDLE_BROKEN, "DELETE FROM ledger.verifications"),
    (Code.BUNDLE_BROKEN, "UPDATE ledger.trial_provenances SET payload = left(payload, 40)"),
    (Code.AUTHORIZATION_UNANSWERED, "DELETE FROM ledger.append_receipts WHERE transition = 'COMMIT_DISTILLATION'"),
)


@pytest.mark.parametrize(("code", "statement"), _SQL, ids=[f"{place}-{code}" for place, (code, _) in enumerate(_SQL)])
def test_damage_to_rows_is_found(scene: Scene, defenceless: Connection, code: Code, statement: str) -> None:
    assert defenceless.execute(sql.SQL(statement)).rowcount > 0
    report = _check(scene, defenceless)
    assert code.value in report.counts
    found = [violation for violation in report.violations if violation.code is code]
    assert all(violation.record and violation.met and violation.remedy for violation in found)
    assert report.exit_code == 1


def _first(values: object) -> dict[str, object]:
    assert isinstance(values, list)
    entry = values[0]
    assert isinstance(entry, dict)
    return entry


def _link(content: dict[str, object]) -> None:
    link, other = content["links"][:2]  # type: ignore[index]  # a list of objects, by the model
    link["observation_id"] = other["observation_id"]


def _card(content: dict[str, object]) -> None:
    card = _first(content["items"])["card"]
    assert isinstance(card, dict)
    card["memory_digest"] = "0" * 64


_REWRITTEN: tuple[tuple[Code, str, Callable[[dict[str, object]], object]], ...] = (
    (Code.LIFECYCLE_CHAIN, "knowledge-lifecycle-event", lambda content: content.update(event_type="superseded")),
    (Code.EVENT_RECORD, "knowledge-lifecycle-event", lambda content: content.update(
        scope_variant_id=f"knowledge-scope-variant:{'0' * 64}")),
    (Code.LINK_MISMATCH, "memory-record", _link),
    (Code.CARD_SOURCE, "decision-recall-context", _card),
    (Code.DISPOSITIONS, "recall-decision-outcome", lambda content: content.update(dispositions=[])),
    (Code.SNAPSHOT_MEMBER, "evidence-snapshot", lambda content: _first(content["members"]).update(
        bundle_digest="0" * 64)),
    (Code.COMPLETION_UNBOUND, "distillation-work-completion", lambda content: content.update(report_digest="0" * 64)),
    (Code.ID_MISMATCH, "hypothesis", lambda content: content.update(statement="Something else.")),
)  # fmt: skip


@pytest.mark.parametrize(("code", "noun", "change"), _REWRITTEN, ids=[f"{noun}-{code}" for code, noun, _ in _REWRITTEN])
def test_a_rewritten_record_is_found(
    scene: Scene,
    defenceless: Connection,
    code: Code,
    noun: str,
    change: Callable[[dict[str, object]], object],
) -> None:
    record_id = one(scene.world, noun)
    _rewrite(defenceless, record_id, change)
    report = _check(scene, defenceless)
    assert code.value in report.counts
    # Whoever rewrites a record and its digest cannot rewrite its id, nor the chain behind it.
    assert {Code.ID_MISMATCH.value, Code.CHAIN_BROKEN.value} <= report.counts.keys()


def test_a_second_outcome_is_found(scene: Scene, defenceless: Connection) -> None:
    defenceless.execute(
        "ALTER TABLE ledger.recall_decision_outcomes DROP CONSTRAINT recall_decision_outcomes_one_intent_id"
    )
    defenceless.execute(
        "INSERT INTO ledger.recall_decision_outcomes (id, namespace, position, intent_id, context_id, run_id, "
        "source_status, decision_status, payload) SELECT 'recall-decision-outcome:' || repeat('0', 64), namespace, "
        "position, intent_id, context_id, run_id, source_status, decision_status, payload "
        "FROM ledger.recall_decision_outcomes"
    )
    assert {Code.OUTCOME_REPEATED.value, Code.ROW_UNJOURNALED.value} <= _check(scene, defenceless).counts.keys()


def test_the_world_is_clean_in_one_read_transaction(scene: Scene) -> None:
    told: list[tuple[str, int, int]] = []
    with scene.world.ledger.reading() as reader:
        report = fsck(reader, scene.world.runtime, scene.world.artifacts, lambda *step: told.append(step))
        position = reader.namespace_head("world").position
    assert report.clean, report.text()
    assert report.checked["journal rows"] == report.checked["records"] == position
    assert ("journal of world", position, position) in told


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
            counts = fsck(reader, scene.world.runtime, artifacts).counts
        with scene.world.ledger.reading() as reader:
            assert fsck(reader, scene.world.runtime, None).clean
    finally:
        for path, data in zip(paths, kept, strict=True):
            path.write_bytes(data)
    assert counts == {Code.ARTIFACT_MISSING.value: 1, Code.ARTIFACT_CHANGED.value: 1}
