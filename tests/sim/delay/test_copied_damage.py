"""Files of hours that arrive damaged at a copying slave: on the way, or because they are damaged at the master."""

import logging
from functools import cache

import pytest

from delay_node import entry_checks
from delay_node.checkpoint import CHECKPOINT_NAME, decode_state
from delay_node.entry_checks import MessageCheck
from delay_node.schedule_log import INDEX_BYTES
from qmq_node.log.checkpoint import CheckpointStore
from qmq_node.log.disk import File
from qmq_node.replication.state_files import WantedBytes
from tests.support.disks.memory_disk import PAGE_BYTES, MemoryDisk
from tests.support.drivers.delay_driver import ROOT
from tests.support.drivers.hour_copies import Master, Slave, applied, assert_equal, counted_bytes


def new_master() -> Master:
    return Master(3)


@cache
def master() -> Master:
    return new_master()


def largest(of: Master, end: str) -> str:
    """The name of the largest file with such a name."""
    return max((name for name in of.counted if name.endswith(end)), key=lambda name: of.counted[name].bytes)


def flip(of: Master, name: str, at: int) -> None:
    """Flip a bit of a file of the master."""
    of.driver.disk.names[of.counted[name].path].content[at] ^= 0x10


@pytest.mark.parametrize("kind", [".index", ".data", "dispatch"])
def test_what_changes_on_the_way_is_requested_again(kind: str) -> None:
    files = [name for name in master().counted if kind in name]
    slave = Slave(MemoryDisk(), master(), 1).begin()
    answer, changed = slave.answer, set[str]()

    def sometimes_wrong(wanted: WantedBytes) -> bytes:
        data = bytearray(answer(wanted))
        if wanted.file in files and wanted.file not in changed:
            changed.add(wanted.file)
            data[len(data) // 2] ^= 1
        return bytes(data)

    slave.answer = sometimes_wrong
    slave.run()
    assert changed
    assert_equal(slave)
    assert slave.counters.damaged_entries == 0


@pytest.mark.parametrize("kind", [".index", ".data", "dispatch"])
async def test_what_is_damaged_at_the_master_is_copied_as_it_is_counted_and_named(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    of = new_master()
    name = (
        largest(of, kind)
        if "." in kind
        else max((n for n in of.counted if kind in n), key=lambda n: of.counted[n].bytes)
    )
    # Two entries with whole ones between them.
    flip(of, name, 40)
    flip(of, name, of.counted[name].bytes // 2)
    slave = Slave(MemoryDisk(), of, 1).begin()
    with caplog.at_level(logging.ERROR):
        slave.run()
    assert_equal(slave)
    named = [record.getMessage() for record in caplog.records if record.name == "qmq.delay.copying"]
    assert [text.partition(": ")[0] for text in named] == [name]
    assert "2 entries between bytes" in named[0]
    assert any("2 entries of files are copied as they are" in record.getMessage() for record in caplog.records)
    assert slave.counters.damaged_entries == 2
    # What one disk has lost, each member counts for itself.
    assert not any(hour.lost for hour in (await applied(slave)).hours.values())


@pytest.mark.parametrize("kind", [".index", ".data", "dispatch"])
async def test_what_is_damaged_at_the_master_comes_from_a_third_member(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    of, third = new_master(), new_master()
    name = max((n for n in of.counted if kind in n), key=lambda n: of.counted[n].bytes)
    # The last one is damaged at the third member, too.
    for at in (40, of.counted[name].bytes // 2, of.counted[name].bytes - 5):
        flip(of, name, at)
    flip(third, name, of.counted[name].bytes - 5)
    slave = Slave(MemoryDisk(), of, 1).begin()
    wanted_elsewhere: list[WantedBytes] = []

    def other(wanted: WantedBytes) -> bytes:
        wanted_elsewhere.append(wanted)
        assert wanted.since == of.counted[name].since
        return third.read(wanted.file, wanted.begin, wanted.bytes)

    slave.other = other
    with caplog.at_level(logging.WARNING):
        slave.run()
    assert {wanted.file for wanted in wanted_elsewhere} == {name}
    assert sum(wanted.bytes for wanted in wanted_elsewhere) < of.counted[name].bytes // 2
    files = third.counted
    assert dict(counted_bytes(slave.disk, files)) == dict(counted_bytes(third.driver.disk, files))
    named = [record.getMessage() for record in caplog.records if record.name == "qmq.delay.copying"]
    assert f"{name}: 2 entries fail their checks at the master, and come from another member" in named
    assert [text for text in named if text.startswith(f"{name}: 1 entries between bytes")]


def test_what_the_master_lost_is_not_copied_with_its_checkpoint() -> None:
    of = new_master()
    for hour in of.store.hours.values():
        hour.lost = 7
        of.store.hours.dirty[hour] = None
        of.store.pending -= 7
    of.driver.send("orders", 1)
    of.checkpoint()
    of.keep()
    slave = Slave(MemoryDisk(), of, 1).begin()
    slave.run()
    checkpoint = CheckpointStore(slave.disk, f"{ROOT}/checkpoint", CHECKPOINT_NAME).load()
    assert checkpoint is not None
    assert {row.lost for row in decode_state(checkpoint).hours} == {0}
    assert checkpoint.log_position.offset == of.offset


def test_what_can_not_be_read_at_the_master_is_zeros() -> None:
    of = new_master()
    disk, files = of.driver.disk, of.counted
    unreadable, missing, short = (largest(of, ".data"), largest(of, ".index"), largest(of, "23"))
    kept = {name: bytes(disk.names[file.path].content[: file.bytes]) for name, file in files.items() if file.bytes}
    disk.break_pages(files[unreadable].path, PAGE_BYTES, PAGE_BYTES + 1)
    disk.remove(files[missing].path)
    del disk.names[files[short].path].content[24:]
    slave = Slave(MemoryDisk(), of, 1).begin()
    slave.run()
    for name, expected in kept.items():
        if name == unreadable:
            expected = expected[:PAGE_BYTES] + bytes(PAGE_BYTES) + expected[2 * PAGE_BYTES :]
        elif name == missing:
            expected = bytes(len(expected))
        elif name == short:
            expected = expected[:24] + bytes(len(expected) - 24)
        content = slave.disk.names[files[name].path].content
        assert content[: files[name].bytes] == expected, name
    assert not unreadable.startswith("dispatch")


def test_an_index_that_claims_too_much_does_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """A message is checked as a whole, so what an index entry claims is limited."""
    monkeypatch.setattr(entry_checks, "ENTRY_BYTES_MAX", 100)
    name = largest(master(), ".data")
    file = master().counted[name]
    disk = master().driver.disk
    index = disk.open(file.path.replace(".data", ".index"), writable=False)
    count = index.size() // INDEX_BYTES
    data = bytes(disk.names[file.path].content[: file.bytes])
    check = MessageCheck(index, count, file.bytes)
    at = 0
    while at < file.bytes:
        found = check.check(at, data[at : at + 101])
        assert found.end > at
        at = found.end


@pytest.mark.parametrize("entries", [1, 7, 1000])
def test_messages_are_checked_whatever_part_of_the_index_is_in_memory(
    entries: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(entry_checks, "INDEX_ENTRIES", entries)
    name = largest(master(), ".data")
    file = master().counted[name]
    disk = master().driver.disk
    data = bytes(disk.names[file.path].content[: file.bytes])
    count = master().counted[name.replace(".data", ".index")].bytes // INDEX_BYTES

    def index() -> File:
        opened: File = disk.open(file.path.replace(".data", ".index"), writable=False)
        return opened

    places = [0]
    while places[-1] < file.bytes:
        check = MessageCheck(index(), count, file.bytes)
        whole = check.check(places[-1], data[places[-1] :])
        assert (whole.end, whole.damaged) == (file.bytes, 0)
        # One byte more each time, until the first message is whole.
        size = next(n for n in range(1, file.bytes) if check.check(places[-1], data[places[-1] :][:n]).end > places[-1])
        places.append(places[-1] + size)
        assert check.check(places[-2], data[places[-2] : places[-1] - 1]).end == places[-2]
    assert len(places) - 1 == count
    for begin in places[:-1]:
        wrong = bytearray(data[begin:])
        wrong[-1] ^= 1
        found = MessageCheck(index(), count, file.bytes).check(begin, bytes(wrong))
        assert (found.end, found.damaged, found.last) == (file.bytes, 1, file.bytes)
