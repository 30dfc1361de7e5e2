"""What a consumer pulls: its subscription, the sources of its messages, and the link of a source to a broker group."""

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

from qmq.client.config import Limits
from qmq.client.delivery import Owner
from qmq.client.own_commands import OwnCommands
from qmq.client.prefetch import Prefetch
from qmq.clock import Clock
from qmq.errors import CallTimeout, ConnectionLost, ConsumeFailed, IllegalName, LocalProtocolError, QmqError
from qmq.net.caller import ANSWER_TOO_LARGE
from qmq.net.failure_log import FailureLog
from qmq.net.pool import Pool
from qmq.net.timing import Backoff, Timeouts
from qmq.protocol.codes import Command, TagType
from qmq.protocol.commands import BrokerGroupRoute, TagFilter
from qmq.protocol.extensions import EnsureGroupRequest
from qmq.protocol.frames import Frame
from qmq.protocol.names import (
    GROUP_CHARS_MAX,
    TAGS_MAX,
    characters,
    check_group,
    check_subject,
    retry_subject,
    split_subject,
)
from qmq.supervisor import Supervisor

logger = logging.getLogger("qmq.client")

Start = Literal["earliest", "latest"] | datetime | int


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


class Subscription:
    """What a consumer receives; the arguments are those of `Consumer`. Raises IllegalName, LocalProtocolError."""

    def __init__(
        self, subject: str, group: str, consumer_id: str | None, start: Start | None, tags: Sequence[str], tag_mode: str,
        broadcast: bool,
    ) -> None:  # fmt: skip
        check_subject(subject)
        if not broadcast and (characters(group) > GROUP_CHARS_MAX or "%" in group or "@" in group):
            raise IllegalName(
                f"consumer group {group[:60]!r}: at most {GROUP_CHARS_MAX} characters, without % and @",
                code="group.name_illegal",
            )
        if not broadcast or consumer_id:
            check_group(consumer_id or "" if broadcast else group)
        if len(tags) > TAGS_MAX:
            raise LocalProtocolError(f"{len(tags)} tags, the limit is {TAGS_MAX}")
        self.subject = subject
        self.kind = split_subject(subject).kind
        self.broadcast = broadcast
        self._start_place = None if start is None else _start_place(start)
        self._filters = (TagFilter(TagType.AND if tag_mode == "and" else TagType.OR, tuple(tags)),) if tags else ()

    def sources(self, group: str, consumer_id: str) -> list[Source]:
        """Return the source of the subject and that of the group's retry subject."""
        names = [self.subject]
        if self.kind == "real":
            names.append(retry_subject(self.subject, group))
        sources = [Source(name, group, consumer_id, self.broadcast, self._filters) for name in names]
        if self._start_place is None:
            return sources
        place, value = self._start_place
        # Without a place, a group begins at the end by itself: that start needs no help of the broker.
        real = _start_request(sources[0], place, value, is_required=place != "latest")
        return [real, *(_start_request(s, "earliest", 0, is_required=False) for s in sources[1:])]


@dataclass(frozen=True, slots=True)
class PullContext:
    """What the fetchers of one consumer share."""

    owner: Owner
    prefetch: Prefetch
    pool: Pool
    limits: Limits
    timeouts: Timeouts
    backoff: Backoff
    supervisor: Supervisor
    clock: Clock
    ack_first: bool
    """Acknowledge each pulled batch before it is delivered, for at-most-once delivery."""
    send: Callable[[str, str, bytes], Awaitable[object]]
    """Publishes a message, and returns when it is stored."""


@dataclass(slots=True)
class Link:
    """One source at one broker group. `route` is replaced when the group's master has another address."""

    source: Source
    route: BrokerGroupRoute
    context: PullContext
    failed: Callable[[], None]
    """Called after each failed request."""

    def log_failure(self, doing: str, error: QmqError) -> None:
        """Log the first failure in a row: that of a node that can't be reached with those of all other requests to it."""
        if isinstance(error, ConnectionLost | CallTimeout) and error.code != ANSWER_TOO_LARGE:
            what = f"{doing} {self.source.subject}: {error}"
            FailureLog.shared().failed(self.route.name, self.route.master, what)
        else:
            logger.warning("%s %s from %s: %s", doing, self.source.subject, self.route.name, error)

    def recovered(self) -> None:
        """A request succeeded after failures."""
        FailureLog.shared().recovered(self.route.name)

    async def call(self, command: Command, body: bytes, timeout_s: float) -> Frame:
        caller = await self.context.pool.get(self.route.master)
        return await caller.call(command, body, timeout_s=timeout_s)

    async def call_own(self, command: Command, body: bytes, timeout_s: float, *, is_optional: bool) -> Frame | None:
        """As `call`, for a command of PyQMQ: see `OwnCommands.call`."""
        caller = await self.context.pool.get(self.route.master)
        return await OwnCommands.shared().call(caller, command, body, timeout_s=timeout_s, is_optional=is_optional)


def _start_request(source: Source, start: str, value: int, *, is_required: bool) -> Source:
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


def _start_place(start: Start) -> tuple[str, int]:
    if isinstance(start, datetime):
        if start.tzinfo is None:
            raise LocalProtocolError(f"start={start!r} has no time zone; use an aware datetime")
        return "time", int(start.timestamp() * 1000)
    if isinstance(start, int):
        return "sequence", start
    return start, 0
