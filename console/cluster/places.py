"""Where nodes are. Pure."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NodePlace:
    """A node as the metadata has it."""

    node_id: str
    broker_group: str
    kind: str
    is_master: bool
    address: str
    admin_address: str
    boot_id: str = ""
    """Of its process, as it last registered; "" if that is not known."""
