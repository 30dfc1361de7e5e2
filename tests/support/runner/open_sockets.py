"""Where a socket that is left open was made. Python names its file descriptor only, and often during a later test."""

import os
import re
import socket
import traceback
from typing import Any

FRAMES = 12
"""Callers that are kept for each socket."""
_UNCLOSED = re.compile(r"<socket\.socket fd=(\d+)")
_made: dict[int, tuple[str, traceback.StackSummary]] = {}
"""By file descriptor: the test that ran when its newest socket was made, and from where."""


def remember_sockets() -> None:
    """Note of each socket of this process, from now on, which test made it and where."""
    original = socket.socket.__init__

    def noted(self: socket.socket, *args: Any, **named: Any) -> None:
        original(self, *args, **named)
        frames = traceback.StackSummary.extract(traceback.walk_stack(None), limit=FRAMES, lookup_lines=False)
        _made[self.fileno()] = os.environ.get("PYTEST_CURRENT_TEST", ""), frames

    socket.socket.__init__ = noted  # type: ignore[method-assign]


def origins(text: str) -> str:
    """Return where the sockets that a text names were made."""
    found = {int(number) for number in _UNCLOSED.findall(text)} & _made.keys()
    return "\n".join(
        f"fd {number}, made during {test or 'no test'}:\n{''.join(reversed(frames.format()))}"
        for number in sorted(found)
        for test, frames in [_made[number]]
    )
