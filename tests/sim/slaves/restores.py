"""The database is restored from a backup, with or without the metaservers' route files."""

import asyncio

from metaserver.server import Metaserver
from qmq_node.replication.rules.membership import Membership
from tests.sim.slaves.decisions import Decisions
from tests.sim.slaves.member_logs import durable_state
from tests.sim.world.cluster import Host, MemberNode

BACKUP_SECONDS = (1.0, 10.0)
"""How old the backup is."""
LOOK_SECONDS = 0.1
REPORTED_SECONDS = 5.0
"""After this time without another fault between them, metaservers know what members and other metaservers know: a report arrives
within 3 s, and the membership is read and the place recorded within 2 s."""


class Restores(Decisions):
    """Restores the database under the assumption of docs/failover.md: the newest membership is reported in time.

    So metaservers are stopped while no running server knows the newest membership.
    """

    _is_restoring = False
    """Only one restore is under way at a time."""

    async def restored_database(self) -> None:
        """The database is restored: alone, or with the route files of all metaservers, or these are lost, or one metaserver was
        away since the backup."""
        if self._is_restoring:
            return
        self._is_restoring = True
        form = self._rng.choice(("database", "database", "restored", "emptied", "away"))
        try:
            await (super().restored_database() if form == "database" else self._restore(form))
        finally:
            self._is_restoring = False

    async def _restore(self, form: str) -> None:
        cluster, metas = self._cluster, list(self._cluster.metas.values())
        cluster.back_up()
        away = metas[-1] if form == "away" and len(metas) > 1 else None
        if away is not None:
            self.note(f"{away.name} is away")
            away.kill()
        await asyncio.sleep(self._rng.uniform(*BACKUP_SECONDS))
        for host in metas if away is None else [away]:
            host.kill()
        backup, newest = cluster.database.backup, self.watch.membership
        restored = backup.groups.get(newest.broker_group) if backup is not None and newest is not None else None
        if restored is not None and self._may_restore_database() and self._is_known(restored.membership):
            self.note(f"the database is restored from a backup, {self._files(form, away)}")
            cluster.database.restore()
            for host in metas if away is None else ():
                cluster.restore_route_file(host, is_emptied=form == "emptied")
        await self._until_known()
        for host in metas:
            if host.process is None and not host.is_wanted:
                host.start()

    def _files(self, form: str, away: Host | None) -> str:
        if away is not None:
            return f"and {away.name} was away since"
        return "and the route files are empty" if form == "emptied" else "with the route files"

    def _is_known(self, restored: Membership) -> bool:
        """Whether a server runs that knows the newest membership after this one is restored."""
        return any(self._knows(host, restored) for host in self._cluster.hosts.values())

    def _knows(self, host: Host, restored: Membership) -> bool:
        """Whether a metaserver or a member of the restored membership runs, knows the newest one, and reaches all metaservers
        that run. What another node knows does not count."""
        process, server, membership = host.process, host.server, self.watch.membership
        if process is None or process.is_paused or server is None or membership is None:
            return False
        if isinstance(server, Metaserver):
            group = server.directory.groups.get(membership.broker_group)
            is_cut = self._cluster.database.is_away or host.name in self._cluster.database.unreachable_from
            return (
                group is not None
                and server.directory.newest_place(membership.broker_group) >= membership.place
                and not is_cut
            )
        if not isinstance(server, MemberNode) or host not in self.watch.hosts.values():
            return False
        if self._node_id(host) not in restored.members:
            return False
        state, network = durable_state(host), self._cluster.network
        is_cut = any(
            network.is_cut(*pair) for meta in self._cluster.metas for pair in ((host.name, meta), (meta, host.name))
        )
        return (state.epoch, state.version) >= membership.place and not is_cut

    async def _until_known(self) -> None:
        """Let metaservers run only while a running server knows the newest membership. Ends once the database
        has a record of it, or all metaservers have run for REPORTED_SECONDS.

        If the faults end before, all members and metaservers start together.
        """
        cluster, database, began = self._cluster, self._cluster.database, self._cluster.loop.now
        while (membership := self.watch.membership) is not None and cluster.loop.now - began < REPORTED_SECONDS:
            stored = database.stored.groups[membership.broker_group].membership
            if max(stored.place, stored.known_place) >= membership.place:
                return
            may_run = self._is_known(stored)
            for host in cluster.metas.values():
                if host.process is None and not host.is_wanted and may_run:
                    host.start()
                elif host.process is not None and not may_run:
                    host.kill()
            runs = all(host.process is not None and not host.process.is_paused for host in cluster.metas.values())
            is_slow = database.is_away or database.slowness > 1 or database.unreachable_from or cluster.network.is_slow
            if not may_run or not runs or is_slow:
                began = cluster.loop.now
            await asyncio.sleep(LOOK_SECONDS)
