"""class FirstFailure: the first failure of any part of a daemon ends the process."""

import asyncio


class FirstFailure:
    """Remembers the first failure and ends `wait` with it."""

    def __init__(self) -> None:
        self._error: BaseException | None = None
        self._is_set = asyncio.Event()

    def set(self, error: BaseException) -> None:
        """Record a failure; later ones have no effect."""
        if self._error is None:
            self._error = error
            self._is_set.set()

    def check(self) -> None:
        """Raise the failure, if there is one."""
        if self._error is not None:
            raise self._error

    async def wait(self, stop: asyncio.Event) -> None:
        """Wait for `stop` or a failure. Raises the failure, if there is one by then."""
        waits = [asyncio.ensure_future(stop.wait()), asyncio.ensure_future(self._is_set.wait())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
        self.check()
