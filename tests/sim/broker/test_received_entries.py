"""A slave uses the index entries that its master sends, if they are right, and is the same as without them."""

import logging
from collections.abc import Callable

import pytest

from broker_node.recovery import replay
from broker_node.storage.consume_log import ENTRY_BYTES
from qmq_node.commits import applying
from qmq_node.commits.applying import Applying
from qmq_node.log.commit import SealedCommit
from qmq_node.log.copied_log import CopiedCommits, CopiedLog
from qmq_node.log.record import HEADER_BYTES
from tests.support.disks.memory_disk import MemoryDisk
from tests.support.drivers.replicas import opened_slave, replayed, state_of
from tests.support.drivers.store_driver import StoreDriver

Change = Callable[[bytes, bytes], bytes]
"""Returns what a master sends instead of the index entries of a commit; the second argument is those of the commit before."""


class Followed:
    """A broker that runs a random scenario, and the commits that it would send."""

    def __init__(self, seed: int) -> None:
        self.driver = StoreDriver(MemoryDisk(), seed)
        self.sent: list[CopiedCommits] = []
        log = self.driver.store.log
        self.log = log

        def before_write(commit: SealedCommit, header: bytes) -> None:
            info = log.stored.segment_at(commit.segment_base)
            assert info is not None
            data = memoryview(b"".join((header, *commit.parts)))
            entries = b"".join(commit.index_entries)
            self.sent.append(CopiedCommits(info.base, info.bytes, commit.offset, data, entries))

        log.writer.before_write = before_write
        self.driver.run(150)
        self.driver.commit()

    async def slave(self, change: Change = lambda entries, before: entries) -> "Slave":
        """Return a slave that has applied everything, with other index entries if `change` returns any."""
        slave, before = Slave(), b""
        for commits in self.sent:
            slave.write(commits, change(bytes(commits.index_entries), before) if commits.index_entries else b"")
            before = bytes(commits.index_entries) or before
            await slave.applying.advance(slave.store.log.written_end)
        return slave


class Slave:
    """A slave's store, and what applies commits to it."""

    def __init__(self) -> None:
        self.disk = MemoryDisk()
        self.store, report = opened_slave(self.disk, 0)
        self.applying = Applying(self.store.log, report.replay)
        self._copied = CopiedLog(self.store.log, epoch=1, is_copying=False)

    def write(self, commits: CopiedCommits, entries: bytes) -> None:
        """Write commits, and keep them until they are applied, with these index entries."""
        headers = self._copied.write(commits)
        self._copied.complete(headers)
        received = CopiedCommits(commits.segment_base, commits.segment_bytes, commits.offset, commits.data, entries)
        self.applying.received(received, headers)

    @property
    def wrong(self) -> int:
        return self.store.counters.wrong_index_entries

    def check(self) -> None:
        """Compare the store with one that derives everything from the log."""
        end = self.store.log.high_watermark
        assert state_of(self.store) == state_of(replayed(self.disk, end))


@pytest.mark.parametrize("seed", range(3))
async def test_a_slave_makes_no_entries_of_commits_that_come_with_them(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    master, made = Followed(seed), 0
    encode_run = replay.encode_run

    def counting(*arguments: object) -> bytes:
        nonlocal made
        made += 1
        return encode_run(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(replay, "encode_run", counting)
    slave = await master.slave()
    assert (made, slave.wrong) == (0, 0)
    slave.check()
    assert made > 0, "the store to compare with has made them"


async def test_entries_are_those_that_a_slave_would_make() -> None:
    master = Followed(4)
    slave, without = await master.slave(), await master.slave(lambda entries, before: b"")
    assert state_of(slave.store) == state_of(without.store)
    assert without.wrong == 0


WRONG: dict[str, Change] = {
    "one entry is missing at the end": lambda entries, before: entries[:-ENTRY_BYTES],
    "one entry is missing at the beginning": lambda entries, before: entries[ENTRY_BYTES:],
    "one entry too many at the beginning": lambda entries, before: entries[:ENTRY_BYTES] + entries,
    "entries of the commit before": lambda entries, before: (before * len(entries))[: len(entries)],
    "zeros": lambda entries, before: bytes(len(entries)),
    "ones": lambda entries, before: b"\xff" * len(entries),
}


@pytest.mark.parametrize("change", WRONG.values(), ids=WRONG)
async def test_entries_of_other_messages_are_not_used(change: Change, caplog: pytest.LogCaptureFixture) -> None:
    master = Followed(2)
    with caplog.at_level(logging.ERROR, "qmq.broker"):
        slave = await master.slave(change)
    slave.check()
    assert slave.wrong > 0
    assert len([record for record in caplog.records if "index entries" in record.message]) == 1, "it is logged once"


async def test_entries_behind_the_last_record_are_ignored() -> None:
    slave = await Followed(2).slave(lambda entries, before: entries + entries)
    slave.check()


async def test_an_entry_that_changed_on_the_way_is_noticed_when_its_message_is_read() -> None:
    slave = await Followed(3).slave(lambda entries, before: entries[:20] + bytes([entries[20] ^ 1]) + entries[21:])
    subject = max(slave.store.subjects.values(), key=lambda subject: subject.visible_end)
    index = subject.consume_log
    entries = index.read(index.begin, index.end)
    raws = slave.store.message_log.read_raws(entries, cached_only=False)
    fresh = replayed(slave.disk, slave.store.log.high_watermark).subjects[subject.name].consume_log
    right = fresh.read(fresh.begin, fresh.end)
    assert None in raws
    for number, raw in enumerate(raws):
        place = slice(number * ENTRY_BYTES, (number + 1) * ENTRY_BYTES)
        assert (raw is not None) == (entries[place] == right[place])


async def test_entries_that_wait_to_be_applied_count_as_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    master, slave, expected = Followed(1), Slave(), 0
    for commits in master.sent:
        slave.write(commits, bytes(commits.index_entries))
        expected += len(commits.data) + len(commits.index_entries)
        assert slave.applying.at_hand_bytes == expected
    await slave.applying.advance(slave.store.log.written_end)
    assert slave.applying.at_hand_bytes in (0, HEADER_BYTES), "a seal at the end may be left"
    for room in range(1_000, 20_000, 1_000):
        monkeypatch.setattr(applying, "AT_HAND_BYTES_MAX", room)
        slave = Slave()
        for commits in master.sent:
            slave.write(commits, bytes(commits.index_entries))
            assert slave.applying.at_hand_bytes <= room
        await slave.applying.advance(slave.store.log.written_end)
        assert slave.wrong == 0
        slave.check()
