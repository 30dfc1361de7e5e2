"""What a slave writes of a master's log, and what it rejects."""

import random
from dataclasses import replace
from pathlib import Path

import pytest

from qmq.errors import LogError
from qmq_node.log.copied_log import COPIED_SEGMENT_BYTES_MAX, CopiedCommits, CopiedLog, CopyCheck, CopyRejected
from qmq_node.log.disk import SystemDisk
from qmq_node.log.log import SegmentedLog
from qmq_node.log.opening import inspect
from qmq_node.log.record import HEADER_BYTES, commit_crc, encode_crc
from qmq_node.log.truncation import Truncation
from tests.support.disks.memory_disk import MemoryDisk
from tests.support.drivers.copies import (
    FOLDER,
    SEGMENT,
    assert_prefix,
    changed,
    commits_of,
    header_of,
    master_log,
    opened_copy,
    sent,
    together,
)
from tests.support.drivers.logs import open_log
from tests.unit.qmq_node.log.logs import written


def copy_all(log: SegmentedLog, master: SegmentedLog, seed: int, *, is_copying: bool = False) -> CopiedLog:
    """Copy what the log lacks."""
    rng = random.Random(seed)
    copied = CopiedLog(log, epoch=master.epoch, is_copying=is_copying)
    for commits in sent(master, rng, log.written_end):
        copied.complete(copied.write(commits))
        if not is_copying:
            # A seal is not synced.
            assert log.synced_end <= log.written_end <= log.synced_end + HEADER_BYTES
    return copied


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("is_copying", [False, True])
def test_a_copy_has_the_bytes_epochs_and_segments_of_the_master(seed: int, is_copying: bool) -> None:
    master, disk = master_log(seed), MemoryDisk()
    log, _ = opened_copy(disk)
    copied = copy_all(log, master, seed, is_copying=is_copying)
    assert_prefix(log, master)
    assert (log.written_end, log.epochs, log.watermark.tails) == (master.written_end, master.epochs, {}), (
        "nothing is confirmed"
    )
    assert log.crc_at(log.written_end) == master.crc_at(master.written_end) is not None
    assert log.synced_end == (0 if is_copying else master.synced_end)
    copied.sync()
    assert log.synced_end == master.synced_end
    again, found = opened_copy(disk.after_power_cut())
    assert (again.written_end, found.damaged, again.epochs) == (master.written_end, (), master.epochs)
    assert again.stored.segments() == [info for info in master.stored.segments() if info.base < master.written_end]


def test_a_slave_that_is_promoted_continues_the_log() -> None:
    master, disk = master_log(), MemoryDisk()
    log, _ = opened_copy(disk)
    copy_all(log, master, 1)
    log.watermark.confirm(log.synced_end)
    log.begin_epoch(master.epoch + 1)
    end = written(log)
    log.watermark.confirm(end)
    again, found = opened_copy(disk.after_power_cut())
    assert (again.written_end, found.damaged, again.epoch) == (end, (), master.epoch + 1)


def test_commits_are_checked_against_those_written_before_though_the_loop_has_not_heard_of_them() -> None:
    master, disk = master_log(), MemoryDisk()
    log, _ = opened_copy(disk)
    copied = CopiedLog(log, epoch=master.epoch, is_copying=False)
    commits = list(commits_of(master))
    written_headers = [copied.write(commit) for commit in commits[:-1]]
    with pytest.raises(CopyRejected, match=f"epoch 1 after {master.epoch}"):
        copied.write(changed(commits[-1], epoch=1))
    for headers in (*written_headers, copied.write(commits[-1])):
        copied.complete(headers)
    assert (log.written_end, log.epochs) == (master.written_end, master.epochs)


