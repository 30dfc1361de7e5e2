"""What operators see of the members of a broker group, computed from what nodes reported."""

from dataclasses import replace
from typing import Any

import pytest

from metaserver.choices import GroupKind, GroupState
from metaserver.domain import BrokerGroup, Node
from metaserver.memory.members import SILENT_MS, Members
from metaserver.reports import StoredReport
from qmq.protocol.codes import ReplicaRole
from qmq.protocol.extensions import NodeRegisterRequest, SlaveEnd
from qmq.protocol.reasons import Code, Reason
from qmq_node.replication.rules.membership import Membership
from tests.support.stored_groups import changed

NOW = 1_000_000
MEMBERSHIP = Membership("g1", ("a", "b", "c"), "a", ("a", "b"), 3, 9, "p3")
GROUP = BrokerGroup(GroupKind.BROKER, GroupState.READ_WRITE, replace(MEMBERSHIP, copies=3), preferred=("c",))
DELAY_GROUP = replace(GROUP, kind=GroupKind.DELAY)
REPORT = StoredReport("in_sync", 3, 3, 5000, 5000, 10, newest_place=(3, 9))


def node(
    name: str, report: StoredReport | None = REPORT, *, age_ms: int = 1000, log_end: int = 0, epoch: int = 3
) -> Node:
    place = max((epoch, log_end), (report.log_epoch, report.log_end)) if report is not None else (1, log_end)
    return Node(
        name, "g1", 0, f"{name}:1", f"{name}:2", "1", place[1], 0, NOW - age_ms, place[0],
        report=report.encoded() if report is not None else {},
    )  # fmt: skip


MASTER = replace(REPORT, role="master", log_end=6000, slaves={"b": 5900})
NODES = {"a": node("a", MASTER), "b": node("b"), "c": node("c", replace(REPORT, role="following", log_end=400))}


def members(group: BrokerGroup = GROUP, **changed: Node | None) -> Members:
    nodes = {**NODES, **changed}
    return Members.of(group, [one for one in nodes.values() if one is not None], NOW)


def problems(found: Members) -> dict[str, str]:
    return {member.node_id: member.problem for member in found.nodes}


def test_members_are_listed_in_the_order_of_the_membership_and_then_spares() -> None:
    spare = node("aa", replace(REPORT, role="spare"))
    found = members(aa=spare)
    assert [(one.node_id, one.role, one.is_in_sync, one.lag_bytes) for one in found.nodes] == [
        ("a", "master", True, 0), ("b", "in_sync", True, 100), ("c", "following", False, 5600), ("aa", "spare", False, 1000),
    ]  # fmt: skip
    assert problems(found) == {"a": "", "b": "", "c": "it is not in sync", "aa": "it is not a member"}
    assert [one.node_id for one in found.candidates()] == ["b"]
    assert (found.candidate_problem, found.is_restored) == ("", False)


def test_a_report_is_stored_and_read_again() -> None:
    request = NodeRegisterRequest(
        1, "g1", "a", "broker", 0, "a:1", "", 1, 3, 6000, 1, "1", boot_id="x", replica_role=ReplicaRole.MASTER, log_epoch=3,
        incarnation="0123456789abcdef", high_watermark=5900, problems=(Reason("no space"),), slaves=(SlaveEnd("b", 5900),),
        limitations=(Reason("its disk is full"),),
    )  # fmt: skip
    report = StoredReport.of(request, (3, 9))
    assert report == StoredReport(
        "master",
        3,
        3,
        6000,
        5900,
        -1,
        ("no space",),
        {"b": 5900},
        "0123456789abcdef",
        "x",
        (3, 9),
        ("its disk is full",),
    )
    assert StoredReport.decode(report.encoded()) == report
    assert StoredReport.decode({}) is None


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        (None, "it does not send heartbeats"),
        (node("b", age_ms=SILENT_MS + 1), "it does not send heartbeats"),
        (node("b", None), "its version has no replication"),
        (node("b", replace(REPORT, problems=(Reason("no space"), Reason("failed disk")))), "no space; failed disk"),
        (node("b", replace(REPORT, role="copying")), "its role is copying"),
        (node("b", replace(REPORT, role="failed")), "its role is failed"),
        (node("b", log_end=5001), "its log ends at 5000, before the 5001 that it reported"),
    ],
)
def test_why_a_member_can_t_be_promoted(changed: Node | None, problem: str) -> None:
    found = members(b=changed)
    assert problems(found)["b"] == problem
    assert found.candidates() == []
    assert found.candidate_problem == f"node b: {problem}; node c: it is not in sync"
    assert found.without("a").problems[-1].startswith("no member of broker group g1 could be its master")


def test_the_longest_log_is_promoted_and_then_the_preferred_member() -> None:
    group = changed(GROUP, in_sync=("a", "b", "c"))
    equal = node("c")
    assert [one.node_id for one in members(group, c=equal).candidates()] == ["c", "b"]
    longer = node("b", replace(REPORT, log_end=5001))
    assert [one.node_id for one in members(group, b=longer, c=equal).candidates()] == ["b", "c"]
    newer = node("c", replace(REPORT, log_epoch=4))
    assert [one.node_id for one in members(group, b=longer, c=newer).candidates()] == ["c", "b"]
    full = node("c", replace(REPORT, log_epoch=4, limitations=(Reason("its disk is full"),)))
    assert [one.node_id for one in members(group, b=longer, c=full).candidates()] == ["b", "c"], "whatever its log is"


