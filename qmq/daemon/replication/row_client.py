"""class RowClient: a master's requests to metaservers to change the row of its broker group."""

import logging
from collections.abc import Callable
from dataclasses import dataclass

from qmq.daemon.metaserver_session import MetaserverSession
from qmq.errors import QmqError
from qmq.protocol.codes import Command, ResponseCode
from qmq.protocol.group_rows import ChangeInSyncRequest, ResignRequest, RowResponse, RowResult
from qmq.replication.row import ChangeInSync, GroupRow, Resignation

ROW_CHANGE_SECONDS = 6.0
"""How long a request to change the row waits for the metaserver, which waits 5 s for its database."""

logger = logging.getLogger("qmq.replication")


@dataclass(eq=False, repr=False)
class RowClient:
    """Sends requests to the metaserver that the node follows. One without an answer may have changed the row."""

    _broker_group: str
    _followed: Callable[[], MetaserverSession | None]

    async def change_in_sync(self, change: ChangeInSync, reason: str) -> tuple[RowResult, GroupRow | None]:
        """Request a change of the in-sync set; the result, and the row if it is known."""
        request = ChangeInSyncRequest(
            self._broker_group, change.node_id, change.epoch, change.promotion_id, change.version, change.change,
            change.member, reason,
        )  # fmt: skip
        answer = await self._answer(Command.CHANGE_IN_SYNC, request.encode())
        return answer.result, GroupRow.of(answer.row) if answer.row is not None else None

    async def resign(self, resignation: Resignation, end: int, crc: int) -> RowResponse:
        """Request that a slave be promoted whose log ends where this node's does: at `end`, behind the commit with this CRC."""
        request = ResignRequest(
            self._broker_group, resignation.node_id, resignation.epoch, resignation.promotion_id, resignation.version,
            resignation.successor, end, crc, resignation.is_leaving,
        )  # fmt: skip
        return await self._answer(Command.RESIGN, request.encode())

    async def _answer(self, command: Command, body: bytes) -> RowResponse:
        session = self._followed()
        if session is None or session.caller is None:
            return RowResponse(RowResult.UNAVAILABLE, "this node is connected to no metaserver")
        try:
            frame = await session.caller.call(command, body, timeout_s=ROW_CHANGE_SECONDS)
            if frame.code == ResponseCode.SUCCESS:
                return RowResponse.decode(frame.body)
            problem = f"metaserver {session.url} returned code {frame.code}"
        except QmqError as error:
            problem = str(error)
        logger.info("no metaserver has answered %s: %s", command.name, problem)
        return RowResponse(RowResult.UNAVAILABLE, problem)
