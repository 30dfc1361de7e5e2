"""Lookups and changes of delayed messages when their delay group gets another master."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import pytest

from delay_node.changes import Changes
from delay_node.delay_node import DelayNode
from delay_node.options import DelayOptions
from metaserver.memory.live_groups import LEASE_SECONDS
from qmq import DelayedMessages
from qmq.client.delay_groups import GROUPS_SECONDS, REPEAT_SECONDS
from qmq.errors import LogError, QmqError
from qmq.protocol.delayed import ChangeDelayedRequest, ChangeDelayedResponse, Outcome
from tests.sim.replication.failures import FAILURES, fail
from tests.sim.replication.pair import client_of
from tests.sim.world.cluster import SMALL, SYNC_SECRET, Cluster, Host
from tests.sim.world.loop import running_loop
from tests.support.drivers.in_process import delayed, now_ms
from tests.support.waiting import eventually_async

HOUR = 3_600_000


class DelayGroupScene:
    """The delay group d1 of two members in sync, which holds messages m0 to m9, due in three hours."""

    def __init__(self, cluster: Cluster, members: int) -> None:
        self.cluster = cluster
        self.hosts: dict[str, Host] = {}
        for letter in "ab"[:members]:
            node = {"broker_group": "d1", "node_id": f"d1-{letter}", "sync_token": SYNC_SECRET}
            self.hosts[f"d1-{letter}"] = cluster._node(f"d1-{letter}", DelayNode, DelayOptions, {**SMALL, **node})
        self.due_ms = now_ms() + 3 * HOUR

    @property
    def master(self) -> Host:
        return self.hosts[self.cluster.database.stored.groups["d1"].membership.master]

    def node(self, name: str) -> DelayNode:
        server = self.hosts[name].server
        assert isinstance(server, DelayNode)
        return server

    async def begin(self) -> None:
        groups = self.cluster.database.stored.groups
        for host in self.hosts.values():
            host.start()
            await host.has_started.wait()
        await eventually_async(lambda: "d1" in groups and len(groups["d1"].membership.in_sync) == len(self.hosts), 60)
        await eventually_async(lambda: not self.node("d1-a").readiness(), 60)
        async with client_of(self.node("d1-a")) as client:
            assert not await client.send(*(delayed(number, self.due_ms + number) for number in range(10)))


@asynccontextmanager
async def delay_group(members: int = 2) -> AsyncIterator[tuple[DelayGroupScene, DelayedMessages]]:
    async with (
        Cluster(running_loop(), brokers=0, delays=0, copies=2) as cluster,
        DelayedMessages(cluster.meta_url) as messages,
    ):
        scene = DelayGroupScene(cluster, members)
        await scene.begin()
        await messages.find("m0")
        try:
            yield scene, messages
        finally:
            for host in scene.hosts.values():
                host.kill()


def at(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


@pytest.mark.parametrize("failure", FAILURES)
async def test_requests_are_repeated_at_the_new_master(failure: str) -> None:
    """One that hangs is noticed because the metaserver names another master."""
    async with delay_group() as (scene, messages):
        loop = running_loop()
        fail(scene.hosts["d1-a"], failure)
        began, delay = loop.now, timedelta(hours=5)
        begun_ms = now_ms()
        cancelled, moved, put_off, now, found, listed = await asyncio.gather(
            messages.cancel("m1"),
            messages.reschedule("m2", to=at(scene.due_ms + HOUR)),
            messages.reschedule("m3", delay=delay, delay_group="d1"),
            messages.deliver("m4"),
            messages.find("m5"),
            _all_of(messages),
        )
        assert [change.outcome for change in (cancelled, moved, put_off, now)] == [Outcome.DONE] * 4
        assert moved.due_ms == scene.due_ms + HOUR
        assert begun_ms + 5 * HOUR <= put_off.due_ms <= begun_ms + 5 * HOUR + 100, "from the call on"
        assert [message.state for message in found.messages] == ["pending"]
        assert not found.problems
        assert {f"m{number}" for number in (0, 5, 6, 7, 8, 9)} <= set(listed), "all that nothing changes meanwhile"
        assert scene.master is scene.hosts["d1-b"]
        assert loop.now - began < LEASE_SECONDS + GROUPS_SECONDS + 2


async def _all_of(messages: DelayedMessages) -> list[str]:
    return [message.message_id async for message in messages.list("orders")]


def killed_before_the_answer(monkeypatch: pytest.MonkeyPatch, name: str, host: Callable[[], Host]) -> None:
    """Have the process end when it has executed its first request of a kind."""
    execute, has_ended = getattr(Changes, name), False

    async def change(self: Changes, request: object) -> object:
        nonlocal has_ended
        answer = await execute(self, request)
        if not has_ended:
            has_ended = True
            running_loop().call_soon(host().kill)
            await asyncio.sleep(3_600)
        return answer

    monkeypatch.setattr(Changes, name, change)


async def test_a_change_whose_answer_was_lost_is_repeated_and_answered_as_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with delay_group() as (scene, messages):
        killed_before_the_answer(monkeypatch, "change", lambda: scene.hosts["d1-a"])
        cancelled = await messages.cancel("m1")
        assert (cancelled.outcome, cancelled.state) == (Outcome.UNCHANGED, "cancelled")
        assert [message.state for message in (await messages.find("m1")).messages] == ["cancelled"]
        assert scene.node("d1-b").store.pending == 9


async def test_a_reschedule_whose_answer_was_lost_keeps_the_time_of_the_first_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with delay_group() as (scene, messages):
        killed_before_the_answer(monkeypatch, "change", lambda: scene.hosts["d1-a"])
        begun_ms = now_ms()
        moved = await messages.reschedule("m1", delay=timedelta(hours=5))
        assert now_ms() - begun_ms > 1_000
        assert begun_ms + 5 * HOUR <= moved.due_ms <= begun_ms + 5 * HOUR + 100
        pending = [message for message in (await messages.find("m1")).messages if message.state == "pending"]
        assert [message.item.due_ms for message in pending] == [moved.due_ms]
        assert scene.node("d1-b").store.pending == 10


async def test_a_bulk_cancel_whose_answer_was_lost_is_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    async with delay_group() as (scene, messages):
        killed_before_the_answer(monkeypatch, "cancel_matching", lambda: scene.hosts["d1-a"])
        with pytest.raises(QmqError, match=r"the connection to .* ended"):
            await messages.cancel_matching("orders")
        await eventually_async(lambda: scene.master is scene.hosts["d1-b"], 60)
        # One that was not sent is: the new master is used although the address of the former one is known.
        counted = await messages.cancel_matching("orders", dry_run=True)
        assert counted.matched == 0


async def test_a_request_is_repeated_for_a_limited_time() -> None:
    async with delay_group() as (scene, messages):
        for host in scene.hosts.values():
            host.kill()
        began = running_loop().now
        with pytest.raises(QmqError, match=r"delay group d1: .*(ended|refused|no master)"):
            await messages.cancel("m1")
        assert REPEAT_SECONDS - 1 <= running_loop().now - began <= REPEAT_SECONDS + 1


async def test_a_group_without_slaves_is_not_waited_for() -> None:
    async with delay_group(members=1) as (scene, messages):
        scene.hosts["d1-a"].kill()
        began = running_loop().now
        with pytest.raises(QmqError, match=r"delay group d1: .*(ended|refused|no master)"):
            await messages.cancel("m1")
        assert running_loop().now - began < 1


async def test_a_request_that_a_former_master_rejects_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    async with delay_group() as (scene, messages):
        change, first = Changes.change, iter([True])

        async def rejected(self: Changes, request: ChangeDelayedRequest) -> ChangeDelayedResponse:
            if next(first, False):
                raise LogError("the log takes only what the group's master writes", code="log.slave")
            return await change(self, request)

        monkeypatch.setattr(Changes, "change", rejected)
        assert (await messages.cancel("m1")).outcome is Outcome.DONE
        assert scene.node("d1-a").store.pending == 9
