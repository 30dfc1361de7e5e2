"""Log lines about servers that can't be reached: class FailureLog."""

import asyncio
import logging
import weakref
from dataclasses import dataclass

BRIEF_SECONDS = 3.0
"""A failure that ends within this time, as at a planned switch-over, is logged at INFO."""
STRAGGLERS_SECONDS = 60.0
"""For so long, failures at a former place are not logged: other clients learn the new one later."""
SERVERS_MAX = 1_000
"""Servers whose failures are remembered; the oldest is forgotten beyond that."""

logger = logging.getLogger("qmq.client")


@dataclass(eq=False, slots=True)
class _Failure:
    """A server that requests fail at. `what` is the first of them, with its error."""

    place: str
    what: str
    requests: int = 0
    is_logged: bool = False
    moved_at: float | None = None
    """When another place was known, by the event loop's clock."""
    timer: asyncio.TimerHandle | None = None


class FailureLog:
    """Writes one line for each server that fails, however many requests, subjects and clients of this event loop it concerns.

    A server is a name, such as that of a broker group, at a place, the address of its master. The line has level WARNING if the
    server still fails after BRIEF_SECONDS, and otherwise INFO.
    """

    def __init__(self) -> None:
        self._failures: dict[str, _Failure] = {}

    @classmethod
    def shared(cls) -> "FailureLog":
        """Return the instance of all clients on the running event loop."""
        return _by_loop.setdefault(asyncio.get_running_loop(), cls())

    def failed(self, name: str, place: str, what: str) -> None:
        """A request failed; `what` says which and why. To be called for the first failure in a row."""
        loop, failure = asyncio.get_running_loop(), self._failures.get(name)
        is_old = (
            failure is not None and failure.moved_at is not None and loop.time() - failure.moved_at > STRAGGLERS_SECONDS
        )
        if failure is None or failure.place != place or is_old:
            self._forget(name)
            if len(self._failures) >= SERVERS_MAX:
                self._forget(next(iter(self._failures)))
            failure = self._failures[name] = _Failure(place, what)
            failure.timer = loop.call_later(BRIEF_SECONDS, self._lasts, name, failure)
        failure.requests += 1

    def moved(self, name: str, former: str) -> None:
        """The server has another place. Further failures at the former one are not logged."""
        failure = self._failures.get(name)
        if failure is None or (failure.moved_at is not None and failure.place == former):
            return
        if failure.place != former:
            self._forget(name)
            return
        failure.moved_at = asyncio.get_running_loop().time()
        self._ended(name, failure, "has another master")

    def recovered(self, name: str) -> None:
        """A request succeeded after failures."""
        failure = self._failures.get(name)
        if failure is not None and failure.moved_at is None:
            self._ended(name, failure, "responds again")
            self._forget(name)

    def _lasts(self, name: str, failure: _Failure) -> None:
        failure.is_logged = True
        logger.warning("%s: %s", name, _summary(failure))

    def _ended(self, name: str, failure: _Failure, how: str) -> None:
        if failure.timer is not None:
            failure.timer.cancel()
        if failure.is_logged:
            logger.info("%s %s", name, how)
        else:
            logger.info("%s %s: %s", name, how, _summary(failure))

    def _forget(self, name: str) -> None:
        failure = self._failures.pop(name, None)
        if failure is not None and failure.timer is not None:
            failure.timer.cancel()


def _summary(failure: _Failure) -> str:
    others = f", and {failure.requests - 1} other requests" if failure.requests > 1 else ""
    return f"{failure.what}{others}"


_by_loop: "weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, FailureLog]" = weakref.WeakKeyDictionary()
