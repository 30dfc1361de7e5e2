"""A broker whose commits other nodes must store too: what waits for the high watermark, and what does not."""

import asyncio
from pathlib import Path

import pytest

from broker_node.broker import Broker
from qmq.errors import CommitNotApplied, LogError
from qmq.protocol.codes import Command, ResponseCode
from qmq.protocol.messages import encode_entry
from qmq.protocol.reasons import Reason
from qmq_node.commits.committer import UNCONFIRMED_COMMITS_MAX
from qmq_node.log.commit_ends import RECENT_COMMITS_MAX
from qmq_node.requests import sends
from qmq_node.requests.sends import SendHandler
from tests.sim.broker.connections import FakeConnection
from tests.sim.broker.sends import give
from tests.support.drivers.in_process import connected, message, running_broker
from tests.support.waiting import eventually_async


def waiting_frames(handler: SendHandler) -> int:
    """Sends that wait for slaves."""
    return sum(map(len, handler._waiting.values()))


def replicated(broker: Broker) -> list[int]:
    """Have commits wait for `confirm`; the ends of those that the broker's disk has."""
    stored: list[int] = []
    broker.committer.on_stored = stored.append
    return stored


async def sent(broker: Broker, number: int, stored: list[int]) -> FakeConnection:
    """Send a message that becomes a commit of its own."""
    connection, before = FakeConnection(number), len(stored)
    give(broker, connection, Command.SEND_MESSAGE, encode_entry(message(number)))
    await eventually_async(lambda: len(stored) > before)
    return connection


