"""class MembershipRecords: memberships of broker groups are in the route file before nodes get them."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass, field
from typing import Any

from metaserver.memory.group_table import GroupTable
from qmq.supervisor import Supervisor

logger = logging.getLogger("qmq.meta.memberships")

RECORD_SECONDS = 1.0
"""How long a membership waits for the disk of the route file before nodes get it nevertheless."""


@dataclass(eq=False, repr=False)
class MembershipRecords:
    """Keeps changed memberships back until the route file has them: the database is first, then the file, then the nodes.

    Nodes act on the memberships that they get. A master stops waiting for a slave that is not in sync any more, for
    example, and the slave then lacks what is acknowledged. If the database is restored from a backup in which that
    slave is in sync, a metaserver has to notice it (`Membership.check_not_restored`), also when all of them were
    restarted in between. As each membership is in the file of the metaserver that sent it, at least that metaserver
    does. A crash after the database and before the file loses nothing, because no node has acted on the membership yet.
    The opposite order could leave a place in the file that the database never had, which would block the group.

    A disk that fails, or does not respond for RECORD_SECONDS, does not hold up a failover: nodes get the membership without it.
    """

    _groups: GroupTable
    _save: Callable[[], Coroutine[Any, Any, None]]
    """Writes the route file; an error is reported there."""
    _supervisor: Supervisor
    _on_recorded: Callable[[list[str]], None]
    """Called with the names of groups whose membership may be sent."""
    _recorded: dict[str, tuple[int, int]] = field(default_factory=dict, init=False)
    """By broker group, the place of the newest membership that nodes may get."""
    _waiting: dict[str, None] = field(default_factory=dict, init=False)
    _recording: list[str] = field(default_factory=list, init=False)
    """Groups whose memberships are being written."""
    _round: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    """Set when `_recording` are written."""
    _task: "asyncio.Task[None] | None" = field(default=None, init=False)
    _saving: "asyncio.Task[None] | None" = field(default=None, init=False)

    def is_recorded(self, name: str) -> bool:
        """Whether nodes may get the present membership of a group."""
        live = self._groups.groups.get(name)
        return live is not None and live.membership.place <= self._recorded.get(name, (-1, -1))

    def record(self, names: Iterable[str]) -> None:
        """Write the present memberships of these groups to the file."""
        self._waiting.update(dict.fromkeys(names))
        if self._waiting and (self._task is None or self._task.done()):
            self._task = self._supervisor.background("membership_record", self._run())

    def is_recording(self, name: str) -> bool:
        """Whether the membership of a group is being written, or is to be."""
        is_running = self._task is not None and not self._task.done()
        return is_running and (name in self._waiting or name in self._recording)

    async def recorded(self, name: str) -> None:
        """Wait until nodes may get the membership of a group that is being written."""
        while self.is_recording(name):
            await self._round.wait()

    async def _run(self) -> None:
        while self._waiting:
            self._round = asyncio.Event()
            try:
                await self._record_waiting()
            finally:
                self._recording = []
                self._round.set()

    async def _record_waiting(self) -> None:
        """Write the memberships of all groups that wait."""
        groups = self._groups.groups
        names, self._waiting = [name for name in self._waiting if name in groups], {}
        self._recording = names
        places = {name: groups[name].membership.place for name in names}
        if not await self._saved():
            logger.warning(
                "nodes get the memberships of %s before the route file has them: its disk has not responded for %g s",
                ", ".join(names),
                RECORD_SECONDS,
            )
        kept = {name: place for name, place in self._recorded.items() if name in groups}
        self._recorded = kept | places
        self._on_recorded(names)

    async def _saved(self) -> bool:
        """Save the file; False if that takes too long. An earlier save that takes too long is not joined by further ones."""
        if self._saving is not None:
            await asyncio.wait({self._saving}, timeout=RECORD_SECONDS)
            if not self._saving.done():
                return False
        self._saving = self._supervisor.background("route_file_memberships", self._save())
        await asyncio.wait({self._saving}, timeout=RECORD_SECONDS)
        return self._saving.done()
