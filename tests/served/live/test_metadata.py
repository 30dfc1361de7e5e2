"""What the collector reads of the database."""

from datetime import timedelta

import pytest
from asgiref.sync import async_to_sync
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from console.alerts.models import Alert, AlertRule
from console.alerts.services import evaluate
from console.alerts.services.rules import delete_rule
from console.collector.metadata import METASERVER_FORGOTTEN_HOURS, ROUTES_SECONDS, MetadataReader
from console.times import rfc3339
from metaserver.queries import METASERVER_FRESH_SECONDS
from metaserver.services import broker_groups, routes
from qmq.clock import SystemClock
from tests.support.console.metadata import ACTOR, broker_group, route
from tests.support.manual_clock import ManualClock


@pytest.mark.database
@pytest.mark.django_db
def test_routes_that_did_not_change_are_not_read_again() -> None:
    for name in ("g1", "g2"):
        broker_group(name)
    route("orders", "g1")
    clock = ManualClock()
    reader = MetadataReader(clock)

    def read() -> list[str]:
        clock.advance(ROUTES_SECONDS)
        with CaptureQueriesContext(connection) as captured:
            reader.now = reader._read()
        return [one["sql"] for one in captured if "subjectroute" in one["sql"]]

    assert len(read()) == 1
    assert reader.now.routes == {"orders": ("g1",)}
    assert read() == []
    routes.move("orders", ["g2"], actor=ACTOR, reason="")
    (sql,) = read()
    assert "WHERE" in sql, "those of changed subjects"
    assert set(reader.now.routes["orders"]) == {"g1", "g2"}


@pytest.mark.database
@pytest.mark.django_db(transaction=True)
def test_firing_alerts_are_counted_by_severity() -> None:
    reader = MetadataReader(SystemClock())
    async_to_sync(reader.read)()
    assert reader.now.alerts == {"firing": {"critical": 0, "warning": 0, "changed_at": None}}
    rule = AlertRule.objects.create(name="lag", kind="lag", threshold=100, clear_threshold=80, severity="critical")
    groups = {f"orders\n{name}": {"lag": lag, "reason": None} for name, lag in (("a", 101), ("b", 102), ("c", 1))}
    fired_at = timezone.now()
    evaluate({"groups": groups, "nodes": {}, "subjects": {}}, fired_at)
    assert set(Alert.objects.filter(rule=rule).values_list("state", flat=True)) == {"firing"}
    async_to_sync(reader.read)()
    assert reader.now.alerts == {"firing": {"critical": 2, "warning": 0, "changed_at": rfc3339(fired_at)}}
    delete_rule(str(rule.pk), actor=ACTOR)
    async_to_sync(reader.read)()
    counts = reader.now.alerts["firing"]
    assert (counts["critical"], counts["changed_at"] > rfc3339(fired_at)) == (0, True), "also when one is resolved"


@pytest.mark.database
@pytest.mark.django_db(transaction=True)  # the reader asks in a thread of its own, with a connection of its own
def test_metaservers_are_heard_silent_or_forgotten() -> None:
    now = timezone.now()
    ages = {
        "10.0.0.1:1": timedelta(),
        "10.0.0.2:1": timedelta(seconds=METASERVER_FRESH_SECONDS + 1),
        "10.0.0.3:1": timedelta(hours=METASERVER_FORGOTTEN_HOURS, seconds=1),
    }
    for address, age in ages.items():
        broker_groups.save_heartbeat(address, 5.0, now - age)
    reader = MetadataReader(SystemClock())
    async_to_sync(reader.read)()
    heard = {address: entry["is_heard"] for address, entry in reader.now.metaservers.items()}
    assert heard == {"10.0.0.1:1": True, "10.0.0.2:1": False}
    assert reader.now.metaservers["10.0.0.1:1"]["seen_at"].endswith("Z")
