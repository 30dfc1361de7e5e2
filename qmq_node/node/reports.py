"""What a node reports of itself: on its page /stats, to metaservers, and in its log after a start."""

import logging
from typing import TYPE_CHECKING, Any

from qmq import __version__
from qmq.protocol.codes import BrokerGroupState, BrokerRequestType
from qmq.protocol.extensions import NodeRegisterRequest
from qmq.protocol.reasons import Reason
from qmq_node.log.log import SegmentedLog

if TYPE_CHECKING:
    from qmq_node.node.node import Node


def head(node: "Node") -> dict[str, Any]:
    """Return what `/stats` begins with, also of a node that does not serve. Sizes in bytes."""
    return {
        "broker_group": node.options.broker_group,
        "node_id": node.node_id,
        "epoch": node.replica.state.epoch,
        "version": __version__,
        "uptime_seconds": round(node.uptime_seconds, 3),
        "disk_free_bytes": node.space.disk_free_bytes,
        "disk_total_bytes": node.space.disk_total_bytes,
        "connections": len(node.server.connections),
    }


def state_reason(reason: Reason) -> dict[str, Any]:
    """Return why a node accepts no sends or serves no clients: the sentence, and the same as a code with values; null: it does."""
    return {"state_reason": reason, "state_why": reason.as_json() if reason else None}


def log_report(log: SegmentedLog) -> dict[str, Any]:
    """Return the log for `/stats`. Offsets in bytes."""
    return {
        "begin": log.begin,
        "end": log.written_end,
        "synced_end": log.synced_end,
        "damaged": [{"begin": d.begin, "end": d.end, "why": d.why} for d in log.stored.damaged],
    }


def serving_report(node: "Node") -> dict[str, Any]:
    """Return the head of `/stats` of a node that serves clients."""
    refused, membership = node.refuse_sends(), node.membership
    return {
        **head(node),
        "role": "master",
        "state": "read_only" if refused else "read_write",
        **state_reason(refused),
        "policy": {
            "version": node.policy.version,
            "subjects": len(node.policy.subjects),
            "paused": len(node.policy.paused),
            "read_only": node.policy.read_only,
            "problem": membership.policies.problem if membership is not None else "",
        },
        "metaservers": membership.report() if membership is not None else [],
        "log": log_report(node.log),
    }


def registration(node: "Node", request_type: BrokerRequestType) -> NodeRegisterRequest:
    """Return what a node without replication sends metaservers."""
    host = node.options.advertise_host or node.options.host
    return NodeRegisterRequest(
        request_type=request_type,
        broker_group=node.options.broker_group,
        node_id=node.node_id,
        kind=node.kind,
        role=node.role,
        address=f"{host}:{node.server.address[1]}",
        admin_address=f"{node.options.admin_host}:{node.admin_address[1]}",
        state=BrokerGroupState.OFFLINE if request_type is BrokerRequestType.OFFLINE else node.state,
        epoch=node.replica.state.epoch,
        log_end=node.log.synced_end,
        started_at_ms=node.started_at_ms,
        version=__version__,
        policy_version=node.policy.version,
    )


def log_recovery(log: SegmentedLog, seconds: float, logger: logging.Logger) -> None:
    """Log what opening a log found.

    Args:
        seconds: how long it took.
    """
    logger.info("recovered in %.2f s: the log begins at %d and ends at %d", seconds, log.begin, log.written_end)
    if log.torn_bytes:
        logger.warning("%d bytes of an unanswered commit at the log's end were cleared", log.torn_bytes)
    for damage in log.stored.damaged:
        logger.error(
            "the log is damaged between offsets %d and %d (%s): messages there are withheld, sends are refused",
            damage.begin, damage.end, damage.why,
        )  # fmt: skip
