"""The handlers of a consumer: class Workers."""

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor

from qmq.client.delivery import Delivery
from qmq.client.handlers import THREAD_NAME, Handler, Invoke, invoker, is_coroutine_handler
from qmq.client.lifecycle import client_failed
from qmq.client.middleware import MiddlewareChain
from qmq.client.ready_queue import ReadyQueue
from qmq.client.retries import Retries
from qmq.errors import ClientFailed, DeliveryAlreadySettled, QmqError

CANCELLED_SECONDS = 1.0
"""`Workers.stop` waits at most this long for handlers that it has cancelled."""

logger = logging.getLogger("qmq.client")


class Workers:
    """Tasks that receive deliveries, call a handler with each, and settle them."""

    def __init__(
        self, ready: ReadyQueue, retries: Retries, middleware: MiddlewareChain | None, *, at_most_once: bool
    ) -> None:
        self._ready = ready
        self._retries = retries
        self._middleware = middleware
        self._at_most_once = at_most_once
        self.tasks: dict[asyncio.Task[None], Delivery | None] = {}
        """The running tasks, with what each processes."""

    async def run(self, handler: Handler, concurrency: int) -> None:
        """Process deliveries until the queue is closed, as `Consumer.run`."""
        threads = None if is_coroutine_handler(handler) else ThreadPoolExecutor(concurrency, THREAD_NAME)
        invoke = invoker(handler, threads)
        try:
            async with asyncio.TaskGroup() as tasks:
                for _ in range(concurrency):
                    task = tasks.create_task(self._work(invoke, is_in_thread=threads is not None))
                    self.tasks[task] = None
                    task.add_done_callback(lambda ended: self.tasks.pop(ended, None))
        finally:
            if threads is not None:
                # A handler that hangs must not hang this coroutine.
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
                if not (self._ready.is_closed or self._at_most_once or is_in_thread or delivery.is_settled):
                    self._ready.put_back(delivery)
                raise
            self.tasks[task] = None

    async def _process(self, invoke: Invoke, delivery: Delivery) -> None:
        """Call the handler with a delivery, and settle it."""
        error: BaseException | None = None
        if self._middleware is not None:
            self._middleware.before_process(delivery)
        try:
            await invoke(delivery)
        except Exception as raised:  # noqa: BLE001 - logged, and the message is retried
            error = raised
        except asyncio.CancelledError as raised:
            error = raised
            if _is_cancelled():
                raise
        except BaseException as raised:
            error = raised
            raise
        finally:
            if self._middleware is not None:
                self._middleware.after_process(delivery, error)
        if error is not None:
            logger.error(
                "handling message %s failed, %s",
                delivery.message_id,
                self._retries.what_follows(delivery),
                exc_info=error,
            )
        try:
            if delivery.is_settled:
                return
            if error is None:
                await delivery.ack()
            else:
                await delivery.retry(cause=type(error).__name__)
        except DeliveryAlreadySettled:
            pass  # by the handler's own task, meanwhile
        except QmqError as failure:
            logger.error("message %s could not be retried, it comes again: %s", delivery.message_id, failure)

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


def _is_cancelled() -> bool:
    """Whether this task is cancelled; else a CancelledError comes from something that it awaited."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0
