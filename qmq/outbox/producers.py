"""The producer of an outbox in each process."""

import os
import threading
from collections.abc import Callable

from qmq import sync
from qmq.client.producer import Producer
from qmq.errors import SettingError


class ProcessProducer:
    """Returns this process's started producer when it is called, as `Outgoing` requires.

    Args:
        given: a producer; or a function that makes one. It is called at the first message of a process, so that the children of a
            prefork server have producers of their own. A `qmq.sync.Producer` that it returns is started if necessary.

    Raises:
        SettingError: it is neither.
    """

    def __init__(self, given: "sync.Producer | Producer | Callable[[], sync.Producer | Producer]") -> None:
        if not isinstance(given, sync.Producer | Producer) and not callable(given):
            raise SettingError(
                f"producer {given!r:.100}: must be a qmq.sync.Producer, a qmq.Producer, or a function that makes one"
            )
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
        if not isinstance(made, sync.Producer):
            raise SettingError(f"the function for the producer returned {made!r:.100}, which is none")
        made.start()
        return made.inner
