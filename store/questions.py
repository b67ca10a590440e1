"""Questions to Postgres over one connection: those of one call share one round trip.

Rules kept here:

- a question is one of our own statements with its values, a list among them being an array of text; the answer is rows
  of text, as the server writes them (`store.pipeline`);
- one call at a time: threads wait for each other;
- where the server has ended the connection, another one is opened and everything asked again, if there is an address
  to do so: only reads are asked like this, outside a transaction.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from records.errors import UnavailableError, VrmError
from store.database import Connection, connect, translated
from store.pipeline import Pipeline, Row

Question = tuple[str, Sequence[Any]]
"""A statement with `$1` and so on, and the values that these stand for."""


class Questions:
    """Asks over a connection."""

    def __init__(self, connection: Connection, subject: str, address: tuple[str, str] | None = None) -> None:
        """Ask through `connection`, which nobody else uses meanwhile.

        Args:
            connection: in autocommit mode, or in a transaction of the caller.
            subject: what errors are about.
            address: connection string and holder, to connect again; None where a lost connection must be told.
        """
        self._pipeline = Pipeline(connection, subject)
        self._subject = subject
        self._address = address
        self._lock = threading.Lock()

    @property
    def connection(self) -> Connection:
        """The connection that is in use now."""
        return self._pipeline.connection

    def ask(self, questions: Sequence[Question]) -> list[list[Row]]:
        """Return the rows of each question.

        Raises:
            InvalidInputError: a value cannot be sent.
            UnavailableError: the server is gone or too slow.
        """
        with self._lock:
            try:
                return self._answers(questions)
            except UnavailableError:
                if self._address is None or not self.connection.closed:
                    raise
            self._pipeline = Pipeline(connect(*self._address), self._subject)
            return self._answers(questions)

    def hand_over(self, statement: Question) -> None:
        """Send a statement that is no question, and do not wait for it; the next call does.

        Raises:
            UnavailableError: the connection is gone.
        """
        with self._lock:
            self._pipeline.send(*statement)
            self._pipeline.hand_over()

    def _answers(self, questions: Sequence[Question]) -> list[list[Row]]:
        try:
            with translated(self._subject):
                for statement, values in questions:
                    self._pipeline.send(statement, values)
            return self._pipeline.answers()
        except VrmError:
            self._pipeline.abandon()
            raise
