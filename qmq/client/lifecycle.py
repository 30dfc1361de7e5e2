"""What producers and consumers have in common: start, close, failure."""

from types import TracebackType
from typing import TYPE_CHECKING

from qmq.errors import ClientFailed

if TYPE_CHECKING:
    from typing import Self


class Client:
    """Base of Producer and Consumer: `async with` starts and closes it."""

    async def start(self) -> None:
        """Start the background tasks."""
        raise NotImplementedError

    async def close(self, timeout: float | None = None) -> list[str]:
        """Close; return the IDs of messages that are left."""
        raise NotImplementedError

    async def __aenter__(self) -> "Self":
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self.close()
        except ClientFailed:
            # The block's own exception says more, and may be this failure.
            if error is None:
                raise


def client_failed(what: str, error: BaseException) -> ClientFailed:
    """The error of a producer or consumer whose background task failed, with the task's exception as its cause."""
    failure = ClientFailed(f"the {what} failed: {error}")
    failure.__cause__ = error.__cause__ or error
    return failure
