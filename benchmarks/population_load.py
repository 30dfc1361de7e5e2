"""The clients of `benchmarks.population`: frames over raw connections, so that the load takes little processor time."""

import asyncio
import heapq
import random
import time
from collections import Counter
from collections.abc import Callable
from types import TracebackType

from qmq.cli.bench import percentile
from qmq.client.message import delayed_message
from qmq.errors import QmqError
from qmq.net.caller import Caller
from qmq.protocol.codes import ClientRequestType, ClientType, Command, ResponseCode
from qmq.protocol.commands import PULL_RESPONSE_HEAD, AckRequest, ClientRegisterRequest, PullRequest
from qmq.protocol.extensions import EnsureGroupRequest
from qmq.protocol.frames import Frame, encode_request
from qmq.protocol.messages import KEY_APP, KEY_CREATED, KEY_EXPIRE, Message, encode_entry
from qmq.protocol.names import retry_subject
from qmq.protocol.scan import walk_raws

GROUPS = 3
CLIENTS = 200
BURST_MESSAGES = 10
DATA_BYTES = 128
DELAY_SHARE = 0.1
"""Of bursts, with a due time in DUE_SECONDS."""
DUE_SECONDS = (2.0, 300.0)
LONG_POLLS_MAX = 2_000
LONG_POLL_SHARE = 0.25
"""Of groups, up to LONG_POLLS_MAX: these hold a pull on their subject and one on its retry subject."""
LONG_POLL_MS = 30_000
LATE_PULL_MS = 2_000
"""A pull of delayed messages waits so long for them."""
REGISTER_SECONDS = 60
"""A client registers each of its subjects this often, as the official client does."""
ENSURE_WINDOW = 500
"""Unanswered requests for groups."""
REGISTER_WINDOW = 4_000
UNANSWERED_MAX = 2_000
"""Unanswered bursts, above which no more are sent."""
TICK_SECONDS = 0.005
AT_ONCE_MS = -1

Key = tuple[str, str]
"""Subject and consumer group."""


def subject_names(count: int) -> list[str]:
    """Return the names of so many subjects."""
    return [f"population.team{i % 40}.events.{i}" for i in range(count)]


def group_names() -> list[str]:
    """Return the names of the consumer groups that each subject has."""
    return [f"service-{i}" for i in range(GROUPS)]


def long_poll_count(groups: int) -> int:
    """Return how many of so many groups pull with long polls."""
    return min(LONG_POLLS_MAX, int(groups * LONG_POLL_SHARE))


def due_bursts(rate: float, elapsed: float, sent: int) -> int:
    """Return how many bursts are to be sent now, for `rate` messages a second."""
    return max(0, int(elapsed * rate / BURST_MESSAGES) - sent)


async def ensure_groups(port: int, subjects: list[str]) -> None:
    """Create all groups on a broker."""
    caller = Caller("127.0.0.1", port)
    await caller.connect()
    pending: list[asyncio.Future[Frame]] = []
    for subject in subjects:
        for group in group_names():
            request = EnsureGroupRequest(subject, group, "earliest", 0, True, False)
            pending.append(caller.call_soon(Command.ENSURE_GROUP, request.encode()))
        if len(pending) >= ENSURE_WINDOW:
            await _check(pending)
            pending.clear()
    await _check(pending)
    await caller.close()


async def _check(pending: "list[asyncio.Future[Frame]]") -> None:
    for frame in await asyncio.gather(*pending):
        if frame.code != ResponseCode.SUCCESS:
            raise SystemExit(f"the broker returned code {frame.code}: {bytes(frame.body)!r}")


