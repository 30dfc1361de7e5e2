"""Connections to webhooks and mail servers: name look-up (console.host_addresses), connection and answer share one deadline."""

import io
import socket
from collections.abc import Sequence
from typing import Any

from qmq.clock import Clock
from qmq.words import seconds as seconds_text


class Deadline:
    """The end of a delivery."""

    def __init__(self, seconds: float, clock: Clock) -> None:
        self._seconds = seconds
        self._clock = clock
        self._at = clock.monotonic() + seconds

    def left(self) -> float:
        """Seconds left. Raises TimeoutError when there are none."""
        left = self._at - self._clock.monotonic()
        if left <= 0:
            raise TimeoutError(f"timed out after {seconds_text(self._seconds)}")
        return left


def connect(addresses: Sequence[str], port: int, deadline: Deadline) -> socket.socket:
    """Connect to the first address that accepts.

    Raises:
        OSError: none does, or not in time.
    """
    refused: OSError | None = None
    for address in addresses:
        try:
            return socket.create_connection((address, port), deadline.left())
        except OSError as error:
            refused = error
    raise refused or OSError("the host name has no address")


class Answers(io.RawIOBase):
    """Reads from a connection, each part by the deadline.

    Args:
        bytes_max: maximum size of the answer, which must end before the connection does; None: either can come first.
    """

    def __init__(self, connection: socket.socket, deadline: Deadline, bytes_max: int | None = None) -> None:
        self._connection = connection
        self._deadline = deadline
        self._room = bytes_max
        self._buffered = io.BufferedReader(self)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._connection.settimeout(self._deadline.left())
        count = self._connection.recv_into(memoryview(buffer)[: self._room])
        if self._room is not None:
            self._room -= count
            if count == 0:
                raise EOFError
        return count

    def makefile(self, mode: str = "rb") -> "io.BufferedReader[Any]":
        """As a socket's, but always the same: what it has read ahead is there for the next reader."""
        return self._buffered
