"""The faults of a delay group: those of every group, of clocks and of brokers; and changes of its members by an operator."""

import asyncio
from contextlib import suppress
from dataclasses import replace
from uuid import UUID

from delay_node.delay_node import DelayNode
from delay_node.schedule_log import INDEX_BYTES, hour_name
from metaserver.domain import BrokerGroup
from qmq.errors import QmqError
from qmq_node.replication.rules.members import RemoveMember, ReplaceMember
from qmq_node.replication.rules.membership import ChangeRejected, Membership
from tests.sim.slaves.deliveries import Deliveries
from tests.sim.slaves.due_brokers import DueBrokers
from tests.sim.slaves.member_logs import folder_of
from tests.sim.slaves.storm import FAULTS as GROUP_FAULTS
from tests.sim.slaves.storm import SlavesStorm
from tests.sim.world.cluster import Host
from tests.support.disks.memory_disk import Inode
from tests.support.stored_groups import changed

STEPS_MS = (-3_600_000, -5_000, -500, 500, 4_000, 4_000, 3_600_000, 3_600_000)
MEMBER_SECONDS = (0.5, 5.0)
"""How long an operator waits before what follows on a removal."""
OPEN_SECONDS = 1.0
CHECKPOINT_SECONDS = 2.5
"""A master whose entry was lost makes a checkpoint within this."""
LEFT_OUT = ("clock_strobe", "restored_database", "accepted_loss")
FAULTS = (
    *(name for name in GROUP_FAULTS if name not in LEFT_OUT),
    "clock_step",
    "broker_failover",
    "remove_member",
    "replace_member",
    "reduce_to_one",
    "lost_checkpoints",
    "lost_entry",
)
"""Those of `storm.FAULTS` that fit, and more."""


async def _open_hour(node: DelayNode, number: int) -> None:
    with suppress(QmqError):
        async with node.store.open_hours.use(number):
            pass


