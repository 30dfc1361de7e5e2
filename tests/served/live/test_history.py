"""Recent history in a real Redis: written by the collector's side, read by the API's."""

from typing import Any

import pytest
import redis

from console.snapshot.history import (
    SECTIONS,
    SERIES_MAX,
    SPAN_SECONDS,
    STEPS,
    HistoryWriter,
    frame_key,
    read_history,
    slots_key,
)
from console.snapshot.state import State, empty
from tests.support.servers.services import Server

NOW = 1_800_000_000


def state_of(*groups: str, lag: int | None = 5) -> State:
    numbers = {"backlog": lag, "in_flight": 123_456, "time_lag_seconds": 1.5, "pull_rate": 0.1, "ack_rate": 0.1}
    return empty() | {"subjects": {"s": {"send_rate": 7.5}}, "groups": {f"s\n{name}": numbers for name in groups}}


@pytest.fixture
def client(redis_server: Server) -> Any:
    found = redis.Redis.from_url(redis_server.url)
    found.flushall()
    return found


async def written(url: str, *states: tuple[int, State]) -> None:
    writer = HistoryWriter(url)
    for second, state in states:
        await writer.note(state, (NOW + second) * 1000)
    await writer.close()


def read(url: str, group: str, second: int = 62) -> Any:
    return read_history(url, "groups", f"s\n{group}", lambda: NOW + second)


async def test_what_was_measured_is_there_and_what_was_not_is_null(client: Any, redis_server: Server) -> None:
    url = redis_server.url
    await written(
        url, (0, state_of("a")), (1, state_of("a", lag=99)), (10, state_of("a", "b", lag=None)), (40, state_of("b"))
    )
    found = read(url, "a")
    assert len(found.at) == STEPS
    assert (found.at[-7], found.at[-1]) == ("2027-01-15T08:00:00.000Z", "2027-01-15T08:01:00.000Z")
    assert found.fields["backlog"][-7:] == [5, None, None, None, None, None, None]
    assert found.fields["in_flight"][-7:] == [123_456, 123_456, None, None, None, None, None]
    assert found.fields["lag"][-7:] == [123_461, None, None, None, None, None, None]
    assert found.fields["pull_rate"][-7] == 0.1
    assert read(url, "b").fields["backlog"][-7:] == [None, None, None, None, 5, None, None]
    system = read_history(url, "system", "system", lambda: NOW + 62)
    assert system.fields["send_rate"][-7] == 7.5
    assert read_history(url, "subjects", "s", lambda: NOW + 62).fields["stored_messages"][-7:] == [None] * 7


async def test_what_nobody_measured_is_unknown_with_a_reason(client: Any, redis_server: Server) -> None:
    await written(redis_server.url, (0, state_of("a")))
    found = read(redis_server.url, "none")
    assert found.reason == "no measurements in the last hour"
    assert found.fields["lag"] == [None] * STEPS


async def test_past_the_limit_the_reason_says_so(
    client: Any, redis_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SERIES_MAX, "groups", 1)
    await written(redis_server.url, (0, state_of("a", "b", "c")))
    assert read(redis_server.url, "a").reason is None
    assert read(redis_server.url, "b").reason == "only 1 groups have a history; this is one of 2 others"


async def test_everything_expires(client: Any, redis_server: Server) -> None:
    await written(redis_server.url, (0, state_of("a")), (10, state_of("a")))
    keys = client.keys("qmq:live:history:*")
    assert len(keys) == len(SECTIONS) * 3 + 1
    assert all(0 < client.ttl(key) <= 2 * SPAN_SECONDS for key in keys)


async def test_another_collector_goes_on_with_the_same_slots(client: Any, redis_server: Server) -> None:
    await written(redis_server.url, (0, state_of("a", "b", lag=1)))
    await written(redis_server.url, (10, state_of("c", "b", "a", lag=2)))
    for name in ("a", "b"):
        assert read(redis_server.url, name).fields["backlog"][-7:-5] == [1, 2]
    assert read(redis_server.url, "c").fields["backlog"][-7:-5] == [None, 2]


@pytest.mark.parametrize("is_emptied", [True, False])
async def test_lost_slots_give_nobody_the_numbers_of_others(
    client: Any, redis_server: Server, is_emptied: bool
) -> None:
    """Emptied as a whole, or the slots alone gone: what was before is unknown then, and the next frames are right."""
    writer = HistoryWriter(redis_server.url)
    await writer.note(state_of("a", "b", lag=1), NOW * 1000)
    if is_emptied:
        client.flushall()
    else:
        client.delete(slots_key("groups"))
    for number in (1, 2):
        await writer.note(state_of("c", "b", lag=10 * number), (NOW + 10 * number) * 1000)
    await writer.close()
    for name in ("b", "c"):
        assert [value for value in read(redis_server.url, name).fields["backlog"] if value is not None] == [20]
    assert read(redis_server.url, "a").reason is not None
    generation = client.hget(slots_key("groups"), "").decode()
    assert client.exists(frame_key("groups", generation, NOW // 10 + 2))


async def test_with_redis_away_all_is_unknown(redis_server: Server) -> None:
    with redis_server.stopped():
        found = read(redis_server.url, "a")
    assert found.reason is not None
    assert found.reason.startswith("Redis is not responding")
    assert set(found.fields["time_lag_seconds"]) == {None}
