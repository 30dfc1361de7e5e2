"""Every name of `qmq` without `await`. All clients of a process share one event loop in a thread of its own.

with Producer("localhost:8080") as producer:
    producer.send("order.paid", {"order": 17})

Methods whose behavior is not described here behave like those of the same name in `qmq`. Middleware and callbacks of futures run in
that thread: they must not block, and a method that would wait there raises LocalProtocolError. `before_process` and
`after_process` run in the thread that processes the delivery.
"""

from qmq import __all__ as __all__
from qmq.client.bodies import Json as Json
from qmq.client.config import Limits as Limits
from qmq.client.middleware import Middleware as Middleware
from qmq.client.middleware import OutgoingMessage as OutgoingMessage
from qmq.errors import BodyUndecodable as BodyUndecodable
from qmq.errors import QmqError as QmqError
from qmq.errors import QueueFull as QueueFull
from qmq.errors import SendFailed as SendFailed
from qmq.errors import SendManyFailed as SendManyFailed
from qmq.net.timing import Backoff as Backoff
from qmq.net.timing import Timeouts as Timeouts
from qmq.receipt import Receipt as Receipt
from qmq.sync.consumer import App as App
from qmq.sync.consumer import Batch as Batch
from qmq.sync.consumer import Consumer as Consumer
from qmq.sync.consumer import Delivery as Delivery
from qmq.sync.consumer import Handler as Handler
from qmq.sync.producer import DelayedMessages as DelayedMessages
from qmq.sync.producer import DelayedReceipt as DelayedReceipt
from qmq.sync.producer import Producer as Producer
