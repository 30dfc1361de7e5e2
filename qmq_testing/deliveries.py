"""delivery(): a delivery for a test of a handler alone, without a server."""

import itertools
from collections.abc import Sequence
from datetime import datetime
from typing import Literal

from qmq.client.bodies import Body
from qmq.client.config import DEFAULT_LIMITS
from qmq.client.delivery import Delivery, Pulled
from qmq.client.message import build_message, cause_label
from qmq.client.middleware import MiddlewareChain
from qmq.client.prefetch import Prefetch
from qmq.clock import SYSTEM_CLOCK
from qmq.protocol.messages import KEY_ATTEMPT, KEY_RETRY_CAUSE, encode_raw
from qmq.protocol.raw import RawView

_numbers = itertools.count(1)


class ManualDelivery(Delivery):
    """A delivery that belongs to no consumer. It records how the handler settled it."""

    __slots__ = ("cause", "outcome")

    outcome: Literal["acked", "retried"] | None
    """None: the handler has not settled it."""
    cause: str
    """The cause that the handler gave to `retry`; "" without one."""

    async def ack(self) -> None:
        await super().ack()
        self.outcome = "acked"

    async def retry(self, *, cause: str = "") -> None:
        await super().retry(cause=cause)
        self.outcome, self.cause = "retried", cause_label(cause)


class _NoConsumer:
    """Stands for the consumer of a delivery that has none."""

    delivered_subject: str | None = None
    middleware: MiddlewareChain | None = None

    def __init__(self, group: str) -> None:
        self.group = group

    async def send_back(self, delivery: Delivery, cause: str) -> None:
        """Store nothing."""


def delivery(
    body: Body = "",
    *,
    subject: str = "test",
    group: str = "test",
    tags: Sequence[str] = (),
    attempt: int = 1,
    retry_cause: str = "",
    message_id: str | None = None,
    created_at: datetime | None = None,
) -> ManualDelivery:
    """Make a delivery to call a handler with: `await send_mail(delivery({"to": "ada@example.com"}))`.

    Args:
        body: as for `Producer.send`.
        message_id: None: a new one.
        created_at: a datetime with a time zone. None: now.

    Returns:
        A delivery whose `outcome` and `cause` say how the handler settled it.

    Raises:
        LocalProtocolError: the body is not one that `Producer.send` accepts.
    """
    created_ms = SYSTEM_CLOCK.wall_ms() if created_at is None else round(created_at.timestamp() * 1000)
    number = next(_numbers)
    message = build_message(subject, body, tuple(tags), message_id or f"test-{number}", "test", created_ms)
    if attempt > 1:
        message.properties[KEY_ATTEMPT] = str(attempt)
    if retry_cause:
        message.properties[KEY_RETRY_CAUSE] = retry_cause
    raw = encode_raw(message)
    pulled = Pulled(
        number,
        1,
        [raw],
        owner=_NoConsumer(group),
        prefetch=Prefetch(DEFAULT_LIMITS),
        broker_group="test",
        received_at_ms=created_ms,
        is_plain=False,
        on_settled=lambda: None,
    )
    made = ManualDelivery(pulled, 0, raw, RawView(raw).properties_begin)
    made.outcome, made.cause = None, ""
    return made
