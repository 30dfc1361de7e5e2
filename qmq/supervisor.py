"""class Supervisor: runs the periodic jobs and the tasks of one process, and makes each failure visible.

Nothing that runs beside the requests of a process is started without it. A periodic job that raises is counted, logged
and run again. A critical task that ends reports to `on_failure`, which ends the process. A one-shot task that raises is
counted and logged. `status()` and `failing()` feed `/healthz`, `/readyz` and the metrics.
"""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from dataclasses import KW_ONLY, InitVar, dataclass, field
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


@dataclass(eq=False, slots=True)
class Job:
    """The record of a job. It logs failures, at most one per LOG_INTERVAL_SECONDS, and the first success after them."""

    clock: Clock
    logger: logging.Logger
    name: str
    kind: JobKind
    period: float | None = None
    is_vital: bool = False
    runs: int = 0
    running: int = 0
    failures: int = 0
    consecutive_failures: int = 0
    last_error: str = ""
    """The newest failure's class and message; "" while there was none."""
    failed_at: float | None = None
    succeeded_at: float | None = None
    logged_at: float | None = None
    unlogged_failures: int = 0
    has_logged_failing: bool = False
    pause: "asyncio.Future[None] | None" = None
    """The wait between two runs of a periodic job."""
    must_run_again: bool = False
    """A run was requested while another one was under way."""

    @property
    def is_failing(self) -> bool:
        """True after a failure until the next success; a one-shot's failure also expires after REPORTED_SECONDS."""
        if not self.consecutive_failures or self.kind is not JobKind.ONE_SHOT:
            return self.consecutive_failures > 0
        return self.failed_at is not None and self.clock.monotonic() - self.failed_at < REPORTED_SECONDS

    @property
    def last_success_age_seconds(self) -> float | None:
        """Monotonic seconds since the last success; None: there was none."""
        return None if self.succeeded_at is None else self.clock.monotonic() - self.succeeded_at

    def succeeded(self) -> None:
        self.succeeded_at = self.clock.monotonic()
        if self.consecutive_failures and self.has_logged_failing:
            self.logger.warning(
                "job %s succeeded again after %d failures in a row", self.name, self.consecutive_failures
            )
            self.has_logged_failing = False
        self.consecutive_failures = 0

    def count_failure(self, error: BaseException) -> None:
        """Count a run that failed, without logging it."""
        self.failures += 1
        self.consecutive_failures += 1
        self.failed_at = self.clock.monotonic()
        self.last_error = describe(error)

    def failed(self, error: BaseException) -> None:
        self.count_failure(error)
        now = self.clock.monotonic()
        if self.logged_at is not None and now - self.logged_at < LOG_INTERVAL_SECONDS:
            self.unlogged_failures += 1
            return
        if self.consecutive_failures == 1:
            self.logger.error("job %s failed: %s", self.name, self.last_error, exc_info=error)
        else:
            self.logger.error(
                "job %s failed: %s; %d failures in a row, %d not logged",
                self.name, self.last_error, self.consecutive_failures, self.unlogged_failures,
            )  # fmt: skip
        self.logged_at, self.unlogged_failures, self.has_logged_failing = now, 0, True

    def run_soon(self) -> None:
        """End the present pause between two runs, or leave out the next one."""
        self.must_run_again = True
        if self.pause is not None:
            _end(self.pause)

    async def wait(self, seconds: float, new_pause: "Callable[[float], asyncio.Future[None]]") -> None:
        """Wait between two runs, unless `run_soon` ends the wait."""
        if self.must_run_again:
            await asyncio.sleep(0)
            return
        self.pause = new_pause(seconds)
        try:
            await self.pause
        finally:
            self.pause = None


def describe(error: BaseException) -> str:
    text = str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def timer(seconds: float) -> "asyncio.Future[None]":
    """Return a future that is done after this time."""
    # A future and a timer: asyncio.sleep in a task of its own costs four times as much, for each job of each node, each second.
    loop = asyncio.get_running_loop()
    future: asyncio.Future[None] = loop.create_future()
    timer = loop.call_later(seconds, _end, future)
    future.add_done_callback(lambda _: timer.cancel())
    return future


def _end(pause: "asyncio.Future[None]") -> None:
    if not pause.done():
        pause.set_result(None)


