"""class Pacer: lets the event loop serve clients during long work."""

import asyncio


class Pacer:
    """Ends an iteration of the event loop after so many units of work.

    Args:
        units_max: units of one iteration.
    """

    def __init__(self, units_max: int) -> None:
        self._units_max = units_max
        self._left = units_max

    async def spend(self, units: int = 1) -> None:
        """Call before work of so many units; when the iteration has no room for them, clients are served first."""
        if units > self._left < self._units_max:
            self._left = self._units_max
            await asyncio.sleep(0)
        self._left -= units
