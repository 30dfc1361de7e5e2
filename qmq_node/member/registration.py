"""What a member of a broker group adds to its registrations and heartbeats."""

from dataclasses import replace
from typing import TYPE_CHECKING

from qmq.protocol.codes import BrokerGroupState, ReplicaRole, Role
from qmq.protocol.extensions import NodeRegisterRequest, SlaveEnd
from qmq.protocol.reasons import Code, Reason

if TYPE_CHECKING:
    from qmq_node.member.member_node import MemberNode


def registration_of(node: "MemberNode", request: NodeRegisterRequest) -> NodeRegisterRequest:
    """Return the request with the node's role in its group."""
    host = node.options.advertise_host or node.options.host
    leading, follower = node.member.leading, node.member.follower
    silent = follower.silent_seconds if follower is not None else None
    return replace(
        request,
        role=Role.MASTER if node.is_serving else Role.SLAVE,
        state=request.state if node.is_serving else BrokerGroupState.OFFLINE,
        boot_id=node.boot_id,
        sync_address=f"{host}:{node.sync_port}",
        rack=node.options.rack,
        replica_role=node.member.role,
        promotion_id=node.replica.state.promotion_id,
        log_epoch=node.log.epochs.last_epoch,
        high_watermark=node.log.high_watermark,
        master_silent_ms=-1 if silent is None else round(silent * 1000),
        problems=_problems(node),
        slaves=tuple(SlaveEnd(one.node_id, one.confirmed_end) for one in leading.slaves()) if leading else (),
        led_row=leading.current_row.sent("") if leading else None,
        counted=leading.counted if leading else (),
        incarnation=node.incarnation,
        row_version=node.replica.state.version,
        row_in_sync=node.replica.state.in_sync,
        stuck_ms=round(node.write_watch.stuck_seconds * 1000),
        limitations=(Reason.of(Code.DISK_FULL),) if node.space.is_disk_full else (),
        unreachable=leading.unreachable if leading else (),
    )


def _problems(node: "MemberNode") -> tuple[Reason, ...]:
    member = node.member
    if node.replica.state.is_new:
        # Also before the first row: it may have been a member with data, which no metaserver knows if its log was short.
        return (Reason.of(Code.FOLDER_EMPTY),)
    if node.log.failed is not None and not node.is_serving:
        return (Reason(str(node.log.failed)),)
    if node.write_watch.is_stuck:
        return (Reason.of(Code.DISK_STUCK),)
    if damaged := node.log.stored.damaged:
        # As a master it would have to reject sends, and slaves could not copy its log.
        return (Reason.of(Code.LOG_DAMAGED, begin=damaged[0].begin, end=damaged[-1].end),)
    is_told = member.role is ReplicaRole.FAILED or (node.is_serving and member.reason)
    return (member.reason,) if is_told else ()
