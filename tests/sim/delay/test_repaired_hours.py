"""What an open hour takes in when its files were repaired: lost messages are delivered, decisions count again."""

import errno

import pytest

from delay_node.damaged_file import DamagedFile
from delay_node.hour import Hour
from delay_node.hour_checks import HourFile, dispatch_of, index_of, messages_of
from delay_node.hour_damage import WAIT_SECONDS
from delay_node.records import State, ref_of
from delay_node.schedule_log import DISPATCH_BYTES, INDEX_BYTES
from qmq.errors import LogError
from qmq_node.repair.ranges import DamagedRange
from tests.support.drivers.delay_driver import ROOT
from tests.support.drivers.delay_states import differences, state_of
from tests.support.drivers.hour_repairs import RepairingMember, break_pages, flip, largest, members

WAITS = (State.PENDING, State.CLAIMED)


def waiting(member: RepairingMember, hour_number: int) -> list[int]:
    """The numbers of messages on the disk that wait for delivery."""
    hour = member.store.hours[hour_number]
    dispatched = {int(entry["number"]): int(entry["what"]) for entry in hour.dispatch.read(0, hour.dispatch.count)[0]}
    on_disk = hour.schedule.index.written_end // INDEX_BYTES
    return [number for number in range(on_disk) if dispatched.get(number, State.PENDING) in WAITS]


def due(member: RepairingMember) -> list[int]:
    """Take everything from the wheel."""
    return [ref for _, ref in member.store.wheel.pop(1 << 60, 1 << 40)]


def damage_message(member: RepairingMember, hour: Hour, number: int) -> None:
    """Flip a bit of a message's body."""
    place = int(hour.schedule.read_index(number, number + 1)["place"][0])
    flip(member, messages_of(hour), place + 20)


async def repaired(ours: RepairingMember, other: RepairingMember) -> int:
    """Repair what is reported, until nothing is; the number of ranges."""
    count = 0
    await ours.damage.check()
    while found := list(ours.ranges.damaged()):
        for damaged in found:
            ours.repair(damaged, other.answer)
        count += len(found)
        await ours.damage.check()
        await ours.damage.check()
    assert not ours.damaged()
    return count


def assert_as(ours: RepairingMember, other: RepairingMember) -> None:
    assert not differences(state_of(ours.store), state_of(other.store))
    assert (ours.store.pending, ours.store.counters.lost, ours.store.bodies.unreadable) == (other.store.pending, 0, 0)


async def test_a_message_that_was_lost_when_its_hour_was_loaded_is_delivered() -> None:
    ours, other = members()
    hour = largest(ours, ".index").hour
    first, *_, last = waiting(other, hour.number)
    for number in (first, last):
        flip(ours, index_of(hour), number * INDEX_BYTES)
    pending = ours.store.pending
    await ours.store.load(hour)
    assert (hour.lost, ours.store.counters.lost, ours.store.pending) == (2, 2, pending - 2)
    assert hour in ours.store.hours.dirty
    assert await repaired(ours, other) == 2
    assert_as(ours, other)
    refs = due(ours)
    assert len(refs) == len(set(refs)) == hour.pending
    assert {ref_of(hour.number, first), ref_of(hour.number, last)} <= set(refs)


async def test_a_repaired_message_is_found_by_its_id() -> None:
    ours, other = members()
    hour, theirs = (member.store.hours[largest(ours, ".index").hour.number] for member in (ours, other))
    flip(ours, index_of(hour), 3 * INDEX_BYTES + 21)
    digest = int(theirs.schedule.read_index(3, 4)["id"][0])
    async with ours.store.open_hours.use(hour.number), other.store.open_hours.use(hour.number):
        expected = (await other.store.open_hours.ids(theirs)).find(digest)
        assert 3 in expected
        assert 3 not in (await ours.store.open_hours.ids(hour)).find(digest)
        await repaired(ours, other)
        assert (await ours.store.open_hours.ids(hour)).find(digest) == expected
    assert_as(ours, other)


@pytest.mark.parametrize("damage", ["body", "index"])
async def test_a_message_that_could_not_be_read_when_it_was_due_is_delivered(damage: str) -> None:
    ours, other = members()
    hour = largest(ours, ".data").hour
    await ours.store.load(hour)
    number = waiting(other, hour.number)[0]
    ref = ref_of(hour.number, number)
    if damage == "body":
        damage_message(ours, hour, number)
    else:
        flip(ours, index_of(hour), number * INDEX_BYTES)
    refs = due(ours)
    assert ref in refs
    for entry in await ours.store.bodies.read(refs):
        assert (entry.data is None) is (entry.ref == ref)
        if entry.data is None:
            ours.store.skip(entry)
    assert ours.store.bodies.unreadable + ours.store.counters.lost == 1
    assert await repaired(ours, other) == 1
    assert due(ours) == [ref]
    assert_as(ours, other)


