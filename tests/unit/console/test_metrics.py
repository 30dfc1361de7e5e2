"""The whole system's metrics: what they say, what they leave out, and that the dashboard asks for nothing else."""

import json
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from redis.exceptions import ConnectionError as RedisAway

from console import checks
from console.accounts.roles import Scope
from console.collector.summing import summed
from console.outbox.models import OutboxDatabase
from console.outbox.numbers import Numbers, Unknown
from console.reports.metrics import GROUP_SERIES_MAX, PAGE_SECONDS, MetricsPage, exposition
from console.snapshot.state import State, empty, group_key
from tests.support.console.node_stats import group_stats, subject_stats
from tests.support.console.people import machine, person
from tests.support.manual_clock import ManualClock
from tests.support.servers.processes import PROJECT
from tests.unit.console.live.stats import AWAY, NOW_MS, place, stats

HEALTH = {
    "last_beat_ms": NOW_MS, "duration_seconds": 0.1, "published_bytes": 7, "beats": 5, "overruns": 1, "errors": 2,
}  # fmt: skip
JOBS = {
    "heartbeats": {"job": "heartbeats", "is_late": False, "succeeded_at": "2026-01-01T00:00:00.000Z", "failures": "3"},
    "rebalance": {"job": "rebalance", "is_late": True, "succeeded_at": None, "failures": "0"},
}
PLACES = [place("g1"), place("g2"), place("d1", kind="delay")]


def full_state() -> State:
    orders = group_stats(backlog=3, in_flight=1, lag=4, time_lag_seconds=15.5, ack_rate=2.0)
    never = group_stats("never", lag=4, backlog=4, time_lag_seconds=60.0, ack_rate=0.5)
    delayed = stats(pending=9, overdue=2, put_aside=0, delivered_per_second=1.5)
    answers = {"g1-a": stats(subject_stats("orders", 2, 10, orders, never)), "g2-a": stats(), "d1-a": delayed}
    state = empty() | summed(empty(), None, PLACES, answers, {})
    state["jobs"] = JOBS
    state["broker_groups"] = {"g1": {"state": "read_write"}}
    return state


KNOWN = Numbers(None, None, 5, True, 2.5, 1, True, "console", 12.0)
OUTBOXES = [(OutboxDatabase(name="shop"), KNOWN)]


def samples(state: State | None, **found: Any) -> dict[tuple[str, str], float]:
    snapshot = None if state is None else {"at_ms": NOW_MS, "state": state}
    page, _ = exposition(lambda: (snapshot, HEALTH), found.get("now_ms", NOW_MS), found.get("outboxes", OUTBOXES))
    return {
        (sample.name, ",".join(sample.labels[name] for name in sorted(sample.labels, reverse=True))): sample.value
        for family in text_string_to_metric_families(page.decode())
        for sample in family.samples
    }


def test_known_values_are_there() -> None:
    found = samples(full_state())
    assert found["qmq_system_lag_messages", "orders,g"] == 4
    assert found["qmq_system_time_lag_seconds", "orders,g"] == 15.5
    assert found["qmq_system_drain_seconds", "orders,g"] == 4.0
    assert found["qmq_system_subject_messages_total", "orders"] == 10
    assert found["qmq_system_overdue_messages", "d1"] == 2
    assert found["qmq_system_node_reached", "g1"] == 1
    assert found["qmq_system_job_failures_total", "heartbeats"] == 3
    assert found["qmq_collector_overruns_total", ""] == 1
    assert {value for (name, _), value in found.items() if name == "qmq_unknown"} == {0}


def test_numbers_of_outboxes_are_there_where_they_are_known() -> None:
    known = samples(full_state())
    names = ("pending_rows", "failed_rows", "oldest_seconds", "rows_per_second", "usable")
    assert [known[f"qmq_outbox_{name}", "shop"] for name in names] == [5, 1, 2.5, 12.0, 1]
    states = {"broken": Unknown.FAILED, "new": Unknown.NOT_MEASURED}
    outboxes = [(OutboxDatabase(name=name), Numbers(unknown, None)) for name, unknown in states.items()]
    found = samples(full_state(), outboxes=outboxes)
    assert {key: value for key, value in found.items() if key[0].startswith("qmq_outbox")} == {
        ("qmq_outbox_usable", "broken"): 0
    }
    assert found["qmq_unknown", "database"] == 2
    assert samples(full_state(), outboxes=None)["qmq_unknown", "database"] == 1


def test_never_draining_is_no_sample_and_not_unknown() -> None:
    found = samples(full_state())
    assert ("qmq_system_drain_seconds", "orders,never") not in found
    assert found["qmq_unknown", "group"] == 0


