"""Outboxes: relays what programs have left in the registered databases, counts what waits there, and deletes old markers.

A run lasts RUN_SECONDS, so that connections and leases are kept from pass to pass; its tasks have a queue of their own. What a
database does wrong is a result, and no failure of the job.
"""

import logging
import os
import socket
import threading
import time
from collections.abc import Callable
from datetime import timedelta

from django.conf import settings
from django.db import Error as ControlDatabaseError
from django.utils import timezone

from console.jobs.job import Context, Job
from console.jobs.results import Part, Result, counting, result
from console.outbox.access import address_of, connect_checked
from console.outbox.markers import Cleaned, clean_markers, retention_min
from console.outbox.models import OutboxDatabase
from console.outbox.passes import Passed, Passes, Relaying
from console.outbox.services.measuring import note_pass
from console.sealing import SealBroken
from qmq.clock import SYSTEM_CLOCK
from qmq.errors import DatabaseFailed
from qmq.outbox.databases import Connection
from qmq.outbox.relay import Relay
from qmq.sync import Producer
from qmq.words import counted

RUN_SECONDS = 60.0
"""After this long a run ends its passes, and the next run begins."""
LIMIT_SECONDS = 120.0
"""How long a run may take with the rows that are being sent at its end."""
HOLD_SECONDS = 15.0
"""A worker that was killed is replaced after this time."""
TICK_SECONDS = 1.0
"""How often the registered databases are read: one that is disabled or deleted is relayed for this much longer at most."""
APP = "qmq-outbox"

logger = logging.getLogger("qmq.outbox")
_stopping = threading.Event()


def stop() -> None:
    """End the run of this process after the rows that are being sent, and all later ones. For signal handlers."""
    _stopping.set()


def relay(context: Context) -> Result:
    """Relay the enabled databases until the run is over, or the worker is stopped."""
    if not OutboxDatabase.objects.filter(is_enabled=True).exists():
        return result(Part("outbox.none", "no databases"))
    with Producer(settings.META_URL, app=APP) as producer:
        return _Run(context, producer, retention_min()).run()


class _Run:
    """One run, and what it has done so far."""

    def __init__(self, context: Context, producer: Producer, markers_kept: timedelta) -> None:
        self._context = context
        self._producer = producer
        self._markers_kept = markers_kept
        self._ends_at = time.monotonic() + min(RUN_SECONDS, context.seconds_left)
        self._sent = self._ended = self._markers = 0
        self._failing: set[int] = set()

    def run(self) -> Result:
        passes = Passes(self._make_relay, self._clean, clock=SYSTEM_CLOCK)
        databases, read_at = 0, float("-inf")
        try:
            while not _stopping.is_set() and (now := time.monotonic()) < self._ends_at:
                if now - read_at >= TICK_SECONDS:
                    read_at = now
                    self._update(passes)
                    self._context.extend_hold()
                for passed in passes.step():
                    self._note(passed)
                if not (databases := max(databases, passes.count)):
                    break
                passes.wait(TICK_SECONDS)
        finally:
            for passed in passes.close():
                self._note(passed)
        failing = len(self._failing)
        return result(
            counting("outbox.databases", databases, counted(databases, "database")),
            counting("outbox.sent", self._sent, f"{counted(self._sent, 'message')} sent"),
            counting("outbox.ended", self._ended, f"{self._ended} for an operator") if self._ended else None,
            counting("outbox.failing", failing, f"{counted(failing, 'database')} failing") if failing else None,
            counting("outbox.markers", self._markers, f"{counted(self._markers, 'marker')} deleted")
            if self._markers
            else None,
        )

    def _update(self, passes: Passes) -> None:
        try:
            passes.update(OutboxDatabase.objects.filter(is_enabled=True))
        except ControlDatabaseError as error:
            # Business databases need none of it: those that are known are relayed on.
            logger.warning("the registered databases can't be read: %s", error)

    def _note(self, passed: Passed) -> None:
        self._sent += passed.done.sent
        self._ended += passed.done.ended
        if passed.cleaned is not None:
            self._markers += passed.cleaned.deleted
            if passed.cleaned.failure is not None:
                logger.warning("outbox database %s: %s", passed.row.name, passed.cleaned.failure)
        if passed.failure is None:
            self._failing.discard(passed.row.pk)
        else:
            self._failing.add(passed.row.pk)
        try:
            note_pass(passed, timezone.now())
        except ControlDatabaseError as error:
            logger.warning("the numbers of outbox database %s can't be stored: %s", passed.row.name, error)

    def _clean(self, row: OutboxDatabase, is_time_over: Callable[[], bool]) -> Cleaned:
        return clean_markers(row, lambda: _connect(row), self._markers_kept, is_time_over)

    def _make_relay(self, row: OutboxDatabase) -> Relaying:
        return Relay(
            lambda: _connect(row), self._producer, table=row.table, label=f"console {socket.gethostname()}:{os.getpid()}",
            rows_per_second=row.rows_per_second_max, age_hours_max=row.age_hours_max,
        )  # fmt: skip


def _connect(row: OutboxDatabase) -> Connection:
    try:
        return connect_checked(address_of(row))
    except SealBroken as error:
        raise DatabaseFailed(str(error), code=error.code) from error


OUTBOX = Job(
    "outbox",
    5.0,
    LIMIT_SECONDS,
    "relays the outboxes of registered databases",
    relay,
    queue=settings.OUTBOX_QUEUE,
    hold_seconds=HOLD_SECONDS,
    lasts_seconds=RUN_SECONDS,
)
