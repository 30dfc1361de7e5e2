"""Passes of relays over registered databases, in a bounded number of threads.

A database that hangs occupies its own thread only, until a statement's time is over, and is then tried less and less often.
Databases that failed share a part of the threads, so that the others always find one.
"""

import logging
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Protocol

from console.outbox import markers
from console.outbox.markers import Cleaned
from console.outbox.models import OutboxDatabase
from qmq.clock import Clock
from qmq.errors import DatabaseFailed
from qmq.outbox.counts import Counts
from qmq.outbox.relay import Pass
from qmq.outbox.relaying import BACKOFF, EVERY_SECONDS

THREADS_MAX = 8
"""Databases with a pass at a time."""
FAILING_MAX = 4
"""Of these, databases whose last pass failed."""
PASS_SECONDS = 10.0
"""After this long a database with more rows lets those go first that have waited longer."""
COUNT_SECONDS = 15.0
"""How often rows are counted."""
COUNT_SHARE = 20.0
"""Counting takes at most this part of the time: a count of 2 s is repeated after 40 s."""

logger = logging.getLogger("qmq.outbox")


class Relaying(Protocol):
    """As `qmq.outbox.relay.Relay`."""

    def run_pass(self, seconds: float) -> Pass: ...

    def count(self) -> Counts: ...

    def stop(self) -> None: ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Passed:
    """What a pass over a database came to."""

    row: OutboxDatabase
    """As it was when its relay was made."""
    done: Pass
    counts: Counts | None = None
    """None: rows were not counted this time."""
    rows_per_second: float | None = None
    """Sent since the last count; None: unknown, or this relay does not lead."""
    failure: DatabaseFailed | None = None
    is_recovered: bool = False
    """The pass before it failed."""
    cleaned: Cleaned | None = None
    """None: no cleanup of markers was due."""


Clean = Callable[[OutboxDatabase, Callable[[], bool]], Cleaned]
"""Deletes old markers of a database, until its second argument returns True."""


class _Seat:
    """One database with its relay."""

    def __init__(self, row: OutboxDatabase, relay: Relaying, clock: Clock) -> None:
        now = clock.monotonic()
        self.row = row
        self.relay = relay
        self.due_at = now
        self.failures = 1 if row.error_code else 0
        """In a row."""
        self.future: Future[Passed] | None = None
        self._is_stopped = False
        self._count_at = now
        self._counted_at = now
        self._sent = 0
        self._clean_at = now + markers.due_in(row, clock.wall_ms())

    def run(self, clean: Clean, clock: Clock) -> Passed:
        """One pass and, if one is due, a cleanup, in a thread of the pool."""
        passed = self._relay(clock)
        began = clock.monotonic()
        if passed.failure is not None or self._is_stopped or not self.row.marker_table or began < self._clean_at:
            return passed
        ends_at = began + markers.CLEANUP_SECONDS
        cleaned = clean(self.row, lambda: self._is_stopped or clock.monotonic() >= ends_at)
        if cleaned.is_over:
            pause = markers.EVERY_SECONDS if cleaned.failure is None else markers.RETRY_SECONDS
            self._clean_at = clock.monotonic() + pause
        return replace(passed, cleaned=cleaned)

    def stop(self) -> None:
        """End the pass that runs, after the rows that it is sending or the markers that it is deleting."""
        self._is_stopped = True
        self.relay.stop()

    def _relay(self, clock: Clock) -> Passed:
        done = Pass(is_leader=False)
        try:
            done = self.relay.run_pass(PASS_SECONDS)
            self._sent += done.sent
            began = clock.monotonic()
            if began < self._count_at:
                return Passed(self.row, done)
            counts = self.relay.count()
        except DatabaseFailed as error:
            return Passed(self.row, done, failure=error)
        ended = clock.monotonic()
        since, sent, self._sent = ended - self._counted_at, self._sent, 0
        self._counted_at, self._count_at = ended, began + max(COUNT_SECONDS, COUNT_SHARE * (ended - began))
        rate = sent / since if done.is_leader and since > 0 else None
        return Passed(self.row, done, counts, rate)


