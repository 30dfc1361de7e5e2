"""Outbox tables for tests, rows in them, and a producer whose brokers do what a test says."""

import json
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import psycopg
import pymysql

from qmq.client.message import standard_properties
from qmq.client.middleware import Middleware, OutgoingMessage
from qmq.client.outgoing import Encoded
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
        messages: Sequence[Encoded],
        *,
        is_delayed: bool,
        seconds: float,
    ) -> None:
        ids = [message_id for message_id, _, _ in messages]
        self.requests.append((subject, ids))

        def respond() -> None:
            for (_, _, callback), outcome in zip(messages, self._outcomes(subject, ids), strict=True):
                callback(outcome)

        if subject in self.held:
            self.waiting.append(respond)
        else:
            respond()

    def _outcomes(self, subject: str, ids: list[str]) -> list[Any]:
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


@dataclass
class Orders(Table):
    """The outbox of a database, with a table of the application beside it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.connection.change("CREATE TABLE orders (name varchar(50) PRIMARY KEY)")

    @property
    def names(self) -> list[str]:
        """Of the committed orders."""
        return [row[0] for row in self.connection.rows("SELECT name FROM orders ORDER BY name")]

    @property
    def bodies(self) -> list[str]:
        """Of the messages in committed rows, in the order of their IDs."""
        found = self.connection.rows(f"SELECT content FROM {TABLE} ORDER BY id")
        return [json.loads(row[0])["attrs"]["data"] for row in found]

    def engine_url(self, *, is_async: bool = False) -> str:
        """For SQLAlchemy."""
        if self.address.kind is Kind.SQLITE:
            return f"sqlite{'+aiosqlite' if is_async else ''}:///{self.address.database}"
        mysql = "mysql+aiomysql" if is_async else "mysql+pymysql"
        driver = "postgresql+psycopg" if self.address.kind is Kind.POSTGRESQL else mysql
        return f"{driver}://{self.address.user}@{self.address.host}:{self.address.port}/{self.address.database}"

    def open(self, **options: Any) -> Any:
        """A connection of the driver, as an application opens it."""
        at = self.address
        if at.kind is Kind.SQLITE:
            return sqlite3.connect(at.database, **options)
        if at.kind is Kind.POSTGRESQL:
            return psycopg.connect(host=at.host, port=at.port, user=at.user, dbname=at.database, **options)
        return pymysql.connect(host=at.host, port=at.port, user=at.user, database=at.database, **options)


class Outcomes(Middleware):
    """Records what middleware sees of messages."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        """Message IDs, one for each `before_send`."""
        self.ended: list[tuple[str, str]] = []
        """Message IDs and outcomes: "stored" or the error's code."""

    def before_send(self, message: OutgoingMessage) -> None:
        self.begun.append(message.message_id)

    def after_send(self, message: OutgoingMessage, outcome: Receipt | SendFailed) -> None:
        self.ended.append((message.message_id, "stored" if isinstance(outcome, Receipt) else outcome.code))

    @property
    def counts(self) -> dict[str, int]:
        """The number of messages by outcome. Each message must have one at most."""
        assert len({message_id for message_id, _ in self.ended}) == len(self.ended)
        assert {message_id for message_id, _ in self.ended} <= set(self.begun)
        return dict(Counter(outcome for _, outcome in self.ended))
