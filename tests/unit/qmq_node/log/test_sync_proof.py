"""How far the commits of a slave are proven to be synced while they share syncs."""

import random

import pytest

from qmq.errors import LogError
from qmq_node.log.copied_log import CopiedLog
from qmq_node.log.log import SegmentedLog
from qmq_node.log.opening import inspect, remove_log
from qmq_node.log.record import Position
from qmq_node.log.sync_proof import SyncProof
from tests.support.disks.memory_disk import MemoryDisk
from tests.support.drivers.copies import FOLDER, commits_of, header_of, master_log, opened_copy, sent

PROOF = f"{FOLDER}.proof"
PAGE = 4096


def followed(share_from: int = 0) -> tuple[MemoryDisk, SegmentedLog, CopiedLog]:
    """A slave that has the whole log of a master; from one of its parts on, commits shared syncs."""
    disk, master = MemoryDisk(), master_log(2)
    log, _ = opened_copy(disk)
    copied = CopiedLog(log, epoch=master.epoch, is_copying=False)
    for number, part in enumerate(sent(master, random.Random(1))):
        if number == share_from:
            copied.share_syncs()
        copied.complete(copied.write(part))
    copied.sync()
    return disk, log, copied


def proven(disk: MemoryDisk) -> Position | None:
    return SyncProof(disk, FOLDER).load()


def test_what_shares_a_sync_counts_when_its_proof_is_durable() -> None:
    disk, master = MemoryDisk(), master_log(2)
    log, _ = opened_copy(disk)
    copied = CopiedLog(log, epoch=master.epoch, is_copying=False)
    first, second, *_ = sent(master, random.Random(1))
    copied.complete(copied.write(first))
    end = log.synced_end
    copied.share_syncs()
    assert proven(disk.after_power_cut()) == Position(end, log.writer.chain)
    copied.complete(copied.write(second))
    assert (log.synced_end, log.written_end) == (end, second.offset + len(second.data))
    synced = list[str]()
    disk.observe = lambda what, path: synced.append(path) if what == "sync" else None
    copied.sync()
    assert [path.rpartition("/")[2] for path in synced] == [f"{0:020}", "log.proof"]
    assert log.synced_end == log.gather.records_end <= log.written_end
    assert proven(disk.after_power_cut()) == Position(log.written_end, log.writer.chain)


def test_a_failed_proof_ends_the_log_and_nothing_counts() -> None:
    for failing in ("create", "write", "sync", "sync_dir", "remove"):
        disk, log, copied = followed(share_from=100)
        end = log.synced_end
        if failing == "remove":
            copied.share_syncs()
        disk.fail = lambda what, path, failing=failing: OSError(5, "bad disk") if what == failing else None  # type: ignore[misc]
        with pytest.raises(OSError, match="bad disk"):
            (copied.sync_each if failing == "remove" else copied.share_syncs)()
        assert (log.synced_end, log.failed is None) == (end, False)
        disk.fail = None
        again, found = opened_copy(disk.after_power_cut())
        assert (again.written_end, found.damaged) == (end, ())


def test_what_opening_keeps_is_synced_and_needs_no_proof() -> None:
    disk, log, _ = followed()
    assert proven(disk) is not None
    again, found = opened_copy(disk.after_kill())
    assert (again.synced_end, found.damaged, again.writer.shares_syncs) == (log.written_end, (), False)
    assert PROOF not in found.disk.names  # type: ignore[attr-defined]


def test_without_shared_syncs_there_is_no_file_and_no_further_sync() -> None:
    syncs = list[str]()
    disk, master = MemoryDisk(), master_log(2)
    log, _ = opened_copy(disk)
    copied = CopiedLog(log, epoch=master.epoch, is_copying=False)
    parts = sent(master, random.Random(1))
    for part in parts:
        copied.complete(copied.write(part))
    disk.observe = lambda what, path: syncs.append(path)
    copied.sync_each()
    opened_copy(disk)
    assert not [path for path in syncs if path.endswith(".proof")]


def test_a_log_that_ends_below_the_proof_lacks_acknowledged_bytes_and_keeps_it() -> None:
    disk, log, _ = followed()
    last = list(commits_of(log))[-1]
    header = header_of(last)
    inode = disk.names[f"{FOLDER}/{last.segment_base:020}"]
    inode.content[header.offset - last.segment_base + 70] ^= 1
    for _ in range(2):
        again, found = opened_copy(disk)
        assert [(damage.begin, damage.end) for damage in found.damaged] == [(header.offset, header.end)]
        assert str(again.failed) == (
            f"the log lacks acknowledged bytes from offset {header.offset} to {header.end} at its end"
        )
    assert proven(disk) == Position(header.end, header.crc)


def test_the_only_member_steps_past_what_is_lost_below_the_proof() -> None:
    disk, log, _ = followed()
    last = list(commits_of(log))[-1]
    disk.names[f"{FOLDER}/{last.segment_base:020}"].content[last.offset - last.segment_base + 70] ^= 1
    found = inspect(disk, FOLDER, visit=lambda _: None)
    again = SegmentedLog.activate(found, segment_bytes=1 << 16)
    assert again.begin == 0
    assert again.written_end >= log.written_end
    assert proven(disk) is None


def test_the_proof_of_another_log_is_an_error() -> None:
    disk, log, _ = followed()
    for wrong in (Position(log.written_end, 7), Position(log.written_end - 1, log.writer.chain)):
        proof = SyncProof(disk, FOLDER)
        proof.load()
        proof.save(wrong)
        with pytest.raises(LogError, match=f"log.proof can't be used: .* CRC {wrong.chain} .* offset {wrong.offset}"):
            inspect(disk, FOLDER, visit=lambda _: None)


def test_pages_that_can_not_be_used() -> None:
    disk, _, copied = followed()
    newest = proven(disk)
    content = disk.names[PROOF].content
    pages = [bytes(content[:PAGE]), bytes(content[PAGE:])]
    # One page is damaged, or was being written: the other one counts. Then nothing above the older proof counts as
    # confirmed.
    found = set()
    for number in range(2):
        content[number * PAGE + 3] ^= 1
        found.add(proven(disk))
        content[:] = b"".join(pages)
    assert newest in found
    assert len(found) == 2
    for at in (3, PAGE + 3):
        content[at] ^= 1
    with pytest.raises(LogError, match="move the data folder away"):
        proven(disk)
    # The first write of all was interrupted: commits have not shared a sync yet.
    content[:] = bytes(PAGE) + pages[1][:9] + bytes(PAGE - 9)
    assert proven(disk) is None
    content[:] = bytes(2 * PAGE)
    assert proven(disk) is None
    opened_copy(disk)
    assert PROOF not in disk.names
    disk.fail_read = lambda path, offset, size: OSError(5, "bad page") if path == PROOF else None
    copied.share_syncs()
    disk.create(PROOF, 2 * PAGE)
    with pytest.raises(LogError, match="bad page"):
        proven(disk)


def test_a_log_is_removed_with_its_proof() -> None:
    disk, _, _ = followed()
    remove_log(disk, FOLDER)
    assert proven(disk.after_power_cut()) is None
    assert PROOF not in disk.names
