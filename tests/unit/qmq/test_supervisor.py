"""The supervisor: no job ends, fails or waits unseen."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable

import pytest

from qmq.errors import CriticalTaskFailed
from qmq.supervisor import LOG_INTERVAL_SECONDS, REPORTED_SECONDS, Job, JobKind, Supervisor
from tests.support.manual_clock import ManualClock

logger = logging.getLogger("test.supervisor")


class Bench:
    """A supervisor whose periods a test lets pass, and what it reported."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.failures: list[tuple[str, BaseException]] = []
        self.sleeping: list[asyncio.Future[None]] = []
        self.slept: list[float] = []
        self.supervisor = Supervisor(
            self.clock, logger=logger, on_failure=lambda *failure: self.failures.append(failure), pause=self._pause
        )

    def _pause(self, seconds: float) -> "asyncio.Future[None]":
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.slept.append(seconds)
        self.sleeping.append(future)
        return future

    async def turns(self) -> None:
        """Let everything run that can run now."""
        for _ in range(10):
            await asyncio.sleep(0)

    async def period(self, seconds: float = 1.0) -> None:
        """Let a period of every sleeping job pass, and its next run."""
        await self.turns()
        self.clock.advance(seconds)
        sleeping, self.sleeping = self.sleeping, []
        for future in sleeping:
            if not future.done():
                future.set_result(None)
        await self.turns()

    def status(self, name: str) -> Job:
        return next(status for status in self.supervisor.status() if status.name == name)


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    found = Bench()
    yield found
    await found.supervisor.close()


class Flaky:
    """A job that raises what it is set to, and counts its runs."""

    def __init__(self) -> None:
        self.error: BaseException | None = None
        self.runs = 0

    def __call__(self) -> None:
        self.runs += 1
        if self.error is not None:
            raise self.error


class Odd(BaseException):
    """An exception outside Exception."""


@pytest.mark.parametrize("error", [OSError("disk"), ValueError("x"), Odd("odd"), asyncio.CancelledError()])
async def test_a_failing_job_runs_again_and_others_are_not_touched(bench: Bench, error: BaseException) -> None:
    broken, sound = Flaky(), Flaky()
    broken.error = error
    bench.supervisor.every(1.0, "broken", broken)
    bench.supervisor.every(1.0, "sound", sound)
    await bench.turns()
    for _ in range(4):
        await bench.period()

    assert (broken.runs, sound.runs) == (5, 5)
    assert bench.status("broken").failures == bench.status("broken").consecutive_failures == 5
    assert list(bench.supervisor.failing()) == ["broken"]
    assert bench.failures == []

    broken.error = None
    await bench.period()
    status = bench.status("broken")
    assert (status.runs, status.failures, status.consecutive_failures, status.running) == (6, 5, 0, 0)
    assert status.last_success_age_seconds == 0
    assert status.failed_at == bench.clock.monotonic() - 1
    assert bench.supervisor.failing() == {}


async def test_runs_of_a_job_do_not_overlap_and_its_period_counts_from_the_end(bench: Bench) -> None:
    may_end, running, most = asyncio.Event(), 0, 0

    async def slow() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await may_end.wait()
        running -= 1

    bench.supervisor.every(7.0, "slow", slow)
    await bench.period()
    assert (bench.status("slow").runs, bench.status("slow").running, bench.slept) == (1, 1, [])
    may_end.set()
    await bench.period()
    assert (bench.status("slow").runs, most, bench.slept) == (2, 1, [7.0, 7.0])


