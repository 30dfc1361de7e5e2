"""Which member is promoted, and when nobody is."""

from dataclasses import replace

from qmq_node.replication.rules.membership import Membership, Promotion
from qmq_node.replication.rules.promotion import Blocked, MemberReport, choose, recovered

MEMBERSHIP = Membership("g", ("a", "b", "c"), "a", ("a", "b", "c"), 3, 7, "p3")
REPORT = MemberReport(epoch=3, log_epoch=3, synced_end=500, incarnation="", boot_id="boot")


def promoted(**reports: MemberReport) -> str:
    choice = choose(MEMBERSHIP, MEMBERSHIP.place, reports, "p4", ("c", "b"))
    assert isinstance(choice, Promotion)
    assert (choice.epoch, choice.version, choice.boot_id, choice.new_epoch, choice.promotion_id) == (
        3,
        7,
        "boot",
        4,
        "p4",
    )
    return choice.candidate


def reason(
    membership: Membership = MEMBERSHIP, newest: tuple[int, int] = MEMBERSHIP.place, **reports: MemberReport
) -> str:
    choice = choose(membership, newest, reports, "p4")
    assert isinstance(choice, Blocked)
    return choice.reason


def test_the_longest_log_is_promoted_then_the_preferred_member() -> None:
    assert promoted(b=REPORT, c=REPORT) == "c"
    assert promoted(b=replace(REPORT, synced_end=501), c=REPORT) == "b"
    assert promoted(a=REPORT, b=replace(REPORT, log_epoch=2, synced_end=900)) == "a"


def test_a_member_with_a_problem_is_not_promoted() -> None:
    assert promoted(b=replace(REPORT, problem="the log is damaged"), c=REPORT) == "c"
    assert promoted(b=replace(REPORT, receives_from_master=True), c=REPORT) == "c"


def test_a_member_with_another_data_folder_than_was_in_sync_is_not_promoted() -> None:
    membership = MEMBERSHIP.with_incarnation("b", "b1").with_incarnation("c", "c1")
    same, other = replace(REPORT, incarnation="c1"), replace(REPORT, incarnation="b2", synced_end=900)
    choice = choose(membership, membership.place, {"b": other, "c": same}, "p4")
    assert isinstance(choice, Promotion)
    assert choice.candidate == "c"
    assert reason(membership, b=other) == (
        "node a does not send heartbeats; node b: its data folder is not the one that was in sync; node c does not send heartbeats"
    )


def test_nobody_is_promoted_and_each_member_has_a_reason() -> None:
    membership = replace(MEMBERSHIP, in_sync=("a", "b"))
    assert reason(membership, b=replace(REPORT, problem="the log is damaged"), c=REPORT) == (
        "node a does not send heartbeats; node b: the log is damaged; node c is not in sync"
    )
    assert reason(membership, b=replace(REPORT, receives_from_master=True)) == (
        "node a does not send heartbeats; node b still receives commits of the master; node c is not in sync"
    )


def test_nobody_is_promoted_from_a_restored_membership() -> None:
    assert "the database was restored from a backup" in reason(newest=(3, 8), b=REPORT)
    assert "had epoch 4, version 0 before" in reason(b=REPORT, c=replace(REPORT, epoch=4))


def test_the_last_master_brings_a_restored_membership_up_to_date() -> None:
    older, known = replace(MEMBERSHIP, epoch=2, version=3), replace(MEMBERSHIP, in_sync=("a",), version=9)
    membership = recovered(older, (3, 8), known, frozenset({"a", "b"}))
    assert membership == replace(MEMBERSHIP, in_sync=("a", "b"), version=10)
    assert recovered(older, (4, 1), known, frozenset({"a"})) is None
