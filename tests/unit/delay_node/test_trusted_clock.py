"""The clock that due messages are judged by: never ahead of what the monotonic clock vouches for."""

import random

import pytest

from delay_node.trusted_clock import (
    CHANGE_MS,
    CORRECTED_SECONDS,
    STEP_ACCEPTED_MS,
    HeldStep,
    HeldStepFile,
    TrustedClock,
)
from tests.support.disks.memory_disk import MemoryDisk
from tests.support.manual_clock import ManualClock

HOUR_MS = 3_600_000


def test_it_follows_the_wall_clock_that_runs_well() -> None:
    clock = ManualClock()
    trusted = TrustedClock(clock)
    for _ in range(1_000):
        clock.advance(random.Random(1).uniform(0.001, 5))
        assert trusted.now_ms() == clock.wall_ms()
    assert trusted.held is None


def test_a_small_step_forward_is_followed_and_a_large_one_is_not_until_confirmed() -> None:
    clock = ManualClock()
    trusted = TrustedClock(clock)
    clock.step_wall(STEP_ACCEPTED_MS - 1)
    assert trusted.now_ms() == clock.wall_ms()
    clock.step_wall(HOUR_MS)
    before = clock.wall_ms() - HOUR_MS
    clock.advance(60)
    assert trusted.now_ms() == before + 60_000, "it goes on by the clock it had"
    alarm = trusted.held
    assert alarm is not None
    assert abs(alarm.ahead_ms - HOUR_MS) < 10
    trusted.confirm()
    assert trusted.now_ms() == clock.wall_ms()
    assert trusted.held is None
    assert trusted.steps_refused == 1


def test_a_step_that_comes_back_leaves_nothing_behind() -> None:
    clock = ManualClock()
    trusted = TrustedClock(clock)
    for offset in (HOUR_MS, 30_000, 6_000):
        clock.step_wall(offset)
        assert trusted.now_ms() == clock.wall_ms() - offset
        clock.step_wall(-offset)
        assert trusted.now_ms() == clock.wall_ms()
    assert trusted.held is None


def test_a_step_back_is_followed_at_once_and_forgiven_when_it_returns() -> None:
    clock = ManualClock()
    trusted = TrustedClock(clock)
    clock.step_wall(-30_000)
    assert trusted.now_ms() == clock.wall_ms()
    clock.advance(10)
    clock.step_wall(30_000)
    assert trusted.now_ms() == clock.wall_ms(), "strobing: the clock is where it was vouched for"
    assert trusted.held is None


def test_after_a_while_a_clock_set_back_is_the_new_reference() -> None:
    clock = ManualClock()
    trusted = TrustedClock(clock)
    clock.step_wall(-HOUR_MS)
    trusted.now_ms()
    for _ in range(int(CORRECTED_SECONDS / 10) + 2):
        clock.advance(10)
        assert trusted.now_ms() == clock.wall_ms()
    clock.step_wall(HOUR_MS)
    assert trusted.now_ms() == clock.wall_ms() - HOUR_MS, "forward again by an hour would be early now"


def test_many_small_steps_add_up_to_no_more_than_one() -> None:
    clock = ManualClock()
    trusted = TrustedClock(clock)
    begin = clock.wall_ms()
    for _ in range(600):
        clock.advance(1)
        clock.step_wall(1_000)
        now = trusted.now_ms()
    elapsed_ms = 600_000
    assert now - begin - elapsed_ms <= STEP_ACCEPTED_MS + 600, "the allowance, and what grew back in ten minutes"


def test_never_early_by_the_true_clock_under_any_strobing() -> None:
    for seed in range(50):
        rng = random.Random(seed)
        clock = ManualClock()
        trusted = TrustedClock(clock)
        true_ms, offset = clock.wall_ms(), 0
        for _ in range(300):
            seconds = rng.uniform(0.001, 2)
            clock.advance(seconds)
            true_ms += round(seconds * 1000)
            target = rng.choice((0, 0, 30_000, -30_000, HOUR_MS, -HOUR_MS, 3_000))
            clock.step_wall(target - offset)
            offset = target
            assert trusted.now_ms() <= true_ms + STEP_ACCEPTED_MS + 1_000, f"seed {seed}"


def test_a_held_step_is_held_by_the_next_process_and_ends_when_the_clock_returns() -> None:
    clock = ManualClock()
    trusted = TrustedClock(clock)
    clock.step_wall(HOUR_MS)
    before = trusted.now_ms()
    clock.advance(60)
    again = TrustedClock(clock, trusted.held)
    assert again.now_ms() == before + 60_000
    assert again.held == trusted.held
    clock.step_wall(-HOUR_MS)
    assert again.now_ms() == clock.wall_ms()
    assert again.held is None


def test_a_clock_that_returned_while_the_node_was_away_is_accepted() -> None:
    clock = ManualClock()
    trusted = TrustedClock(clock)
    clock.step_wall(HOUR_MS)
    trusted.now_ms()
    clock.step_wall(-HOUR_MS)
    clock.advance(60)
    again = TrustedClock(clock, trusted.held)
    assert again.now_ms() == clock.wall_ms()
    assert again.held is None


def test_a_step_of_a_spent_allowance_is_held_by_the_next_process_too() -> None:
    clock = ManualClock()
    trusted = TrustedClock(clock)
    clock.step_wall(STEP_ACCEPTED_MS - 1_000)
    assert trusted.now_ms() == clock.wall_ms()
    clock.step_wall(3_000)
    trusted.now_ms()
    assert TrustedClock(clock, trusted.held).now_ms() == clock.wall_ms() - 3_000


def step_file(disk: MemoryDisk) -> HeldStepFile:
    return HeldStepFile(disk, "/data")


def test_the_file_has_the_step_after_a_power_cut_and_is_gone_after_its_end() -> None:
    disk = MemoryDisk()
    disk.make_dir("/data")
    first = step_file(disk)
    assert first.load() is None
    assert first.is_kept(None)
    step = HeldStep(HOUR_MS, 5)
    assert not first.is_kept(step)
    first.keep(step)
    second = step_file(disk.after_power_cut(random.Random(1)))
    assert second.load() == step
    assert second.is_kept(HeldStep(HOUR_MS + CHANGE_MS - 1, 5))
    assert not second.is_kept(HeldStep(HOUR_MS + CHANGE_MS, 5))
    assert not second.is_kept(HeldStep(HOUR_MS, 6))
    first.keep(None)
    assert step_file(disk.after_power_cut(random.Random(1))).load() is None


def test_a_damaged_file_is_an_error_and_is_written_anew() -> None:
    disk = MemoryDisk()
    disk.make_dir("/data")
    step_file(disk).keep(HeldStep(HOUR_MS, 5))
    file = disk.open("/data/clock", writable=True)
    file.pwritev([b"\xff"], 3)
    file.close()
    damaged = step_file(disk)
    with pytest.raises(OSError, match="its check does not match"):
        damaged.load()
    assert not damaged.is_kept(None)
    damaged.keep(None)
    assert step_file(disk).load() is None
