"""Which nodes of the official server may register. They can't prove that they know the node secret, so operators name them."""

import ipaddress
from dataclasses import dataclass

from qmq.errors import ProtocolError, SettingError
from qmq.net.discovery import split_address

FORM = "GROUP@HOST:PORT, separated by commas"


@dataclass(frozen=True, slots=True)
class OfficialNodes:
    """The nodes named in setting `official_nodes`: (broker group, address)."""

    nodes: frozenset[tuple[str, str]] = frozenset()

    @property
    def broker_groups(self) -> frozenset[str]:
        """The groups of these nodes."""
        return frozenset(group for group, _ in self.nodes)

    @classmethod
    def parse(cls, text: str) -> "OfficialNodes":
        """The nodes of a setting.

        Raises:
            SettingError: it is not of the form GROUP@HOST:PORT,...
        """
        found = set()
        for part in filter(None, map(str.strip, text.split(","))):
            group, _, address = part.partition("@")
            try:
                split_address(address)
            except ProtocolError as error:
                raise SettingError(f"official_nodes: {part[:200]!r} is not of the form {FORM}") from error
            if not group or "@" in address:
                raise SettingError(f"official_nodes: {part[:200]!r} is not of the form {FORM}")
            found.add((group, address))
        return cls(frozenset(found))

    def problem(self, broker_group: str, address: str, peer: str) -> str:
        """Why a registration is refused; "" when it is accepted.

        Args:
            address: of the node, as it says.
            peer: `host:port` that the registration came from. It has to be the node's host where that is an IP address: else
                every machine could register a named node, or report it offline.
        """
        if (broker_group, address) not in self.nodes:
            return (
                f"node {address[:100]} of broker group {broker_group[:100]!r} does not know the node secret and is not in"
                " setting official_nodes"
            )
        try:
            host = ipaddress.ip_address(split_address(address)[0].strip("[]"))
        except ValueError:
            # A host name: not resolved here, because that would stop the event loop.
            return ""
        if peer.rpartition(":")[0].strip("[]") == str(host):
            return ""
        return f"node {address} of broker group {broker_group} has to register from its own host"