def test_the_high_watermark_of_a_slave_is_what_it_was_told() -> None:
    master = master_log()
    log, _ = opened_copy(MemoryDisk())
    copied = CopiedLog(log, epoch=master.epoch, is_copying=False)
    ends = []
    for commit in commits_of(master):
        copied.complete(copied.write(commit))
        ends.append(log.written_end)
        assert log.watermark.unconfirmed_commits == len(ends)
    assert (log.high_watermark, log.watermark.position.offset) == (0, 0)
    log.watermark.confirm(ends[10])
    assert (log.high_watermark, log.watermark.position.offset) == (ends[10], ends[10])


def test_a_copy_may_begin_at_a_later_segment_while_it_is_being_copied() -> None:
    master, disk = master_log(), MemoryDisk()
    base = master.stored.segments()[2].base
    commits = list(commits_of(master, base))
    log, _ = opened_copy(disk)
    with pytest.raises(CopyRejected, match=f"segment {base}, in a log that has no segment yet"):
        CopiedLog(log, epoch=master.epoch, is_copying=False).write(commits[0])
    copied = CopiedLog(log, epoch=master.epoch, is_copying=True)
    for commit in commits:
        copied.complete(copied.write(commit))
    copied.sync()
    assert (log.begin, log.written_end) == (base, master.written_end)
    again, found = opened_copy(disk.after_power_cut())
    assert (again.begin, again.written_end, found.damaged) == (base, master.written_end, ())
    assert again.epochs == log.epochs


def test_segments_that_a_former_master_prepared_get_the_sizes_of_the_new_one() -> None:
    master, disk = master_log(), MemoryDisk()
    commits = list(commits_of(master))
    last = max(number for number, commit in enumerate(commits) if commit.segment_base == 0)
    log, _ = opened_copy(disk)
    copied = CopiedLog(log, epoch=master.epoch, is_copying=False)
    for commit in commits[: last + 1]:
        copied.complete(copied.write(commit))
    # As if it had been a master with other sizes.
    for base, size in ((SEGMENT, 5000), (SEGMENT + 5000, 30_000)):
        log.stored.files.create(base, size)
    copy_all(log, master, 1)
    assert_prefix(log, master)
    again, found = opened_copy(disk.after_power_cut())
    assert (again.written_end, found.damaged) == (master.written_end, ())


def test_a_new_folder_of_a_one_member_group_takes_the_sizes_of_the_master() -> None:
    master, disk = master_log(), MemoryDisk()
    open_log(disk, FOLDER, segment_bytes=4 * SEGMENT).close()
    log, _ = opened_copy(disk)
    assert [info.bytes for info in log.stored.segments()] == [4 * SEGMENT]
    copy_all(log, master, 1)
    assert_prefix(log, master)
    assert opened_copy(disk.after_power_cut())[0].written_end == master.written_end


def test_a_lost_first_segment_of_a_copy_is_noticed() -> None:
    master, disk = master_log(), MemoryDisk()
    log, _ = opened_copy(disk)
    copy_all(log, master, 1)
    del disk.names[f"{FOLDER}/{0:020d}"]
    assert [damage.why for damage in opened_copy(disk)[1].damaged] == ["the first segment is missing"]


def test_a_segment_without_commits_is_not_passed_over() -> None:
    _, commits = in_epoch_5()
    disk = MemoryDisk()
    open_log(disk, FOLDER, segment_bytes=SEGMENT).close()
    log, _ = opened_copy(disk)
    later = replace(commits[0], segment_base=SEGMENT, offset=SEGMENT)
    with pytest.raises(CopyRejected, match=f"segment {SEGMENT}, after the one from 0 to {SEGMENT}"):
        CopiedLog(log, epoch=7, is_copying=True).write(later)


# --- bad input ------------------------------------------------------------------------------------------------------


def with_bytes(commit: CopiedCommits, place: int, data: bytes) -> CopiedCommits:
    content = bytearray(commit.data)
    content[place : place + len(data)] = data
    return replace(commit, data=memoryview(content))


def of_format(commit: CopiedCommits, form: int) -> CopiedCommits:
    content = bytearray(commit.data)
    content[4:6] = form.to_bytes(2, "big")
    crc = commit_crc(content[: HEADER_BYTES - 4], content[HEADER_BYTES:])
    content[HEADER_BYTES - 4 : HEADER_BYTES] = encode_crc(crc)
    return replace(commit, data=memoryview(content))


