"""/broker-groups/ and /nodes/ as far as no node is asked."""

from typing import Any

import pytest
from rest_framework.test import APIClient

from api.views.broker_groups import BrokerGroupsView, NodesView
from console.accounts.roles import Role
from console.jobs.rebalance import waiting_for
from console.models import BackgroundJob
from console.reports.overview import NODE_NUMBERS
from metaserver.choices import GroupKind, GroupState, OperatorState, Phase
from metaserver.models import BrokerGroup, Node, SubjectRoute
from qmq.protocol.codes import Role as WireRole
from tests.support.console.metadata import audit_rows, broker_group, everything, route
from tests.support.console.people import browser, person

pytestmark = pytest.mark.django_db
LIST, NODES = "/api/v1/broker-groups/", "/api/v1/nodes/"


@pytest.fixture
def admin(db: None) -> APIClient:
    for name in ("g1", "g2", "g3"):
        broker_group(name)
    broker_group("d1", kind=GroupKind.DELAY)
    route("orders", "g1", "g2")
    return browser(person("root", Role.ADMIN))


def unapproved(name: str) -> None:
    """A broker group that waits for approval."""
    broker_group(name, GroupState.OFFLINE)
    BrokerGroup.objects.filter(name=name).update(operator_state=OperatorState.UNAPPROVED)


def refused(answer: Any) -> tuple[int, str]:
    return answer.status_code, answer.json()["code"]


@pytest.mark.database
@pytest.mark.parametrize(
    ("path", "key", "query", "expected"),
    [
        (LIST, "name", "", ["d1", "g1", "g2", "g3"]), (LIST, "name", "search=G", ["g1", "g2", "g3"]),
        (LIST, "name", "kind=delay", ["d1"]), (LIST, "name", "operator_state=normal&kind=broker", ["g1", "g2", "g3"]),
        (LIST, "name", "operator_state=draining", []),
        (NODES, "broker_group", "", ["d1", "g1", "g2", "g3"]), (NODES, "broker_group", "broker_group=g2", ["g2"]),
        (NODES, "broker_group", "kind=delay", ["d1"]), (NODES, "broker_group", "search=G3-N", ["g3"]),
    ],
)  # fmt: skip
def test_each_filter(admin: APIClient, path: str, key: str, query: str, expected: list[str]) -> None:
    assert sorted(row[key] for row in admin.get(f"{path}?{query}").json()["results"]) == expected


@pytest.mark.database
def test_a_list_says_how_many_subjects_each_serves_as_its_page_does(admin: APIClient) -> None:
    route("parts", "g1")
    SubjectRoute.objects.filter(subject__name="parts").update(phases={"g1": Phase.DRAINING}, has_phases=True)
    said = {row["name"]: (row["subjects"], row["subjects_moving"]) for row in admin.get(LIST).json()["results"]}
    assert said == {"d1": (0, 0), "g1": (2, 1), "g2": (1, 0), "g3": (0, 0)}
    for name, expected in said.items():
        page = admin.get(f"{LIST}{name}/").json()
        assert (page["subjects"], page["subjects_moving"]) == expected


@pytest.mark.database
@pytest.mark.parametrize(
    ("path", "field"),
    [(LIST, field) for field in BrokerGroupsView.ordering_fields]
    + [(NODES, field) for field in NodesView.ordering_fields if field not in NODE_NUMBERS],
)
def test_each_order(admin: APIClient, path: str, field: str) -> None:
    up = [row[field] for row in admin.get(f"{path}?ordering={field}").json()["results"]]
    assert up == sorted(up)
    assert [row[field] for row in admin.get(f"{path}?ordering=-{field}").json()["results"]] == up[::-1]
    assert refused(admin.get(f"{path}?ordering=description")) == (400, "request.invalid")
    assert refused(admin.get(f"{path}?kind=other")) == (400, "request.invalid")


@pytest.mark.parametrize(
    ("role", "expected"),
    [
        (WireRole.MASTER, "master"), (WireRole.SLAVE, "slave"), (WireRole.STANDBY, "slave"), (WireRole.DELAY, "master"),
        (WireRole.BACKUP, "slave"), (WireRole.DELAY_MASTER, "master"), (WireRole.DELAY_SLAVE, "slave"),
        (WireRole.DELAY_BACKUP, "slave"),
    ],
)  # fmt: skip
def test_a_node_is_shown_with_the_role_that_it_registered(admin: APIClient, role: WireRole, expected: str) -> None:
    Node.objects.filter(broker_group__name="g1").update(role=role)
    (row,) = admin.get(f"{NODES}?broker_group=g1").json()["results"]
    assert row["role"] == expected


def test_every_change_has_a_dry_run_that_says_the_same_and_does_nothing(admin: APIClient) -> None:
    unapproved("wild")
    calls: list[tuple[str, str, dict[str, Any], int]] = [
        ("post", LIST, {"name": "g4", "description": "new", "reason": "load"}, 201),
        ("patch", f"{LIST}g4/", {"description": "newer"}, 200),
        ("delete", f"{LIST}g4/", {"reason": "not needed"}, 200),
        ("post", f"{LIST}wild/approve/", {"reason": "new rack"}, 200),
        ("post", f"{LIST}g1/read-only/", {"reason": "disk"}, 200),
        ("post", f"{LIST}g1/drain/", {"reason": "disk"}, 200),
        ("post", f"{LIST}g1/writable/", {}, 200),
        ("post", f"{NODES}g1-node/accept-log-loss/", {"log_end": "5", "reason": "disk swapped"}, 200),
    ]
    for method, path, body, status in calls:
        before = everything()
        planned = getattr(admin, method)(f"{path}?dry_run=true", body)
        assert (planned.status_code, everything()) == (200, before), planned.content
        done = getattr(admin, method)(path, body)
        assert done.status_code == status, done.content
        assert done.json() == planned.json() | {"dry_run": False}
        assert len(audit_rows()) == len(before["audit"]) + 1
    entry = admin.get("/api/v1/audit/?action=broker_group.remove").json()["results"][0]
    assert (entry["target"], entry["reason"]) == ("g4", "not needed")