async def test_a_damaged_message_that_is_not_due_is_in_the_wheel_once() -> None:
    ours, other = members()
    hour = largest(ours, ".data").hour
    await ours.store.load(hour)
    number = waiting(other, hour.number)[0]
    damage_message(ours, hour, number)
    (entry,) = await ours.store.bodies.read([ref_of(hour.number, number)])
    assert entry.data is None
    assert ours.store.bodies.unreadable == 1
    await repaired(ours, other)
    assert due(ours).count(entry.ref) == 1
    assert_as(ours, other)


async def test_a_body_whose_index_entry_was_damaged_is_checked_when_that_is_repaired() -> None:
    ours, other = members()
    hour = largest(ours, ".data").hour
    number = waiting(other, hour.number)[3]
    damage_message(ours, hour, number)
    flip(ours, index_of(hour), number * INDEX_BYTES)
    await ours.store.load(hour)
    assert await repaired(ours, other) == 2
    assert_as(ours, other)


def decided(hour: Hour, state: State) -> int:
    """The place of an entry of the dispatch log on the disk that is the last one of its message."""
    entries, _ = hour.dispatch.read(0, hour.dispatch.file.written_end // DISPATCH_BYTES)
    every, _ = hour.dispatch.read(0, hour.dispatch.count)
    return next(
        place
        for place, entry in enumerate(entries)
        if entry["what"] == state and (every["number"][place + 1 :] != entry["number"]).all()
    )


@pytest.mark.parametrize("state", [State.CANCELLED, State.DELIVERED, State.REFUSED, State.MOVED, State.CLAIMED])
async def test_an_hour_with_damaged_decisions_is_opened_when_they_are_repaired(state: State) -> None:
    ours, other = members()
    file = next(dispatch_of(hour) for hour in ours.store.hours.values() if has(hour, state))
    flip(ours, file, decided(file.hour, state) * DISPATCH_BYTES)
    with pytest.raises(LogError, match="it is opened when they are repaired"):
        await ours.store.load(file.hour)
    assert (file.hour.states, file.hour.is_near) == (None, False)
    await repaired(ours, other)
    await ours.store.load(file.hour)
    await other.store.load(other.store.hours[file.hour.number])
    assert file.hour.states == other.store.hours[file.hour.number].states
    assert_as(ours, other)


def has(hour: Hour, state: State) -> bool:
    try:
        decided(hour, state)
    except StopIteration:
        return False
    return True


@pytest.mark.parametrize("state", [State.CANCELLED, State.DELIVERED, State.REFUSED, State.MOVED, State.CLAIMED])
async def test_decisions_that_are_repaired_late_count_in_an_open_hour(state: State) -> None:
    ours, other = members()
    file = next(dispatch_of(hour) for hour in ours.store.hours.values() if has(hour, state))
    hour, place = file.hour, decided(file.hour, state)
    number = int(hour.dispatch.read(0, hour.dispatch.count)[0]["number"][place])
    flip(ours, file, place * DISPATCH_BYTES)
    with pytest.raises(LogError):
        await ours.store.load(hour)
    ours.clock.advance(WAIT_SECONDS)
    await ours.store.load(hour)
    assert hour.states is not None
    assert hour.states[number] != state
    await repaired(ours, other)
    await other.store.load(other.store.hours[hour.number])
    theirs = other.store.hours[hour.number]
    assert hour.states == theirs.states
    assert hour.moved == theirs.moved
    assert_as(ours, other)


async def test_decisions_of_the_meantime_are_kept() -> None:
    """What memory knows is newer than the repaired entry."""
    ours, other = members()
    file = next(dispatch_of(hour) for hour in ours.store.hours.values() if has(hour, State.CLAIMED))
    hour, place = file.hour, decided(file.hour, State.CLAIMED)
    number = int(hour.dispatch.read(0, hour.dispatch.count)[0]["number"][place])
    await ours.store.load(hour)
    assert hour.states is not None
    hour.states[number] = State.DELIVERED
    flip(ours, file, place * DISPATCH_BYTES)
    ours.damage.suspect(file.name, 0, file.end)
    await repaired(ours, other)
    assert hour.states[number] == State.DELIVERED


async def test_pages_that_can_t_be_read_are_reported_by_whatever_reads_them() -> None:
    ours, other = members()
    hour = largest(ours, ".index").hour
    for file in (index_of(hour), dispatch_of(hour), messages_of(hour)):
        break_pages(ours, file, 0, 1)
    with pytest.raises(LogError):
        await ours.store.load(hour)
    await repaired(ours, other)
    await ours.store.load(hour)
    refs = due(ours)
    break_pages(ours, messages_of(hour), 0, 1 << 40)
    with pytest.raises(LogError):
        await ours.store.bodies.read(refs)
    await repaired(ours, other)
    assert all(entry.data is not None for entry in await ours.store.bodies.read(refs))
    assert_as(ours, other)


async def test_the_check_of_a_page_that_can_t_be_read_does_not_ask_for_another_one() -> None:
    ours, _ = members()
    file: HourFile = largest(ours, ".index")
    break_pages(ours, file, 0, 1)
    with pytest.raises(LogError):
        await ours.store.load(file.hour)
    await ours.damage.check()
    assert list(ours.ranges.damaged())
    reads = ours.disk.reads
    await ours.damage.check()
    assert ours.disk.reads == reads


async def test_an_hour_that_is_not_open_has_nothing_lost_when_it_is_repaired() -> None:
    """A former master has counted it; as a slave it has to have the counters of the others."""
    ours, other = members()
    hour = largest(ours, ".index").hour
    number = waiting(other, hour.number)[0]
    flip(ours, index_of(hour), number * INDEX_BYTES)
    await ours.store.load(hour)
    due(ours)
    hour.is_near = False
    hour.close()
    assert hour.lost == 1
    await repaired(ours, other)
    assert hour.states is None
    assert_as(ours, other)
    assert hour in ours.store.hours.dirty


@pytest.mark.parametrize("ends", ["repaired", "ended"])
async def test_what_a_checkpoint_counts_as_lost_is_not_lost_any_more(ends: str) -> None:
    first, other = members()
    hour = largest(first, ".index").hour
    flip(first, index_of(hour), waiting(other, hour.number)[0] * INDEX_BYTES)
    await first.store.load(hour)
    await first.damage.check()
    first.checkpoint()
    ours = RepairingMember(first.disk.after_kill())
    hour = ours.store.hours[hour.number]
    assert (hour.lost, ours.store.counters.lost) == (1, 1)
    if ends == "repaired":
        await repaired(ours, other)
        assert_as(ours, other)
    else:
        ours.store._forget(hour)
        assert ours.store.counters.lost == 0


async def test_an_hour_that_ends_is_not_known_as_damaged_any_more() -> None:
    ours, _ = members()
    file = largest(ours, ".index")
    flip(ours, file, 0)
    ours.damage.suspect(file.name, 0, file.end)
    await ours.damage.check()
    (damaged,) = ours.ranges.damaged()
    ours.damage.repaired(damaged)
    ours.damage._known[damaged.place] = damaged
    ours.store._forget(file.hour)
    await ours.damage.check()
    assert list(ours.ranges.damaged()) == []
    assert ours.damage._repaired == {}


@pytest.mark.parametrize("is_power_cut", [False, True])
async def test_what_is_damaged_is_known_after_a_restart(is_power_cut: bool) -> None:
    ours, other = members()
    file = largest(ours, ".index")
    flip(ours, file, 40)
    ours.damage.suspect(file.name, 0, file.end)
    await ours.damage.check()
    (damaged,) = ours.ranges.damaged()
    disk = ours.disk.after_power_cut() if is_power_cut else ours.disk.after_kill()
    again = RepairingMember(disk)
    await again.damage.check()
    assert list(again.ranges.damaged()) == [damaged]
    await repaired(again, other)
    last = RepairingMember(again.disk.after_kill())
    assert DamagedFile(last.disk, ROOT).load() == []
    await last.damage.check()
    assert list(last.ranges.damaged()) == []


async def test_a_file_that_is_damaged_itself_or_of_other_uses_is_passed_over(caplog: pytest.LogCaptureFixture) -> None:
    ours, _ = members()
    file = largest(ours, ".index")
    DamagedFile(ours.disk, ROOT).save([DamagedRange(file.name, file.hour.begins_at + 1, 0, 64, "another use")])
    reads = ours.disk.reads
    await ours.damage.check()
    assert ours.disk.reads <= reads + 1, "the file itself"
    ours.disk.names[f"{ROOT}/damaged_hours"].content[1] ^= 1
    again = RepairingMember(ours.disk.after_kill())
    await again.damage.check()
    assert list(again.ranges.damaged()) == []
    assert "which hours are damaged is not known" in caplog.text


async def test_a_full_disk_does_not_stop_a_repair(caplog: pytest.LogCaptureFixture) -> None:
    ours, other = members()
    file = largest(ours, ".index")
    flip(ours, file, 40)
    ours.damage.suspect(file.name, 0, file.end)
    ours.disk.fail = lambda what, path: OSError(errno.ENOSPC, "full") if what == "create" else None
    await repaired(ours, other)
    assert "a start will not know which hours are damaged" in caplog.text
    assert_as(ours, other)
