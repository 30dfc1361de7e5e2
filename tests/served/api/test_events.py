"""The feed of events: all sources in one order, its filters, and what is shown to whom."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from console.accounts.roles import Role
from console.alerts.models import Alert
from console.models import SystemEvent
from metaserver.models import AuditEntry
from metaserver.services import apply, audit, broker_groups, subjects
from metaserver.services.changes import METASERVER
from qmq.protocol.reasons import Code, Reason
from tests.support.console.metadata import ACTOR, broker_group, route
from tests.support.console.people import browser, person

pytestmark = [pytest.mark.django_db, pytest.mark.database]
API = "/api/v1/events/"
NOW = timezone.now().replace(microsecond=0)


@pytest.fixture
def admin() -> APIClient:
    return browser(person("root", Role.ADMIN))


@pytest.fixture
def clean(admin: APIClient) -> APIClient:
    """Without the events of making the user."""
    AuditEntry.objects.all().delete()
    return admin


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def audited(action: str, target: str, seconds: float, actor: Any = METASERVER, **values: Any) -> None:
    """An entry of the audit log of some seconds ago."""
    audit.record(actor, action, target, **values)
    AuditEntry.objects.filter(pk=AuditEntry.objects.order_by("-pk")[0].pk).update(at=ago(seconds))


def alert(target: str, kind: str, fired: float, resolved: float | None = None, severity: str = "critical") -> Alert:
    return Alert.objects.create(
        rule_name="A rule", kind=kind, target=target, severity=severity, threshold=1, value=2, since=ago(fired),
        fired_at=ago(fired), resolved_at=None if resolved is None else ago(resolved), last_seen_at=NOW, place=0,
        state="firing" if resolved is None else "resolved",
    )  # fmt: skip


def system(kind: str, target: str, group: str, seconds: float, **values: Any) -> SystemEvent:
    number = SystemEvent.objects.count() + 1
    given = {"severity": "warning", **values}
    return SystemEvent.objects.create(id=number, at=ago(seconds), kind=kind, target=target, broker_group=group, **given)


def rows(client: APIClient, query: str = "") -> list[dict[str, Any]]:
    answer = client.get(f"{API}?{query}")
    assert answer.status_code == 200, answer.json()
    found: list[dict[str, Any]] = answer.json()["results"]
    return found


def kinds(client: APIClient, query: str = "") -> list[str]:
    return [row["kind"] for row in rows(client, query)]


def incident() -> None:
    """A failover of g1 with what belongs to it, oldest last: each source has a part."""
    why = Reason.of(Code.PROMOTED, why=Reason.of(Code.MASTER_SILENT, master="g1-a", seconds=6.1), node="g1-b")
    system("unreachable", "g1-a", "g1", 60, reason="connection refused")
    audited(
        "broker_group.promote", "g1", 54, reason=why,
        before={"master": "g1-a", "epoch": 1}, after={"master": "g1-b", "epoch": 2, "why": why.as_json()},
    )  # fmt: skip
    alert("orders/billing", "lag", 50, 30)
    system("restart", "g1-a", "g1", 20, severity="info")
    audited("broker_group.add_in_sync", "g1", 10, before={"in_sync": ["g1-b"]}, after={"in_sync": ["g1-b", "g1-a"]})


def test_sources_are_one_list_by_time_with_the_cause(clean: APIClient) -> None:
    incident()
    found = rows(clean)
    assert [row["kind"] for row in found] == [
        "in_sync", "restart", "alert_resolved", "alert_fired", "failover", "unreachable",
    ]  # fmt: skip
    failover, unreachable = found[-2:]
    assert (failover["broker_group"], failover["severity"]) == ("g1", "warning")
    assert failover["values"] == {"master": "g1-b", "previous": "g1-a", "epoch": 2}
    assert failover["why"]["values"]["why"]["code"] == "master_silent"
    assert (unreachable["node"], unreachable["broker_group"]) == ("g1-a", "g1")
    assert unreachable["reason"] == "connection refused"
    assert (found[0]["values"], found[3]["severity"], found[2]["severity"]) == (
        {"joined": ["g1-a"], "left": []}, "critical", "info",
    )  # fmt: skip
    assert (found[3]["subject"], found[3]["group"]) == ("orders", "billing")


@pytest.mark.parametrize("limit", [1, 2, 4])
def test_pages_have_each_event_once_also_where_many_have_one_time(clean: APIClient, limit: int) -> None:
    incident()
    for _ in range(3):
        system("reachable", "g1-a", "g1", 10)
        audited("subject.update", "orders", 10)
        alert("orders/billing", "lag", 10, 10)
    whole = [row["id"] for row in rows(clean, "limit=100")]
    assert len(whole) == len(set(whole)) == 18
    paged: list[str] = []
    cursor = ""
    while True:
        answer = clean.get(f"{API}?limit={limit}&cursor={cursor}").json()
        paged += [row["id"] for row in answer["results"]]
        cursor = answer["next"]
        if not cursor:
            break
    assert paged == whole


def test_each_filter_selects(clean: APIClient) -> None:
    incident()
    assert kinds(clean, "kind=failover&kind=restart") == ["restart", "failover"]
    assert kinds(clean, "severity=critical") == ["alert_fired"]
    assert kinds(clean, "severity=warning") == ["failover", "unreachable"]
    assert kinds(clean, "severity=info") == ["in_sync", "restart", "alert_resolved"]
    since, until = (ago(seconds).astimezone(UTC).isoformat().replace("+00:00", "Z") for seconds in (54, 20))
    assert kinds(clean, f"since={since}&until={until}") == ["alert_resolved", "alert_fired", "failover"]
    audited("broker_group.state", "g1", 5, before={"state": "read_write"}, after={"state": "offline"})
    audited("broker_group.state", "g1", 4, before={"state": "offline"}, after={"state": "read_only"})
    audited("subject.delete_failed", "orders", 3)
    assert kinds(clean, "severity=critical") == ["state", "alert_fired"]
    assert kinds(clean, "severity=warning")[:2] == ["change", "state"]
    assert kinds(clean, "kind=change") == ["change"]
    assert kinds(clean, "severity=info")[:1] == ["in_sync"]


def test_what_concerns_a_subject_a_group_and_a_broker_group(clean: APIClient) -> None:
    broker_group("g1")
    broker_group("g2")
    route("orders", "g1")
    AuditEntry.objects.all().delete()
    incident()
    audited("subject.update", "orders", 9, ACTOR)
    audited("consumer_group.reset_done", "orders/billing", 8, ACTOR)
    audited("consumer_group.pause", "orders/audit", 7, ACTOR)
    audited("consumer_group.pause", "ordersX/billing", 7, ACTOR)
    audited("broker_group.draining", "g2", 6, ACTOR)
    system("unreachable", "g2-a", "g2", 5)
    alert("g1-node", "disk", 4)
    assert kinds(clean, "subject=orders") == [
        "change", "reset", "change", "restart", "alert_resolved", "alert_fired", "failover", "unreachable",
    ]  # fmt: skip
    assert [row["target"] for row in rows(clean, "subject=orders&group=billing")][:2] == ["orders/billing", "orders"]
    assert kinds(clean, "broker_group=g2") == ["unreachable", "drain"]
    assert kinds(clean, "broker_group=g1") == ["alert_fired", "in_sync", "restart", "failover", "unreachable"]
    assert kinds(clean, "broker_group=not-there") == []
    assert rows(clean, "broker_group=g1")[0]["broker_group"] == "g1", "of the node that the alert is about"


def test_a_viewer_sees_changes_without_users_and_none_of_accounts_and_messages(clean: APIClient) -> None:
    viewer = browser(person("vera"))
    AuditEntry.objects.all().delete()
    audited("subject.archive", "orders", 5, ACTOR, reason="not for all")
    audited("user.create", "eve", 4, ACTOR)
    audited("message.send", "orders", 3, ACTOR)
    audited("broker_group.add_in_sync", "g1", 2)
    shown = {row["action"]: (row["actor"], row["reason"]) for row in rows(viewer)}
    assert shown == {"broker_group.add_in_sync": ("metaserver", None), "subject.archive": (None, None)}
    assert [row["action"] for row in rows(clean)][1:] == ["message.send", "user.create", "subject.archive"]
    assert rows(clean)[-1]["actor"] == "ada"
    assert rows(clean)[-1]["reason"] == "not for all"


def test_reads_steps_and_the_parts_of_a_document_are_no_events(clean: APIClient) -> None:
    audited("message.read", "orders", 9, ACTOR)
    audited("route.step", "orders", 8, ACTOR)
    document = {"subjects": [{"name": "a.b"}, {"name": "a.c"}]}
    apply.apply(document, actor=ACTOR, reason="release 7")
    apply.apply(document, actor=ACTOR)
    (event,) = rows(clean)
    assert (event["kind"], event["values"], event["reason"]) == ("deployment", {"create": 2}, "release 7")
    assert [row["action"] for row in rows(clean, "subject=a.b")] == ["subject.create"]


def test_a_switch_over_has_the_user_who_requested_it(clean: APIClient) -> None:
    audited("broker_group.switch_over", "g1", 11, ACTOR)
    audited("broker_group.resign", "g1", 10, before={"master": "g1-a"}, after={"master": "g1-b"})
    audited("broker_group.resign", "g2", 10, before={"master": "g2-a"}, after={"master": "g2-b"})
    found = {row["broker_group"]: row["actor"] for row in rows(clean, "kind=switch_over")}
    assert found == {"g1": "ada", "g2": "metaserver"}


def test_states_drains_and_changed_fields(clean: APIClient) -> None:
    broker_group("g1")
    broker_group("g2")
    subjects.create_subject("orders", {}, actor=ACTOR)
    subjects.update_subject("orders", {"description": "x"}, actor=ACTOR)
    broker_groups.set_operator_state("g1", broker_groups.OperatorState.DRAINING, actor=ACTOR)
    broker_groups.expire_group("g2", silent_seconds=0.0, actor=METASERVER, reason="no heartbeat")
    found = rows(clean)[:4]
    assert [row["kind"] for row in found] == ["state", "drain", "change", "change"]
    assert found[0]["values"] == {"before": "read_write", "after": "offline"}
    assert found[2]["values"] == {"fields": ["description"]}


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("kind=nothing", "kind"), ("severity=bad", "severity"), ("since=yesterday", "since"), ("limit=0", "limit"),
        ("limit=501", "limit"), ("group=a", "group"), ("subject=a&broker_group=b", "subject"), (f"subject={'x' * 301}", "subject"),
        ("since=2026-11-30T00:00:00Z&until=2026-11-29T00:00:00Z", "until"), ("cursor=x", "cursor"), ("kinds=change", "kinds"),
    ],
)  # fmt: skip
def test_wrong_queries_name_their_field(admin: APIClient, query: str, field: str) -> None:
    answer = admin.get(f"{API}?{query}")
    assert answer.status_code == 400, answer.content
    assert field in answer.json()["fields"], answer.json()


def test_a_cursor_belongs_to_its_filters(clean: APIClient) -> None:
    incident()
    cursor = clean.get(f"{API}?limit=2").json()["next"]
    assert clean.get(f"{API}?limit=2&kind=restart&cursor={cursor}").status_code == 400


def test_an_export_has_the_events(clean: APIClient) -> None:
    incident()
    answer = clean.get(f"{API}?format=csv")
    text = b"".join(answer.streaming_content).decode()  # type: ignore[attr-defined]
    ids = [line.split(",")[0].strip('"') for line in text.splitlines()[1:7]]
    assert ids == [row["id"] for row in rows(clean)]


def test_an_anomaly_of_a_subject_is_its_event_and_none_of_its_groups(clean: APIClient) -> None:
    alert("orders/billing", "anomaly", 60)
    alert("orders", "anomaly", 50)
    alert("orders", "unknown", 40)
    named = [(row["subject"], row["group"]) for row in rows(clean, "subject=orders")]
    assert named == [("orders", None), ("orders", "billing")]
    assert [row["group"] for row in rows(clean, "subject=orders&group=billing")] == ["billing"]


def test_a_shared_rack_is_an_event_of_its_broker_group(clean: APIClient) -> None:
    alert("g1", "one_rack", 60)
    assert [row["broker_group"] for row in rows(clean, "broker_group=g1")] == ["g1"]
