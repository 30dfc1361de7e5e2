"""The pauses of the process of filters beside a node that is busy."""

import pytest

from qmq_node.filters.pace import SHARE_LEAST, SLICE_SECONDS, WINDOW_SECONDS, WINDOW_SECONDS_MAX, Pace, share_beside
from tests.support.manual_clock import ManualClock


@pytest.mark.parametrize(
    ("busy", "share"), [(0.0, 1.0), (0.25, 0.5), (0.49, SHARE_LEAST), (1.0, SHARE_LEAST), (3.0, SHARE_LEAST)]
)
def test_the_share_falls_with_what_the_node_uses(busy: float, share: float) -> None:
    assert share_beside(busy) == pytest.approx(share)


class Node:
    """A node that uses a share of a processor, and a process of filters beside it."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.used = 0.0
        self.paused: list[float] = []
        self.pace = Pace(lambda: self.used, self.clock, self.sleep)
        self.busy = 0.0

    def sleep(self, seconds: float) -> None:
        self.paused.append(seconds)
        self.pass_by(seconds)

    def pass_by(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.used += seconds * self.busy

    def work(self, seconds: float) -> float:
        """Work for so long, and return which share of the time was work."""
        self.paused.clear()
        for _ in range(round(seconds / SLICE_SECONDS)):
            self.pass_by(SLICE_SECONDS)
            self.pace.pause()
        return seconds / (seconds + sum(self.paused))


def test_beside_an_idle_node_nothing_pauses() -> None:
    node = Node()
    assert node.work(2.0) == 1.0


def test_beside_a_busy_node_the_process_works_little_until_the_node_is_idle_again() -> None:
    node = Node()
    node.busy = 0.9
    node.work(WINDOW_SECONDS)
    assert node.work(1.0) == pytest.approx(SHARE_LEAST)
    node.busy = 0.25
    node.work(WINDOW_SECONDS)
    assert node.work(1.0) == pytest.approx(0.5, rel=0.05)
    node.busy = 0.0
    node.work(WINDOW_SECONDS)
    assert node.work(1.0) == 1.0


def test_what_a_node_used_long_ago_does_not_count() -> None:
    node = Node()
    node.busy = 1.0
    node.pass_by(WINDOW_SECONDS_MAX + 0.1)
    node.busy = 0.0
    assert node.work(1.0) == 1.0
