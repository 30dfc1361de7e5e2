"""Rows that are stored as they were in a backup, and their replacement by what the last master reports."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

from metaserver.memory.group_table import GroupTable
from metaserver.memory.live_groups import LiveGroup
from metaserver.memory.row_wishes import RowWish
from qmq.protocol.reasons import RESTORED, Code, Reason
from qmq_node.replication.rules.promotion import recovered
from qmq_node.replication.rules.row import ChangeRejected, GroupRow

logger = logging.getLogger("qmq.meta.rows")

RESTORED_SECONDS = 3.0
"""How long the stored row has to be older than one that is known before it counts as restored: another metaserver's change may be
known of a node before it is read here. Only what the master reports after that time is used."""


@dataclass(frozen=True, slots=True)
class Recovery:
    """The change that replaces a row restored from a backup by the one that the last master knows."""

    newest_place: tuple[int, int]
    """The highest place of the row that is known."""
    reported: GroupRow
    """What the master knows to be stored of its epoch."""
    counted: frozenset[str]
    """The members that the master counts."""

    def applied_to(self, row: GroupRow) -> GroupRow:
        """Return the changed row. Raises ChangeRejected."""
        if row.place >= self.newest_place:
            raise ChangeRejected(
                f"the stored row of {row.broker_group} is not older than one that is known", is_stale=True
            )
        changed = recovered(row, self.newest_place, self.reported, self.counted)
        if changed is None:
            raise ChangeRejected(
                f"node {self.reported.master} leads epoch {self.reported.epoch}, and epoch {self.newest_place[0]} is known"
            )
        # The minimum is what an operator decided, and is not a part of the change.
        return replace(changed, in_sync_min=row.in_sync_min)


def recovery(live: LiveGroup, newest_place: tuple[int, int], now: float) -> RowWish | None:
    """Return the change by which a group's last master brings the stored row up to date; None while it has not reported.

    The report has to be newer than the discovery of the restored row. So whatever the master had not counted any more when it
    sent the report was removed from the row before the database was restored.
    """
    assert live.restored_at is not None
    since = live.restored_at + RESTORED_SECONDS
    leading = [
        (GroupRow.of(report.request.led_row), report.request)
        for name, report in live.reports.items()
        if name in live.row.members and report.is_live(now) and report.received_at > since
        if report.request.led_row is not None and report.request.led_row.epoch >= newest_place[0]
    ]
    if not leading or len({row.promotion_id for row, _ in leading}) > 1:
        # Two promotions began one epoch: one of them was made of the restored row. An operator decides.
        return None
    row, request = max(leading, key=lambda led: led[0].epoch)
    change = Recovery(newest_place, row, frozenset(request.counted))
    reason = Reason.of(Code.RECOVERED, master=request.node_id)
    return RowWish(change.applied_to, "recover", reason, is_recovery=True)


@dataclass(eq=False, repr=False)
class RestoredRows:
    """Finds restored rows. Until the last master reports, or an operator promotes a member, changes of the row are rejected."""

    _groups: GroupTable
    _start: Callable[[str, RowWish, Callable[[str], None]], None]
    """Changes the row of a group, then calls the third argument: "" if it was changed, else why it was not or is not known."""
    _record: Callable[[str, tuple[int, int], Callable[[], None]], None]
    """Records the place that is known of a group's row in the database, then calls the third argument."""
    _running: set[str] = field(default_factory=set, init=False)
    _recording: set[str] = field(default_factory=set, init=False)
    blocked: dict[str, str] = field(default_factory=dict, init=False)
    """By broker group, why its row can't be changed."""

    def check(self, now: float) -> None:
        """Find restored rows, and bring them up to date. To be called every half second."""
        blocked = {}
        for name, live in self._groups.groups.items():
            if live.restored_at is None:
                continue
            place = self._groups.newest_place(name)
            if not live.is_recorded and name not in self._recording:
                # At once: another metaserver may have been away while the row changed, and know no more than the backup.
                self._recording.add(name)
                self._record(name, place, partial(self._recording.discard, name))
            if now - live.restored_at <= RESTORED_SECONDS:
                continue
            blocked[name] = (
                f"the stored row is older than epoch {place[0]}, version {place[1]}, which is known: {RESTORED}"
            )
            if name not in self.blocked:
                logger.error("the row of broker group %s can't be changed: %s", name, blocked[name])
            wish = recovery(live, place, now) if name not in self._running else None
            if wish is not None:
                self._running.add(name)
                self._start(name, wish, partial(self._ended, name))
        self.blocked = blocked

    def _ended(self, name: str, _: str) -> None:
        self._running.discard(name)