async def test_failures_in_a_row_are_logged_with_back_off(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    job = Flaky()
    job.error = OSError("no space")
    bench.supervisor.every(1.0, "retention", job)
    await bench.turns()
    assert [record.exc_info is not None for record in caplog.records] == [True]
    assert "retention" in caplog.text
    assert "no space" in caplog.text
    for _ in range(int(LOG_INTERVAL_SECONDS) - 1):
        await bench.period()
    assert len(caplog.records) == 1
    await bench.period()
    assert "61 failures in a row, 59 not logged" in caplog.records[1].getMessage()
    job.error = None
    await bench.period()
    await bench.period()
    assert len(caplog.records) == 3
    assert "succeeded again after 61 failures" in caplog.records[2].getMessage()


async def test_a_job_that_fails_every_other_time_is_not_logged_each_time(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    job = Flaky()
    bench.supervisor.every(1.0, "flaky", job)
    for number in range(20):
        job.error = OSError("now and then") if number % 2 else None
        await bench.period()
    assert bench.status("flaky").failures == 10
    assert len(caplog.records) == 2


@pytest.mark.parametrize("ending", ["raises", "returns", "is cancelled"])
async def test_a_critical_task_that_ends_is_reported_once(bench: Bench, ending: str) -> None:
    end = asyncio.Event()

    async def work() -> None:
        await end.wait()
        if ending == "raises":
            raise KeyError("route")

    task = bench.supervisor.critical("delivery", work())
    await bench.turns()
    assert bench.failures == []
    if ending == "is cancelled":
        task.cancel()
    end.set()
    await bench.turns()

    ((name, error),) = bench.failures
    assert name == "delivery"
    assert isinstance(error, CriticalTaskFailed)
    expected = {
        "raises": "task 'delivery' failed: KeyError: 'route'",
        "returns": "task 'delivery' ended although the process was not stopping",
        "is cancelled": "task 'delivery' was cancelled although the process was not stopping",
    }
    assert str(error) == expected[ending]
    assert "delivery" in bench.supervisor.failing(vital_only=True)
    await bench.supervisor.close()
    assert len(bench.failures) == 1


async def test_critical_tasks_may_end_once_the_supervisor_stops(bench: Bench) -> None:
    stop = asyncio.Event()

    async def until_stop() -> None:
        await stop.wait()

    async def for_ever() -> None:
        await asyncio.Event().wait()

    ending = bench.supervisor.critical("membership", until_stop())
    lasting = bench.supervisor.critical("delivery", for_ever())
    await bench.turns()
    await bench.supervisor.stop()
    stop.set()
    await ending
    assert not lasting.done()
    await bench.supervisor.close()
    assert lasting.cancelled()
    assert bench.failures == []


async def test_a_critical_task_that_fails_while_stopping_is_reported(bench: Bench) -> None:
    stop = asyncio.Event()

    async def work() -> None:
        await stop.wait()
        raise OSError("lost")

    bench.supervisor.critical("keeper", work())
    await bench.supervisor.stop()
    stop.set()
    await bench.turns()
    assert [name for name, _ in bench.failures] == ["keeper"]


async def test_a_one_shot_that_fails_is_counted_logged_and_reported_for_a_while(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    async def read(number: int) -> int:
        if number < 0:
            raise OSError("unreadable")
        return number

    assert await bench.supervisor.background("cold_read", read(7)) == 7
    bench.supervisor.background("cold_read", read(-1))
    await bench.turns()
    status = bench.status("cold_read")
    assert (status.kind, status.runs, status.failures, status.running) == (JobKind.ONE_SHOT, 2, 1, 0)
    assert bench.supervisor.failing() == {"cold_read": "OSError: unreadable"}
    assert "unreadable" in caplog.text
    bench.clock.advance(REPORTED_SECONDS)
    assert bench.supervisor.failing() == {}
    with pytest.raises(OSError, match="unreadable"):
        await bench.supervisor.background("cold_read", read(-1))
    assert bench.failures == []


async def test_what_a_one_shot_awaits_being_cancelled_is_a_failure(bench: Bench) -> None:
    future = asyncio.get_running_loop().create_future()

    async def waits() -> None:
        await future

    bench.supervisor.background("answer", waits())
    await bench.turns()
    future.cancel()
    await bench.turns()
    assert bench.status("answer").failures == 1


async def test_a_timer_and_a_guarded_call_are_counted_under_their_name(bench: Bench) -> None:
    job = Flaky()
    job.error = ValueError("bad")
    bench.supervisor.later(0, "long_poll", job)
    await bench.turns()
    bench.supervisor.call("wake", job)
    job.error = None
    bench.supervisor.call("sound", job)
    assert list(bench.supervisor.failing()) == ["long_poll", "wake"]
    assert [bench.status(name).running for name in ("long_poll", "wake", "sound")] == [0, 0, 0]


async def test_a_vital_job_is_told_apart(bench: Bench) -> None:
    job = Flaky()
    job.error = OSError("statvfs")
    bench.supervisor.every(1.0, "rates", job)
    bench.supervisor.every(1.0, "disk_space", job, is_vital=True)
    await bench.turns()
    assert bench.supervisor.failing(vital_only=True) == {"disk_space": "OSError: statvfs"}
    assert list(bench.supervisor.failing()) == ["rates", "disk_space"]


async def test_a_series_that_ends_by_itself_ends_the_process(bench: Bench) -> None:
    # Nothing in the supervisor may end a series; should a later change do so, it must not be silent.
    task = bench.supervisor.every(1.0, "rates", Flaky())
    await bench.turns()
    task.cancel()
    await bench.turns()
    assert [name for name, _ in bench.failures] == ["rates"]


@pytest.mark.parametrize("start", ["every", "critical"])
async def test_an_owner_may_end_a_job_early(bench: Bench, start: str) -> None:
    async def for_ever() -> None:
        await asyncio.Event().wait()

    begin: dict[str, Callable[[], asyncio.Task[None]]] = {
        "every": lambda: bench.supervisor.every(1.0, "pull g1", for_ever),
        "critical": lambda: bench.supervisor.critical("pull g1", for_ever()),
    }
    for _ in range(2):
        task = begin[start]()
        await bench.turns()
        await bench.supervisor.cancel(task)
        assert task.done()
        assert bench.supervisor.status() == []
        assert bench.failures == []


async def test_nothing_runs_after_close(bench: Bench) -> None:
    job = Flaky()
    bench.supervisor.every(1.0, "rates", job)
    bench.supervisor.later(0, "timer", job)
    held = bench.supervisor.background("answer", asyncio.Event().wait())
    await bench.supervisor.close()
    runs = job.runs
    await bench.period()
    assert job.runs == runs
    assert held.cancelled()
    assert bench.failures == []


async def test_two_jobs_can_not_share_a_name(bench: Bench) -> None:
    bench.supervisor.every(1.0, "rates", Flaky())
    with pytest.raises(ValueError, match="'rates' exists already"):
        bench.supervisor.every(1.0, "rates", Flaky())
    with pytest.raises(ValueError, match="'rates' is periodic"):
        bench.supervisor.call("rates", Flaky())


async def test_a_job_can_be_run_before_its_pause_is_over(bench: Bench) -> None:
    job = Flaky()
    bench.supervisor.every(3600.0, "checkpoint", job)
    await bench.turns()
    bench.supervisor.run_soon("checkpoint")
    await bench.turns()
    assert job.runs == 2


async def test_a_job_asked_for_during_its_run_runs_again_after_it(bench: Bench) -> None:
    may_end = asyncio.Event()

    async def slow() -> None:
        await may_end.wait()

    bench.supervisor.every(3600.0, "checkpoint", slow)
    await bench.turns()
    bench.supervisor.run_soon("checkpoint")
    bench.supervisor.run_soon("checkpoint")
    await bench.turns()
    assert bench.status("checkpoint").runs == 1
    may_end.set()
    await bench.turns()
    assert bench.status("checkpoint").runs == 2
    assert bench.slept == [3600.0]


async def test_the_pause_after_a_failure_may_be_another(bench: Bench) -> None:
    job = Flaky()
    job.error = OSError("unreadable")
    bench.supervisor.every(1.0, "hour_loading", job, retry_seconds=5.0)
    await bench.turns()
    job.error = None
    await bench.period()
    assert bench.slept == [5.0, 1.0]


async def test_a_job_may_last_until_close(bench: Bench) -> None:
    short, lasting = Flaky(), Flaky()
    bench.supervisor.every(1.0, "short", short)
    bench.supervisor.every(1.0, "interval_sync", lasting, until_close=True)
    await bench.turns()
    await bench.supervisor.stop()
    await bench.period()
    assert (short.runs, lasting.runs) == (1, 2)
    await bench.supervisor.close()
    await bench.period()
    assert lasting.runs == 2
    assert bench.failures == []


async def test_what_was_caught_elsewhere_can_be_reported(bench: Bench) -> None:
    bench.supervisor.report("heartbeat", ValueError("port"))
    assert bench.supervisor.failing() == {"heartbeat": "ValueError: port"}
    bench.supervisor.report("heartbeat", None)
    assert bench.supervisor.failing() == {}
    assert (bench.status("heartbeat").runs, bench.status("heartbeat").failures) == (2, 1)


async def test_exceptions_that_reach_the_event_loop_are_counted_and_handled(bench: Bench) -> None:
    handled: list[object] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: handled.append(context["exception"]))
    bench.supervisor.watch_loop()
    error = ValueError("callback")

    def callback() -> None:
        raise error

    loop.call_soon(callback)
    await bench.turns()
    assert handled == [error]
    assert bench.supervisor.failing() == {"event_loop": "ValueError: callback"}
