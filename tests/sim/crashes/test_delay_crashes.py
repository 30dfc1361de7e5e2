"""F4, F7, F8, F10 of the fault table on the delay node's store, over a disk in memory; and what only a delay node has.

F8 and F10 are whole; the others are short by default, and `make faults` (QMQ_FAULTS=full) runs them whole. A failing
case prints its seed.
"""

import contextlib
import errno
import os
import random

import pytest

from delay_node import checkpoint
from delay_node.checkpoint import CHECKPOINT_NAME
from delay_node.hour_reader import read_hour
from delay_node.records import RecordKind, State, ref_of
from delay_node.store import DelayStore
from qmq_node.log.append_file import AppendFile
from qmq_node.log.handles import HandleCache
from qmq_node.slices import run_to_end
from tests.support.disks.memory_disk import PAGE_BYTES, MemoryDisk, SimulatedCrash
from tests.support.drivers.delay_driver import DelayDriver
from tests.support.drivers.logs import drop_before
from tests.support.promises import CaughtBy, Check

FULL = os.environ.get("QMQ_FAULTS") == "full"
STEPS = 250
F8_STEPS = 30
"""Reading all that a scenario wrote takes most of the time of a state."""


def run_until_crash(seed: int, crash_at: int | None, steps: int = STEPS) -> DelayDriver:
    """The scenario of a seed, ended at a disk operation."""
    driver = DelayDriver(MemoryDisk(), seed)
    driver.disk.crash_at = crash_at
    with contextlib.suppress(SimulatedCrash):
        driver.run(steps)
    return driver


