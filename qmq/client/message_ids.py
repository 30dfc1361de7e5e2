"""Ids of messages: class MessageIds."""

import itertools
import os
import socket
from collections.abc import Callable
from datetime import UTC, datetime

from qmq.clock import SYSTEM_CLOCK, Clock

MakeId = Callable[[], str]
"""Returns a new message id at each call."""


def this_process() -> str:
    """This host's address and this process's number, as ids name them. Waits for the name service once in a process."""
    return f"{_host()}.{os.getpid()}"


_host_cache: list[str] = []


def _host() -> str:
    if not _host_cache:
        try:
            _host_cache.append(socket.gethostbyname(socket.gethostname()))
        except OSError:
            _host_cache.append("0.0.0.0")
    return _host_cache[0]


class MessageIds:
    """Makes ids like the official client's: UTC time, host address, process, counter. Unique enough to trace by, not to count on.

    Args:
        origin: the part that differs from other processes' ids.
    """

    def __init__(self, clock: Clock = SYSTEM_CLOCK, origin: Callable[[], str] = this_process) -> None:
        self._clock = clock
        self._origin = origin
        self._numbers = itertools.count()
        self._second = -1
        self._prefix = ""

    def __call__(self) -> str:
        second = self._clock.wall_ms() // 1000
        if second != self._second:
            self._second = second
            self._prefix = f"{datetime.fromtimestamp(second, UTC):%y%m%d.%H%M%S}.{self._origin()}."
        return f"{self._prefix}{next(self._numbers)}"

    def forget_origin(self) -> None:
        """Ask for the origin again, because this is another process now."""
        self._second = -1


new_message_id = MessageIds()
"""The ids of this process: all producers share its counter."""
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=new_message_id.forget_origin)
