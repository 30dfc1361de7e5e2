"""The handlers of a consumer: class Workers."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from qmq.client.delivery import Delivery, next_entry
from qmq.client.handlers import THREAD_NAME, Handler, Invoke, invoker, is_coroutine_handler
from qmq.client.lifecycle import client_failed
from qmq.client.middleware import MiddlewareChain
from qmq.client.ready_queue import ReadyQueue
from qmq.client.threads import DaemonThreads
from qmq.clock import Clock
from qmq.errors import ClientFailed, DeliveryAlreadySettled, QmqError, SendFailed
from qmq.net.timing import Backoff
from qmq.protocol.messages import (
    KEY_ATTEMPT,
    KEY_CREATED,
    KEY_GROUP,
    KEY_MAX_RETRY,
    KEY_PULL_OFFSET,
    KEY_RETRY_CAUSE,
)
from qmq.protocol.names import dead_letter_subject, retry_subject
from qmq.protocol.values import INT_MAX, whole_number
from qmq.words import printable

logger = logging.getLogger("qmq.client")


@dataclass(eq=False, repr=False)
class Retries:
    """Stores the next attempts, or dead letters, of one consumer's messages, by `send`; unless it receives `at_most_once`."""

    subject: str
    send: Callable[[str, str, bytes], Awaitable[object]]
    """Called with subject, message ID and entry."""
    attempts_max: int
    """Of messages that set no limit of their own."""
    at_most_once: bool
    backoff: Backoff
    clock: Clock
    is_stopped: bool = False
    """Whether the consumer is closing: a message that can't be stored then fails without another attempt."""

    def what_follows(self, delivery: Delivery) -> str:
        """What happens to a message whose handler raised, for the log."""
        if delivery.is_settled:
            return "it was settled before"
        if self.at_most_once:
            return "it is lost, at most once"
        return "it becomes a dead letter" if self.next_attempt(delivery)[2] else "it is retried"

    def next_attempt(self, delivery: Delivery) -> tuple[int, int, bool]:
        """The number of the next attempt, the most attempts of this message, and whether it becomes a dead letter instead."""
        attempts_max = whole_number(delivery.message.properties.get(KEY_MAX_RETRY), self.attempts_max)
        attempt = delivery.attempt + 1
        return attempt, attempts_max, attempt > attempts_max

    async def send_back(self, delivery: Delivery, cause: str, group: str, middleware: MiddlewareChain | None) -> None:
        """Store the next attempt, or the dead letter; only then is this one acked. At most once: do nothing. Raises SendFailed.

        A delivery that could not be sent back stays held and unsettled: nothing behind it is lost, and the prefetch limit stops the
        consumer from pulling ever more.
        """
        if self.at_most_once:
            return
        if middleware is not None:
            middleware.before_retry(delivery, cause)
        attempt, attempts_max, is_dead_letter = self.next_attempt(delivery)
        target = dead_letter_subject if is_dead_letter else retry_subject
        now_ms = self.clock.wall_ms()
        properties = {
            KEY_ATTEMPT: str(min(attempt, INT_MAX)),
            KEY_CREATED: str(now_ms),
            KEY_GROUP: group,
            KEY_MAX_RETRY: str(attempts_max),
            KEY_PULL_OFFSET: str(delivery.pull_sequence),
            # The one before had a cause perhaps: it is not this one's.
            KEY_RETRY_CAUSE: cause or None,
        }
        subject = target(self.subject, group)
        await self._store(subject, delivery.message_id, next_entry(delivery, subject, now_ms, properties))
        if middleware is not None:
            middleware.after_retry(delivery, cause, is_dead_letter)

    async def _store(self, subject: str, message_id: str, entry: bytes) -> None:
        failures = 0
        while True:
            try:
                await self.send(subject, message_id, entry)
                return
            except SendFailed as error:
                if not error.retriable or self.is_stopped:
                    raise
                failures += 1
                logger.warning("message %s could not be sent back yet: %s", printable(message_id), error)
            await asyncio.sleep(self.backoff.pause(failures))


CANCELLED_SECONDS = 1.0
"""`Workers.stop` waits at most this long for handlers that it has cancelled."""


