"""Addresses of hosts: look-ups that end in time, and networks that an operator has listed."""

import ipaddress
import socket
import threading
from collections.abc import Callable, Iterable, Sequence

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_NAT64 = ipaddress.ip_network("64:ff9b::/96")

RESOLVERS_MAX = 8
"""Concurrent DNS lookups; a stuck one ends when the system's resolver times out."""
_resolving = threading.BoundedSemaphore(RESOLVERS_MAX)

Resolver = Callable[[str, int], Sequence[str]]
"""Host and port to addresses; raises OSError."""


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


def networks_of(texts: Iterable[str]) -> tuple[Network, ...]:
    """Networks from their texts. Raises ValueError."""
    return tuple(ipaddress.ip_network(text) for text in texts)


def is_in(address: Address, networks: Iterable[Network]) -> bool:
    """Whether one of the networks contains the address, or the IPv4 address embedded in it."""
    forms = {address, inner_address(address)}
    return any(each in network for network in networks for each in forms if each.version == network.version)


def inner_address(address: Address) -> Address:
    """Return the IPv4 address embedded in an IPv6 address, or the address itself."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address