def behind(commit: CopiedCommits) -> bytes:
    """A valid commit with the same records that follows this one."""
    header = header_of(commit)
    return bytes(changed(commit, offset=header.end, previous_crc=header.crc).data)


BAD = {
    "index entries of two commits": (
        CopyCheck.INDEX_ENTRIES,
        lambda c: replace(c, data=memoryview(bytes(c.data) + behind(c)), index_entries=bytes(64)),
        "64 bytes for 2 commits",
    ),
    "nothing": (CopyCheck.LENGTH, lambda c: replace(c, data=memoryview(b"")), "there is no commit"),
    "half a header": (CopyCheck.LENGTH, lambda c: replace(c, data=c.data[:63]), "63 bytes of a header of 64"),
    "half a body": (CopyCheck.LENGTH, lambda c: replace(c, data=c.data[:-1]), "bytes of"),
    "another magic": (CopyCheck.MAGIC, lambda c: with_bytes(c, 0, b"QMQX"), "it begins with 514d5158"),
    "another segment": (CopyCheck.SEGMENT, lambda c: replace(c, segment_base=c.segment_base + 1), "after the one from"),
    "a segment of another size": (
        CopyCheck.SEGMENT,
        lambda c: replace(c, segment_bytes=c.segment_bytes + 1),
        f"a segment of {SEGMENT + 1} bytes, which has {SEGMENT}",
    ),
    "an endless segment": (
        CopyCheck.SEGMENT,
        lambda c: replace(c, segment_bytes=COPIED_SEGMENT_BYTES_MAX + 1),
        f"the limit is {COPIED_SEGMENT_BYTES_MAX}",
    ),
    "a segment without room": (CopyCheck.SEGMENT, lambda c: replace(c, segment_bytes=63), "a segment of 63 bytes"),
    "a header of another segment": (CopyCheck.SEGMENT, lambda c: changed(c, segment_base=7), "it is of segment 7"),
    "a place further on": (CopyCheck.OFFSET, lambda c: replace(c, offset=c.offset + 1), "the next commit is at"),
    "a place before": (CopyCheck.OFFSET, lambda c: replace(c, offset=c.offset - 1), "the next commit is at"),
    "a header of another place": (CopyCheck.OFFSET, lambda c: changed(c, offset=5), "it was written at 5"),
    "flags": (CopyCheck.HEADER, lambda c: with_bytes(c, 6, b"\1"), "flags, reserved bytes or the size"),
    "an endless body": (CopyCheck.HEADER, lambda c: changed(c, body_bytes=1 << 31), "the size of its body"),
    "a flipped bit": (
        CopyCheck.CRC,
        lambda c: with_bytes(c, HEADER_BYTES, bytes([c.data[HEADER_BYTES] ^ 1])),
        "its bytes do not match it",
    ),
    "another format": (CopyCheck.FORMAT, lambda c: of_format(c, 9), "has format 9"),
    "a lost range while it follows": (
        CopyCheck.LOST,
        lambda c: replace(c, lost_from=c.offset),
        "it would leave out what is lost",
    ),
    "another chain": (CopyCheck.CHAIN, lambda c: changed(c, previous_crc=1), "it follows a commit with CRC 1, the one"),
    "an older epoch": (CopyCheck.EPOCH, lambda c: changed(c, epoch=1), "epoch 1 after 5, in a session of 7"),
    "an epoch above the session's": (CopyCheck.EPOCH, lambda c: changed(c, epoch=8), "epoch 8 after 5, in a session"),
    "what is synced behind it": (
        CopyCheck.SYNCED_TO,
        lambda c: changed(c, synced_to=c.offset + 1),
        "as synced, behind itself",
    ),
}


