"""Changes of a broker group's membership, and those that are rejected."""

from dataclasses import replace

import pytest

from qmq.protocol.group_memberships import InSyncChange
from qmq_node.replication.rules.members import RemoveMember, ReplaceMember, leaving
from qmq_node.replication.rules.membership import (
    AddMember,
    ChangeInSync,
    ChangeRejected,
    Membership,
    Promotion,
    Resignation,
    UncleanPromotion,
)

MEMBERSHIP = Membership("g", ("a", "b", "c"), "a", ("a", "b"), 3, 7, "p3")
ADD = ChangeInSync("g", "a", 3, "p3", 7, InSyncChange.ADD, "c")
REMOVE = ChangeInSync("g", "a", 3, "p3", 7, InSyncChange.REMOVE, "b")
PROMOTION = Promotion(3, 7, "b", "boot b", 4, "p4")
RESIGNATION = Resignation("g", "a", 3, "p3", 7, "b", 900, 7)


def test_a_master_adds_and_removes_members_of_the_in_sync_set() -> None:
    assert ADD.applied_to(MEMBERSHIP) == replace(MEMBERSHIP, in_sync=("a", "b", "c"), version=8)
    assert REMOVE.applied_to(MEMBERSHIP) == replace(MEMBERSHIP, in_sync=("a",), version=8)


def test_the_membership_names_the_data_folder_of_a_member_that_is_added() -> None:
    membership = replace(ADD, incarnation="c1").applied_to(MEMBERSHIP)
    assert membership.incarnations == ("", "", "c1")
    # A removal and a promotion change none.
    assert replace(REMOVE, in_sync_version=8).applied_to(membership).incarnations == membership.incarnations
    assert replace(PROMOTION, version=8).applied_to(membership).incarnations == membership.incarnations
    unclean = UncleanPromotion(3, 8, "b", "b2", "boot b", membership.place, "p4").applied_to(membership)
    assert (unclean.in_sync, unclean.incarnations) == (("b",), ("", "b2", "c1"))


def test_a_promotion_begins_an_epoch_without_the_old_master() -> None:
    assert PROMOTION.applied_to(MEMBERSHIP) == replace(
        MEMBERSHIP, master="b", in_sync=("b",), epoch=4, version=8, promotion_id="p4", master_boot_id="boot b"
    )


def test_a_master_that_restarted_can_be_promoted_again() -> None:
    membership = replace(PROMOTION, candidate="a").applied_to(MEMBERSHIP)
    assert (membership.master, membership.in_sync, membership.epoch) == ("a", ("a", "b"), 4)


@pytest.mark.parametrize(("is_leaving", "in_sync"), [(True, ("b",)), (False, ("a", "b"))])
def test_a_master_that_resigns_stays_in_sync_unless_it_leaves(is_leaving: bool, in_sync: tuple[str, ...]) -> None:
    membership = replace(RESIGNATION, is_leaving=is_leaving).applied_to(MEMBERSHIP, "boot b", "p4")
    assert membership == replace(
        MEMBERSHIP, master="b", in_sync=in_sync, epoch=4, version=8, promotion_id="p4", master_boot_id="boot b"
    )


def test_a_new_member_is_not_in_sync() -> None:
    membership = replace(MEMBERSHIP, members=("a", "b"))
    assert AddMember(3, 7, "c", "a1").applied_to(membership) == replace(MEMBERSHIP, version=8, joining=("c",))
    # Of an only member the membership does not know the folder.
    first = AddMember(3, 7, "b", "a1").applied_to(replace(MEMBERSHIP, members=("a",), in_sync=("a",)))
    assert (first.incarnation_of("a"), first.incarnation_of("b")) == ("a1", "")


def test_a_member_counts_for_the_minimum_once_it_has_been_in_sync() -> None:
    membership = AddMember(3, 7, "b", "a1").applied_to(Membership("g", ("a",), "a", ("a",), 3, 7, "p3"))
    assert membership.in_sync_min_in_force == 1
    membership = replace(ADD, in_sync_version=8, member="b").applied_to(membership)
    assert (membership.joining, membership.in_sync_min_in_force) == ((), 2)
    membership = replace(REMOVE, in_sync_version=9).applied_to(membership)
    assert (membership.joining, membership.in_sync_min_in_force) == ((), 2)
    assert Membership.of(replace(membership, joining=("b",)).sent("")).joining == ("b",)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (replace(ADD, member="x"), "node 'x' is not a member of broker group g"),
        (replace(REMOVE, member="a"), "node 'a' is the master, which is always in sync"),
        (replace(ADD, node_id="b"), "node 'b' is not the master of broker group g"),
        (replace(ADD, promotion_id="other"), "epoch 3 has promotion 'p3', not 'other'"),
        (replace(PROMOTION, candidate="c"), "node 'c' is not in sync, it may lack acknowledged messages"),
        (replace(PROMOTION, new_epoch=3), "epoch 3 is not above 3"),
        (AddMember(3, 7, "a", "a1"), "node 'a' is a member of broker group g already"),
        (AddMember(3, 7, "d", "a1"), "broker group g has 3 members, the maximum"),
    ],
)
def test_a_change_that_is_never_allowed_says_why(change: ChangeInSync | Promotion | AddMember, reason: str) -> None:
    with pytest.raises(ChangeRejected, match=reason) as rejected:
        change.applied_to(MEMBERSHIP)
    assert not rejected.value.is_stale


