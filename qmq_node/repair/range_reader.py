"""class RangeReader: reads ranges from one other member (READ_RANGE)."""

from dataclasses import dataclass, field

from qmq.errors import ConnectionLost, ProtocolError, ReadRefused
from qmq.net.caller import Caller
from qmq.net.discovery import split_address
from qmq.net.node_secret import NodeSecret
from qmq.protocol.codes import Command, ResponseCode
from qmq.protocol.extensions import Refusal
from qmq.protocol.replication import ReadRangeRequest, ReadRangeResponse
from qmq_node.repair.ranges import WantedRange
from qmq_node.replication.slave_claim import RangeClaim, prove

READ_SECONDS = 30.0
"""Time limit for one answer. The other member may read slowly on purpose."""


@dataclass(eq=False, repr=False)
class RangeReader:
    """A connection to the sync port of another member, opened by the first read."""

    name: str
    """Node ID of the other member."""
    _address: str
    _claim: RangeClaim
    _secret: NodeSecret | None
    """Of the sync port; None: neither side proves anything."""
    _caller: Caller | None = field(default=None, init=False)

    async def read(self, wanted: WantedRange) -> ReadRangeResponse:
        """Return the first bytes of a range.

        Raises:
            ReadRefused: the other member does not have it, or refuses it; with a code of READ_RANGE.
            QmqError: it does not answer, or not as it has to.
        """
        claim = self._claim
        request = ReadRangeRequest(
            claim.broker_group, claim.node_id, claim.epoch, claim.promotion_id, wanted.file, wanted.since, wanted.begin,
            wanted.end, wanted.crc,
        )  # fmt: skip
        caller = await self._connected()
        frame = await caller.call(Command.READ_RANGE, request.encode(), timeout_s=READ_SECONDS)
        if frame.code == ResponseCode.PARAM_ERROR:
            refusal = Refusal.decode(frame.body)
            raise ReadRefused(refusal.message, code=refusal.code)
        if frame.code != ResponseCode.SUCCESS:
            raise ConnectionLost(f"READ_RANGE was answered with code {frame.code}")
        answer = ReadRangeResponse.decode(frame.body)
        if not wanted.begin <= answer.begin < wanted.end:
            raise ProtocolError(
                f"ReadRangeResponse.begin: {answer.begin} is not in the range from {wanted.begin} to {wanted.end}"
            )
        return answer

    async def _connected(self) -> Caller:
        if self._caller is None:
            self._caller = caller = Caller(*split_address(self._address))
            await caller.connect()
            await prove(caller, self._secret, self._claim)
        return self._caller

    async def close(self) -> None:
        """Close the connection; the next read opens another one."""
        if self._caller is not None:
            caller, self._caller = self._caller, None
            await caller.close()
