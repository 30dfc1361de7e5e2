"""Words for connections that failed."""

import os
import socket


def failure_reason(error: Exception, timeout_s: float) -> str:
    """Return why a connection failed, without its address: "connection refused", "no response within 5 s".

    Args:
        error: what opening the connection, or reading from it, raised.
        timeout_s: how long that was allowed to take.
    """
    if isinstance(error, socket.gaierror):
        return (error.strerror or str(error)).lower()
    if isinstance(error, OSError) and error.errno:
        # The text of asyncio's errors repeats the address.
        return os.strerror(error.errno).lower()
    return str(error) or f"no response within {timeout_s:g} s"
