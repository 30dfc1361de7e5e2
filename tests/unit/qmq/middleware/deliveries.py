"""Messages and calls of the hooks as clients make them."""

from collections.abc import Callable

from qmq.client.message import Delivery, Receipt
from qmq.client.middleware import Middleware, OutgoingMessage
from qmq.errors import SendFailed
from qmq.protocol.messages import Message

RECEIPT = Receipt("m1", "orders", "broker1", 1)


async def _settle(_delivery: Delivery, _is_done: bool, _cause: str) -> None: ...


def delivery(
    properties: dict[str, str] | None = None, *, subject: str = "orders", group: str = "billing", message_id: str = "m1"
) -> Delivery:
    return Delivery(Message(subject, message_id, properties or {}), group, "broker1", 0, 0, _settle)


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
