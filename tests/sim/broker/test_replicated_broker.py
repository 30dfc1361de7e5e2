"""A broker and a slave of it, joined by the storage engine alone: no network, no roles."""

import asyncio
from pathlib import Path

from broker_node.broker import Broker
from qmq_node.commits.applying import Applying
from qmq_node.log.commit import SealedCommit
from qmq_node.log.copied_log import CopiedCommits, CopiedLog
from tests.support.disks.memory_disk import MemoryDisk
from tests.support.drivers.copies import assert_prefix, commits_of
from tests.support.drivers.in_process import Client, connected, message, running_broker
from tests.support.drivers.replicas import opened_slave, state_of
from tests.support.promises import Check, judging


class SlaveOf:
    """Gets a broker's commits while the broker writes them, and confirms them."""

    def __init__(self, broker: Broker) -> None:
        self.disk = MemoryDisk()
        self._broker = broker
        self._sent: list[CopiedCommits] = []
        self.store, report = opened_slave(self.disk, 0)
        self.log = self.store.log
        self.copied = CopiedLog(self.log, epoch=1, is_copying=False)
        self.applying = Applying(self.log, report.replay)
        broker.log.writer.before_write = self._send
        broker.committer.on_stored = self._stored

    def catch_up(self) -> None:
        """Copy what the broker wrote before this slave came."""
        for commits in commits_of(self._broker.log, self.log.written_end):
            self._write(commits)

    def _send(self, commit: SealedCommit, header: bytes) -> None:
        info = self._broker.log.stored.segment_at(commit.segment_base)
        assert info is not None
        data = memoryview(b"".join((header, *commit.parts)))
        entries = b"".join(commit.index_entries)
        self._sent.append(CopiedCommits(info.base, info.bytes, commit.offset, data, entries))

    def _write(self, commits: CopiedCommits) -> None:
        headers = self.copied.write(commits)
        self.copied.complete(headers)
        self.applying.received(commits, headers)

    def _stored(self, end: int) -> None:
        for commits in self._sent:
            self._write(commits)
        self._sent.clear()
        self._broker.committer.confirm(min(end, self.log.synced_end))


async def use(client: Client, numbers: range) -> None:
    """Send, pull and ack."""
    for number in numbers:
        assert await client.send(message(number)) == {}
    pulled = 7 * (numbers.start // 20)
    sequence, ids = await client.pull(limit=7, last=pulled - 1)
    assert (sequence, len(ids)) == (pulled, 7)
    await client.ack(sequence, sequence + 3)


async def test_a_slave_has_the_masters_bytes_and_what_follows_from_them(tmp_path: Path) -> None:
    async with running_broker(tmp_path, segment_bytes=32 * 1024) as broker, connected(broker) as client:
        await client.begin()
        await use(client, range(20))
        await broker.committer.drain()
        slave = SlaveOf(broker)
        slave.catch_up()
        for begin in range(20, 200, 20):
            await use(client, range(begin, begin + 20))
            await slave.applying.advance(broker.committer.high_watermark)
        # Idle: a seal is written.
        await asyncio.sleep(1.0)
        await use(client, range(200, 220))
        await slave.applying.advance(broker.committer.high_watermark)
        assert len(broker.log.stored.segments()) > 1
        with judging(Check.COPIED):
            assert slave.log.written_end >= broker.log.gather.records_end
            assert_prefix(slave.log, broker.log)
        with judging(Check.APPLIED):
            assert state_of(slave.store)["subjects"] == state_of(broker.store)["subjects"]
        assert slave.store.counters.wrong_index_entries == 0
        # Everything that was answered is on the slave's disk.
        after, _ = opened_slave(slave.disk.after_power_cut(), broker.committer.high_watermark)
        with judging(Check.KEPT):
            assert state_of(after)["subjects"] == state_of(broker.store)["subjects"]