class DelayStorm(SlavesStorm):
    """Injects faults into a delay group."""

    deliveries: Deliveries
    brokers: DueBrokers
    _steps_clock = False
    """One clock at a time is wrong."""

    async def clock_step(self) -> None:
        """The wall clock of one member steps, perhaps while it restarts, and is put right later."""
        if self._steps_clock:
            return
        host = self._member()
        step_ms = self._rng.choice(STEPS_MS)
        self._steps_clock = True
        self.note(f"the clock of {host.name} steps by {step_ms} ms")
        self.deliveries.clock_steps(host, step_ms)
        host.clock.offset_ms += step_ms
        if self._rng.random() < 0.4 and host.process is not None:
            self.note(f"kill {host.name}")
            host.kill()
            await self._start_later(host, 0.1)
        await asyncio.sleep(self._rng.uniform(1, 12))
        host.clock.offset_ms = 0
        self._steps_clock = False

    async def broker_failover(self) -> None:
        """Brokers get another master. The former one is killed, cut off, paused, or knows it."""
        former = self.brokers.master
        how = self._rng.choice(("kill", "pause", "cut", ""))
        self.note(f"brokers fail over from {former.name}: {how or 'it knows'}")
        seconds = self._rng.uniform(1, 6)
        process, network = former.process, self._cluster.network
        if how == "kill":
            former.kill()
        elif how == "pause" and process is not None:
            process.pause()
        elif how == "cut":
            for host in self.watch.hosts.values():
                network.cut(former.name, host.name)
        await self.brokers.fail_over()
        await asyncio.sleep(seconds)
        if how == "kill":
            former.start()
        elif how == "pause" and process is not None and not process.is_dead:
            process.resume()
        elif how == "cut":
            for host in self.watch.hosts.values():
                network.mend(former.name, host.name)

    async def lost_checkpoints(self) -> None:
        """A member that does not run loses its checkpoints. With a log that begins at 0 it makes its state from that; otherwise it
        copies another member's."""
        host = self._member()
        if host.process is None or not self._may_damage(host):
            return
        self.note(f"{host.name} loses its checkpoints")
        host.kill()
        for names in (host.disk.names, host.disk.durable_names):
            for path in [path for path in names if path.startswith(f"{folder_of(host)}/checkpoint/")]:
                del names[path]
        host.has_damaged_log = True
        await self._start_later(host, self._rng.choice((0.1, 2.0, 8.0)))

    async def lost_entry(self) -> None:
        """A disk returns an index entry of the master wrong until its hour was opened. The message is lost there, and not for a
        slave that copies the hour later."""
        host = self._master()
        server, hours = host.server, self._closed_hours(host)
        if not isinstance(server, DelayNode) or host.process is None or not hours or not self._may_damage(host):
            return
        number, inode = self._rng.choice(hours)
        self.watch.damaged.add(self._node_id(host))
        self.note(f"an index entry of hour {number} of {host.name} is returned wrong")
        self._flip(inode)
        await asyncio.wait({host.process.start(_open_hour(server, number))}, timeout=OPEN_SECONDS)
        self._flip(inode)
        await asyncio.sleep(CHECKPOINT_SECONDS)
        others = [node for node in self._others() if self.may_lose(node)]
        if others:
            await self.replace_disk(node := self._rng.choice(others))
            await self._start_later(self.watch.hosts[node], 0.1)
        await self._until_replaced(host)

    def _closed_hours(self, host: Host) -> list[tuple[int, Inode]]:
        """Hours of a node whose entries are on disk and not in memory, with their indexes."""
        if not isinstance(host.server, DelayNode):
            return []
        found = []
        for number, hour in host.server.store.hours.items():
            inode = host.disk.names.get(f"{folder_of(host)}/schedule/{hour_name(number)}.index")
            if inode is not None and len(inode.synced) >= INDEX_BYTES and hour.pending and hour.states is None:
                found.append((number, inode))
        return found

    @staticmethod
    def _flip(inode: Inode) -> None:
        """Flip a bit of the first entry."""
        for content in (inode.content, inode.synced):
            content[0] ^= 1

    # --- members ---------------------------------------------------------------------------------------------------

    @property
    def _group(self) -> BrokerGroup:
        return self._cluster.database.stored.groups[self.watch.group]

    def _store(self, membership: Membership, copies: int) -> None:
        """Store another membership, as `services.member_changes` does."""
        database, before = self._cluster.database, self._group
        if database.is_away:
            return
        stored = database.stored.groups
        stored[self.watch.group] = changed(before.with_membership(membership), copies=copies)
        for then in database.on_membership:
            then(self.watch.group, before.membership, membership)
        database.changed(group=self.watch.group)

    def _remove(self, node: str, copies: int) -> bool:
        """Remove a member; whether the rules allow it. Another one may be the only one whose disk is as it was."""
        membership = self._group.membership
        if self.watch.damaged:
            return False
        promotion_id = str(UUID(int=self._rng.getrandbits(128)))
        try:
            change = RemoveMember(*membership.place, node, promotion_id)
            self._store(change.applied_to(membership), copies)
        except ChangeRejected:
            return False
        self.note(f"an operator removes {node}")
        return True

    def _others(self) -> list[str]:
        """The members that are not the master."""
        membership = self._group.membership
        return [node for node in membership.members if node != membership.master]

    async def remove_member(self) -> None:
        """A member is removed. Its data folder is emptied later, and it joins again."""
        others = self._others()
        if not others or not self._remove(node := self._rng.choice(others), len(self._group.membership.members) - 1):
            return
        await asyncio.sleep(self._rng.uniform(*MEMBER_SECONDS))
        await self._rejoin(node)

    async def reduce_to_one(self) -> None:
        """All slaves are removed, at once or one after the other; they join again later."""
        removed = []
        for node in self._others():
            if self._remove(node, 1):
                removed.append(node)
            await asyncio.sleep(self._rng.choice((0.0, 0.0, 1.0)))
        await asyncio.sleep(self._rng.uniform(*MEMBER_SECONDS))
        for node in removed:
            await self._rejoin(node)

    async def replace_member(self) -> None:
        """A node takes the place of a member, which may be the master, and that one joins again later."""
        if len(self._others()) < 2 or not self._remove(new := self._rng.choice(self._others()), 2):
            return
        await self._empty(new)
        membership = self._group.membership
        old = self._rng.choice(membership.members)
        try:
            self._store(ReplaceMember(*membership.place, old, new).applied_to(membership), 2)
        except ChangeRejected:
            return
        self.note(f"an operator has {old} replaced by {new}")
        await asyncio.sleep(self._rng.uniform(2.0, 8.0))
        if old not in self._group.membership.members:
            await self._rejoin(old)

    async def _empty(self, node: str) -> None:
        """Empty the data folder of a node that is no member."""
        if node in self._group.membership.members or not self.may_lose(node):
            return
        await self.replace_disk(node)
        await self._start_later(self.watch.hosts[node], 0.1)

    async def _rejoin(self, node: str) -> None:
        """Let a node that is no member join again, with an empty folder."""
        await self._empty(node)
        membership = self._group.membership
        if node not in membership.members:
            self._set_copies(len(membership.members) + 1)

    def _set_copies(self, copies: int) -> None:
        membership = self._group.membership
        self._store(replace(membership, version=membership.version + 1), copies)

    async def repair(self) -> None:
        """As for every group; nodes that are no members join again, and unfinished replacements are cancelled."""
        await super().repair()
        membership = self._group.membership
        if membership.replacement and membership.replacement not in membership.members:
            self._remove(membership.replacement, len(membership.members))
        for node in self.watch.hosts:
            if node not in self._group.membership.members and self._group.membership.master:
                await self._rejoin(node)
                return
