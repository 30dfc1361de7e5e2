"""What a node reports of its role in its broker group on the page /stats."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from qmq_node.replication.master.leading import Leading
from qmq_node.replication.slave.follower import Follower

if TYPE_CHECKING:
    from qmq_node.member.replication import Replication


def role_report(role: "Replication") -> dict[str, Any]:
    """Return the table `replication` of the page /stats. Offsets and sizes in bytes; what is not known is null."""
    member, membership = role.member, role.member.membership
    report: dict[str, Any] = {
        "role": member.role.name.lower(),
        "reason": member.reason,
        "epoch": role.replica.state.epoch,
        "master": membership.master if membership is not None else None,
        "members": list(membership.members) if membership is not None else None,
        "in_sync": list(membership.in_sync) if membership is not None else None,
        "in_sync_min": membership.in_sync_min if membership is not None else None,
        "in_sync_version": membership.in_sync_version if membership is not None else None,
        "high_watermark": role.log.high_watermark,
        "repairs": role.repairs.report(),
        "role_changes": dict(role.machine.role_changes.by_role),
    }
    if member.leading is not None:
        report |= _of_master(member.leading)
    if member.follower is not None:
        report |= _of_slave(role, member.follower)
    return report


def _of_master(leading: Leading) -> dict[str, Any]:
    membership = leading.current_membership
    slaves = [
        {**asdict(slave), "state": slave.state.name.lower() if slave.state is not None else None}
        for slave in leading.slaves()
    ]
    return {
        "in_sync": list(membership.in_sync),
        "in_sync_version": membership.version,
        "stalled_seconds": round(leading.master.stalled_seconds, 3),
        "unreachable": list(leading.in_sync.unreachable),
        "slow": {slave: round(seconds, 3) for slave, seconds in leading.in_sync.slow.items()},
        "slaves": slaves,
    }


def _of_slave(role: "Replication", follower: Follower) -> dict[str, Any]:
    silent, progress = follower.silent_seconds, follower.copy.progress
    return {
        "received_end": role.log.written_end,
        "confirmed_end": role.log.synced_end if not follower.copy.is_copying else None,
        "applied_end": role.shell.applying.applied_end if role.shell.applying is not None else None,
        "master_silent_seconds": round(silent, 3) if silent is not None else None,
        "problem": follower.problem,
        "copy": progress.report() if progress is not None else None,
    }
