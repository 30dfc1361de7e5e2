"""PyQMQ: a durable message queue after QMQ's model.

    async with Producer("localhost:8080", app="billing") as producer:
        receipt = await producer.send("order.paid", {"order": 17})

    async with Consumer("localhost:8080", "order.paid", "billing") as consumer:
        async for delivery in consumer:
            async with delivery:
                print(delivery.properties)

The same names without `await` are in `qmq.sync`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from qmq.version import __version__ as __version__

if TYPE_CHECKING:
    from qmq.client.app import App as App
    from qmq.client.bodies import Json as Json
    from qmq.client.config import Limits as Limits
    from qmq.client.consumer import Consumer as Consumer
    from qmq.client.delayed import DelayedMessages as DelayedMessages
    from qmq.client.delayed import DelayedReceipt as DelayedReceipt
    from qmq.client.delivery import Batch as Batch
    from qmq.client.delivery import Delivery as Delivery
    from qmq.client.middleware import Middleware as Middleware
    from qmq.client.middleware import OutgoingMessage as OutgoingMessage
    from qmq.client.producer import Producer as Producer
    from qmq.errors import BodyUndecodable as BodyUndecodable
    from qmq.errors import QmqError as QmqError
    from qmq.errors import QueueFull as QueueFull
    from qmq.errors import SendFailed as SendFailed
    from qmq.errors import SendManyFailed as SendManyFailed
    from qmq.net.timing import Backoff as Backoff
    from qmq.net.timing import Timeouts as Timeouts
    from qmq.receipt import Receipt as Receipt

_NAMES = {
    "qmq.client.app": ["App"],
    "qmq.client.bodies": ["Json"],
    "qmq.client.config": ["Limits"],
    "qmq.client.consumer": ["Consumer"],
    "qmq.client.delayed": ["DelayedMessages", "DelayedReceipt"],
    "qmq.client.delivery": ["Batch", "Delivery"],
    "qmq.client.middleware": ["Middleware", "OutgoingMessage"],
    "qmq.client.producer": ["Producer"],
    "qmq.receipt": ["Receipt"],
    "qmq.errors": ["BodyUndecodable", "QmqError", "QueueFull", "SendFailed", "SendManyFailed"],
    "qmq.net.timing": ["Backoff", "Timeouts"],
}
_HOME = {name: module for module, names in _NAMES.items() for name in names}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    """Names load on first use, so that a node does not load the client."""
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'qmq' has no attribute {name!r}")
