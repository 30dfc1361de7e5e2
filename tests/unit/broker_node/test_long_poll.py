"""Waits that end at the same moment do not end in the same iteration of the event loop."""

from collections.abc import Callable
from types import SimpleNamespace
from unittest.mock import MagicMock

from broker_node.delivery.long_poll import ENDED_MAX, LongPolls, ParkedPull
from tests.support.manual_clock import ManualClock


class Timers:
    """In the place of a supervisor: keeps the timer that is set."""

    def __init__(self) -> None:
        self.delay = -1.0
        self.check: Callable[[], None] | None = None

    def later(self, seconds: float, name: str, call: Callable[[], None]) -> MagicMock:
        self.delay, self.check = seconds, call
        return MagicMock()

    def call(self, name: str, call: Callable[[], None]) -> None:
        call()


def test_waits_that_end_at_once_end_in_limited_numbers_and_in_order() -> None:
    clock, timers, ended = ManualClock(), Timers(), list[str]()

    def expired(pull: ParkedPull) -> None:
        ended.append(pull.request.subject)
        polls.done(pull)

    polls = LongPolls(clock, timers, on_expired=expired, on_due=ended.append)  # type: ignore[arg-type]
    names = [f"s{i}" for i in range(2 * ENDED_MAX + 1)]
    for i, name in enumerate(names):
        if i % 2:
            polls.wake_at(name, clock.monotonic() + 30)
        else:
            request = SimpleNamespace(subject=name, group="g", consumer_id="c")
            polls.park(ParkedPull(MagicMock(), MagicMock(), request, clock.monotonic() + 30))  # type: ignore[arg-type]
    clock.advance(30)
    for count in (ENDED_MAX, 2 * ENDED_MAX):
        assert timers.check is not None
        timers.check()
        assert ended == names[:count]
        assert timers.delay == 0
    timers.check()
    assert ended == names
    assert polls.held == 0
