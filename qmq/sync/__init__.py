"""Every name of `qmq` without `await`. All clients of a process share one event loop in a thread of its own.

with Producer("localhost:8080") as producer:
    producer.send("order.paid", {"order": 17})

Methods whose behavior is not described here behave like those of the same name in `qmq`. Middleware and callbacks of futures run in
that thread: they must not block, and a method that would wait there raises LocalProtocolError. `before_process` and
`after_process` run in the thread that processes the delivery.
"""

from qmq.client.bodies import Json
from qmq.client.config import Limits
from qmq.client.middleware import Middleware, OutgoingMessage
from qmq.client.receipt import Receipt
from qmq.errors import BodyUndecodable, QmqError, QueueFull, SendFailed, SendManyFailed
from qmq.net.timing import Backoff, Timeouts
from qmq.sync.consumer import App, Batch, Consumer, Delivery
from qmq.sync.consumer import Handler as Handler
from qmq.sync.producer import DelayedMessages, DelayedReceipt, Producer

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
