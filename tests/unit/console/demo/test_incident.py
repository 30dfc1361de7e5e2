"""The incident of the documentation's pictures: what happens in which order, on a clock that the test moves."""

from typing import Any

import pytest

from tests.support.console.incident import (
    FAILED_GROUP,
    GROUP_QUICK,
    GROUP_SLOW,
    MASTER_KILLED,
    MEMBER_STARTED,
    MINUTES,
    SHOWN,
    Moment,
    Schedule,
)


class Told:
    """A system of two members that notes what is done to it, and when."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.master = f"{FAILED_GROUP}-a"
        self.done: list[tuple[float, str]] = []

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def note(self, what: str) -> None:
        self.done.append((round(self.now - 1_000.0, 6), what))

    def group(self, name: str) -> dict[str, Any]:
        return {"master": self.master}

    def members(self, name: str) -> dict[str, "Member"]:
        return {node: Member(self, node) for node in (f"{name}-a", f"{name}-b")}


class Member:
    def __init__(self, system: Told, node: str) -> None:
        self.system, self.node = system, node

    def kill(self) -> None:
        self.system.note(f"kill {self.node}")
        self.system.master = f"{FAILED_GROUP}-b"

    def start(self) -> None:
        self.system.note(f"start {self.node}")


def run(minutes: float) -> list[tuple[float, str]]:
    system = Told()
    for moment in Schedule(minutes).moments(system, system.clock, system.sleep):
        system.note(moment)
        system.now += 5.0  # taking pictures takes time, and delays nothing after it
    return system.done


@pytest.mark.parametrize("minutes", [MINUTES, 3.0])
def test_pictures_are_taken_while_a_member_is_away_and_a_group_is_slow_and_at_the_end(minutes: float) -> None:
    second = minutes / MINUTES * 60
    assert run(minutes) == [
        (round(MASTER_KILLED * second, 6), "kill g1-a"),
        (round(SHOWN * second, 6), Moment.INCIDENT),
        (round(MEMBER_STARTED * second, 6), "start g1-a"),
        (round(minutes * 60, 6), Moment.END),
    ]
    assert GROUP_SLOW < SHOWN < GROUP_QUICK
    assert Schedule(minutes).flags == ("--incident", f"{GROUP_SLOW * second:g}", f"{10 * second:g}")


def test_without_minutes_nothing_happens() -> None:
    assert run(0) == [(0.0, Moment.END)]
    assert Schedule(0).flags == ()
