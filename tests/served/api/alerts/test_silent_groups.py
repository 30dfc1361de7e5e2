"""Broker groups that fail and disks that hang: when their rules fire, and the cause that alerts, notifications and events name."""

from typing import Any

import pytest

from console.alerts.models import Alert, AlertChannel, AlertRule, Notification
from console.alerts.readings import SILENT_SECONDS
from console.alerts.services import evaluate, evaluate_urgent
from console.alerts.services.channels import create_channel
from console.reports.events import feed
from console.reports.events.sources import Wanted
from console.times import rfc3339
from metaserver.models import BrokerGroup, Node
from qmq.protocol.reasons import Code, Reason
from tests.served.api.alerts.receiver import ACTOR
from tests.served.api.alerts.system_state import at, group, node, snapshot, store_members
from tests.support.console.metadata import broker_group

pytestmark = pytest.mark.django_db
REFUSED = Reason.of(Code.CONNECTION_REFUSED)


@pytest.fixture(autouse=True)
def _one_group() -> None:
    """g1 with its only member g1-node, whose heartbeat is stored at 0 s."""
    broker_group("g1")
    Node.objects.update(leased_at=at(0))


def away(seconds: float, reason: Reason = REFUSED) -> dict[str, Any]:
    """A node that last responded at this time."""
    why = reason.as_json() if reason.code else None
    return node(str(reason), at=None) | {"at": rfc3339(round(at(seconds).timestamp() * 1000)), "why": why}


def firing() -> list[tuple[str, str, str | None]]:
    """Name of the rule, target, and the sentence of the cause."""
    rows = Alert.objects.filter(state="firing").order_by("id")
    return [(row.rule_name, row.target, row.why["text"] if row.why else None) for row in rows]


def test_a_group_is_offline_when_no_node_responds_and_none_sends_heartbeats() -> None:
    evaluate_urgent(snapshot(nodes={"g1-node": away(0.5)}), at(SILENT_SECONDS + 0.4))
    assert firing() == []
    evaluate_urgent(snapshot(nodes={"g1-node": away(0.5)}), at(SILENT_SECONDS + 0.7))
    cause = "node g1-node has not responded for 5.2 s: connection refused"
    assert firing() == [("Broker group offline", "g1", cause)]
    assert BrokerGroup.objects.get().state == "read_write", "no metaserver has announced it"
    evaluate_urgent(snapshot(nodes={"g1-node": node()}), at(SILENT_SECONDS + 1.7))
    assert firing() == []


@pytest.mark.parametrize(
    ("nodes", "heartbeat"),
    [
        pytest.param({"g1-node": away(0)}, 1.0, id="its heartbeats arrive: only the console does not reach it"),
        pytest.param({"g1-node": node()}, 0.0, id="it responds: only metaservers store no heartbeats"),
        pytest.param({"g1-node": node("no address") | {"at": None, "why": None}}, 0.0, id="it has never responded"),
        pytest.param({}, 0.0, id="the collector does not know it"),
    ],
)
def test_one_witness_is_not_enough(nodes: dict[str, Any], heartbeat: float) -> None:
    Node.objects.update(leased_at=at(heartbeat))
    evaluate_urgent(snapshot(nodes=nodes), at(SILENT_SECONDS + 0.5))
    assert firing() == []


def test_a_group_with_a_member_that_responds_is_left_to_the_metaservers() -> None:
    store_members()
    silent = away(0)
    evaluate_urgent(snapshot(nodes={"a": silent, "b": node()}), at(20))
    assert firing() == []
    evaluate_urgent(snapshot(nodes={"a": silent, "b": away(10, Reason("no route to host"))}), at(20))
    both = (
        "node a has not responded for 20.0 s: connection refused; node b has not responded for 10.0 s: no route to host"
    )
    assert firing() == [("Broker group offline", "g1", both)]


def test_a_group_that_metaservers_announce_as_offline_has_a_cause_if_one_is_known() -> None:
    BrokerGroup.objects.update(state="offline")
    evaluate(None, at(30))
    assert firing() == [("Broker group offline", "g1", "node g1-node: it does not send heartbeats")]
    Alert.objects.all().delete()
    waits = Reason.of(Code.NO_MEMBERSHIP)
    evaluate(snapshot(nodes={"g1-node": node(state_why=waits.as_json())}), at(1))
    assert firing() == [("Broker group offline", "g1", f"node g1-node: {waits}")]
    Alert.objects.all().delete()
    evaluate(snapshot(nodes={"g1-node": node()}), at(1))
    assert firing() == [("Broker group offline", "g1", None)]


def test_a_disk_that_hangs_fires_with_its_time_and_resolves_after_10_s() -> None:
    evaluate_urgent(snapshot(nodes={"g1-node": node(disk_stuck_seconds=3.0)}), at(0))
    assert firing() == []
    evaluate_urgent(snapshot(nodes={"g1-node": node(disk_stuck_seconds=3.1)}), at(1))
    alert = ("Disk does not complete writes", "g1-node", "the disk has not completed a write for 3.1 s")
    assert firing() == [alert]
    evaluate_urgent(snapshot(nodes={"g1-node": node(disk_stuck_seconds=4.1)}), at(2))
    assert firing() == [alert], "the cause stays as it was when the alert fired"
    for second in (3, 12):
        evaluate_urgent(snapshot(nodes={"g1-node": node(disk_stuck_seconds=0.0)}), at(second))
        assert firing() == [alert]
    evaluate_urgent(snapshot(nodes={"g1-node": node(disk_stuck_seconds=0.0)}), at(13))
    assert firing() == []


def test_an_alert_that_was_pending_has_the_cause_of_when_it_fired() -> None:
    AlertRule.objects.filter(kind="disk_stuck").update(for_seconds=5)
    for second, stuck_seconds in ((0, 4.0), (5, 9.0)):
        assert firing() == []
        evaluate_urgent(snapshot(nodes={"g1-node": node(disk_stuck_seconds=stuck_seconds)}), at(second))
    cause = "the disk has not completed a write for 9.0 s"
    assert firing() == [("Disk does not complete writes", "g1-node", cause)]


def test_an_urgent_evaluation_leaves_all_other_rules_alone() -> None:
    lagging = {"orders/billing": group(lag=10, time_lag_seconds=2_000.0)}
    full = {"g1-node": node(disk_free_bytes=1, disk_total_bytes=100)}
    evaluate_urgent(snapshot(lagging, full), at(0))
    assert not Alert.objects.exists()
    evaluate(snapshot(lagging, full), at(0))
    before = list(Alert.objects.order_by("id").values())
    assert {alert["kind"] for alert in before} >= {"disk", "time_lag"}
    evaluate_urgent(snapshot({}, {"g1-node": node()}), at(600))
    assert list(Alert.objects.order_by("id").values()) == before


def test_the_cause_is_in_notifications_and_events() -> None:
    create_channel("email", {"name": "mail", "addresses": ["ops@example.com"]}, actor=ACTOR)
    AlertRule.objects.get(name="Broker group offline").channels.set(AlertChannel.objects.all())
    evaluate_urgent(snapshot(nodes={"g1-node": away(0)}), at(6))
    (body,) = Notification.objects.values_list("body", flat=True)
    assert body["alert"]["why"]["code"] == "node_silent"
    assert body["alert"]["why"]["values"]["why"]["code"] == "connection_refused"
    (event,) = [one for one in feed.read(Wanted(at(0), at(60)), None, 10).events if one.kind == "alert_fired"]
    assert event.why == body["alert"]["why"]
