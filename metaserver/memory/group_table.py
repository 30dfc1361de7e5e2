"""class GroupTable: broker groups with their rows and leases, and what other metaservers stored of them. No I/O, time handed in.

Leases are judged by this metaserver's own monotonic clock: from when it received a heartbeat, or observed in the database that
another metaserver had stored one. Clocks of different machines are never compared. After a start, or a pause of its own loop
longer than a lease, no group expires for one full expiry: that of peers if there are any. With a live peer and the database
away none expires either, as the peer may receive the heartbeats.
"""

from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import UUID

from metaserver.choices import STATE_FROM_WIRE, GroupState
from metaserver.domain import BrokerGroup, Leases, Node, StoredLease
from metaserver.memory.live_groups import (
    EXPIRY_SECONDS,
    HEARTBEAT_SECONDS,
    LEASE_SECONDS,
    PEER_EXPIRY_SECONDS,
    LiveGroup,
    Observed,
    Peers,
)
from metaserver.memory.route_table import SUBJECT_GROUPS_MIN, RouteTable
from qmq.clock import Clock
from qmq.protocol import group_rows as wire
from qmq_node.replication.rules.row import GroupRow

if TYPE_CHECKING:
    from random import Random


REPORTED_SECONDS = 3.0
"""A member that runs and reaches a metaserver has reported within this: its longest pause before it connects again (1 s), a
heartbeat (1 s), and a margin."""


