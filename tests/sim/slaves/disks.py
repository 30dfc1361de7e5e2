"""Faults of members' disks: slow, failing, full, damaged, older, lost."""

import asyncio
from collections.abc import Callable
from random import Random

from qmq_node.log.segment import SegmentInfo
from tests.sim.slaves.cuts import Cuts
from tests.sim.slaves.member_logs import durable_state, folder_of
from tests.sim.world.cluster import Host, MemberNode
from tests.sim.world.disk import SimulatedDisk
from tests.support.disks.memory_disk import PAGE_BYTES, Inode

UNDAMAGED_BYTES = 8 << 10
"""Bytes at a log's end that are not damaged: whether its very last commit was synced can't be told from damage."""
WAIT_SECONDS = 8.0
"""A disk is damaged within this, if its log becomes long enough, and another member has everything."""
LOOK_SECONDS = 0.5


class DiskFaults(Cuts):
    """Injects faults of disks."""

    async def slow_syncs(self) -> None:
        """Each sync of a member takes as long as on a busy network disk."""
        await self._slow_syncs(self._member())

    async def slow_slave(self) -> None:
        """The same of a slave."""
        await self._slow_syncs(self._rng.choice(self._slaves()))

    async def _slow_syncs(self, host: Host) -> None:
        host.weather.sync_seconds = self._rng.choice((0.05, 0.2))
        self.note(f"syncs of {host.name} take {host.weather.sync_seconds} s")
        await asyncio.sleep(self._rng.uniform(1, 7))
        host.weather.sync_seconds = 0.0

    def hanging_sync(self) -> None:
        """One sync of a member takes seconds."""
        host = self._member()
        host.weather.hang_seconds = self._rng.choice((2.0, 4.0, 10.0))
        self.note(f"a sync of {host.name} takes {host.weather.hang_seconds} s")

    def failing_write(self) -> None:
        """A write of a member fails when half of it is written."""
        host = self._member()
        self.note(f"a write of {host.name} fails")
        host.weather.failing_writes += 1
        host.has_bad_disk = True

    # --- lost ------------------------------------------------------------------------------------------------------

    async def new_disk(self) -> None:
        """A member gets a new disk, if another one in sync keeps what was acknowledged."""
        host = self._member()
        node = self._node_id(host)
        if host.process is not None and self.may_lose(node):
            await self.replace_disk(node)
            await self._start_later(host, self._rng.choice((0.1, 2.0, 8.0)))

    async def replace_disk(self, node: str) -> None:
        """End a member and give it an empty disk."""
        host = self.watch.hosts[node]
        self.note(f"{host.name} gets a new disk")
        host.kill()
        host.has_damaged_log = False
        host.disk = empty_disk(host, self._cluster.loop.rng(f"new disk {len(self.events)}"))
        self.watch.new_disk(node)

    def may_lose(self, node: str) -> bool:
        """Whether another member has everything: it runs, the newest membership names it, and its disk is as it was.

        If it did not run, the member that lost its disk might be promoted for its last heartbeat, and would be alone in the set.
        """
        running = {name for name, host in self.watch.hosts.items() if host.is_serving}
        return self._membership_stays_known(node) and bool(
            self.watch.in_sync_nodes() & running - {node} - self.watch.damaged - self._copying()
        )

    def _membership_stays_known(self, node: str) -> bool:
        """Whether the newest membership is stored, or another member of the stored membership than this one knows it
        (docs/failover.md, "Assumptions"). Otherwise the only member of a restored membership would serve with its empty
        disk."""
        newest = self.watch.membership
        if newest is None:
            return True
        stored = self._cluster.database.stored.groups[newest.broker_group].membership
        return stored.place >= newest.place or any(
            durable_state(self.watch.hosts[other]).epoch >= newest.epoch for other in stored.members if other != node
        )

    def _copying(self) -> set[str]:
        """The members that have discarded their logs, and have no whole copy yet."""
        states = {node: durable_state(host).copying for node, host in self.watch.hosts.items()}
        return {node for node, copying in states.items() if copying is not None and not copying.is_usable}

    # --- damaged ---------------------------------------------------------------------------------------------------

    async def flipped_bit(self) -> None:
        """A bit of a member's log flips."""
        if (place := await self._place(1)) is not None:
            host, inode, size = place
            at = self._rng.randrange(size)
            self.note(f"a bit of {host.name} flips at {at} of a segment")
            inode.content[at] ^= 1 << self._rng.randrange(8)
            inode.synced[at] = inode.content[at]
            await self._until_replaced(host)

    async def swapped_blocks(self) -> None:
        """Two blocks of 4 KB of a member's log are swapped."""
        if (place := await self._place(2 * PAGE_BYTES)) is not None:
            host, inode, size = place
            one, other = self._rng.sample(range(size // PAGE_BYTES), 2)
            self.note(f"blocks {one} and {other} of a segment of {host.name} are swapped")
            for content in (inode.content, inode.synced):
                a, b = (slice(block * PAGE_BYTES, (block + 1) * PAGE_BYTES) for block in (one, other))
                content[a], content[b] = content[b], content[a]
            await self._until_replaced(host)

    async def missing_segment(self) -> None:
        """A segment in the middle of a member's log is removed while the member does not run."""
        host = self._member()
        if await self._within(lambda: len(_segments(host.disk)) > 2 and self._may_damage(host)):
            path = self._rng.choice(_segments(host.disk)[1:-1])
            self.note(f"{path} is removed")
            host.kill()
            for names in (host.disk.names, host.disk.durable_names):
                names.pop(path, None)
            self._damaged_now(host)
            await self._start_later(host, 0.1)
            await self._until_replaced(host)

    async def older_file(self) -> None:
        """The newest segment of a slave's log is put back from a copy while the slave does not run."""
        await self._put_back(self._rng.choice(self._slaves()), is_whole=False)

    async def older_folder(self) -> None:
        """A member's whole data folder is put back from a copy."""
        await self._put_back(self._member(), is_whole=True)

    async def _put_back(self, host: Host, *, is_whole: bool) -> None:
        """Put a whole copy back that ends before what the member reported.

        A segment has the newest epoch, and is still the newest one: damage before it can leave with retention, and what
        followed from it stays lost.
        """
        node, server = self._node_id(host), host.server
        if (
            not isinstance(server, MemberNode)
            or server.folder.replica.state.is_only_member
            or node in self.watch.damaged
        ):
            return
        copy, end, epoch, paths = (
            host.disk.after_kill(),
            server.log.synced_end,
            server.folder.replica.state.epoch,
            _segments(host.disk),
        )
        nodes = self._cluster.database.stored.nodes
        if not paths or not await self._within(
            lambda: (
                node in nodes
                and nodes[node].log_end > end
                and paths[-1] in _segments(host.disk)[0 if is_whole else -1 :]
                and self._may_put_back(host, None if is_whole else epoch)
            )
        ):
            return
        self.note(
            f"{'the folder' if is_whole else 'a segment'} of {host.name} is put back from a copy that ends at {end}"
        )
        host.kill()
        if is_whole:
            host.disk = copy  # type: ignore[assignment]
            self.watch.older_folder(node)
        else:
            host.disk.names[paths[-1]] = host.disk.durable_names[paths[-1]] = copy.names[paths[-1]]
        self._damaged_now(host)
        self.watch.rejoining.add(node)
        await self._start_later(host, 0.1)
        await self._until_replaced(host)

    def _may_put_back(self, host: Host, epoch: int | None) -> bool:
        """Whether older files may be put back in a host's folder. Of one epoch: it is a slave, and that epoch is the newest."""
        membership = self.watch.membership
        is_slave = membership is not None and membership.epoch == epoch and host is not self._master()
        return (epoch is None or is_slave) and host.process is not None and self._may_damage(host)

    async def _place(self, size: int) -> tuple[Host, Inode, int] | None:
        """Wait until a member may be damaged; return it, a segment of it, and how many bytes there are old, at least `size`."""
        host = self._member()
        if not await self._within(lambda: bool(self._old_segments(host, size)) and self._may_damage(host)):
            return None
        info, old = self._rng.choice(self._old_segments(host, size))
        self._damaged_now(host)
        return host, host.disk.names[f"{folder_of(host)}/log/{info.base:020}"], old

    def _old_segments(self, host: Host, size: int) -> list[tuple[SegmentInfo, int]]:
        limit = len(self.watch.committed) - UNDAMAGED_BYTES
        infos = host.server.log.stored.segments() if isinstance(host.server, MemberNode) else ()
        return [(info, old) for info in infos if (old := min(info.end, limit) - info.base) >= size]

    async def _within(self, is_so: Callable[[], bool]) -> bool:
        """Wait until a condition holds; whether it does within WAIT_SECONDS."""
        for _ in range(round(WAIT_SECONDS / LOOK_SECONDS)):
            if is_so():
                return True
            await asyncio.sleep(LOOK_SECONDS)
        return is_so()

    def _may_damage(self, host: Host) -> bool:
        return not self.watch.damaged and self.may_lose(self._node_id(host))

    def _damaged_now(self, host: Host) -> None:
        host.has_bad_disk = host.has_damaged_log = True
        self.watch.damaged.add(self._node_id(host))

    async def _until_replaced(self, host: Host) -> None:
        """An operator replaces the disk of a damaged member: not at once, and not while another member lacks messages."""
        node = self._node_id(host)
        await asyncio.sleep(self._rng.uniform(1, 6))
        if node in self.watch.damaged and self.may_lose(node):
            await self.replace_disk(node)
            await self._start_later(host, 0.1)

    def _node_id(self, host: Host) -> str:
        return next(name for name, one in self.watch.hosts.items() if one is host)

    async def _start_later(self, host: Host, seconds: float) -> None:
        await asyncio.sleep(seconds)
        self._cluster.network.power_on(host.name)
        if host.process is None and not host.is_wanted:
            host.start()


def _segments(disk: SimulatedDisk) -> list[str]:
    """Return the paths of a log's segments, in order."""
    return sorted(path for path in disk.names if "/log/" in path and path.rpartition("/")[2].isdigit())


def empty_disk(host: Host, rng: Random) -> SimulatedDisk:
    """Return a new disk for a host."""
    return SimulatedDisk(host.disk._loop, host.name, rng, host.weather)
