"""Writes that the disk does not complete."""

from qmq_node.commits.write_watch import CHECK_SECONDS, STUCK_SECONDS, WriteWatch
from tests.support.manual_clock import ManualClock


class Scene:
    """A node whose write is `write`."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.write: int | None = None
        self.changes: list[bool] = []
        self.watch = WriteWatch(self.clock, lambda: self.write, lambda: self.changes.append(self.watch.is_stuck))

    def passes(self, seconds: float) -> None:
        for _ in range(round(seconds / CHECK_SECONDS)):
            self.clock.advance(CHECK_SECONDS)
            self.watch.check()


def test_a_write_that_does_not_end_is_stuck() -> None:
    assert STUCK_SECONDS == 2.0
    scene = Scene()
    scene.write = 1
    scene.passes(STUCK_SECONDS)
    assert not scene.watch.is_stuck
    scene.passes(CHECK_SECONDS)
    assert scene.watch.is_stuck
    assert scene.watch.stuck_seconds == STUCK_SECONDS
    scene.write = 2
    scene.passes(CHECK_SECONDS)
    assert not scene.watch.is_stuck
    assert scene.changes == [True, False]


def test_writes_that_end_are_not_stuck_however_many_there_are() -> None:
    scene = Scene()
    for number in range(50):
        scene.write = number
        scene.passes(STUCK_SECONDS - CHECK_SECONDS)
    scene.write = None
    scene.passes(10.0)
    assert scene.changes == []


def test_a_time_in_which_the_process_stood_still_does_not_count() -> None:
    scene = Scene()
    scene.write = 1
    scene.passes(CHECK_SECONDS)
    scene.clock.advance(60.0)
    scene.watch.check()
    assert scene.watch.stuck_seconds == 2 * CHECK_SECONDS
