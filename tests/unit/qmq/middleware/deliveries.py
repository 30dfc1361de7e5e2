"""Messages and calls of the hooks as clients make them."""

from collections.abc import Callable

import qmq_testing
from qmq.client.delivery import Delivery
from qmq.client.middleware import Middleware, OutgoingMessage
from qmq.errors import SendFailed
from qmq.receipt import Receipt

RECEIPT = Receipt("m1", "orders", "broker1", 1)


def delivery(
    properties: dict[str, str] | None = None,
    *,
    subject: str = "orders",
    group: str = "billing",
    message_id: str = "m1",
    attempt: int = 1,
) -> Delivery:
    return qmq_testing.delivery(properties or {}, subject=subject, group=group, message_id=message_id, attempt=attempt)


def send(
    middleware: Middleware,
    properties: dict[str, str] | None = None,
    outcome: Receipt | SendFailed = RECEIPT,
    *,
    subject: str = "orders",
    between: Callable[[], None] = lambda: None,
) -> dict[str, str]:
    """Call the hooks of a send and return the properties that were sent."""
    message = OutgoingMessage(subject, "m1", properties if properties is not None else {"number": "1"})
    middleware.before_send(message)
    sent = dict(message.properties)
    between()
    middleware.after_send(message, outcome)
    return sent


def process(
    middleware: Middleware,
    received: Delivery,
    error: BaseException | None = None,
    *,
    handler: Callable[[], None] = lambda: None,
) -> None:
    """Call the hooks around a handler."""
    middleware.before_process(received)
    handler()
    middleware.after_process(received, error)
