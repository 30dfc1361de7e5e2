"""Pull loops, one per subject (the real one and its retry subject) and broker group."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import cast

from qmq.client.acker import Acker
from qmq.client.delivery import Pulled
from qmq.client.lifecycle import client_forked
from qmq.client.prefetch import PullSize
from qmq.client.source import Link, Source, start_unsupported
from qmq.errors import CallTimeout, ConnectionLost, ConsumeFailed, ProtocolError, QmqError
from qmq.net.caller import ANSWER_TOO_LARGE
from qmq.net.failure_log import FailureLog
from qmq.protocol.codes import Command, ResponseCode
from qmq.protocol.commands import BrokerGroupRoute, PullRequest, PullResponse
from qmq.protocol.extensions import LeaveGroupRequest
from qmq.protocol.frames import Frame
from qmq.protocol.messages import KEY_ATTEMPT, KEY_GROUP, resent_entry
from qmq.protocol.names import retry_subject, split_subject
from qmq.protocol.raw import RawView, split_raws

LONG_POLL_MS = 10_000
PULL_ALLOWANCE_SECONDS = 8.0
"""How much longer than its long poll a pull may take, as in the official client."""
_GROUP_KEY = KEY_GROUP.encode()
_ATTEMPT_KEY = KEY_ATTEMPT.encode()
_CONTENT_KEYS = b"qmq_content"
"""The properties that say how a body is encoded begin with it."""

logger = logging.getLogger("qmq.client")


@dataclass(eq=False, repr=False)
class Fetcher:
    """Pulls one subject from one broker group, and acks to it. It begins at once, on the running loop."""

    link: Link
    _may_pull: Callable[[str, int], Awaitable[int]]
    """Called with a name of this fetcher and the messages that its next pull requests. Waits while the consumer is paused, full, or
    has enough messages queued, and returns how many messages it has room for."""
    _deliver: Callable[[Pulled, list[int], bool], None]
    """Queues the messages of an answer, with the bytes before each one's first property, and whether one of them may have a
    consumer group or an attempt among its properties."""
    _has_pulled: bool = field(default=False, init=False)
    _moved: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    """Set when the broker group got another master since the last pull began."""

    def __post_init__(self) -> None:
        self._context = self.link.context
        self._acker = Acker(self.link)
        self._window = self._acker.window
        self._size = PullSize(self._context.limits.pull_messages, self._context.limits.pull_bytes)
        self._is_ensured = self.link.source.start is None
        where = f"{self.link.source.subject} from {self.link.route.name}"
        self._pull_task = self._context.supervisor.critical(f"pull {where}", self._pull_loop())
        self._ack_task = self._context.supervisor.critical(f"ack {where}", self._acker.run())

    def move(self, route: BrokerGroupRoute) -> None:
        """The broker group has another master: send it the next pull at once, with the same pull sequences, and all acks.

        The caller closes the connection to the former master. That ends requests in flight there, whose outcomes are unknown: the
        pull is repeated here, and so are acks, which have the same effect when they are executed twice.
        """
        FailureLog.shared().moved(route.name, self.link.route.master)
        self.link.route = route
        self._moved.set()
        self._acker.moved()

    def forked(self) -> None:
        """Raise ClientForked when a delivery is settled: in a child of the consumer's process no ack is sent."""

        def refuse() -> None:
            raise client_forked()

        for pulled in cast("list[Pulled]", list(self._window.spans)):
            pulled.on_settled = refuse

    async def stop_pulling(self) -> None:
        """Stop pulling. Acks are sent until `stop`."""
        await self._context.supervisor.cancel(self._pull_task)

    async def stop(self, deadline: float) -> list[str]:
        """Stop pulling, ack what is settled, and release what is not, until a loop time; IDs of what is not settled."""
        await self.stop_pulling()
        await self._context.supervisor.cancel(self._ack_task)
        unsettled = self._unsettled()
        ids = [RawView(raw).message_id for _, _, raw in unsettled]
        try:
            async with asyncio.timeout_at(
                min(deadline, asyncio.get_running_loop().time() + self._context.timeouts.ack)
            ):
                await self._acker.ack_finished()
                await self._leave()
        except (QmqError, TimeoutError) as error:
            logger.warning(
                "%s on %s: the acks of %d messages and the end of this consumer could not be stored; %d messages were not"
                " processed. The broker delivers all of them again: %s",
                self.link.source.subject, self.link.route.name, len(self._window) - len(unsettled), len(unsettled),
                error or "no response in time",
            )  # fmt: skip
        return ids

    def _unsettled(self) -> list[tuple[Pulled, int, bytes]]:
        """What was delivered and is not settled: at most `Limits.prefetch_messages`, and the messages of one answer."""
        return [
            (pulled, index, cast(bytes, pulled.raws[index]))
            for pulled in cast("list[Pulled]", list(self._window.spans))
            if pulled.open
            for index in pulled.unsettled()
        ]

    # --- pulling ---------------------------------------------------------------------------------------------------

    async def _pull_loop(self) -> None:
        failures = 0
        while True:
            self._moved.clear()
            try:
                began = self._context.clock.monotonic()
                room = await self._may_pull(f"{self.link.source.subject} {self.link.route.name}", self._size.messages)
                self._size.waited(self._context.clock.monotonic() - began)
                await self._ensure()
                await self._pull(room)
                if failures:
                    self.link.recovered()
                failures = 0
            except ConsumeFailed:
                raise
            except QmqError as error:
                failures += 1
                # Requests at the former master end with the move.
                if failures == 1 and not self._moved.is_set():
                    self.link.log_failure("pulling", error)
                self.link.failed()
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._context.backoff.pause(failures)):
                        await self._moved.wait()
                        failures = 0  # these were the former master's

    async def _ensure(self) -> None:
        if self._is_ensured or self.link.source.start is None:
            return
        is_required = self.link.source.is_start_required
        body, seconds = self.link.source.start.encode(), self._context.timeouts.send
        frame = await self.link.call_own(Command.ENSURE_GROUP, body, seconds, is_optional=not is_required)
        if frame is None and is_required:
            raise start_unsupported(self.link.route.name, self.link.source.start)
        if frame is not None and frame.code != ResponseCode.SUCCESS:
            raise ProtocolError(f"{self.link.route.name} returned code {frame.code} when the group was created")
        self._is_ensured = True

    async def _request(self, source: Source, count: int) -> Frame:
        """Pull up to `count` messages; after an answer that was too large or too late, the next pull requests half as many.

        Raises ConsumeFailed for one message that is larger than an answer may be.
        """
        request = PullRequest(
            source.subject, source.group, source.consumer_id, count, self._window.begin, self._window.last, LONG_POLL_MS,
            source.broadcast, source.filters,
        )  # fmt: skip
        self._has_pulled = True
        try:
            timeout_s = LONG_POLL_MS / 1000 + PULL_ALLOWANCE_SECONDS
            return await self.link.call(Command.PULL_MESSAGE, request.encode(), timeout_s)
        except CallTimeout:
            self._size.failed(count)
            raise
        except ConnectionLost as error:
            if error.code == ANSWER_TOO_LARGE and count == 1:
                raise ConsumeFailed(
                    f"{self.link.route.name} holds a message of {source.subject} that exceeds the size of a response: {error}."
                    " Raise Limits.answer_bytes of the consumer",
                    code="client.message_too_large",
                ) from error
            if error.code == ANSWER_TOO_LARGE:
                self._size.failed(count)
            raise

    async def _pull(self, room: int) -> None:
        began = self._context.clock.monotonic()
        frame = await self._request(self.link.source, min(room, self._size.messages))
        if frame.code == ResponseCode.NO_MESSAGE:
            self._size.found_nothing()
            return
        if frame.code != ResponseCode.SUCCESS:
            raise ProtocolError(f"{self.link.route.name} returned code {frame.code} to a pull")
        answer = PullResponse.decode(frame.body)
        if not answer.raws:
            return
        last = self._window.last
        # Bytes, not a view of the receive buffer: each message is a slice of its own, and the buffer is released.
        data = bytes(answer.raws)
        begins, properties_begins, ends = split_raws(data)
        self._size.received(len(begins), len(frame.body), was_awaited=self._context.prefetch.is_awaited)
        seen = self._window.seen(answer.pull_begin, len(begins))
        if seen == len(begins):
            return
        if seen:
            begins, properties_begins, ends = begins[seen:], properties_begins[seen:], ends[seen:]
        pulled = Pulled(
            answer.pull_begin + seen,
            len(begins),
            [data[begin:end] for begin, end in zip(begins, ends, strict=True)],
            owner=self._context.owner,
            prefetch=self._context.prefetch,
            broker_group=self.link.route.name,
            received_at_ms=self._context.clock.wall_ms(),
            is_plain=data.find(_CONTENT_KEYS) < 0,
            on_settled=self._acker.wake.set,
        )
        self._window.add(pulled)
        if self._context.ack_first:
            await self._acker.ack_batch(pulled, last, began)
        head_bytes = [at - begin for at, begin in zip(properties_begins, begins, strict=True)]
        # Most answers hold first attempts only: one search of all bytes saves a search for properties in each message.
        self._deliver(pulled, head_bytes, data.find(_GROUP_KEY) >= 0 or data.find(_ATTEMPT_KEY) >= 0)

    # --- leaving ---------------------------------------------------------------------------------------------------

    async def _leave(self) -> None:
        source = self.link.source
        # A broker counts who pulled as online, also who got nothing from it.
        if not self._has_pulled or source.broadcast:
            return
        request = LeaveGroupRequest(source.subject, source.group, source.consumer_id)
        seconds = self._context.timeouts.ack
        frame = await self.link.call_own(Command.LEAVE_GROUP, request.encode(), seconds, is_optional=True)
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
        await self._acker.ack_finished()
        errors = [end for end in ends if isinstance(end, BaseException)]
        if errors:
            logger.warning(
                "%s on %s: %d of %d unfinished messages could not be returned to the retry subject; this broker may lose them"
                " unless a consumer with id %s starts again: %s",
                self.link.source.subject, self.link.route.name, len(errors), len(unsettled),
                self.link.source.consumer_id, errors[0],
            )  # fmt: skip

    async def _return(self, pulled: Pulled, index: int, raw: bytes) -> None:
        source, now_ms = self.link.source, self._context.clock.wall_ms()
        # As a broker does: no consumer pulls the retry subject of a dead-letter subject.
        is_dead = split_subject(source.subject).kind == "dead"
        subject = source.subject if is_dead else retry_subject(source.subject, source.group)
        returned = resent_entry(raw, subject, now_ms, {})
        try:
            async with asyncio.timeout(self._context.timeouts.send):
                await self._context.send(subject, RawView(raw).message_id, returned)
        except TimeoutError as error:
            raise CallTimeout(f"it was not confirmed in {self._context.timeouts.send:g} s") from error
        pulled.settle(index)
