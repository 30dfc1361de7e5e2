"""The next attempt of a message that was not processed: class Retries."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from qmq.client.delivery import Delivery
from qmq.client.middleware import MiddlewareChain
from qmq.clock import Clock
from qmq.errors import SendFailed
from qmq.net.timing import Backoff
from qmq.protocol.messages import (
    KEY_ATTEMPT,
    KEY_CREATED,
    KEY_GROUP,
    KEY_MAX_RETRY,
    KEY_PULL_OFFSET,
    KEY_RETRY_CAUSE,
    Message,
)
from qmq.protocol.names import dead_letter_subject, retry_subject

logger = logging.getLogger("qmq.client")


class Retries:
    """Stores the next attempts, or dead letters, of one consumer's messages, by `send`.

    Args:
        attempts_max: of messages that set no limit of their own.
        at_most_once: messages are not retried.
    """

    def __init__(
        self,
        subject: str,
        send: Callable[[Message], Awaitable[object]],
        *,
        attempts_max: int,
        at_most_once: bool,
        backoff: Backoff,
        clock: Clock,
    ) -> None:
        self._subject = subject
        self._send = send
        self._attempts_max = attempts_max
        self._at_most_once = at_most_once
        self._backoff = backoff
        self._clock = clock
        self._is_stopped = False

    def stop(self) -> None:
        """From now on, a message that can't be stored fails and is not sent again."""
        self._is_stopped = True

    def what_follows(self, delivery: Delivery) -> str:
        """What happens to a message whose handler raised, for the log."""
        if delivery.is_settled:
            return "it was settled before"
        if self._at_most_once:
            return "it is lost, at most once"
        return "it becomes a dead letter" if self.next_attempt(delivery)[2] else "it is retried"

    def next_attempt(self, delivery: Delivery) -> tuple[int, int, bool]:
        """The number of the next attempt, the most attempts of this message, and whether it becomes a dead letter instead."""
        attempts_max = whole_number(delivery.message.properties.get(KEY_MAX_RETRY), self._attempts_max)
        if attempts_max < 0:
            attempts_max = self._attempts_max
        attempt = delivery.attempt + 1
        return attempt, attempts_max, attempt > attempts_max

    async def send_back(self, delivery: Delivery, cause: str, group: str, middleware: MiddlewareChain | None) -> None:
        """Store the next attempt, or the dead letter; only then is this one acked. At most once: do nothing. Raises SendFailed.

        A delivery that could not be sent back stays held and unsettled: nothing behind it is lost, and the prefetch limit stops the
        consumer from pulling ever more.
        """
        if self._at_most_once:
            return
        if middleware is not None:
            middleware.before_retry(delivery, cause)
        old = delivery.message
        attempt, attempts_max, is_dead_letter = self.next_attempt(delivery)
        target = dead_letter_subject if is_dead_letter else retry_subject
        now_ms = self._clock.wall_ms()
        properties = {
            **old.properties,
            KEY_ATTEMPT: str(attempt),
            KEY_CREATED: str(now_ms),
            KEY_GROUP: group,
            KEY_MAX_RETRY: str(attempts_max),
            KEY_PULL_OFFSET: str(delivery.pull_sequence),
            KEY_RETRY_CAUSE: cause,
        }
        if not cause:
            # The one before had a cause perhaps: it is not this one's.
            del properties[KEY_RETRY_CAUSE]
        subject = target(self._subject, group)
        await self._store(Message(subject, old.message_id, properties, old.tags, 0, now_ms, now_ms))
        if middleware is not None:
            middleware.after_retry(delivery, cause, is_dead_letter)

    async def _store(self, message: Message) -> None:
        failures = 0
        while True:
            try:
                await self._send(message)
                return
            except SendFailed as error:
                if not error.retriable or self._is_stopped:
                    raise
                failures += 1
                logger.warning("message %s could not be sent back yet: %s", message.message_id, error)
            await asyncio.sleep(self._backoff.pause(failures))


def whole_number(text: str | None, default: int) -> int:
    """The number that a property contains; `default` when it contains none."""
    try:
        return int(text) if text else default
    except ValueError:
        return default
