"""Alerts read the collector's own state: the adapter and what it adapts to, together."""

from typing import Any

import pytest

from console.alerts.models import Alert, AlertRule
from console.alerts.services import evaluate
from console.alerts.services.rules import create_rule
from console.cluster.measured import Measured
from console.cluster.places import NodePlace
from console.collector.summing import summed
from console.snapshot.state import State, empty
from tests.served.api.alerts.receiver import ACTOR
from tests.served.api.alerts.system_state import BEGIN, at

pytestmark = pytest.mark.django_db
PLACE = NodePlace("g1-a", "g1", "broker", True, "127.0.0.1:1", "127.0.0.1:2")
BEGIN_MS = int(BEGIN.timestamp() * 1000)


def stats(lag: int, dead_letters: int = 0) -> dict[str, Any]:
    """What a broker's /stats says with one group, and some dead letters of it."""
    group = {
        "group": "billing", "broadcast": False, "next_sequence": 0, "backlog": lag, "in_flight": 0, "lag": lag,
        "time_lag_seconds": 1.0, "pull_rate": 0.0, "ack_rate": 0.0, "steady_ack_rate": 0.0, "skipped_by_retention": 0,
        "retried": 0, "redelivered": 0, "withheld": 0, "paused": False, "consumers": [],
    }  # fmt: skip
    numbers = {
        "begin_sequence": 0, "send_rate": 0.0, "steady_send_rate": 0.0, "send_bytes_rate": 0.0, "withheld": 0,
    }  # fmt: skip
    subjects: list[dict[str, Any]] = [{"subject": "orders", "end_sequence": lag, "groups": [group], **numbers}]
    if dead_letters:
        name = "%DEAD_RETRY%orders%billing"
        subjects.append({"subject": name, "end_sequence": dead_letters, "groups": [], **numbers})
    return {
        "state": "read_write", "state_reason": "", "version": "1", "disk_free_bytes": 100, "connections": 1,
        "uptime_seconds": 5.0, "log": {"begin": 0, "end": 1, "synced_end": 1, "damaged": []}, "subjects": subjects,
    }  # fmt: skip


def state(old: State, answer: dict[str, Any] | None, seconds: int) -> State:
    """The collector's next state."""
    now_ms = BEGIN_MS + seconds * 1000
    measured = Measured(answer, None if answer is not None else "no answer", now_ms)
    return {**empty(), **summed(old, now_ms, [PLACE], {"g1-a": measured}, {"orders": ["g1"]})}


def open_alerts() -> list[tuple[str, str, float | None]]:
    found = Alert.objects.filter(open_key__isnull=False).order_by("kind", "target")
    return list(found.values_list("kind", "target", "last_value"))


def test_from_the_answers_of_nodes_to_alerts():
    AlertRule.objects.update(is_enabled=False)
    for kind, threshold in (("lag", 100), ("dead_letters", 0), ("unknown", 0)):
        create_rule(kind, {"name": kind, "threshold": threshold, "severity": "warning"}, actor=ACTOR)
    quiet = state(empty(), stats(100), 0)
    evaluate(quiet, at(0))
    assert open_alerts() == []
    busy = state(quiet, stats(101, dead_letters=2), 1)
    evaluate(busy, at(1))
    assert open_alerts() == [("dead_letters", "orders/billing", 2), ("lag", "orders/billing", 101)]
    away = state(busy, None, 2)
    evaluate(away, at(2))
    assert open_alerts() == [
        ("dead_letters", "orders/billing", None),
        ("lag", "orders/billing", None),
        ("unknown", "g1-a", 1),
    ]
    assert Alert.objects.get(kind="lag").reason == "node g1-a: no answer"
    evaluate(state(away, stats(3, dead_letters=2), 3), at(3))
    assert open_alerts() == [("dead_letters", "orders/billing", 2)]
