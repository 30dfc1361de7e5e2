"""The relay of one database: sends what programs have left in the outbox table."""

import logging
import math
import secrets
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from qmq.clock import SYSTEM_CLOCK, Clock
from qmq.errors import ContentInvalid, DatabaseFailed
from qmq.outbox.counts import Counts, counts_of
from qmq.outbox.databases import Connection
from qmq.outbox.dialects import BACKOFF_SECONDS_MAX, CLOCK_STEP_SECONDS, INLINE_BYTES_MAX, TABLE, Statements
from qmq.outbox.lease import Lease
from qmq.outbox.rows import CONTENT_BYTES_MAX, LAST_ERROR_CHARS_MAX, Status, entry_of, message_of
from qmq.outbox.sends import Due, Sends, Sent
from qmq.sync import Producer
from qmq.sync.loop import run
from qmq.words import printable

GRACE_SECONDS = 60.0
"""Rows that are younger are still sent by the program that has written them."""
PASS_SECONDS = 60.0
"""How long one pass may take."""
ROWS_AT_ONCE = 2_000
MEMORY_BYTES = 16 << 20
"""Contents in memory at a time, unless one is larger."""
LEFT_ROWS_MAX = 20_000
"""A pass that has read this many rows of unavailable subjects ends, and the next one continues behind them."""

logger = logging.getLogger("qmq.outbox")


@dataclass(slots=True)
class Pass:
    """What one pass has done."""

    is_leader: bool = True
    """Whether it held the lease; otherwise another relay does, and nothing was done."""
    sent: int = 0
    failed: int = 0
    """Rows that are tried again later because of an error of their own."""
    ended: int = 0
    """Rows that wait for an operator from now on."""
    left: int = 0
    """Rows of unavailable subjects."""
    problems: dict[str, str] = field(default_factory=dict)
    """By unavailable subject, why."""


