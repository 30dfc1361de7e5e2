"""Clients of a TCP server that write bytes as they like."""

import asyncio


class Peers:
    """Clients that write bytes as they like; all are closed at the end."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._address = address
        self._writers: list[asyncio.StreamWriter] = []

    async def __aenter__(self) -> "Peers":
        return self

    async def __aexit__(self, *_: object) -> None:
        for writer in self._writers:
            writer.transport.abort()
        await asyncio.sleep(0)

    async def connect(self, data: bytes = b"") -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """One more client; `data` is what it writes first."""
        reader, writer = await asyncio.open_connection(*self._address)
        self._writers.append(writer)
        writer.write(data)
        return reader, writer
