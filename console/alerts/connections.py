"""Connections to webhooks and mail servers: a name look-up, a connection and an answer that share one deadline."""

import io
import socket
import threading
from collections.abc import Callable, Sequence
from typing import Any

from qmq.clock import Clock
from qmq.words import seconds as seconds_text

RESOLVERS_MAX = 8
"""Concurrent DNS lookups; a stuck one ends when the system's resolver times out."""
_resolving = threading.BoundedSemaphore(RESOLVERS_MAX)

Resolver = Callable[[str, int], Sequence[str]]
"""Host and port to addresses; raises OSError."""


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


def system_resolver(host: str, port: int) -> list[str]:
    """The system's addresses of a host."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def resolve(resolver: Resolver, host: str, port: int, seconds: float) -> list[str]:
    """The addresses of a host, resolved in a thread: the system's resolver knows no deadline.

    Raises:
        OSError: there are none, or not in time; the text says which.
    """
    found: list[str] = []
    failed: list[OSError | UnicodeError] = []

    def ask() -> None:
        try:
            found.extend(resolver(host, port))
        except (OSError, UnicodeError) as error:
            failed.append(error)
        finally:
            _resolving.release()

    if not _resolving.acquire(blocking=False):
        raise OSError(f"{RESOLVERS_MAX} DNS lookups are already pending")
    thread = threading.Thread(target=ask, name="qmq-resolve", daemon=True)
    try:
        thread.start()
    except RuntimeError as error:
        _resolving.release()
        raise OSError(f"can't start a thread for the DNS lookup: {error}") from error
    thread.join(seconds)
    if thread.is_alive():
        raise TimeoutError(f"{host}: the DNS lookup timed out")
    if failed:
        raise OSError(f"{host}: {failed[0]}") from failed[0]
    if not found:
        raise OSError(f"{host}: the host name has no address")
    return found


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
