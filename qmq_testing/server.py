"""class Server: the nodes of a test, usable from any thread and from coroutines."""

import asyncio
import tempfile
from collections.abc import Coroutine
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from qmq.protocol.values import moment
from qmq_testing.clock import MovableClock
from qmq_testing.loop_thread import LoopThread
from qmq_testing.messages import StoredMessage
from qmq_testing.nodes import Nodes
from qmq_testing.settings import ServerSettings

if TYPE_CHECKING:
    from typing import Self

T = TypeVar("T")
WAIT_SECONDS = 10.0
"""Default time limit of the waiting methods."""


class Server:
    """A metaserver, a broker and a delay node in this process. Use it as `with`, or call `start` and `close`.

    The nodes are those of a production system with sockets on free ports of 127.0.0.1 and files in a temporary folder. They run on
    an event loop in a thread of their own, so synchronous tests, asyncio tests and `qmq.sync` use them alike.

    Methods block the calling thread for some milliseconds. Those that wait for the application (`wait_...`)
    raise RuntimeError on a thread that runs an event loop, because they would stop the application as well; `aio` has all of
    them as coroutines.

    Args:
        settings: of the nodes.
        thread: runs the nodes. None: one of the server's own, which ends with it.
    """

    def __init__(self, settings: ServerSettings | None = None, *, thread: LoopThread | None = None) -> None:
        self._settings = settings or ServerSettings()
        self._owned_thread: LoopThread | None = None
        self._thread = thread
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._started: Nodes | None = None
        self.aio = AsyncServer(self)
        """The same methods as coroutines."""
        self.time = ServerTime(self)
        """The clock of the nodes."""

    # --- life ------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the nodes; return when clients can send and receive. Without effect when they run."""
        if self._started is not None:
            return
        if self._thread is None:
            self._thread = self._owned_thread = LoopThread("qmq-test-server")
        self._folder = tempfile.TemporaryDirectory(prefix="qmq-test-", ignore_cleanup_errors=True)
        nodes = Nodes(self._settings, self._folder.name)
        try:
            self._thread.run(nodes.start())
        except BaseException:
            self._release()
            raise
        self._started = nodes

    def close(self) -> None:
        """Stop the nodes and delete their data. Without effect when they do not run.

        Raises:
            Exception: the failure that ended a node before, such as a full disk.
        """
        nodes, self._started = self._started, None
        if nodes is None:
            return
        assert self._thread is not None
        try:
            self._thread.run(nodes.close())
        finally:
            self._release()

    def _release(self) -> None:
        if self._owned_thread is not None:
            self._owned_thread.close()
            self._thread = self._owned_thread = None
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def __enter__(self) -> "Self":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def nodes(self) -> Nodes:
        """The nodes, which belong to the server's thread.

        Raises:
            RuntimeError: the server is not started or already closed.
        """
        if self._started is None:
            raise RuntimeError("the test server is not started or already closed")
        return self._started

    @property
    def url(self) -> str:
        """The address for `Producer`, `Consumer` and `App`: `127.0.0.1:port`."""
        return self.nodes.url

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the server's thread and return its result."""
        assert self._thread is not None
        return self._thread.run(work)

    async def run_async(self, work: Coroutine[Any, Any, T]) -> T:
        """As `run`, without blocking the running event loop."""
        assert self._thread is not None
        return await asyncio.wrap_future(self._thread.submit(work))

    # --- messages --------------------------------------------------------------------------------------------------

    def count(self, subject: str) -> int:
        """Return the number of messages stored on a subject. Delayed messages count once they are delivered."""
        return self.run(self.nodes.count(subject))

    def messages(self, subject: str) -> list[StoredMessage]:
        """Return the messages stored on a subject, in the order in which they were stored.

        Delayed messages are among them once they are delivered (`delayed` returns the others). Retries are stored elsewhere, so a
        message is returned once, processed or not.

        Raises:
            ValueError: there are more than 10,000; use `count`.
        """
        return self.run(self.nodes.messages(subject))

    def delayed(self, subject: str) -> list[StoredMessage]:
        """Return the messages of a subject that are not due yet, by due time (`StoredMessage.due_at`).

        Raises:
            ValueError: there are more than 10,000.
        """
        return self.run(self.nodes.delayed(subject))

    def dead_letters(self, subject: str, group: str) -> list[StoredMessage]:
        """Return the messages of a subject that have exhausted their attempts in a consumer group.

        Raises:
            ValueError: there are more than 10,000.
        """
        return self.run(self.nodes.dead_letters(subject, group))

    def wait_for(self, subject: str, count: int = 1, timeout: float = WAIT_SECONDS) -> list[StoredMessage]:
        """Return a subject's messages as soon as at least `count` are stored.

        Args:
            timeout: seconds.

        Raises:
            TimeoutError: there are fewer; the message contains what is stored.
            RuntimeError: this thread runs an event loop; use `await server.aio.wait_for(...)`.
        """
        _check_may_wait("wait_for")
        return self.run(self.nodes.wait_for(subject, count, timeout))

    # --- groups ----------------------------------------------------------------------------------------------------

    def lag(self, subject: str, group: str) -> int:
        """Return how many messages of a subject a consumer group has not processed: not pulled, in flight, and to be retried.

        A group that has never pulled has all stored messages to process. Delayed messages count once they are delivered.
        """
        return self.run(self.nodes.lag(subject, group)).total

    def is_drained(self, subject: str, group: str) -> bool:
        """Return whether a consumer group has processed all messages of a subject, retries included."""
        return self.lag(subject, group) == 0

    def wait_for_group(self, subject: str, group: str, timeout: float = WAIT_SECONDS) -> None:
        """Return as soon as a consumer group receives what is sent to a subject from now on.

        A new group starts at the end of its subject, unless its consumer has another `start`: it does not receive messages that
        were sent before its first pull. Wait for the group after starting the application and before sending.

        Args:
            timeout: seconds.

        Raises:
            TimeoutError: the group has not pulled the subject.
            RuntimeError: this thread runs an event loop; use `await server.aio.wait_for_group(...)`.
        """
        _check_may_wait("wait_for_group")
        self.run(self.nodes.wait_for_group(subject, group, timeout))

    def wait_drained(self, subject: str, group: str, timeout: float = WAIT_SECONDS) -> None:
        """Return as soon as a consumer group has processed all messages of a subject, retries included.

        Args:
            timeout: seconds.

        Raises:
            TimeoutError: some are not processed; the message contains their number.
            RuntimeError: this thread runs an event loop; use `await server.aio.wait_drained(...)`.
        """
        _check_may_wait("wait_drained")
        self.run(self.nodes.wait_drained(subject, group, timeout))

    # --- outages ---------------------------------------------------------------------------------------------------

    def stop_broker(self) -> None:
        """Stop the broker: connections end and new ones are refused. Clients retry what they send.

        Returns when the broker has stopped. Without effect when it is stopped. Meanwhile, methods that read messages or lags raise
        RuntimeError, and delayed messages that are due wait in the delay node.
        """
        self.run(self.nodes.stop_broker())

    def start_broker(self) -> None:
        """Start the broker with the data that it had, and return when the metaserver has registered it."""
        self.run(self.nodes.start_broker())


