"""Ports for the processes of tests: assigned by the kernel, and reserved until this process ends.

A reservation is a socket that is bound to the port and never listens. While it is open, the kernel assigns the port to no other
socket: neither to another test process nor to an outgoing connection. Only a program that binds this very port with SO_REUSEADDR
can listen on it, which servers do. So a process keeps its port over any number of restarts, and connections to it are refused
while it does not run.
"""

import contextlib
import os
import socket

_reservations: dict[int, int] = {}
"""File descriptors of the sockets, by port. The kernel releases those that are left when this process ends, however it ends."""


def _reserve(port: int) -> socket.socket:
    """Bind a socket to a port, or to one that the kernel assigns when it is 0.

    Raises:
        OSError: The port is in use or reserved.
    """
    reservation = socket.socket()
    try:
        reservation.bind(("127.0.0.1", port))
    except OSError:
        reservation.close()
        raise
    # Only after the bind: before it, another process could reserve the same port.
    reservation.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    return reservation


def free_port() -> int:
    """Reserve a port and return it."""
    return free_ports(1)


def free_ports(count: int) -> int:
    """Reserve `count` consecutive ports and return the first."""
    while True:
        with contextlib.ExitStack() as stack:
            first = stack.enter_context(_reserve(0))
            port: int = first.getsockname()[1]
            try:
                taken = [first, *(stack.enter_context(_reserve(port + more)) for more in range(1, count))]
            except (OSError, OverflowError):
                continue  # a later port is in use, or past 65,535
            stack.pop_all()
            _reservations.update((port + more, one.detach()) for more, one in enumerate(taken))
            return port


def release(*ports: int) -> None:
    """End the reservation of ports whose servers do not start again."""
    for port in ports:
        os.close(_reservations.pop(port))
