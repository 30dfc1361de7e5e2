"""Members that are replaced by another node: they leave when that may be."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from metaserver.memory.group_table import GroupTable
from metaserver.memory.live_groups import LiveGroup
from metaserver.memory.membership_wishes import MembershipWish, has_data
from qmq.protocol.reasons import Code, Reason
from qmq_node.replication.rules.members import RemoveMember, leaving


def removal(live: LiveGroup, now: float, promotion_id: str) -> MembershipWish | None:
    """Return the change by which a replaced member leaves; None while it may not.

    As master it switches over first, by itself. If it leaves before its replacement is a member, that has to run with an empty data
    folder, or the group would have a copy less for nothing. The master has to serve with the data folder that is in sync: it may be
    the only one that is left.

    Args:
        promotion_id: identifies the epoch that begins if one member is left.
    """
    membership = live.membership
    old, new, master = leaving(membership), membership.replacement, membership.master
    if not old or old == master or live.serving_incarnation != membership.incarnation_of(master):
        return None
    if new in membership.members:
        reason = Reason.of(Code.LEAVES, node=new, replaced=old)
    else:
        report = live.reports.get(new)
        if report is None or not report.is_live(now) or has_data(report.request):
            return None
        reason = Reason.of(Code.LEAVES_FOR, node=new, replaced=old)
    change = RemoveMember(membership.epoch, membership.version, old, promotion_id)
    return MembershipWish(change.applied_to, "remove_member", reason)


@dataclass(eq=False, repr=False)
class Replacements:
    """Completes the replacements that operators requested, and that are stored with the memberships."""

    _groups: GroupTable
    _start: Callable[[str, MembershipWish, Callable[[str], None]], None]
    """Changes the membership of a group, then calls the third argument."""
    _running: set[str] = field(default_factory=set, init=False)

    def check(self, now: float) -> None:
        """Have replaced members leave. To be called every half second: what was not changed is tried again."""
        for name, live in self._groups.groups.items():
            if not live.membership.replacement or name in self._running:
                continue
            wish = removal(live, now, self._groups.new_promotion_id())
            if wish is not None:
                self._running.add(name)
                self._start(name, wish, partial(self._ended, name))

    def _ended(self, name: str, _: str) -> None:
        self._running.discard(name)
