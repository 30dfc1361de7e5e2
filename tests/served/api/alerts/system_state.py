"""Snapshots in the collector's form."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from metaserver import domain
from metaserver.choices import GroupKind, GroupState
from metaserver.models import BrokerGroup, Node
from metaserver.reports import StoredReport
from metaserver.services import broker_groups
from qmq.protocol.reasons import Reason
from qmq_node.replication.rules.membership import Membership
from tests.served.api.alerts.receiver import ACTOR

BEGIN = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)


def at(seconds: float) -> datetime:
    """So many seconds after the tests' beginning of time."""
    return BEGIN + timedelta(seconds=seconds)


def node(reason: str | None = None, **fields: Any) -> dict[str, Any]:
    """A node's entry."""
    known = {"state": "read_write", "disk_free_bytes": 50, **fields}
    return {"reason": reason, **(known if reason is None else dict.fromkeys(known))}


def group(lag: int | None = 0, time_lag_seconds: float | None = 0.0, reason: str | None = None) -> dict[str, Any]:
    """A consumer group's entry."""
    return {"lag": lag, "time_lag_seconds": time_lag_seconds, "reason": reason if lag is None else None}


def snapshot(
    groups: dict[str, dict[str, Any]] | None = None,
    nodes: dict[str, dict[str, Any]] | None = None,
    sent: dict[str, int | None] | None = None,
) -> dict[str, Any]:
    """Groups by subject/group, nodes, and how many messages subjects have had."""
    return {
        "groups": {key.replace("/", "\n"): entry for key, entry in (groups or {}).items()},
        "nodes": {"node-1": node()} if nodes is None else nodes,
        "subjects": {
            name: {"sent_messages": count, "reason": None if count is not None else "away"}
            for name, count in (sent or {}).items()
        },
    }


def lagging(lag: int | None, target: str = "orders/billing") -> dict[str, Any]:
    """A snapshot with one group's lag."""
    return snapshot({target: group(lag, reason="node-1 is away")})


def store_members(
    of: GroupKind = GroupKind.BROKER,
    *,
    master: str = "master",
    slave: str = "in_sync",
    in_sync: tuple[str, ...] = ("a", "b"),
    limitations: tuple[Reason, ...] = (),
) -> None:
    """A group that should have three copies, and has two members with these roles. The limitations are the master's."""
    row = Membership("g1", ("a", "b"), "a", in_sync, 3, 9, "00000000-0000-4000-8000-000000000003")
    made = domain.BrokerGroup(of, GroupState.READ_WRITE, replace(row, copies=3))
    Node.objects.all().delete()
    BrokerGroup.objects.all().delete()
    broker_groups.save_group(made, actor=ACTOR, reason="test")
    for node_id, role in (("a", master), ("b", slave)):
        limits = limitations if node_id == "a" else ()
        report = StoredReport(role, 3, 3, 5000, 5000, 10, newest_place=(3, 9), limitations=limits).encoded()
        broker_groups.save_node(domain.Node(node_id, "g1", 0, "h:1", "", "1", 5000, log_epoch=3, report=report))
        Node.objects.filter(node_id=node_id).update(leased_at=at(0))
