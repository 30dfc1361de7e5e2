"""class Supervisor: runs the periodic jobs and the tasks of one process, and makes each failure visible.

Nothing that runs beside the requests of a process is started without it. A periodic job that raises is counted, logged
and run again. A critical task that ends reports to `on_failure`, which ends the process. A one-shot task that raises is
counted and logged. `status()` and `failing()` feed `/healthz`, `/readyz` and the metrics.
"""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeVar

from qmq.clock import Clock
from qmq.errors import CriticalTaskFailed

T = TypeVar("T")

LOG_INTERVAL_SECONDS = 60.0
"""A job that fails again and again is logged at most this often."""
REPORTED_SECONDS = 60.0
"""How long the failure of a one-shot task is reported as failing. A periodic job is reported until it succeeds."""


class JobKind(StrEnum):
    """How a job is run, and what its failure means."""

    PERIODIC = "periodic"
    """Runs again after each period, whether it failed or not."""
    CRITICAL = "critical"
    """Runs as long as the process; the process ends when it ends."""
    ONE_SHOT = "one_shot"
    """Runs when something needs it; a failure ends this run only."""


@dataclass(frozen=True, slots=True)
class JobStatus:
    """One job at one moment. Seconds are monotonic; an age of None means never."""

    name: str
    kind: JobKind
    period_seconds: float | None
    is_vital: bool
    runs: int
    running: int
    failures: int
    consecutive_failures: int
    last_error: str
    """The newest failure's class and message; "" while there was none."""
    last_failure_age_seconds: float | None
    last_success_age_seconds: float | None

    @property
    def is_failing(self) -> bool:
        """True after a failure until the next success; a one-shot's failure also expires after REPORTED_SECONDS."""
        if not self.consecutive_failures:
            return False
        if self.kind is not JobKind.ONE_SHOT:
            return True
        return self.last_failure_age_seconds is not None and self.last_failure_age_seconds < REPORTED_SECONDS


@dataclass(eq=False, slots=True)
class _Job:
    name: str
    kind: JobKind
    period: float | None = None
    is_vital: bool = False
    runs: int = 0
    running: int = 0
    failures: int = 0
    consecutive_failures: int = 0
    last_error: str = ""
    failed_at: float | None = None
    succeeded_at: float | None = None
    logged_at: float | None = None
    unlogged_failures: int = 0
    has_logged_failing: bool = False
    pause: "asyncio.Future[None] | None" = None
    """The wait between two runs of a periodic job."""
    must_run_again: bool = False
    """Asked to run while a run was under way."""


