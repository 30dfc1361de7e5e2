"""Nodes that answer with the frames of a recording.

Every request of the client must have its counterpart in the recording; what varies (opaque, times, how acknowledgements and sends
are batched, which broker group a message goes to) is compared by meaning. An answer waits until the client has sent what it had
sent before it in the recording. What differs is a line of `differences`.
"""

import asyncio
from collections import defaultdict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from qmq.protocol.codes import Command, ResponseCode
from qmq.protocol.commands import (
    AckRequest,
    ClientRegisterRequest,
    ClientRegisterResponse,
    PullRequest,
    PullResponse,
)
from qmq.protocol.frames import Frame, FrameReader
from qmq.protocol.messages import KEY_CREATED, KEY_EXPIRE, KEY_SCHEDULE, Message, decode_raws
from tests.support.drivers.feeding import feed
from tests.support.drivers.wire import decode_entries, encode_response
from tests.support.official.recording import FIRST_OWN_COMMAND, METASERVER, Page, Recording, describe_request, whole
from tests.support.official.scene import Scene
from tests.support.waiting import eventually_async

TIMES = frozenset({KEY_CREATED, KEY_EXPIRE, KEY_SCHEDULE})
"""Properties that are different in each run."""
OPAQUE_AT = 14
DELAY_NODE = "d1"
NOT_FOUND = Page("", 404, "")

PullKey = tuple[str, str, str, str]
"""Node, subject, group, consumer ID."""
MessageKey = tuple[str, str]
"""Subject, message ID."""


@dataclass(frozen=True, slots=True)
class Needed:
    """Something that the client had sent before an answer. `what` is a MessageKey, or a PullKey with the last acked sequence."""

    what: MessageKey | tuple[PullKey, int]


@dataclass(slots=True)
class RecordedPull:
    """An answer to a pull, and what the client had sent before it."""

    answer: Frame
    needed: list[Needed]


@dataclass(slots=True)
class Waiting:
    """A pull that is not answered yet."""

    key: PullKey
    request: Frame
    writer: asyncio.StreamWriter


@dataclass(slots=True)
class Index:
    """A recording by what the client asks for."""

    routes: dict[tuple[str, int, str], Frame] = field(default_factory=dict)
    sends: dict[tuple[str, MessageKey], Frame] = field(default_factory=dict)
    """The last answer by node and message."""
    messages: dict[MessageKey, Message] = field(default_factory=dict)
    stored: set[MessageKey] = field(default_factory=set)
    pulls: dict[PullKey, deque[RecordedPull]] = field(default_factory=lambda: defaultdict(deque))
    pull_requests: dict[PullKey, PullRequest] = field(default_factory=dict)
    ack: dict[PullKey, tuple[Frame, int]] = field(default_factory=dict)
    """The answer to an ack, and the last acked sequence."""

    @classmethod
    def of(cls, recording: Recording) -> "Index":
        index, needed = cls(), list[Needed]()
        before: list[list[Needed]] = []
        pairs = list(recording.pairs())
        sent_at: dict[int, list[Needed]] = defaultdict(list)
        for place, item, answered in pairs:
            request, answer = item.frame, answered[1].frame if answered else None
            match request.code:
                case Command.SEND_MESSAGE:
                    for message in decode_entries(request.body):
                        key = (message.subject, message.message_id)
                        index.messages[key] = message
                        if answer is not None:
                            index.sends[item.node, key] = answer
                            if answer.code == ResponseCode.SUCCESS:
                                index.stored.add(key)
                                sent_at[place].append(Needed(key))
                case Command.ACK_REQUEST:
                    ack = AckRequest.decode(request.body, request.version)
                    pull_key = (item.node, ack.subject, ack.group, ack.consumer_id)
                    if not ack.is_heartbeat and answer is not None:
                        index.ack[pull_key] = (answer, ack.pull_last)
                        sent_at[place].append(Needed((pull_key, ack.pull_last)))
        for place in range(len(recording.frames)):
            needed = needed + sent_at.get(place, [])
            before.append(needed)
        for _, item, answered in sorted(pairs, key=lambda pair: pair[2][0] if pair[2] else len(recording.frames)):
            request, answer = item.frame, answered[1].frame if answered else None
            match request.code:
                case Command.CLIENT_REGISTER if answer is not None:
                    register = ClientRegisterRequest.decode(request.body, request.version)
                    index.routes[register.subject, register.client_type, register.group] = answer
                case Command.PULL_MESSAGE:
                    pull = PullRequest.decode(request.body, request.version)
                    pull_key = (item.node, pull.subject, pull.group, pull.consumer_id)
                    index.pull_requests[pull_key] = pull
                    if answer is not None and answered is not None:
                        index.pulls[pull_key].append(RecordedPull(answer, before[answered[0]]))
        return index