def test_a_master_does_not_succeed_itself() -> None:
    with pytest.raises(ChangeRejected, match="node 'a' can't succeed itself"):
        replace(RESIGNATION, successor="a").applied_to(MEMBERSHIP, "boot b", "p4")


@pytest.mark.parametrize(
    "change",
    [
        replace(ADD, in_sync_version=6),
        replace(ADD, epoch=2),
        replace(PROMOTION, version=8),
        replace(PROMOTION, epoch=2),
        AddMember(3, 6, "d", "a1"),
    ],
)
def test_a_change_for_another_version_of_the_membership_is_stale(change: ChangeInSync | Promotion | AddMember) -> None:
    with pytest.raises(ChangeRejected, match="the membership has epoch 3, version 7") as rejected:
        change.applied_to(MEMBERSHIP)
    assert rejected.value.is_stale


@pytest.mark.parametrize("newest", [(3, 8), (4, 0)])
def test_a_membership_that_was_newer_before_is_not_changed(newest: tuple[int, int]) -> None:
    MEMBERSHIP.check_not_restored((3, 7))
    MEMBERSHIP.check_not_restored((2, 9))
    with pytest.raises(ChangeRejected, match=f"had epoch {newest[0]}, version {newest[1]} before"):
        MEMBERSHIP.check_not_restored(newest)


@pytest.mark.parametrize(("in_sync_min", "members", "in_force"), [(2, 3, 2), (2, 1, 1), (1, 2, 1), (3, 2, 2)])
def test_the_minimum_is_never_above_the_number_of_members(in_sync_min: int, members: int, in_force: int) -> None:
    membership = replace(MEMBERSHIP, members=MEMBERSHIP.members[:members], in_sync_min=in_sync_min)
    assert membership.in_sync_min_in_force == in_force


def test_a_membership_is_sent_with_the_sync_address_of_its_master() -> None:
    sent = replace(MEMBERSHIP, promotion_id="").sent("10.0.0.1:1")
    assert (sent.master, sent.master_sync_address, sent.in_sync_version) == ("a", "10.0.0.1:1", 7)
    assert Membership.of(type(sent).decode(memoryview(sent.encode()))) == replace(MEMBERSHIP, promotion_id="")


PAIR = Membership("g", ("a", "b"), "a", ("a", "b"), 3, 7, "p3", 1, incarnations=("a1", "b1"), master_boot_id="boot a")
ALONE = Membership("g", ("a",), "a", ("a",), 4, 8, "p4", 1, incarnations=("a1",))


def test_a_removed_member_does_not_count() -> None:
    membership = replace(MEMBERSHIP, joining=("c",), incarnations=("a1", "b1", "c1"))
    changed = RemoveMember(3, 7, "c", "p4").applied_to(membership)
    assert changed == replace(membership, members=("a", "b"), version=8, joining=(), incarnations=("a1", "b1"))
    in_sync = replace(membership, in_sync_min=1)
    removed = RemoveMember(3, 7, "b", "p4").applied_to(in_sync)
    assert (removed.members, removed.in_sync, removed.epoch) == (("a", "c"), ("a",), 3)


def test_a_group_that_is_reduced_to_one_member_begins_an_epoch_with_its_data_folder() -> None:
    assert RemoveMember(3, 7, "b", "p4").applied_to(PAIR) == ALONE


@pytest.mark.parametrize(
    ("membership", "node_id", "problem"),
    [
        (PAIR, "x", "node 'x' is not a member"),
        (PAIR, "a", "node 'a' is the master of broker group g: switch over first"),
        (ALONE, "a", "is the master"),
        (
            replace(PAIR, master="", in_sync=("b",)),
            "b",
            "node 'b' is the only member of broker group g that is in sync",
        ),
        (replace(MEMBERSHIP, in_sync=("a", "b")), "b", "would have 1 members in sync, below its minimum of 2"),
    ],
)
def test_members_that_are_not_removed(membership: Membership, node_id: str, problem: str) -> None:
    with pytest.raises(ChangeRejected, match=problem) as rejected:
        RemoveMember(*membership.place, node_id, "p4").applied_to(membership)
    assert not rejected.value.is_stale