@dataclass(eq=False, repr=False)
class Supervisor:
    """Runs named jobs on the event loop. All methods are called on its thread."""

    _clock: Clock
    _: KW_ONLY
    logger: logging.Logger
    """Receives failures and recoveries."""
    on_failure: Callable[[str, BaseException], None]
    """Called once for each critical task that failed, or that ended before `stop`."""
    pause: InitVar["Callable[[float], asyncio.Future[None]] | None"] = None
    """Begins the wait between two runs of a periodic job: a future that is done after this number of seconds."""
    _jobs: dict[str, Job] = field(default_factory=dict, init=False)
    _periodic: dict[asyncio.Task[Any], None] = field(default_factory=dict, init=False)
    """Those that `stop` cancels."""
    _tasks: dict[asyncio.Task[Any], None] = field(default_factory=dict, init=False)
    _cancelled_by_owner: set[asyncio.Task[Any]] = field(default_factory=set, init=False)
    _is_stopping: bool = field(default=False, init=False)

    def __post_init__(self, pause: "Callable[[float], asyncio.Future[None]] | None") -> None:
        self._new_pause = pause or timer

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

        A failure never stops the series. A job that never returns by itself is restarted `seconds` after it ends.

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
        self._jobs[name].run_soon()

    def critical(self, name: str, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        """Run a task that the process can't do without: its failure, or its end before `stop`, calls `on_failure`."""
        return self._start(self._new(name, JobKind.CRITICAL, None, True), work, self._lasting_ended)

    def background(self, name: str, work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        """Run a one-shot task. Failures are counted and logged under `name`, which tasks of one kind share."""
        return self._start(self._one_shot(name), work, self._background_ended)

    def later(self, seconds: float, name: str, callback: Callable[[], None]) -> asyncio.TimerHandle:
        """Call `callback` once after `seconds`, unless `stop` came first. A failure is counted and logged under `name`."""
        self._one_shot(name)

        def fire() -> None:
            if not self._is_stopping:
                self.call(name, callback)

        return asyncio.get_running_loop().call_later(seconds, fire)

    def call(self, name: str, callback: Callable[[], object]) -> None:
        """Call `callback`. A failure is counted and logged under `name`, and not raised."""
        record = self._one_shot(name)
        try:
            self._begin(record)
            callback()
        except Exception as error:  # noqa: BLE001 - reported by the job
            record.failed(error)
        else:
            record.succeeded()
        finally:
            record.running -= 1

    def report(self, name: str, error: BaseException | None) -> None:
        """Count a run of a one-shot that was caught elsewhere: its failure, or None for its success."""
        record = self._one_shot(name)
        record.runs += 1
        if error is None:
            record.succeeded()
        else:
            record.failed(error)

    def watch_loop(self, name: str = "event_loop") -> None:
        """Count exceptions that reach the running event loop's handler, which still handles them afterwards."""
        loop = asyncio.get_running_loop()
        handler = loop.get_exception_handler()
        self._one_shot(name)

        def watch(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
            error = context.get("exception") or RuntimeError(str(context.get("message")))
            self._one_shot(name).count_failure(error)
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
        """Cancel periodic jobs and timers, except jobs `until_close`, and wait for them. Critical tasks may end from now on."""
        self._is_stopping = True
        await _cancel(self._periodic)

    async def close(self) -> None:
        """Stop, then cancel every task that still runs and wait for its end."""
        await self.stop()
        await _cancel(self._tasks)

    # --- reporting -------------------------------------------------------------------------------------------------

    def status(self) -> list[Job]:
        """All jobs, in the order they were first started."""
        return list(self._jobs.values())

    def failing(self, *, vital_only: bool = False) -> dict[str, str]:
        """The failing jobs by name, each with its newest error."""
        return {
            job.name: job.last_error for job in self.status() if job.is_failing and (job.is_vital or not vital_only)
        }

    # --- running ---------------------------------------------------------------------------------------------------

    def _new(self, name: str, kind: JobKind, period: float | None, is_vital: bool) -> Job:
        if name in self._jobs:
            raise ValueError(f"a job named {name!r} exists already")
        record = self._jobs[name] = Job(self._clock, self.logger, name, kind, period, is_vital)
        return record

    def _one_shot(self, name: str) -> Job:
        record = self._jobs.get(name)
        if record is None:
            return self._new(name, JobKind.ONE_SHOT, None, False)
        if record.kind is not JobKind.ONE_SHOT:
            raise ValueError(f"the job named {name!r} is {record.kind}, not one-shot")
        return record

    def _start(
        self, record: Job, work: Coroutine[Any, Any, T], ended: "Callable[[Job, asyncio.Task[T]], None]"
    ) -> "asyncio.Task[T]":
        task = asyncio.get_running_loop().create_task(self._invoke(record, work), name=record.name)
        self._tasks[task] = None
        task.add_done_callback(lambda done: ended(record, done))
        task.add_done_callback(lambda _: work.close())
        return task

    def _begin(self, record: Job) -> None:
        """Called inside the guarded part of each run, before the job's own code; tests override it."""
        record.runs += 1
        record.running += 1

    async def _repeat(
        self, record: Job, pauses: tuple[float, float], job: Callable[[], Awaitable[None] | None]
    ) -> None:
        while True:
            record.must_run_again = False
            try:
                await self._invoke(record, _run(job))
            except (asyncio.CancelledError, KeyboardInterrupt, SystemExit):
                raise
            except BaseException as error:  # noqa: BLE001 - reported by the job; the series must not end
                record.failed(error)
            else:
                record.succeeded()
            await record.wait(pauses[1] if record.consecutive_failures else pauses[0], self._new_pause)

    async def _invoke(self, record: Job, work: Coroutine[Any, Any, T]) -> T:
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

    def _lasting_ended(self, record: Job, task: "asyncio.Task[None]") -> None:
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
            failure = CriticalTaskFailed(f"task {record.name!r} failed: {describe(error)}")
            failure.__cause__ = error
        record.count_failure(error or failure)
        self.logger.critical("%s", failure, exc_info=error)
        self.on_failure(record.name, failure)

    def _background_ended(self, record: Job, task: "asyncio.Task[Any]") -> None:
        self._tasks.pop(task, None)
        self._cancelled_by_owner.discard(task)
        if task.cancelled():
            return
        error = task.exception()
        if error is None:
            record.succeeded()
        else:
            record.failed(error)


async def _run(job: Callable[[], Awaitable[None] | None]) -> None:
    result = job()
    if inspect.isawaitable(result):
        await result


async def _cancel(tasks: "Iterable[asyncio.Task[Any]]") -> None:
    current = asyncio.current_task()
    others = [task for task in tasks if task is not current]
    for task in others:
        task.cancel()
    if others:
        await asyncio.wait(others)
