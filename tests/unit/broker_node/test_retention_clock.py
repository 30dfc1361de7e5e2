"""Which wall time counts towards the age of messages (F25), and the file that a restart knows it from."""

import pytest

from broker_node.retention.retention_clock import AGE_KEPT_MS, AWAY_ACCEPTED_MS, GAPS_MAX, Gap, GapFile, RetentionClock
from tests.support.disks.memory_disk import MemoryDisk
from tests.support.manual_clock import ManualClock

HOUR = 3600
HOUR_MS = HOUR * 1000
KEEP_MS = 72 * HOUR_MS


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def age_ms(clock: ManualClock, judged: RetentionClock, stored_ms: int, keep_ms: int = KEEP_MS) -> int:
    """The age that a message stored at this wall time has for retention."""
    return judged.before_ms(keep_ms) + keep_ms - stored_ms


def test_time_counts_as_it_passes(clock: ManualClock) -> None:
    judged, stored_ms = RetentionClock(clock, KEEP_MS), clock.wall_ms()
    for _ in range(100):
        clock.advance(HOUR)
        for drift_ms in (-900, 900):
            clock.step_wall(drift_ms)
            judged.gaps()
    assert age_ms(clock, judged, stored_ms) == 100 * HOUR_MS
    clock.step_wall(900)
    assert age_ms(clock, judged, stored_ms) == 100 * HOUR_MS + 900, "clocks drift apart"
    assert judged.gaps() == ()


def test_a_step_forward_makes_nothing_older_until_all_from_before_it_is_gone(clock: ManualClock) -> None:
    judged, before_ms = RetentionClock(clock, KEEP_MS), clock.wall_ms()
    clock.advance(HOUR)
    clock.step_wall(1000 * HOUR_MS)
    after_ms = clock.wall_ms()
    assert age_ms(clock, judged, before_ms) == HOUR_MS
    assert age_ms(clock, judged, after_ms) == -1000 * HOUR_MS
    clock.advance(71 * HOUR)
    assert age_ms(clock, judged, before_ms) == 72 * HOUR_MS, "it is gone by its own age"
    clock.advance(HOUR)
    assert age_ms(clock, judged, after_ms) == 72 * HOUR_MS, "and what came after the step goes as old"


def test_what_is_kept_for_less_is_judged_by_the_wall_clock_sooner(clock: ManualClock) -> None:
    judged = RetentionClock(clock, KEEP_MS)
    clock.step_wall(1000 * HOUR_MS)
    after_ms = clock.wall_ms()
    judged.gaps()
    clock.advance(2 * HOUR)
    assert age_ms(clock, judged, after_ms, keep_ms=2 * HOUR_MS) == 2 * HOUR_MS
    assert age_ms(clock, judged, after_ms) < 0


def test_steps_to_and_fro_leave_nothing(clock: ManualClock) -> None:
    judged, stored_ms = RetentionClock(clock, KEEP_MS), clock.wall_ms()
    for step_ms in (30_000, -30_000, HOUR_MS, 30_000, -HOUR_MS - 30_000):
        clock.advance(1)
        clock.step_wall(step_ms)
        assert age_ms(clock, judged, stored_ms) <= clock.wall_ms() - stored_ms
    assert judged.gaps() == ()
    assert age_ms(clock, judged, stored_ms) == 5_000


def test_a_step_back_over_a_part_of_a_gap_leaves_the_rest(clock: ManualClock) -> None:
    judged, stored_ms = RetentionClock(clock, KEEP_MS), clock.wall_ms()
    clock.step_wall(HOUR_MS)
    judged.gaps()
    clock.step_wall(-HOUR_MS // 4)
    assert [gap.ms for gap in judged.gaps()] == [HOUR_MS * 3 // 4]
    assert age_ms(clock, judged, stored_ms) == 0
    clock.step_wall(-HOUR_MS)
    assert judged.gaps() == ()
    assert age_ms(clock, judged, stored_ms) == -HOUR_MS // 4, "behind, messages stay for longer"


def test_time_that_the_broker_was_away_does_not_count(clock: ManualClock) -> None:
    ran_ms = clock.wall_ms()
    clock.advance(100 * HOUR)
    judged = RetentionClock(clock, KEEP_MS, ran_ms=ran_ms)
    assert age_ms(clock, judged, ran_ms) == 0
    clock.advance(HOUR)
    assert age_ms(clock, judged, ran_ms) == HOUR_MS


@pytest.mark.parametrize("away_ms", [-HOUR_MS, 0, AWAY_ACCEPTED_MS])
def test_a_short_time_away_counts(clock: ManualClock, away_ms: int) -> None:
    ran_ms = clock.wall_ms()
    clock.step_wall(away_ms)
    judged = RetentionClock(clock, KEEP_MS, ran_ms=ran_ms)
    assert age_ms(clock, judged, ran_ms) == away_ms


def test_a_restart_leaves_out_what_the_process_before_left_out(clock: ManualClock) -> None:
    judged, stored_ms = RetentionClock(clock, KEEP_MS), clock.wall_ms()
    clock.step_wall(HOUR_MS)
    gaps = judged.gaps()
    again = RetentionClock(clock, KEEP_MS, gaps, ran_ms=clock.wall_ms())
    assert age_ms(clock, again, stored_ms) == 0


def test_of_too_many_gaps_the_oldest_become_one_that_is_held_for_longer(clock: ManualClock) -> None:
    judged, stored_ms = RetentionClock(clock, KEEP_MS), clock.wall_ms()
    for _ in range(GAPS_MAX + 1):
        clock.advance(60)
        clock.step_wall(60_000)
        judged.gaps()
    gaps = judged.gaps()
    assert len(gaps) == GAPS_MAX
    assert gaps[0] == Gap(120_000, (GAPS_MAX - 1) * 60_000)
    assert age_ms(clock, judged, stored_ms) == (GAPS_MAX + 1) * 60_000


def test_gaps_are_in_the_file() -> None:
    disk = MemoryDisk()
    disk.make_dir("data")
    file = GapFile(disk, "data")
    assert not file.is_kept(()), "what is there is not known before it was read"
    assert file.load() == ([], None)
    assert file.is_kept(())
    gaps = (Gap(HOUR_MS, 5.0), Gap(30_000, 0.0))
    assert not file.is_kept(gaps)
    file.keep(gaps, 1_000)
    assert file.is_kept(gaps)
    assert file.is_kept((gaps[0], Gap(30_000, AGE_KEPT_MS - 1)))
    assert not file.is_kept((gaps[0], Gap(30_000, AGE_KEPT_MS)))
    assert not file.is_kept((gaps[0], Gap(29_000, 0.0)))
    disk = disk.after_power_cut()
    again = GapFile(disk, "data")
    assert again.load() == (list(gaps), 1_000)
    again.keep((), 2_000)
    assert GapFile(disk.after_power_cut(), "data").load() == ([], 2_000)


def test_a_damaged_file_is_an_error() -> None:
    disk = MemoryDisk()
    disk.make_dir("data")
    GapFile(disk, "data").keep((Gap(HOUR_MS, 5.0),), 1_000)
    disk.names["data/retention_clock"].content[3] ^= 1
    with pytest.raises(OSError, match="data/retention_clock is damaged: its check does not match"):
        GapFile(disk, "data").load()
