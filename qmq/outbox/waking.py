"""Calls that threads leave to another one, so that they are not interrupted themselves."""

import threading
from collections.abc import Callable
from queue import SimpleQueue


class Waking:
    """Runs calls in a thread of its own, which starts with the first.

    `call_soon_threadsafe` of an event loop writes to a socket. The thread that calls it lets others run meanwhile: the event
    loop's, for a tenth of a millisecond, in which a caller after its commit has to wait. To put something into this queue does not.
    """

    def __init__(self) -> None:
        self.forked()

    def forked(self) -> None:
        """In a forked child, and at first: no thread runs."""
        self._lock = threading.Lock()
        self._calls: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def put(self, call: Callable[[], None]) -> None:
        """Run this soon, at once if there can be no thread. It must not raise, and not wait."""
        if self._thread is None:
            try:
                self._start()
            except RuntimeError:  # the process ends, or has too many threads
                call()
                return
        self._calls.put(call)

    def _start(self) -> None:
        with self._lock:
            if self._thread is None:
                thread = threading.Thread(target=self._run, args=(self._calls,), name="qmq-outbox-waking", daemon=True)
                thread.start()
                self._thread = thread

    @staticmethod
    def _run(calls: "SimpleQueue[Callable[[], None]]") -> None:
        while True:
            calls.get()()