class Relay:
    """Relays the rows of one table, in passes. One thread at a time may call `run_pass`.

    Any number of relays may run for one table, here and elsewhere, in Python and Java: those of Python take turns by a lease.
    A message can be sent twice when a relay is paused or killed, and is never lost.

    Args:
        connect: opens a connection of the relay's own.
        producer: a started producer without middleware.
        label: of the holder of the lease, shown to operators, such as the host's name.
        rows_per_second: limit; None for none.
        age_hours_max: rows that are older and fail are left to an operator. None: they are tried indefinitely.
    """

    def __init__(
        self,
        connect: Callable[[], Connection],
        producer: Producer,
        *,
        table: str = TABLE,
        label: str = "",
        grace_seconds: float = GRACE_SECONDS,
        rows_per_second: float | None = None,
        age_hours_max: float | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._connect = connect
        self._connection: Connection | None = None
        self._table = table
        self._label = label
        self._grace_seconds = grace_seconds
        self._rows_per_second = rows_per_second
        # With a limit, about a second's rows at a time.
        self._rows_at_once = min(ROWS_AT_ONCE, math.ceil(rows_per_second or ROWS_AT_ONCE))
        self._age_ms_max = None if age_hours_max is None else age_hours_max * 3_600_000
        self._clock = clock
        self._sends = Sends(producer.inner, clock)
        self._statements: Statements
        self._lease: Lease | None = None
        self._behind_id = 0
        """The next pass reads from behind this ID."""
        self._stopping = threading.Event()

    def stop(self) -> None:
        """End the pass that runs, after the rows that it is sending, and all later ones. Can be called in any thread."""
        self._stopping.set()

    def run_pass(self, seconds: float = PASS_SECONDS) -> Pass:
        """Send the rows that are due, for at most this long and the time of the last rows.

        Raises:
            DatabaseFailed: the database can't be reached or failed a statement. The next call opens a new connection.
        """
        try:
            return self._run_pass(self._clock.monotonic() + seconds)
        except DatabaseFailed:
            self._disconnect()
            raise

    def count(self) -> Counts:
        """What waits in the table. To be called between two passes, by one thread at a time. Raises DatabaseFailed."""
        try:
            connection = self._connected()
            return counts_of(connection, self._statements)
        except DatabaseFailed:
            self._disconnect()
            raise

    def close(self) -> None:
        """Give the lease back and close the connection."""
        self.stop()
        if self._connection is not None and self._lease is not None:
            try:
                self._lease.release(self._connection)
            except DatabaseFailed as error:
                logger.warning("the lease of the outbox can't be given back, it ends by itself: %s", error)
        self._disconnect()

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
            self._sends.forget()

    def _run_pass(self, ends_at: float) -> Pass:
        done = Pass()
        connection = self._connected()
        assert self._lease is not None
        if not self._lease.take(connection):
            done.is_leader = False
            return done
        far = BACKOFF_SECONDS_MAX + CLOCK_STEP_SECONDS
        while not self._stopping.is_set() and self._clock.monotonic() < ends_at and done.left < LEFT_ROWS_MAX:
            began = self._clock.monotonic()
            rows = connection.rows(
                self._statements.due, [self._behind_id, -self._grace_seconds, far, self._rows_at_once]
            )
            for part in _parts(rows):
                if not self._lease.check(connection):
                    done.is_leader = False
                    return done
                self._relay(connection, part, done)
            if len(rows) < self._rows_at_once:
                self._behind_id = 0
                break
            self._behind_id = rows[-1][0]
            if self._rows_per_second:
                self._stopping.wait(max(0.0, began + len(rows) / self._rows_per_second - self._clock.monotonic()))
        return done

    def _connected(self) -> Connection:
        if self._connection is None:
            connection = self._connect()
            if self._lease is None:
                self._statements = Statements(connection.kind, self._table)
                holder = f"{self._label or 'relay'}#{secrets.token_hex(8)}"
                self._lease = Lease(self._statements, holder, self._clock)
            self._connection = connection
            self._check_tables(connection)
        return self._connection

    def _check_tables(self, connection: Connection) -> None:
        """Raise DatabaseFailed for a column or right that is missing, also one that matters only when a row fails."""
        try:
            for _, _, statement in self._statements.rights:
                connection.change(statement)
        except DatabaseFailed as error:
            if error.code not in ("database.table_missing", "database.table_differs"):
                raise
            ddl = f"qmq outbox ddl {connection.kind} --table {self._table}"
            raise DatabaseFailed(
                f"{error}. The statements that make or change the tables: {ddl}", code=error.code
            ) from error

    def _relay(self, connection: Connection, part: Sequence["_Read"], done: Pass) -> None:
        """Send rows and store what became of them."""
        assert self._lease is not None
        large = [row.id for row in part if row.content is None and row.content_bytes <= CONTENT_BYTES_MAX]
        contents = dict(connection.rows(self._statements.contents(large))) if large else {}
        due: list[Due] = []
        ended: list[tuple[int, Status, str]] = []
        now_ms = self._clock.wall_ms()
        for row in part:
            try:
                due.append(row.due(contents.get(row.id), now_ms))
            except _RowIsGone:
                continue
            except ContentInvalid as error:
                ended.append((row.id, Status.INVALID, str(error)))
        sent: Sent = run(self._sends.send(due)) if due else Sent()
        ended += [(row_id, Status.REFUSED, str(error)) for row_id, error in sent.refused]
        failed = [(row, str(error)) for row, error in sent.failed]
        if self._age_ms_max is not None:
            ended += [
                (row.id, Status.INVALID, f"too old after {row.age_ms / 3_600_000:.1f} hours: {problem}")
                for row, problem in [*failed, *((row, sent.problems.get(row.message.subject, "")) for row in sent.left)]
                if row.age_ms > self._age_ms_max
            ]
            failed = [(row, problem) for row, problem in failed if row.age_ms <= self._age_ms_max]
        # What another relay has taken over meanwhile is its to change; this one may have been paused for hours.
        if not self._lease.check(connection):
            return
        if sent.stored:
            connection.change(self._statements.delete(sent.stored))
        if ended or failed:
            self._store(connection, ended, failed)
        done.sent += len(sent.stored)
        done.ended += len(ended)
        done.failed += len(failed)
        done.left += len(sent.left)
        done.problems |= sent.problems

    def _store(
        self, connection: Connection, ended: Sequence[tuple[int, Status, str]], failed: Sequence[tuple[Due, str]]
    ) -> None:
        with connection.transaction():
            for row_id, status, text in ended:
                logger.warning("outbox %s: message in row %d is not sent: %s", self._table, row_id, printable(text))
                connection.change(self._statements.end, [int(status), text[:LAST_ERROR_CHARS_MAX], row_id])
            for row, text in failed:
                # Due again when it is as old as rows have to be.
                later = backoff_seconds(row.errors) - self._grace_seconds
                connection.change(self._statements.fail, [text[:LAST_ERROR_CHARS_MAX], later, row.id])


def backoff_seconds(errors: int) -> float:
    """How long a row rests after it has failed this many times before: from 1 s, doubled each time, to BACKOFF_SECONDS_MAX."""
    return min(BACKOFF_SECONDS_MAX, 2.0 ** min(errors, 30))


class _RowIsGone(Exception):
    """A large row was deleted since its ID was read."""


@dataclass(frozen=True, slots=True)
class _Read:
    """A row as `Statements.due` returns it."""

    id: int
    content_bytes: int
    content: str | None
    errors: int
    age_ms: int

    def due(self, large_content: str | None, now_ms: int) -> Due:
        """Raises ContentInvalid, or _RowIsGone if its content was to be read apart and is not there."""
        content = self.content if self.content is not None else large_content
        if content is None:
            if self.content_bytes > CONTENT_BYTES_MAX:
                raise ContentInvalid(f"the content has {self.content_bytes} bytes, the limit is {CONTENT_BYTES_MAX}")
            raise _RowIsGone
        message = message_of(content, now_ms)
        return Due(self.id, message, entry_of(message), self.errors, self.age_ms)


def _parts(rows: Sequence[Sequence[object]]) -> Iterator[list[_Read]]:
    """Rows in their order, in parts whose contents fit MEMORY_BYTES."""
    part: list[_Read] = []
    size = 0
    for values in rows:
        row = _Read(*values)  # type: ignore[arg-type]  # the columns of the statement
        content_bytes = row.content_bytes if row.content_bytes <= CONTENT_BYTES_MAX else 0
        if part and size + content_bytes > MEMORY_BYTES:
            yield part
            part, size = [], 0
        part.append(row)
        size += content_bytes
    if part:
        yield part


assert ROWS_AT_ONCE * INLINE_BYTES_MAX <= MEMORY_BYTES, "rows with their contents have to fit"