def test_unknown_values_are_absent_and_counted() -> None:
    before = full_state()
    state = {**before, **summed(before, NOW_MS, PLACES, {"g1-a": AWAY, "g2-a": stats(), "d1-a": AWAY}, {})}
    found = samples(state)
    of_orders = [name for name, labels in found if labels.startswith("orders") and found[name, labels] is not None]
    assert of_orders == []
    assert found["qmq_system_node_reached", "g1"] == 0
    assert found["qmq_system_node_reached", "g2"] == 1
    assert ("qmq_system_disk_free_bytes", "g1") not in found
    assert found["qmq_unknown", "group"] > 0
    assert found["qmq_unknown", "node"] > 0


def test_an_old_snapshot_is_none() -> None:
    found = samples(full_state(), now_ms=NOW_MS + 10_001)
    assert found["qmq_unknown", "snapshot"] == 1
    assert not [name for name, _ in found if name.startswith("qmq_system_lag")]


def test_without_redis_nothing_is_known() -> None:
    def away() -> Any:
        raise RedisAway("gone")

    page, content_type = exposition(away, NOW_MS)
    assert 'qmq_unknown{what="snapshot"} 1.0' in page.decode()
    assert content_type.startswith("text/plain")


def test_series_are_bounded_and_the_largest_stay() -> None:
    state = full_state()
    kept = state["groups"][group_key("orders", "g")]
    state["groups"] = {
        str(number): {**kept, "group": f"g{number}", "lag": number} for number in range(GROUP_SERIES_MAX + 3)
    }
    found = samples(state)
    shown = [labels for name, labels in found if name == "qmq_system_lag_messages"]
    assert len(shown) == GROUP_SERIES_MAX
    assert f"orders,g{GROUP_SERIES_MAX + 2}" in shown
    assert "orders,g0" not in shown
    assert found["qmq_system_left_out", "group"] == 3


def test_the_dashboard_asks_only_for_metrics_that_exist() -> None:
    exist = {name for name, _ in samples(full_state())}
    dashboard = json.loads((PROJECT / "deploy/grafana/pyqmq.json").read_text())
    asked = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    asked += [item["query"]["query"] for item in dashboard["templating"]["list"] if item["type"] == "query"]
    names = {name for text in asked for name in re.findall(r"qmq_\w+", text)}
    assert len(names) > 20
    assert names <= exist, names - exist
    assert exist - {name for name in exist if not name.startswith("qmq_")} <= names | NOT_ON_IT


NOT_ON_IT = {"qmq_system_subject_messages_total", "qmq_system_uptime_seconds"}
"""Metrics without a panel."""


NETWORKS = ["127.0.0.1/32", "10.20.0.0/16", "fd12::/32"]


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("networks", "address", "headers", "status"),
    [
        ([], "127.0.0.1", {}, 401),
        ([], "::1", {}, 401),
        ([], "", {}, 401),
        ([], "127.0.0.1", {"HTTP_X_FORWARDED_FOR": "203.0.113.9"}, 401),
        ([], "203.0.113.9", {"HTTP_AUTHORIZATION": "Bearer qmq_wrong"}, 401),
        (NETWORKS, "127.0.0.1", {}, 200),
        (NETWORKS, "::ffff:127.0.0.1", {}, 200),
        (NETWORKS, "10.20.3.4", {}, 200),
        (NETWORKS, "fd12::9", {}, 200),
        (NETWORKS, "127.0.0.2", {}, 401),
        (NETWORKS, "::1", {}, 401),
    ],
)
def test_who_may_read_them(
    client: Any,
    settings: Any,
    monkeypatch: pytest.MonkeyPatch,
    networks: list[str],
    address: str,
    headers: dict[str, str],
    status: int,
) -> None:
    settings.METRICS_NETWORKS = networks
    monkeypatch.setattr("console.reports.metrics.read_stored", lambda _: (None, None))
    assert client.get("/metrics", REMOTE_ADDR=address, **headers).status_code == status
    assert client.post("/metrics", REMOTE_ADDR="127.0.0.1").status_code in (403, 405)


@pytest.mark.django_db
def test_a_token_of_scope_read_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("console.reports.metrics.read_stored", lambda _: (None, None))
    assert machine(person("scraper"), Scope.READ).get("/metrics", REMOTE_ADDR="203.0.113.9").status_code == 200


def test_many_scrapers_in_a_second_cost_what_one_does() -> None:
    clock = ManualClock()
    built: list[int] = []

    def build() -> tuple[bytes, str]:
        built.append(1)
        return b"%d" % len(built), "text/plain"

    page = MetricsPage(build, clock)
    barrier = threading.Barrier(4)

    def scrape() -> set[bytes]:
        barrier.wait()
        return {page.get()[0] for _ in range(50)}

    with ThreadPoolExecutor(4) as threads:
        found = [future.result() for future in [threads.submit(scrape) for _ in range(4)]]
    assert (found, len(built)) == ([{b"1"}] * 4, 1)
    clock.advance(PAGE_SECONDS)
    assert page.get()[0] == b"2"


def test_what_is_no_network_is_found(settings: Any) -> None:
    settings.METRICS_NETWORKS = ["127.0.0.1/32", "10.1.2.3/8", "loopback"]
    assert [problem.id for problem in checks.metrics_networks(None)] == ["console.E022"] * 2
