"""Why a node's registration is refused: another process holds the lease, or the reported log end can't be true. Pure."""

from metaserver.live_groups import EXPIRY_SECONDS, LiveGroup
from metaserver.snapshot import Node
from qmq.protocol.codes import BrokerRequestType
from qmq.protocol.extensions import NodeRegisterRequest

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
            f"node {master} of group {name} is registered at {node.address}, and its lease runs; stop that process,"
            f" or wait until its lease has expired ({EXPIRY_SECONDS:g} s without a heartbeat)"
        )
    is_same_process = live.started_at_ms == request.started_at_ms
    if live.started_at_ms is None:
        is_same_process = request.request_type != BrokerRequestType.ONLINE
    if is_same_process and node.admin_address != request.admin_address:
        return "node.address_bound", f"node {master} has admin address {node.admin_address} until it restarts"
    if not is_same_process and request.request_type == BrokerRequestType.OFFLINE:
        return "node.restarted", f"node {master} was restarted: the goodbye of an earlier process is ignored"
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
        f"log end {log_end} is implausible: it was {known.log_end} {seconds:.0f} s ago, and a log grows by at most"
        f" {LOG_GROWTH_BYTES_PER_SECOND} bytes a second"
    )
