"""Why a node's registration is refused: impossible values, a lease of another process, or an implausible log end. Pure."""

import re

from metaserver.choices import GroupKind
from metaserver.domain import Node
from metaserver.memory.live_groups import EXPIRY_SECONDS, LiveGroup
from metaserver.memory.membership_wishes import is_replicating, may_replace
from qmq.errors import ProtocolError
from qmq.protocol.codes import BrokerRequestType, Role
from qmq.protocol.extensions import NodeRegisterRequest
from qmq.protocol.limited_kinds import NAME_CHARS_MAX
from qmq.protocol.names import hidden_text_problem
from qmq.protocol.reasons import Code, Reason

NODES_PER_GROUP_MAX = 16
"""Nodes of a broker group whose heartbeats are kept: members and spares. Further ones are refused."""
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

Refusal = tuple[str, Reason]
"""The code and the reason of a refused registration."""


def lease_refusal(request: NodeRegisterRequest, live: LiveGroup) -> Refusal | None:
    """Why the running lease of a group's master forbids this registration of it."""
    node = live.node
    if node is None or node.node_id != request.node_id:
        return None
    return _binding_refusal(request, node.address, node.admin_address, live.started_at_ms)


def slave_refusal(request: NodeRegisterRequest, live: LiveGroup, now: float) -> Refusal | None:
    """Why a node that is not the master of its group is refused."""
    group = live.group
    if not is_replicating(request):
        names = {"group": group.name, "master": group.membership.master}
        if live.has_lease(now):
            return "node.group_taken", Reason.of(Code.MASTER_HAS_LEASE, **names)
        if not may_replace(group, request):
            return "node.group_taken", Reason.of(Code.UPGRADE_SLAVE, **names)
    report = live.reports.get(request.node_id)
    if report is not None and report.is_live(now):
        last = report.request
        return _binding_refusal(request, last.address, last.admin_address, last.started_at_ms)
    if report is None and request.node_id not in group.membership.members and len(live.reports) >= NODES_PER_GROUP_MAX:
        why = Reason.of(Code.TOO_MANY_NODES, count=len(live.reports), group=group.name)
        return "broker_group.too_many_nodes", why
    return None


def _binding_refusal(
    request: NodeRegisterRequest, address: str, admin_address: str, started_at_ms: int | None
) -> Refusal | None:
    """Why a node that is registered at these addresses can't register like this; `started_at_ms` None: by an unknown process."""
    name = request.node_id
    if address != request.address:
        return "node.address_bound", Reason.of(
            Code.ADDRESS_BOUND, node=name, group=request.broker_group, address=address, seconds=f"{EXPIRY_SECONDS:g}"
        )
    is_same_process = started_at_ms == request.started_at_ms
    if started_at_ms is None:
        is_same_process = request.request_type != BrokerRequestType.ONLINE
    if is_same_process and admin_address != request.admin_address:
        return "node.address_bound", Reason.of(Code.ADMIN_ADDRESS_BOUND, node=name, address=admin_address)
    if not is_same_process and request.request_type == BrokerRequestType.OFFLINE:
        return "node.restarted", Reason.of(Code.NODE_RESTARTED, node=name)
    return None


def log_end_refusal(log_end: int, known: Node | None, now_ms: int) -> Refusal | None:
    """Why a reported log end can't be true."""
    if not 0 <= log_end <= LOG_END_MAX:
        return "node.log_end_invalid", Reason.of(Code.LOG_END_INVALID, end=log_end, highest=LOG_END_MAX)
    if known is None:
        return None
    seconds = max(0, now_ms - known.reported_at_ms) / 1000
    limit = known.log_end + LOG_GROWTH_BYTES + round(seconds * LOG_GROWTH_BYTES_PER_SECOND)
    if log_end <= limit:
        return None
    return "node.log_end_jump", Reason.of(
        Code.LOG_END_JUMP,
        end=log_end,
        before=known.log_end,
        seconds=round(seconds),
        rate=LOG_GROWTH_BYTES_PER_SECOND,
    )


def check_values(request: NodeRegisterRequest) -> None:
    """Raises ProtocolError for a registration with values that no node sends and no database stores."""
    for value, what in ((request.broker_group, "broker group"), (request.node_id, "node id")):
        if not value or len(value) > NAME_CHARS_MAX:
            raise ProtocolError(f"{what} {value[:40]!r}: must be 1 to {NAME_CHARS_MAX} characters")
    addresses = [(request.address, "address")]
    if request.admin_address:
        addresses.append((request.admin_address, "admin address"))
    if request.sync_address:
        addresses.append((request.sync_address, "sync address"))
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
    _check_led_membership(request)
    for value, what in ((request.boot_id, "boot id"), (request.rack, "rack")):
        if value and (problem := hidden_text_problem(value)):
            raise ProtocolError(f"{what} {value[:40]!a} {problem}")


def _check_led_membership(request: NodeRegisterRequest) -> None:
    """Raises ProtocolError for a membership that this node can't lead, or members that it can't count."""
    membership = request.led_membership
    if membership is None:
        if request.counted:
            raise ProtocolError("counted members without the membership that the node leads")
        return
    if (membership.broker_group, membership.master) != (request.broker_group, request.node_id):
        raise ProtocolError(
            f"node {request.node_id[:40]!r} of group {request.broker_group[:40]!r} reports that it leads a membership of group"
            f" {membership.broker_group[:40]!r} with master {membership.master[:40]!r}"
        )
    strangers = set(request.counted) - set(membership.members)
    if strangers or request.node_id not in request.counted:
        raise ProtocolError(
            f"node {request.node_id[:40]!r} counts {', '.join(sorted(request.counted))[:200]!a}: must be itself and other"
            " members of its group"
        )
