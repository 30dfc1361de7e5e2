"""Support of PyQMQ's own commands (codes from 200 up): the official servers answer them with UNKNOWN_CODE."""

import asyncio
import weakref
from dataclasses import dataclass, field

from qmq.errors import CallTimeout, ConnectionLost
from qmq.net.caller import Caller
from qmq.protocol.codes import Command, ResponseCode
from qmq.protocol.frames import Frame

ADDRESSES_MAX = 1_000
"""Addresses to remember; the one that was learned first is forgotten beyond that."""
UNSUPPORTED_SECONDS = 600.0
"""After this time an own command is sent again to a node that did not know one: its process may have been replaced by PyQMQ's."""
UNANSWERED_SECONDS = 60.0
"""After this time an optional command is sent again to a node that left one without an answer."""


@dataclass(slots=True)
class _Node:
    """What is known about an address. Times are the event loop's."""

    is_supported: bool = False
    unsupported_until: float = 0.0
    unanswered_until: float = 0.0
    first_answer: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held by the one request that finds out whether the node supports own commands."""


class OwnCommands:
    """Sends own commands, at most one of them to each node that does not know them.

    A node that has answered no own command yet gets one at a time. If it answers UNKNOWN_CODE, no other own command is sent to it
    for UNSUPPORTED_SECONDS. A request without an answer is no proof, because an overloaded node of PyQMQ looks the same: optional
    commands are omitted for UNANSWERED_SECONDS. `shared` returns the instance of the running event loop.
    """

    def __init__(self) -> None:
        self._nodes: dict[str, _Node] = {}

    @classmethod
    def shared(cls) -> "OwnCommands":
        """Return the instance of all clients on the running event loop."""
        return _by_loop.setdefault(asyncio.get_running_loop(), cls())

    async def call(
        self, caller: Caller, command: Command, body: bytes, *, timeout_s: float, is_optional: bool = False
    ) -> Frame | None:
        """Send an own command and return its answer; None: the node does not know it, or was not sent it for a reason above.

        `is_optional`: the client can do without the command. Raises CallTimeout and ConnectionLost as `Caller.call`.
        """
        node = self._node(caller.address)
        async with node.first_answer:
            if not node.is_supported:
                now = asyncio.get_running_loop().time()
                if now < node.unsupported_until or (is_optional and now < node.unanswered_until):
                    return None
                return await self._send(node, caller, command, body, timeout_s)
        return await self._send(node, caller, command, body, timeout_s)

    async def _send(self, node: _Node, caller: Caller, command: Command, body: bytes, timeout_s: float) -> Frame | None:
        loop = asyncio.get_running_loop()
        try:
            frame = await caller.call(command, body, timeout_s=timeout_s)
        except (CallTimeout, ConnectionLost) as error:
            if not node.is_supported:
                node.unanswered_until = loop.time() + UNANSWERED_SECONDS
            elif isinstance(error, ConnectionLost):
                # The next process at this address may be another server's.
                node.is_supported = False
            raise
        if frame.code == ResponseCode.UNKNOWN_CODE:
            # A node that has answered other own commands is PyQMQ's of a version without this one.
            if not node.is_supported:
                node.unsupported_until = loop.time() + UNSUPPORTED_SECONDS
            return None
        node.is_supported = True
        node.unsupported_until = node.unanswered_until = 0.0
        return frame

    def _node(self, address: str) -> _Node:
        node = self._nodes.get(address)
        if node is None:
            if len(self._nodes) >= ADDRESSES_MAX:
                del self._nodes[next(iter(self._nodes))]
            node = self._nodes[address] = _Node()
        return node


_by_loop: "weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, OwnCommands]" = weakref.WeakKeyDictionary()
