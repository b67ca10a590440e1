"""Statements that do not wait, on a real connection: order, refusals, and a connection that stays usable."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from psycopg.pq import TransactionStatus

from records.errors import IntegrityError, InvalidInputError, UnavailableError, VrmError
from store.database import connect
from store.pipeline import ArrayOf, Pipeline, booleans, integers, texts
from store.server import DatabaseUrls

INSERT = "INSERT INTO pipeline_test VALUES ($1, $2, $3)"
INSERT_MANY = "INSERT INTO pipeline_test SELECT * FROM unnest($1::bigint[], $2::text[], $3::boolean[])"


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


@pytest.mark.parametrize(
    ("encoded", "kind", "values"),
    [
        (texts, "text", ["a", "b", "c"]),
        (texts, "text", ["{}", '"', "NULL", "", "\\", "a,b", "Grüße 😀", "x" * 70_000]),
        (texts, "text", ["ü", "ab"]),  # of one length in bytes
        (texts, "text", [None, None]),
        (texts, "text", [None, "NULL", ""]),
        (texts, "text", []),
        (integers, "bigint", [0, -1, 2**63 - 1, -(2**63), None]),
        (booleans, "boolean", [True, False, None]),
    ],
)
def test_arrays_arrive_as_they_were(pipeline: Pipeline, encoded: ArrayOf, kind: str, values: list[object]) -> None:
    pipeline.connection.execute(f"CREATE TEMPORARY TABLE arrays (held {kind}[])".encode())
    pipeline.send_columns(f"INSERT INTO arrays VALUES ($1::{kind}[])", [(encoded, values)])
    pipeline.drain()
    assert pipeline.connection.execute("SELECT held FROM arrays").fetchone() == (values,)


def test_several_rows_in_one_statement(pipeline: Pipeline) -> None:
    columns: list[tuple[ArrayOf, list[object]]] = [
        (integers, [1, 2]),
        (texts, ["one", b"two"]),
        (booleans, [True, None]),
    ]
    pipeline.send_columns(INSERT_MANY, columns)
    assert pipeline.drain()[-1] == "INSERT 0 2"
    assert rows(pipeline) == [(1, "one", True), (2, "two", None)]


def test_text_that_the_server_cannot_hold_is_refused(pipeline: Pipeline) -> None:
    with pytest.raises(InvalidInputError, match="NUL"):
        pipeline.send(INSERT, [1, "a\0b", True])
    pipeline.send_columns(INSERT_MANY, [(integers, [1]), (texts, ["a\0b"]), (booleans, [True])])
    with pytest.raises(VrmError, match="0x00"):
        pipeline.drain()
    pipeline.roll_back()
    assert rows(pipeline) == []


def test_what_is_sent_without_begin_is_one_transaction(pipeline: Pipeline) -> None:
    pipeline.send(INSERT, [1, "first", True])
    pipeline.send(INSERT, [2, "second", True])
    pipeline.send(INSERT, [1, "again", True])
    with pytest.raises(IntegrityError, match="pipeline_test_pkey"):
        pipeline.drain()
    assert rows(pipeline) == []
    pipeline.send(INSERT, [1, "first", True])
    pipeline.send(INSERT, [2, "second", True])
    pipeline.drain()
    assert pipeline.connection.info.transaction_status == TransactionStatus.IDLE
    assert len(rows(pipeline)) == 2


def refused_in_a_savepoint(pipeline: Pipeline) -> None:
    with pipeline.connection.transaction():
        pipeline.send(INSERT, [1, "refused", True])
        pipeline.drain()


def test_questions_are_answered_in_order_as_the_server_writes_them(pipeline: Pipeline) -> None:
    pipeline.send("BEGIN")
    pipeline.send(INSERT, [1, "Grüße 😀", None])
    pipeline.send_columns("SELECT * FROM pipeline_test WHERE number = ANY($1)", [(integers, [1, 2])])
    pipeline.send("SELECT number FROM pipeline_test WHERE number = 2")
    assert pipeline.answers() == [[("1", "Grüße 😀", None)], []]
    pipeline.send(INSERT, [2, "", True])
    pipeline.commit()
    assert rows(pipeline) == [(1, "Grüße 😀", None), (2, "", True)]


def test_a_question_that_is_refused_undoes_what_was_sent_before(pipeline: Pipeline) -> None:
    pipeline.send("BEGIN")
    pipeline.send(INSERT, [1, "undone", True])
    pipeline.send("SELECT 1 / (number - 1) FROM pipeline_test")
    with pytest.raises(IntegrityError, match="division by zero"):
        pipeline.answers()
    with pytest.raises(IntegrityError, match="ROLLBACK"):
        pipeline.commit()
    assert rows(pipeline) == []


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
