"""What `manage.py up` starts."""

import sys
from typing import Any

import pytest

from console import tasks  # noqa: F401 - importing it makes the loops known
from console.launcher import CRASHES_MAX, NODE_PAUSE_SECONDS, Child, GaveUp, Ports, Program, programs
from console.tasks import loops

WITHOUT_ANALYTICS = ["redis", "meta", "g1-a", "g2-a", "d1-a", "console", "collector", "worker", "beat"]


def started() -> dict[str, Program]:
    return {program.name: program for program in programs("/data", Ports.choose(9000))}


def option(program: Program, name: str) -> str:
    return program.command[program.command.index(name) + 1]


def test_analytics_have_a_worker_of_their_own_that_is_there_before_beat_gives_the_word(monkeypatch: Any) -> None:
    monkeypatch.delenv("QMQ_REDIS_URL", raising=False)
    found = started()
    assert list(found) == [*WITHOUT_ANALYTICS[:-1], "analytics", "beat"]
    queues = [option(found[name], "--queues") for name in ("worker", "analytics")]
    assert sorted(queues) == sorted({loop.queue for loop in loops.LOOPS.values()}), "each queue is served once"
    assert queues[1] == loops.LOOPS["analytics"].queue
    assert option(found["analytics"], "--pool") == "solo", "one call at a time, in one process"


def test_there_is_none_where_analytics_are_off(monkeypatch: Any, settings: Any) -> None:
    monkeypatch.delenv("QMQ_REDIS_URL", raising=False)
    settings.ANALYTICS_EVERY_SECONDS = 0
    assert list(started()) == WITHOUT_ANALYTICS


async def watched(program: Program, ends: int) -> tuple[list[float], list[str]]:
    """The pauses before the restarts of a process that ends at once, and what was printed; it is stopped after so many ends."""
    pauses: list[float] = []
    lines: list[str] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == ends:
            await child.stop()

    child = Child(program, lambda name, text: lines.append(text), sleep)
    await child.start()
    await child.watch()
    return pauses, lines


ENDS = (sys.executable, "-S", "-c", "print('disk full'); raise SystemExit(1)")


async def test_a_node_that_keeps_ending_is_restarted_once_a_minute_and_stops_nothing_else() -> None:
    pauses, lines = await watched(Program("g1-a", ENDS, "", is_node=True), CRASHES_MAX + 4)
    assert pauses == [0.5, 1, 2, 4, 8, *[NODE_PAUSE_SECONDS] * 4]
    assert "g1-a ended with code 1, starting it again in 60 s" in lines


async def test_any_other_process_that_keeps_ending_stops_the_system() -> None:
    with pytest.raises(GaveUp, match=r"console ended 6 times within a minute .*disk full"):
        await watched(Program("console", ENDS, ""), 100)


def test_nodes_are_the_brokers_and_the_delay_node() -> None:
    assert [name for name, program in started().items() if program.is_node] == ["g1-a", "g2-a", "d1-a"]
