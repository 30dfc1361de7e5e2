"""F30: Redis stops, stands still, or forgets everything, under load."""

import asyncio
import time
from collections.abc import Iterator

import pytest
import redis

from tests.support.load.faults import Api, States, during, goes_on, live, load, running_plane, until
from tests.support.servers.services import RedisServer, running
from tests.support.servers.system import System
from tests.support.waiting import figure
from tests.support.whole import in_whole_fault_runs

pytestmark = in_whole_fault_runs

AWAY_SECONDS = 60.0
STALE_SECONDS = 3.0
FRESH_SECONDS = 5.0


@pytest.fixture(scope="module")
def own_redis() -> Iterator[RedisServer]:
    """Not the session's: this one is broken."""
    with running(RedisServer) as server:
        assert isinstance(server, RedisServer)
        yield server


@pytest.fixture(scope="module")
def plane(
    tmp_path_factory: pytest.TempPathFactory, own_redis: RedisServer, redis_server: RedisServer
) -> Iterator[System]:
    with running_plane(tmp_path_factory.mktemp("redis"), own_redis.url) as found:
        yield found


def pids(plane: System) -> dict[str, int]:
    """Of processes that have not ended; a missing one ended."""
    return {process.name: process.pid for process in plane.processes if process.is_running}


@pytest.mark.parametrize("fault", ["stopped", "paused"])
async def test_f30_without_redis_pages_are_stale_and_everything_else_goes_on(
    plane: System, own_redis: RedisServer, fault: str
) -> None:
    states, api, before = States(plane), Api(plane), pids(plane)
    said = plane.console.log().count("rate limits are off")

    def look() -> None:
        assert api.ask("GET", "/subjects/").status == 200
        assert api.ask("GET", "/broker-groups/").status == 200

    async with (
        load(plane, f"{fault}-orders", f"{fault}-payments") as traffic,
        live(plane, f"/ws/lag/?subject={fault}-orders") as page,
    ):
        away_at = time.monotonic()
        # In this thread: a server ends with the thread that started it.
        with getattr(own_redis, fault)():
            stale_at, message = await page.next("stale", away_at)
            limit = STALE_SECONDS + (0.5 if fault == "stopped" else 0)
            figure(f"F30 Redis {fault}: pages say stale", stale_at - away_at, limit)
            assert message["reason"]
            assert message["since"]
            await during(AWAY_SECONDS, look)
            await goes_on(traffic)
            told = page.of("snapshot", stale_at) + page.of("delta", stale_at)
            assert not told, "nothing is made up while nothing is known"
            runs = int((await asyncio.to_thread(plane.job, "heartbeats"))["runs"])
        back_at = time.monotonic()
        fresh_at, _ = await page.next("fresh", stale_at)
        figure(f"F30 Redis {fault}: pages fresh after the return", fresh_at - back_at, FRESH_SECONDS)
        assert page.is_open
        took = await until(lambda: int(plane.job("heartbeats")["runs"]) > runs + 1, 30, "jobs run again")
        figure(f"F30 Redis {fault}: jobs run after the return", took)
        figure(f"F30 Redis {fault}: slowest answer of the API", api.slowest_seconds, 3)
    assert states.changes() == []
    assert pids(plane) == before, "all went on by themselves"
    said = plane.console.log().count("rate limits are off") - said
    assert 1 <= said <= 2 + AWAY_SECONDS / 4, f"the log says once in a while that rate limits are off: {said} times"


async def test_f30_a_redis_that_forgot_everything_is_filled_again(plane: System, own_redis: RedisServer) -> None:
    before = pids(plane)
    runs = int(plane.job("heartbeats")["runs"])
    async with load(plane, "flushed-orders"), live(plane, "/ws/lag/?subject=flushed-orders") as page:
        with redis.Redis.from_url(own_redis.url) as client:
            client.flushall()
        flushed_at = time.monotonic()
        at, _ = await page.next("delta", flushed_at)
        figure("F30 Redis flushed: next numbers on pages", at - flushed_at, FRESH_SECONDS)
        await until(lambda: int(plane.job("heartbeats")["runs"]) > runs + 2, 20, "jobs run")
        assert not page.of("stale", flushed_at), "nobody was silent for so long"
    async with live(plane, "/ws/lag/?subject=flushed-orders"):
        pass  # a new page finds a snapshot
    assert pids(plane) == before


async def test_f30_two_beats_worth_of_words_are_not_sent_after_redis_is_back(plane: System) -> None:
    """What beat could not send is not sent later: jobs go on at their pace."""
    first = plane.job("heartbeats")
    began = time.monotonic()
    await until(lambda: int(plane.job("heartbeats")["runs"]) >= int(first["runs"]) + 4, 20, "four runs")
    assert time.monotonic() - began >= 4 * first["every_seconds"] / 2