async def test_answers_and_visibility_wait_for_the_high_watermark_and_commits_do_not(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker, connected(broker) as client:
        await client.begin()
        committer, stored = broker.committer, replicated(broker)
        senders = [await sent(broker, number, stored) for number in range(3)]
        assert stored == sorted(set(stored))
        assert stored[-1] == broker.log.synced_end
        assert [sender.codes for sender in senders] == [[], [], []]
        assert broker.store.subjects["orders"].visible_end == 0
        assert (committer.waiting, committer.unconfirmed_bytes) == (3, stored[-1] - committer.high_watermark)
        committer.confirm(stored[0])
        assert [sender.codes for sender in senders] == [[ResponseCode.SUCCESS], [], []]
        assert committer.high_watermark == stored[0]
        pulling = asyncio.create_task(client.pull())
        await eventually_async(lambda: len(stored) == 4)
        assert not pulling.done(), "the assignment is not confirmed"
        committer.confirm(stored[3])
        assert await pulling == (0, ["m0"])
        assert [sender.codes for sender in senders] == [[ResponseCode.SUCCESS]] * 3
        # A seal may follow.
        assert committer.waiting == 0
        assert committer.unconfirmed_bytes in (0, 64)


async def test_a_wrong_confirmation_raises_and_answers_nothing(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        stored = replicated(broker)
        first, second = await sent(broker, 0, stored), await sent(broker, 1, stored)
        broker.committer.confirm(stored[0])
        for wrong in (stored[0] - 1, stored[1] - 1, stored[1] + 1):
            with pytest.raises(ValueError, match="the high watermark"):
                broker.committer.confirm(wrong)
        assert (first.codes, second.codes) == ([ResponseCode.SUCCESS], [])
        assert broker.committer.failed is None
        broker.committer.confirm(stored[1])
        assert second.codes == [ResponseCode.SUCCESS]


async def test_a_checkpoint_stands_at_the_high_watermark_and_is_saved_when_all_it_mentions_is_confirmed(
    tmp_path: Path,
) -> None:
    async with running_broker(tmp_path, checkpoint_seconds=0.0) as broker:
        stored, checkpoints = replicated(broker), broker.checkpoints
        await sent(broker, 0, stored)
        await sent(broker, 1, stored)
        broker.committer.confirm(stored[0])
        # The draft is taken now: it mentions both commits.
        await eventually_async(checkpoints.lock.locked)
        await sent(broker, 2, stored)
        await asyncio.sleep(5.0)
        assert checkpoints.saved == 0
        broker.committer.confirm(stored[1])
        await eventually_async(lambda: checkpoints.saved == 1)
        assert checkpoints.last_position.offset == stored[0]
        broker.committer.confirm(stored[2])


async def test_the_commits_above_the_high_watermark_are_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert UNCONFIRMED_COMMITS_MAX == 8_192 <= RECENT_COMMITS_MAX
    monkeypatch.setattr("qmq_node.commits.committer.UNCONFIRMED_COMMITS_MAX", 2)
    async with running_broker(tmp_path) as broker:
        stored = replicated(broker)
        senders = [await sent(broker, 0, stored), await sent(broker, 1, stored)]
        for number in (2, 3):
            senders.append(FakeConnection(number))
            give(broker, senders[-1], Command.SEND_MESSAGE, encode_entry(message(number)))
            await asyncio.sleep(1.0)
        assert len(stored) == 2
        broker.committer.confirm(stored[0])
        await eventually_async(lambda: len(stored) == 3)
        broker.committer.confirm(stored[2])
        assert all(sender.codes == [ResponseCode.SUCCESS] for sender in senders), "both records are in the third commit"


async def test_a_node_that_stops_does_not_wait_for_confirmations(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        stored = replicated(broker)
        await sent(broker, 0, stored)
        broker.committer.confirm(stored[0])
        sender = await sent(broker, 1, stored)
        waiting = asyncio.create_task(broker.committer.synced(broker.log.gather.records_end - 1))
        saved = broker.checkpoints.saved
        await broker.close()
        with pytest.raises(LogError, match="the node stops: the outcome is unknown"):
            await waiting
        assert (sender.codes, broker.checkpoints.saved) == ([], saved)


async def test_confirmed_commits_that_can_not_be_applied_end_the_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_broker(tmp_path) as broker:
        stored = replicated(broker)
        sender = await sent(broker, 0, stored)
        monkeypatch.setattr(broker.committer, "_on_synced", lambda _: 1 // 0)
        broker.committer.confirm(stored[0])
        assert isinstance(broker.committer.failed, CommitNotApplied)
        assert sender.codes == []
        broker.committer.confirm(stored[0])


async def test_a_group_of_one_that_was_larger_confirms_within_the_commit(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker, connected(broker) as client:
        broker.committer.on_stored = broker.committer.confirm
        await client.begin()
        assert await client.send(message(0)) == {}
        assert await client.pull() == (0, ["m0"])


# --- sends while slaves are slow -------------------------------------------------------------------------------------


async def test_sends_wait_while_too_much_is_unconfirmed_and_none_is_answered_busy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sends, "UNCONFIRMED_BYTES_MAX", 300)
    async with running_broker(tmp_path) as broker:
        stored, handler = replicated(broker), broker.handlers.sends
        first = [await sent(broker, number, stored) for number in range(2)]
        assert broker.committer.unconfirmed_bytes > 300
        later = [FakeConnection(number) for number in range(2, 6)]
        for number, connection in enumerate(later, 2):
            give(broker, connection, Command.SEND_MESSAGE, encode_entry(message(number)))
        await asyncio.sleep(5)
        assert (waiting_frames(handler), len(stored)) == (4, 2)
        assert broker.committer.unconfirmed_bytes < 600
        later[1].close()
        assert waiting_frames(handler) == 3, "a client that reconnects again and again uses no memory"
        while waiting_frames(handler) or broker.committer.waiting:
            count = len(stored)
            broker.committer.confirm(stored[-1])
            if broker.committer.waiting:
                await eventually_async(lambda count=count: len(stored) > count)  # type: ignore[misc]
        assert [connection.codes for connection in first] == [[ResponseCode.SUCCESS]] * 2
        assert [connection.codes for connection in later] == [
            [ResponseCode.SUCCESS], [], [ResponseCode.SUCCESS], [ResponseCode.SUCCESS],
        ]  # fmt: skip
        assert broker.store.subjects["orders"].visible_end == 5, "not that of the connection that is closed"
        assert handler.counters.send_failures.total() == 0


async def test_waiting_sends_are_rejected_once_sends_are_and_a_bad_one_stops_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sends, "UNCONFIRMED_BYTES_MAX", 100)
    async with running_broker(tmp_path) as broker:
        stored, handler = replicated(broker), broker.handlers.sends
        await sent(broker, 0, stored)
        bad, good = FakeConnection(1), FakeConnection(2)
        give(broker, bad, Command.SEND_MESSAGE, b"\x00")
        give(broker, good, Command.SEND_MESSAGE, encode_entry(message(2)))
        assert (waiting_frames(handler), bad.codes, good.codes) == (2, [], [])
        handler.resume()
        assert waiting_frames(handler) == 2
        broker.registration.operator_read_only = Reason("read only: a slave does not confirm")
        handler.resume()
        assert (bad.codes, good.codes) == ([ResponseCode.BROKER_ERROR], [ResponseCode.SUCCESS])
        assert handler.counters.send_failures == {"store_error": 1}


async def test_few_waiting_sends_are_handled_after_one_confirmation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sends, "UNCONFIRMED_BYTES_MAX", 100)
    monkeypatch.setattr(sends, "RESUMED_PER_CONFIRMATION", 3)
    async with running_broker(tmp_path) as broker:
        stored, handler = replicated(broker), broker.handlers.sends
        await sent(broker, 0, stored)
        for number in range(1, 9):
            give(broker, FakeConnection(number), Command.SEND_MESSAGE, encode_entry(message(number)))
        monkeypatch.setattr(sends, "UNCONFIRMED_BYTES_MAX", 1 << 20)
        broker.committer.confirm(stored[-1])
        assert waiting_frames(handler) == 5
        count = len(stored)
        await eventually_async(lambda: len(stored) > count)
        broker.committer.confirm(stored[-1])
        assert waiting_frames(handler) == 2
