"""class RateLimit: has reads for other members wait, so that clients are served meanwhile."""

import asyncio
from dataclasses import dataclass, field

from qmq.clock import Clock


@dataclass(eq=False, repr=False)
class RateLimit:
    """Limits the bytes per second of all reads together."""

    _clock: Clock
    _bytes_per_second: int
    """0: no limit."""
    _free_at: float = field(default=0.0, init=False)
    """When the next read may begin."""

    async def wait(self, size: int) -> None:
        """Wait until a read of this number of bytes may begin. The one after it begins later by what it takes."""
        now = self._clock.monotonic()
        delay, self._free_at = self._free_at - now, max(self._free_at, now)
        if self._bytes_per_second:
            self._free_at += size / self._bytes_per_second
        if delay > 0:
            await asyncio.sleep(delay)
