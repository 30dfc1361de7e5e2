"""Which nodes of the official server (Java) may register. They can't prove that they know the node secret."""

import ipaddress
from dataclasses import dataclass

from qmq.errors import ProtocolError, SettingError
from qmq.net.discovery import split_address

FORM = "GROUP@HOST:PORT, or GROUP where there is no node secret, separated by commas"


@dataclass(frozen=True, slots=True)
class OfficialNodes:
    """The nodes that setting `official_nodes` names."""

    nodes: frozenset[tuple[str, str]] = frozenset()
    """(broker group, address) of nodes named with their address."""
    open_groups: frozenset[str] = frozenset()
    """Broker groups named without an address: any node may register for them."""

    @property
    def broker_groups(self) -> frozenset[str]:
        return self.open_groups | {group for group, _ in self.nodes}

    @classmethod
    def parse(cls, text: str, *, needs_addresses: bool) -> "OfficialNodes":
        """The nodes of a setting. Raises SettingError.

        Args:
            needs_addresses: whether each entry has to name an address, because an open group would bypass the node secret.
        """
        nodes, open_groups = set(), set()
        for part in filter(None, map(str.strip, text.split(","))):
            group, at, address = part.partition("@")
            if not at and not needs_addresses:
                open_groups.add(group)
                continue
            try:
                split_address(address if group and "@" not in address else "")
            except ProtocolError as error:
                raise SettingError(f"official_nodes: {part[:200]!r} is not of the form {FORM}") from error
            nodes.add((group, address))
        return cls(frozenset(nodes), frozenset(open_groups))

    def problem(self, broker_group: str, address: str, peer: str) -> str:
        """Why a registration is refused; "" when it is accepted.

        Args:
            address: of the node, as the registration gives it.
            peer: `host:port` that the registration came from. It has to be the node's host where that is an IP address:
                otherwise every machine could register a named node, or report it offline.
        """
        if broker_group in self.open_groups:
            return ""
        if (broker_group, address) not in self.nodes:
            return f"node {address[:100]!r} of broker group {broker_group[:100]!r} is not in setting official_nodes"
        try:
            host = ipaddress.ip_address(split_address(address)[0].strip("[]"))
        except ValueError:
            # A host name: not resolved here, because that would stop the event loop.
            return ""
        if peer.rpartition(":")[0].strip("[]") == str(host):
            return ""
        return f"node {address} of broker group {broker_group} must register from its own host"
