"""A producer that keeps its connection to one node, whichever node is the master."""

import asyncio
import time
from types import TracebackType

from qmq.errors import QmqError
from qmq.net.caller import Caller
from qmq.protocol.codes import Command, ResponseCode
from qmq.protocol.commands import decode_send_response
from qmq.protocol.frames import Frame
from qmq.protocol.messages import KEY_CREATED, Message, encode_entry
from qmq.receipt import Receipt
from tests.faults.replication.load import Load

ANSWER_SECONDS = 60.0


class DirectSends:
    """Sends to the subject of a load over one connection to one node. Use it as `async with`.

    Args:
        broker_group: the node's.
    """

    def __init__(self, load: Load, host: str, port: int, broker_group: str) -> None:
        self._load = load
        self._caller = Caller(host, port, connect_seconds=ANSWER_SECONDS)
        self._broker_group = broker_group
        self.acked = 0
        self.not_acked: list[str] = []
        """Why: rejected, or unknown because the connection ended."""

    async def __aenter__(self) -> "DirectSends":
        await self._caller.connect()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._caller.close()

    def send(self) -> "asyncio.Task[None]":
        """Write a request with one message now; the task ends with its answer. What is acknowledged must be received."""
        number = self._load.sends.begin()
        message = Message(
            self._load.subject, f"direct-{number}", {"data": str(number), KEY_CREATED: str(time.time_ns() // 10**6)}
        )
        return asyncio.ensure_future(
            self._outcome(number, self._caller.call_soon(Command.SEND_MESSAGE, encode_entry(message)))
        )

    async def _outcome(self, number: int, answer: "asyncio.Future[Frame]") -> None:
        try:
            frame = await answer
        except QmqError as error:
            self.not_acked.append(str(error))
            return
        if frame.code == ResponseCode.SUCCESS and not (failures := decode_send_response(frame.body)):
            self._load.sends.end(number, Receipt(f"direct-{number}", self._load.subject, self._broker_group, 1))
            self.acked += 1
        else:
            self.not_acked.append(
                f"code {frame.code}: {failures if frame.code == ResponseCode.SUCCESS else bytes(frame.body)!r}"
            )