class Workers:
    """Tasks that receive deliveries, call a handler with each, and settle them."""

    def __init__(self, ready: ReadyQueue, retries: Retries, middleware: MiddlewareChain | None) -> None:
        self._ready = ready
        self._retries = retries
        self._middleware = middleware
        self.tasks: dict[asyncio.Task[None], Delivery | None] = {}
        """The running tasks, with what each processes."""

    async def run(self, handler: Handler, concurrency: int) -> None:
        """Process deliveries until the queue is closed, as `Consumer.run`."""
        threads = None if is_coroutine_handler(handler) else DaemonThreads(concurrency, THREAD_NAME)
        invoke = invoker(handler, threads)
        try:
            async with asyncio.TaskGroup() as tasks:
                for _ in range(concurrency):
                    task = tasks.create_task(self._work(invoke, is_in_thread=threads is not None))
                    self.tasks[task] = None
                    task.add_done_callback(lambda ended: self.tasks.pop(ended, None))
        finally:
            if threads is not None:
                # A handler that hangs must not hang this coroutine. Its thread does not keep the process from ending either.
                threads.shutdown(wait=False, cancel_futures=True)
        if self._ready.failure is not None:
            raise client_failed("consumer", self._ready.failure)

    async def _work(self, invoke: Invoke, *, is_in_thread: bool) -> None:
        task = asyncio.current_task()
        assert task is not None
        while True:
            try:
                delivery = await self._ready.next(None)
            except ClientFailed:
                return  # run raises it
            if delivery is None:
                return
            self.tasks[task] = delivery
            try:
                await self._process(invoke, delivery)
            except asyncio.CancelledError:
                # `run` was cancelled, and others may receive from this consumer. A thread continues with its delivery.
                if not (self._ready.is_closed or self._retries.at_most_once or is_in_thread or delivery.is_settled):
                    self._ready.put_back(delivery)
                raise
            self.tasks[task] = None

    async def _process(self, invoke: Invoke, delivery: Delivery) -> None:
        error: BaseException | None = None
        if self._middleware is not None:
            self._middleware.before_process(delivery)
        try:
            await invoke(delivery)
        except Exception as raised:  # noqa: BLE001 - logged, and the message is retried
            error = raised
        except asyncio.CancelledError as raised:
            error = raised
            task = asyncio.current_task()
            if task is None or task.cancelling():  # else something that the handler awaited was cancelled
                raise
        except BaseException as raised:
            error = raised
            raise
        finally:
            if self._middleware is not None:
                self._middleware.after_process(delivery, error)
        await self._settle(delivery, error)

    async def _settle(self, delivery: Delivery, error: BaseException | None) -> None:
        """Acknowledge or retry a message. An error concerns it alone: it stays unsettled, and the broker delivers it again."""
        try:
            if error is not None:
                logger.error(
                    "handling message %s failed, %s",
                    printable(delivery.message_id),
                    self._retries.what_follows(delivery),
                    exc_info=error,
                )
            if delivery.is_settled:
                return
            if error is None:
                await delivery.ack()
            else:
                await delivery.retry(cause=type(error).__name__)
        except DeliveryAlreadySettled:
            pass  # by the handler's own task, meanwhile
        except QmqError as failure:
            logger.error("message %s could not be retried, it comes again: %s", printable(delivery.message_id), failure)
        except Exception:
            logger.exception("message %s could not be settled, it comes again", printable(delivery.message_id))

    async def stop(self, until: float, deadline: float) -> list[str]:
        """Let handlers finish until a loop time, then cancel them and wait until another one; IDs of the cancelled messages."""
        loop = asyncio.get_running_loop()
        # A handler may close the consumer.
        tasks = [task for task in self.tasks if task is not asyncio.current_task()]
        if not tasks:
            return []
        _, running = await asyncio.wait(tasks, timeout=max(0.0, until - loop.time()))
        for task in running:
            task.cancel()
        ids = [delivery.message_id for task in running if (delivery := self.tasks.get(task)) is not None]
        if running:
            await asyncio.wait(running, timeout=max(0.0, min(CANCELLED_SECONDS, deadline - loop.time())))
        return ids
