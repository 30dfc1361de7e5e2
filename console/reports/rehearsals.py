"""Rehearsals: switch-overs of all broker and delay groups that a node, or the nodes of a rack, lead, as if these were stopped.

There is no state of a rehearsal beside that of its groups. Each group is switched over by a request of its own
(`console.cluster.switch_over`), whose audit entry says that it was a rehearsal and which node led before. From that follows what
can be switched back, no matter who ended in the middle of it.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.utils import timezone

from metaserver import queries
from metaserver.choices import GroupKind
from metaserver.errors import NotFound
from metaserver.memory.members import Member, Members
from qmq.protocol.reasons import Code, Reason

UNDO_HOURS = 24
"""For so long a rehearsal can be switched back."""
UNDO_ENTRIES_MAX = 1_000
"""The newest switch-overs that are checked for that."""


@dataclass(frozen=True, slots=True)
class PlannedSwitchOver:
    """A group that would be switched over."""

    broker_group: str
    kind: GroupKind
    version: int
    """Of the group, for If-Match."""
    master: str
    """The node that leads it."""
    to: str
    """The node that would lead it; "" if none can."""
    why: Reason
    """Why none can; "" if one can."""


@dataclass(frozen=True, slots=True)
class RehearsedSwitchOver(PlannedSwitchOver):
    """A group that a rehearsal has switched over, and that would be switched back."""

    rehearsal: str
    at: datetime
    actor: str


@dataclass(frozen=True, slots=True)
class Rack:
    """A rack with its nodes, and how many groups they lead."""

    rack: str
    nodes: int
    groups: int


class Rehearsals:
    """What can be switched over and back, as of now."""

    def __init__(self, now: datetime | None = None) -> None:
        self._now = now or timezone.now()
        self._all = queries.all_members(self._now)
        self._versions: Mapping[str, int] = dict(queries.approved_broker_groups().values_list("name", "version"))

    def of_node(self, node_id: str) -> list[PlannedSwitchOver]:
        """The groups that a node leads. Raises NotFound."""
        if not any(one.find(node_id) for one in self._all):
            raise NotFound(f"Node {node_id!r} not found.", code="node.unknown")
        return self._planned({node_id}, Reason())

    def of_rack(self, rack: str) -> list[PlannedSwitchOver]:
        """The groups that the nodes of a rack lead; they are switched over to nodes that are not on it. Raises NotFound."""
        nodes = {member.node_id for one in self._all for member in one.nodes if _rack(member) == rack}
        if not rack or not nodes:
            raise NotFound(f"No node is on rack {rack!r}.", code="rack.unknown")
        return self._planned(nodes, Reason.of(Code.NONE_ELSEWHERE, rack=rack))

    def racks(self) -> list[Rack]:
        """All racks that nodes were started with."""
        nodes = Counter(_rack(member) for one in self._all for member in one.nodes)
        leaders = (one.leading for one in self._all)
        groups = Counter(_rack(member) for member in leaders if member is not None)
        return [Rack(name, nodes[name], groups[name]) for name in sorted(nodes) if name]

    def to_undo(self) -> list[RehearsedSwitchOver]:
        """The groups whose last requested switch-over was a rehearsal, and that another node leads since."""
        since = self._now - timedelta(hours=UNDO_HOURS)
        entries = queries.audit_entries().filter(action=queries.SWITCH_OVER, at__gte=since)[:UNDO_ENTRIES_MAX]
        last: dict[str, Any] = {}
        for entry in entries:
            last.setdefault(entry.target, entry)
        found = []
        for one in self._all:
            last_entry, leading = last.get(one.group.name), one.leading
            if last_entry is None or leading is None:
                continue
            requested: Mapping[str, str] = last_entry.after or {}
            rehearsal, node_id = requested.get("rehearsal", ""), requested["from"]
            if not rehearsal or leading.node_id == node_id:
                continue
            before = one.find(node_id)
            problem = before.problem if before is not None else Reason.of(Code.NOT_MEMBER)
            why = one.restored_problem if one.is_restored else problem
            found.append(
                RehearsedSwitchOver(
                    *self._head(one),
                    leading.node_id,
                    "" if why else node_id,
                    _of(node_id, why),
                    rehearsal,
                    last_entry.at,
                    last_entry.actor,
                )
            )
        return found

    def _head(self, members: Members) -> tuple[str, GroupKind, int]:
        group = members.group
        return group.name, group.kind, self._versions.get(group.name, 0)

    def _planned(self, nodes: Iterable[str], otherwise: Reason) -> list[PlannedSwitchOver]:
        """Args:
        otherwise: why no node can lead a group that only these nodes could.
        """
        found = []
        for one in self._all:
            leading = one.leading
            if leading is None or leading.node_id not in nodes:
                continue
            candidates = one.candidates(without=leading.node_id)
            able = [member for member in candidates if member.node_id not in nodes]
            why = Reason() if able else otherwise if candidates else one.candidate_problem
            found.append(PlannedSwitchOver(*self._head(one), leading.node_id, able[0].node_id if able else "", why))
        return found


def _rack(member: Member) -> str:
    return member.node.rack if member.node is not None else ""


def _of(node_id: str, why: Reason) -> Reason:
    return Reason.of(Code.NODE_WITH, node=node_id, why=why) if why else why
