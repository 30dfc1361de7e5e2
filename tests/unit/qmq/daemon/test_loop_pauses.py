"""Pauses of an event loop, with a clock that only the test moves."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from qmq.daemon.loop_pauses import PAUSE_SECONDS_MIN, SLOT_SECONDS, TICK_SECONDS, WARNING_SECONDS, LoopPauses
from tests.support.manual_clock import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def pauses(clock: ManualClock) -> LoopPauses:
    return LoopPauses(clock.monotonic)


def tick(pauses: LoopPauses, clock: ManualClock, *seconds: float) -> list[float]:
    """Run the timer after each of these times; return what it was set to."""
    timers: list[tuple[float, Callable[[], None]]] = []

    def call_later(delay: float, callback: Callable[[], None], *_: Any) -> None:
        timers.append((delay, callback))

    async def main() -> None:
        asyncio.get_running_loop().call_later = call_later  # type: ignore[assignment]
        pauses.start()
        for passed in seconds:
            clock.advance(passed)
            timers[-1][1]()

    asyncio.run(main())
    return [delay for delay, _ in timers]


def samples(pauses: LoopPauses) -> dict[str, float]:
    """The value of each sample; a label's value stands behind the name."""
    return {
        " ".join((sample.name, *sample.labels.values())): sample.value
        for family in pauses.metrics()
        for sample in family.samples
    }


def test_the_time_between_two_ticks_is_the_bound_of_a_pause(pauses: LoopPauses, clock: ManualClock) -> None:
    assert tick(pauses, clock, 0.03, TICK_SECONDS, 0.0625) == [TICK_SECONDS] * 4
    assert pauses.longest(10) == pytest.approx(0.0625)
    assert samples(pauses)["qmq_event_loop_pause_seconds_count"] == 2


def test_short_turns_are_not_pauses(pauses: LoopPauses, clock: ManualClock) -> None:
    tick(pauses, clock, *[PAUSE_SECONDS_MIN * 0.9] * 50)
    assert pauses.longest(10) == 0


def test_the_longest_pause_is_that_of_the_window(pauses: LoopPauses, clock: ManualClock) -> None:
    pauses.observe(3.0)
    clock.advance(60 + SLOT_SECONDS)
    pauses.observe(0.2)
    clock.advance(10 + SLOT_SECONDS)
    pauses.observe(0.02)
    pauses.observe(0.015)
    name = "qmq_event_loop_longest_pause_seconds"
    found = samples(pauses)
    assert [found[f"{name} {window}"] for window in ("10s", "1m", "10m")] == [0.02, 0.2, 3.0]


def test_windows_remember_a_limited_number_of_pauses(pauses: LoopPauses, clock: ManualClock) -> None:
    for _ in range(10_000):
        pauses.observe(1.0)
        clock.advance(SLOT_SECONDS)
    clock.advance(300)
    pauses.observe(0.02)
    assert len(pauses._slots) == 121
    assert (pauses.longest(200), pauses.longest(600)) == (0.02, 1.0)


def test_time_before_the_start_does_not_count(pauses: LoopPauses, clock: ManualClock) -> None:
    clock.advance(7)
    tick(pauses, clock, 0.02)
    assert pauses.longest(10) == pytest.approx(0.02)


def test_long_pauses_are_logged_but_not_each(
    pauses: LoopPauses, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    pauses.observe(WARNING_SECONDS * 0.99)
    for _ in range(3):
        pauses.observe(0.75)
        clock.advance(1)
    clock.advance(30)
    pauses.observe(1.5)
    assert [record.getMessage() for record in caplog.records] == [
        "the event loop paused for 0.75 s",
        "the event loop paused for 1.50 s (2 more since the last line)",
    ]
