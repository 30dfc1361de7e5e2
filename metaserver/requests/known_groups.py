"""class KnownGroupsPages: answers brokers that may have lost consumer groups with those of their subjects."""

import asyncio
from dataclasses import dataclass, field
from itertools import islice

from metaserver.memory.directory import Directory
from metaserver.stored.write_behind import WriteBehind
from qmq.protocol.codes import ClientType, ResponseCode
from qmq.protocol.extensions import KNOWN_GROUPS_MAX, KnownGroupsRequest, KnownGroupsResponse
from qmq.protocol.frames import Frame
from qmq.supervisor import Supervisor
from qmq_node.server.connection import Connection

PAGES_MAX = 16
"""Pages that are being read, queued ones included; a further request is refused as busy. The database is read in one thread, so
more of them would make brokers wait for longer than they do, and hold up what is to be stored."""


@dataclass(eq=False, repr=False)
class KnownGroupsPages:
    """Reads the consumer groups from the database: no metaserver has them in memory. Without it, the answer says so."""

    _directory: Directory
    _write_behind: WriteBehind
    _supervisor: Supervisor
    _under_way: int = field(default=0, init=False)

    def answer(self, connection: Connection, frame: Frame, request: KnownGroupsRequest) -> None:
        """Answer a KNOWN_GROUPS of a node that has registered on the connection. Refused ones are repeated by the node."""
        if self._under_way >= PAGES_MAX:
            busy = KnownGroupsResponse(request.broker_group, problem=f"busy: it reads {PAGES_MAX} pages, the maximum")
            connection.reply(frame, ResponseCode.SUCCESS, busy.encode())
            return

        async def answer() -> None:
            response = await self._page(request)
            connection.reply(frame, ResponseCode.SUCCESS, response.encode())

        def ended(done: "asyncio.Task[None]") -> None:
            self._under_way -= 1
            if not done.cancelled() and done.exception() is not None:
                connection.reply(frame, ResponseCode.BROKER_ERROR)

        self._under_way += 1
        self._supervisor.background("known_groups_page", answer()).add_done_callback(ended)

    async def _page(self, request: KnownGroupsRequest) -> KnownGroupsResponse:
        name = request.broker_group
        stored = await self._write_behind.consumer_groups(request.after, KNOWN_GROUPS_MAX)
        if stored is None:
            return KnownGroupsResponse(name, problem="the database, which has the consumer groups, does not respond")
        # A route that this metaserver has just changed may not be stored yet.
        subjects = self._directory.subjects_of(name)
        groups = [(one.subject, one.name) for one in stored if name in one.broker_groups or one.subject in subjects]
        if len(stored) == KNOWN_GROUPS_MAX:
            return KnownGroupsResponse(name, stored[-1].number, groups=tuple(groups))
        unstored = (
            (client.subject, client.group)
            for client in self._write_behind.unstored_clients()
            if client.client_type == ClientType.CONSUMER and client.group and client.subject in subjects
        )
        groups += islice(unstored, KNOWN_GROUPS_MAX + 1)
        if len(groups) > KNOWN_GROUPS_MAX:
            return KnownGroupsResponse(
                name, problem="many registrations of consumers are not stored in the database yet"
            )
        return KnownGroupsResponse(name, groups=tuple(dict.fromkeys(groups)))