class Replay:
    """Nodes on this loop that answer from a recording.

    Args:
        probes: the recording of every own command, for those that the scenario's recording lacks.
    """

    def __init__(self, recording: Recording, probes: Recording) -> None:
        self.scene = Scene()
        self.differences: list[str] = []
        self._recording = recording
        self._index = Index.of(recording)
        self._own_answers = {
            (item.node, item.frame.code): answered[1].frame
            for source in (probes, recording)
            for _, item, answered in source.pairs()
            if item.frame.code >= FIRST_OWN_COMMAND and answered is not None
        }
        self._pages: dict[str, deque[Page]] = defaultdict(deque)
        for page in recording.pages:
            self._pages[page.path].append(page)
        self._servers: dict[str, asyncio.Server] = {}
        self._writers: set[asyncio.StreamWriter] = set()
        self._received: set[MessageKey] = set()
        self._acked: dict[PullKey, int] = {}
        self._firsts: dict[PullKey, int] = {}
        """The pull sequence of the first message that a consumer got."""
        self._waiting: list[Waiting] = []
        self._knows_no_own_commands: set[str] = set()

    async def start(self) -> None:
        """Listen, on a port for each node."""
        self._servers["http"] = await asyncio.start_server(self._page, "127.0.0.1", 0)
        for node in self._recording.nodes:
            self._servers[node] = await asyncio.start_server(self._serving(node), "127.0.0.1", 0)
        self.scene.url = self._address("http")

    async def close(self) -> None:
        """Close every connection, and look for what the client did not do."""
        for server in self._servers.values():
            server.close()
        for writer in list(self._writers):
            writer.close()
        await eventually_async(lambda: not self._writers, what="connections are closed")
        missing = self._index.stored - self._received
        self.differences += [f"message {key} was never sent" for key in sorted(missing)]
        for key, (_, last) in self._index.ack.items():
            if self._acked.get(key, -1) < last:
                self.differences.append(
                    f"{key} was acked up to {self._acked.get(key, -1)}, in the recording up to {last}"
                )

    def _address(self, name: str) -> str:
        host, port = self._servers[name].sockets[0].getsockname()[:2]
        return f"{host}:{port}"

    async def _page(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        path = (await reader.readuntil(b"\r\n\r\n")).split(b" ")[1].decode()
        pages = self._pages.get(path)
        if not pages:
            self.differences.append(f"page {path} is not in the recording")
        page = NOT_FOUND if not pages else pages[0] if len(pages) == 1 else pages.popleft()
        body = (self._address(METASERVER) if path == "/meta/address" else page.body).encode()
        writer.write(b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n%s" % (page.status, len(body), body))
        await writer.drain()
        writer.close()

    def _serving(self, node: str) -> "asyncio.streams._ClientConnectedCallback":
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self._writers.add(writer)
            frames = FrameReader()
            while data := await reader.read(1 << 16):
                for frame in feed(frames, data):
                    self.scene.request_passed(node, frame)
                    self._handle(node, frame, writer)
                    self._answer_pulls()
            self._waiting = [waiting for waiting in self._waiting if waiting.writer is not writer]
            self._writers.discard(writer)
            writer.close()

        return serve

    # --- requests --------------------------------------------------------------------------------------------------

    def _handle(self, node: str, frame: Frame, writer: asyncio.StreamWriter) -> None:
        if frame.code >= FIRST_OWN_COMMAND:
            self._own(node, frame, writer)
            return
        match frame.code:
            case Command.CLIENT_REGISTER if node == METASERVER:
                self._register(frame, writer)
            case Command.SEND_MESSAGE:
                self._send(node, frame, writer)
            case Command.PULL_MESSAGE:
                self._pull(node, frame, writer)
            case Command.ACK_REQUEST:
                self._ack(node, frame, writer)
            case _:
                self._differs(node, frame, "is not in the recording")

    def _differs(self, node: str, frame: Frame, how: str) -> None:
        self.differences.append(f"{node}: {describe_request(frame)} {how}")

    def _answer(self, node: str, request: Frame, recorded: Frame, writer: asyncio.StreamWriter) -> None:
        """Send a recorded answer with the opaque of the request."""
        data = bytearray(whole(recorded))
        data[OPAQUE_AT : OPAQUE_AT + 4] = request.opaque.to_bytes(4, "big")
        writer.write(data)
        self.scene.answer_passed(node, request, recorded)

    def _own(self, node: str, frame: Frame, writer: asyncio.StreamWriter) -> None:
        if node in self._knows_no_own_commands:
            self._differs(node, frame, "although the node has answered an own command with UNKNOWN_CODE")
        recorded = self._own_answers.get((node, frame.code))
        if recorded is None:
            self._differs(node, frame, "is not in the recording of own commands")
            return
        if recorded.code == ResponseCode.UNKNOWN_CODE:
            self._knows_no_own_commands.add(node)
        self._answer(node, frame, recorded, writer)

    def _register(self, frame: Frame, writer: asyncio.StreamWriter) -> None:
        request = ClientRegisterRequest.decode(frame.body, frame.version)
        recorded = self._index.routes.get((request.subject, request.client_type, request.group))
        if recorded is None:
            self._differs(METASERVER, frame, "is not in the recording")
            return
        route = ClientRegisterResponse.decode(recorded.body, recorded.version)
        here = tuple(
            replace(item, master=self._address(item.name)) if item.master else item for item in route.broker_groups
        )
        body = replace(route, broker_groups=here).encode(recorded.version)
        writer.write(encode_response(frame, recorded.code, body))
        self.scene.answer_passed(METASERVER, frame, recorded)

    def _send(self, node: str, frame: Frame, writer: asyncio.StreamWriter) -> None:
        answers: list[Frame] = []
        for message in decode_entries(frame.body):
            key = (message.subject, message.message_id)
            recorded = self._index.messages.get(key)
            # Either broker group may get a message: what one has stored the other stores as well, unless it rejects messages.
            here = [answer for (place, _), answer in self._index.sends.items() if place == node]
            elsewhere = [
                answer
                for (place, sent), answer in self._index.sends.items()
                if sent == key and (place == DELAY_NODE) == (node == DELAY_NODE)
            ]
            rejections = [answer for answer in here if answer.code != ResponseCode.SUCCESS]
            if recorded is None or not elsewhere:
                self._differs(node, frame, f"has a message {key} that is not in the recording")
                return
            self._compare(node, frame, message, recorded)
            answers.append((rejections or [answer for answer in elsewhere if answer.code == ResponseCode.SUCCESS])[0])
            if not rejections:
                self._received.add(key)
        self._answer(node, frame, answers[0], writer)

    def _compare(self, node: str, frame: Frame, message: Message, recorded: Message) -> None:
        """Tags, flags and properties of the recording must be there; a later client may send more properties."""
        if (message.tags, message.flag) != (recorded.tags, recorded.flag):
            self._differs(node, frame, f"has tags {message.tags} and flag {message.flag}, not as in the recording")
        for name, value in recorded.properties.items():
            found = message.properties.get(name)
            if found != value and (found is None or name not in TIMES):
                self._differs(node, frame, f"has property {name}={found!r}, in the recording {value!r}")

    def _ack(self, node: str, frame: Frame, writer: asyncio.StreamWriter) -> None:
        ack = AckRequest.decode(frame.body, frame.version)
        key = (node, ack.subject, ack.group, ack.consumer_id)
        recorded = self._index.ack.get(key)
        if recorded is None:
            # A heartbeat is a matter of time: a consumer that waits longer sends one.
            answers = [answer for answer, _ in self._index.ack.values()]
            if not ack.is_heartbeat or not answers:
                self._differs(node, frame, "is not in the recording")
                return
            recorded = (answers[0], -1)
        answer, last = recorded
        if not ack.is_heartbeat:
            acked = self._acked.get(key, self._firsts.get(key, 0) - 1)
            if ack.pull_begin > acked + 1:
                self._differs(node, frame, f"jumps over {acked + 1}-{ack.pull_begin - 1}, which the server would lose")
            if ack.pull_last > last:
                self._differs(node, frame, f"is beyond the last ack of the recording, {last}")
            self._acked[key] = max(acked, ack.pull_last)
        self._answer(node, frame, answer, writer)

    # --- pulls -----------------------------------------------------------------------------------------------------

    def _pull(self, node: str, frame: Frame, writer: asyncio.StreamWriter) -> None:
        pull = PullRequest.decode(frame.body, frame.version)
        key = (node, pull.subject, pull.group, pull.consumer_id)
        recorded = self._index.pull_requests.get(key)
        if recorded is None:
            self._differs(node, frame, "is not in the recording")
            return
        if (pull.filters, pull.broadcast) != (recorded.filters, recorded.broadcast):
            self._differs(node, frame, f"has other filters than in the recording: {recorded.filters}")
        self._waiting.append(Waiting(key, frame, writer))

    def _answer_pulls(self) -> None:
        """Answer the pulls whose turn has come; one that has no recorded answer left waits until its connection ends."""
        for waiting in list(self._waiting):
            recorded = self._index.pulls[waiting.key]
            if not recorded or not all(self._has(item) for item in recorded[0].needed):
                continue
            answer = recorded.popleft().answer
            self._waiting.remove(waiting)
            self._check_pull(waiting, answer)
            self._answer(waiting.key[0], waiting.request, answer, waiting.writer)

    def _has(self, needed: Needed) -> bool:
        first, second = needed.what
        if isinstance(second, int):
            assert isinstance(first, tuple)
            return self._acked.get(first, -1) >= second
        return needed.what in self._received

    def _check_pull(self, waiting: Waiting, answer: Frame) -> None:
        found = PullResponse.decode(answer.body, answer.version) if answer.code == ResponseCode.SUCCESS else None
        if found is None:
            return
        pull = PullRequest.decode(waiting.request.body, waiting.request.version)
        count = len(decode_raws(found.raws))
        first = self._firsts.setdefault(waiting.key, found.pull_begin)
        if found.pull_begin > first and pull.pull_last != found.pull_begin - 1:
            self._differs(
                waiting.key[0], waiting.request, f"names {pull.pull_last}, it has received up to {found.pull_begin - 1}"
            )
        if found.pull_begin > first and not first <= pull.pull_begin <= pull.pull_last + 1:
            self._differs(
                waiting.key[0], waiting.request, f"says that {pull.pull_begin} is its first sequence not acked"
            )
        if pull.limit < count:
            self._differs(waiting.key[0], waiting.request, f"asks for less than the {count} messages of the recording")


@asynccontextmanager
async def replaying(recording: Recording, probes: Recording) -> AsyncIterator[Replay]:
    """The nodes of a recording. At the end, everything that differed from it fails the test."""
    replay = Replay(recording, probes)
    await replay.start()
    try:
        yield replay
    finally:
        await replay.close()
    assert not replay.differences, "\n".join(replay.differences)
