"""Pull loops: one per subject (the real one and its retry subject) and broker group."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import cast

from qmq.client.ack_window import AckWindow
from qmq.client.config import Limits
from qmq.client.delivery import Owner, Pulled
from qmq.client.own_commands import OwnCommands
from qmq.client.prefetch import Prefetch
from qmq.client.pull_size import PullSize
from qmq.clock import Clock
from qmq.errors import CallTimeout, ConnectionLost, ConsumeFailed, ProtocolError, QmqError
from qmq.net.caller import ANSWER_TOO_LARGE
from qmq.net.pool import Pool
from qmq.net.timing import Backoff, Timeouts
from qmq.protocol.codes import Command, ResponseCode
from qmq.protocol.commands import AckRequest, BrokerGroupRoute, PullRequest, PullResponse, TagFilter
from qmq.protocol.extensions import EnsureGroupRequest, LeaveGroupRequest
from qmq.protocol.frames import Frame
from qmq.protocol.messages import KEY_ATTEMPT, KEY_GROUP, Message
from qmq.protocol.names import retry_subject, split_subject
from qmq.protocol.raw import RawView, split_raws
from qmq.supervisor import Supervisor

LONG_POLL_MS = 10_000
PULL_ALLOWANCE_SECONDS = 8.0
"""How much longer than its long poll a pull may take, as in the official client."""
ACK_DELAY_SECONDS = 0.01
"""How long an ack waits for more messages to be settled, unless all of an answer are. Slow handlers then cause fewer acks."""
HEARTBEAT_SECONDS = 10.0
"""An ack, if only an empty one, at least this often: else the broker takes the consumer for gone."""
ACK_FIRST_SECONDS_MAX = 60.0
"""At most once: the longest time from sending a pull to the ack's confirmation. Brokers' consumer lease must be longer."""

_GROUP_KEY = KEY_GROUP.encode()
_ATTEMPT_KEY = KEY_ATTEMPT.encode()
_CONTENT_KEYS = b"qmq_content"
"""The properties that say how a body is encoded begin with it."""

logger = logging.getLogger("qmq.client")


@dataclass(frozen=True, slots=True)
class Source:
    """Subject, consumer group and consumer of a pull."""

    subject: str
    group: str
    consumer_id: str
    broadcast: bool
    filters: tuple[TagFilter, ...]
    start: EnsureGroupRequest | None = None
    """How the group is made when it is new; None: as the broker does by itself."""
    is_start_required: bool = False
    """The consumer fails when the broker does not know the request to place a group."""


class Fetcher:
    """Pulls one subject from one broker group, and acks to it.

    Args:
        owner, prefetch: of the consumer.
        may_pull: called with a name of this fetcher and the messages that its next pull asks for; waits while the consumer is
            paused, full, or has enough messages queued, and returns how many messages it has room for.
        deliver: takes the messages of an answer into the consumer's queue, with the bytes before each one's first property, and
            whether one of them may have a consumer group or an attempt among its properties.
        send: publishes a message, and returns when it is stored.
        on_trouble: called after each failed request.
        ack_first: ack each pulled batch before it is delivered, for at-most-once delivery.
    """

    def __init__(
        self,
        source: Source,
        route: BrokerGroupRoute,
        pool: Pool,
        *,
        owner: Owner,
        prefetch: Prefetch,
        limits: Limits,
        timeouts: Timeouts,
        backoff: Backoff,
        may_pull: Callable[[str, int], Awaitable[int]],
        deliver: Callable[[Pulled, list[int], bool], None],
        send: Callable[[Message], Awaitable[object]],
        on_trouble: Callable[[], None],
        supervisor: Supervisor,
        clock: Clock,
        ack_first: bool = False,
    ) -> None:
        self.source = source
        self.route = route
        self.window = AckWindow()
        self._pool = pool
        self._owner = owner
        self._prefetch = prefetch
        self._limits = limits
        self._timeouts = timeouts
        self._backoff = backoff
        self._may_pull = may_pull
        self._deliver = deliver
        self._send = send
        self._on_trouble = on_trouble
        self._supervisor = supervisor
        self._clock = clock
        self._ack_first = ack_first
        self._size = PullSize(limits.pull_messages, limits.pull_bytes)
        self._ack_wake = asyncio.Event()
        self._is_ensured = source.start is None
        self._has_pulled = False
        self._pull_task: asyncio.Task[None] | None = None
        self._ack_task: asyncio.Task[None] | None = None
        self._last_contact = 0.0

    def start(self) -> None:
        """Begin, on the running loop."""
        where = f"{self.source.subject} from {self.route.name}"
        self._pull_task = self._supervisor.critical(f"pull {where}", self._pull_loop())
        self._ack_task = self._supervisor.critical(f"ack {where}", self._ack_loop())

    def moved(self, route: BrokerGroupRoute) -> None:
        """The group's master has another address: the next request goes there, with the same pull sequences."""
        self.route = route

    async def stop_pulling(self) -> None:
        """Stop pulling. Acks are sent until `stop`."""
        if self._pull_task is not None:
            await self._supervisor.cancel(self._pull_task)

    async def stop(self, deadline: float) -> list[str]:
        """Stop pulling, ack what is settled, and release what is not.

        Args:
            deadline: loop time at which it returns at the latest.

        Returns:
            Ids of the messages that are not settled.
        """
        await self.stop_pulling()
        if self._ack_task is not None:
            await self._supervisor.cancel(self._ack_task)
        unsettled = self._unsettled()
        ids = [RawView(raw).message_id for _, _, raw in unsettled]
        try:
            async with asyncio.timeout_at(min(deadline, asyncio.get_running_loop().time() + self._timeouts.ack)):
                await self._ack_finished()
                await self._leave()
        except (QmqError, TimeoutError) as error:
            logger.warning(
                "%s on %s: the acks of %d messages and the end of this consumer could not be stored; %d messages were not"
                " processed. The broker delivers all of them again: %s",
                self.source.subject, self.route.name, len(self.window) - len(unsettled), len(unsettled),
                error or "no response in time",
            )  # fmt: skip
        return ids

    def _unsettled(self) -> list[tuple[Pulled, int, bytes]]:
        """What was delivered and is not settled: at most `Limits.prefetch_messages`, and the messages of one answer."""
        return [
            (pulled, index, cast(bytes, pulled.raws[index]))
            for pulled in cast("list[Pulled]", list(self.window.spans))
            if pulled.open
            for index in pulled.unsettled()
        ]

    # --- pulling ---------------------------------------------------------------------------------------------------

    async def _pull_loop(self) -> None:
        failures = 0
        while True:
            try:
                began = self._clock.monotonic()
                room = await self._may_pull(f"{self.source.subject} {self.route.name}", self._size.messages)
                self._size.waited(self._clock.monotonic() - began)
                await self._ensure()
                await self._pull(room)
                failures = 0
            except ConsumeFailed:
                raise
            except QmqError as error:
                failures += 1
                if failures == 1:
                    logger.warning("pulling %s from %s: %s", self.source.subject, self.route.name, error)
                self._on_trouble()
                await asyncio.sleep(self._backoff.pause(failures))

    async def _ensure(self) -> None:
        if self._is_ensured or self.source.start is None:
            return
        is_required = self.source.is_start_required
        frame = await OwnCommands.shared().call(
            await self._pool.get(self.route.master), Command.ENSURE_GROUP, self.source.start.encode(),
            timeout_s=self._timeouts.send, is_optional=not is_required,
        )  # fmt: skip
        if frame is None and is_required:
            raise start_unsupported(self.route.name, self.source.start)
        if frame is not None and frame.code != ResponseCode.SUCCESS:
            raise ProtocolError(f"{self.route.name} returned code {frame.code} when the group was created")
        self._is_ensured = True

    async def _call(self, command: Command, body: bytes, timeout_s: float) -> Frame:
        caller = await self._pool.get(self.route.master)
        return await caller.call(command, body, timeout_s=timeout_s)

    async def _ask(self, source: Source, count: int) -> Frame:
        """Pull up to `count` messages; after an answer that was too large or too late, the next pull asks for half.

        Raises:
            ConsumeFailed: one message is larger than an answer may be.
        """
        request = PullRequest(
            source.subject,
            source.group,
            source.consumer_id,
            count,
            self.window.begin,
            self.window.last,
            LONG_POLL_MS,
            source.broadcast,
            source.filters,
        )
        self._has_pulled = True
        try:
            timeout_s = LONG_POLL_MS / 1000 + PULL_ALLOWANCE_SECONDS
            return await self._call(Command.PULL_MESSAGE, request.encode(), timeout_s)
        except CallTimeout:
            self._size.failed(count)
            raise
        except ConnectionLost as error:
            if error.code == ANSWER_TOO_LARGE and count == 1:
                raise ConsumeFailed(
                    f"{self.route.name} holds a message of {source.subject} that exceeds the size of a response: {error}. Raise"
                    " Limits.answer_bytes of the consumer",
                    code="client.message_too_large",
                ) from error
            if error.code == ANSWER_TOO_LARGE:
                self._size.failed(count)
            raise

    async def _pull(self, room: int) -> None:
        began = self._clock.monotonic()
        frame = await self._ask(self.source, min(room, self._size.messages))
        if frame.code == ResponseCode.NO_MESSAGE:
            self._size.found_nothing()
            return
        if frame.code != ResponseCode.SUCCESS:
            raise ProtocolError(f"{self.route.name} returned code {frame.code} to a pull")
        answer = PullResponse.decode(frame.body)
        if not answer.raws:
            return
        last = self.window.last
        # Bytes, not a view of the receive buffer: each message is a slice of its own, and the buffer is released.
        data = bytes(answer.raws)
        begins, properties_begins, ends = split_raws(data)
        self._size.received(len(begins), len(frame.body), was_awaited=self._prefetch.is_awaited)
        seen = self.window.seen(answer.pull_begin, len(begins))
        if seen == len(begins):
            return
        if seen:
            begins, properties_begins, ends = begins[seen:], properties_begins[seen:], ends[seen:]
        pulled = Pulled(
            answer.pull_begin + seen,
            [data[begin:end] for begin, end in zip(begins, ends, strict=True)],
            owner=self._owner,
            prefetch=self._prefetch,
            broker_group=self.route.name,
            received_at_ms=self._clock.wall_ms(),
            is_plain=data.find(_CONTENT_KEYS) < 0,
            on_settled=self._ack_wake.set,
        )
        self.window.add(pulled)
        if self._ack_first:
            await self._ack_batch(pulled, last, began)
        head_bytes = [at - begin for at, begin in zip(properties_begins, begins, strict=True)]
        # Most answers hold first attempts only: one search of all bytes saves a search for properties in each message.
        self._deliver(pulled, head_bytes, data.find(_GROUP_KEY) >= 0 or data.find(_ATTEMPT_KEY) >= 0)

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
            if self.window.spans and not self.window.is_first_settled:
                await asyncio.sleep(ACK_DELAY_SECONDS)
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

    async def _ack_finished(self) -> None:
        while await self._ack_once():
            pass

    async def _ack_batch(self, pulled: Pulled, last: int, began: float) -> None:
        """Ack the messages of an answer, and return when the broker has the ack on disk.

        Without that confirmation they must not be delivered, because the broker may give them to another consumer, or
        to this one's successor. They are then forgotten: the next pull gets them again if the broker does not have the ack.

        Args:
            last: the highest pull sequence received before them.
            began: when the pull was sent, in monotonic seconds.

        Raises:
            QmqError: it is unknown whether the ack took effect, or it came so late that the consumer's lease may have ended
                before: the broker confirms acks of messages that it has moved to the retry subject, too.
        """
        try:
            await self._send_ack(pulled.first, pulled.last, broadcast=self.source.broadcast)
            took = self._clock.monotonic() - began
            if took > ACK_FIRST_SECONDS_MAX:
                raise CallTimeout(
                    f"{len(pulled.marks)} messages were acked {took:.0f} s after their pull, the limit is"
                    f" {ACK_FIRST_SECONDS_MAX:g} s; they are not delivered"
                )
        except BaseException:
            self.window.rewind(last)
            raise
        self.window.acked(pulled.last)

    async def _heartbeat_if_due(self) -> None:
        now = asyncio.get_running_loop().time()
        if now - self._last_contact >= HEARTBEAT_SECONDS - 0.5:
            await self._send_ack(-1, -1, broadcast=False)

    async def _send_ack(self, begin: int, last: int, *, broadcast: bool) -> None:
        source = self.source
        request = AckRequest(source.subject, source.group, source.consumer_id, begin, last, broadcast)
        frame = await self._call(Command.ACK_REQUEST, request.encode(), self._timeouts.ack)
        if frame.code != ResponseCode.SUCCESS:
            raise ProtocolError(f"{self.route.name} returned code {frame.code} to an ack")
        self._last_contact = asyncio.get_running_loop().time()

    async def _leave(self) -> None:
        source = self.source
        # A broker counts who pulled as online, also who got nothing from it.
        if not self._has_pulled or source.broadcast:
            return
        request = LeaveGroupRequest(source.subject, source.group, source.consumer_id)
        frame = await OwnCommands.shared().call(
            await self._pool.get(self.route.master), Command.LEAVE_GROUP, request.encode(),
            timeout_s=self._timeouts.ack, is_optional=True,
        )  # fmt: skip
        if frame is None:
            await self._return_unsettled()

    async def _return_unsettled(self) -> None:
        """Publish what is not settled to the retry subject, then ack what is stored there.

        For brokers that do not know LEAVE_GROUP: the official server loses what a consumer held when it ended. An attempt that
        did not fail is not counted, so the properties stay as they are.
        """
        unsettled = self._unsettled()
        if not unsettled:
            return
        ends = await asyncio.gather(*(self._return(*item) for item in unsettled), return_exceptions=True)
        await self._ack_finished()
        errors = [end for end in ends if isinstance(end, BaseException)]
        if errors:
            logger.warning(
                "%s on %s: %d of %d unfinished messages could not be returned to the retry subject; this broker may lose them"
                " unless a consumer with id %s starts again: %s",
                self.source.subject, self.route.name, len(errors), len(unsettled), self.source.consumer_id, errors[0],
            )  # fmt: skip

    async def _return(self, pulled: Pulled, index: int, raw: bytes) -> None:
        source, now_ms = self.source, self._clock.wall_ms()
        # As a broker does: no consumer pulls the retry subject of a dead-letter subject.
        is_dead = split_subject(source.subject).kind == "dead"
        subject = source.subject if is_dead else retry_subject(source.subject, source.group)
        returned = replace(RawView(raw).message(), subject=subject, flag=0, created_at_ms=now_ms, time_ms=now_ms)
        try:
            async with asyncio.timeout(self._timeouts.send):
                await self._send(returned)
        except TimeoutError as error:
            raise CallTimeout(f"it was not confirmed in {self._timeouts.send:g} s") from error
        pulled.settle(index)


def start_request(source: Source, start: str, value: int, *, is_required: bool) -> Source:
    """A source whose group is made at a place when it is new."""
    request = EnsureGroupRequest(source.subject, source.group, start, value, True, source.broadcast)
    return replace(source, start=request, is_start_required=is_required)


def start_unsupported(broker: str, start: EnsureGroupRequest) -> ConsumeFailed:
    """The error of a group's start that a broker does not know how to make."""
    return ConsumeFailed(
        f"{broker} cannot set the start of a consumer group (a broker of the official QMQ server): a new group starts at the end of"
        f' {start.subject} there, not at {start.start!r}. Use start="latest" or none (qmq consume: --from latest)',
        code="client.start_unsupported",
    )