class Passes:
    """Runs passes of the databases of `update`. All methods are for one thread.

    Args:
        make_relay: makes the relay of a database; it opens no connection yet.
        clean: called after a pass of a database with a table of markers, in the pass's thread.
    """

    def __init__(self, make_relay: Callable[[OutboxDatabase], Relaying], clean: Clean, *, clock: Clock) -> None:
        self._make_relay = make_relay
        self._clean = clean
        self._clock = clock
        self._seats: dict[int, _Seat] = {}
        self._leaving: list[_Seat] = []
        self._pool = ThreadPoolExecutor(THREADS_MAX, thread_name_prefix="qmq-outbox")
        self._ended = threading.Event()

    def update(self, rows: Iterable[OutboxDatabase]) -> None:
        """Relay these databases and no other. One that was changed gets a new relay after the pass that runs."""
        wanted = {row.pk: row for row in rows}
        for key, seat in list(self._seats.items()):
            row = wanted.get(key)
            if row is None or row.version != seat.row.version:
                self._leave(key)
        busy = {seat.row.pk for seat in self._leaving}
        for key, row in wanted.items():
            if key not in self._seats and key not in busy:
                self._seats[key] = _Seat(row, self._make_relay(row), self._clock)

    def step(self) -> list[Passed]:
        """Start the passes that are due, as far as there are threads; the passes that have ended since the last call."""
        self._ended.clear()
        ended = [passed for seat in self._seats.values() if (passed := self._collect(seat)) is not None]
        for seat in list(self._leaving):
            if seat.future is None or seat.future.done():
                self._leaving.remove(seat)
                self._pool.submit(seat.relay.close)
        running = [seat for seat in (*self._seats.values(), *self._leaving) if seat.future is not None]
        free, failing = THREADS_MAX - len(running), sum(seat.failures > 0 for seat in running)
        now = self._clock.monotonic()
        for seat in sorted(self._seats.values(), key=lambda seat: seat.due_at):
            if free <= 0 or seat.due_at > now:
                break
            if seat.future is not None or (seat.failures and failing >= FAILING_MAX):
                continue
            seat.due_at = now + EVERY_SECONDS
            seat.future = self._pool.submit(seat.run, self._clean, self._clock)
            seat.future.add_done_callback(lambda _: self._ended.set())
            free, failing = free - 1, failing + (seat.failures > 0)
        return ended

    def wait(self, seconds: float) -> None:
        """Wait until a pass ends or is due, at most so long."""
        now = self._clock.monotonic()
        due = [seat.due_at - now for seat in self._seats.values() if seat.future is None]
        self._ended.wait(max(0.0, min([seconds, *(left for left in due if left > 0)])))

    def close(self) -> list[Passed]:
        """End all passes after the rows that they are sending, and give all leases back. Can be repeated.

        Returns:
            the passes that have ended.
        """
        for seat in self._seats.values():
            seat.stop()
        running = [seat.future for seat in (*self._seats.values(), *self._leaving) if seat.future is not None]
        for future in running:
            future.exception()  # waits
        ended = [passed for seat in self._seats.values() if (passed := self._collect(seat)) is not None]
        for seat in (*self._seats.values(), *self._leaving):
            self._pool.submit(seat.relay.close)
        self._seats.clear()
        self._leaving.clear()
        self._pool.shutdown()
        return ended

    @property
    def count(self) -> int:
        """Databases that are relayed."""
        return len(self._seats)

    def _leave(self, key: int) -> None:
        seat = self._seats.pop(key)
        seat.stop()
        self._leaving.append(seat)

    def _collect(self, seat: _Seat) -> Passed | None:
        if seat.future is None or not seat.future.done():
            return None
        future, seat.future = seat.future, None
        now = self._clock.monotonic()
        try:
            passed = future.result()
        except Exception as error:
            logger.exception("outbox database %s: the pass failed", seat.row.name)
            text = f"the relay failed: {type(error).__name__}: {error}"
            passed = Passed(seat.row, Pass(is_leader=False), failure=DatabaseFailed(text, code="outbox.relay_failed"))
        if passed.failure is not None:
            seat.failures += 1
            seat.due_at = now + BACKOFF.pause(seat.failures)
        else:
            passed = replace(passed, is_recovered=seat.failures > 0)
            seat.failures = 0
        return passed
