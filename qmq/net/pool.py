"""One connection per broker address, opened on demand and again after a loss."""

import asyncio
from dataclasses import dataclass, field

from qmq.errors import ClientClosed
from qmq.net.caller import Caller
from qmq.net.discovery import split_address
from qmq.protocol.frames import FRAME_BYTES_MAX


@dataclass(eq=False, repr=False)
class Pool:
    """Connections by `host:port`."""

    _connect_seconds: float
    _frame_bytes_max: int = FRAME_BYTES_MAX
    """Of an answer; a larger one closes its connection."""
    _callers: dict[str, Caller] = field(default_factory=dict, init=False)
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
        async with self._locks.setdefault(address, asyncio.Lock()):
            if (caller := self.connected(address)) is not None:
                return caller
            if self._is_closed:
                raise ClientClosed("the client is closed")
            host, port = split_address(address)
            caller = Caller(host, port, connect_seconds=self._connect_seconds, frame_bytes_max=self._frame_bytes_max)
            await caller.connect()
            self._callers[address] = caller
            return caller

    async def close(self) -> None:
        """Close all."""
        self._is_closed = True
        for caller in self._callers.values():
            await caller.close()
