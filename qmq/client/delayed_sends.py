"""Sends of messages that are due later: class DelayedSends."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from qmq.client.bodies import Body
from qmq.client.delay_clock import DelayClock
from qmq.client.delayed import DelayedMessages, DelayedReceipt
from qmq.client.encoder import ObservedSends
from qmq.client.message import delay_ms_of, due_ms_of
from qmq.client.send_queue import SendQueue
from qmq.clock import Clock
from qmq.protocol.codes import ClientType
from qmq.protocol.names import check_subject


@dataclass(eq=False, repr=False)
class DelayedSends:
    """Gives messages of a producer their due times and queues them. A delay is counted by the clock of the delay nodes."""

    _queue: SendQueue
    _observed: ObservedSends
    _messages: DelayedMessages
    _nodes_clock: DelayClock
    _clock: Clock
    _seconds: float
    """The delivery timeout: until a message fails, from the call of `send` on."""

    async def send(
        self,
        subject: str,
        body: Body,
        delay: timedelta | None,
        due: datetime | None,
        tags: Sequence[str],
        message_id: str | None,
    ) -> DelayedReceipt:
        """Send a message and return once it is on disk, see `Producer.send`."""
        due_ms, began = due_ms_of(delay, due, self._clock), self._clock.monotonic()
        check_subject(subject)
        with self._queue.pending():
            give_up_at = self._queue.loop.time() + self._seconds
            if delay is not None:
                await self._nodes_clock.update(subject, give_up_at)
                if (nodes_ms := self._nodes_clock.wall_ms(began)) is not None:
                    due_ms = nodes_ms + delay_ms_of(delay)
            message_id, entry, message = self._observed.encode(subject, body, tags, message_id, due_ms)
            sending = self._queue.send((subject, ClientType.DELAY_PRODUCER), message_id, entry, give_up_at)
            receipt = await (sending if message is None else self._observed.observe(message, sending))
        return DelayedReceipt(receipt, due_ms, self._messages)