@pytest.mark.parametrize("seed", range(6 if FULL else 2))
def test_f4_a_kill_at_any_disk_operation_breaks_no_promise(seed: int) -> None:
    total = run_until_crash(seed, None).disk.steps
    assert total > 100
    for crash_at in range(1, total, 1 if FULL else max(1, total // 60)):
        driver = run_until_crash(seed, crash_at)
        driver.check(driver.disk.after_kill())


@pytest.mark.parametrize("seed", range(6 if FULL else 2))
def test_f7_a_power_cut_at_any_disk_operation_keeps_everything_synced(seed: int) -> None:
    total = run_until_crash(seed, None).disk.steps
    cuts = random.Random(seed).sample(range(1, total), min(total - 1, 200 if FULL else 30))
    for crash_at in sorted(cuts):
        driver = run_until_crash(seed, crash_at)
        driver.check(driver.disk.after_power_cut())


@pytest.mark.parametrize("seed", range(6 if FULL else 2))
def test_f7_after_a_kill_the_next_checkpoint_counts_on_nothing_that_a_power_cut_takes(seed: int) -> None:
    """The dead process's writes are readable and not durable: neither the log nor the hours' files may count on them."""
    total = run_until_crash(seed, None).disk.steps
    for crash_at in range(1, total, 1 if FULL else max(1, total // 40)):
        driver = run_until_crash(seed, crash_at)
        driver.restart()
        driver.send("orders", 1)
        driver.commit()
        driver.check(driver.disk.after_power_cut())
        driver.run(crash_at % 12)
        driver.commit()
        driver.checkpoint()
        driver.check(driver.disk.after_power_cut())
        for state in driver.disk.crash_states(5 if FULL else 1, crash_at):
            driver.check(state)


@pytest.mark.parametrize("part", range(10))
def test_f8_every_legal_state_after_a_power_cut_recovers(part: int) -> None:
    """500 states in each part."""
    states, seed = 0, 1_000 * part
    while states < 500:
        total = run_until_crash(seed, None, F8_STEPS).disk.steps
        for crash_at in sorted(random.Random(seed).sample(range(1, total), min(total - 1, 20))):
            driver = run_until_crash(seed, crash_at, F8_STEPS)
            for state in driver.disk.crash_states(10, seed):
                driver.check(state)
                states += 1
        seed += 1


@pytest.mark.parametrize("seed", range(10 if FULL else 3))
def test_a_crash_after_a_crash_goes_on_where_the_first_ended(seed: int) -> None:
    driver = run_until_crash(seed, None)
    for round_ in range(4):
        driver.commit()
        disk = driver.disk.after_kill() if round_ % 2 else driver.disk.after_power_cut()
        driver.check(disk)
        driver.disk = disk
        driver.store = driver._open(disk)
        driver.checkpoints = checkpoint.DelayCheckpoints(driver.store)
        driver._floor = 0
        driver.run(80)
    driver.commit()
    driver.check(driver.disk.after_power_cut())


@pytest.mark.parametrize("where", ["/schedule/", "/dispatch/", "/checkpoint/"])
@pytest.mark.parametrize("what", ["create", "write", "sync"])
def test_f14_a_checkpoint_that_can_t_be_written_is_made_up_for_later(where: str, what: str) -> None:
    driver = DelayDriver(MemoryDisk(), 14)
    failed = 0
    for round_ in range(12):
        driver.run(12)
        driver.commit()
        if round_ % 2 == 0:
            driver.disk.fail = lambda w, path: (
                OSError(errno.ENOSPC, "no space") if w == what and where in path else None
            )
        try:
            driver.checkpoint()
        except OSError:
            failed += 1
            driver.check(driver.disk.after_kill())
            driver.check(driver.disk.after_power_cut())
        driver.disk.fail = None
    assert failed
    driver.checkpoint()
    driver.check(driver.disk.after_power_cut())


@pytest.mark.parametrize("lost", ["the newest", "all"])
@pytest.mark.parametrize("seed", range(4))
def test_damaged_checkpoints_cost_time_and_no_message(seed: int, lost: str) -> None:
    driver = run_until_crash(seed, None)
    driver.commit()
    for _ in range(3):
        driver.checkpoint()
        driver.run(30)
        driver.commit()
    disk = driver.disk.after_kill()
    checkpoints = sorted(path for path in disk.names if f"/checkpoint/{CHECKPOINT_NAME}" in path)
    assert len(checkpoints) == 2
    for path in checkpoints[-1:] if lost == "the newest" else checkpoints:
        disk.names[path].content[60] ^= 1
    store = driver.check(disk)
    assert store.subjects.names


@pytest.mark.parametrize("part", range(4))
def test_f10_flipped_bits_of_schedule_files_are_said_and_never_delivered(part: int) -> None:
    """100 flips in each part."""
    rng = random.Random(5 + part)
    driver = run_until_crash(3, None, 400)
    driver.commit()
    driver.checkpoint()
    good = {copy.ref: copy for copy in driver.copies}
    # What stands behind is replayed from the log; hours that ended have files, too, for a while.
    hours = driver._open(driver.disk.after_kill()).hours.values()
    counted = {file.path(): file.written_end for hour in hours for file in hour.files if file.written_end}
    for _ in range(100):
        disk = driver.disk.after_kill()
        path = rng.choice(list(counted))
        disk.names[path].content[rng.randrange(counted[path])] ^= 1 << rng.randrange(8)
        store = driver._open(disk)
        unreadable = lost = damaged = 0
        for hour in store.hours.values():
            opened = run_to_end(read_hour(hour, hour.schedule.count, hour.dispatch.count, for_wheel=True))
            lost, damaged = lost + opened.lost, damaged + opened.damaged
            for number, state in enumerate(opened.states):
                ref = hour.number << 32 | number
                (entry,) = store.bodies.read_now([ref])
                if entry.data is None:
                    unreadable += 1
                elif state != State.LOST:
                    assert entry.due_ms == good[ref].due_ms, "a changed index entry was believed"
        assert unreadable <= 1
        assert lost <= 1
        assert damaged <= 1
        if "/schedule/" in path:
            assert unreadable == 1, f"{path}: a flipped bit was not noticed"
        else:
            assert damaged == 1, f"{path}: a flipped bit was not noticed"


@pytest.mark.parametrize("files", [".data", ".index", "/dispatch/"])
def test_f10_an_unreadable_last_page_of_hour_files_stops_no_checkpoint_and_takes_only_what_was_in_it(
    files: str,
) -> None:
    driver = run_until_crash(3, None, 400)
    driver.commit()
    driver.checkpoint()
    for opened_hour in driver.store.hours.values():
        # Decisions of the rest of the run read no page.
        driver._open_hour(opened_hour)
    before = {copy.ref: copy.decided for copy in driver.copies}
    ends = {path: len(driver.disk.names[path].content) for path in driver.disk.names if files in path}
    for path, end in ends.items():
        assert end % PAGE_BYTES
        driver.disk.break_pages(path, end - 1, end)
    for _ in range(20):
        driver.send("orders", 3)
        if files == "/dispatch/":
            driver.decide(RecordKind.CANCELLED, State.PENDING)
    driver.commit()
    driver.checkpoint()
    store = driver._open(driver.disk.after_kill())
    lost_count = damaged = 0
    for hour in store.hours.values():
        opened = run_to_end(read_hour(hour, hour.schedule.count, hour.dispatch.count, for_wheel=True))
        damaged += opened.damaged
        for number, state in enumerate(opened.states):
            copy = driver.by_ref[ref_of(hour.number, number)]
            (entry,) = store.bodies.read_now([copy.ref])
            if entry.data is None:
                lost_count += 1
                assert copy.ref in before, f"{copy.message_id} came after the page was lost"
            elif files != "/dispatch/" or copy.decided != before.get(copy.ref):
                assert state == copy.decided
    assert (damaged if files == "/dispatch/" else lost_count) > 0
    assert not driver.disk.unreadable_pages


def test_a_message_log_damaged_in_the_middle_keeps_the_numbers_of_the_others() -> None:
    """What damage takes from the log must not shift the numbers of later messages: actions name them."""
    driver = DelayDriver(MemoryDisk(), 11, segment_bytes=1 << 20)
    ends = []
    for _ in range(30):
        driver.send("orders", 3)
        driver.commit()
        ends.append(driver.store.log.written_end)
    driver.decide(RecordKind.CANCELLED, State.PENDING)
    driver.commit()
    disk = driver.disk.after_kill()
    (path,) = [p for p in disk.names if "/log/" in p][:1]
    disk.names[path].content[ends[9] + 100] ^= 0x40
    store = driver._open(disk)
    assert store.log.stored.damaged
    for hour in store.hours.values():
        opened = run_to_end(read_hour(hour, hour.schedule.count, hour.dispatch.count, for_wheel=True))
        for number in range(hour.schedule.count):
            copy = driver.by_ref[hour.number << 32 | number]
            (entry,) = store.bodies.read_now([copy.ref])
            if entry.data is not None:
                assert entry.due_ms == copy.due_ms
                assert opened.states[number] == copy.decided, "an action met another message"


# --- the suite is worth what it catches ------------------------------------------------------------------------------


def some_crashes() -> None:
    for seed in range(2):
        total = run_until_crash(seed, None).disk.steps
        for crash_at in sorted(random.Random(seed).sample(range(1, total), 40)):
            driver = run_until_crash(seed, crash_at)
            driver.check(driver.disk.after_power_cut())


def test_a_checkpoint_saved_before_its_files_are_synced_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HandleCache, "sync", lambda self, root: None)
    with CaughtBy(Check.KEPT):
        some_crashes()


def test_a_checkpoint_that_counts_on_what_a_killed_process_wrote_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    write = AppendFile.write

    def trusting(self: AppendFile) -> None:
        with contextlib.suppress(FileNotFoundError):
            if self._handles.disk.open(self.path(), writable=False).size() >= self.written_end + self.memory_bytes:
                return
        write(self)

    monkeypatch.setattr(AppendFile, "write", trusting)
    with CaughtBy(Check.KEPT):
        test_f7_after_a_kill_the_next_checkpoint_counts_on_nothing_that_a_power_cut_takes(0)


def test_a_cancel_that_is_not_in_the_log_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    act = DelayStore.act

    def forgetful(self: DelayStore, kind: object, refs: list[int], at_ms: int) -> int:
        if kind is RecordKind.CANCELLED:
            for ref in refs:
                states = self.hours[ref >> 32].states
                assert states is not None
                states[ref & 0xFFFFFFFF] = State.CANCELLED
            return -1
        return act(self, kind, refs, at_ms)  # type: ignore[arg-type]

    monkeypatch.setattr(DelayStore, "act", forgetful)
    with CaughtBy(Check.STATES):
        some_crashes()


def test_a_log_that_is_cut_too_early_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint = DelayDriver.checkpoint

    def hasty(self: DelayDriver) -> None:
        self._floor = self.store.log.written_end
        drop_before(self.store.log, self._floor)
        checkpoint(self)

    monkeypatch.setattr(DelayDriver, "checkpoint", hasty)
    with CaughtBy(Check.KEPT):
        some_crashes()