class Clients:
    """CLIENTS connections to the metaserver. Each registers its share of producers and groups, again every REGISTER_SECONDS."""

    def __init__(self, port: int, subjects: list[str]) -> None:
        self._callers = [Caller("127.0.0.1", port, on_push=self._answered) for _ in range(CLIENTS)]
        self._frames: list[tuple[Caller, bytes]] = []
        roles = [(ClientType.PRODUCER, ""), *((ClientType.CONSUMER, group) for group in group_names())]
        for i, subject in enumerate(subjects):
            for j, (kind, group) in enumerate(roles):
                number = (i * len(roles) + j) % CLIENTS
                request = ClientRegisterRequest(
                    subject, kind, "population", f"client-{number}", group, ClientRequestType.ONLINE
                )
                self._frames.append(
                    (self._callers[number], encode_request(Command.CLIENT_REGISTER, 0, request.encode()))
                )
        self._answers = 0
        self._answer = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def connect(self) -> None:
        """Connect, register everything, and return when all is answered."""
        for caller in self._callers:
            await caller.connect()
        for i, (caller, frame) in enumerate(self._frames, 1):
            caller.send_frame(frame)
            while i - self._answers >= REGISTER_WINDOW:
                await self._wait_answer()
        while self._answers < len(self._frames):
            await self._wait_answer()
        self._task = asyncio.create_task(self._refresh())

    async def close(self) -> None:
        """Disconnect."""
        if self._task is not None:
            self._task.cancel()
        for caller in self._callers:
            await caller.close()

    async def _wait_answer(self) -> None:
        self._answer.clear()
        await asyncio.wait_for(self._answer.wait(), 60)

    def _answered(self, _: Frame) -> None:
        self._answers += 1
        self._answer.set()

    async def _refresh(self) -> None:
        """Register all, a part each tick; until a connection is lost."""
        began, sent = time.monotonic(), 0
        while True:
            await asyncio.sleep(TICK_SECONDS)
            until = int((time.monotonic() - began) / REGISTER_SECONDS * len(self._frames))
            for i in range(sent, until):
                caller, frame = self._frames[i % len(self._frames)]
                caller.send_frame(frame)
            sent = until


