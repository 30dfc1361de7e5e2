"""App without `await`: each handler runs in a thread."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from qmq.client import app as client
from qmq.client.middleware import Middleware
from qmq.sync.consumer import Handled, Handler
from qmq.sync.loop import run_until_stopped, shared_loop

H = TypeVar("H", bound=Handler)


class App:
    """`qmq.App` for functions that are not coroutines: each runs in a thread.

    Args:
        url: address of the metaserver, `host:port` or the URL of its address page.
        app: name of the application, shown to operators.
        middleware: hooks of all consumers.
    """

    def __init__(self, url: str, *, app: str = "", middleware: Sequence[Middleware] = ()) -> None:
        self._inner = client.App(url, app=app, middleware=middleware)

    def consumer(self, subject: str, *, group: str, concurrency: int = 16, **options: Any) -> Callable[[H], H]:
        """Register a function as the handler of a subject's messages and return it unchanged.

        It gets a `qmq.sync.Delivery`, or the decoded body, by its annotations, as for `qmq.Consumer.run`.

        Args:
            concurrency: threads that run the handler at the same time.
            options: arguments of `Consumer`.

        Raises:
            LocalProtocolError: an option is not one of `Consumer`'s, or the handler can't be called with a delivery or a body.
        """
        register = self._inner.consumer(subject, group=group, concurrency=concurrency, **options)

        def declare(handler: H) -> H:
            register(Handled(handler))
            return handler

        return declare

    def adapt(self, *, wrap: Callable[[Handler], Handler] | None = None, concurrency: int | None = None) -> None:
        """`qmq.App.adapt`; `wrap` gets and returns functions that are not coroutines."""

        def wrap_handled(handled: Handler) -> Handler:
            assert wrap is not None
            assert isinstance(handled, Handled)
            return Handled(wrap(handled.handler))

        self._inner.adapt(wrap=None if wrap is None else wrap_handled, concurrency=concurrency)

    def run(self) -> None:
        """Consume with all registered handlers until `stop` is called. Ctrl-C stops and is raised again.

        Raises:
            ExceptionGroup: containing ClientFailed, if a background task of a consumer failed.
        """
        run_until_stopped(self._inner.run(), self.stop)

    def stop(self, timeout: float | None = None) -> None:
        """Make `run` return: running handlers finish, and their acknowledgements are sent. Can be called from a signal handler.

        Args:
            timeout: seconds after which `run` returns at the latest, as for `qmq.App.stop`.
        """
        shared_loop().call_soon_threadsafe(self._inner.stop, timeout)
