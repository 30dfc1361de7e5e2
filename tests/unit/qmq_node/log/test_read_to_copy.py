"""What a master reads of its log to send it to a slave."""

import pytest

from qmq.errors import LogError
from qmq_node.log.copied_log import CopiedLog, read_to_copy
from tests.support.disks.memory_disk import MemoryDisk
from tests.support.drivers.copies import FOLDER, SEGMENT, assert_prefix, commits_of, header_of, master_log, opened_copy
from tests.support.drivers.logs import drop_before, open_log
from tests.unit.qmq_node.log.logs import commit


@pytest.mark.parametrize("bytes_max", [0, 64, 100, 3_000, 1 << 20])
def test_a_copy_of_what_is_read_is_the_log(bytes_max: int) -> None:
    master, disk = master_log(), MemoryDisk()
    log, _ = opened_copy(disk)
    copied = CopiedLog(log, epoch=master.epoch, is_copying=False)
    largest = max(len(one.data) for one in commits_of(master))
    calls = 0
    while (commits := read_to_copy(master, log.written_end, master.written_end, bytes_max)) is not None:
        assert len(commits.data) <= max(bytes_max, largest)
        copied.complete(copied.write(commits))
        calls += 1
    assert log.written_end == master.written_end
    assert_prefix(log, master)
    if bytes_max >= SEGMENT:
        assert calls == sum(info.base < master.written_end for info in master.stored.segments())
    if bytes_max <= 64:
        seals = sum(header_of(one).record_count == 0 for one in commits_of(master))
        assert calls >= len(list(commits_of(master))) - seals


def test_nothing_behind_the_end_is_read() -> None:
    master = master_log()
    ends = [header_of(one).end for one in commits_of(master)]
    for begin, end in zip(ends, ends[2:], strict=False):
        found = read_to_copy(master, begin, end, 1 << 20)
        assert found is not None
        assert begin <= found.offset < found.offset + len(found.data) <= end
        assert read_to_copy(master, end, end, 1 << 20) is None


def test_a_damaged_commit_is_not_sent() -> None:
    disk = MemoryDisk()
    log = open_log(disk, FOLDER, segment_bytes=SEGMENT)
    for _ in range(3):
        log.gather.append(1, b"record")
        commit(log)
    one, two, _ = commits_of(log)
    content = disk.names[f"{FOLDER}/{0:020d}"].content
    content[two.offset + 70] ^= 1
    with pytest.raises(LogError, match=f"log offset {two.offset}: the commit is damaged"):
        read_to_copy(log, 0, log.written_end, 1 << 20)
    assert read_to_copy(log, 0, two.offset, 1 << 20) == one
    content[two.offset] ^= 1
    log.gather.append(1, bytes(log.gather.record_bytes_max))
    commit(log)
    assert len(log.stored.segments()) > 1
    with pytest.raises(LogError, match=f"log offset {two.offset}: the commit is damaged"):
        read_to_copy(log, two.offset, log.written_end, 1 << 20)
    del disk.names[f"{FOLDER}/{0:020d}"].content[:]
    with pytest.raises(LogError, match="log offset 0: 0 of"):
        read_to_copy(log, 0, log.written_end, 1 << 20)


def test_what_retention_removed_is_an_error() -> None:
    master = master_log()
    drop_before(master, master.stored.segments()[1].end)
    with pytest.raises(LogError, match="log offset 0: no commit is kept there"):
        read_to_copy(master, 0, master.written_end, 1 << 20)