@pytest.mark.parametrize("change", [RemoveMember(3, 7, "b", "p4"), ReplaceMember(3, 7, "b", "d")])
def test_members_are_changed_in_one_version_only(change: RemoveMember | ReplaceMember) -> None:
    changed = change.applied_to(PAIR)
    for other in (changed, replace(PAIR, epoch=4), replace(PAIR, version=6)):
        with pytest.raises(ChangeRejected) as rejected:
            change.applied_to(other)
        assert rejected.value.is_stale


def test_a_member_that_is_replaced_leaves_when_the_other_one_is_in_sync() -> None:
    pending = ReplaceMember(3, 7, "b", "c").applied_to(PAIR)
    assert (pending.replaced, pending.replacement, pending.version, leaving(pending)) == ("b", "c", 8, "")
    joined = AddMember(3, 8, "c", "a1").applied_to(pending)
    assert (joined.members, joined.replacement, leaving(joined)) == (("a", "b", "c"), "c", "")
    synced = ChangeInSync("g", "a", 3, "p3", 9, InSyncChange.ADD, "c", incarnation="c1").applied_to(joined)
    assert leaving(synced) == "b"
    left = RemoveMember(*synced.place, "b", "").applied_to(synced)
    assert (left.members, left.in_sync, left.replaced, left.replacement) == (("a", "c"), ("a", "c"), "", "")
    assert (left.epoch, left.incarnations, leaving(left)) == (3, ("a1", "c1"), "")


def test_an_only_member_leaves_after_it_has_switched_over() -> None:
    pending = ReplaceMember(4, 8, "a", "b").applied_to(ALONE)
    joined = AddMember(4, 9, "b", "a1").applied_to(pending)
    synced = ChangeInSync("g", "a", 4, "p4", 10, InSyncChange.ADD, "b", incarnation="b1").applied_to(joined)
    assert leaving(synced) == "a"
    with pytest.raises(ChangeRejected, match="switch over first"):
        RemoveMember(*synced.place, "a", "p6").applied_to(synced)
    led = Resignation("g", "a", 4, "p4", 11, "b", 900, 7).applied_to(synced, "boot b", "p5")
    left = RemoveMember(*led.place, "a", "p6").applied_to(led)
    assert (left.members, left.master, left.epoch, left.promotion_id) == (("b",), "b", 6, "p6")
    assert (left.incarnations, left.replaced, left.replacement) == (("b1",), "", "")


def test_one_of_three_members_leaves_first_if_enough_others_are_in_sync() -> None:
    full = replace(MEMBERSHIP, in_sync=("a", "b", "c"))
    pending = ReplaceMember(3, 7, "b", "d").applied_to(full)
    assert leaving(pending) == "b"
    assert leaving(replace(pending, in_sync=("a", "b"))) == ""
    # One that is not in sync is not missed.
    assert leaving(replace(pending, in_sync=("a", "c"))) == leaving(replace(pending, in_sync=("a",))) == "b"
    left = RemoveMember(3, 8, "b", "").applied_to(pending)
    assert (left.members, left.replaced, left.replacement, leaving(left)) == (("a", "c"), "b", "d", "")
    with pytest.raises(ChangeRejected, match="node 'd' is to replace 'b' in broker group g first"):
        AddMember(3, 9, "e", "").applied_to(left)
    joined = AddMember(3, 9, "d", "").applied_to(left)
    assert (joined.members, joined.replaced, joined.replacement) == (("a", "c", "d"), "", "")


def test_a_replacement_ends_when_its_node_is_removed() -> None:
    pending = ReplaceMember(3, 7, "b", "c").applied_to(PAIR)
    cancelled = RemoveMember(3, 8, "c", "").applied_to(pending)
    assert cancelled == replace(PAIR, version=9)
    joined = AddMember(3, 8, "c", "a1").applied_to(pending)
    assert RemoveMember(3, 9, "c", "").applied_to(joined) == replace(PAIR, version=10)


@pytest.mark.parametrize(
    ("node_id", "replacement", "problem"),
    [
        ("x", "c", "node 'x' is not a member"),
        ("b", "a", "node 'a' is a member of broker group g already"),
        ("b", "b", "node 'b' is a member of broker group g already"),
    ],
)
def test_replacements_that_are_rejected(node_id: str, replacement: str, problem: str) -> None:
    with pytest.raises(ChangeRejected, match=problem):
        ReplaceMember(3, 7, node_id, replacement).applied_to(PAIR)


def test_one_replacement_is_pending_at_a_time() -> None:
    pending = ReplaceMember(3, 7, "b", "c").applied_to(PAIR)
    with pytest.raises(ChangeRejected, match=r"node 'c' is to replace 'b'.* remove 'c' to cancel that"):
        ReplaceMember(3, 8, "b", "d").applied_to(pending)


def test_no_member_is_added_while_the_only_one_may_have_lost_its_data() -> None:
    with pytest.raises(ChangeRejected, match="another data folder"):
        AddMember(4, 8, "b", "a2").applied_to(ALONE)
