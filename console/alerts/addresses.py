"""Destinations allowed for webhooks: public addresses, and networks that the operator allows (QMQ_WEBHOOK_NETWORKS). Pure.

A user who can create a webhook must not gain access to addresses that only this machine reaches: loopback, the private network,
the cloud's metadata service.
"""

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import urlsplit

from console.host_addresses import Address, Network, inner_address, is_in

URL_CHARS_MAX = 1_000
URL_PATTERN = (
    r"[Hh][Tt][Tt][Pp][Ss]?://([A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(:[0-9]*)?"
    r'([/?][!"$-\[\]-~]*)?#?'
)
"""What a form can say of a URL at once. Not all that matches is legal; what `parse_url` accepts matches, unless its brackets
are misplaced."""
_PLAIN = re.compile(r"[!-~]+")
_HOST = re.compile(r"[A-Za-z0-9._-]{1,253}|[0-9A-Fa-f:.]{2,45}")
_IPV6_UNICAST = ipaddress.ip_network("2000::/3")
"""All global IPv6 addresses; `is_global` is also true of reserved ranges that a local network may use."""


class IllegalUrl(ValueError):
    """No URL a webhook can have."""


@dataclass(frozen=True, slots=True)
class Target:
    """A webhook's URL taken apart."""

    is_https: bool
    host: str
    port: int
    path: str
    """With the query."""

    @property
    def origin(self) -> str:
        """Scheme, host and port as text."""
        return f"{'https' if self.is_https else 'http'}://{self.authority}"

    @property
    def authority(self) -> str:
        """What the Host header says."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.is_https else 80) else f"{host}:{self.port}"


def parse_url(url: str) -> Target:
    """Take a webhook's URL apart. Raises IllegalUrl."""
    if len(url) > URL_CHARS_MAX or not _PLAIN.fullmatch(url) or "\\" in url:
        raise IllegalUrl(f"must be a URL of at most {URL_CHARS_MAX} ASCII characters")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise IllegalUrl(str(error)) from error
    if parts.scheme not in ("http", "https"):
        raise IllegalUrl("must start with https:// or http://")
    if "@" in parts.netloc:
        raise IllegalUrl("can't contain a username or password; use a header instead")
    if parts.fragment or not parts.hostname or not _HOST.fullmatch(parts.hostname) or port == 0:
        raise IllegalUrl("must be a URL with a host and without a fragment")
    is_https = parts.scheme == "https"
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Target(is_https, parts.hostname, port or (443 if is_https else 80), path)


def refusal(text: str, allowed: Iterable[Network]) -> str:
    """Why nothing may be sent to this address, or ""."""
    try:
        address: Address = ipaddress.ip_address(text)
    except ValueError:
        return f"{text!r} is not a valid address"
    inner = inner_address(address)
    if is_in(address, allowed):
        return ""
    for each in (address, inner):
        if not each.is_global or each.is_multicast or not _is_assigned(each):
            return f"{text} is not a public address; QMQ_WEBHOOK_NETWORKS can allow its network"
    return ""


def _is_assigned(address: Address) -> bool:
    """Whether it is an address of the Internet, as far as ranges tell; NAT64 and mapped addresses count as the address in them."""
    return isinstance(address, ipaddress.IPv4Address) or address in _IPV6_UNICAST or inner_address(address) != address
