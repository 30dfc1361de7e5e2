"""The API of alerts: by roles, with every filter, dry runs, versions, problems."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from console.alerts.models import Alert, AlertChannel, AlertRule, Notification, Silence
from console.alerts.services import evaluate
from metaserver.models import AuditEntry
from tests.served.api.alerts.receiver import Receiver
from tests.served.api.alerts.requests import API, RULE, made, problem
from tests.served.api.alerts.system_state import at, group, snapshot

pytestmark = pytest.mark.django_db
HOOK = {"name": "hook", "kind": "webhook", "url": "https://hooks.example.com/T0/hidden", "secret": "0123456789abcdef"}
MAIL = {"name": "mail", "kind": "email", "addresses": ["a@example.com"]}


@pytest.fixture(autouse=True)
def only_ours(db: None) -> None:
    AlertRule.objects.update(is_enabled=False)


def names(client: APIClient, address: str, field: str = "name") -> list[str]:
    """One field of a list's rows."""
    answer = client.get(f"{API}/{address}")
    assert answer.status_code == 200, answer.json()
    return [row[field] for row in answer.json()["results"]]


# --- rights -----------------------------------------------------------------------------------------------------------


def test_who_may_do_what(viewer: APIClient, operator: APIClient, admin: APIClient):
    rule, channel = made(admin, "alert-rules", RULE), made(admin, "alert-channels", MAIL)
    evaluate(snapshot({"orders/billing": group(101)}), at(0))
    alert = str(Alert.objects.get().pk)
    later = (timezone.now() + timedelta(hours=1)).isoformat()
    silence = made(operator, "silences", {"target": "orders", "ends_at": later, "reason": "works"})
    calls: list[tuple[str, str, dict[str, Any], str]] = [
        ("get", "alert-rules/", {}, "viewer"),
        ("get", f"alert-rules/{rule}/", {}, "viewer"),
        ("get", "alerts/", {}, "viewer"),
        ("get", f"alerts/{alert}/", {}, "viewer"),
        ("get", "silences/", {}, "viewer"),
        ("get", f"silences/{silence}/", {}, "viewer"),
        ("get", "alert-channels/", {}, "viewer"),
        ("get", f"alert-channels/{channel}/", {}, "viewer"),
        ("post", "alert-rules/", {**RULE, "name": "other"}, "operator"),
        ("patch", f"alert-rules/{rule}/", {"threshold": 500}, "operator"),
        ("delete", f"alert-rules/{rule}/", {}, "operator"),
        ("post", f"alerts/{alert}/acknowledge/", {}, "operator"),
        ("post", "silences/", {"target": "orders", "ends_at": later, "reason": "works"}, "operator"),
        ("post", "silences/", {"ends_at": later, "reason": "works"}, "admin"),
        ("delete", f"silences/{silence}/", {}, "operator"),
        ("post", "alert-channels/", HOOK, "admin"),
        ("patch", f"alert-channels/{channel}/", {"is_enabled": False}, "admin"),
        ("post", f"alert-channels/{channel}/test/", {}, "admin"),
        ("delete", f"alert-channels/{channel}/", {}, "admin"),
    ]
    order = ["viewer", "operator", "admin"]
    clients = {"viewer": viewer, "operator": operator, "admin": admin}
    before = AuditEntry.objects.count()
    for method, address, body, least in calls:
        problem(getattr(APIClient(), method)(f"{API}/{address}", body), 401, "request.not_authenticated")
        for role in order:
            dry = "" if method == "get" else "?dry_run=true"
            answer = getattr(clients[role], method)(f"{API}/{address}{dry}", body)
            if order.index(role) < order.index(least):
                problem(answer, 403, "access.denied")
            else:
                assert answer.status_code == 200, (method, address, role, answer.json())
    assert AuditEntry.objects.count() == before, "dry runs and refusals change nothing"


# --- rules ------------------------------------------------------------------------------------------------------------


