"""Acks go to the disk with what comes after them: one sync for an ack and the consumer's next pull."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from broker_node.broker import Broker
from broker_node.reads.read_ahead import ReadAhead
from qmq.protocol.codes import Command, ResponseCode
from qmq.protocol.commands import AckRequest, PullRequest
from qmq.protocol.messages import encode_entry
from qmq_node.commits.committer import GATHER_SECONDS
from qmq_node.log.commit import SealedCommit
from qmq_node.log.writer import CommitWriter
from tests.sim.broker.connections import FakeConnection
from tests.sim.broker.sends import give
from tests.sim.world.loop import running_loop
from tests.support.drivers.in_process import Client, connected, message, running_broker
from tests.support.waiting import eventually_async


def ack(broker: Broker, sequence: int) -> FakeConnection:
    """One message acked."""
    connection = FakeConnection(1)
    give(broker, connection, Command.ACK_REQUEST, AckRequest("orders", "g", "c1", sequence, sequence, False).encode())
    return connection


async def pulled(client: Client) -> None:
    """Ten messages, of which the consumer has five."""
    await client.begin()
    await client.send(*(message(n) for n in range(10)))
    assert len((await client.pull(limit=5))[1]) == 5


async def test_an_ack_and_the_next_pull_share_a_commit(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker, connected(broker) as client:
        await pulled(client)
        await broker.committer.drain()
        before = broker.committer.commits
        acked = ack(broker, 0)
        await asyncio.sleep(GATHER_SECONDS / 2)
        assert not acked.codes
        request = PullRequest("orders", "g", "c1", 5, -1, 4, -1, False)
        pulling = FakeConnection(2)
        give(broker, pulling, Command.PULL_MESSAGE, request.encode())
        await eventually_async(lambda: acked.codes and pulling.codes)
        assert acked.codes == pulling.codes == [ResponseCode.SUCCESS]
        assert broker.committer.commits == before + 1


async def test_acks_alone_are_synced_and_answered_after_a_moment(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker, connected(broker) as client:
        await pulled(client)
        await broker.committer.drain()
        before, began = broker.committer.commits, asyncio.get_running_loop().time()
        acks = [ack(broker, sequence) for sequence in range(3)]
        await eventually_async(lambda: all(acked.codes for acked in acks))
        assert asyncio.get_running_loop().time() - began >= GATHER_SECONDS
        assert broker.committer.commits == before + 1


async def test_acks_that_arrive_during_a_commit_are_answered_without_another_request(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker, connected(broker) as client:
        await pulled(client)
        await broker.committer.drain()
        before, sending = broker.committer.commits, FakeConnection(2)
        give(broker, sending, Command.SEND_MESSAGE, encode_entry(message(20)))
        await asyncio.sleep(0)  # its commit begins
        acked = ack(broker, 0)
        await eventually_async(lambda: sending.codes)
        await eventually_async(lambda: acked.codes)
        assert broker.committer.commits == before + 2


async def test_a_node_that_stops_answers_the_acks_that_wait(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker, connected(broker) as client:
        await pulled(client)
        await broker.committer.drain()
        acked = ack(broker, 0)
    assert acked.codes == [ResponseCode.SUCCESS]


async def test_what_is_more_than_a_commit_holds_is_written_commit_after_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("qmq_node.log.gather.COMMIT_BYTES_TARGET", 500)
    # Nothing is synced by the timer of acks.
    monkeypatch.setattr("qmq_node.commits.committer.GATHER_SECONDS", 1_000.0)
    async with running_broker(tmp_path) as broker, connected(broker) as client:
        await client.send(message(0))
        before = broker.committer.commits
        sends = [FakeConnection(number) for number in range(6)]
        for number, sending in enumerate(sends):
            give(broker, sending, Command.SEND_MESSAGE, encode_entry(message(number)))
        await eventually_async(lambda: all(sending.codes for sending in sends))
        assert broker.committer.commits > before + 1


async def test_requests_of_clients_that_were_answered_together_share_the_next_commit(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:

        def send() -> FakeConnection:
            connection = FakeConnection(1)
            give(broker, connection, Command.SEND_MESSAGE, encode_entry(message(0)))
            return connection

        first = [send() for _ in range(3)]
        await broker.committer.drain()
        assert all(sending.codes for sending in first)
        before, second = broker.committer.commits, []
        for _ in range(3):
            assert broker.committer.commits == before, "each sends after the other, and the first waits for the last"
            second.append(send())
            await asyncio.sleep(GATHER_SECONDS / 10)
        await eventually_async(lambda: all(sending.codes for sending in second))
        assert broker.committer.commits == before + 1


async def test_a_request_is_answered_although_the_others_of_the_last_commit_do_not_come(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker, connected(broker) as client:
        await asyncio.gather(client.send(message(0)), client.send(message(1)))
        began = asyncio.get_running_loop().time()
        await client.send(message(2))
        assert asyncio.get_running_loop().time() - began < 10 * GATHER_SECONDS
        await broker.committer.drain()


@pytest.mark.parametrize("code", [Command.ACK_REQUEST, Command.SEND_MESSAGE])
async def test_a_node_that_stops_answers_at_once_what_would_wait_for_others(tmp_path: Path, code: int) -> None:
    async with running_broker(tmp_path) as broker, connected(broker) as client:
        await pulled(client)
        for number in (10, 11):
            give(broker, FakeConnection(number), Command.SEND_MESSAGE, encode_entry(message(number)))
        await broker.committer.drain()
        before, body = broker.committer.commits, AckRequest("orders", "g", "c1", 0, 0, False).encode()
        answer = client.caller.call_soon(code, encode_entry(message(12)) if code == Command.SEND_MESSAGE else body)
        await asyncio.sleep(GATHER_SECONDS / 2)
        assert (broker.committer.waiting, broker.committer.commits) == (1, before), "it waits for another request"
        began = asyncio.get_running_loop().time()
        await broker.close()
        assert (await answer).code == ResponseCode.SUCCESS
        assert asyncio.get_running_loop().time() - began < broker.drain_seconds / 2


async def test_work_for_the_time_of_a_sync_is_done_then_and_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_broker(tmp_path) as broker, connected(broker) as client:
        await client.send(message(0))
        synced = broker.committer.high_watermark
        done: list[tuple[bool, bool]] = []
        written = CommitWriter.write

        def slow(log: CommitWriter, commit: SealedCommit, **options: object) -> None:
            written(log, commit, **options)  # type: ignore[arg-type]
            running_loop().block(0.001)

        monkeypatch.setattr(CommitWriter, "write", slow)
        broker.committer.during_sync(
            lambda: done.append((broker.committer.is_idle, broker.committer.high_watermark > synced))
        )
        await client.send(message(1))
        await client.send(message(2))
        assert done == [(False, False)], "while the commit was on its way, and for one commit"


async def test_work_for_the_time_of_a_sync_is_also_done_when_a_commit_is_not_synced(tmp_path: Path) -> None:
    async with running_broker(tmp_path, flush="interval") as broker, connected(broker) as client:
        done: list[int] = []
        broker.committer.during_sync(lambda: done.append(1))
        for number in range(2):
            assert await client.send(message(number)) == {}
        assert done == [1]


async def test_histories_are_written_with_each_commit(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker, connected(broker) as client:
        await pulled(client)
        group = broker.store.subjects["orders"].groups["g"]
        assert group._history.end == group.history.end == 2


async def test_pulls_of_a_backlog_are_read_ahead_and_acked_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[bool] = []
    take = ReadAhead.take

    def noted(ahead: ReadAhead, *args: Any) -> Any:
        found = take(ahead, *args)
        taken.append(found is not None)
        return found

    monkeypatch.setattr(ReadAhead, "take", noted)
    async with running_broker(tmp_path) as broker, connected(broker) as client:
        await client.begin()
        await client.send(*(message(n) for n in range(60)))
        got: list[str] = []
        for at in range(0, 60, 10):
            got += (await client.pull(limit=10, last=at - 1))[1]
            await client.ack(at, at + 9)
        assert got == [message(n).message_id for n in range(60)]
        assert taken == [False, False, True, True, True, True]
        assert broker.store.subjects["orders"].groups["g"].acked_total == 60
