"""The collector looks at the background jobs, and evaluates alerts itself while any is late."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from django.db import OperationalError

from console.collector import watch as watching
from console.collector.watch import LOOK_SECONDS, watch

LATE, FINE = {"moves": {"is_late": True}}, {"moves": {"is_late": False}}


def called(call: Callable[[Any], None]) -> Callable[[Any], Awaitable[None]]:
    """The call in this thread: there are no connections to look after here."""

    async def run(state: Any) -> None:
        call(state)

    return run


class Enough(Exception):
    """As many looks as were wanted."""


async def looks(
    monkeypatch: pytest.MonkeyPatch, rounds: list[dict[str, Any]], *, is_acting: bool = True, fails: bool = False
) -> list[Any]:
    """What the collector stood in with, over so many looks."""
    stood_in: list[Any] = []
    slept: list[float] = []

    def stand_in(state: Any) -> None:
        stood_in.append(state)
        if fails:
            raise OperationalError("away")

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) > len(rounds):
            raise Enough

    monkeypatch.setattr(watching, "stand_in", stand_in)
    monkeypatch.setattr(watching, "database_sync_to_async", lambda call, **_: called(call))
    with pytest.raises(Enough):
        await watch(lambda: rounds[len(slept) - 1], lambda: {"at": len(slept)}, lambda: is_acting, sleep=sleep)
    assert set(slept) == {LOOK_SECONDS}
    return stood_in


async def test_it_stands_in_with_each_look_while_a_loop_is_late(monkeypatch: pytest.MonkeyPatch) -> None:
    assert await looks(monkeypatch, [FINE, LATE, LATE, FINE]) == [{"at": 2}, {"at": 3}]


async def test_it_does_not_where_another_collector_acts(monkeypatch: pytest.MonkeyPatch) -> None:
    assert await looks(monkeypatch, [LATE, LATE], is_acting=False) == []


async def test_a_database_that_fails_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    assert await looks(monkeypatch, [LATE, LATE], fails=True) == [{"at": 1}, {"at": 2}]
