"""Which cycles of the collector evaluate urgent rules, and the sum of the times from a failure to its alert."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import OperationalError

from console.alerts.builtin import BUILTIN
from console.alerts.readings import SILENT_SECONDS
from console.cluster.limits import STATS_PAGE_SECONDS
from console.collector import urgent
from console.collector.collector import CYCLE_SECONDS
from console.collector.summing import summed
from console.collector.urgent import FOLLOWED_SECONDS, UrgentAlerts, is_urgent
from console.snapshot.state import State, empty, events_between
from console.times import rfc3339
from metaserver.memory.live_groups import HEARTBEAT_SECONDS, STORED_LEASE_SECONDS
from metaserver.requests.handlers import NODE_STORE_SECONDS
from qmq_node.commits.write_watch import CHECK_SECONDS
from tests.support.waiting import eventually_async
from tests.unit.console.live.stats import AWAY, NOW_MS, place, stats

SHOWN_SECONDS = 2 * (CYCLE_SECONDS + STATS_PAGE_SECONDS)
"""Until the cycle that measures it has ended, and the one that publishes the alert; a node that does not respond delays both."""
NOW = 1_700_000_000.0


def test_an_alert_comes_within_10_s_and_leaves_time_for_the_database_and_the_page() -> None:
    assert SILENT_SECONDS + SHOWN_SECONDS <= 9
    assert BUILTIN["disk_stuck"]["threshold"] + 2 * CHECK_SECONDS + SHOWN_SECONDS <= 9
    for rule in ("group_offline", "disk_stuck"):
        assert BUILTIN[rule].get("for_seconds", 0) == 0


def test_the_event_of_a_node_that_does_not_respond_comes_before_its_alert() -> None:
    kinds: list[str] = []
    now, cycles = empty() | summed(empty(), None, [place("g2")], {"g2-a": stats()}, {}), 0
    while not kinds:
        before, now = now, empty() | summed(now, NOW_MS, [place("g2")], {"g2-a": AWAY}, {})
        kinds, cycles = [event["kind"] for event in events_between(before, now)], cycles + 1
        assert cycles * CYCLE_SECONDS + STATS_PAGE_SECONDS <= SILENT_SECONDS
    assert kinds == ["node.unreachable"]


def test_a_node_that_runs_is_never_silent() -> None:
    assert NODE_STORE_SECONDS + HEARTBEAT_SECONDS <= STORED_LEASE_SECONDS
    assert SILENT_SECONDS > STORED_LEASE_SECONDS + CYCLE_SECONDS
    assert BUILTIN["disk_stuck"]["threshold"] > CYCLE_SECONDS


def state(group: str = "read_write", **node: Any) -> State:
    entry = {"reason": None, "is_measured": True, "at": None, **node}
    return {**empty(), "broker_groups": {"g1": {"state": group}}, "nodes": {"g1-a": entry}}


def silent(seconds: float) -> State:
    at = rfc3339(round((NOW - seconds) * 1000))
    return state(reason="connection refused", is_measured=False, at=at)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        pytest.param(state(), state(), False, id="at rest"),
        pytest.param(state(send_rate=1), state(send_rate=2), False, id="another number"),
        pytest.param(state(), state("offline"), True, id="a state of a group"),
        pytest.param(state(), silent(1), True, id="a node stops to respond"),
        pytest.param(silent(1), silent(SILENT_SECONDS - 0.1), False, id="a node does not respond for a moment"),
        pytest.param(silent(4), silent(SILENT_SECONDS), True, id="for long enough"),
        pytest.param(silent(9), silent(SILENT_SECONDS + FOLLOWED_SECONDS - 0.1), True, id="and still"),
        pytest.param(silent(9), silent(SILENT_SECONDS + FOLLOWED_SECONDS), False, id="then the job evaluates it"),
        pytest.param(silent(99), state(), True, id="it responds again"),
        pytest.param(state(disk_stuck_seconds=0.0), state(disk_stuck_seconds=0.3), True, id="a write hangs"),
        pytest.param(state(disk_stuck_seconds=3.0), state(disk_stuck_seconds=4.0), True, id="for longer"),
        pytest.param(state(disk_stuck_seconds=10.0), state(disk_stuck_seconds=11.0), False, id="then the job"),
        pytest.param(state(disk_stuck_seconds=11.0), state(disk_stuck_seconds=0.0), True, id="it is complete"),
        pytest.param(empty(), state(), True, id="the first cycle"),
    ],
)
def test_cycles_are_evaluated_when_what_rules_are_about_has_changed(
    before: State, after: State, expected: bool
) -> None:
    assert is_urgent(before, after, NOW) is expected


async def test_only_the_newest_state_is_evaluated_and_changes_are_shown_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    evaluated: list[State] = []
    results: list[Any] = [
        OperationalError("away"),
        SimpleNamespace(fired=0, resolved=0),
        SimpleNamespace(fired=1, resolved=0),
    ]
    shown: list[int] = []

    def in_this_thread(call: Any, **_: Any) -> Any:
        async def run(newest: State, _: Any) -> Any:
            evaluated.append(newest)
            result = results.pop(0)
            if isinstance(result, Exception):
                raise result
            return result

        return run

    monkeypatch.setattr(urgent, "database_sync_to_async", in_this_thread)
    alerts = UrgentAlerts(lambda: shown.append(len(evaluated)))
    newest = state("offline")
    alerts.cycle(state(), state("read_only"), NOW)
    alerts.cycle(state("read_only"), newest, NOW)
    running = asyncio.create_task(alerts.run())
    await eventually_async(lambda: len(evaluated) == 1)
    alerts.cycle(newest, newest, NOW)
    for count, after in ((2, state()), (3, newest)):
        alerts.cycle(state("read_only"), after, NOW)
        await eventually_async(lambda count=count: len(evaluated) == count)  # type: ignore[misc]
    running.cancel()
    await asyncio.wait([running])
    assert evaluated == [newest, state(), newest]
    assert shown == [3]