def test_why_a_master_that_is_to_be_replaced_still_leads() -> None:
    group = changed(GROUP, replaced="a", replacement="b")
    why = Reason.of(Code.HANDS_OVER_LATER, why="it lacks older commits")
    assert members(group, a=node("a", replace(MASTER, limitations=(why,)))).hand_over_problem == why
    for other in (MASTER, replace(MASTER, limitations=(Reason.of(Code.DISK_FULL),)), replace(MASTER, role="in_sync")):
        assert members(group, a=node("a", other)).hand_over_problem == ""


def test_what_is_to_be_done_so_that_the_other_node_of_a_replacement_becomes_a_member() -> None:
    group = changed(GROUP, replaced="a", replacement="d")
    with_data = node("d", replace(REPORT, role="spare"))
    problem = problems(members(group, d=with_data))["d"]
    assert "its data folder is not empty" in problem
    assert "empty its data folder if it is to be one" in problem
    empty = replace(REPORT, role="spare", log_end=0)
    for spare in (node("d", empty), node("d", replace(empty, log_end=1), age_ms=SILENT_MS + 1)):
        assert problems(members(group, d=spare))["d"] == "it is not a member"
    assert problems(members(d=with_data))["d"] == "it is not a member", "nothing is to be done"


@pytest.mark.parametrize(
    "newer",
    [replace(REPORT, newest_place=(3, 10)), replace(REPORT, epoch=4)],
    ids=["a metaserver knows a newer membership", "a node knows a newer epoch"],
)
def test_a_restored_membership_has_no_candidates(newer: StoredReport) -> None:
    found = members(b=node("b", newer))
    assert (found.is_restored, found.candidates()) == (True, [])
    assert "the database was restored from a backup" in found.candidate_problem
    assert "the database was restored from a backup" in found.without("a").problems[0]


@pytest.mark.parametrize(
    ("group", "changed", "node_id", "expected"),
    [
        (GROUP, {}, "c", []),
        (GROUP, {}, "spare", []),
        (GROUP, {}, "b", ["broker group g1 would have 1 in-sync members, below its minimum of 2", "no other member of broker"]),
        (changed(GROUP, in_sync_min=1), {}, "b", ["no other member of broker group g1 could replace master a if that failed"]),
        (changed(GROUP, in_sync_min=1, in_sync=("a", "b", "c")), {}, "b", []),
        (GROUP, {}, "a", ["broker group g1 would have 1 in-sync members, below its minimum of 2"]),
        (changed(GROUP, in_sync_min=1), {}, "a", []),
        (changed(GROUP, in_sync_min=1), {"b": None}, "a", ["no member of broker group g1 could be its master: node b: it"]),
        (changed(GROUP, in_sync=("a",)), {}, "a", ["node a is the only member of broker group g1 that is in sync"]),
        (changed(GROUP, in_sync=("a",), in_sync_min=1), {}, "b", []),
        (changed(GROUP, in_sync=("a", "b"), in_sync_min=1), {"a": None}, "b", ["no member of broker group g1 could be its master"]),
        (changed(GROUP, members=("a",), in_sync=("a",)), {}, "a", ["node a is the only member of broker group g1"]),
        (DELAY_GROUP, {}, "c", []),
        (DELAY_GROUP, {}, "a", ["delay group g1 would have 1 in-sync members, below its minimum of 2"]),
        (changed(DELAY_GROUP, in_sync=("a",)), {}, "a", ["node a is the only member of delay group g1 that is in sync"]),
        (changed(DELAY_GROUP, in_sync_min=1), {"b": None}, "a", ["no member of delay group g1 could be its master: node b"]),
        (changed(DELAY_GROUP, members=("a",), in_sync=("a",)), {}, "a", ["node a is the only member of delay group g1"]),
    ],
)  # fmt: skip
def test_whether_a_node_may_stop(
    group: BrokerGroup, changed: dict[str, Any], node_id: str, expected: list[str]
) -> None:
    found = members(group, **changed).without(node_id).problems
    assert len(found) == len(expected), found
    assert all(problem.startswith(text) for problem, text in zip(found, expected, strict=True)), found


def test_bytes_at_risk_are_counted_from_the_highest_end_that_any_member_reported() -> None:
    found = members()
    assert [found.bytes_at_risk(name) for name in "abc"] == [0, 1000, 5600]
    gone = members(a=node("a", MASTER, age_ms=10 * SILENT_MS, log_end=9000))
    assert [gone.bytes_at_risk(name) for name in "bc"] == [4000, 8600], "also of one that does not run"
    older = members(
        a=node("a", MASTER, log_end=9000, epoch=4), b=node("b", replace(REPORT, log_end=9500, high_watermark=4000))
    )
    assert older.bytes_at_risk("b") == 5000, "it has other commits behind its high watermark"
    diverged = members(a=node("a", MASTER), b=node("b", replace(REPORT, log_epoch=4, log_end=5500)))
    assert diverged.bytes_at_risk("b") == 0, "what only the log of an older epoch has was never acknowledged"
    unknown = members(a=node("a", replace(MASTER, log_epoch=4)), b=node("b", replace(REPORT, high_watermark=-1)))
    assert unknown.bytes_at_risk("b") == 6000
    spare = members(d=node("d", replace(REPORT, log_end=99_000)))
    assert spare.bytes_at_risk("b") == 1000, "not of a spare"
