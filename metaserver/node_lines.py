"""The nodes of a system, for clients that read logs."""

from metaserver.choices import GroupState, OperatorState
from metaserver.directory import Directory
from qmq.protocol.bulk_read import NODES_MAX, NodeLine
from qmq.protocol.codes import Role


def node_lines(directory: Directory, now_ms: int) -> tuple[NodeLine, ...]:
    """Every node of the approved broker groups; one that is not its group's master counts as offline."""
    lines: list[NodeLine] = []
    for node in sorted(directory.nodes.values(), key=lambda n: (n.broker_group, n.node_id)):
        live = directory.groups.get(node.broker_group)
        if live is not None and live.row.operator_state is OperatorState.UNAPPROVED:
            continue
        if len(lines) == NODES_MAX:
            break
        is_master = live is not None and live.node is not None and live.node.node_id == node.node_id
        state, seen_at_ms = GroupState.OFFLINE, -1
        if live is not None and is_master:
            state = live.state
            if live.has_heartbeat:
                seen_at_ms = now_ms - round(directory.heartbeat_age(live) * 1000)
        lines.append(
            NodeLine(
                node.broker_group,
                node.node_id,
                str(live.row.kind) if live is not None else "",
                _role_word(node.role),
                node.address,
                node.admin_address,
                str(state),
                live.row.epoch if live is not None else 0,
                node.log_end,
                seen_at_ms,
            )
        )
    return tuple(lines)


def _role_word(role: int) -> str:
    """A role as a word, the same for broker and delay nodes; "" for a number that is none."""
    return Role(role).name.lower().removeprefix("delay_") if role in set(Role) else ""
