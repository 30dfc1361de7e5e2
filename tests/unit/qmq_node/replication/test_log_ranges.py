"""Which answers of another member repair a damaged range of the log, and which are rejected."""

from collections.abc import Generator, Iterable
from dataclasses import dataclass, field, replace

import pytest

from qmq.errors import ReadRefused
from qmq.protocol.replication import LOG_FILE, ReadRangeRequest, ReadRangeResponse
from qmq_node.log.log import SegmentedLog
from qmq_node.log.record import HEADER_BYTES, UNKNOWN_CHAIN, CommitHeader, Position, commit_crc, encode_crc
from qmq_node.log.recovery import Damage, Walker
from qmq_node.repair.log_ranges import LogRanges
from qmq_node.repair.ranges import DamagedRange, RepairRejected, WantedRange
from tests.support.disks.memory_disk import MemoryDisk
from tests.support.drivers.logs import drop_before, open_log
from tests.unit.qmq_node.log.logs import commit

SEGMENT_BYTES = 1 << 20


@dataclass
class Member:
    """The log of one member, and its ranges."""

    disk: MemoryDisk
    log: SegmentedLog
    repaired: list[tuple[int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.ranges = LogRanges(self.log, lambda: 3, self)

    def unreadable_places(self) -> Iterable[tuple[int, int]]:
        return ()

    def log_damaged(self, damage: Damage) -> None:
        self.log.stored.add_damage([damage])

    async def log_repaired(self, begin: int, end: int) -> None:
        self.repaired.append((begin, end))

    def commits(self) -> list[CommitHeader]:
        headers: list[CommitHeader] = []
        Walker(self.log.stored.files, lambda commit: headers.append(commit.header)).walk(Position(0, UNKNOWN_CHAIN))
        return headers

    def flip(self, place: int) -> None:
        info = self.log.stored.segment_at(place)
        assert info is not None
        inode = self.disk.names[f"log/{info.base:020}"]
        inode.content[place - info.base] ^= 1
        inode.synced[place - info.base] ^= 1


def member(count: int = 6, segment_bytes: int = SEGMENT_BYTES) -> Member:
    """A log with commits of one record each, in epochs 1, 1, 2, 2, 3, 3."""
    disk = MemoryDisk()
    log = open_log(disk, "log", segment_bytes=segment_bytes)
    for number in range(count):
        log.begin_epoch(1 + number // 2)
        log.gather.append(1, bytes([number]) * 300)
        commit(log)
    return Member(disk, log)


def damaged(header: CommitHeader) -> DamagedRange:
    return DamagedRange(LOG_FILE, 0, header.offset, header.end, "commits can't be read")


def request(wanted: WantedRange) -> ReadRangeRequest:
    return ReadRangeRequest("g1", "g1-b", 3, "", wanted.file, wanted.since, wanted.begin, wanted.end, wanted.crc)


def answer_of(other: Member, repair: Generator[WantedRange, ReadRangeResponse, None]) -> ReadRangeResponse:
    return other.ranges.read(request(next(repair)))


def resealed(data: bytes, **fields: int) -> bytes:
    """A commit with other fields of its header, and the CRC that belongs to them."""
    places = {"epoch": (16, 8), "previous_crc": (40, 4), "offset": (24, 8), "body_bytes": (32, 4)}
    head, body = bytearray(data[: HEADER_BYTES - 4]), data[HEADER_BYTES:]
    for name, value in fields.items():
        at, size = places[name]
        head[at : at + size] = value.to_bytes(size, "big")
    return bytes(head) + encode_crc(commit_crc(bytes(head), body)) + body


def test_a_range_is_repaired_in_place_and_synced() -> None:
    own, other = member(), member()
    target = own.commits()[3]
    own.flip(target.offset + 70)
    repair = own.ranges.repair(damaged(target))
    answer = answer_of(other, repair)
    assert (answer.begin, answer.segment_base, answer.segment_bytes) == (
        target.offset,
        0,
        own.log.stored.segments()[0].bytes,
    )
    with pytest.raises(StopIteration):
        repair.send(answer)
    assert own.commits() == other.commits()
    assert bytes(own.disk.names[f"log/{0:020}"].synced[: own.log.written_end]) == bytes(
        other.disk.names[f"log/{0:020}"].content[: other.log.written_end]
    )


def test_the_first_commit_of_a_log_that_begins_above_0_is_repaired() -> None:
    """Nothing before it says which CRC it has to name."""
    own, other = member(segment_bytes=1024), member(segment_bytes=1024)
    for one in (own, other):
        drop_before(one.log, one.log.stored.segments()[2].base)
    begin = own.log.begin
    assert begin > 0
    own.flip(begin + 70)
    first = other.ranges.read(request(WantedRange(LOG_FILE, 0, begin, begin + 1))).data
    repair = own.ranges.repair(DamagedRange(LOG_FILE, 0, begin, begin + len(first), "commits can't be read"))
    answer = answer_of(other, repair)
    with pytest.raises(StopIteration):
        repair.send(answer)
    assert own.log.stored.read(begin, len(first)) == other.log.stored.read(begin, len(first))


def repair_from(other: Member, own: Member, target: DamagedRange) -> None:
    """Repair a range with as many answers as it takes."""
    repair = own.ranges.repair(target)
    wanted = next(repair)
    while True:
        try:
            wanted = repair.send(other.ranges.read(request(wanted)))
        except StopIteration:
            return


def test_the_first_commit_of_a_segment_is_repaired_although_small_ones_follow() -> None:
    """The unused rest of the segment before it does not make room for them in the answer."""
    own, other = member(2, segment_bytes=1024), member(2, segment_bytes=1024)
    for one in (own, other):
        for size in (300, 1, 1):
            one.log.gather.append(1, bytes(size))
            commit(one.log)
    target, small = own.commits()[2:4]
    assert target.offset == target.segment_base == 1024
    assert small.end - small.offset < 1024 - own.commits()[1].end
    own.flip(target.offset + 70)
    repair_from(other, own, damaged(target))
    assert own.commits() == other.commits()


def test_a_range_is_repaired_with_what_is_damaged_behind_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qmq_node.repair.log_ranges.READ_COPY_BYTES_MAX", 100)
    own, other = member(), member()
    for target in (targets := own.commits()[1:4]):
        own.flip(target.offset + 70)
    repair_from(other, own, damaged(targets[0]))
    assert own.commits() == other.commits()


def test_what_is_whole_is_not_requested_again() -> None:
    own = member()
    with pytest.raises(StopIteration):
        next(own.ranges.repair(damaged(own.commits()[3])))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda answer: replace(answer, data=answer.data[:-1] + b"!"), "is rejected by its CRC"),
        (lambda answer: replace(answer, data=resealed(answer.data, previous_crc=7)), "is rejected by its chain"),
        (lambda answer: replace(answer, data=resealed(answer.data, epoch=1)), "follows one with CRC|by its epoch"),
        (lambda answer: replace(answer, data=resealed(answer.data, epoch=4)), "is rejected by its epoch"),
        (lambda answer: replace(answer, data=resealed(answer.data, epoch=3)), "follows one with CRC"),
        (lambda answer: replace(answer, data=resealed(answer.data, offset=8)), "is rejected by its offset"),
        (lambda answer: replace(answer, data=answer.data[:-1]), "is rejected by its length"),
        (lambda answer: replace(answer, data=answer.data + bytes(64)), "is rejected by its magic"),
        (lambda answer: replace(answer, begin=answer.begin + 1), "the next commit begins at log offset"),
        (lambda answer: replace(answer, segment_bytes=answer.segment_bytes * 2), "is in a segment of"),
        (lambda answer: replace(answer, segment_base=1), "is in a segment of"),
    ],
)  # fmt: skip
def test_an_answer_that_fails_a_check_is_rejected_and_nothing_is_written(change: object, why: str) -> None:
    own, other = member(), member()
    target = own.commits()[3]
    own.flip(target.offset + 70)
    content = bytes(own.disk.names[f"log/{0:020}"].content)
    repair = own.ranges.repair(damaged(target))
    answer = answer_of(other, repair)
    assert callable(change)
    with pytest.raises(RepairRejected, match=why):
        repair.send(change(answer))
    assert bytes(own.disk.names[f"log/{0:020}"].content) == content