class AsyncServer:
    """The methods of `Server` as coroutines, for tests whose event loop also runs the application."""

    def __init__(self, server: Server) -> None:
        self._server = server

    async def count(self, subject: str) -> int:
        """As `Server.count`."""
        return await self._server.run_async(self._server.nodes.count(subject))

    async def messages(self, subject: str) -> list[StoredMessage]:
        """As `Server.messages`."""
        return await self._server.run_async(self._server.nodes.messages(subject))

    async def delayed(self, subject: str) -> list[StoredMessage]:
        """As `Server.delayed`."""
        return await self._server.run_async(self._server.nodes.delayed(subject))

    async def dead_letters(self, subject: str, group: str) -> list[StoredMessage]:
        """As `Server.dead_letters`."""
        return await self._server.run_async(self._server.nodes.dead_letters(subject, group))

    async def wait_for(self, subject: str, count: int = 1, timeout: float = WAIT_SECONDS) -> list[StoredMessage]:
        """As `Server.wait_for`, without blocking the event loop."""
        return await self._server.run_async(self._server.nodes.wait_for(subject, count, timeout))

    async def lag(self, subject: str, group: str) -> int:
        """As `Server.lag`."""
        return (await self._server.run_async(self._server.nodes.lag(subject, group))).total

    async def is_drained(self, subject: str, group: str) -> bool:
        """As `Server.is_drained`."""
        return await self.lag(subject, group) == 0

    async def wait_for_group(self, subject: str, group: str, timeout: float = WAIT_SECONDS) -> None:
        """As `Server.wait_for_group`, without blocking the event loop."""
        await self._server.run_async(self._server.nodes.wait_for_group(subject, group, timeout))

    async def wait_drained(self, subject: str, group: str, timeout: float = WAIT_SECONDS) -> None:
        """As `Server.wait_drained`, without blocking the event loop."""
        await self._server.run_async(self._server.nodes.wait_drained(subject, group, timeout))

    async def stop_broker(self) -> None:
        """As `Server.stop_broker`."""
        await self._server.run_async(self._server.nodes.stop_broker())

    async def start_broker(self) -> None:
        """As `Server.start_broker`."""
        await self._server.run_async(self._server.nodes.start_broker())


class ServerTime:
    """The clock of a server's broker and delay node. It runs at normal speed and can be moved forward.

    Moving it makes delayed messages and retries due. Nothing else happens to the application: consumers whose connection is open
    keep their leases, as if their heartbeats had continued; the messages of those that ended without `close` are retried when
    their lease has expired. The metaserver, connections and timeouts of clients stay in real time.

    Clients use this clock in a test with the fixture `qmq_time`, or when it is their `clock` argument. Others use the real time, so
    their delays count from there.

    `advance` moves the clock in one step, also by years. What the application does meanwhile happens at the new time: if a handler
    sends the next delayed message, advance once for each of them.
    """

    def __init__(self, server: Server) -> None:
        self._server = server
        self.aio = AsyncTime(server)
        """`advance` as a coroutine."""

    @property
    def clock(self) -> MovableClock:
        """The clock itself, for the `clock` argument of a client in a test without the fixture `qmq_time`."""
        return self._server.nodes.clock

    def now(self) -> datetime:
        """The time of the nodes, in UTC."""
        return moment(self.clock.wall_ms())

    def advance(self, by: timedelta) -> None:
        """Move the clock forward, and return when all messages that are due then are on the broker.

        While the broker is stopped, returns without waiting for them.

        Raises:
            ValueError: `by` is negative.
            TimeoutError: a due message could not be delivered within 30 s; the message contains the cause.
        """
        self._server.run(self._server.nodes.advance(by))


class AsyncTime:
    """`ServerTime.advance` as a coroutine."""

    def __init__(self, server: Server) -> None:
        self._server = server

    async def advance(self, by: timedelta) -> None:
        """As `ServerTime.advance`, without blocking the event loop."""
        await self._server.run_async(self._server.nodes.advance(by))


def _check_may_wait(method: str) -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise RuntimeError(
        f"{method}() would block this thread's event loop, and with it the code that it waits for;"
        f" use `await qmq_server.aio.{method}(...)`"
    )