class Supervisor:
    """Runs named jobs on the event loop. All methods are called on its thread.

    Args:
        logger: receives failures and recoveries.
        on_failure: called once for each critical task that failed, or that ended before `stop`.
        pause: begins the wait between two runs of a periodic job: a future that is done so many seconds later.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        logger: logging.Logger,
        on_failure: Callable[[str, BaseException], None],
        pause: "Callable[[float], asyncio.Future[None]] | None" = None,
    ) -> None:
        self._clock = clock
        self._logger = logger
        self._on_failure = on_failure
        self._new_pause = pause or _pause
        self._jobs: dict[str, _Job] = {}
        self._periodic: dict[asyncio.Task[Any], None] = {}
        """Those that `stop` cancels."""
        self._tasks: dict[asyncio.Task[Any], None] = {}
        self._cancelled_by_owner: set[asyncio.Task[Any]] = set()
        self._is_stopping = False

    # --- starting --------------------------------------------------------------------------------------------------

    def every(
        self,
        seconds: float,
        name: str,
        job: Callable[[], Awaitable[None] | None],
        *,
        retry_seconds: float | None = None,
        is_vital: bool = False,
        until_close: bool = False,
    ) -> "asyncio.Task[None]":
        """Run `job` now and then again `seconds` after each end of a run, so runs never overlap.

        A failure never stops the series. A job that is meant to run for ever is restarted `seconds` after it ends.

        Args:
            retry_seconds: the pause after a failed run; None: the same `seconds`.
            is_vital: the process is unfit while the job fails: `/readyz` answers 503.
            until_close: `stop` leaves the job running.

        Returns:
            The task of the whole series, for `cancel`.
        """
        record = self._new(name, JobKind.PERIODIC, seconds, is_vital)
        pauses = (seconds, seconds if retry_seconds is None else retry_seconds)
        task = asyncio.get_running_loop().create_task(self._repeat(record, pauses, job), name=name)
        (self._tasks if until_close else self._periodic)[task] = None
        task.add_done_callback(lambda ended: self._lasting_ended(record, ended))
        return task

    def run_soon(self, name: str) -> None:
        """Run a periodic job without waiting for the end of its pause; after the present run if one is under way."""
        record = self._jobs[name]
        record.must_run_again = True
        if record.pause is not None:
            _end(record.pause)

    def critical(self, name: str, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        """Run a task that the process can't do without: its failure, or its end before `stop`, calls `on_failure`."""
        record = self._new(name, JobKind.CRITICAL, None, True)
        task = asyncio.get_running_loop().create_task(self._invoke(record, work), name=name)
        self._tasks[task] = None
        task.add_done_callback(lambda ended: self._lasting_ended(record, ended))
        task.add_done_callback(lambda _: work.close())
        return task

    def background(self, name: str, work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        """Run a one-shot task. A failure is counted and logged under `name`, also when nothing awaits the task.

        Tasks of one kind share a name. The caller limits how many run at a time.
        """
        record = self._one_shot(name)
        task = asyncio.get_running_loop().create_task(self._invoke(record, work), name=name)
        self._tasks[task] = None
        task.add_done_callback(lambda ended: self._background_ended(record, ended))
        task.add_done_callback(lambda _: work.close())
        return task

    def later(self, seconds: float, name: str, callback: Callable[[], None]) -> asyncio.TimerHandle:
        """Call `callback` once after `seconds`, unless `stop` came first. A failure is counted and logged under `name`."""
        self._one_shot(name)

        def fire() -> None:
            if not self._is_stopping:
                self.call(name, callback)

        return asyncio.get_running_loop().call_later(seconds, fire)

    def call(self, name: str, callback: Callable[[], None]) -> None:
        """Call `callback`. A failure is counted and logged under `name`, and not raised."""
        record = self._one_shot(name)
        try:
            self._begin(record)
            callback()
        except Exception as error:  # noqa: BLE001 - reported by _failed
            self._failed(record, error)
        else:
            self._succeeded(record)
        finally:
            record.running -= 1

    def report(self, name: str, error: BaseException | None) -> None:
        """Count a run of a one-shot that was caught elsewhere: its failure, or None for its success."""
        record = self._one_shot(name)
        record.runs += 1
        if error is None:
            self._succeeded(record)
        else:
            self._failed(record, error)

    def watch_loop(self, name: str = "event_loop") -> None:
        """Count exceptions that reach the running event loop's handler, which still handles them afterwards."""
        loop = asyncio.get_running_loop()
        handler = loop.get_exception_handler()
        self._one_shot(name)

        def watch(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
            error = context.get("exception") or RuntimeError(str(context.get("message")))
            self._note_failure(self._one_shot(name), error)
            if handler is not None:
                handler(loop, context)
            else:
                loop.default_exception_handler(context)

        loop.set_exception_handler(watch)

    async def cancel(self, task: "asyncio.Task[Any]") -> None:
        """End one job before the supervisor stops, and wait for its end. A lasting job leaves the registry."""
        if not task.done():
            self._cancelled_by_owner.add(task)
            await _cancel([task])

    async def stop(self) -> None:
        """Cancel periodic jobs, except those `until_close`, and wait for their end. Critical tasks may end from now on.

        Timers no longer fire.
        """
        self._is_stopping = True
        await _cancel(self._periodic)

    async def close(self) -> None:
        """Stop, then cancel every task that still runs and wait for its end."""
        await self.stop()
        await _cancel(self._tasks)

    # --- reporting -------------------------------------------------------------------------------------------------

    def status(self) -> list[JobStatus]:
        """All jobs, in the order they were first started."""
        now = self._clock.monotonic()
        return [
            JobStatus(
                name=job.name,
                kind=job.kind,
                period_seconds=job.period,
                is_vital=job.is_vital,
                runs=job.runs,
                running=job.running,
                failures=job.failures,
                consecutive_failures=job.consecutive_failures,
                last_error=job.last_error,
                last_failure_age_seconds=None if job.failed_at is None else now - job.failed_at,
                last_success_age_seconds=None if job.succeeded_at is None else now - job.succeeded_at,
            )
            for job in self._jobs.values()
        ]

    def failing(self, *, vital_only: bool = False) -> dict[str, str]:
        """The failing jobs by name, each with its newest error."""
        return {
            job.name: job.last_error for job in self.status() if job.is_failing and (job.is_vital or not vital_only)
        }

    # --- running ---------------------------------------------------------------------------------------------------

    def _new(self, name: str, kind: JobKind, period: float | None, is_vital: bool) -> _Job:
        if name in self._jobs:
            raise ValueError(f"a job named {name!r} exists already")
        record = self._jobs[name] = _Job(name, kind, period, is_vital)
        return record

    def _one_shot(self, name: str) -> _Job:
        record = self._jobs.get(name)
        if record is None:
            return self._new(name, JobKind.ONE_SHOT, None, False)
        if record.kind is not JobKind.ONE_SHOT:
            raise ValueError(f"the job named {name!r} is {record.kind}, not one-shot")
        return record

    def _begin(self, record: _Job) -> None:
        """Called inside the guarded part of each run, before the job's own code."""
        record.runs += 1
        record.running += 1

    async def _repeat(
        self, record: _Job, pauses: tuple[float, float], job: Callable[[], Awaitable[None] | None]
    ) -> None:
        while True:
            record.must_run_again = False
            try:
                await self._invoke(record, _run(job))
            except (asyncio.CancelledError, KeyboardInterrupt, SystemExit):
                raise
            except BaseException as error:  # noqa: BLE001 - reported by _failed; the series must not end
                self._failed(record, error)
            else:
                self._succeeded(record)
            await self._pause(record, pauses[1] if record.consecutive_failures else pauses[0])

    async def _pause(self, record: _Job, seconds: float) -> None:
        """Wait, unless `run_soon` ends the wait."""
        if record.must_run_again:
            await asyncio.sleep(0)
            return
        record.pause = self._new_pause(seconds)
        try:
            await record.pause
        finally:
            record.pause = None

    async def _invoke(self, record: _Job, work: Coroutine[Any, Any, T]) -> T:
        """Every job and task runs through here. Only the cancellation of this task raises CancelledError."""
        try:
            self._begin(record)
            return await work
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            raise RuntimeError("something it awaited was cancelled") from error
        finally:
            record.running -= 1
            work.close()

    def _lasting_ended(self, record: _Job, task: "asyncio.Task[None]") -> None:
        self._tasks.pop(task, None)
        self._periodic.pop(task, None)
        error = None if task.cancelled() else task.exception()
        if error is None and task in self._cancelled_by_owner:
            self._cancelled_by_owner.discard(task)
            del self._jobs[record.name]
            return
        if error is None and self._is_stopping:
            return
        if error is None:
            why = "was cancelled" if task.cancelled() else "ended"
            failure = CriticalTaskFailed(f"task {record.name!r} {why} although the process was not stopping")
        else:
            failure = CriticalTaskFailed(f"task {record.name!r} failed: {_describe(error)}")
            failure.__cause__ = error
        self._note_failure(record, error or failure)
        self._logger.critical("%s", failure, exc_info=error)
        self._on_failure(record.name, failure)

    def _background_ended(self, record: _Job, task: "asyncio.Task[Any]") -> None:
        self._tasks.pop(task, None)
        self._cancelled_by_owner.discard(task)
        if task.cancelled():
            return
        error = task.exception()
        if error is None:
            self._succeeded(record)
        else:
            self._failed(record, error)

    def _succeeded(self, record: _Job) -> None:
        record.succeeded_at = self._clock.monotonic()
        if record.consecutive_failures and record.has_logged_failing:
            self._logger.warning(
                "job %s succeeded again after %d failures in a row", record.name, record.consecutive_failures
            )
            record.has_logged_failing = False
        record.consecutive_failures = 0

    def _note_failure(self, record: _Job, error: BaseException) -> None:
        record.failures += 1
        record.consecutive_failures += 1
        record.failed_at = self._clock.monotonic()
        record.last_error = _describe(error)

    def _failed(self, record: _Job, error: BaseException) -> None:
        self._note_failure(record, error)
        now = self._clock.monotonic()
        if record.logged_at is not None and now - record.logged_at < LOG_INTERVAL_SECONDS:
            record.unlogged_failures += 1
            return
        if record.consecutive_failures == 1:
            self._logger.error("job %s failed: %s", record.name, record.last_error, exc_info=error)
        else:
            self._logger.error(
                "job %s failed: %s; %d failures in a row, %d not logged",
                record.name, record.last_error, record.consecutive_failures, record.unlogged_failures,
            )  # fmt: skip
        record.logged_at, record.unlogged_failures, record.has_logged_failing = now, 0, True


def _pause(seconds: float) -> "asyncio.Future[None]":
    # A future and a timer: asyncio.sleep in a task of its own costs four times as much, for each job of each node, each second.
    loop = asyncio.get_running_loop()
    future: asyncio.Future[None] = loop.create_future()
    timer = loop.call_later(seconds, _end, future)
    future.add_done_callback(lambda _: timer.cancel())
    return future


def _end(pause: "asyncio.Future[None]") -> None:
    if not pause.done():
        pause.set_result(None)


async def _run(job: Callable[[], Awaitable[None] | None]) -> None:
    result = job()
    if inspect.isawaitable(result):
        await result


def _describe(error: BaseException) -> str:
    text = str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


async def _cancel(tasks: "Iterable[asyncio.Task[Any]]") -> None:
    current = asyncio.current_task()
    others = [task for task in tasks if task is not current]
    for task in others:
        task.cancel()
    if others:
        await asyncio.wait(others)