class GroupTable(RouteTable):
    """The groups, their nodes, and which of them are alive."""

    def __init__(self, clock: Clock, rng: "Random", subject_groups_min: int = SUBJECT_GROUPS_MIN) -> None:
        super().__init__(clock, rng, subject_groups_min)
        self.nodes: dict[str, Node] = {}
        self._steady_since = self._ticked_at = clock.monotonic()
        """Since then this metaserver has run without a pause, and could read what live peers stored."""
        self._peers = Peers(clock.monotonic())
        self._changed_rows: dict[str, None] = {}
        """Groups whose row, as nodes get it, changed since `take_changed_rows`."""

    @property
    def now(self) -> float:
        """Monotonic seconds."""
        return self._clock.monotonic()

    # --- rows ------------------------------------------------------------------------------------------------------

    def newest_place(self, name: str) -> tuple[int, int]:
        """The highest place of a group's row that was read from the database or the route file, or was reported by a member.

        A stored row with a lower place comes from a backup (`GroupRow.check_not_restored`).
        """
        live = self.groups[name]
        return max(live.reported_place, live.row.group_row.place)

    def new_promotion_id(self) -> str:
        """Return an identifier for a promotion."""
        return str(UUID(int=self._rng.getrandbits(128), version=4))

    def row_on_wire(self, live: LiveGroup, row: GroupRow | None = None) -> wire.GroupRow:
        """The group's row, or another row of it, as nodes get it: with the address at which slaves follow the master."""
        row = row or live.row.group_row
        node = self.nodes.get(row.master)
        return row.sent(node.sync_address if node is not None else "")

    def take_changed_rows(self) -> list[str]:
        """The groups whose row changed since the last call, however it was learned."""
        changed, self._changed_rows = self._changed_rows, {}
        return list(changed)

    def learn_row(self, row: GroupRow) -> None:
        """Replace the row of a group by one read from the database, unless that is older."""
        live = self.groups.get(row.broker_group)
        if live is not None:
            self._learn(live, live.row, row)

    def learn_newer_row(self, saved: BrokerGroup) -> None:
        """As `learn_row`, for a row of the route file: an older one, or the same, changes nothing.

        A group that was removed and created again meanwhile is another one.
        """
        live, row = self.groups.get(saved.name), saved.group_row
        if live is None or saved.created_at_us not in (0, live.row.created_at_us):
            return
        live.reported_place = max(live.reported_place, saved.known_place)
        if row.place > live.row.group_row.place:
            self._learn(live, live.row, row)
        elif row.contradicts(live.row.group_row):
            live.reserve_next_version()

    def learn_group(self, stored: BrokerGroup) -> None:
        """As `learn_row`, and apply what operators decided."""
        live = self.groups[stored.name]
        self._learn(live, live.row.with_decisions_of(stored), stored.group_row)

    def _learn(self, live: LiveGroup, own: BrokerGroup, row: GroupRow) -> None:
        before, live.row = live.row.group_row, own
        live.reported_place = max(live.reported_place, row.known_place)
        if live.is_stored and row.contradicts(own.group_row):
            live.reserve_next_version()
        # Of equal places the stored one is right: two metaservers may have created the group at the same time.
        elif row.place >= own.group_row.place:
            live.row = own.with_group_row(row)
            if row.epoch > own.epoch:
                if live.peer_heartbeat_at is not None:
                    # Another metaserver received it.
                    live.fitness.served(own.master)
                live.fitness.epoch_began(row.members, row.master, self._clock.monotonic())
            if row.master != own.master:
                live.begin_lease(self._clock.monotonic())
            if not live.is_stored:
                live.is_stored, self._changed_rows[own.name] = True, None
        for name in live.row.members:
            if name in live.reports:
                live.learn_reported_row(live.reports[name].request)
        newest = self.newest_place(own.name)
        live.is_recorded = row.known_place >= newest
        if row.place >= newest:
            live.restored_at = None
        elif live.restored_at is None:
            live.restored_at = self._clock.monotonic()
            # The route file has at once which place is known.
            self._changed_rows[own.name] = None
        if live.row.group_row != before:
            self._changed_rows[own.name] = None

    # --- leases ----------------------------------------------------------------------------------------------------

    def observe_peers(self, leases: Leases) -> Observed:
        """Follow what other metaservers stored of groups whose heartbeats they receive. To be called about once a second."""
        now = self._clock.monotonic()
        self._peers.observe(leases.peers, now)
        changed, replaced, contradicted = [], [], []
        for lease in leases.groups:
            live = self.groups.get(lease.group.name)
            if live is None:
                continue
            self.learn_row(lease.group.group_row)
            if live.row.master != lease.node.node_id:
                # What is stored is older than the own row.
                continue
            self._learn_sync_address(live, lease.node, now)
            if live.stored_lease_us not in (None, lease.stored_at_us) and not lease.is_own:
                live.peer_heartbeat_at, live.has_heartbeat = now, True
            live.stored_lease_us = lease.stored_at_us
            if self._follows(live, lease, now):
                if live.is_live_at_peer(now):
                    replaced.append(lease.group.name)
                if self._follow(live, lease):
                    changed.append(lease.group.name)
            elif live.is_received_here(now) and lease.group.state != live.row.state:
                # The metaserver that stored it may have received a newer heartbeat, which arrives here in a moment.
                live.contradicted_at = live.contradicted_at or now
                if live.heartbeat_at > live.contradicted_at:
                    contradicted.append(live.row)
                continue
            live.contradicted_at = None
        return Observed(changed, replaced, contradicted)

    def _learn_sync_address(self, live: LiveGroup, stored: Node, now: float) -> None:
        """Apply the sync address of a master whose heartbeats arrive at another metaserver only."""
        report, known = live.reports.get(stored.node_id), self.nodes.get(stored.node_id, stored)
        if (report is None or not report.is_live(now)) and (
            stored.node_id not in self.nodes or known.sync_address != stored.sync_address
        ):
            self.nodes[stored.node_id] = replace(known, sync_address=stored.sync_address)
            self._changed_rows[live.row.name] = None

    def _follows(self, live: LiveGroup, lease: StoredLease, now: float) -> bool:
        """Whether the stored state of a group replaces the own one."""
        if lease.group.state is GroupState.OFFLINE:
            return not live.is_received_here(now)
        report = live.reports.get(live.row.master)
        if live.is_replicated and report is not None and report.is_live(now):
            # It arrives here, and may not serve yet: the stored state is that of the master before it.
            return False
        is_recent = live.received_here and now - live.heartbeat_at <= 2 * HEARTBEAT_SECONDS
        return not is_recent and live.is_live_at_peer(now)

    def _follow(self, live: LiveGroup, lease: StoredLease) -> bool:
        """Replace the own state of a group by the stored one; whether clients see a difference."""
        before = live.state, live.node.address if live.node is not None else ""
        node = lease.node.with_newest_log_end(self.nodes.get(lease.node.node_id, lease.node))
        live.row, live.node, live.reported = replace(live.row, state=lease.group.state), node, lease.group.state
        live.is_expired = lease.group.state is GroupState.OFFLINE
        live.has_left, live.started_at_ms = False, None
        if not lease.is_own:
            # What this metaserver stored itself may be older than what it knows.
            self.nodes[node.node_id] = node
        if before == (live.state, lease.node.address):
            return False
        live.reason = "reported offline by another metaserver" if live.is_expired else ""
        return True

    def assume_peers(self) -> None:
        """Other metaservers may run: take no group offline before the database was read."""
        self._peers.has_live = True

    def expire(self) -> list[BrokerGroup]:
        """Take silent groups offline; returns their rows. To be called about every heartbeat interval."""
        now = self._clock.monotonic()
        if now - self._ticked_at > LEASE_SECONDS:
            self._steady_since = now
        self._ticked_at = now
        if self._peers.are_out_of_sight(now):
            self._steady_since = now
        if now < self._steady_since + (PEER_EXPIRY_SECONDS if self._peers.has_live else EXPIRY_SECONDS):
            return []
        gone = []
        for live in self.groups.values():
            if not live.is_expired and live.is_overdue(now):
                live.is_expired = True
                live.reason = f"no heartbeat for {self.heartbeat_age(live):.1f} s"
                live.row = replace(live.row, state=GroupState.OFFLINE)
                gone.append(live.row)
        return gone

    def is_steady(self, now: float) -> bool:
        """Whether this metaserver has run and read the database long enough to conclude from what it did not receive."""
        return now >= self._steady_since + EXPIRY_SECONDS

    def has_reports(self, now: float) -> bool:
        """Whether this metaserver has run and read the database long enough for each member that runs to have reported."""
        return now >= self._steady_since + REPORTED_SECONDS

    def learn_log_end(self, node_id: str, stored: tuple[int, int, int]) -> None:
        """Take over version, epoch and end of a node's log that another metaserver stored, if they are newer."""
        node = self.nodes.get(node_id)
        if node is not None:
            version, epoch, end = stored
            newest = replace(node, log_end_version=version, log_epoch=epoch, log_end=end)
            self.nodes[node_id] = node.with_newest_log_end(newest)

    def has_lost_data(self, node: Node) -> bool:
        """Whether the log of a node had reached a higher place than its last report says."""
        live = self.groups.get(node.broker_group)
        report = live.reports.get(node.node_id) if live is not None else None
        return report is not None and report.has_lost_data

    def disconnected(self, node_id: str) -> None:
        """The connection of a node's last registration ended."""
        node = self.nodes.get(node_id)
        live = self.groups.get(node.broker_group) if node is not None else None
        if live is not None and node_id in live.reports:
            live.disconnected_at[node_id] = self._clock.monotonic()

    def heartbeat_age(self, live: LiveGroup) -> float:
        """Seconds since the master's last heartbeat was received here, or observed as stored by another metaserver."""
        return self._clock.monotonic() - max(live.heartbeat_at, live.peer_heartbeat_at or live.heartbeat_at)

    def node_state(self, node: Node) -> tuple[GroupState, float | None]:
        """(state of a node, seconds since its last heartbeat or None if there was none since this metaserver started)."""
        live, now = self.groups.get(node.broker_group), self._clock.monotonic()
        if live is None:
            return GroupState.OFFLINE, None
        if live.node is not None and live.node.node_id == node.node_id == live.row.master:
            return live.state, self.heartbeat_age(live) if live.has_heartbeat else None
        report = live.reports.get(node.node_id)
        if report is None:
            return GroupState.OFFLINE, None
        state = STATE_FROM_WIRE.get(report.request.state, GroupState.OFFLINE)
        return state if report.is_live(now) else GroupState.OFFLINE, now - report.received_at
