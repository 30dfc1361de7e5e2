"""Pages of index files that the disk can't read. Their entries read as zeros, which fail every check, until they are repaired."""

import errno
import logging
import threading
from collections import OrderedDict
from dataclasses import dataclass

from qmq.clock import Clock
from qmq.net.log_limiter import LogLimiter

logger = logging.getLogger("qmq_node.log.index")

PAGE_BYTES = 4096
"""A drive replaces an unreadable sector when it is written, and the kernel writes without reading first only whole pages."""
PAGES_MAX = 10_000
"""Unreadable pages remembered; beyond it the oldest is dropped, and read again when it is next needed."""
RETRY_SECONDS = 60.0
"""How long a page is not read again after its first read error; each further error doubles it."""
RETRY_SECONDS_MAX = 3600.0
LOG_INTERVAL_SECONDS = 60.0
"""Read errors are logged at most this often, with the number of those left out."""


@dataclass(slots=True)
class _Page:
    retry_at: float
    delay_seconds: float
    is_checked: bool
    """A caller that may wait for the disk read this page alone and failed. Else it was in a read of the event loop that failed."""
    is_repair_failed: bool = False


class UnreadablePages:
    """Index pages whose read failed, by path and number. Safe from any thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._pages: OrderedDict[tuple[str, int], _Page] = OrderedDict()
        self._lock = threading.Lock()
        self._limiter = LogLimiter(LOG_INTERVAL_SECONDS, LOG_INTERVAL_SECONDS)
        self.read_errors = 0
        """Failed reads since start."""

    def __len__(self) -> int:
        return len(self._pages)

    def has_any(self, path: str, pages: range) -> bool:
        """Whether one of these pages is known as unreadable."""
        known = self._pages
        return bool(known) and any((path, page) in known for page in pages)

    def is_skipped(self, path: str, page: int, *, may_wait: bool) -> bool:
        """Whether a page is not to be read now. A caller that may wait for the disk reads those not checked."""
        known = self._pages.get((path, page))
        if known is None or self._clock.monotonic() >= known.retry_at:
            return False
        return known.is_checked or not may_wait

    def is_withheld(self, path: str, page: int) -> bool:
        """Whether a repair of the page failed, and the next is not due."""
        known = self._pages.get((path, page))
        return known is not None and known.is_repair_failed and self._clock.monotonic() < known.retry_at

    def add(self, path: str, pages: range, error: OSError, *, is_checked: bool) -> None:
        """Record that a read of these pages failed."""
        now = self._clock.monotonic()
        with self._lock:
            self.read_errors += 1
            is_new = False
            for page in pages:
                known = self._pages.get((path, page))
                if known is None:
                    self._set(path, page, _Page(now + RETRY_SECONDS, RETRY_SECONDS, is_checked))
                    is_new = True
                elif now >= known.retry_at:
                    delay = min(2 * known.delay_seconds, RETRY_SECONDS_MAX)
                    self._set(path, page, _Page(now + delay, delay, is_checked))
                else:
                    known.is_checked |= is_checked
            if is_new:
                self._log(f"{path}, page {pages[0]}: {error}; its entries are withheld until they are repaired", now)

    def withhold(self, path: str, page: int, delay_seconds: float, error: Exception) -> None:
        """Record that a page could not be repaired: the next attempt is after `delay_seconds`."""
        now = self._clock.monotonic()
        with self._lock:
            self._set(path, page, _Page(now + delay_seconds, delay_seconds, is_checked=True, is_repair_failed=True))
            self._log(
                f"{path}, page {page} can't be repaired and is withheld, next attempt in {delay_seconds:g} s: {error}",
                now,
            )

    def delay_seconds(self, path: str, page: int) -> float:
        """How long a page is withheld if it can't be repaired now."""
        known = self._pages.get((path, page))
        return known.delay_seconds if known is not None else RETRY_SECONDS

    def remove(self, path: str, page: int) -> None:
        """The page was read or written whole."""
        with self._lock:
            self._pages.pop((path, page), None)

    def forget(self, path: str) -> None:
        """Drop what is known of a file that is removed."""
        if self._pages:
            with self._lock:
                for key in [key for key in self._pages if key[0] == path]:
                    del self._pages[key]

    def _set(self, path: str, page: int, state: _Page) -> None:
        self._pages.pop((path, page), None)
        self._pages[path, page] = state
        if len(self._pages) > PAGES_MAX:
            self._pages.popitem(last=False)

    def _log(self, what: str, now: float) -> None:
        unlogged = self._limiter.admit("", now)
        if unlogged is not None:
            logger.error(
                "index %s (%d such errors were not logged, %d pages are unreadable)", what, unlogged, len(self._pages)
            )


def is_read_error(error: OSError) -> bool:
    """Whether the disk could not read its own bytes."""
    return error.errno == errno.EIO
