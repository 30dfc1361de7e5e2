"""class GroupTable: broker groups with their memberships and leases, and what other metaservers stored of them. No I/O,
time handed in.

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
from qmq.protocol import group_memberships as wire
from qmq.protocol.reasons import Code, Reason
from qmq_node.replication.rules.membership import Membership

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
        self._changed_memberships: dict[str, None] = {}
        """Groups whose membership, as nodes get it, changed since `take_changed_memberships`."""

    @property
    def now(self) -> float:
        """Monotonic seconds."""
        return self._clock.monotonic()

    # --- memberships ------------------------------------------------------------------------------------------------------

    def newest_place(self, name: str) -> tuple[int, int]:
        """The highest place of a group's membership that was read from the database or the route file, or was reported by a member.

        A stored membership with a lower place comes from a backup (`Membership.check_not_restored`).
        """
        live = self.groups[name]
        return max(live.reported_place, live.membership.place)

    def new_promotion_id(self) -> str:
        """Return an identifier for a promotion."""
        return str(UUID(int=self._rng.getrandbits(128), version=4))

    def membership_on_wire(self, live: LiveGroup, membership: Membership | None = None) -> wire.GroupMembership:
        """The group's membership, or another membership of it, as nodes get it: with the addresses at which they
        reach each other."""
        membership = membership or live.membership
        return membership.sent(
            self._sync_address(membership.master), tuple(map(self._sync_address, membership.members))
        )

    def _sync_address(self, node_id: str) -> str:
        """The address of a node's sync port; "" if it is not known."""
        node = self.nodes.get(node_id)
        # No host has a comma, and a wrong one must not keep the membership from others.
        return node.sync_address if node is not None and "," not in node.sync_address else ""

    def take_changed_memberships(self) -> list[str]:
        """The groups whose membership changed since the last call, however it was learned."""
        changed, self._changed_memberships = self._changed_memberships, {}
        return list(changed)

    def learn_membership(self, membership: Membership) -> None:
        """Replace the membership of a group by one read from the database, unless that is older."""
        live = self.groups.get(membership.broker_group)
        if live is not None:
            self._learn(live, live.group, membership)

    def learn_newer_membership(self, saved: BrokerGroup) -> None:
        """As `learn_membership`, for a membership of the route file: an older one, or the same, changes nothing.

        A group that was removed and created again meanwhile is another one.
        """
        live, membership = self.groups.get(saved.name), saved.membership
        if live is None or saved.created_at_us not in (0, live.group.created_at_us):
            return
        live.reported_place = max(live.reported_place, saved.membership.known_place)
        if membership.place > live.membership.place:
            self._learn(live, live.group, membership)
        elif membership.contradicts(live.membership):
            live.reserve_next_version()

    def learn_group(self, stored: BrokerGroup) -> None:
        """As `learn_membership`, and apply what operators decided."""
        live = self.groups[stored.name]
        self._learn(live, live.group.with_decisions_of(stored), stored.membership)

    def _learn(self, live: LiveGroup, own: BrokerGroup, membership: Membership) -> None:
        before, live.group = live.membership, own
        live.reported_place = max(live.reported_place, membership.known_place)
        if live.is_stored and membership.contradicts(own.membership):
            live.reserve_next_version()
        # Of equal places the stored one is right: two metaservers may have created the group at the same time.
        elif membership.place >= own.membership.place:
            live.group = own.with_membership(membership)
            if membership.epoch > own.membership.epoch:
                if live.peer_heartbeat_at is not None:
                    # Another metaserver received it.
                    live.fitness.served(own.membership.master)
                live.fitness.epoch_began(membership.members, membership.master, self._clock.monotonic())
            if membership.master != own.membership.master:
                live.begin_lease(self._clock.monotonic())
            if not live.is_stored:
                live.is_stored, self._changed_memberships[own.name] = True, None
        for name in live.membership.members:
            if name in live.reports:
                live.learn_reported_membership(live.reports[name].request)
        newest = self.newest_place(own.name)
        live.is_recorded = membership.known_place >= newest
        if membership.place >= newest:
            live.restored_at = None
        elif live.restored_at is None:
            live.restored_at = self._clock.monotonic()
            # The route file has at once which place is known.
            self._changed_memberships[own.name] = None
        if live.membership != before:
            self._changed_memberships[own.name] = None

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
            self.learn_membership(lease.group.membership)
            if live.membership.master != lease.node.node_id:
                # What is stored is older than the own membership.
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
            elif live.is_received_here(now) and lease.group.state != live.group.state:
                # The metaserver that stored it may have received a newer heartbeat, which arrives here in a moment.
                live.contradicted_at = live.contradicted_at or now
                if live.heartbeat_at > live.contradicted_at:
                    contradicted.append(live.group)
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
            self._changed_memberships[live.group.name] = None

    def _follows(self, live: LiveGroup, lease: StoredLease, now: float) -> bool:
        """Whether the stored state of a group replaces the own one."""
        if lease.group.state is GroupState.OFFLINE:
            return not live.is_received_here(now)
        report = live.reports.get(live.membership.master)
        if live.is_replicated and report is not None and report.is_live(now):
            # It arrives here, and may not serve yet: the stored state is that of the master before it.
            return False
        is_recent = live.received_here and now - live.heartbeat_at <= 2 * HEARTBEAT_SECONDS
        return not is_recent and live.is_live_at_peer(now)

    def _follow(self, live: LiveGroup, lease: StoredLease) -> bool:
        """Replace the own state of a group by the stored one; whether clients see a difference."""
        before = live.state, live.node.address if live.node is not None else ""
        node = lease.node.with_newest_log_end(self.nodes.get(lease.node.node_id, lease.node))
        live.group, live.node, live.reported = replace(live.group, state=lease.group.state), node, lease.group.state
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
        """Take silent groups offline; returns them. To be called about every heartbeat interval."""
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
                live.reason = Reason.of(Code.HEARTBEATS_MISSING, seconds=round(self.heartbeat_age(live), 1))
                live.group = replace(live.group, state=GroupState.OFFLINE)
                gone.append(live.group)
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
        if live.node is not None and live.node.node_id == node.node_id == live.membership.master:
            return live.state, self.heartbeat_age(live) if live.has_heartbeat else None
        report = live.reports.get(node.node_id)
        if report is None:
            return GroupState.OFFLINE, None
        state = STATE_FROM_WIRE.get(report.request.state, GroupState.OFFLINE)
        return state if report.is_live(now) else GroupState.OFFLINE, now - report.received_at