def test_commits_behind_the_damage_are_rejected() -> None:
    own, other = member(), member()
    target = own.commits()[3]
    own.flip(target.offset + 70)
    repair = own.ranges.repair(damaged(target))
    wanted = next(repair)
    answer = other.ranges.read(request(replace(wanted, end=other.log.written_end)))
    with pytest.raises(RepairRejected, match=f"ends at {own.commits()[-1].end}, behind {target.end}"):
        repair.send(answer)


@pytest.mark.parametrize(
    ("begin", "crc", "code"),
    [(1 << 40, 1, "copy.beyond"), (0, 7, "copy.damaged"), (100, 0, "copy.damaged")],
)
def test_a_range_that_this_member_can_not_answer_for_is_refused(begin: int, crc: int, code: str) -> None:
    other = member()
    with pytest.raises(ReadRefused) as refused:
        other.ranges.read(request(WantedRange(LOG_FILE, 0, begin, begin + 500, crc)))
    assert refused.value.code == code


def test_damaged_commits_are_never_sent() -> None:
    own, other = member(), member()
    target = own.commits()[3]
    for one in (own, other):
        one.flip(target.offset + 70)
    with pytest.raises(ReadRefused) as refused:
        answer_of(other, own.ranges.repair(damaged(target)))
    assert refused.value.code == "copy.damaged"


def test_commits_above_the_high_watermark_are_never_sent() -> None:
    own, other = member(), member(4)
    target = own.commits()[4]
    own.flip(target.offset + 70)
    with pytest.raises(ReadRefused) as refused:
        answer_of(other, own.ranges.repair(damaged(target)))
    assert refused.value.code == "copy.beyond"
