"""class HeldClients: holds the requests of a node's clients during a switch-over."""

from collections.abc import Callable
from dataclasses import dataclass

from qmq_node.requests.handlers import RequestHandlers
from qmq_node.server.server import FrameServer


@dataclass(frozen=True, eq=False, repr=False)
class HeldClients:
    """The clients of one server of frames."""

    _server: FrameServer
    _handlers: Callable[[], RequestHandlers]
    """Returns those of a node that serves."""

    @property
    def in_progress(self) -> int:
        """How many requests are without an answer, except held ones."""
        return self._server.requests_in_progress

    def hold(self) -> None:
        """Handle no further requests, and let none in progress wait for messages."""
        self._server.hold()
        self._handlers().hold()

    def resume(self) -> None:
        """Handle those that were held, and all others."""
        self._handlers().resume()
        self._server.resume()

    async def answered(self) -> None:
        """Wait until none is in progress."""
        await self._server.answered()
