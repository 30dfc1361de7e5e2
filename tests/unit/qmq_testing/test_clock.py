"""The clock that tests move."""

import pytest

from qmq.clock import SystemClock
from qmq_testing.clock import MovableClock


def test_it_runs_with_the_machine_and_moves_both_times() -> None:
    clock, real = MovableClock(), SystemClock()
    wall_ahead_ms = clock.wall_ms() - clock.monotonic() * 1000
    for moves in range(3):
        before, found, after = real.monotonic(), clock.monotonic(), real.monotonic()
        assert before + 3600 * moves <= found <= after + 3600 * moves
        low, wall, high = clock.monotonic(), clock.wall_ms(), clock.monotonic()
        assert low * 1000 - 1.1 <= wall - wall_ahead_ms <= high * 1000 + 1.1
        clock.move(3_600_000)


def test_it_never_moves_back() -> None:
    with pytest.raises(ValueError, match="only be moved forward, not by -1 ms"):
        MovableClock().move(-1)