class Load:
    """Bursts to random subjects, and consumers of all groups, while the block runs."""

    def __init__(self, port: int, delay_port: int, subjects: list[str], rate: float) -> None:
        self._rate, self._subjects = rate, subjects
        self._rng = random.Random(7)
        self._callers = [Caller("127.0.0.1", port) for _ in range(CLIENTS)]
        self._delay_caller = Caller("127.0.0.1", delay_port)
        keys = [(subject, group) for subject in subjects for group in group_names()]
        self._caller_of = {key: self._callers[i % CLIENTS] for i, key in enumerate(keys)}
        self._long_polls = set(self._rng.sample(keys, long_poll_count(len(keys))))
        self._waiting: Counter[Key] = Counter()
        """Pulls to make of a group once its pull under way is answered; a key exists while one is under way."""
        self._last: dict[Key, int] = {}
        """Newest pull sequence of each group."""
        self._due: list[tuple[float, str]] = []
        self._bursts = self._unanswered = self._ids = 0
        self._sent = self._delivered = 0
        self._send_seconds: list[float] = []
        self._pull_seconds: list[float] = []
        """Of pulls that need not wait: a burst is stored."""
        self._tasks: list[asyncio.Task[None]] = []
        self.failures = 0
        """Requests that failed or were refused."""

    async def __aenter__(self) -> "Load":
        for caller in (*self._callers, self._delay_caller):
            await caller.connect()
        for key in self._long_polls:
            self._pull(key, LONG_POLL_MS)
            self._hold_retry(key)
        self._tasks.append(asyncio.create_task(self._run()))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._tasks:
            task.cancel()
        for caller in (*self._callers, self._delay_caller):
            await caller.close()

    def counts(self) -> tuple[int, int]:
        """Return how many messages were sent, and delivered to all groups together."""
        return self._sent, self._delivered

    def clear_latencies(self) -> None:
        """Forget how long sends and pulls took so far."""
        self._send_seconds.clear()
        self._pull_seconds.clear()

    def send_percentiles(self) -> tuple[float, float]:
        """Return p50 and p99 of sends, in milliseconds."""
        return _percentiles(self._send_seconds)

    def pull_percentiles(self) -> tuple[float, float]:
        """Return p50 and p99 of pulls of stored messages, in milliseconds."""
        return _percentiles(self._pull_seconds)

    async def _run(self) -> None:
        began = time.monotonic()
        while True:
            await asyncio.sleep(TICK_SECONDS)
            now = time.monotonic()
            for _ in range(due_bursts(self._rate, now - began, self._bursts)):
                self._bursts += 1
                if self._unanswered < UNANSWERED_MAX:
                    self._send(self._rng.choice(self._subjects))
                else:
                    self.failures += 1
            while self._due and self._due[0][0] <= now:
                self._pull_all(heapq.heappop(self._due)[1], LATE_PULL_MS)

    def _request(self, caller: Caller, code: int, body: bytes, on_answer: Callable[[Frame], None]) -> None:
        """Send a request; a refusal or a lost connection is counted."""

        def done(future: "asyncio.Future[Frame]") -> None:
            if future.cancelled() or future.exception() is not None:
                self.failures += 1
            else:
                on_answer(future.result())

        try:
            caller.call_soon(code, body).add_done_callback(done)
        except QmqError:
            self.failures += 1

    # --- producers ----------------------------------------------------------------------------------------------------

    def _send(self, subject: str) -> None:
        began = time.monotonic()
        delay = self._rng.uniform(*DUE_SECONDS) if self._rng.random() < DELAY_SHARE else 0.0
        caller = self._delay_caller if delay else self._rng.choice(self._callers)
        self._unanswered += 1

        def answered(frame: Frame) -> None:
            self._unanswered -= 1
            if frame.code != ResponseCode.SUCCESS or frame.body:
                self.failures += 1
                return
            now = time.monotonic()
            self._send_seconds.append(now - began)
            self._sent += BURST_MESSAGES
            if delay:
                heapq.heappush(self._due, (began + delay, subject))
            else:
                self._pull_all(subject, AT_ONCE_MS)

        self._request(caller, Command.SEND_MESSAGE, self._burst(subject, delay), answered)

    def _burst(self, subject: str, delay: float) -> bytes:
        now_ms = time.time_ns() // 1_000_000
        properties = {
            KEY_CREATED: str(now_ms), KEY_EXPIRE: str(now_ms + 900_000), KEY_APP: "population", "data": "x" * DATA_BYTES
        }  # fmt: skip
        entries = []
        for _ in range(BURST_MESSAGES):
            self._ids += 1
            message = Message(subject, f"{now_ms}.127.0.0.1.1.{self._ids}", properties, (), 0, now_ms, now_ms)
            entries.append(encode_entry(delayed_message(message, now_ms + int(delay * 1000)) if delay else message))
        return b"".join(entries)

    # --- consumers ----------------------------------------------------------------------------------------------------

    def _pull_all(self, subject: str, timeout_ms: int) -> None:
        """Pull a burst for each group that has no long poll."""
        for group in group_names():
            key = (subject, group)
            if key in self._long_polls:
                continue
            if key in self._waiting:
                self._waiting[key] += 1
            else:
                self._waiting[key] = 0
                self._pull(key, timeout_ms)

    def _pull(self, key: Key, timeout_ms: int) -> None:
        subject, group = key
        caller, consumer, last = self._caller_of[key], f"consumer-{group}", self._last.get(key, -1)
        began = time.monotonic()

        def answered(frame: Frame) -> None:
            if timeout_ms == AT_ONCE_MS:
                self._pull_seconds.append(time.monotonic() - began)
            if frame.code == ResponseCode.SUCCESS and frame.body:
                begin = PULL_RESPONSE_HEAD.unpack_from(frame.body)[0]
                count = walk_raws(frame.body[PULL_RESPONSE_HEAD.size :])
                self._delivered += count
                self._last[key] = begin + count - 1
                ack = AckRequest(subject, group, consumer, begin, begin + count - 1, False)
                self._request(caller, Command.ACK_REQUEST, ack.encode(), self._acked)
            if key in self._long_polls:
                self._pull(key, LONG_POLL_MS)
            elif self._waiting[key]:
                self._waiting[key] -= 1
                self._pull(key, AT_ONCE_MS)
            else:
                del self._waiting[key]

        request = PullRequest(subject, group, consumer, BURST_MESSAGES, -1, last, timeout_ms, False)
        self._request(caller, Command.PULL_MESSAGE, request.encode(), answered)

    def _acked(self, frame: Frame) -> None:
        if frame.code != ResponseCode.SUCCESS:
            self.failures += 1

    def _hold_retry(self, key: Key) -> None:
        subject, group = key
        request = PullRequest(
            retry_subject(subject, group), group, f"consumer-{group}", BURST_MESSAGES, -1, -1, LONG_POLL_MS, False
        )
        self._request(self._caller_of[key], Command.PULL_MESSAGE, request.encode(), lambda _: self._hold_retry(key))


def _percentiles(seconds: list[float]) -> tuple[float, float]:
    ordered = sorted(seconds)
    return percentile(ordered, 0.5), percentile(ordered, 0.99)
