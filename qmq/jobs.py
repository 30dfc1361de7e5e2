"""Records of supervised jobs: what has run, failed and succeeded."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from qmq.clock import Clock

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

    def begin(self) -> None:
        self.runs += 1
        self.running += 1

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
