"""Passes of relays, each in a thread of its own, until they are stopped."""

import logging
import threading
from collections.abc import Callable, Mapping

from qmq.clock import SYSTEM_CLOCK, Clock
from qmq.errors import DatabaseFailed
from qmq.net.timing import Backoff
from qmq.outbox.relay import PASS_SECONDS, Pass, Relay

EVERY_SECONDS = 5.0
"""Between the starts of two passes. A pass that took longer is followed by the next one at once."""
BACKOFF = Backoff(first=EVERY_SECONDS, longest=60.0)
"""Between attempts to reach a database that fails."""

logger = logging.getLogger("qmq.outbox")

OnPass = Callable[[str, Pass | DatabaseFailed], None]


class Relaying:
    """Runs relays, given by the names of their databases, until `stop`. A database that does not answer delays no other.

    Args:
        on_pass: gets what each pass has done, or why it failed, in the relay's thread.
    """

    def __init__(self, relays: Mapping[str, Relay], on_pass: OnPass, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._relays = relays
        self._on_pass = on_pass
        self._clock = clock
        self._stopping = threading.Event()
        self._failure: BaseException | None = None

    def stop(self) -> None:
        """Make `run` return once the rows that are being sent are finished. Can be called from a signal handler."""
        self._stopping.set()
        for relay in self._relays.values():
            relay.stop()

    def run(self) -> None:
        """Relay until `stop`. Raises what a relay raises except DatabaseFailed, after all have ended."""
        threads = [
            threading.Thread(target=self._keep, args=(name, relay), name=f"qmq-outbox-relay {name}", daemon=True)
            for name, relay in self._relays.items()
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self._failure is not None:
            raise self._failure

    def _keep(self, name: str, relay: Relay) -> None:
        failures = 0
        try:
            while not self._stopping.is_set():
                began = self._clock.monotonic()
                pause = EVERY_SECONDS
                try:
                    done: Pass | DatabaseFailed = relay.run_pass(PASS_SECONDS)
                    failures = 0
                except DatabaseFailed as error:
                    done = error
                    failures += 1
                    pause = BACKOFF.pause(failures)
                self._on_pass(name, done)
                self._stopping.wait(max(0.0, began + pause - self._clock.monotonic()))
        except BaseException as error:  # noqa: BLE001 - raised by `run`
            self._failure = error
            self.stop()
        finally:
            relay.close()
