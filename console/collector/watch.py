"""Watches the background jobs from outside, because without workers the job that evaluates alerts does not run either.

While any job is late the collector evaluates alerts and delivers what is due itself. That both may do it at once is
nothing new for either: any number of processes may.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any

from channels.db import database_sync_to_async
from django.db import Error as DatabaseError
from django.utils import timezone

from console.alerts.services import deliver, evaluate
from console.jobs.jobs import job_intervals
from console.snapshot.state import Entry, State

logger = logging.getLogger("qmq.live")

LOOK_SECONDS = 5.0
"""A job is overdue after 20 s; with one check and the delivery, a notification arrives within 30."""
DELIVERIES_MAX = 20
"""Notifications sent in one look."""


def stand_in(state: State | None) -> None:
    """Evaluate alerts once and deliver notifications that are due. None: there are no recent measurements."""
    now = timezone.now()
    intervals = job_intervals()
    found = evaluate(state, now, job_intervals=intervals)
    sent = deliver(now, DELIVERIES_MAX)
    if found.fired or sent.delivered:
        logger.warning("jobs are late: the collector fired %d alerts, told %d", found.fired, sent.delivered)


async def watch(
    jobs: Callable[[], Mapping[str, Entry]],
    state: Callable[[], State | None],
    is_acting: Callable[[], bool],
    *,
    sleep: Callable[[float], Any] = asyncio.sleep,
) -> None:
    """Look every LOOK_SECONDS until cancelled; a database that fails is queried again.

    Args:
        jobs: the background jobs as they were read last.
        state: the newest numbers.
        is_acting: whether it is this collector's turn.
    """
    is_standing_in = False
    while True:
        await sleep(LOOK_SECONDS)
        late = sorted(name for name, job in jobs().items() if job["is_late"])
        if bool(late) != is_standing_in:
            is_standing_in = bool(late)
            logger.warning("background jobs are late: %s", ", ".join(late) if late else "none any more")
        if not late or not is_acting():
            continue
        try:
            await database_sync_to_async(stand_in, thread_sensitive=False)(state())
        except DatabaseError as error:
            logger.warning("alerts can't be evaluated: %s", error)
