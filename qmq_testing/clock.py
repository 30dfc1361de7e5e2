"""class MovableClock: the clock of a test's nodes, which `qmq_time.advance` moves forward."""

import threading

from qmq.clock import SystemClock


class MovableClock:
    """Runs at the speed of the machine's clock and can be moved forward. Any thread may read it.

    Only the machine's monotonic clock is read after the start. Libraries that freeze or move `time.time` for the tested
    application therefore do not step this clock, and the nodes never see wall time pass without monotonic time.
    """

    def __init__(self) -> None:
        self._clock = SystemClock()
        self._lock = threading.Lock()
        self._wall_at_zero_ms = self._clock.wall_ms() - self._clock.monotonic() * 1000
        self._moved_ms = 0

    def monotonic(self) -> float:
        return self._clock.monotonic() + self._moved_ms / 1000

    def wall_ms(self) -> int:
        return int(self._wall_at_zero_ms + self._clock.monotonic() * 1000) + self._moved_ms

    def move(self, milliseconds: int) -> None:
        """Move both clocks forward together.

        Raises:
            ValueError: `milliseconds` is negative.
        """
        if milliseconds < 0:
            raise ValueError(f"time can only be moved forward, not by {milliseconds} ms")
        with self._lock:
            self._moved_ms += milliseconds
