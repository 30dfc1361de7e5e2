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
from tests.support.console.node_stats import group_stats, node_stats, subject_stats

pytestmark = pytest.mark.django_db
PLACE = NodePlace("g1-a", "g1", "broker", True, "127.0.0.1:1", "127.0.0.1:2")
BEGIN_MS = int(BEGIN.timestamp() * 1000)


def stats(lag: int, dead_letters: int = 0) -> dict[str, Any]:
    """What a broker's /stats says with one group, and some dead letters of it."""
    subjects = [subject_stats("orders", 0, lag, group_stats("billing", lag=lag, backlog=lag))]
    if dead_letters:
        subjects.append(subject_stats("%DEAD_RETRY%orders%billing", 0, dead_letters))
    return node_stats(*subjects)


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
