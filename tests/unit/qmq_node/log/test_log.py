"""The engine on a disk in memory: what it keeps, what it says of damage, what it refuses."""

import contextlib

import pytest

from qmq.errors import LogError
from qmq_node.log.checkpoint import CheckpointStore
from qmq_node.log.commit import COMMIT_BYTES_TARGET, RECORD_BYTES_MAX
from qmq_node.log.handles import HandleCache
from qmq_node.log.index import DenseIndex
from qmq_node.log.log import SegmentedLog
from qmq_node.log.record import HEADER_BYTES, Position
from qmq_node.log.recovery import Damage
from qmq_node.log.retention import SegmentAge, keep_from
from qmq_node.log.segment import Segments
from tests.support.disks.memory_disk import MemoryDisk, SimulatedCrash
from tests.support.drivers.indexes import flush
from tests.support.drivers.logs import drop_before
from tests.unit.qmq_node.log.logs import SEGMENT, commit, filled, opened


def test_what_was_written_is_read_back_over_many_segments() -> None:
    disk = MemoryDisk()
    log, written = filled(disk, 60)
    assert len(log.stored.segments()) > 3
    for offset, _, payload in written:
        assert log.stored.read(offset, len(payload)) == payload
        assert log.stored.read_cached(offset, len(payload)) == payload
    again, found = opened(disk.after_kill())
    assert [(o, p) for o, _, p in found] == [(o, p) for o, _, p in written]
    assert (again.stored.damaged, again.torn_bytes) == ((), 0)
    assert again.written_end == log.written_end


def test_opening_from_a_position_visits_only_what_comes_after() -> None:
    disk = MemoryDisk()
    log, first = filled(disk, 20)
    position = log.watermark.position
    payload = b"later"
    offset = log.gather.append(9, payload)
    commit(log)
    _, found = opened(disk.after_kill(), start=position, synced_to=position.offset)
    assert found == [(offset, 9, payload)]
    assert first


def test_a_commit_whose_sync_failed_is_not_taken_from_the_page_cache_by_the_next_start() -> None:
    disk = MemoryDisk()
    log, written = filled(disk, 5)
    end = log.written_end
    log.gather.append(1, b"x" * 500)
    taken = log.gather.take()
    assert taken is not None
    disk.fail = lambda what, _: OSError(5, "injected") if what == "sync" else None
    with pytest.raises(OSError, match="injected"):
        log.writer.write(taken)
    disk.fail = None
    after = disk.after_process_end()
    # The kernel counts the pages as written, so no later sync writes them.
    after.names[max(after.names)].sync_failed()
    again, found = opened(after)
    assert (again.written_end, len(found)) == (end, len(written))


def test_a_torn_commit_at_the_end_is_cleared_and_writing_goes_on_there() -> None:
    disk = MemoryDisk()
    log, written = filled(disk, 5)
    end = log.written_end
    log.gather.append(1, b"x" * 500)
    taken = log.gather.take()
    assert taken is not None
    log.writer.write(taken, sync=False)
    after = disk.after_kill()
    name = max(after.names)
    place = taken.offset - taken.segment_base + HEADER_BYTES + 100
    after.names[name].content[place] ^= 1
    again, found = opened(after)
    assert len(found) == len(written)
    assert again.torn_bytes > 0
    assert again.written_end == end
    offset = again.gather.append(2, b"new")
    commit(again)
    _, found = opened(after.after_kill())
    assert found[-1] == (offset, 2, b"new")


def test_clearing_a_torn_segment_leaves_no_gap_before_an_empty_one() -> None:
    disk = MemoryDisk()
    log, written = filled(disk, 5)
    segments = Segments(disk, "log")
    first, second = segments.create(SEGMENT, SEGMENT), segments.create(2 * SEGMENT, SEGMENT)
    disk.names[segments.path(first.base)].content[100:200] = b"x" * 100
    for crash_at in range(1, 12):
        left = disk.after_kill()
        left.crash_at = left.steps + crash_at
        with contextlib.suppress(SimulatedCrash):
            opened(left)
        again, found = opened(left.after_kill())
        assert (again.stored.damaged, again.written_end, len(found)) == ((), log.written_end, len(written))
    assert second.base not in [info.base for info in again.stored.segments()]


