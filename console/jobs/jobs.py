"""All background jobs: who may run one now, how long, and how it went.

One worker runs a job at a time, however many workers and Celery beats there are: it holds the job's row in the database. A worker
that died is replaced when its hold ends; what it had begun is in the database, because every step a job takes is a service call of
its own, with compare-and-set where two could decide the same.
"""

import logging
import os
import socket
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import Error as DatabaseError
from django.db.models import F, Q
from django.utils import timezone
from kombu.exceptions import OperationalError

from console.jobs import alerts, analytics, cleanups, heartbeats, outbox, rebalance, summaries
from console.jobs.job import TEXT_CHARS_MAX, Context, Job, JobFailed
from console.jobs.queue import app
from console.jobs.results import Part, Result
from console.models import BackgroundJob
from metaserver.errors import Conflict, NotFound
from metaserver.services import audit
from metaserver.services.changes import Actor, Change, changing

logger = logging.getLogger("qmq.jobs")

JOBS: dict[str, Job] = {
    job.name: job
    for job in (
        alerts.ALERTS, alerts.NOTIFICATIONS, analytics.ANALYTICS, cleanups.CLEANUPS, heartbeats.HEARTBEATS, outbox.OUTBOX,
        rebalance.MOVES, rebalance.REBALANCE, summaries.SUMMARIES,
    )
    if job.every_seconds
}  # fmt: skip
"""By name; one that should never run by itself (`every_seconds` is 0) is not known."""

TASK = "console.run_job"
EARLY = 2 / 3
"""A job is not started again before this part of its interval has passed, so that two Celery beats don't double its rate. Must
be above a half, because two beats can be half an interval apart.
"""
DETAILS_CHARS_MAX = 20_000
LATE_INTERVALS = 3
"""A job that has not succeeded for this many intervals (and at least LATE_SECONDS) counts as late."""
LATE_SECONDS = 20.0
KEPT_PARTS = 4
"""A hold is extended this many times before it would end."""
_STARTED_AT = timezone.now()
"""When this process began to look: a job that never ran is late once it had time to."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Whether the job ran, and a sentence."""

    ran: bool
    text: str


def claim(job: Job, holder: str, now: datetime) -> BackgroundJob | None:
    """Take hold of a job; None if another worker holds it, it is not due yet, or it is disabled."""
    BackgroundJob.objects.get_or_create(name=job.name)
    limit = timedelta(seconds=job.limit_seconds)
    # A hold that ends later than any hold can was taken by a clock that ran ahead.
    free = Q(held_until__isnull=True) | Q(held_until__lt=now) | Q(held_until__gt=now + 2 * limit)
    early = now - timedelta(seconds=job.every_seconds * EARLY)
    due = Q(started_at__isnull=True) | Q(started_at__lt=early) | Q(started_at__gt=now + limit)
    taken = BackgroundJob.objects.filter(free, due, name=job.name, is_enabled=True).update(
        holder=holder, held_until=now + job.hold, started_at=now, runs=F("runs") + 1
    )
    return BackgroundJob.objects.get(name=job.name) if taken else None


def run(name: str, *, holder: str | None = None) -> Outcome:
    """Run a job once if it is due and free. A failure is stored with the job, logged, and never raised."""
    job = JOBS[name]
    holder = holder or f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"
    try:
        row = claim(job, holder, timezone.now())
    except DatabaseError as error:
        logger.warning("job %s: the database does not answer: %s", name, error)
        return Outcome(False, "the database is not responding")
    if row is None:
        return Outcome(False, "run by another worker")
    deadline = time.monotonic() + job.limit_seconds
    context = Context(Actor(f"job {name}"), deadline, dict(row.state), job_intervals(), _extender(job, row))
    done = Result("")
    problem, details, why = "", "", tuple[Part, ...]()
    try:
        done = job.run(context)
    except JobFailed as failure:
        problem, details, why = str(failure), failure.details, failure.parts
        logger.error("job %s failed: %s\n%s", name, problem, details)
    except Exception as failure:
        logger.exception("job %s failed", name)
        problem = f"{type(failure).__name__}: {failure}"
    now = timezone.now()
    changed: dict[str, Any] = {"finished_at": now, "held_until": None, "error": problem[:TEXT_CHARS_MAX]}
    changed |= {"error_parts": [part.as_json() for part in why], "error_details": details[-DETAILS_CHARS_MAX:]}
    if problem:
        changed["failures"] = F("failures") + 1
    else:
        changed |= {"succeeded_at": now, "state": context.state}
        changed |= {"result": done.text[:TEXT_CHARS_MAX], "result_parts": list(done.parts)}
    try:
        # The result of a run that lost its hold (it took too long) is not stored.
        BackgroundJob.objects.filter(name=name, holder=holder, started_at=row.started_at).update(**changed)
    except DatabaseError as failure:
        logger.warning("job %s ran, but the database does not take its result: %s", name, failure)
    return Outcome(True, problem or done.text)