def in_epoch_5(size: int = 100) -> tuple[SegmentedLog, list[CopiedCommits]]:
    master = open_log(MemoryDisk(), FOLDER, segment_bytes=SEGMENT)
    master.begin_epoch(5)
    for _ in range(4):
        master.gather.append(1, bytes(size))
        taken = master.gather.take()
        assert taken is not None
        master.writer.write(taken)
        master.complete(taken)
    return master, list(commits_of(master))


OF_ALL = {
    "index entries of two commits",
    "nothing",
    "another segment",
    "a segment of another size",
    "an endless segment",
    "a segment without room",
    "a place further on",
    "a place before",
    "a lost range while it follows",
}
"""What is said of all commits that come together."""


@pytest.mark.parametrize(
    ("name", "is_together"), [*((name, False) for name in BAD), *((name, True) for name in BAD if name not in OF_ALL)]
)
def test_a_bad_commit_is_rejected_and_changes_nothing(name: str, is_together: bool) -> None:
    check, change, why = BAD[name]
    _, commits = in_epoch_5()
    disk = MemoryDisk()
    log, _ = opened_copy(disk)
    copied = CopiedLog(log, epoch=7, is_copying=False)
    copied.complete(copied.write(commits[0]))
    bad = change(commits[1])
    if is_together:
        copied.complete(copied.write(commits[1]))
        bad = together([commits[2], change(commits[3])])
    steps, end = disk.steps, log.written_end
    with pytest.raises(CopyRejected, match=why) as rejected:
        copied.write(bad)
    assert (rejected.value.check, rejected.value.code) == (check, "log.copy_rejected")
    assert rejected.value.offset == (header_of(commits[3]).offset if is_together else bad.offset)
    assert (disk.steps, log.writer.end, log.failed) == (steps, end, None)
    copied.complete(copied.write(commits[2 if is_together else 1]))
    assert log.written_end > end


def test_every_check_has_a_bad_commit() -> None:
    assert {check for check, _, _ in BAD.values()} == set(CopyCheck)


@pytest.mark.parametrize("place", [-1, 0, 1])
def test_a_commit_that_came_before_or_comes_later_is_rejected(place: int) -> None:
    _, commits = in_epoch_5()
    log, _ = opened_copy(MemoryDisk())
    copied = CopiedLog(log, epoch=7, is_copying=False)
    for commit in commits[:2]:
        copied.complete(copied.write(commit))
    with pytest.raises(CopyRejected, match="the next commit is at") as rejected:
        copied.write(commits[[1, 0, 3][place]])
    assert rejected.value.check is CopyCheck.OFFSET


def test_a_commit_larger_than_its_segment_is_rejected() -> None:
    _, commits = in_epoch_5()
    log, _ = opened_copy(MemoryDisk())
    small = replace(commits[0], segment_bytes=150)
    with pytest.raises(CopyRejected, match="it ends at 172, its segment at 150") as rejected:
        CopiedLog(log, epoch=7, is_copying=False).write(small)
    assert rejected.value.check is CopyCheck.SEGMENT


def test_a_master_takes_no_copies() -> None:
    _, commits = in_epoch_5()
    log, _ = opened_copy(MemoryDisk())
    copied = CopiedLog(log, epoch=7, is_copying=False)
    headers = copied.write(commits[0])
    with pytest.raises(ValueError, match="epoch 7 can't begin: records behind log offset 0"):
        log.begin_epoch(7)
    copied.complete(headers)
    log.begin_epoch(7)
    with pytest.raises(LogError, match="this node writes it as the master") as refused:
        copied.write(commits[1])
    assert refused.value.code == "log.not_slave"


def test_the_first_commit_of_all_follows_nothing() -> None:
    _, commits = in_epoch_5()
    log, _ = opened_copy(MemoryDisk())
    with pytest.raises(CopyRejected, match="it follows a commit with CRC 3, the one here has 0"):
        CopiedLog(log, epoch=7, is_copying=True).write(changed(commits[0], previous_crc=3))