def test_the_life_of_a_rule(operator: APIClient, admin: APIClient):
    made(admin, "alert-channels", MAIL)
    rule = made(operator, "alert-rules", {**RULE, "channels": ["mail"], "reason": "orders matter"})
    entry = AuditEntry.objects.order_by("-id").first()
    assert entry is not None
    assert (entry.action, entry.target, entry.reason) == ("alert_rule.create", "alert rule lag", "orders matter")
    answer = operator.get(f"{API}/alert-rules/{rule}/")
    assert answer["ETag"] == '"v1"'
    row = answer.json()
    assert (row["id"], row["clear_threshold"], row["channels"], row["is_builtin"]) == (rule, 80, ["mail"], False)
    stale = operator.patch(f"{API}/alert-rules/{rule}/", {"threshold": 50}, HTTP_IF_MATCH='"v9"')
    problem(stale, 412, "change.stale")
    wrong = operator.patch(f"{API}/alert-rules/{rule}/", {"threshold": 50})
    assert "clear_threshold" in problem(wrong, 400, "alert_rule.invalid")["fields"]
    dry = operator.patch(f"{API}/alert-rules/{rule}/?dry_run=true", {"threshold": 500})
    assert (dry.json()["before"]["threshold"], dry.json()["after"]["threshold"]) == (100, 500)
    assert AlertRule.objects.get(name="lag").threshold == 100
    changed = operator.patch(
        f"{API}/alert-rules/{rule}/",
        {"threshold": 50, "clear_threshold": None, "channels": []},
        HTTP_IF_MATCH='"v1"',
    )
    assert (changed["ETag"], changed.json()["after"]["clear_threshold"]) == ('"v2"', 40)
    assert changed.json()["after"]["channels"] == []
    same = operator.patch(f"{API}/alert-rules/{rule}/", {"threshold": 50})
    assert (same["ETag"], same.json()["is_change"]) == ('"v2"', False)
    assert operator.delete(f"{API}/alert-rules/{rule}/").status_code == 200
    problem(operator.get(f"{API}/alert-rules/{rule}/"), 404, "alert_rule.unknown")


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"kind": "mood"}, "kind"),
        ({"severity": "bad"}, "severity"),
        ({"threshold": -1}, "threshold"),
        ({"threshold": "NaN"}, "threshold"),
        ({"threshold": "Infinity"}, "threshold"),
        ({"threshold": None}, "threshold"),
        ({"clear_threshold": 101}, "clear_threshold"),
        ({"for_seconds": -1}, "for_seconds"),
        ({"for_seconds": 10**9}, "for_seconds"),
        ({"window_seconds": 1}, "window_seconds"),
        ({"name": ""}, "name"),
        ({"name": "x" * 101}, "name"),
        ({"name": "a\nb"}, "name"),
        ({"target": ""}, "target"),
        ({"target": "x" * 301}, "target"),
        ({"channels": ["nobody"]}, "channels"),
        ({"channels": ["a"] * 11}, "channels"),
        ({"reason": "x" * 501}, "reason"),
    ],
)
def test_rules_that_are_refused(operator: APIClient, values: dict[str, Any], field: str):
    answer = operator.post(f"{API}/alert-rules/", {**RULE, **values})
    assert answer.status_code == 400
    assert field in answer.json()["fields"], answer.json()


@pytest.mark.database
def test_names_of_rules_are_unique_and_built_in_rules_stay(operator: APIClient, admin: APIClient):
    made(operator, "alert-rules", RULE)
    problem(operator.post(f"{API}/alert-rules/", RULE), 409, "alert_rule.exists")
    builtin = AlertRule.objects.get(builtin="disk")
    problem(admin.delete(f"{API}/alert-rules/{builtin.pk}/"), 409, "alert_rule.builtin")
    assert admin.patch(f"{API}/alert-rules/{builtin.pk}/", {"is_enabled": True}).status_code == 200
    problem(operator.patch(f"{API}/alert-rules/{builtin.pk}/", {"is_enabled": False}), 403, "access.denied")
    problem(operator.delete(f"{API}/alert-rules/{builtin.pk}/"), 403, "access.denied")


