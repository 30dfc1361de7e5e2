"""Outbox tables for tests, rows in them, and a producer whose brokers do what a test says."""

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from qmq.client.message import standard_properties
from qmq.client.middleware import OutgoingMessage
from qmq.errors import QmqError, SendFailed
from qmq.outbox.databases import Address, Connection, Kind, connect
from qmq.outbox.dialects import TABLE, Statements, ddl_statements
from qmq.outbox.rows import content_of
from qmq.receipt import Receipt


@dataclass
class Table:
    """The outbox of a database."""

    address: Address
    table: str = TABLE
    connection: Connection = field(init=False)
    statements: Statements = field(init=False)

    def __post_init__(self) -> None:
        if self.address.kind is Kind.SQLITE:
            sqlite3.connect(self.address.database).close()
        self.connection = connect(self.address)
        self.statements = Statements(self.address.kind, self.table)
        for statement in ddl_statements(self.address.kind, self.table):
            self.connection.change(statement)

    @property
    def name(self) -> str:
        return self.statements.table.quoted(self.address.kind)

    def add(self, *contents: str, age_seconds: float = 120.0, status: int = 0) -> list[int]:
        """Rows that were written some time ago; their IDs."""
        ids = []
        for content in contents:
            self.connection.change(self.statements.insert(1), [content])
            [[row_id]] = self.connection.rows(f"SELECT max(id) FROM {self.table}")
            ids.append(int(row_id))
            self.set(ids[-1], age_seconds=age_seconds, status=status)
        return ids

    def set(self, row_id: int, *, age_seconds: float, status: int = 0) -> None:
        """Change a row as if it had been changed some time ago."""
        later = {
            Kind.SQLITE: "strftime('%Y-%m-%d %H:%M:%f', 'now', ? || ' seconds')",
            Kind.POSTGRESQL: "clock_timestamp() + ? * interval '1 second'",
            Kind.MYSQL: "current_timestamp(6) + interval ? second",
        }[self.address.kind]
        self.connection.change(
            f"UPDATE {self.table} SET update_time = {later}, status = ? WHERE id = ?", [-age_seconds, status, row_id]
        )

    def rows(self) -> dict[int, tuple[int, int, str | None]]:
        """By ID: status, errors, the last error."""
        found = self.connection.rows(f"SELECT id, status, error, last_error FROM {self.table} ORDER BY id")
        return {int(row[0]): (int(row[1]), int(row[2]), row[3]) for row in found}


def content(subject: str, message_id: str, body: str = "x", **properties: str) -> str:
    """The content of a row that a program of ours has written."""
    message = OutgoingMessage(subject, message_id, {**standard_properties("tests", 1), "data": body, **properties})
    return content_of(message)


Answer = Callable[[str, list[str]], QmqError | dict[str, QmqError] | None]
"""A subject and message IDs to: None, all are stored; an error, none is; or the errors of some."""


class ScriptedProducer:
    """In place of a `qmq.sync.Producer`. `answer` says what becomes of each request."""

    def __init__(self, answer: Answer = lambda subject, ids: None) -> None:
        self.answer = answer
        self.requests: list[tuple[str, list[str]]] = []
        self.stored: list[str] = []
        self.waiting: list[Callable[[], None]] = []
        """Requests that `hold` keeps without an answer."""
        self.held: set[str] = set()
        """Subjects whose requests are kept."""

    @property
    def inner(self) -> "ScriptedProducer":
        return self

    def send_together(
        self,
        subject: str,
        messages: Sequence[tuple[str, bytes]],
        *,
        is_delayed: bool,
        seconds: float,
        callback: Callable[[Sequence[Receipt | QmqError]], Any],
    ) -> None:
        ids = [message_id for message_id, _ in messages]
        self.requests.append((subject, ids))

        def respond() -> None:
            callback(self._outcomes(subject, ids))

        if subject in self.held:
            self.waiting.append(respond)
        else:
            respond()

    def _outcomes(self, subject: str, ids: list[str]) -> list[Receipt | QmqError]:
        answer = self.answer(subject, ids)
        if isinstance(answer, QmqError):
            return [answer] * len(ids)
        errors = answer or {}
        self.stored += [each for each in ids if each not in errors]
        return [errors.get(each) or Receipt(each, subject, "group", 1) for each in ids]


def unavailable() -> SendFailed:
    """No broker answers."""
    return SendFailed("no broker answers", retriable=True)


def refused(code: str = "client.message_refused") -> SendFailed:
    """A broker will never accept the message."""
    return SendFailed("refused", code=code)


def ids_of(requests: Iterable[tuple[str, list[str]]]) -> list[list[str]]:
    """The message IDs of each request."""
    return [ids for _, ids in requests]
