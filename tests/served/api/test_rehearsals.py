"""/rehearsals/: the groups that a node or a rack leads, switched over one by one, and back."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from rest_framework.test import APIClient

from console.accounts.roles import Role
from console.cluster import switch_over as module
from console.reports.rehearsals import UNDO_HOURS
from metaserver import domain
from metaserver.choices import GroupKind, GroupState
from metaserver.models import AuditEntry, BrokerGroup, Node
from metaserver.services import broker_groups
from metaserver.services.changes import METASERVER
from tests.support.console.members import MASTER, REPORT, ROW, FakeMaster, report
from tests.support.console.people import browser, person

pytestmark = pytest.mark.django_db
WHERE = "/api/v1/rehearsals/"


def group(name: str, kind: GroupKind, racks: dict[str, str]) -> None:
    """A group led by the first of these nodes, all of them in sync."""
    nodes = tuple(racks)
    row = replace(ROW, broker_group=name, members=nodes, in_sync=nodes, master=nodes[0], copies=len(nodes))
    stored = domain.BrokerGroup(kind, GroupState.READ_WRITE, row)
    broker_groups.save_group(stored, actor=METASERVER, reason="registered")
    report(nodes[0], MASTER, group=name, rack=racks[nodes[0]])
    for node in nodes[1:]:
        report(node, REPORT, group=name, rack=racks[node])


@pytest.fixture
def admin(db: None) -> APIClient:
    group("g1", GroupKind.BROKER, {"a": "r1", "b": "r2"})
    group("d1", GroupKind.DELAY, {"c": "r1", "d": "r1"})
    group("g2", GroupKind.BROKER, {"e": "r2", "f": "r1"})
    group("g3", GroupKind.BROKER, {"h": "r1"})
    return browser(person("root", Role.ADMIN))


@pytest.fixture
def master(monkeypatch: pytest.MonkeyPatch) -> FakeMaster:
    found = FakeMaster()
    monkeypatch.setattr(module, "node_admin", found.at)
    return found


def planned(answer: Any) -> list[tuple[str, str, str, str]]:
    assert answer.status_code == 200, answer.json()
    return [(row["broker_group"], row["master"], row["to"], row["reason"]) for row in answer.json()["plan"]]


def rehearse(admin: APIClient, rehearsal: str) -> None:
    """Switch over g1 from a to b, as a rehearsal."""
    assert admin.post("/api/v1/broker-groups/g1/switch-over/", {"to": "b", "rehearsal": rehearsal}).status_code == 200
    BrokerGroup.objects.filter(name="g1").update(master="b")
    report("a", replace(REPORT, log_end=6000))
    report("b", MASTER, rack="r2")


@pytest.mark.database
def test_the_plan_of_a_node_and_of_a_rack(admin: APIClient) -> None:
    assert planned(admin.get(WHERE)) == []
    assert planned(admin.get(WHERE, {"node": "a"})) == [("g1", "a", "b", "")]
    assert planned(admin.get(WHERE, {"node": "b"})) == [], "a slave leads nothing"
    answer = admin.get(WHERE, {"rack": "r1"})
    assert sorted(planned(answer)) == [
        ("d1", "c", "", "all nodes that could lead it are on rack r1"),
        ("g1", "a", "b", ""),
        ("g3", "h", "", "the group has one member"),
    ]
    assert answer.json()["racks"] == [{"rack": "r1", "nodes": 5, "groups": 3}, {"rack": "r2", "nodes": 2, "groups": 1}]
    assert {row["why"]["code"] for row in answer.json()["plan"] if row["why"]} == {"none_elsewhere", "one_member"}


def test_a_group_whose_slave_is_behind_can_not_be_switched_over(admin: APIClient) -> None:
    report("b", replace(REPORT, role="following"), rack="r2")
    BrokerGroup.objects.filter(name="g1").update(in_sync=["a"])
    ((name, _, to, why),) = planned(admin.get(WHERE, {"node": "a"}))
    assert (name, to, why) == ("g1", "", "node b: it is not in sync")


@pytest.mark.database
def test_what_a_rehearsal_switched_over_can_be_switched_back(admin: APIClient, master: FakeMaster) -> None:
    rehearse(admin, "node a")
    (row,) = admin.get(WHERE).json()["undo"]
    assert (row["broker_group"], row["master"], row["to"], row["rehearsal"], row["actor"], row["reason"]) == (
        "g1", "b", "a", "node a", "root", "",
    )  # fmt: skip
    assert AuditEntry.objects.get(action="broker_group.switch_over").after["rehearsal"] == "node a"
    Node.objects.filter(node_id="a").update(leased_at=None)
    (row,) = admin.get(WHERE).json()["undo"]
    assert (row["to"], row["reason"]) == ("", "node a: it does not send heartbeats")
    report("a", replace(REPORT, log_end=6000))
    BrokerGroup.objects.filter(name="g1").update(master="a")
    report("a", MASTER)
    report("b", REPORT, rack="r2")
    assert admin.get(WHERE).json()["undo"] == [], "a leads again"


def test_a_switch_over_that_is_no_rehearsal_is_not_undone(admin: APIClient, master: FakeMaster) -> None:
    rehearse(admin, "")
    assert admin.get(WHERE).json()["undo"] == []


def test_a_rehearsal_of_yesterday_is_not_undone(admin: APIClient, master: FakeMaster) -> None:
    rehearse(admin, "rack r1")
    assert len(admin.get(WHERE).json()["undo"]) == 1
    entry = AuditEntry.objects.get(action="broker_group.switch_over")
    AuditEntry.objects.filter(pk=entry.pk).update(at=entry.at - timedelta(hours=UNDO_HOURS, seconds=1))
    assert admin.get(WHERE).json()["undo"] == []


@pytest.mark.parametrize(
    ("query", "status", "code"),
    [
        ({"node": "z"}, 404, "node.unknown"),
        ({"rack": "r9"}, 404, "rack.unknown"),
        ({"node": "a", "rack": "r1"}, 400, "request.invalid"),
        ({"node": "x" * 101}, 400, "request.invalid"),
        ({"rack": "r\x00"}, 400, "request.invalid"),
        ({"group": "g1"}, 400, "request.unknown_parameter"),
    ],
)
def test_bad_requests(admin: APIClient, query: dict[str, str], status: int, code: str) -> None:
    answer = admin.get(WHERE, query)
    assert (answer.status_code, answer.json()["code"]) == (status, code)
