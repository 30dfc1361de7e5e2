"""What waiting pulls cost: work for what is delivered, memory for what waits."""

import asyncio
from pathlib import Path

import pytest

from broker_node.broker import Broker
from broker_node.delivery.long_poll import STALE_DEADLINES_MAX
from qmq.protocol.codes import Command
from qmq.protocol.commands import PullRequest, TagFilter
from qmq.protocol.frames import FrameReader, encode_request
from qmq_node.policy import NodePolicy
from tests.sim.broker.connections import FakeConnection
from tests.support.drivers.feeding import feed
from tests.support.drivers.in_process import connected, message, running_broker
from tests.support.manual_clock import ManualClock
from tests.support.waiting import eventually_async

IDLE = 10_000


def pull(
    broker: Broker, number: int, group: str = "g", timeout_ms: int = 30_000, tags: tuple[str, ...] = ()
) -> FakeConnection:
    """A pull of a consumer with a connection of its own."""
    connection = FakeConnection(number)
    filters = (TagFilter(1, tags),) if tags else ()
    request = PullRequest("orders", group, f"c{number}", 1, -1, -1, timeout_ms, False, filters)
    (frame,) = feed(FrameReader(), encode_request(Command.PULL_MESSAGE, 1, request.encode()))
    broker.handlers.handle(connection, frame)  # type: ignore[arg-type]
    return connection


def counted(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The groups whose pulls are tried from now on."""
    tried: list[str] = []
    real = broker.delivery.pull

    def counting(request: PullRequest, *args: object, **settings: bool) -> object:
        tried.append(request.group)
        return real(request, *args, **settings)  # type: ignore[arg-type]

    monkeypatch.setattr(broker.delivery, "pull", counting)
    return tried


@pytest.mark.slow
@pytest.mark.parametrize("tags", [(), ("a",)])
async def test_one_message_for_ten_thousand_idle_consumers_costs_a_try_for_each_group_and_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tags: tuple[str, ...]
) -> None:
    async with running_broker(tmp_path) as broker, connected(broker) as client:
        for group in ("g", "h"):
            await client.begin(group=group)
        waiting = [pull(broker, n, tags=tags) for n in range(IDLE)]
        (other,) = [pull(broker, n, group="h") for n in range(1)]
        assert broker.handlers.polls.held == IDLE + 1
        tried = counted(broker, monkeypatch)
        for number in range(3):
            tried.clear()
            await client.send(message(number, tags=("a",)))
            await eventually_async(lambda: waiting[number].codes == [0])  # noqa: B023
            assert tried.count("g") == 2, "one that gets the message, one that finds no more"
            assert tried.count("h") <= 2
        assert other.codes == [0]
        # The message went to those that wait longest, one each.
        assert [connection.codes for connection in waiting[:4]] == [[0], [0], [0], []]


@pytest.mark.slow
async def test_answered_pulls_leave_the_heap_long_before_their_deadline(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker, connected(broker) as client:
        await client.begin()
        polls = broker.handlers.polls
        for first in range(0, 10_000, 500):
            waiting = [pull(broker, n) for n in range(first, first + 500)]
            await client.send(*(message(n) for n in range(first, first + 500)))
            await eventually_async(lambda: all(connection.codes == [0] for connection in waiting))  # noqa: B023
            assert len(polls._deadlines) <= STALE_DEADLINES_MAX + 2 * 500 + 1
            assert polls.held == len(polls._by_ticket) == 0, "the frame and the request are let go at once"


async def test_a_pull_that_expires_among_others_leaves_them_in_their_order(tmp_path: Path) -> None:
    clock = ManualClock()
    async with running_broker(tmp_path, clock=clock) as broker, connected(broker) as client:
        await client.begin()
        waiting = [pull(broker, n, timeout_ms=20_000 if n != 1 else 1_000) for n in range(4)]
        clock.advance(2)
        broker.handlers.polls.check()
        assert [connection.codes for connection in waiting] == [[], [4], [], []]
        await client.send(message(0), message(1))
        await eventually_async(lambda: waiting[2].codes == [0])
        assert [connection.codes for connection in waiting] == [[0], [4], [0], []]


async def test_pulls_behind_a_paused_consumer_are_tried_and_keep_their_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_broker(tmp_path) as broker, connected(broker) as client:
        await client.begin()
        broker.registration.policies.policy = NodePolicy("1", {}, frozenset({("orders", "g", "c0")}), "")
        broker.serving.apply_policy()
        waiting = [pull(broker, n) for n in range(4)]
        await client.send(message(0), message(1))
        await eventually_async(lambda: waiting[2].codes == [0])
        assert [connection.codes for connection in waiting] == [[], [0], [0], []]
        broker.registration.policies.policy = NodePolicy("2", {}, frozenset({("orders", "g", "")}), "")
        broker.serving.apply_policy()
        tried = counted(broker, monkeypatch)
        await client.send(message(2))
        await asyncio.sleep(10)
        assert tried == []
        broker.registration.policies.policy = NodePolicy("3", {}, frozenset(), "")
        broker.serving.apply_policy()
        await eventually_async(lambda: waiting[0].codes == [0])
        assert waiting[3].codes == []
