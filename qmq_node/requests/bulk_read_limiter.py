"""class BulkReadLimiter: who may read a node in bulk, how many reads at a time, and at which rate."""

import asyncio
import hmac
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from dataclasses import KW_ONLY, InitVar, dataclass, field
from functools import partial
from typing import Any, ParamSpec, Protocol, Self, TypeVar

from qmq.clock import Clock
from qmq.errors import LogError, ProtocolError, ReadRefused
from qmq.net.log_limiter import LogLimiter
from qmq.protocol import bulk_read
from qmq.protocol.codes import Command, ResponseCode
from qmq.protocol.extensions import Refusal
from qmq.protocol.frames import Frame
from qmq.protocol.kinds import Part
from qmq.supervisor import Supervisor
from qmq_node.process.counters import counted, counted_by
from qmq_node.server.connection import Connection

P = ParamSpec("P")
T = TypeVar("T")


class BulkRequest(Protocol):
    """The request of a bulk read."""

    @property
    def token(self) -> str: ...

    @classmethod
    def decode(cls, body: memoryview | bytes) -> Self: ...


R = TypeVar("R", bound=BulkRequest)
Work = Callable[[R], Coroutine[Any, Any, list[Part]]]
"""Returns the parts of the answer to a request."""

logger = logging.getLogger("qmq.reading")

READS_MAX = 64
"""Reads in progress on one node, including queued ones; a further one is rejected as busy."""
PIECE_SECONDS = 0.03
"""Size limit of one answer, in seconds of the allowed rate: other clients' answers wait no longer than that for a reader's."""
PIECE_BYTES_MIN = 256 << 10
"""Smaller answers cost the node more: 0.4 ms of processor time a MiB at 1 MiB each, 0.9 at this, 3.3 at 64 KiB."""

_STOPPING = "the node is stopping"


@dataclass(slots=True)
class ReadCounters:
    """Counts since start, for metrics."""

    reads: Counter[str] = counted_by("command", "bulk_reads", "Accepted bulk reads, by command")
    refused: Counter[str] = counted_by("reason", "refused_bulk_reads", "Rejected bulk reads, by reason")
    bytes: int = counted("bulk_read_bytes", "Bytes returned by bulk reads")
    waited_seconds: float = counted("bulk_read_wait_seconds", "Time that bulk reads were throttled")


@dataclass(eq=False, repr=False)
class BulkReadLimiter:
    """Admits bulk reads, runs them one at a time and throttles them."""

    _clock: Clock
    _supervisor: Supervisor
    _: KW_ONLY
    token: InitVar[str]
    """What requests must carry; "": no token is required."""
    bytes_per_second: int
    """For all readers together; 0: no limit."""
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep
    """Waits for this number of seconds."""
    _free_at: float = field(default=0.0, init=False)
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)
    _tasks: dict[asyncio.Task[None], None] = field(default_factory=dict, init=False)
    _is_closed: bool = field(default=False, init=False)
    _room: int = field(default=bulk_read.READ_BYTES_MAX, init=False)
    """How many bytes the connection of the current read has room for."""
    _log_limiter: LogLimiter = field(default_factory=LogLimiter, init=False)
    counters: ReadCounters = field(default_factory=ReadCounters, init=False)

    def __post_init__(self, token: str) -> None:
        self._token = token.encode()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="bulk-read")

    def handler(self, kind: type[R], work: Work[R]) -> Callable[[Connection, Frame], None]:
        """Returns what answers the requests of one kind with the parts that `work` returns for them, or rejects them."""
        return partial(self._serve, kind, work)

    def _serve(self, kind: type[R], work: Work[R], connection: Connection, frame: Frame) -> None:
        request = kind.decode(frame.body)
        token = request.token.encode("utf-8", "surrogatepass")
        if not hmac.compare_digest(token, self._token) and self._token:
            self._refuse(connection, frame, bulk_read.FORBIDDEN, "the read token is not this node's")
            return
        if self._is_closed:
            self._refuse(connection, frame, bulk_read.BUSY, _STOPPING)
            return
        if len(self._tasks) >= READS_MAX:
            busy = f"{READS_MAX} reads are running, the maximum; try again"
            self._refuse(connection, frame, bulk_read.BUSY, busy)
            return
        self.counters.reads[Command(frame.code).name.lower()] += 1
        task = self._supervisor.background("bulk_read", self._answer(connection, frame, request, work))
        self._tasks[task] = None

        def ended(done: "asyncio.Task[None]") -> None:
            self._tasks.pop(done, None)
            if done.cancelled():
                self._refuse(connection, frame, bulk_read.BUSY, _STOPPING)
            elif done.exception() is not None:
                connection.reply(frame, ResponseCode.BROKER_ERROR)

        task.add_done_callback(ended)

    async def in_thread(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run blocking code in the thread of bulk reads."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, partial(work, *args, **kwargs))

    async def _answer(self, connection: Connection, frame: Frame, request: R, work: Work[R]) -> None:
        try:
            # One at a time, in order of arrival: many readers cost producers no more than one.
            async with self._lock:
                while (wait := self._free_at - self._clock.monotonic()) > 0:
                    self.counters.waited_seconds += wait
                    await self.pause(wait)
                if connection.is_closed:
                    return
                self._room = connection.answer_room
                parts = await work(request)
                size = sum(map(len, parts))
                if self.bytes_per_second:
                    free_at = max(self._free_at, self._clock.monotonic())
                    self._free_at = free_at + size / self.bytes_per_second
            self.counters.bytes += size
            connection.reply(frame, ResponseCode.SUCCESS, *parts)
        except LogError as error:
            self._refuse(connection, frame, bulk_read.UNREADABLE, str(error))
        except (ReadRefused, ProtocolError) as error:
            self._refuse(connection, frame, error.code, str(error))

    def _refuse(self, connection: Connection, frame: Frame, code: str, why: str) -> None:
        self.counters.refused[code] += 1
        if code != bulk_read.BUSY:
            what = f"command {frame.code} rejected: {why}"
            self._log_limiter.warning(logger, connection.peer, code, what, self._clock.monotonic())
        connection.reply(frame, ResponseCode.PARAM_ERROR, Refusal(code, why).encode())

    def piece_bytes(self, wanted: int) -> int:
        """How many bytes the answer of the current read may hold when `wanted` are requested."""
        most = min(bulk_read.READ_BYTES_MAX, self._room)
        if self.bytes_per_second:
            most = min(most, max(PIECE_BYTES_MIN, int(self.bytes_per_second * PIECE_SECONDS)))
        return max(1, min(wanted, most))

    async def close(self) -> None:
        """Cancel all reads and reject further ones; the readers are answered busy."""
        self._is_closed = True
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._thread.shutdown(wait=False)
