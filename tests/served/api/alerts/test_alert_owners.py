"""Who may change which alert rule, silence and alert: their owners' operators and administrators, nobody else."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from console.accounts.models import User
from console.accounts.roles import Role, Scope
from console.alerts.models import Alert, AlertRule, Silence
from console.alerts.services import evaluate
from metaserver.models import AuditEntry, Team
from metaserver.services.subjects import create_subject, update_subject
from metaserver.services.teams import create_team
from tests.served.api.alerts.receiver import ACTOR
from tests.served.api.alerts.requests import API, RULE, made, problem
from tests.served.api.alerts.system_state import at, group, snapshot
from tests.support.console.people import machine

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def teams(db: None) -> None:
    """Subject `orders` of team sales, `parcels` of team storage, `free` of no team; no rule is enabled."""
    AlertRule.objects.update(is_enabled=False)
    for subject, team in (("orders", "sales"), ("parcels", "storage")):
        create_team(team, actor=ACTOR)
        create_subject(subject, {"owner": team}, actor=ACTOR)
    create_subject("free", {}, actor=ACTOR)


def _operator(name: str, *teams: str) -> APIClient:
    user = User.objects.create(username=name, role=Role.OPERATOR)
    user.teams.set(Team.objects.filter(name__in=teams))
    return machine(user, Scope.OPERATE)


@pytest.fixture
def own() -> APIClient:
    return _operator("olga", "sales")


@pytest.fixture
def other() -> APIClient:
    return _operator("otto", "storage")


@pytest.fixture
def both() -> APIClient:
    return _operator("bo", "sales", "storage")


def silence(client: APIClient, **values: Any) -> Any:
    ends = (timezone.now() + timedelta(hours=1)).isoformat()
    return client.post(f"{API}/silences/", {"ends_at": ends, "reason": "works", **values})


def firing(*targets: str) -> None:
    """Let an alert fire on each of these consumer groups."""
    if not AlertRule.objects.filter(name="lag").exists():
        AlertRule.objects.create(name="lag", kind="lag", threshold=100, clear_threshold=80, severity="critical")
    evaluate(snapshot({target: group(101) for target in targets}), at(0))


def silenced(client: APIClient) -> set[str]:
    """The targets of the alerts that are silenced."""
    return {row["target"] for row in client.get(f"{API}/alerts/").json()["results"] if row["is_silenced"]}


def test_a_rule_belongs_to_its_creators_team_or_to_its_subjects_owner(
    own: APIClient, other: APIClient, both: APIClient, admin: APIClient
) -> None:
    def owner(client: APIClient, **values: Any) -> Any:
        rule = made(client, "alert-rules", {**RULE, "name": f"r{AlertRule.objects.count()}", **values})
        return client.get(f"{API}/alert-rules/{rule}/").json()["owner"]

    assert owner(own) == "sales"
    assert owner(own, target="free") == "sales"
    assert owner(own, kind="disk") == "sales"
    assert owner(own, target="orders/billing") == "sales"
    assert owner(both) is None
    assert owner(both, owner="storage") == "storage"
    assert owner(both, target="parcels") == "storage"
    assert owner(admin) is None
    assert owner(admin, target="parcels") == "storage"
    assert owner(admin, owner="sales") == "sales"
    for values, status, code in (
        ({"target": "parcels"}, 403, "access.denied"),
        ({"target": "parcels/x"}, 403, "access.denied"),
        ({"target": "%RETRY%parcels%x"}, 403, "access.denied"),
        ({"owner": "storage"}, 403, "access.denied"),
        ({"owner": "no-team"}, 400, "alert_rule.invalid"),
    ):
        problem(own.post(f"{API}/alert-rules/", {**RULE, "name": "wrong", **values}), status, code)
    mixed = both.post(f"{API}/alert-rules/", {**RULE, "name": "wrong", "target": "parcels", "owner": "sales"})
    assert "owner" in problem(mixed, 400, "alert_rule.invalid")["fields"]


def test_operators_of_other_teams_change_no_rule(own: APIClient, other: APIClient, admin: APIClient) -> None:
    glob = made(own, "alert-rules", {**RULE, "name": "mine"})
    literal = made(own, "alert-rules", {**RULE, "name": "of orders", "target": "orders"})
    before = AuditEntry.objects.count()
    for rule in (glob, literal):
        for values in (
            {"is_enabled": False},
            {"threshold": 10**9},
            {"target": "nothing"},
            {"owner": None},
            {"channels": []},
        ):
            for query in ("", "?dry_run=true"):
                problem(other.patch(f"{API}/alert-rules/{rule}/{query}", values), 403, "access.denied")
        problem(other.delete(f"{API}/alert-rules/{rule}/"), 403, "access.denied")
        problem(own.patch(f"{API}/alert-rules/{rule}/", {"owner": "storage"}), 403 if rule == glob else 400, (
            "access.denied" if rule == glob else "alert_rule.invalid"
        ))  # fmt: skip
    assert AuditEntry.objects.count() == before
    assert own.patch(f"{API}/alert-rules/{glob}/", {"is_enabled": False}).status_code == 200
    update_subject("orders", {"owner": "storage"}, actor=ACTOR)
    problem(own.patch(f"{API}/alert-rules/{literal}/", {"is_enabled": False}), 403, "access.denied")
    assert other.patch(f"{API}/alert-rules/{literal}/", {"is_enabled": False}).status_code == 200
    assert other.get(f"{API}/alert-rules/{literal}/").json()["owner"] == "storage"
    assert admin.delete(f"{API}/alert-rules/{glob}/").status_code == 200


def test_built_in_rules_are_for_administrators(own: APIClient, admin: APIClient) -> None:
    for rule in AlertRule.objects.filter(builtin__isnull=False):
        address = f"{API}/alert-rules/{rule.pk}/?dry_run=true"
        problem(own.patch(address, {"is_enabled": False}), 403, "access.denied")
        assert admin.patch(address, {"is_enabled": True}).status_code == 200


def test_a_silence_of_an_operator_holds_for_their_team_and_for_unowned_subjects(
    own: APIClient, other: APIClient, admin: APIClient
) -> None:
    firing("orders/a", "parcels/a", "free/a")
    for everything in ({}, {"rule": "*", "target": "*"}, {"target": "**"}, {"rule": "***"}):
        problem(silence(own, **everything), 403, "access.denied")
    problem(silence(own, owner="storage"), 403, "access.denied")
    assert "owner" in problem(silence(own, owner="no-team"), 400, "silence.invalid")["fields"]
    assert silence(own, target="?*").status_code == 201
    assert silenced(admin) == {"orders/a", "free/a"}
    assert silence(own, target="parcels").status_code == 201
    assert silence(own, owner="sales").status_code == 201, "everything of one team"
    assert silenced(admin) == {"orders/a", "free/a"}
    assert silence(admin).status_code == 201
    assert silenced(admin) == {"orders/a", "parcels/a", "free/a"}
    rows = admin.get(f"{API}/silences/?ordering=id").json()["results"]
    assert [(row["owner"], row["is_system"]) for row in rows] == [("sales", False)] * 3 + [(None, True)]


def test_an_operators_silence_leaves_alerts_of_the_system_alone(
    own: APIClient, both: APIClient, admin: APIClient
) -> None:
    """Also when a subject is called like a broker group."""
    values = {
        "threshold": 1,
        "since": timezone.now(),
        "last_seen_at": timezone.now(),
        "value": 2,
        "severity": "critical",
    }
    Alert.objects.create(
        rule_name="offline", kind="group_state", target="g1", state="firing", place=1, open_key="k", **values
    )
    create_subject("g1", {"owner": "sales"}, actor=ACTOR)
    for client in (own, both):
        assert silence(client, target="g1").status_code == 201
        assert silence(client, rule="offline", target="g*").status_code == 201
    assert silenced(admin) == set()
    assert silence(admin, target="g1").status_code == 201
    assert silenced(admin) == {"g1"}


def test_the_team_of_a_silence_that_names_none(both: APIClient, admin: APIClient) -> None:
    def owner(client: APIClient, **values: Any) -> Any:
        answer = silence(client, **values)
        assert answer.status_code == 201, answer.json()
        return answer.json()["after"]["owner"]

    assert owner(both, target="parcels/x") == "storage"
    assert owner(both, target="orders") == "sales"
    assert owner(both, target="free") is None
    assert owner(_operator("nina"), target="free") is None
    assert owner(admin, owner="sales") == "sales"
    scope = "Applies to alerts of team sales and of subjects without an owner."

    def notes(client: APIClient, **values: Any) -> list[str]:
        return [note["text"] for note in silence(client, **values).json()["notes"]]

    assert notes(both, target="orders") == [scope]
    assert notes(both, target="free") == ["Applies to alerts of subjects without an owner."]
    assert notes(admin) == []


def test_operators_of_other_teams_end_no_silence(
    own: APIClient, other: APIClient, admin: APIClient, caller: Callable[[Role], APIClient]
) -> None:
    mine = silence(own, target="orders").json()["target"]
    everyones = silence(admin).json()["target"]
    unowned = silence(caller(Role.OPERATOR), target="free").json()["target"]
    problem(other.delete(f"{API}/silences/{mine}/"), 403, "access.denied")
    for client in (own, other):
        problem(client.delete(f"{API}/silences/{everyones}/"), 403, "access.denied")
    assert Silence.objects.filter(ends_at__gt=timezone.now()).count() == 3
    for client, which in ((own, mine), (other, unowned), (admin, everyones)):
        assert client.delete(f"{API}/silences/{which}/").status_code == 200


def test_acknowledging_is_for_the_owner_of_the_subject(own: APIClient, other: APIClient, admin: APIClient) -> None:
    """An acknowledged alert is not announced when its silence ends."""
    firing("orders/a", "free/a", "%DEAD_RETRY%orders%a/a")
    for alert in Alert.objects.exclude(target="free/a"):
        problem(other.post(f"{API}/alerts/{alert.pk}/acknowledge/", {}), 403, "access.denied")
        assert own.post(f"{API}/alerts/{alert.pk}/acknowledge/", {}).status_code == 200
    free = Alert.objects.get(target="free/a")
    assert other.post(f"{API}/alerts/{free.pk}/acknowledge/", {}).status_code == 200
