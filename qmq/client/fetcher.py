"""Pull loops: one per subject (the real one and its retry subject) and broker group."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from qmq.client.ack_window import AckWindow
from qmq.client.config import Backoff, Limits, Timeouts
from qmq.client.pool import Pool
from qmq.clock import Clock
from qmq.errors import CallTimeout, ProtocolError, QmqError
from qmq.protocol.codes import Command, ResponseCode
from qmq.protocol.commands import AckRequest, BrokerGroupRoute, PullRequest, PullResponse, TagFilter
from qmq.protocol.extensions import EnsureGroupRequest, LeaveGroupRequest
from qmq.protocol.frames import Frame
from qmq.protocol.messages import Message, decode_raws
from qmq.supervisor import Supervisor

LONG_POLL_MS = 10_000
PULL_ALLOWANCE_SECONDS = 8.0
"""How much longer than its long poll a pull may take, as in the official client."""
HEARTBEAT_SECONDS = 10.0
"""An ack, if only an empty one, at least this often: else the broker takes the consumer for gone."""
ACK_FIRST_SECONDS_MAX = 60.0
"""At most once: the longest time from sending a pull to the ack's confirmation. Brokers' consumer lease must be longer."""

logger = logging.getLogger("qmq.client")


@dataclass(frozen=True, slots=True)
class Source:
    """What is pulled, and for whom."""

    subject: str
    group: str
    consumer_id: str
    broadcast: bool
    filters: tuple[TagFilter, ...]
    start: EnsureGroupRequest | None
    """How the group is made when it is new; None: as the broker does by itself."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """A message as it came."""

    message: Message
    pull_sequence: int
    received_at_ms: int


class Fetcher:
    """Pulls one subject from one broker group, and acks to it.

    Args:
        may_pull: waits while the consumer is paused or full; returns how many messages it has room for.
        deliver: takes a message into the consumer's queue.
        on_trouble: called after each failed request.
        ack_first: ack each pulled batch before it is delivered, for at-most-once delivery.
    """

    def __init__(
        self,
        source: Source,
        route: BrokerGroupRoute,
        pool: Pool,
        *,
        limits: Limits,
        timeouts: Timeouts,
        backoff: Backoff,
        may_pull: Callable[[], Awaitable[int]],
        deliver: Callable[["Fetcher", Fetched], None],
        on_trouble: Callable[[], None],
        supervisor: Supervisor,
        clock: Clock,
        ack_first: bool = False,
    ) -> None:
        self.source = source
        self.route = route
        self.window = AckWindow()
        self._pool = pool
        self._limits = limits
        self._timeouts = timeouts
        self._backoff = backoff
        self._may_pull = may_pull
        self._deliver = deliver
        self._on_trouble = on_trouble
        self._supervisor = supervisor
        self._clock = clock
        self._ack_first = ack_first
        self._ack_wake = asyncio.Event()
        self._is_ensured = source.start is None
        self._has_pulled = False
        self._tasks: list[asyncio.Task[None]] = []
        self._last_contact = 0.0

    def start(self) -> None:
        """Begin, on the running loop."""
        where = f"{self.source.subject} from {self.route.name}"
        self._tasks = [
            self._supervisor.critical(f"pull {where}", self._pull_loop()),
            self._supervisor.critical(f"ack {where}", self._ack_loop()),
        ]

    def moved(self, route: BrokerGroupRoute) -> None:
        """The group's master has another address: the next request goes there, with the same pull sequences."""
        self.route = route

    async def stop(self, *, leave: bool) -> None:
        """Stop pulling, ack what is done, and with `leave` release what is not."""
        await asyncio.gather(*(self._supervisor.cancel(task) for task in self._tasks))
        try:
            async with asyncio.timeout(self._timeouts.ack):
                while await self._ack_once():
                    pass
                if leave:
                    await self._leave()
        except (QmqError, TimeoutError) as error:
            logger.warning(
                "%s on %s: %d messages could not be acked at the end and will come again: %s",
                self.source.subject, self.route.name, len(self.window), error,
            )  # fmt: skip

    def done(self, sequence: int) -> None:
        """A message is settled."""
        self.window.done(sequence)
        self._ack_wake.set()

    # --- pulling ---------------------------------------------------------------------------------------------------

    async def _pull_loop(self) -> None:
        failures = 0
        while True:
            try:
                welcome = await self._may_pull()
                await self._ensure()
                await self._pull(welcome)
                failures = 0
            except QmqError as error:
                failures += 1
                if failures == 1:
                    logger.warning("pulling %s from %s: %s", self.source.subject, self.route.name, error)
                self._on_trouble()
                await asyncio.sleep(self._backoff.pause(failures))

    async def _ensure(self) -> None:
        if self._is_ensured or self.source.start is None:
            return
        frame = await self._call(Command.ENSURE_GROUP, self.source.start.encode(9), self._timeouts.send)
        if frame.code not in (ResponseCode.SUCCESS, ResponseCode.UNKNOWN_CODE):
            raise ProtocolError(f"{self.route.name} answered code {frame.code} to the group's start")
        self._is_ensured = True

    async def _call(self, command: Command, body: bytes, timeout_s: float) -> Frame:
        caller = await self._pool.get(self.route.master)
        return await caller.call(command, body, timeout_s=timeout_s)

    async def _pull(self, welcome: int) -> None:
        source = self.source
        request = PullRequest(
            source.subject,
            source.group,
            source.consumer_id,
            min(welcome, self._limits.pull_messages),
            self.window.begin,
            self.window.last,
            LONG_POLL_MS,
            source.broadcast,
            source.filters,
        )
        body = request.encode(9)
        self._has_pulled = True
        began = self._clock.monotonic()
        frame = await self._call(Command.PULL_MESSAGE, body, LONG_POLL_MS / 1000 + PULL_ALLOWANCE_SECONDS)
        if frame.code == ResponseCode.NO_MESSAGE:
            return
        if frame.code != ResponseCode.SUCCESS:
            raise ProtocolError(f"{self.route.name} answered code {frame.code} to a pull")
        answer = PullResponse.decode(frame.body, frame.version)
        if answer is None:
            return
        now_ms, last = self._clock.wall_ms(), self.window.last
        batch = [
            Fetched(message, sequence, now_ms)
            for sequence, message in enumerate(decode_raws(answer.raws), answer.pull_begin)
            if self.window.receive(sequence)
        ]
        if self._ack_first and batch:
            await self._ack_batch(batch, last, began)
        for fetched in batch:
            self._deliver(self, fetched)

    # --- acking ----------------------------------------------------------------------------------------------------

    async def _ack_loop(self) -> None:
        failures = 0
        while True:
            try:
                async with asyncio.timeout(HEARTBEAT_SECONDS if not failures else self._backoff.pause(failures)):
                    await self._ack_wake.wait()
            except TimeoutError:
                pass
            self._ack_wake.clear()
            try:
                if not await self._ack_once() and not failures and self.window.last >= 0:
                    await self._heartbeat_if_due()
                failures = 0
            except QmqError as error:
                failures += 1
                if failures == 1:
                    logger.warning("acking %s to %s: %s", self.source.subject, self.route.name, error)
                self._on_trouble()

    async def _ack_once(self) -> bool:
        """Ack the finished run, if there is one."""
        closed = self.window.closed_range()
        if closed is None:
            return False
        await self._send_ack(*closed, broadcast=self.source.broadcast)
        self.window.acked(closed[1])
        return True

    async def _ack_batch(self, batch: list[Fetched], last: int, began: float) -> None:
        """Ack a pulled batch, and return when the broker has the ack on disk.

        Without that confirmation the batch must not be delivered, because the broker may give it to another consumer, or
        to this one's successor. It is then forgotten: the next pull gets it again if the broker does not have the ack.

        Args:
            last: the highest pull sequence received before the batch.
            began: when the pull was sent, in monotonic seconds.

        Raises:
            QmqError: it is unknown whether the ack took effect, or it came so late that the consumer's lease may have ended
                before: the broker confirms acks of messages that it has moved to the retry subject, too.
        """
        try:
            await self._send_ack(batch[0].pull_sequence, batch[-1].pull_sequence, broadcast=self.source.broadcast)
            took = self._clock.monotonic() - began
            if took > ACK_FIRST_SECONDS_MAX:
                raise CallTimeout(
                    f"{len(batch)} messages were acked {took:.0f} s after their pull, the limit is"
                    f" {ACK_FIRST_SECONDS_MAX:g} s; they are not delivered"
                )
        except BaseException:
            self.window.rewind(last)
            raise
        for fetched in batch:
            self.window.done(fetched.pull_sequence)
        self.window.acked(batch[-1].pull_sequence)

    async def _heartbeat_if_due(self) -> None:
        now = asyncio.get_running_loop().time()
        if now - self._last_contact >= HEARTBEAT_SECONDS - 0.5:
            await self._send_ack(-1, -1, broadcast=False)

    async def _send_ack(self, begin: int, last: int, *, broadcast: bool) -> None:
        source = self.source
        request = AckRequest(source.subject, source.group, source.consumer_id, begin, last, broadcast)
        frame = await self._call(Command.ACK_REQUEST, request.encode(9), self._timeouts.ack)
        if frame.code != ResponseCode.SUCCESS:
            raise ProtocolError(f"{self.route.name} answered code {frame.code} to an ack")
        self._last_contact = asyncio.get_running_loop().time()

    async def _leave(self) -> None:
        source = self.source
        # A broker counts who pulled as online, also who got nothing from it.
        if not self._has_pulled or source.broadcast:
            return
        request = LeaveGroupRequest(source.subject, source.group, source.consumer_id)
        await self._call(Command.LEAVE_GROUP, request.encode(9), self._timeouts.ack)


def start_request(source: Source, start: str, value: int) -> Source:
    """A source whose group is made at a place when it is new."""
    request = EnsureGroupRequest(source.subject, source.group, start, value, True, source.broadcast)
    return replace(source, start=request)
