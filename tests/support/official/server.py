"""A metaserver and a broker that answer like the official server: commands from 200 up get UNKNOWN_CODE, pages beside the
address page get 404."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from qmq.clock import SYSTEM_CLOCK
from qmq.protocol.codes import BrokerGroupState, Command, ResponseCode
from qmq.protocol.commands import (
    AckRequest,
    BrokerGroupRoute,
    ClientRegisterRequest,
    ClientRegisterResponse,
    PullRequest,
    PullResponse,
    SendFailure,
    encode_send_response,
)
from qmq.protocol.frames import Frame
from qmq.protocol.messages import Message, encode_raw
from qmq_node.server.connection import Connection
from qmq_node.server.server import FrameServer
from qmq_node.server.server_limits import ServerLimits
from tests.support.drivers.in_process import machine
from tests.support.drivers.wire import decode_entries

FIRST_OWN_COMMAND = 200
NOT_FOUND = b"HTTP/1.1 404 Not Found\r\nContent-Type: text/html\r\nContent-Length: 22\r\n\r\n<h1>404 Not found</h1>"


@dataclass
class PullLog:
    """What one consumer of a group pulled."""

    messages: list[Message] = field(default_factory=list)
    acked: int = 0
    """The first pull sequence that is not acked."""


@dataclass
class OfficialSystem:
    """What both servers hold, and what they were asked."""

    meta: FrameServer = field(init=False)
    broker: FrameServer = field(init=False)
    http: asyncio.Server = field(init=False)
    stored: dict[str, list[Message]] = field(default_factory=lambda: defaultdict(list))
    positions: dict[tuple[str, str], int] = field(default_factory=dict)
    """Where groups are; a new one starts at the end."""
    pull_logs: dict[tuple[str, str, str], PullLog] = field(default_factory=lambda: defaultdict(PullLog))
    pulls: list[PullRequest] = field(default_factory=list)
    events: list[str] = field(default_factory=list)
    """Sends, by subject and message, and acks of messages, in order."""
    refused_subjects: dict[str, int] = field(default_factory=dict)
    """The result code of sends to a subject."""
    waiting: list[tuple[Connection, Frame, PullRequest]] = field(default_factory=list)
    is_silent: bool = False
    """The broker accepts requests and connections and answers nothing."""

    @property
    def address(self) -> str:
        """Of the metaserver's HTTP port."""
        host, port = self.http.sockets[0].getsockname()[:2]
        return f"{host}:{port}"

    def store(self, subject: str, group: str, *messages: Message) -> None:
        """Messages of a group that exists already and has consumed everything before."""
        self.positions.setdefault((subject, group), len(self.stored[subject]))
        self.stored[subject] += messages

    # --- metaserver ------------------------------------------------------------------------------------------------

    async def page(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One HTTP request."""
        head = await reader.readuntil(b"\r\n\r\n")
        if head.startswith(b"GET /meta/address "):
            body = "{}:{}".format(*self.meta.address).encode()
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        else:
            writer.write(NOT_FOUND)
        writer.close()

    def register(self, connection: Connection, frame: Frame) -> None:
        """Requests to the metaserver."""
        if frame.code != Command.CLIENT_REGISTER:
            connection.reply(frame, ResponseCode.UNKNOWN_CODE)
            return
        request = ClientRegisterRequest.decode(frame.body)
        address = "{}:{}".format(*self.broker.address)
        routes = (BrokerGroupRoute("g1", address, 0, BrokerGroupState.READ_WRITE),)
        answer = ClientRegisterResponse(1, request.subject, request.group, True, int(request.client_type), routes)
        connection.reply(frame, ResponseCode.SUCCESS, answer.encode())

    # --- broker ----------------------------------------------------------------------------------------------------

    def handle(self, connection: Connection, frame: Frame) -> None:
        """Requests to the broker."""
        if self.is_silent:
            return
        if frame.code == Command.SEND_MESSAGE:
            self._send(connection, frame)
        elif frame.code == Command.PULL_MESSAGE:
            request = PullRequest.decode(frame.body, frame.version)
            self.pulls.append(request)
            if not self._pull(connection, frame, request):
                self.waiting.append((connection, frame, request))
        elif frame.code == Command.ACK_REQUEST:
            ack = AckRequest.decode(frame.body, frame.version)
            if not ack.is_heartbeat:
                self.events.append(f"ack {ack.subject} {ack.pull_begin}-{ack.pull_last}")
                self.pull_logs[ack.subject, ack.group, ack.consumer_id].acked = ack.pull_last + 1
            connection.reply(frame, ResponseCode.SUCCESS)
        else:
            connection.reply(frame, ResponseCode.UNKNOWN_CODE)

    def _send(self, connection: Connection, frame: Frame) -> None:
        failures = []
        for message in decode_entries(frame.body):
            if message.subject in self.refused_subjects:
                failures.append(SendFailure(message.message_id, self.refused_subjects[message.subject], "refused"))
                continue
            self.stored[message.subject].append(message)
            self.events.append(f"send {message.subject} {message.message_id}")
        connection.reply(frame, ResponseCode.SUCCESS, encode_send_response(failures))
        self.waiting = [item for item in self.waiting if not self._pull(*item)]

    def _pull(self, connection: Connection, frame: Frame, request: PullRequest) -> bool:
        stored, place = self.stored[request.subject], (request.subject, request.group)
        log = self.pull_logs[request.subject, request.group, request.consumer_id]
        begin = max(request.pull_last + 1, log.acked)
        if begin >= len(log.messages):
            at = self.positions.setdefault(place, len(stored))
            fresh = stored[at : at + request.limit]
            self.positions[place] = at + len(fresh)
            log.messages += fresh
        found = log.messages[begin : begin + request.limit]
        if not found:
            return False
        raws = b"".join(encode_raw(message) for message in found)
        connection.reply(frame, ResponseCode.SUCCESS, PullResponse(begin, memoryview(raws)).encode())
        return True


@asynccontextmanager
async def official_system() -> AsyncIterator[OfficialSystem]:
    """Both servers, running on this loop."""
    system = OfficialSystem()
    limits = ServerLimits(answer_bytes_max=1 << 30, answer_total_bytes_max=1 << 30)
    listen = machine().listen
    system.meta = FrameServer("127.0.0.1", 0, system.register, clock=SYSTEM_CLOCK, listen=listen)
    system.broker = FrameServer("127.0.0.1", 0, system.handle, clock=SYSTEM_CLOCK, limits=limits, listen=listen)
    await system.meta.start()
    await system.broker.start()
    system.http = await asyncio.start_server(system.page, "127.0.0.1", 0)
    try:
        yield system
    finally:
        system.http.close()
        await system.broker.close(0)
        await system.meta.close(0)