def test_rules_are_limited(operator: APIClient, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("console.alerts.services.rules.RULES_MAX", AlertRule.objects.count())
    problem(operator.post(f"{API}/alert-rules/", RULE), 400, "alert_rule.too_many")


@pytest.mark.database
def test_filters_of_rules(operator: APIClient, admin: APIClient):
    AlertRule.objects.all().delete()
    made(admin, "alert-channels", MAIL)
    made(operator, "alert-rules", {**RULE, "name": "orders lag", "channels": ["mail"]})
    made(operator, "alert-rules", {**RULE, "name": "disk", "kind": "disk", "severity": "warning", "is_enabled": False})
    AlertRule.objects.filter(name="disk").update(owner="shop", builtin="disk")
    for query, expected in {
        "": ["disk", "orders lag"],
        "search=ORDERS": ["orders lag"],
        "kind=disk": ["disk"],
        "severity=critical": ["orders lag"],
        "owner=shop": ["disk"],
        "channel=mail": ["orders lag"],
        "is_enabled=true": ["orders lag"],
        "is_enabled=false": ["disk"],
        "is_builtin=true": ["disk"],
        "is_builtin=false": ["orders lag"],
        "ordering=-name": ["orders lag", "disk"],
        "ordering=created_at": ["orders lag", "disk"],
    }.items():
        assert names(operator, f"alert-rules/?{query}") == expected, query
    assert operator.get(f"{API}/alert-rules/?kind=mood").status_code == 400


@pytest.mark.parametrize(
    ("concerns", "expected"),
    [
        ("orders/billing", ["all", "billing", "orders"]),
        ("orders/audit", ["all", "orders"]),
        ("g1-a", ["all", "node"]),
        ("x[y/*", ["all"]),
    ],
)
def test_rules_that_concern_a_target(operator: APIClient, concerns: str, expected: list[str]):
    AlertRule.objects.all().delete()
    targets = {"all": "*", "orders": "orders", "billing": "*/bill*", "node": "g1-?"}
    for name, target in targets.items():
        made(operator, "alert-rules", {**RULE, "name": name, "target": target})
    assert names(operator, f"alert-rules/?concerns={concerns}") == expected


def test_a_target_that_no_rule_could_have_is_refused(operator: APIClient):
    for wrong in ("x" * 601, "a%00b"):
        problem(operator.get(f"{API}/alert-rules/?concerns={wrong}"), 400, "request.invalid")


# --- alerts -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def alerts(operator: APIClient) -> None:
    """Three alerts: one ended, one fires, one is pending."""
    made(operator, "alert-rules", RULE)
    made(
        operator, "alert-rules", {**RULE, "name": "slow", "kind": "time_lag", "severity": "warning", "for_seconds": 60}
    )
    evaluate(snapshot({"orders/audit": group(200)}), at(0))
    evaluate(snapshot({"orders/audit": group(0), "payments/billing": group(300, 500.0)}), at(10))
    Alert.objects.filter(kind="time_lag").update(owner="shop")


@pytest.mark.database
def test_open_alerts_come_first(viewer: APIClient, alerts: None):
    assert names(viewer, "alerts/", "state") == ["firing", "pending", "resolved"]
    evaluate(snapshot({"orders/audit": group(0), "payments/billing": group(0, 0.0), "new/g": group(101)}), at(20))
    assert names(viewer, "alerts/", "target") == ["new/g", "payments/billing", "orders/audit"]


@pytest.mark.database
def test_critical_alerts_are_above_newer_warnings_and_counted(viewer: APIClient, operator: APIClient):
    made(operator, "alert-rules", {**RULE, "name": "bad", "severity": "critical", "threshold": 1000})
    made(operator, "alert-rules", {**RULE, "severity": "warning"})
    evaluate(snapshot({"orders/a": group(1001)}), at(0))
    evaluate(snapshot({"orders/a": group(1001), "orders/b": group(101)}), at(10))
    assert names(viewer, "alerts/", "target") == ["orders/a", "orders/b", "orders/a"]
    assert names(viewer, "alerts/", "severity") == ["critical", "warning", "warning"]
    assert viewer.get(f"{API}/overview/").json()["alerts_firing"] == {"critical": 1, "warning": 2}
    evaluate(snapshot({"orders/a": group(0), "orders/b": group(101)}), at(20))
    assert names(viewer, "alerts/", "severity") == ["warning", "warning", "critical"], "ended ones are below"
    assert viewer.get(f"{API}/overview/").json()["alerts_firing"] == {"critical": 0, "warning": 1}


@pytest.mark.database
def test_alerts_page_by_page(viewer: APIClient, operator: APIClient):
    made(operator, "alert-rules", RULE)
    evaluate(snapshot({f"s{n:02}/g": group(101) for n in range(25)}), at(0))
    evaluate(snapshot({f"s{n:02}/g": group(0 if n % 2 else 101) for n in range(25)}), at(1))
    found: list[str] = []
    cursor = ""
    while True:
        answer = viewer.get(f"{API}/alerts/?limit=4{cursor}").json()
        found += [row["target"] for row in answer["results"]]
        if answer["next"] is None:
            break
        cursor = f"&cursor={answer['next']}"
    assert len(found) == len(set(found)) == 25
    assert all(int(target[1:3]) % 2 == 0 for target in found[:13])


@pytest.mark.database
def test_filters_of_alerts(viewer: APIClient, operator: APIClient, alerts: None):
    firing = Alert.objects.get(state="firing")
    assert operator.post(f"{API}/alerts/{firing.pk}/acknowledge/", {"reason": "on it"}).status_code == 200
    for query, expected in {
        "state=firing": ["firing"],
        "state=firing&state=pending": ["firing", "pending"],
        "is_open=true": ["firing", "pending"],
        "is_open=false": ["resolved"],
        "severity=warning": ["pending"],
        "kind=lag": ["firing", "resolved"],
        "target=orders/audit": ["resolved"],
        "target=audit": [],
        "target=ORDERS/audit": [],
        "target_contains=audit": ["resolved"],
        "target_contains=AUDIT": ["resolved"],
        "target_prefix=payments/": ["firing", "pending"],
        "target_prefix=audit": [],
        "rule=SLO": ["pending"],
        "owner=shop": ["pending"],
        "is_acknowledged=true": ["firing"],
        "is_acknowledged=false": ["pending", "resolved"],
        "ordering=since": ["resolved", "firing", "pending"],
    }.items():
        found = names(viewer, f"alerts/?{query}", "state")
        assert sorted(found) == sorted(expected) if "ordering" in query else found == expected, query
    assert viewer.get(f"{API}/alerts/?state=odd").status_code == 400


@pytest.mark.database
def test_the_alert_of_a_group_is_found_among_many_of_groups_with_longer_names(viewer: APIClient, operator: APIClient):
    made(operator, "alert-rules", RULE)
    longer = {f"orders/billing-eu-{n:02}": group(101) for n in range(25)}
    evaluate(snapshot({"orders/billing": group(101)} | longer), at(0))
    answer = viewer.get(f"{API}/alerts/?is_open=true&target=orders/billing&limit=20").json()
    assert ([row["target"] for row in answer["results"]], answer["next"]) == (["orders/billing"], None)


def test_an_alert_with_its_notifications(viewer: APIClient, admin: APIClient):
    made(admin, "alert-channels", MAIL)
    made(admin, "alert-rules", {**RULE, "channels": ["mail"]})
    evaluate(snapshot({"orders/billing": group(101)}), at(0))
    Notification.objects.update(last_error="mail.internal:25 refused", attempts=1)
    alert = Alert.objects.get()
    answer = viewer.get(f"{API}/alerts/{alert.pk}/")
    assert answer["ETag"] == f'"v{alert.version}"'
    body = answer.json()
    assert (body["since"], body["value"], body["rule"]) == ("2026-01-31T12:00:00Z", 101, "lag")
    [row] = body["notifications"]
    assert (row["channel"], row["event"], row["state"], row["attempts"]) == ("mail", "firing", "waiting", 1)
    assert row["last_error"] is None
    [row] = admin.get(f"{API}/alerts/{alert.pk}/").json()["notifications"]
    assert row["last_error"] == "mail.internal:25 refused"
    problem(viewer.get(f"{API}/alerts/{10**17}/"), 404, "alert.unknown")
    problem(viewer.get(f"{API}/alerts/{'9' * 40}/"), 404, "alert.unknown")
    problem(viewer.get(f"{API}/alerts/x/"), 404, "alert.unknown")


@pytest.mark.database
def test_acknowledging(operator: APIClient, admin: APIClient, alerts: None):
    alert = Alert.objects.get(state="firing")
    address = f"{API}/alerts/{alert.pk}/acknowledge/"
    problem(operator.post(address, {}, HTTP_IF_MATCH='"v99"'), 412, "change.stale")
    dry = operator.post(f"{address}?dry_run=true", {"reason": "on it"})
    assert dry.json()["is_change"]
    assert Alert.objects.get(pk=alert.pk).acknowledged_at is None
    done = operator.post(address, {"reason": "on it"}, HTTP_IF_MATCH=f'"v{alert.version}"')
    assert done.status_code == 200
    row = operator.get(f"{API}/alerts/{alert.pk}/").json()
    assert row["acknowledged_by"].startswith("operator-user")
    assert row["acknowledgement"] == "on it"
    again = admin.post(address, {"reason": "me too"})
    assert (again.status_code, again.json()["is_change"]) == (200, False)
    assert [e.action for e in AuditEntry.objects.filter(action="alert.acknowledge")] == ["alert.acknowledge"]
    over = Alert.objects.get(state="resolved")
    problem(operator.post(f"{API}/alerts/{over.pk}/acknowledge/", {}), 409, "alert.resolved")


# --- silences ---------------------------------------------------------------------------------------------------------


def test_the_life_of_a_silence(operator: APIClient, viewer: APIClient):
    made(operator, "alert-rules", RULE)
    evaluate(snapshot({"orders/billing": group(101)}), at(0))
    assert names(viewer, "alerts/", "is_silenced") == [False]
    ends = timezone.now() + timedelta(days=1)
    silence = made(operator, "silences", {"target": "orders", "ends_at": ends.isoformat(), "reason": "works"})
    assert names(viewer, "alerts/", "is_silenced") == [True]
    row = viewer.get(f"{API}/silences/{silence}/").json()
    assert (row["rule"], row["target"], row["is_active"], row["ended_by"]) == ("*", "orders", True, None)
    problem(operator.delete(f"{API}/silences/{silence}/", HTTP_IF_MATCH='"v7"'), 412, "change.stale")
    assert operator.delete(f"{API}/silences/{silence}/", {"reason": "done"}).status_code == 200
    row = viewer.get(f"{API}/silences/{silence}/").json()
    assert (row["is_active"], row["ended_by"][:13]) == (False, "operator-user")
    assert names(viewer, "alerts/", "is_silenced") == [False]
    problem(operator.delete(f"{API}/silences/{silence}/"), 409, "silence.ended")
    problem(operator.delete(f"{API}/silences/99/"), 404, "silence.unknown")


def test_silences_that_are_refused(operator: APIClient, monkeypatch: pytest.MonkeyPatch):
    now = timezone.now()

    def ask(**values: Any) -> Any:
        ends = (now + timedelta(hours=1)).isoformat()
        return operator.post(f"{API}/silences/", {"target": "orders", "ends_at": ends, "reason": "works", **values})

    assert ask(ends_at=(now + timedelta(days=29, hours=23)).isoformat()).status_code == 201
    for field, value in {
        "ends_at": (now + timedelta(days=30, minutes=1)).isoformat(),
        "reason": "",
        "target": "",
        "rule": "x" * 301,
    }.items():
        answer = ask(**{field: value})
        assert (answer.status_code, field in answer.json()["fields"]) == (400, True), answer.json()
    assert ask(ends_at=(now - timedelta(minutes=1)).isoformat()).status_code == 400
    assert ask(starts_at=(now + timedelta(hours=2)).isoformat()).status_code == 400
    monkeypatch.setattr("console.alerts.services.silences.SILENCES_MAX", 1)
    problem(ask(), 400, "silence.too_many")


@pytest.mark.database
def test_filters_of_silences(operator: APIClient):
    now = timezone.now()
    rows = {"past": (-2, -1), "now": (-1, 1), "ahead": (1, 2)}
    for name, (begin, end) in rows.items():
        Silence.objects.create(
            rule=f"rule {name}", target=f"{name}/*", reason=name, created_by=f"by {name}",
            starts_at=now + timedelta(hours=begin), ends_at=now + timedelta(hours=end),
        )  # fmt: skip
    for query, expected in {
        "": ["ahead", "now", "past"],
        "is_active=true": ["now"],
        "is_active=false": ["ahead", "past"],
        "rule=PAST": ["past"],
        "target=ahead/*": ["ahead"],
        "target=ahead/": [],
        "target_contains=HEAD/": ["ahead"],
        "created_by=by now": ["now"],
        "ordering=ends_at": ["past", "now", "ahead"],
    }.items():
        assert names(operator, f"silences/?{query}", "reason") == expected, query


# --- channels ---------------------------------------------------------------------------------------------------------


def test_secrets_go_in_and_never_out(admin: APIClient, operator: APIClient):
    channel = made(admin, "alert-channels", {**HOOK, "headers": {"X-Key": "hidden too"}})
    created = admin.post(f"{API}/alert-channels/?dry_run=true", {**HOOK, "name": "other"})
    patched = admin.patch(f"{API}/alert-channels/{channel}/", {"secret": "a new hidden secret"})
    assert patched.json()["is_change"], "a new secret is a change, and the audit log has it"
    texts = [
        admin.get(f"{API}/alert-channels/").content,
        admin.get(f"{API}/alert-channels/{channel}/").content,
        created.content,
        patched.content,
        str(list(AuditEntry.objects.values())).encode(),
    ]
    for text in texts:
        assert b"hidden" not in text
        assert b"0123456789abcdef" not in text
    row = admin.get(f"{API}/alert-channels/{channel}/").json()
    assert (row["origin"], row["headers"], row["has_secret"]) == ("https://hooks.example.com", ["X-Key"], True)
    row = operator.get(f"{API}/alert-channels/{channel}/").json()
    assert (row["name"], row["origin"], row["addresses"], row["headers"]) == ("hook", None, None, None)
    admin.patch(f"{API}/alert-channels/{channel}/", {"secret": None})
    assert not admin.get(f"{API}/alert-channels/{channel}/").json()["has_secret"]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({**HOOK, "kind": "pigeon"}, "kind"),
        ({"name": "x", "kind": "webhook"}, "url"),
        ({"name": "x", "kind": "email"}, "addresses"),
        ({**HOOK, "url": "ftp://example.com"}, "url"),
        ({**HOOK, "url": "https://user:pw@example.com/"}, "url"),
        ({**HOOK, "addresses": ["a@example.com"]}, "addresses"),
        ({**HOOK, "secret": "short"}, "secret"),
        ({**HOOK, "headers": {"Host": "x"}}, "headers"),
        ({**HOOK, "headers": {"X-QMQ-Signature": "x"}}, "headers"),
        ({**HOOK, "headers": {"content-length": "1"}}, "headers"),
        ({**HOOK, "headers": {"X A": "x"}}, "headers"),
        ({**HOOK, "headers": {"X-A": "x\r\nY: z"}}, "headers"),
        ({**HOOK, "headers": {f"X-{n}": "x" for n in range(21)}}, "headers"),
        ({**MAIL, "addresses": []}, "addresses"),
        ({**MAIL, "addresses": ["nobody"]}, "addresses"),
        ({**MAIL, "addresses": ["a@example.com\nBcc: b@example.com"]}, "addresses"),
        ({**MAIL, "url": "https://example.com/"}, "url"),
    ],
)
def test_channels_that_are_refused(admin: APIClient, body: dict[str, Any], field: str):
    answer = admin.post(f"{API}/alert-channels/", body)
    assert (answer.status_code, field in answer.json()["fields"]) == (400, True), answer.json()
    assert not AlertChannel.objects.exists()


