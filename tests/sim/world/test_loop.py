"""What the simulated loop promises: exact virtual time, threads, and processes that are killed and paused."""

import asyncio
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from qmq.clock import SystemClock
from qmq.clock import sleep as blocking_sleep
from tests.sim.world.loop import (
    START_SECONDS,
    START_WALL_MS,
    THREAD_SECONDS,
    Process,
    SimulatedThread,
    Stuck,
    running_loop,
)
from tests.sim.world.world import World
from tests.support.drivers.in_process import blocking

PROJECT = Path(__file__).parents[3]


async def test_timers_fire_in_their_order_at_their_exact_time() -> None:
    loop, fired = asyncio.get_running_loop(), []
    began = loop.time()
    for delay in (3600.0, 1.0, 0.25, 1.0):
        loop.call_later(delay, lambda delay=delay, n=len(fired): fired.append((loop.time() - began, delay)))
    await asyncio.sleep(7200)
    assert fired == [(0.25, 0.25), (1.0, 1.0), (1.0, 1.0), (3600.0, 3600.0)]
    assert loop.time() == began + 7200


async def test_all_clocks_of_the_product_read_virtual_time() -> None:
    await asyncio.sleep(86_400)
    assert SystemClock().monotonic() == START_SECONDS + 86_400
    assert SystemClock().wall_ms() == START_WALL_MS + 86_400_000


def test_a_loop_on_which_nothing_can_happen_any_more_is_an_error() -> None:
    loop = World(1)
    try:
        with pytest.raises(Stuck, match="nothing can happen"):
            loop.run_until_complete(asyncio.Event().wait())
    finally:
        for task in asyncio.all_tasks(loop):
            task.cancel()
            loop.run_until_complete(asyncio.gather(task, return_exceptions=True))
        loop.close()


async def test_a_kill_drops_callbacks_timers_and_finally_blocks() -> None:
    loop, ran = running_loop(), []
    process = Process(loop, "a")

    async def work() -> None:
        try:
            while True:
                await asyncio.sleep(1)
                ran.append(loop.time())
        finally:
            ran.append(-1)

    process.start(work())
    await asyncio.sleep(2.5)
    assert (len(ran), process.tasks) == (2, 1)
    process.kill()
    await asyncio.sleep(10)
    assert len(ran) == 2


async def test_a_paused_process_does_not_run_and_its_overdue_timers_fire_at_the_resume() -> None:
    loop, ran = running_loop(), []
    began = loop.time()
    process = Process(loop, "a")

    async def work(delay: float) -> None:
        await asyncio.sleep(delay)
        ran.append((delay, loop.time() - began))

    for delay in (1, 5, 20):
        process.start(work(delay))
    await asyncio.sleep(2)
    process.pause()
    await asyncio.sleep(8)
    assert ran == [(1, 1)]
    process.resume()
    await asyncio.sleep(20)
    assert ran == [(1, 1), (5, 10), (20, 20)]


async def test_jobs_of_a_single_thread_run_in_their_order_and_those_of_others_at_the_same_time() -> None:
    loop = running_loop()
    began = loop.time()
    alone, many = ThreadPoolExecutor(1), ThreadPoolExecutor(4)

    async def job(executor: ThreadPoolExecutor, seconds: float) -> float:
        await loop.run_in_executor(executor, loop.block, seconds)
        return loop.time() - began

    slack = 10 * THREAD_SECONDS
    assert await asyncio.gather(*(job(alone, 1) for _ in range(3))) == pytest.approx([1, 2, 3], abs=slack)
    began = loop.time()
    assert await asyncio.gather(*(job(many, 1) for _ in range(3))) == pytest.approx([1, 1, 1], abs=slack)


async def test_code_of_the_loop_that_waits_stops_its_whole_process() -> None:
    loop, ran = running_loop(), []
    began = loop.time()
    process = Process(loop, "a")

    async def work() -> None:
        await asyncio.sleep(0.5)
        loop.block(4)

    async def other() -> None:
        for _ in range(3):
            await asyncio.sleep(1)
            ran.append(loop.time() - began)

    process.start(work())
    process.start(other())
    await asyncio.sleep(10)
    assert ran == [4.5, 5.5, 6.5]


async def test_a_thread_does_its_jobs_in_order_reports_a_failure_and_does_no_more() -> None:
    done: list[object] = []
    thread = SimulatedThread("test", done.append)
    thread.put(lambda: done.append("first"), lambda: done.append("first ended"))
    thread.put(lambda: 1 // 0)
    thread.put(lambda: done.append("never"))
    await asyncio.sleep(1)
    await thread.stop()
    assert done[:2] == ["first", "first ended"]
    assert [type(item) for item in done[2:]] == [ZeroDivisionError]


async def test_only_a_threads_job_may_wait() -> None:
    loop = running_loop()
    assert not loop.is_in_thread
    assert await asyncio.to_thread(lambda: loop.is_in_thread)
    assert await blocking(lambda: loop.is_in_thread)
    assert not loop.is_in_thread


async def test_a_blocking_function_sleeps_in_virtual_time_and_ends_when_its_task_is_cancelled() -> None:
    loop, at = asyncio.get_running_loop(), []
    began = loop.time()

    def work() -> str:
        for _ in range(3):
            blocking_sleep(100)
            at.append(loop.time() - began)
        return "done"

    other = asyncio.create_task(asyncio.sleep(150, "other"))
    assert await blocking(work) == "done"
    assert (at, other.done()) == ([100, 200, 300], True)
    cancelled = asyncio.ensure_future(blocking(work))
    await asyncio.sleep(150)
    cancelled.cancel()
    with pytest.raises(asyncio.CancelledError):
        await cancelled
    assert len(at) == 4
    with pytest.raises(ZeroDivisionError):
        await blocking(lambda: 1 // 0)


DIGEST = """
import asyncio, sys
from pathlib import Path
from tests.sim.world.loop import SimulatedClock
from tests.sim.world.world import World
from qmq.clock import SystemClock
from tests.support.drivers.in_process import connected, message, small_system

async def run():
    async with small_system(Path("/d"), groups=2) as system:
        for number in range(5):
            async with connected(system.brokers["g1"]) as client:
                await client.begin(group=f"g{number}")
                await client.send(*(message(n, f"s{n % 3}") for n in range(20)))
        await asyncio.sleep(30)

def play(seed):
    world = World(seed)
    clock = SimulatedClock(world)
    SystemClock.monotonic = lambda _: clock.monotonic()
    SystemClock.wall_ms = lambda _: clock.wall_ms()
    world.run_until_complete(run())
    return world.events, world.digest

print(play(7), play(7), play(8), sep="\\n")
"""


@pytest.mark.slow
def test_a_seed_gives_the_same_run_in_two_processes_with_different_hashes() -> None:
    running = [
        subprocess.Popen(
            [sys.executable, "-c", DIGEST],
            cwd=PROJECT,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            stdout=subprocess.PIPE,
            text=True,
        )
        for hash_seed in ("0", "9")
    ]
    first, second = (process.communicate()[0] for process in running)
    one, again, other = first.splitlines()
    assert int(one[1:].split(",")[0]) > 200
    assert again == one != other
    assert second == first


async def test_a_thread_ends_when_its_last_job_fails() -> None:
    errors: list[BaseException] = []
    thread = SimulatedThread("writer", errors.append)

    def fail() -> None:
        raise OSError("the disk refuses")

    thread.put(fail)
    thread.put(lambda: None)
    async with asyncio.timeout(10):
        await thread.stop()
    assert [str(error) for error in errors] == ["the disk refuses"]
