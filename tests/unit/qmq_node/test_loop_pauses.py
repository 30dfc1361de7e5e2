"""Pauses of an event loop, with a clock that only the test moves."""

import asyncio
import selectors
import socket
from collections.abc import Callable, Iterator

import pytest

from qmq_node.process.loop_pauses import (
    EVENTS_MAX,
    EVENTS_MIN,
    PAUSE_SECONDS_MIN,
    SLOT_SECONDS,
    WAIT_SECONDS_MAX,
    WARNING_SECONDS,
    LoopPauses,
)
from tests.support.manual_clock import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def pauses(clock: ManualClock) -> LoopPauses:
    made = LoopPauses(clock.monotonic)
    made.start()
    return made


def run(pauses: LoopPauses, *callbacks: Callable[[], None]) -> None:
    """Run each callback in a turn of its own."""

    async def main() -> None:
        for callback in callbacks:
            callback()
            await asyncio.sleep(0)

    with asyncio.Runner(loop_factory=pauses.new_event_loop) as runner:
        runner.run(main())


def samples(pauses: LoopPauses) -> dict[str, float]:
    """The value of each sample; a label's value stands behind the name."""
    return {
        " ".join((sample.name, *sample.labels.values())): sample.value
        for family in pauses.metrics()
        for sample in family.samples
    }


def test_the_length_of_a_long_turn_is_measured_exactly(pauses: LoopPauses, clock: ManualClock) -> None:
    run(pauses, lambda: clock.advance(0.03), lambda: clock.advance(0.0625))
    assert pauses.longest(10) == pytest.approx(0.0625)
    assert samples(pauses)["qmq_event_loop_pause_seconds_count"] == 2


def test_short_turns_are_not_pauses(pauses: LoopPauses, clock: ManualClock) -> None:
    run(pauses, *[lambda: clock.advance(PAUSE_SECONDS_MIN * 0.9)] * 50)
    assert pauses.longest(10) == 0


@pytest.mark.parametrize(("waited", "longest"), [(0.06, 0.06), (WAIT_SECONDS_MAX + PAUSE_SECONDS_MIN * 0.9, 0)])
def test_a_wait_for_sockets_that_ends_too_late_is_a_pause(
    pauses: LoopPauses, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, waited: float, longest: float
) -> None:
    timeouts: list[float | None] = []

    def select(self: selectors.BaseSelector, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        timeouts.append(timeout)
        clock.advance(waited)
        return []

    selector = pauses.new_event_loop()
    try:
        monkeypatch.setattr(selectors.DefaultSelector, "select", select)
        for timeout in (None, 3600.0, WAIT_SECONDS_MAX):
            selector._selector.select(timeout)  # type: ignore[attr-defined]
    finally:
        selector.close()
    assert timeouts == [WAIT_SECONDS_MAX] * 3
    assert pauses.longest(10) == pytest.approx(longest)


@pytest.fixture
def ready_sockets() -> Iterator[list[socket.socket]]:
    """Sockets that are always ready, because nothing is read."""
    pairs = [socket.socketpair() for _ in range(3 * EVENTS_MAX + 1)]
    for _, writer in pairs:
        writer.send(b"x")
    yield [reader for reader, _ in pairs]
    for pair in pairs:
        for one in pair:
            one.close()


def served(
    pauses: LoopPauses, sockets: list[socket.socket], turns: int, work: Callable[[int], None]
) -> list[list[int]]:
    """Which sockets each turn of the loop serves; `work` gets the number of the turn for each of them."""
    found: list[list[int]] = []

    async def main() -> None:
        for number, reader in enumerate(sockets):
            asyncio.get_running_loop().add_reader(reader, serve, number)
        for _ in range(turns):
            found.append([])
            await asyncio.sleep(0)
        for reader in sockets:
            asyncio.get_running_loop().remove_reader(reader)

    def serve(number: int) -> None:
        found[-1].append(number)
        work(len(found))

    with asyncio.Runner(loop_factory=pauses.new_event_loop) as runner:
        runner.run(main())
    return found


def test_a_turn_serves_a_limited_number_of_sockets_and_all_in_turn(
    pauses: LoopPauses, ready_sockets: list[socket.socket]
) -> None:
    turns, count = served(pauses, ready_sockets, 9, lambda _: None), len(ready_sockets)
    assert max(map(len, turns)) == EVENTS_MAX
    numbers = [number for turn in turns for number in turn]
    assert sorted(numbers[:count]) == list(range(count))
    assert numbers[count : 2 * count] == numbers[:count]


def test_long_turns_are_followed_by_turns_that_serve_fewer(
    pauses: LoopPauses, clock: ManualClock, ready_sockets: list[socket.socket]
) -> None:
    busy = 20

    def work(turn: int) -> None:
        clock.advance(0.001 if turn < busy else 0.0)

    sizes = list(map(len, served(pauses, ready_sockets, busy + 2 * EVENTS_MAX, work)))
    assert max(sizes[4:busy]) * 0.001 < 1.2 * PAUSE_SECONDS_MIN
    assert EVENTS_MIN in sizes
    assert EVENTS_MAX in sizes[busy:]


def test_a_socket_that_is_not_registered_any_more_is_not_served(
    pauses: LoopPauses, ready_sockets: list[socket.socket]
) -> None:
    loop, first = pauses.new_event_loop(), ready_sockets[0]
    selector: selectors.BaseSelector = loop._selector  # type: ignore[attr-defined]
    try:
        for number, reader in enumerate(ready_sockets):
            selector.register(reader, selectors.EVENT_READ, number)
        assert [key.data for key, _ in selector.select(0)] == list(range(EVENTS_MAX))
        last = ready_sockets[EVENTS_MAX]
        selector.unregister(last)
        selector.modify(ready_sockets[EVENTS_MAX + 1], selectors.EVENT_READ, "modified")
        selector.unregister(first)
        # A descriptor that was registered again may be another socket's, which is looked at with the next ones.
        again = ready_sockets[EVENTS_MAX + 2]
        selector.unregister(again)
        selector.register(again, selectors.EVENT_READ, "again")
        found = [key.data for key, _ in selector.select(0)]
    finally:
        loop.close()
    assert found == ["modified", *range(EVENTS_MAX + 3, 2 * EVENTS_MAX + 2)]


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


def test_pauses_before_the_start_do_not_count(clock: ManualClock) -> None:
    pauses = LoopPauses(clock.monotonic)
    run(pauses, lambda: clock.advance(7), pauses.start, lambda: clock.advance(0.02))
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
