"""What `manage.py up` starts."""

from typing import Any

from console import tasks  # noqa: F401 - importing it makes the loops known
from console.launcher import Ports, Program, programs
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


def test_the_groups_of_up_need_no_approval() -> None:
    assert option(started()["meta"], "--new-groups") == "allow"
