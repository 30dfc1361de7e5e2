"""Messages of producers with the properties that the protocol requires, their ids, and due times."""

import itertools
import os
import secrets
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from qmq.client.bodies import Body, encode_body
from qmq.clock import SYSTEM_CLOCK, Clock
from qmq.errors import LocalProtocolError
from qmq.protocol.messages import FLAG_DELAY, KEY_APP, KEY_CREATED, KEY_EXPIRE, KEY_SCHEDULE, Message

MakeId = Callable[[], str]
"""Returns a new message id at each call."""


def random_origin() -> str:
    """64 random bits in hexadecimal: what the ids of one process have in common, and no other process's have."""
    return secrets.token_hex(8)


class MessageIds:
    """Makes ids that no other process makes: UTC time to the second, `origin`, counter.

    The official client writes its host's address and process number in place of the origin. In containers these are the same for
    many processes, so ours is random. As in the official client's ids, the time is at the beginning.
    """

    def __init__(self, clock: Clock = SYSTEM_CLOCK, origin: Callable[[], str] = random_origin) -> None:
        self._clock = clock
        self._new_origin = origin
        self._origin = origin()
        self._numbers = itertools.count()
        self._second = -1
        self._prefix = ""

    def __call__(self) -> str:
        second = self._clock.wall_ms() // 1000
        if second != self._second:
            self._second = second
            self._prefix = f"{datetime.fromtimestamp(second, UTC):%y%m%d.%H%M%S}.{self._origin}."
        return f"{self._prefix}{next(self._numbers)}"

    def change_origin(self) -> None:
        """Use another origin, because this is another process now."""
        self._origin = self._new_origin()
        self._second = -1


new_message_id = MessageIds()
"""The ids of this process: all producers share its counter."""
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=new_message_id.change_origin)


CAUSE_CHARS_MAX = 120
"""Longest cause of a retry; the rest of a longer one is left out."""
EXPIRE_AFTER_MS = 15 * 60 * 1000
"""Properties that the official client writes and no program reads."""


def build_message(subject: str, body: Body, tags: tuple[str, ...], message_id: str, app: str, now_ms: int) -> Message:
    """Build a new message with the properties that the protocol requires."""
    properties = standard_properties(app, now_ms) | encode_body(body)
    return Message(subject, message_id, properties, tags, 0, now_ms, now_ms)


def standard_properties(app: str, now_ms: int) -> dict[str, str]:
    """The properties that each message has besides its body."""
    return {KEY_CREATED: str(now_ms), KEY_EXPIRE: str(now_ms + EXPIRE_AFTER_MS), KEY_APP: app}


def delayed_message(message: Message, due_ms: int) -> Message:
    """The message as one that is due later."""
    properties = {**message.properties, KEY_SCHEDULE: str(due_ms)}
    return replace(message, properties=properties, flag=message.flag | FLAG_DELAY, time_ms=due_ms)


def cause_label(text: str) -> str:
    """A cause as it is stored: one line, at most CAUSE_CHARS_MAX characters, nothing that can't be written as UTF-8."""
    return " ".join(text.encode("utf-8", "replace").decode().split())[:CAUSE_CHARS_MAX].rstrip()


DUE_MS_MAX = 1 << 48
"""A due time beyond this is a mistake (year 10889); the delay nodes' own limit is nearer."""


def due_ms_of(delay: timedelta | None, due: datetime | None, clock: Clock = SYSTEM_CLOCK) -> int:
    """A due time in milliseconds since the epoch. Raises LocalProtocolError unless exactly one valid argument is given.

    `clock`: by which a delay begins now.
    """
    if (delay is None) == (due is None):
        raise LocalProtocolError("specify either delay= or due=")
    if delay is not None:
        due_ms = clock.wall_ms() + delay_ms_of(delay)
    else:
        if not isinstance(due, datetime) or due.tzinfo is None or due.utcoffset() is None:
            raise LocalProtocolError(
                f"due={due!r}: must be a datetime with a time zone such as datetime.now(UTC) + timedelta(hours=1)"
            )
        due_ms = (due - datetime.fromtimestamp(0, UTC)) // timedelta(milliseconds=1)
    if not 0 <= due_ms <= DUE_MS_MAX:
        raise LocalProtocolError(f"due time {due_ms} ms: must be 0 to {DUE_MS_MAX}", code="delay.too_far")
    return due_ms


def delay_ms_of(delay: timedelta) -> int:
    """A delay in milliseconds. Raises LocalProtocolError for one that is negative or no timedelta."""
    if not isinstance(delay, timedelta):
        raise LocalProtocolError(f"delay={delay!r}: must be a timedelta such as timedelta(minutes=5)")
    if delay < timedelta(0):
        raise LocalProtocolError(f"delay={delay}: a delay can't be negative")
    return delay // timedelta(milliseconds=1)
