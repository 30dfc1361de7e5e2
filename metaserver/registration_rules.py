"""Why a node's registration is refused: impossible values, a lease of another process, or an implausible log end. Pure."""

import re

from metaserver.choices import GroupKind
from metaserver.domain import Node
from metaserver.live_groups import EXPIRY_SECONDS, LiveGroup
from qmq.errors import ProtocolError
from qmq.protocol.codes import BrokerRequestType, Role
from qmq.protocol.extensions import NodeRegisterRequest

NAME_CHARS_MAX = 100
VERSION_CHARS_MAX = 40
EPOCH_MAX = (1 << 63) - 1
_LABEL = r"[A-Za-z0-9_-]{1,63}"
_ADDRESS = re.compile(rf"(?:{_LABEL}(?:\.{_LABEL})*\.?|\[[0-9A-Fa-f:.]+\]|[0-9A-Fa-f:]+):(?P<port>[0-9]{{1,5}})")
LOG_GROWTH_BYTES_PER_SECOND = 4 << 30
"""Fastest plausible growth of a node's log: above what any disk or network of one node carries."""
LOG_GROWTH_BYTES = 16 << 30
"""Growth that is plausible within any time, in addition to LOG_GROWTH_BYTES_PER_SECOND."""
LOG_END_MAX = 1 << 56
"""Highest log end of a node that never registered before."""


def lease_refusal(request: NodeRegisterRequest, live: LiveGroup) -> tuple[str, str] | None:
    """Why the running lease of a group forbids this registration."""
    name, master = live.row.name, live.row.master
    if master != request.node_id:
        return "node.group_taken", (
            f"group {name} already has master {master} with a valid lease. Use another group for this node, or stop"
            " the other node"
        )
    node = live.node
    if node is None:
        return None
    if node.address != request.address:
        return "node.address_bound", (
            f"node {master} of group {name} is registered at {node.address} with a valid lease; stop that process,"
            f" or wait until the lease has expired ({EXPIRY_SECONDS:g} s without a heartbeat)"
        )
    is_same_process = live.started_at_ms == request.started_at_ms
    if live.started_at_ms is None:
        is_same_process = request.request_type != BrokerRequestType.ONLINE
    if is_same_process and node.admin_address != request.admin_address:
        return "node.address_bound", f"node {master} has admin address {node.admin_address} until it restarts"
    if not is_same_process and request.request_type == BrokerRequestType.OFFLINE:
        return "node.restarted", f"node {master} was restarted: the offline request of an earlier process is ignored"
    return None


def log_end_refusal(log_end: int, known: Node | None, now_ms: int) -> tuple[str, str] | None:
    """Why a reported log end can't be true."""
    if not 0 <= log_end <= LOG_END_MAX:
        return "node.log_end_invalid", f"log end {log_end} is not between 0 and {LOG_END_MAX}"
    if known is None:
        return None
    seconds = max(0, now_ms - known.reported_at_ms) / 1000
    limit = known.log_end + LOG_GROWTH_BYTES + round(seconds * LOG_GROWTH_BYTES_PER_SECOND)
    if log_end <= limit:
        return None
    return "node.log_end_jump", (
        f"log end {log_end} is implausible: it was {known.log_end} {seconds:.0f} s ago, and a log grows at most"
        f" {LOG_GROWTH_BYTES_PER_SECOND} bytes a second"
    )


def check_values(request: NodeRegisterRequest) -> None:
    """Raises ProtocolError for a registration with values that no node sends and no database stores."""
    for value, what in ((request.broker_group, "broker group"), (request.node_id, "node id")):
        if not value or len(value) > NAME_CHARS_MAX:
            raise ProtocolError(f"{what} {value[:40]!r}: must be 1 to {NAME_CHARS_MAX} characters")
    addresses = [(request.address, "address")]
    if request.admin_address:
        addresses.append((request.admin_address, "admin address"))
    for value, what in addresses:
        # Clients connect to these and the console requests pages of them: nothing but a host and a port may be in them.
        found = _ADDRESS.fullmatch(value) if len(value) <= NAME_CHARS_MAX else None
        if found is None or not 0 < int(found["port"]) <= 65535:
            raise ProtocolError(f"{what} {value[:40]!r}: must be HOST:PORT of at most {NAME_CHARS_MAX} characters")
    if request.kind not in set(GroupKind):
        raise ProtocolError(f"kind {request.kind[:40]!r}: must be broker or delay")
    if request.role not in set(Role):
        raise ProtocolError(f"role {request.role} does not exist in QMQ")
    if not 0 <= request.epoch <= EPOCH_MAX:
        raise ProtocolError(f"epoch {request.epoch} is not between 0 and {EPOCH_MAX}")
    if len(request.version) > VERSION_CHARS_MAX:
        raise ProtocolError(f"version {request.version[:40]!r} is longer than {VERSION_CHARS_MAX} characters")
