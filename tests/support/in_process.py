"""A broker inside the test's own process and loop, and a raw client for it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from broker_node.broker import Broker
from broker_node.options import BrokerOptions
from qmq.clock import Clock
from qmq.log.disk import Disk
from qmq.net.caller import Caller
from qmq.protocol.codes import Command, ResponseCode
from qmq.protocol.commands import AckRequest, Filter, PullRequest, PullResponse, SendFailure, decode_send_response
from qmq.protocol.extensions import EnsureGroupRequest
from qmq.protocol.frames import Frame
from qmq.protocol.messages import Message, decode_raws, encode_entry

CREATED = {"qmq_createTime": "1700000000000"}


def message(number: int, subject: str = "orders", tags: tuple[str, ...] = (), size: int = 0) -> Message:
    """A message that tells itself apart."""
    properties = {**CREATED, "number": str(number), **({"data": "x" * size} if size else {})}
    return Message(subject, f"m{number}", properties, tags, 0, 1_700_000_000_000, 1_700_000_000_000)


class Client:
    """Raw requests on one connection."""

    def __init__(self, caller: Caller) -> None:
        self.caller = caller

    async def send(self, *messages: Message) -> dict[str, SendFailure]:
        """Failures by message id."""
        frame = await self.caller.call(
            Command.SEND_MESSAGE, b"".join(encode_entry(item) for item in messages), timeout_s=10
        )
        assert frame.code == ResponseCode.SUCCESS, frame.code
        return decode_send_response(frame.body)

    async def pull(
        self,
        subject: str = "orders",
        group: str = "g",
        consumer: str = "c1",
        *,
        limit: int = 50,
        last: int = -1,
        timeout_ms: int = -1,
        broadcast: bool = False,
        filters: tuple[Filter, ...] = (),
        version: int = 9,
    ) -> tuple[int, list[str]]:
        """(first pull sequence, message ids); (-1, []) for nothing."""
        request = PullRequest(subject, group, consumer, limit, -1, last, timeout_ms, broadcast, filters)
        frame = await self.caller.call(
            Command.PULL_MESSAGE, request.encode(version), timeout_s=timeout_ms / 1000 + 10, version=version
        )
        if frame.code == ResponseCode.NO_MESSAGE:
            return -1, []
        assert frame.code == ResponseCode.SUCCESS, frame.code
        answer = PullResponse.decode(frame.body, version)
        assert answer is not None
        return answer.pull_begin, [item.message_id for item in decode_raws(answer.raws)]

    async def ack(
        self,
        begin: int,
        last: int,
        subject: str = "orders",
        group: str = "g",
        consumer: str = "c1",
        broadcast: bool = False,
    ) -> int:
        """The answer's code."""
        request = AckRequest(subject, group, consumer, begin, last, broadcast)
        return (await self.caller.call(Command.ACK_REQUEST, request.encode(9), timeout_s=10)).code

    async def begin(
        self,
        subject: str = "orders",
        group: str = "g",
        start: str = "earliest",
        value: int = 0,
        broadcast: bool = False,
    ) -> int:
        """Make, or set, a group's position; the answer's code."""
        request = EnsureGroupRequest(subject, group, start, value, False, broadcast)
        return (await self.caller.call(Command.ENSURE_GROUP, request.encode(9), timeout_s=10)).code

    async def raw(self, code: int, body: bytes, version: int = 9) -> Frame:
        """Any request."""
        return await self.caller.call(code, body, timeout_s=10, version=version)


@asynccontextmanager
async def running_broker(
    folder: Path, *, clock: Clock | None = None, disk: Disk | None = None, **settings: Any
) -> AsyncIterator[Broker]:
    """A broker on free ports, without a metaserver."""
    defaults: dict[str, Any] = {"segment_bytes": 4 << 20, "retry_delay_seconds": 0.0}
    options = BrokerOptions(data_dir=str(folder / "broker"), port=0, admin_port=0, meta="", **{**defaults, **settings})
    (folder / "broker").mkdir(exist_ok=True)  # the lock file is real whatever the disk is
    broker = Broker(options, clock=clock, disk=disk)
    try:
        await broker.start()
        yield broker
    finally:
        await broker.close()


@asynccontextmanager
async def connected(broker: Broker) -> AsyncIterator[Client]:
    """A client of it."""
    caller = Caller(*broker.server.address)
    await caller.connect()
    try:
        yield Client(caller)
    finally:
        await caller.close()
