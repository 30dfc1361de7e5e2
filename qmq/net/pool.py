"""One connection per broker address, opened on demand and again after a loss."""

import asyncio
from dataclasses import dataclass, field

from qmq.errors import ClientClosed, ConnectionLost, Unreachable
from qmq.net.caller import Caller
from qmq.net.discovery import split_address
from qmq.protocol.frames import FRAME_BYTES_MAX

DISCONNECTED = "the broker group has another master"


@dataclass(eq=False, repr=False)
class Pool:
    """Connections by `host:port`."""

    _connect_seconds: float
    _frame_bytes_max: int = FRAME_BYTES_MAX
    """Of an answer; a larger one closes its connection."""
    _callers: dict[str, Caller] = field(default_factory=dict, init=False)
    """The newest connection to each address: open, being opened, or ended."""
    _locks: dict[str, asyncio.Lock] = field(default_factory=dict, init=False)
    _is_closed: bool = field(default=False, init=False)

    def connected(self, address: str) -> Caller | None:
        """The caller of an open connection; None when `get` would have to open one."""
        caller = self._callers.get(address)
        return caller if caller is not None and caller.is_connected else None

    async def get(self, address: str) -> Caller:
        """A connected caller. Raises ConnectionLost without a listener, ProtocolError for an invalid address, and ClientClosed."""
        if (caller := self.connected(address)) is not None:
            return caller
        lock = self._locks.setdefault(address, asyncio.Lock())
        async with lock:
            if self._locks.get(address) is not lock:
                raise Unreachable(address, DISCONNECTED)
            if (caller := self.connected(address)) is not None:
                return caller
            if self._is_closed:
                raise ClientClosed("the client is closed")
            host, port = split_address(address)
            caller = Caller(host, port, connect_seconds=self._connect_seconds, frame_bytes_max=self._frame_bytes_max)
            self._callers[address] = caller
            await caller.connect()
            return caller

    def disconnect(self, address: str) -> None:
        """Close the connection to the former master of a broker group, which may hang, and end attempts to open one.

        Requests without an answer fail with ConnectionLost: their outcome is unknown. `get` opens a connection again.
        """
        self._locks.pop(address, None)
        caller = self._callers.pop(address, None)
        if caller is not None:
            caller.abort(ConnectionLost(DISCONNECTED))

    async def close(self) -> None:
        """Close all."""
        self._is_closed = True
        for caller in list(self._callers.values()):
            await caller.close()
