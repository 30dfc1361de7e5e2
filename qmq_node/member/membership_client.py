"""class MembershipClient: a master's requests to metaservers to change the membership of its broker group."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace

from qmq.errors import QmqError
from qmq.protocol.codes import Command, ResponseCode
from qmq.protocol.group_memberships import MembershipResponse, MembershipResult
from qmq.protocol.reasons import Reason
from qmq_node.metaservers.metaservers import Metaservers
from qmq_node.replication.rules.membership import ChangeInSync, Membership, Resignation

MEMBERSHIP_CHANGE_SECONDS = 6.0
"""How long a request to change the membership waits for the metaserver, which waits 5 s for its database."""

logger = logging.getLogger("qmq_node.replication.rules")


@dataclass(eq=False, repr=False)
class MembershipClient:
    """Sends a request to one metaserver after another, until the outcome is known. One without answer may have changed
    the membership.

    A request is valid for one version of the membership, so several metaservers can't make the change twice.
    """

    _broker_group: str
    _metaservers: Callable[[], Metaservers | None]
    """None: the node registers with none."""

    def database_responds(self) -> bool:
        """Whether the database of a metaserver responded when that last answered, within its lease; True without metaservers."""
        metaservers = self._metaservers()
        return metaservers is None or any(
            session.has_lease and session.last is not None and not session.last.database_is_away
            for session in metaservers.in_order()
            if session.caller is not None and not session.caller.is_closed
        )

    async def change_in_sync(self, change: ChangeInSync, reason: Reason) -> tuple[MembershipResult, Membership | None]:
        """Request a change of the in-sync set; the result, and the membership if it is known."""
        answer = await self._answer(Command.CHANGE_IN_SYNC, replace(change, reason=reason).encode())
        return answer.result, Membership.of(answer.membership) if answer.membership is not None else None

    async def resign(self, resignation: Resignation) -> MembershipResponse:
        """Request that a slave be promoted whose log ends where this node's does."""
        return await self._answer(Command.RESIGN, resignation.encode())

    async def _answer(self, command: Command, body: bytes) -> MembershipResponse:
        answer = MembershipResponse(MembershipResult.UNAVAILABLE, "this node is connected to no metaserver")
        metaservers = self._metaservers()
        for session in metaservers.in_order() if metaservers is not None else ():
            if session.caller is None or session.caller.is_closed:
                continue
            try:
                frame = await session.caller.call(command, body, timeout_s=MEMBERSHIP_CHANGE_SECONDS)
                if frame.code != ResponseCode.SUCCESS:
                    raise QmqError(f"it returned code {frame.code}")
                answer = MembershipResponse.decode(frame.body)
                if answer.membership is not None and answer.membership.broker_group != self._broker_group:
                    raise QmqError(f"it returned the membership of broker group {answer.membership.broker_group}")
            except QmqError as error:
                answer = MembershipResponse(MembershipResult.UNAVAILABLE, f"metaserver {session.url}: {error}")
            if answer.result is not MembershipResult.UNAVAILABLE:
                return answer
            logger.info("the outcome of %s is not known: %s", command.name, answer.reason)
        return answer
