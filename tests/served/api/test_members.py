"""/broker-groups/ of groups with several members: what is shown, and copies, switch-overs, promotions and stops."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction
from django.utils import timezone
from rest_framework.test import APIClient

from console.accounts.roles import Role
from console.cluster import switch_over as module
from console.reports import node_stop, overview
from metaserver import domain, queries
from metaserver.choices import GroupKind, GroupState
from metaserver.memory.membership_wishes import MembershipWish
from metaserver.models import AuditEntry, BrokerGroup, Node
from metaserver.services import audit, broker_groups
from metaserver.services.changes import METASERVER, Actor
from metaserver.stored.orm_repository import OrmMembershipStore
from qmq.errors import ConnectionLost, QmqError
from qmq.node_admin import NodeRefused
from qmq.protocol.group_memberships import InSyncChange
from qmq.protocol.reasons import Code, Reason
from qmq_node.replication.rules.membership import ChangeInSync
from tests.support.console.members import MASTER, REPORT, ROW, FakeMaster, report
from tests.support.console.metadata import audit_rows, everything, route
from tests.support.console.people import browser, person

pytestmark = pytest.mark.django_db
GROUP = "/api/v1/broker-groups/g1/"


@pytest.fixture(params=GroupKind)
def admin(db: None, request: pytest.FixtureRequest) -> APIClient:
    row = domain.BrokerGroup(request.param, GroupState.READ_WRITE, ROW)
    broker_groups.save_group(row, actor=METASERVER, reason="registered")
    report("a", MASTER)
    report("b", REPORT)
    return browser(person("root", Role.ADMIN))


@pytest.fixture
def master(monkeypatch: pytest.MonkeyPatch) -> FakeMaster:
    found = FakeMaster()
    monkeypatch.setattr(module, "node_admin", found.at)
    return found


def refused(answer: Any) -> tuple[int, str]:
    return answer.status_code, answer.json()["code"]


@pytest.mark.database
def test_a_group_is_shown_with_its_members_and_their_changes(admin: APIClient) -> None:
    admin.post(f"{GROUP}promote/", {"node": "b", "reason": "test"})
    Node.objects.filter(node_id="a").update(leased_at=None)
    assert (
        admin.post(f"{GROUP}promote/", {"node": "b", "accept_loss_bytes": 0, "reason": "a is lost"}).status_code == 200
    )
    shown = admin.get(GROUP).json()
    assert (shown["members"], shown["copies"], shown["in_sync"], shown["master"]) == (["a", "b"], 2, ["b"], "b")
    a, b = shown["member_states"]
    assert (a["node_id"], a["role"], a["in_sync"], a["problem"]) == (
        "a",
        "offline",
        False,
        "it does not send heartbeats",
    )
    assert (b["role"], b["is_master"], b["epoch"], b["log_end"], b["rack"], b["sync_address"]) == (
        "in_sync", True, "3", "5000", "r1", "b:3",
    )  # fmt: skip
    assert shown["candidate_problem"] == "node a: it does not send heartbeats"
    (change,) = shown["role_history"]
    assert (change["action"], change["actor"], change["reason"]) == (
        "broker_group.promote_by_operator",
        "root",
        "a is lost",
    )
    assert change["after"]["accepted_loss_bytes"] == "0"
    assert admin.get("/api/v1/broker-groups/").json()["results"][0]["copies"] == 2


def test_the_minimum_that_applies_counts_no_member_that_has_yet_to_join(admin: APIClient) -> None:
    for members, joining, expected in (([], [], 2), (["a"], [], 1), (["a", "b"], ["b"], 1), (["a", "b", "c"], [], 2)):
        BrokerGroup.objects.filter(name="g1").update(members=members, joining=joining)
        shown = admin.get("/api/v1/broker-groups/").json()["results"][0]
        assert (shown["in_sync_min"], shown["in_sync_min_in_force"]) == (2, expected)


def test_reasons_are_codes_with_values_and_sentences(admin: APIClient) -> None:
    full = replace(REPORT, limitations=(Reason.of(Code.DISK_FULL),), problems=(Reason("Read-only file system"),))
    Node.objects.filter(node_id="b").update(report=full.encoded())
    change = ChangeInSync("g1", "a", 3, ROW.promotion_id, 9, InSyncChange.REMOVE, "b")
    why = Reason.of(Code.NODE_WITH, node="b", why=Reason.of(Code.NOT_CONNECTED, seconds=3.1))
    OrmMembershipStore().change("g1", MembershipWish(change.applied_to, "remove_in_sync", why), (3, 9))
    admin.post(f"{GROUP}copies/", {"copies": 3, "in_sync_min": 1, "reason": "third rack"})
    shown = admin.get(GROUP).json()
    _, b = shown["member_states"]
    assert b["limitations"] == [{"code": "disk_full", "values": {}, "text": "its disk is full"}]
    problem = {"code": "", "values": {}, "text": "Read-only file system"}
    assert (b["problem"], b["problem_why"]) == (problem["text"], problem)
    assert (shown["candidate_problem"], shown["candidate_why"]) == (
        "node b: Read-only file system",
        {"code": "node_with", "values": {"node": "b", "why": problem}, "text": "node b: Read-only file system"},
    )
    text = "node b: it has not been connected for 3.1 s"
    waited = {"code": "not_connected", "values": {"seconds": 3.1}, "text": text.removeprefix("node b: ")}
    removal = {"code": "node_with", "values": {"node": "b", "why": waited}, "text": text}
    (removed,) = shown["role_history"]
    assert (removed["reason"], removed["why"]) == (text, removal)
    audited = {entry["action"]: entry["why"] for entry in admin.get("/api/v1/audit/").json()["results"]}
    assert audited["broker_group.remove_in_sync"] == removal
    assert audited["broker_group.set_copies"] is None


def test_a_switch_over_that_a_user_requested_is_by_this_user_in_the_role_history(admin: APIClient) -> None:
    requested = Actor("root")
    with transaction.atomic():
        audit.record(METASERVER, "broker_group.resign", "g1", reason="a switches over to b and stops")
        audit.record(requested, "broker_group.switch_over", "g1")
        audit.record(METASERVER, "broker_group.add_in_sync", "g1")
        audit.record(requested, "broker_group.switch_over", "g2")
        audit.record(METASERVER, "broker_group.resign", "g1", reason="b switches over to a")
        audit.record(METASERVER, "broker_group.resign", "g1", reason="a switches over to b")

    def actors() -> list[tuple[str, str]]:
        history = admin.get(GROUP).json()["role_history"]
        return [(change["action"].removeprefix("broker_group."), change["actor"]) for change in history]

    resigned, by_root = ("resign", METASERVER.name), ("resign", "root")
    assert actors() == [resigned, by_root, ("add_in_sync", METASERVER.name), resigned]
    AuditEntry.objects.filter(actor="root").update(at=timezone.now() - timedelta(seconds=60))
    assert actors()[1] == resigned, "long before"


def test_copies_are_set_and_the_version_is_compared(admin: APIClient) -> None:
    before, tag = everything(), admin.get(GROUP).headers["ETag"]
    planned = admin.post(f"{GROUP}copies/?dry_run=true", {"copies": 3})
    assert everything() == before
    done = admin.post(
        f"{GROUP}copies/", {"copies": 3, "in_sync_min": 1, "reason": "third rack"}, headers={"If-Match": tag}
    )
    assert (planned.json()["after"]["copies"], done.json()["after"]) == (
        3,
        {"copies": 3, "in_sync_min": 1, "preferred": []},
    )
    assert refused(admin.post(f"{GROUP}copies/", {"copies": 2}, headers={"If-Match": tag})) == (412, "change.stale")
    wrong = admin.post(f"{GROUP}copies/", {"copies": 1})
    assert refused(wrong) == (400, "broker_group.invalid")
    assert "below the number of members" in wrong.json()["detail"]


@pytest.mark.parametrize(
    ("values", "field", "text"),
    [
        ({"copies": 0}, "copies", "from 1 to 3"),
        ({"copies": 4}, "copies", "from 1 to 3"),
        ({"copies": 1, "in_sync_min": 1}, "copies", "1 is below the number of members, 2"),
        ({"in_sync_min": 0}, "in_sync_min", "from 1 to 3"),
        ({"in_sync_min": 3}, "in_sync_min", "3 is above the number of copies, 2"),
        ({"copies": 3, "in_sync_min": 4}, "in_sync_min", "from 1 to 3"),
    ],
    ids=str,
)
@pytest.mark.parametrize("query", ["", "?dry_run=true"])
def test_copies_that_do_not_fit_are_refused_by_field(
    admin: APIClient, values: dict[str, int], field: str, text: str, query: str
) -> None:
    before = everything()
    answer = admin.post(f"{GROUP}copies/{query}", {**values, "reason": "test"})
    assert answer.status_code == 400
    assert list(answer.json()["fields"]) == [field]
    assert text in str(answer.json()["fields"][field])
    assert everything() == before


def test_a_promotion_needs_the_exact_loss_and_a_reason(admin: APIClient) -> None:
    assert refused(admin.post(f"{GROUP}promote/", {"node": "b"}))[0] == 400
    assert refused(admin.post(f"{GROUP}promote/", {"node": "b", "reason": "x"})) == (409, "broker_group.has_master")
    Node.objects.filter(node_id="a").update(leased_at=None)
    report("b", replace(REPORT, newest_place=(3, 10)))
    planned = admin.post(f"{GROUP}promote/?dry_run=true", {"node": "b", "reason": "x"}).json()
    assert planned["after"] == {"master": "b", "epoch": "4", "bytes_at_risk": "1000"}
    wrong = admin.post(f"{GROUP}promote/", {"node": "b", "accept_loss_bytes": "999", "reason": "x"})
    assert refused(wrong) == (409, "broker_group.loss_not_accepted")
    done = admin.post(f"{GROUP}promote/", {"node": "b", "accept_loss_bytes": "1000", "reason": "x"})
    assert (done.status_code, done.json()["after"]) == (200, planned["after"])
    group = queries.broker_group("g1")
    assert group is not None
    assert group.membership.place == (4, 11)


def test_a_removal_with_a_loss_needs_the_exact_loss_and_a_reason(admin: APIClient) -> None:
    path = f"{GROUP}remove-lost/"
    assert refused(admin.post(path, {"accept_loss": "6000"}))[0] == 400
    assert refused(admin.post(path, {"accept_loss": "6000", "reason": "x"})) == (409, "broker_group.live")
    Node.objects.all().update(leased_at=timezone.now() - timedelta(minutes=2))
    broker_groups.save_heartbeat("meta:1", 600, timezone.now())
    planned = admin.post(f"{path}?dry_run=true", {"reason": "x"}).json()
    assert planned["after"]["at_risk"] == "6000"
    assert refused(admin.post(path, {"accept_loss": "1", "reason": "x"})) == (409, "broker_group.loss_not_accepted")
    stale = admin.post(path, {"accept_loss": "6000", "reason": "x"}, HTTP_IF_MATCH='"v99"')
    assert stale.status_code == 412
    assert refused(admin.post(path, {"accept_loss": "6000", "reason": "x", "force": True}))[0] == 400
    done = admin.post(path, {"accept_loss": "6000", "reason": "the building burned down"})
    assert (done.status_code, done.json()["after"]) == (200, planned["after"])
    assert queries.broker_group("g1") is None
    entry = AuditEntry.objects.order_by("id").last()
    assert entry is not None
    assert (entry.action, entry.reason) == ("broker_group.remove_lost", "the building burned down")


# --- switch-over ---


def test_a_switch_over_is_planned_and_then_made_by_the_master(admin: APIClient, master: FakeMaster) -> None:
    count = len(audit_rows())
    planned = admin.post(f"{GROUP}switch-over/?dry_run=true", {"to": ""})
    assert (planned.json()["before"], planned.json()["after"]) == ({"master": "a"}, {"master": "b"})
    assert (master.requests, count) == ([], len(audit_rows()))
    done = admin.post(f"{GROUP}switch-over/", {"reason": "new kernel"})
    assert done.json()["after"] == {"master": "b", "epoch": "4"}
    assert done.json()["notes"] == [
        {"code": "requests_held", "values": {"seconds": 0.2}, "text": "Requests of clients were held for 0.2 s."}
    ]
    assert master.requests == [("a:2", "")]
    assert audit_rows()[-1][:3] == ("broker_group.switch_over", "g1", None)
    admin.post(f"{GROUP}switch-over/", {"to": "b"})
    assert master.requests[-1] == ("a:2", "b")


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (NodeRefused("node b lacks too much", code="switch_over.rejected", status=409), (409, "switch_over.rejected")),
        (NodeRefused("no metaserver answered", code="change.unknown", status=503), (503, "change.unknown")),
        (ConnectionLost("connection refused", code="net.unreachable"), (503, "net.unreachable")),
    ],
)
def test_a_switch_over_that_the_master_does_not_make_is_recorded(
    admin: APIClient, master: FakeMaster, error: QmqError, expected: tuple[int, str]
) -> None:
    master.answer = error
    assert refused(admin.post(f"{GROUP}switch-over/", {"to": "b", "reason": "new kernel"})) == expected
    assert [row[0] for row in audit_rows()[-2:]] == ["broker_group.switch_over", "broker_group.switch_over_failed"]


@pytest.mark.parametrize(
    ("to", "values", "expected", "text"),
    [
        ("z", {}, (404, "node.unknown"), "is not a member"),
        ("a", {}, (409, "broker_group.no_successor"), "is the master of broker group g1 already"),
        ("b", {"leased_at": None}, (409, "broker_group.no_successor"), "node b: it does not send heartbeats"),
        ("", {"leased_at": None}, (409, "broker_group.no_successor"), "node b: it does not send heartbeats"),
    ],
)
@pytest.mark.parametrize("query", ["", "?dry_run=true"])
def test_a_switch_over_without_a_successor_is_refused_before_the_master_is_contacted(
    admin: APIClient,
    master: FakeMaster,
    to: str,
    values: dict[str, Any],
    expected: tuple[int, str],
    text: str,
    query: str,
) -> None:
    report("b", REPORT, **values)
    answer = admin.post(f"{GROUP}switch-over/{query}", {"to": to})
    assert refused(answer) == expected
    assert text in answer.json()["detail"]
    assert master.requests == []


def test_a_group_without_a_master_or_slave_does_not_switch_over(admin: APIClient, master: FakeMaster) -> None:
    report("a", MASTER, leased_at=None)
    assert "no node serves as its master" in admin.post(f"{GROUP}switch-over/", {}).json()["detail"]
    assert refused(admin.post("/api/v1/broker-groups/g9/switch-over/", {})) == (404, "broker_group.unknown")
    assert refused(admin.post(f"{GROUP}switch-over/", {}, headers={"If-Match": '"v7"'})) == (412, "change.stale")


# --- stopping ---


def test_whether_a_node_may_stop(admin: APIClient) -> None:
    answer = admin.get("/api/v1/nodes/b/may-stop/").json()
    assert (answer["node_id"], answer["may_stop"]) == ("b", False)
    assert "below its minimum of 2" in answer["reasons"][0]
    assert answer["why"][0]["code"] == "below_minimum"
    assert (answer["next_master"], answer["rejects_sends"], answer["in_sync_left"], answer["in_sync_min"]) == (
        "a",
        True,
        1,
        2,
    )
    assert (answer["is_member"], answer["is_master"], answer["subjects"], answer["consumer_groups"]) == (
        True,
        False,
        0,
        None,
    )
    assert (answer["send_rate"], answer["pending"], bool(answer["unmeasured_reason"])) == (None, None, True)
    admin.post(f"{GROUP}copies/", {"copies": 3})
    assert refused(admin.get("/api/v1/nodes/z/may-stop/")) == (404, "node.unknown")


def test_what_a_node_serves_when_it_stops(admin: APIClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """The group serves two subjects, one of which another group accepts messages of, too."""
    Node.objects.filter(node_id="b").update(rack="r2")
    assert admin.get(GROUP).json()["shared_rack"] == ""
    route("both", "g1", "g2")
    route("only", "g1")
    route("other", "g2")
    node = {"reason": None, "send_rate": 12.5, "pull_rate": 9.0, "delivered_per_second": 2.0, "pending": 7}
    groups = {f"{subject}\ng": {"subject": subject} for subject in ("both", "only", "other", "%RETRY%only%g")}
    live = overview.Numbers({"nodes": {"a": node}, "groups": groups}, None, None)
    monkeypatch.setattr(node_stop, "numbers", lambda: live)
    found = admin.get("/api/v1/nodes/a/may-stop/").json()
    assert (found["subjects"], found["sole_subjects"], found["consumer_groups"]) == (2, 1, 2)
    assert (found["next_master"], found["is_master"], found["unmeasured_reason"]) == ("b", True, None)
    numbers = [found[name] for name in ("send_rate", "pull_rate", "delivered_per_second", "pending")]
    assert numbers == ([12.5, 9.0, None, None] if found["kind"] == "broker" else [None, None, 2.0, 7])


def test_a_group_on_one_rack_says_which(admin: APIClient) -> None:
    assert admin.get(GROUP).json()["shared_rack"] == "r1"
    Node.objects.filter(node_id="b").update(rack="")
    assert admin.get(GROUP).json()["shared_rack"] == "", "not known"


@pytest.fixture
def unbounded(admin: APIClient) -> APIClient:
    """A group whose minimum is 1."""
    BrokerGroup.objects.filter(name="g1").update(in_sync_min=1)
    return admin


def test_a_member_is_removed_and_the_version_is_compared(unbounded: APIClient) -> None:
    before, tag = everything(), unbounded.get(GROUP).headers["ETag"]
    planned = unbounded.post(f"{GROUP}members/remove/?dry_run=true", {"node": "b"})
    assert everything() == before
    done = unbounded.post(f"{GROUP}members/remove/", {"node": "b", "reason": "less"}, headers={"If-Match": tag})
    assert planned.json()["after"] == done.json()["after"]
    assert done.json()["after"]["members"] == ["a"]
    assert unbounded.get(GROUP).json()["role_history"][0]["action"] == "broker_group.remove_member"
    for path, body in (("remove", {"node": "b"}), ("replace", {"node": "a", "replacement": "d"})):
        answer = unbounded.post(f"{GROUP}members/{path}/", body, headers={"If-Match": tag})
        assert refused(answer) == (412, "change.stale")


def test_the_master_switches_over_before_it_is_removed(unbounded: APIClient, master: FakeMaster) -> None:
    before = everything()
    planned = unbounded.post(f"{GROUP}members/remove/?dry_run=true", {"node": "a"})
    assert everything() == before
    assert master.requests == []
    assert (planned.json()["after"]["members"], planned.json()["after"]["master"]) == (["b"], "b")
    assert planned.json()["notes"][0]["text"] == "Node b leads the group before a is removed."

    # As the metaserver does when the master resigns.
    master.before = lambda: BrokerGroup.objects.filter(name="g1").update(master="b", epoch=4, in_sync_version=10)
    done = unbounded.post(f"{GROUP}members/remove/", {"node": "a", "reason": "new machine"})
    assert done.status_code == 200, done.json()
    assert master.requests == [("a:2", "b")]
    assert (done.json()["after"]["members"], done.json()["after"]["master"], done.json()["after"]["epoch"]) == (
        ["b"],
        "b",
        "5",
    )


def test_a_master_without_a_successor_is_not_removed(unbounded: APIClient, master: FakeMaster) -> None:
    report("b", REPORT, leased_at=timezone.now() - timedelta(seconds=60))
    before = everything()
    for query in ("", "?dry_run=true"):
        answer = unbounded.post(f"{GROUP}members/remove/{query}", {"node": "a"})
        assert refused(answer) == (409, "broker_group.not_removed")
        assert "node b: it does not send heartbeats" in answer.json()["detail"]
    assert (master.requests, everything()) == ([], before)


def test_a_master_that_does_not_switch_over_is_not_removed(unbounded: APIClient, master: FakeMaster) -> None:
    master.answer = NodeRefused("requests take too long", code="switch_over.rejected", status=409)
    answer = unbounded.post(f"{GROUP}members/remove/", {"node": "a"})
    assert refused(answer) == (409, "switch_over.rejected")
    assert queries.broker_group("g1").membership.members == ("a", "b")  # type: ignore[union-attr]


def test_copies_are_lowered_with_the_members_to_remove(admin: APIClient, master: FakeMaster) -> None:
    body = {"copies": 1, "in_sync_min": 1, "remove": ["b"]}
    done = admin.post(f"{GROUP}copies/", {**body, "reason": "less"})
    assert (done.json()["after"]["copies"], done.json()["after"]["members"]) == (1, ["a"])
    assert master.requests == []
    assert admin.post(f"{GROUP}copies/", {**body, "remove": ["b", "c", "d"]}).status_code == 400


def test_a_replacement_is_requested_and_shown(admin: APIClient) -> None:
    done = admin.post(f"{GROUP}members/replace/", {"node": "b", "replacement": "d", "reason": "new machine"})
    assert done.json()["after"]["replacement"] == "d"
    found = admin.get(GROUP).json()
    assert (found["replaced"], found["replacement"]) == ("b", "d")
    again = admin.post(f"{GROUP}members/replace/", {"node": "b", "replacement": "e"})
    assert refused(again) == (409, "broker_group.not_replaced")
