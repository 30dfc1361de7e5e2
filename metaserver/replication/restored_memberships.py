"""Memberships that are stored as they were in a backup, and their replacement by what the last master reports."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

from metaserver.memory.group_table import GroupTable
from metaserver.memory.live_groups import LiveGroup
from metaserver.memory.membership_wishes import MembershipWish
from qmq.protocol.reasons import RESTORED, Code, Reason
from qmq_node.replication.rules.membership import ChangeRejected, Membership
from qmq_node.replication.rules.promotion import recovered

logger = logging.getLogger("qmq.meta.memberships")

RESTORED_SECONDS = 3.0
"""How long the stored membership has to be older than one that is known before it counts as restored: another
metaserver's change may be known of a node before it is read here. Only what the master reports after that time is
used."""


@dataclass(frozen=True, slots=True)
class Recovery:
    """The change that replaces a membership restored from a backup by the one that the last master knows."""

    newest_place: tuple[int, int]
    """The highest place of the membership that is known."""
    reported: Membership
    """What the master knows to be stored of its epoch."""
    counted: frozenset[str]
    """The members that the master counts."""

    def applied_to(self, membership: Membership) -> Membership:
        """Return the changed membership. Raises ChangeRejected."""
        if membership.place >= self.newest_place:
            raise ChangeRejected(
                f"the stored membership of {membership.broker_group} is not older than one that is known", is_stale=True
            )
        changed = recovered(membership, self.newest_place, self.reported, self.counted)
        if changed is None:
            raise ChangeRejected(
                f"node {self.reported.master} leads epoch {self.reported.epoch}, and epoch {self.newest_place[0]} is known"
            )
        # The minimum is what an operator decided, and is not a part of the change.
        return replace(changed, in_sync_min=membership.in_sync_min)


def recovery(live: LiveGroup, newest_place: tuple[int, int], now: float) -> MembershipWish | None:
    """Return the change by which a group's last master brings the stored membership up to date; None while it has not reported.

    The report has to be newer than the discovery of the restored membership. So whatever the master had not counted any
    more when it sent the report was removed from the membership before the database was restored.
    """
    assert live.restored_at is not None
    since = live.restored_at + RESTORED_SECONDS
    leading = [
        (Membership.of(report.request.led_membership), report.request)
        for name, report in live.reports.items()
        if name in live.membership.members and report.is_live(now) and report.received_at > since
        if report.request.led_membership is not None and report.request.led_membership.epoch >= newest_place[0]
    ]
    if not leading or len({membership.promotion_id for membership, _ in leading}) > 1:
        # Two promotions began one epoch: one of them was made of the restored membership. An operator decides.
        return None
    membership, request = max(leading, key=lambda led: led[0].epoch)
    change = Recovery(newest_place, membership, frozenset(request.counted))
    reason = Reason.of(Code.RECOVERED, master=request.node_id)
    return MembershipWish(change.applied_to, "recover", reason, is_recovery=True)


@dataclass(eq=False, repr=False)
class RestoredMemberships:
    """Finds restored memberships. Until the last master reports, or an operator promotes a member, changes of the
    membership are rejected."""

    _groups: GroupTable
    _start: Callable[[str, MembershipWish, Callable[[str], None]], None]
    """Changes the membership of a group, then calls the third argument: "" if it was changed, else why it was not or is
    not known."""
    _record: Callable[[str, tuple[int, int], Callable[[], None]], None]
    """Records the place that is known of a group's membership in the database, then calls the third argument."""
    _running: set[str] = field(default_factory=set, init=False)
    _recording: set[str] = field(default_factory=set, init=False)
    blocked: dict[str, str] = field(default_factory=dict, init=False)
    """By broker group, why its membership can't be changed."""

    def check(self, now: float) -> None:
        """Find restored memberships, and bring them up to date. To be called every half second."""
        blocked = {}
        for name, live in self._groups.groups.items():
            if live.restored_at is None:
                continue
            place = self._groups.newest_place(name)
            if not live.is_recorded and name not in self._recording:
                # At once: another metaserver may have been away while the membership changed, and know no more than the backup.
                self._recording.add(name)
                self._record(name, place, partial(self._recording.discard, name))
            if now - live.restored_at <= RESTORED_SECONDS:
                continue
            blocked[name] = (
                f"the stored membership is older than epoch {place[0]}, version {place[1]}, which is known: {RESTORED}"
            )
            if name not in self.blocked:
                logger.error("the membership of broker group %s can't be changed: %s", name, blocked[name])
            wish = recovery(live, place, now) if name not in self._running else None
            if wish is not None:
                self._running.add(name)
                self._start(name, wish, partial(self._ended, name))
        self.blocked = blocked

    def _ended(self, name: str, _: str) -> None:
        self._running.discard(name)
