"""Statements that do not wait, on a real connection: order, refusals, and a connection that stays usable."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from records.errors import IntegrityError, UnavailableError
from store.database import connect
from store.pipeline import Pipeline
from store.server import DatabaseUrls

INSERT = "INSERT INTO pipeline_test VALUES ($1, $2, $3)"


@pytest.fixture
def pipeline(postgres_urls: DatabaseUrls) -> Iterator[Pipeline]:
    connection = connect(postgres_urls.ledger_admin, "test")
    connection.execute("CREATE TEMPORARY TABLE pipeline_test (number bigint PRIMARY KEY, text text, flag boolean)")
    yield Pipeline(connection)
    connection.close()


def rows(pipeline: Pipeline) -> list[tuple[object, ...]]:
    return pipeline.connection.execute("SELECT * FROM pipeline_test ORDER BY number").fetchall()


def test_values_arrive_as_they_were_and_tags_say_what_was_done(pipeline: Pipeline) -> None:
    pipeline.send("BEGIN")
    pipeline.send(INSERT, [1, "a 'quoted' \\ {text}", True])
    pipeline.send(INSERT, [2**53, "Grüße 😀", False])
    pipeline.send(INSERT, [-1, None, None])
    pipeline.send("COMMIT")
    tags = pipeline.drain()
    assert [tag for tag in tags if tag] == ["BEGIN", *["INSERT 0 1"] * 3, "COMMIT"]
    assert rows(pipeline) == [(-1, None, None), (1, "a 'quoted' \\ {text}", True), (2**53, "Grüße 😀", False)]


def refused_in_a_savepoint(pipeline: Pipeline) -> None:
    with pipeline.connection.transaction():
        pipeline.send(INSERT, [1, "refused", True])
        pipeline.drain()


def test_nothing_sent_is_nothing_to_wait_for(pipeline: Pipeline) -> None:
    assert pipeline.drain() == []
    pipeline.abandon()
    pipeline.roll_back()
    assert rows(pipeline) == []


def test_the_first_refusal_is_told_and_everything_is_undone(pipeline: Pipeline) -> None:
    pipeline.send("BEGIN")
    pipeline.send(INSERT, [1, "first", True])
    pipeline.send(INSERT, [1, "again", True])
    pipeline.send("SELECT nowhere()")
    pipeline.send("COMMIT")
    with pytest.raises(IntegrityError, match="pipeline_test_pkey"):
        pipeline.drain()
    pipeline.roll_back()
    assert rows(pipeline) == []


def test_a_statement_that_was_never_prepared_is_prepared_again(pipeline: Pipeline) -> None:
    pipeline.send("BEGIN")
    pipeline.send("INSERT INTO nowhere VALUES ($1)", [1])
    pipeline.send(INSERT, [1, "skipped", True])
    with pytest.raises(UnavailableError, match="nowhere"):
        pipeline.drain()
    pipeline.roll_back()
    pipeline.send(INSERT, [1, "there", True])
    pipeline.drain()
    assert rows(pipeline) == [(1, "there", True)]


def test_savepoints_and_reads_of_the_driver_mix_with_it(pipeline: Pipeline) -> None:
    with pipeline.connection.transaction():
        pipeline.send(INSERT, [1, "kept", True])
        pipeline.drain()
        with pytest.raises(IntegrityError):
            refused_in_a_savepoint(pipeline)
        pipeline.send(INSERT, [2, "kept", True])
        pipeline.drain()
        assert len(rows(pipeline)) == 2
    assert [row[0] for row in rows(pipeline)] == [1, 2]


def test_more_than_the_sockets_hold(pipeline: Pipeline) -> None:
    """Neither side may wait for the other to read: 20,000 rows of 600 bytes and as many answers."""
    pipeline.send("BEGIN")
    for number in range(20_000):
        pipeline.send(INSERT, [number, "x" * 600, None])
    pipeline.send("COMMIT")
    assert pipeline.drain().count("INSERT 0 1") == 20_000


def test_a_connection_that_was_ended_is_an_error_of_ours(pipeline: Pipeline, postgres_urls: DatabaseUrls) -> None:
    with connect(postgres_urls.ledger_admin, "test") as other:
        pipeline.send("BEGIN")
        pipeline.send(INSERT, [1, "lost", True])
        other.execute("SELECT pg_terminate_backend(%s, 10000)", [pipeline.connection.info.backend_pid])
    pipeline.send("COMMIT")
    with pytest.raises(UnavailableError):
        pipeline.drain()
    pipeline.roll_back()
    assert pipeline.connection.closed