def test_what_clients_are_told_is_less_what_an_operator_took_away(admin: APIClient) -> None:
    admin.post(f"{LIST}g1/drain/", {"reason": "old"})
    row = admin.get(f"{LIST}g1/").json()
    assert (row["state"], row["reported_state"], row["operator_state"]) == ("read_only", "read_write", "draining")
    assert (row["subjects"], row["subjects_moving"], row["may_be_removed"]) == (1, 0, False)
    assert row["operator_since"] is not None
    broker_group("g1", GroupState.OFFLINE)
    assert admin.get(f"{LIST}g1/").json()["state"] == "offline"
    broker_group("g3", GroupState.OFFLINE)
    assert admin.get(f"{LIST}g3/").json()["may_be_removed"] is True


def test_a_group_that_waits_for_approval_is_listed_and_its_node_is_not_asked(admin: APIClient) -> None:
    unapproved("wild")
    row = admin.get(f"{LIST}?operator_state=unapproved").json()["results"][0]
    assert (row["name"], row["state"], row["operator_state"]) == ("wild", "offline", "unapproved")
    assert row["nodes"][0]["address"] == "127.0.0.1:1"
    node = admin.get(f"{NODES}wild-node/").json()
    assert (node["stats"], node["unknown_reason"]) == (None, "broker group wild is pending approval")
    found = admin.get("/api/v1/overview/").json()
    assert (found["broker_groups"]["offline"], found["nodes"]) == (0, 4)
    assert refused(admin.post(f"{LIST}wild/writable/")) == (409, "broker_group.unapproved")
    operator = browser(person("olga", Role.OPERATOR))
    assert refused(operator.post(f"{LIST}wild/approve/"))[0] == 403
    assert refused(admin.post(f"{LIST}none/approve/")) == (404, "broker_group.unknown")
    assert refused(admin.post(f"{LIST}wild/approve/", HTTP_IF_MATCH='"v7"')) == (412, "change.stale")
    assert admin.post(f"{LIST}wild/approve/", {"reason": "ours"}).json()["is_change"] is True
    assert admin.post(f"{LIST}wild/approve/").json()["is_change"] is False
    assert admin.get(f"{LIST}wild/").json()["operator_state"] == "normal"


def test_refusals(admin: APIClient) -> None:
    operator = browser(person("olga", Role.OPERATOR))
    before = everything()
    assert refused(admin.post(LIST, {"name": "g1"})) == (409, "broker_group.exists")
    assert refused(admin.post(LIST, {"name": "a/b"})) == (400, "broker_group.name_illegal")
    assert refused(admin.post(LIST, {"name": "g9", "kind": "other"})) == (400, "request.invalid")
    assert refused(admin.post(f"{LIST}d1/drain/")) == (409, "broker_group.last_writable")
    assert refused(admin.post(f"{LIST}none/drain/")) == (404, "broker_group.unknown")
    assert refused(admin.delete(f"{LIST}g1/")) == (409, "broker_group.not_empty")
    assert refused(admin.delete(f"{LIST}g3/")) == (409, "broker_group.live")
    assert refused(admin.post(f"{LIST}g1/drain/", HTTP_IF_MATCH='"v7"')) == (412, "change.stale")
    loss = f"{NODES}g1-node/accept-log-loss/"
    assert refused(admin.post(loss, {"log_end": "1001", "reason": "r"})) == (400, "node.log_end_invalid")
    for body in (
        {"log_end": "5"},
        {"reason": "r"},
        {"log_end": "-1", "reason": "r"},
        {"log_end": "9" * 19, "reason": "r"},
    ):
        assert refused(admin.post(loss, body)) == (400, "request.invalid")
    assert refused(admin.post(f"{NODES}none/accept-log-loss/", {"log_end": "5", "reason": "r"})) == (
        404,
        "node.unknown",
    )
    for path in (LIST, f"{LIST}g1/drain/", loss):
        assert refused(operator.post(path, {"name": "g5"})) == (403, "access.denied")
    assert everything() == before


def test_a_node_that_can_not_be_asked_is_shown_with_the_reason(admin: APIClient) -> None:
    broker_group("g4", admin_address="")
    for node in ("g1-node", "g4-node"):
        page = admin.get(f"{NODES}{node}/").json()
        assert (page["stats"], bool(page["unknown_reason"])) == (None, True)
    assert refused(admin.get(f"{NODES}none/")) == (404, "node.unknown")


def test_a_broker_group_says_what_the_subjects_that_leave_it_wait_for(admin: APIClient) -> None:
    def reason(group: str, broker_group: str) -> dict[str, Any]:
        values = {"subject": "orders", "broker_group": broker_group, "group": group, "count": 3}
        return {"code": "waiting.lag", "text": f"orders on {broker_group}: group {group} has 3", "values": values}

    no_response = {"code": "waiting.no_response", "text": "parts: no response in time", "values": {"subject": "parts"}}
    waiting = {"parts": [no_response], "orders": [reason("billing", "g1"), reason("audit", "g2")]}
    BackgroundJob.objects.create(name="moves", state={"waiting": waiting})
    shown = admin.get("/api/v1/broker-groups/g1/").json()["waiting"]
    assert shown == [{"subject": "orders", **reason("billing", "g1")}]
    both = [{"subject": "orders", **reason("billing", "g1")}, {"subject": "orders", **reason("audit", "g2")}]
    assert waiting_for("orders") == both
