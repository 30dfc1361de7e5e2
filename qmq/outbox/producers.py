"""The producer of an outbox in each process."""

import os
import threading
from collections.abc import Callable

from qmq import sync
from qmq.client.producer import Producer


class ProcessProducer:
    """Returns this process's started producer when it is called, as `Outgoing` requires.

    Args:
        given: a producer; or a function that makes one. It is called at the first message of a process, so that the children of a
            prefork server have producers of their own. A `qmq.sync.Producer` that it returns is started if necessary.
    """

    def __init__(self, given: "sync.Producer | Producer | Callable[[], sync.Producer | Producer]") -> None:
        self._given = given
        self._forget()

    def _forget(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._producer: Producer | None = None

    def __call__(self) -> Producer:
        """Raises ClientForked, or ClientClosed for a producer that was never started, or what the function raises."""
        if self._process != os.getpid():
            self._forget()  # a child begins with one thread
        if self._producer is None:
            with self._lock:
                if self._producer is None:
                    self._producer = self._make()
        self._producer.check_started()
        return self._producer

    def _make(self) -> Producer:
        if isinstance(self._given, Producer):
            return self._given
        if isinstance(self._given, sync.Producer):
            return self._given.inner
        made = self._given()
        if isinstance(made, Producer):
            return made
        made.start()
        return made.inner
