"""Messages that the disk could not read: withheld for a while, then tried again, so that a passing error heals."""

import logging
import threading
from collections import OrderedDict
from collections.abc import Iterator

from qmq.clock import Clock
from qmq.net.log_limiter import LogLimiter

logger = logging.getLogger("qmq.broker.log")

UNREADABLE_MAX = 10_000
"""Unreadable messages remembered; beyond it the oldest is dropped, and read again when it is next asked for."""
RETRY_SECONDS = 60.0
"""How long an unreadable message is withheld before its place is read again."""
LOG_INTERVAL_SECONDS = 60.0
"""Read errors are logged at most this often, with a back-off and the number of those left out."""


class UnreadablePlaces:
    """Log offsets of messages whose read failed. Safe from any thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._places: OrderedDict[int, tuple[int, float]] = OrderedDict()
        """Log offset -> bytes, and the monotonic time of the next read."""
        self._lock = threading.Lock()
        self._limiter = LogLimiter(LOG_INTERVAL_SECONDS)
        self.read_errors = 0
        """Failed reads since start."""

    def __len__(self) -> int:
        return len(self._places)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """(log offset, bytes) of each place, oldest first."""
        with self._lock:
            return iter([(offset, size) for offset, (size, _) in self._places.items()])

    def is_withheld(self, offset: int) -> bool:
        """Whether the message at this log offset failed to be read and is not due for another read."""
        place = self._places.get(offset)
        return place is not None and self._clock.monotonic() < place[1]

    def add(self, offset: int, size: int, error: Exception) -> None:
        """Withhold the message at a log offset for RETRY_SECONDS."""
        now = self._clock.monotonic()
        with self._lock:
            self.read_errors += 1
            self._places.pop(offset, None)
            self._places[offset] = size, now + RETRY_SECONDS
            if len(self._places) > UNREADABLE_MAX:
                self._places.popitem(last=False)
            unlogged = self._limiter.admit("", now)
        if unlogged is None:
            return
        logger.error(
            "a message of %d bytes can't be read and is withheld, the next read is in %g s: %s"
            " (%d read errors were not logged, %d messages are withheld)",
            size, RETRY_SECONDS, error, unlogged, len(self._places),
        )  # fmt: skip

    def remove(self, offset: int) -> None:
        """The message at a log offset was read."""
        with self._lock:
            place = self._places.pop(offset, None)
        if place is not None:
            logger.warning("the message at log offset %d can be read again", offset)

    def forget(self, begin: int, end: int) -> None:
        """Drop places in [begin, end), which were repaired: the next read decides again."""
        with self._lock:
            for offset in [offset for offset in self._places if begin <= offset < end]:
                del self._places[offset]

    def forget_before(self, log_begin: int) -> None:
        """Drop places that retention deleted."""
        with self._lock:
            for offset in [offset for offset in self._places if offset < log_begin]:
                del self._places[offset]
