"""class Server: the nodes of a test, usable from any thread and from coroutines."""

import asyncio
import functools
import tempfile
from collections.abc import Callable, Coroutine
from contextlib import ExitStack
from datetime import datetime
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from qmq.protocol.values import moment
from qmq_testing.clock import MovableClock
from qmq_testing.loop_thread import LoopThread
from qmq_testing.nodes import Nodes
from qmq_testing.settings import ServerSettings

T = TypeVar("T")
P = ParamSpec("P")


def _blocking(method: Callable[Concatenate[Nodes, P], Coroutine[Any, Any, T]]) -> Callable[Concatenate[Any, P], T]:
    """Return a method that runs that of the nodes on the server's thread and waits for its result."""
    name = method.__name__

    @functools.wraps(method)
    def call(self: Any, /, *arguments: P.args, **options: P.kwargs) -> T:
        if name.startswith("wait_"):
            _check_may_wait(name)
        server: Server = self._server
        return server.run(method(server.nodes, *arguments, **options))

    return call


def _unblocking(
    method: Callable[Concatenate[Nodes, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]:
    """Return a method that runs that of the nodes on the server's thread, without blocking the running event loop."""

    @functools.wraps(method)
    async def call(self: Any, /, *arguments: P.args, **options: P.kwargs) -> T:
        server: Server = self._server
        return await server.run_async(method(server.nodes, *arguments, **options))

    return call


def _check_may_wait(method: str) -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise RuntimeError(
        f"{method}() would block this thread's event loop, and with it the code that it waits for;"
        f" use `await qmq_server.aio.{method}(...)`"
    )


class Server:
    """A metaserver, a broker and a delay node in this process. Use it as `with`, or call `start` and `close`.

    The nodes are those of a production system with sockets on free ports of 127.0.0.1 and files in a temporary folder. They run on
    an event loop in a thread of their own, so synchronous tests, asyncio tests and `qmq.sync` use them alike.

    Methods block the calling thread for some milliseconds. Those that wait for the application (`wait_...`) raise RuntimeError on
    a thread that runs an event loop, because they would stop the application as well; `aio` has all of them as coroutines.

    Args:
        settings: of the nodes.
        thread: runs the nodes. None: one of the server's own, which ends with it.
    """

    def __init__(self, settings: ServerSettings | None = None, *, thread: LoopThread | None = None) -> None:
        self._server = self
        self._settings = settings or ServerSettings()
        self._given_thread = self._thread = thread
        self._resources = ExitStack()
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
        with ExitStack() as stack:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="qmq-test-", ignore_cleanup_errors=True))
            thread = self._given_thread or stack.enter_context(LoopThread("qmq-test-server"))
            nodes = Nodes(self._settings, folder)
            thread.run(nodes.start())
            stack.callback(lambda: thread.run(nodes.close()))
            self._resources = stack.pop_all()
        self._thread, self._started = thread, nodes

    def close(self) -> None:
        """Stop the nodes and delete their data. Without effect when they do not run.

        Raises:
            Exception: the failure that ended a node before, such as a full disk.
        """
        self._started = None
        self._resources.close()

    def __enter__(self) -> Self:
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

    # --- what is on the nodes --------------------------------------------------------------------------------------

    count = _blocking(Nodes.count)
    messages = _blocking(Nodes.messages)
    delayed = _blocking(Nodes.delayed)
    dead_letters = _blocking(Nodes.dead_letters)
    wait_for = _blocking(Nodes.wait_for)
    lag = _blocking(Nodes.lag)
    is_drained = _blocking(Nodes.is_drained)
    wait_for_group = _blocking(Nodes.wait_for_group)
    wait_drained = _blocking(Nodes.wait_drained)
    stop_broker = _blocking(Nodes.stop_broker)
    start_broker = _blocking(Nodes.start_broker)


class AsyncServer:
    """The methods of `Server` as coroutines, which do not block the event loop: for tests whose loop also runs the application."""

    def __init__(self, server: Server) -> None:
        self._server = server

    count = _unblocking(Nodes.count)
    messages = _unblocking(Nodes.messages)
    delayed = _unblocking(Nodes.delayed)
    dead_letters = _unblocking(Nodes.dead_letters)
    wait_for = _unblocking(Nodes.wait_for)
    lag = _unblocking(Nodes.lag)
    is_drained = _unblocking(Nodes.is_drained)
    wait_for_group = _unblocking(Nodes.wait_for_group)
    wait_drained = _unblocking(Nodes.wait_drained)
    stop_broker = _unblocking(Nodes.stop_broker)
    start_broker = _unblocking(Nodes.start_broker)


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

    advance = _blocking(Nodes.advance)


class AsyncTime:
    """`ServerTime.advance` as a coroutine, which does not block the event loop."""

    def __init__(self, server: Server) -> None:
        self._server = server

    advance = _unblocking(Nodes.advance)