@app.task(name=TASK)
def run_job(name: str) -> str:
    """Celery's task: run a job unless another worker does, and return the result."""
    return run(name).text


def _extender(job: Job, row: BackgroundJob) -> Callable[[], None]:
    """Return the function that extends a run's hold; a hold that was lost stays lost."""
    every_seconds = job.hold.total_seconds() / KEPT_PARTS
    kept_at = time.monotonic()

    def keep() -> None:
        nonlocal kept_at
        if time.monotonic() - kept_at < every_seconds:
            return
        kept_at = time.monotonic()
        mine = BackgroundJob.objects.filter(name=job.name, holder=row.holder, started_at=row.started_at)
        try:
            mine.update(held_until=timezone.now() + job.hold)
        except DatabaseError as error:
            logger.warning("job %s: the database does not answer, its hold ends soon: %s", job.name, error)

    return keep


def set_enabled(name: str, enabled: bool, *, actor: Actor, reason: str = "", dry_run: bool = False) -> Change:
    """Switch a job off or on.

    Raises:
        NotFound: there is no such job.
    """
    with changing(dry_run=dry_run):
        change = Change(name, {"is_enabled": _locked(name).is_enabled}, {"is_enabled": enabled})
        BackgroundJob.objects.filter(name=name).update(is_enabled=enabled)
        return audit.record_change(actor, "job.enable" if enabled else "job.disable", change, reason)


def run_now(name: str, *, actor: Actor, reason: str = "", dry_run: bool = False) -> Change:
    """Make a job due at once and ask a worker to run it.

    The worker is asked by a task in Redis. If that fails the job runs at its next scheduled time.

    Raises:
        NotFound: there is no such job.
        Conflict: it is running, or disabled.
    """
    with changing(dry_run=dry_run):
        row = _locked(name)
        if not row.is_enabled:
            raise Conflict(f"Background job {name} is disabled. Enable it first.", code="job.disabled")
        if row.held_until is not None and row.held_until > timezone.now():
            raise Conflict(f"Background job {name} is already running.", code="job.running")
        BackgroundJob.objects.filter(name=name).update(started_at=None)
        change = audit.record_change(actor, "job.run", Change(name, {"is_due": False}, {"is_due": True}), reason)
    if not dry_run:
        _ask_worker(JOBS[name])
    return change


def _locked(name: str) -> BackgroundJob:
    """A job's row, locked until the transaction ends. Raises NotFound."""
    if name not in JOBS:
        raise NotFound(f"Background job {name!r} not found.", code="job.unknown")
    BackgroundJob.objects.get_or_create(name=name)
    return BackgroundJob.objects.select_for_update().get(name=name)


def _ask_worker(job: Job) -> None:
    try:
        app.send_task(TASK, [job.name], **task_options(job))
    except OperationalError as error:
        logger.warning("job %s: no worker could be asked to run it now: %s", job.name, error)


@dataclass(frozen=True, slots=True)
class JobState:
    """State of a job, for lists and alerts."""

    job: Job
    row: BackgroundJob
    """Not stored yet, of one that never ran."""
    is_running: bool
    is_late: bool
    next_run_at: datetime | None


def states(now: datetime | None = None) -> list[JobState]:
    """Every job with its last run; one that never succeeded counts as late once it had time to."""
    now = now or timezone.now()
    rows = {row.name: row for row in BackgroundJob.objects.all()}
    found = []
    for job in sorted(JOBS.values(), key=lambda item: item.name):
        row = rows.get(job.name) or BackgroundJob(name=job.name)
        allowed = timedelta(seconds=max(LATE_SECONDS, job.success_seconds * LATE_INTERVALS))
        is_late = row.is_enabled and now - (row.succeeded_at or _STARTED_AT) > allowed
        is_running = row.held_until is not None and row.held_until > now
        next_run = row.started_at + timedelta(seconds=job.every_seconds) if row.started_at and row.is_enabled else None
        found.append(JobState(job, row, is_running, is_late, next_run))
    return found


def job_intervals() -> dict[str, float]:
    """How often each job should run, for alert rules that count missed runs: quick jobs are given LATE_SECONDS too."""
    return {job.name: max(job.success_seconds, LATE_SECONDS / LATE_INTERVALS) for job in JOBS.values()}


def schedule() -> dict[str, dict[str, Any]]:
    """Celery beat's schedule. A task that no worker took in time expires; the next one follows.

    Expired tasks stay in Redis until a worker of the queue discards them: one for each interval, about 1 KB each. The job is late
    meanwhile; a worker that starts runs only the latest.
    """
    return {
        job.name: {
            "task": TASK,
            "schedule": job.every_seconds,
            "args": [job.name],
            "options": task_options(job),
        }
        for job in JOBS.values()
    }


def task_options(job: Job) -> dict[str, Any]:
    """Return the options of Celery tasks that run a job."""
    return {
        "queue": job.queue,
        "expires": max(job.every_seconds, 2.0),
        "soft_time_limit": job.limit_seconds,
        "time_limit": job.limit_seconds + 5,
    }
