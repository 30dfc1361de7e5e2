"""A planned switch-over: a slave of a broker group becomes its master."""

from console.cluster import entries, limits
from console.cluster.admin import node_admin
from console.cluster.asking import NO_ADDRESS, ask
from metaserver.errors import Conflict
from metaserver.services import members as service
from metaserver.services.changes import Actor, Change
from metaserver.services.notes import NoteCode
from qmq.errors import ConnectionLost, QmqError
from qmq.node_admin import STATUS_NOT_SERVING, NodeRefused
from qmq.protocol.reasons import Reason


def switch_over(
    name: str,
    to: str = "",
    *,
    rehearsal: str = "",
    actor: Actor,
    reason: str = "",
    expected_version: int | None = None,
    dry_run: bool = False,
) -> Change:
    """Let a slave lead a broker group. Its master holds requests meanwhile; none is rejected.

    The audit entry is written before the master is contacted, and a second one if it rejects the request.

    Args:
        to: the node ID of the successor; "": the slave that has the most.
        rehearsal: what is rehearsed by it, such as "node g1-a", for the audit log (`console.reports.rehearsals`); "": nothing.

    Raises:
        NotFound: there is no such broker group, or the node is not a member of it.
        Conflict: no slave can be promoted, or the master rejects it. Nothing was changed.
        ConnectionLost: the master can't be reached, or does not know whether the slave becomes the master.
        Stale: the group has another version.
    """
    master, successor, version = service.plan_switch_over(name, to, expected_version)
    before, planned = {"master": master.node_id}, {"master": successor.node_id}
    if dry_run:
        note = Reason.of(NoteCode.BECOMES_MASTER, node=successor.node_id, master=master.node_id)
        return Change(name, before, planned, version, () if to else (note,))
    address = master.node.admin_address if master.node is not None else ""
    if not address:
        raise ConnectionLost(f"node {master.node_id}: {NO_ADDRESS}", code="node.no_master")
    admin = node_admin(address, limits.SWITCH_OVER_SECONDS)
    requested = {"from": master.node_id, "to": to or "any", **({"rehearsal": rehearsal} if rehearsal else {})}
    entries.note(actor, "broker_group.switch_over", name, reason, requested)
    try:
        done = ask(lambda: admin.switch_over(to))
    except QmqError as error:
        failed = {**requested, "error": str(error)[:500]}
        entries.note(actor, "broker_group.switch_over_failed", name, reason, failed)
        if not isinstance(error, NodeRefused):
            raise
        if error.status == STATUS_NOT_SERVING:
            raise ConnectionLost(str(error), code=error.code) from error
        raise Conflict(str(error), code=error.code) from error
    after = {"master": str(done["to"]), "epoch": str(done["epoch"])}
    held = Reason.of(NoteCode.REQUESTS_HELD, seconds=round(float(done["held_seconds"]), 1))
    return Change(name, before, after, version, (held,))