def test_the_life_of_a_channel(admin: APIClient):
    channel = made(admin, "alert-channels", MAIL)
    problem(admin.post(f"{API}/alert-channels/", MAIL), 409, "alert_channel.exists")
    rule = made(admin, "alert-rules", {**RULE, "channels": ["mail"]})
    problem(admin.delete(f"{API}/alert-channels/{channel}/"), 409, "alert_channel.used")
    problem(admin.patch(f"{API}/alert-channels/{channel}/", {}, HTTP_IF_MATCH='"v3"'), 412, "change.stale")
    done = admin.patch(f"{API}/alert-channels/{channel}/", {"addresses": ["b@example.com"], "reason": "moved"})
    assert (done["ETag"], done.json()["after"]["addresses"]) == ('"v2"', ["b@example.com"])
    admin.patch(f"{API}/alert-rules/{rule}/", {"channels": []})
    assert admin.delete(f"{API}/alert-channels/{channel}/", HTTP_IF_MATCH='"v2"').status_code == 200
    problem(admin.get(f"{API}/alert-channels/{channel}/"), 404, "alert_channel.unknown")


def test_channels_are_limited(admin: APIClient, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("console.alerts.services.channels.CHANNELS_MAX", 0)
    problem(admin.post(f"{API}/alert-channels/", MAIL), 400, "alert_channel.too_many")


@pytest.mark.database
def test_filters_of_channels(admin: APIClient):
    made(admin, "alert-channels", HOOK)
    made(admin, "alert-channels", {**MAIL, "is_enabled": False})
    for query, expected in {
        "": ["hook", "mail"],
        "search=OO": ["hook"],
        "search=%25": [],
        "search=_": [],
        "kind=email": ["mail"],
        "is_enabled=true": ["hook"],
        "is_enabled=false": ["mail"],
        "ordering=-name": ["mail", "hook"],
        "ordering=created_at": ["hook", "mail"],
    }.items():
        assert names(admin, f"alert-channels/?{query}") == expected, query


def test_trying_a_channel(admin: APIClient, receiver: Receiver):
    channel = made(admin, "alert-channels", {**HOOK, "url": receiver.url})
    address = f"{API}/alert-channels/{channel}/test/"
    told = admin.post(f"{address}?dry_run=true", {}).json()
    assert (told["is_told"], told["dry_run"], receiver.requests) == (True, True, [])
    told = admin.post(address, {"reason": "new channel"}).json()
    assert (told["is_told"], told["code"]) == (True, "")
    assert len(receiver.requests) == 1
    receiver.status = 500
    told = admin.post(address, {}).json()
    assert (told["is_told"], told["code"]) == (False, "alert_channel.failed")
    assert told["detail"].endswith("answered 500")
    row = admin.get(f"{API}/alert-channels/{channel}/").json()
    assert row["last_error"] == told["detail"]
    assert row["last_success_at"] is not None
    assert AuditEntry.objects.filter(action="alert_channel.test").count() == 2
    problem(admin.post(f"{API}/alert-channels/99/test/", {}), 404, "alert_channel.unknown")


def test_trying_a_channel_reaches_nothing_inside(admin: APIClient, receiver: Receiver, settings: Any):
    settings.WEBHOOK_NETWORKS = []
    channel = made(admin, "alert-channels", {**HOOK, "url": receiver.url})
    for dry_run in ("true", "false"):
        told = admin.post(f"{API}/alert-channels/{channel}/test/?dry_run={dry_run}", {}).json()
        assert (told["is_told"], told["code"]) == (False, "alert_channel.address_forbidden")
    assert receiver.requests == []