def test_damage_in_the_middle_is_stepped_over_and_never_cut() -> None:
    disk = MemoryDisk()
    log, written = filled(disk, 40)
    commit(log, seal=True)
    after = disk.after_kill()
    victim = written[len(written) // 2]
    info = next(s for s in log.stored.segments() if s.base <= victim[0] < s.end)
    after.names[f"log/{info.base:020d}"].content[victim[0] - info.base] ^= 8
    again, found = opened(after)
    (damage,) = again.stored.damaged
    assert damage.begin <= victim[0] < damage.end
    kept = {o for o, _, _ in found}
    assert kept == {o for o, _, _ in written if not damage.begin <= o < damage.end}
    assert again.written_end == log.written_end


def test_damage_at_the_end_of_what_was_synced_is_left_as_it_is_and_the_log_goes_on_behind_it() -> None:
    disk = MemoryDisk()
    log, written = filled(disk, 10)
    end = log.written_end
    after = disk.after_kill()
    last = written[-1]
    base = max(s.base for s in log.stored.segments() if s.base <= last[0])
    after.names[f"log/{base:020d}"].content[last[0] - base] ^= 8
    before = bytes(after.names[f"log/{base:020d}"].content[: end - base])
    again, _ = opened(after, synced_to=end)
    assert again.stored.damaged
    assert again.written_end >= end
    offset = again.gather.append(1, b"on we go")
    commit(again)
    assert bytes(after.names[f"log/{base:020d}"].content[: end - base]) == before
    third, found = opened(after.after_kill(), synced_to=end)
    assert found[-1][0] == offset
    assert third.stored.damaged


def test_a_record_larger_than_the_limit_is_refused_and_commits_are_closed_at_their_target() -> None:
    log, _ = opened(MemoryDisk())
    with pytest.raises(LogError, match="limit"):
        log.gather.append(1, bytes(SEGMENT))
    assert COMMIT_BYTES_TARGET < RECORD_BYTES_MAX
    for _ in range(20):
        log.gather.append(1, bytes(2000))
    taken = log.gather.take()
    assert taken is not None
    assert taken.end <= SEGMENT


def test_a_log_of_another_format_is_refused_with_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = MemoryDisk()
    log, _ = opened(disk)
    log.gather.append(1, b"x")
    with monkeypatch.context() as newer:
        newer.setattr("qmq_node.log.record.COMMIT_FORMAT", 9)
        commit(log)
    with pytest.raises(LogError, match="log offset 0 has format 9, this version reads 1"):
        opened(disk.after_kill())


def test_a_flipped_bit_in_the_format_of_a_commit_is_damage() -> None:
    disk = MemoryDisk()
    log, written = filled(disk, 20)
    (name,) = [name for name in disk.names if name.endswith(f"/{0:020d}")]
    disk.names[name].content[5] ^= 2
    again, found = opened(disk.after_kill())
    assert [damage.begin for damage in again.stored.damaged] == [0]
    assert again.written_end == log.written_end
    assert 0 < len(written) - len(found) <= 4


def test_whole_segments_are_dropped_and_reading_them_says_so() -> None:
    disk = MemoryDisk()
    log, written = filled(disk, 60)
    cut = log.stored.segments()[2].base
    assert drop_before(log, cut + 5) == [0, SEGMENT]
    assert log.begin == cut
    with pytest.raises(LogError, match="not in one kept segment"):
        log.stored.read(written[0][0], 5)
    again, found = opened(disk.after_kill())
    assert again.stored.damaged == ()
    assert found[0][0] > cut


def test_dropped_segments_are_deleted_oldest_first_and_a_crash_leaves_no_gap() -> None:
    total = None
    crash_at = 0
    while total is None or crash_at < total:
        disk = MemoryDisk()
        log, _ = filled(disk, 60)
        bases = [info.base for info in log.stored.segments()]
        cut, begin = bases[4], disk.steps
        assert log.hide_before(cut) == bases[:4]
        assert (log.begin, disk.steps, log.stored.hidden_segments) == (cut, begin, 4)
        if total is not None:
            disk.crash_at = begin + crash_at
        with contextlib.suppress(SimulatedCrash):
            log.stored.delete_hidden(2)
            log.stored.delete_hidden(99)
            assert log.stored.hidden_segments == 0
        if total is None:
            total = disk.steps - begin
            assert total == 12, "the begin is recorded before each two"
            continue
        for state in disk.crash_states(5, crash_at):
            again, _ = opened(state)
            assert again.stored.damaged == (), crash_at
            assert again.begin in bases[:5]
        crash_at += 1


def test_a_deletion_that_fails_is_tried_again_and_nothing_newer_goes_before() -> None:
    disk = MemoryDisk()
    log, _ = filled(disk, 60)
    bases = [info.base for info in log.stored.segments()]
    second = f"log/{bases[1]:020d}"
    disk.fail = lambda what, path: OSError(5, "injected") if what == "remove" and path == second else None
    log.hide_before(bases[3])
    with pytest.raises(OSError, match="injected"):
        log.stored.delete_hidden(99)
    assert log.stored.hidden_segments == 2
    assert opened(disk.after_kill())[0].begin == bases[1]
    disk.fail = lambda what, _: OSError(5, "injected") if what == "sync_dir" else None
    with pytest.raises(OSError, match="injected"):
        log.stored.delete_hidden(99)
    disk.fail = None
    log.stored.delete_hidden(99)
    assert log.stored.hidden_segments == 0
    assert opened(disk.after_kill())[0].begin == bases[3]


def test_a_segment_is_made_ahead_and_used() -> None:
    disk = MemoryDisk()
    log, _ = opened(disk)
    assert not log.prepare_next(), "an empty log sets aside one segment only"
    log.gather.append(1, b"first")
    commit(log)
    assert log.prepare_next()
    assert not log.prepare_next()
    assert log.gather.prepared_bytes == SEGMENT
    assert log.gather.room_bytes == 2 * SEGMENT - log.written_end
    again, _ = opened(disk.after_kill())
    assert again.gather.prepared_bytes == SEGMENT
    assert not again.prepare_next()


def test_segments_grow_with_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qmq_node.log.segment.FIRST_SEGMENT_BYTES", 4096)
    disk = MemoryDisk()
    log, written = filled(disk, 60)
    assert [info.bytes for info in log.stored.segments()][:5] == [4096, 4096, 8192, SEGMENT, SEGMENT]
    again, found = opened(disk.after_kill())
    assert (again.stored.damaged, [o for o, _, _ in found]) == ((), [o for o, _, _ in written])


def test_two_small_segments_are_created_ahead_of_a_fast_producer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qmq_node.log.segment.FIRST_SEGMENT_BYTES", 4096)
    monkeypatch.setattr("qmq_node.log.gather.PREPARE_AHEAD_BYTES", 6144)
    log, _ = opened(MemoryDisk())
    log.gather.append(1, b"first")
    assert log.prepare_next()
    assert not log.prepare_next()
    log.gather.append(1, bytes(2048))
    assert log.gather.room_bytes < 6144
    assert log.prepare_next()
    assert not log.prepare_next()
    assert [info.bytes for info in log.stored.segments()] == [4096, 4096, 8192]


@pytest.mark.parametrize("mutation", range(5))
def test_a_kill_while_a_segment_is_created_leaves_none_or_a_whole_one(mutation: int) -> None:
    """Of 1 GiB, part may be allocated when the process is killed; the log must not take that for a short segment."""
    disk = MemoryDisk()
    log, _ = opened(disk)
    log.gather.append(1, b"first")
    commit(log)
    disk.crash_at = disk.steps + mutation
    try:
        log.prepare_next()
    except SimulatedCrash:
        pass
    else:
        assert mutation == 4, "creating a segment takes four mutations"
    for left in disk.after_kill(), *disk.crash_states(20, mutation):
        again, _ = opened(left)
        assert {info.bytes for info in again.stored.segments()} == {SEGMENT}
        while len(again.stored.segments()) < 4:
            again.gather.append(1, bytes(3000))
            commit(again)
        last, found = opened(left.after_kill())
        assert (last.stored.damaged, len(left.list_dir("log"))) == ((), 4)
        assert found[0][2] == b"first"


def test_checkpoints_are_replaced_whole_and_a_damaged_one_is_passed_over(caplog: pytest.LogCaptureFixture) -> None:
    disk = MemoryDisk()
    store = CheckpointStore(disk, "check", "c")
    assert store.load() is None
    for number in range(4):
        store.save([b"state", b" %d" % number], Position(number, 7), number)
    assert len(disk.list_dir("check")) == 2
    found = store.load()
    assert found is not None
    assert (found.state, found.log_position, found.synced_to) == (b"state 3", Position(3, 7), 3)
    newest = max(disk.names)
    for place in range(len(disk.names[newest].content)):
        disk.names[newest].content[place] ^= 1
        older = store.load()
        assert older is not None
        assert older.state == b"state 2", place
        assert newest in caplog.text
        caplog.clear()
        disk.names[newest].content[place] ^= 1


def test_an_index_keeps_entry_n_at_n_over_files_memory_and_restarts() -> None:
    disk = MemoryDisk()
    handles = HandleCache(disk, 2)

    def index() -> DenseIndex:
        return DenseIndex(handles, "index", 4, segment_entries=10)

    def entries(begin: int, end: int) -> bytes:
        return b"".join(n.to_bytes(4, "big") for n in range(begin, end))

    first = index()
    first.append(entries(0, 7))
    assert first.read(2, 5) == entries(2, 5)
    flush(first)
    first.append(entries(7, 34))
    assert first.read(5, 9) == entries(5, 9)
    flush(first)
    first.append(entries(34, 36))
    assert (first.begin, first.end, first.flushed_end) == (0, 36, 34)
    assert first.read(0, 100) == entries(0, 36)
    again = index()
    assert (again.begin, again.end) == (0, 34)
    again.hide_before(15)
    assert (again.read(0, 20), again.has_hidden_files, index().begin) == (entries(15, 20), True, 0)
    again.delete_before(15)
    again.deleted_before(15)
    assert (again.read(0, 20), again.has_hidden_files, index().begin) == (entries(15, 20), False, 10)
    again.truncate(23)
    again.append(entries(23, 25))
    assert again.read(15, 99) == entries(15, 25)
    again.repair(24, b"zzzz")
    again.repair(16, b"yyyy")
    assert again.read(24, 25) + again.read(16, 17) == b"zzzzyyyy"
    again.start_at(100)
    again.append(entries(100, 101))
    assert (again.begin, again.end) == (100, 101)


def test_what_is_repaired_while_it_is_being_written_is_in_the_files_afterwards() -> None:
    index = DenseIndex(HandleCache(MemoryDisk(), 2), "index", 4, segment_entries=10)
    index.append(b"aaaabbbbcccc")
    index.take()
    index.append(b"dddd")
    index.write()
    index.repair(1, b"BBBB")
    index.repair(3, b"DDDD")
    assert index.read(0, 4) == b"aaaaBBBBccccDDDD"
    index.written()
    assert index.read(0, 4) == b"aaaaBBBBccccDDDD"
    flush(index)
    assert index.read(0, 4) == b"aaaaBBBBccccDDDD"


def test_segments_go_by_age_or_size_but_never_above_what_is_needed() -> None:
    segments = [SegmentAge(n * 10, n * 10 + 10, n * 1000) for n in range(5)]

    def cut(**changes: int) -> int:
        return keep_from(segments, **{"before_ms": 1_500, "keep_bytes": 0, "floor": 100, **changes})

    assert cut() == 20
    assert cut(floor=15) == 10
    assert cut(before_ms=9_900) == 40
    assert cut(before_ms=0, keep_bytes=30) == 20
    assert cut(before_ms=0) == 0


def test_a_segment_of_unknown_age_is_as_old_as_the_next_newer_one_that_is_known() -> None:
    def cut(*newest: int | None) -> int:
        segments = [SegmentAge(n * 10, n * 10 + 10, at_ms) for n, at_ms in enumerate(newest)]
        return keep_from(segments, before_ms=5_000, keep_bytes=0, floor=100)

    assert cut(1, None, 2, 3, 9_000) == 40
    assert cut(None, None, 2, 9_000) == 30
    assert cut(1, None, 9_000, 9_000) == 10
    assert cut(1, None, None) == 10
    assert cut(None, None) == 0


def test_a_view_reads_an_index_as_it_was_while_the_index_goes_on() -> None:
    disk = MemoryDisk()
    index = DenseIndex(HandleCache(disk, 2), "index", 4, segment_entries=10)

    def entries(begin: int, end: int) -> bytes:
        return b"".join(n.to_bytes(4, "big") for n in range(begin, end))

    index.append(entries(0, 25))
    flush(index)
    index.append(entries(25, 33))
    for begin in (0, 5, 12, 25, 28, 33, 40):
        for end in (0, 5, 20, 25, 30, 33, 50):
            view = index.view(begin, end)
            assert view.read(0, 99) == entries(begin, min(end, 33)), (begin, end)
            assert view.read(begin + 2, end - 2) == entries(begin + 2, min(end - 2, 33)), (begin, end)
    whole = index.view(0, 99)
    flush(index)
    index.append(entries(33, 50))
    flush(index)
    assert (whole.begin, whole.end, whole.read(0, 99)) == (0, 33, entries(0, 33))
    index.hide_before(15)
    index.delete_before(15)
    index.deleted_before(15)
    assert index.read(0, 99) == entries(15, 50)
    assert whole.read(15, 99) == entries(15, 33)
    with pytest.raises(LogError, match="index"):
        whole.read(0, 99)


def test_a_cut_index_has_no_file_behind_its_end_not_even_an_empty_one() -> None:
    """A crash may leave one before its first entry was written; its number is free for another index over the folder."""
    disk = MemoryDisk()
    handles = HandleCache(disk)
    index = DenseIndex(handles, "index", 4)
    index.append(bytes(4 * 7))
    flush(index)
    disk.create("index/00000000000000000007", 0)
    index = DenseIndex(handles, "index", 4)
    index.truncate(7)
    assert list(index.firsts) == [0]
    assert (index.begin, index.end) == (0, 7)
    assert list(disk.names) == ["index/00000000000000000000"]


def test_an_index_that_begins_beside_other_files_leaves_them_alone() -> None:
    disk = MemoryDisk()
    handles = HandleCache(disk)
    index = DenseIndex(handles, "index", 4)
    index.append(bytes(4 * 7))
    flush(index)
    other = DenseIndex(handles, "index", 4, begin=9)
    other.append(b"abcd")
    flush(other)
    assert other.read(0, 100) == b"abcd"
    assert (other.begin, other.end) == (9, 10)
    index.start_at(index.end)
    assert list(disk.names) == ["index/00000000000000000009"]
    assert other.read(0, 100) == b"abcd"


def several(disk: MemoryDisk, segments: int) -> SegmentedLog:
    """A log with so many segments, three commits in each."""
    log, _ = opened(disk)
    while len(log.stored.segments()) < segments or log.gather.appended_end < log.stored.segments()[-1].base + 9000:
        log.gather.append(1, bytes(4500))
        commit(log)
    return log


def test_a_lost_first_segment_is_noticed_at_each_start_until_retention_passes_it() -> None:
    disk = MemoryDisk()
    log = several(disk, 5)
    first, second, third = (info.base for info in log.stored.segments()[:3])
    log.close()
    del disk.names[f"log/{first:020d}"]
    for _ in range(2):
        log, _ = opened(disk)
        assert [(damage.begin, damage.end, damage.why) for damage in log.stored.damaged] == [
            (first, second, "the first segment is missing")
        ]
        assert log.begin == first, "what was there is lost, and has not expired"
        log.close()
    log, _ = opened(disk)
    drop_before(log, third)
    assert (log.stored.damaged, log.begin) == ((), third)
    log.close()
    assert opened(disk)[0].stored.damaged == ()


def test_retention_is_not_mistaken_for_loss_whenever_the_process_ends() -> None:
    disk = MemoryDisk()
    log = several(disk, 5)
    cut = log.stored.segments()[3].base
    disk.crash_at = None
    begin = disk.steps
    log.hide_before(cut)
    log.stored.delete_hidden(8)
    steps = disk.steps - begin
    for crash_at in range(steps):
        disk = MemoryDisk()
        log = several(disk, 5)
        disk.crash_at = disk.steps + crash_at
        log.hide_before(cut)
        with pytest.raises(SimulatedCrash):
            log.stored.delete_hidden(8)
        for left in (disk.after_kill(), *disk.crash_states(10, crash_at)):
            assert opened(left)[0].stored.damaged == ()


def test_only_the_last_commit_of_a_segment_is_damage_when_a_bit_in_it_flips() -> None:
    disk = MemoryDisk()
    log = several(disk, 4)
    base, tail = log.stored.segments()[1].base, log.watermark.tails[log.stored.segments()[1].base]
    end = log.stored.segments()[1].end
    position, tails, synced_to = log.watermark.position, dict(log.watermark.tails), log.synced_end
    log.close()
    disk.names[f"log/{base:020d}"].content[tail.offset - base + HEADER_BYTES + 100] ^= 1
    again, _ = opened(disk, start=position, tails=tails, synced_to=synced_to)
    assert [(damage.begin, damage.end) for damage in again.stored.damaged] == [(tail.offset, end)]
    again.close()
    # Another file in its place is damage as a whole.
    other = MemoryDisk()
    filled(other, 60, seed=7)
    disk.names[f"log/{base:020d}"].content[:] = other.names[f"log/{base:020d}"].content
    again, _ = opened(disk, start=position, tails=tails, synced_to=synced_to)
    assert [(damage.begin, damage.end) for damage in again.stored.damaged] == [(base, end)]


def test_damage_that_retention_deleted_meanwhile_is_not_added() -> None:
    log, _ = filled(MemoryDisk(), 60)
    first, second, *_ = log.stored.segments()
    log.hide_before(first.end)
    assert not log.stored.add_damage([Damage(first.base + 100, second.base, "commits can't be read")])
    assert log.stored.damaged == ()
    kept = [Damage(second.base, second.base, "chain"), Damage(first.base, second.base + 10, "commits can't be read")]
    assert log.stored.add_damage(kept)
    assert set(log.stored.damaged) == set(kept)