def test_after_a_failed_write_the_copy_takes_no_more() -> None:
    _, commits = in_epoch_5()
    for what in ("write", "sync"):
        disk = MemoryDisk()
        log, _ = opened_copy(disk)
        copied = CopiedLog(log, epoch=7, is_copying=False)
        copied.complete(copied.write(commits[0]))
        disk.fail = lambda step, path, what=what: OSError(5, "injected") if step == what else None
        with pytest.raises(OSError, match="injected"):
            copied.write(commits[1])
        disk.fail = None
        with pytest.raises(LogError, match=r"the log has failed: .*injected"):
            copied.write(commits[1])


def test_a_seal_that_the_master_synced_at_its_restart_is_synced_before_the_next_commit() -> None:
    """The next commit names it as synced, which recovery takes for a proof."""
    disk = MemoryDisk()
    master = open_log(disk, FOLDER, segment_bytes=SEGMENT)
    written(master)
    taken = master.gather.seal_idle()
    assert taken is not None
    master.writer.write(taken, sync=False)
    master.complete(taken)
    master = open_log(disk, FOLDER, segment_bytes=SEGMENT)
    end = master.written_end
    assert master.synced_end == end
    written(master)
    copy = MemoryDisk()
    log, _ = opened_copy(copy)
    copied = CopiedLog(log, epoch=1, is_copying=False)
    first, seal, second = commits_of(master)
    for commit in (first, seal):
        copied.complete(copied.write(commit))
    assert log.synced_end == seal.offset
    copy.fail = lambda step, path: OSError(5, "injected") if step == "write" else None
    with pytest.raises(OSError, match="injected"):
        copied.write(second)
    assert log.synced_end == end
    assert inspect(copy.after_power_cut(), FOLDER, visit=lambda _: None).end == end


# --- files of the operating system ----------------------------------------------------------------------------------


def test_a_log_is_copied_truncated_and_copied_again_in_real_files(tmp_path: Path) -> None:
    master, disk, folder = master_log(), SystemDisk(), str(tmp_path / "data" / "log")
    ends = [header_of(commit).end for commit in commits_of(master)]
    target = len(ends) // 3
    end = 0
    for again in range(2):
        found = inspect(disk, folder, visit=lambda _: None)
        assert (found.end, found.damaged) == (end, ())
        log = SegmentedLog.activate(found, segment_bytes=4 * SEGMENT, is_only_member=False)
        copy_all(log, master, again)
        assert_prefix(log, master)
        if not again:
            end, crc = ends[target], log.crc_at(ends[target])
            assert crc is not None
            log.truncate(Truncation(end, crc, 2, "p-2"), high_watermark=0, checkpoint_offset=0)
    log.close()
    assert inspect(disk, folder, visit=lambda _: None).end == master.written_end


@pytest.mark.parametrize("commits_max", [1, 2, 7, 1000])
def test_the_parts_of_commits_are_the_commits(commits_max: int) -> None:
    commits = list(commits_of(master_log(record_bytes_max=50)))[3:]
    parts = list(together(commits).parts(commits_max))
    expected = [commits[begin : begin + commits_max] for begin in range(0, len(commits), commits_max)]
    assert parts == [together(group) for group in expected]


@pytest.mark.parametrize("left", [1, HEADER_BYTES - 1, HEADER_BYTES, HEADER_BYTES + 1])
def test_what_is_no_commit_is_in_the_last_part(left: int) -> None:
    commits = list(commits_of(master_log()))[:3]
    whole = together(commits)
    cut = replace(whole, data=whole.data[: commits[2].offset + left])
    parts = list(cut.parts(1))
    assert parts[:2] == commits[:2]
    assert b"".join(part.data for part in parts) == cut.data
    empty = replace(whole, data=whole.data[:left])
    assert list(empty.parts(1)) == [empty]
    log, _ = opened_copy(MemoryDisk())
    copied = CopiedLog(log, epoch=9, is_copying=False)
    for part in parts[:2]:
        copied.complete(copied.write(part))
    with pytest.raises(CopyRejected):
        copied.write(parts[2])
