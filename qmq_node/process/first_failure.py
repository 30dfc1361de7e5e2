"""class FirstFailure: the first failure of any part of a daemon ends the process."""

import asyncio


class FirstFailure:
    """Remembers the first failure and ends `wait` with it."""

    def __init__(self) -> None:
        self._error: BaseException | None = None
        self._was_set = asyncio.Event()

    def set(self, error: BaseException) -> None:
        """Record a failure; later ones have no effect."""
        if self._error is None:
            self._error = error
            self._was_set.set()

    @property
    def is_set(self) -> bool:
        """Whether there is one."""
        return self._error is not None

    def check(self) -> None:
        """Raise the failure, if there is one."""
        if self._error is not None:
            raise self._error

    async def wait(self, stop: asyncio.Event) -> None:
        """Wait for `stop` or a failure. Raises the failure, if there is one by then."""
        await any_of(stop, self._was_set)
        self.check()


async def any_of(*events: asyncio.Event, seconds: float | None = None) -> None:
    """Wait until one of the events is set, at most `seconds`; None: without a limit."""
    waits = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
