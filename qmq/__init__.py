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

__version__ = "0.1.0"

if TYPE_CHECKING:
    from qmq.client.app import App
    from qmq.client.batch import Batch
    from qmq.client.bodies import Json
    from qmq.client.config import Limits
    from qmq.client.consumer import Consumer
    from qmq.client.delayed import DelayedMessages, DelayedReceipt
    from qmq.client.delivery import Delivery
    from qmq.client.middleware import Middleware, OutgoingMessage
    from qmq.client.producer import Producer
    from qmq.client.receipt import Receipt
    from qmq.errors import BodyUndecodable, QmqError, QueueFull, SendFailed, SendManyFailed
    from qmq.net.timing import Backoff, Timeouts

_HOME = {
    "App": "qmq.client.app",
    "Backoff": "qmq.net.timing",
    "Batch": "qmq.client.batch",
    "BodyUndecodable": "qmq.errors",
    "Consumer": "qmq.client.consumer",
    "DelayedMessages": "qmq.client.delayed",
    "DelayedReceipt": "qmq.client.delayed",
    "Delivery": "qmq.client.delivery",
    "Json": "qmq.client.bodies",
    "Limits": "qmq.client.config",
    "Middleware": "qmq.client.middleware",
    "OutgoingMessage": "qmq.client.middleware",
    "Producer": "qmq.client.producer",
    "QmqError": "qmq.errors",
    "QueueFull": "qmq.errors",
    "Receipt": "qmq.client.receipt",
    "SendFailed": "qmq.errors",
    "SendManyFailed": "qmq.errors",
    "Timeouts": "qmq.net.timing",
}

__all__ = [
    "App",
    "Backoff",
    "Batch",
    "BodyUndecodable",
    "Consumer",
    "DelayedMessages",
    "DelayedReceipt",
    "Delivery",
    "Json",
    "Limits",
    "Middleware",
    "OutgoingMessage",
    "Producer",
    "QmqError",
    "QueueFull",
    "Receipt",
    "SendFailed",
    "SendManyFailed",
    "Timeouts",
]


def __getattr__(name: str) -> Any:
    """Names load on first use, so that a node does not load the client."""
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'qmq' has no attribute {name!r}")
