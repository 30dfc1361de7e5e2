"""A program with a DB-API driver."""

import sqlite3
from typing import Any

import psycopg
import pymysql

from qmq.outbox.databases import Address, Kind
from qmq.outbox.dbapi import Outbox
from qmq.sync import Producer
from tests.faults.outbox.points import BODIES, FLUSH_SECONDS, ORDERS, SUBJECT

_state: tuple[Address, str]


def prepare(kind: Kind, database: Address, meta: str) -> None:
    """Keep the addresses."""
    global _state
    _state = database, meta


def run(key: str) -> None:
    """One transaction."""
    _, meta = _state
    connection = _connect()
    with Producer(meta) as producer, Outbox(_connect, producer) as outbox:
        with outbox.transaction(connection) as transaction:
            cursor = connection.cursor()
            cursor.execute(f"INSERT INTO {ORDERS} VALUES ('{key}')")
            for body in BODIES:
                transaction.send(SUBJECT, f"{key} {body}")
        assert outbox.flush(FLUSH_SECONDS)
    connection.close()


def _connect() -> Any:
    at, _ = _state
    if at.kind is Kind.SQLITE:
        return sqlite3.connect(at.database)
    if at.kind is Kind.POSTGRESQL:
        return psycopg.connect(host=at.host, port=at.port, user=at.user, dbname=at.database)
    return pymysql.connect(host=at.host, port=at.port, user=at.user, database=at.database, ssl_disabled=True)
