"""What a node does about a membership, and what masters and slaves reject."""

from dataclasses import replace

import pytest

from qmq.protocol.codes import FollowResult
from qmq_node.log.epochs import EpochChain
from qmq_node.replication.rules.following import LogEnd, TruncationRejected, answer_follow, check_truncation
from qmq_node.replication.rules.master import Master, SessionRejected
from qmq_node.replication.rules.membership import Membership
from qmq_node.replication.rules.roles import Identity, ReplicaState, Step, step_for
from qmq_node.replication.rules.slave import CommitsRejected, Slave

MEMBERSHIP = Membership("g", ("a", "b"), "a", ("a", "b"), 3, 7, "p3", incarnations=("", "b1"))
STATE = ReplicaState(3, "p3", is_only_member=False)
A = Identity("a", "", "")
NEW = ReplicaState(is_only_member=False, is_new=True)
MASTER = Master("a", MEMBERSHIP, begin=100, synced_end=300, high_watermark=100).followed("b", 5, "b1")
SLAVE = Slave(3, "p3", 5, end=200, synced_end=100, high_watermark=100)


@pytest.mark.parametrize(
    ("node_id", "state", "membership", "step"),
    [
        ("a", STATE, replace(MEMBERSHIP, epoch=2), Step.IGNORE),
        ("a", STATE, replace(MEMBERSHIP, promotion_id="other"), Step.ALARM),
        ("c", STATE, MEMBERSHIP, Step.SPARE),
        ("a", replace(STATE, epoch=2), MEMBERSHIP, Step.LEAD),
        ("a", STATE, MEMBERSHIP, Step.WAIT),
        ("b", STATE, MEMBERSHIP, Step.FOLLOW),
        ("b", replace(STATE, epoch=2), MEMBERSHIP, Step.FOLLOW),
        ("b", ReplicaState(is_only_member=False), replace(MEMBERSHIP, master="", epoch=1, promotion_id=""), Step.WAIT),
        ("a", NEW, replace(MEMBERSHIP, epoch=1, promotion_id="", members=("a",)), Step.SERVE_ALONE),
        ("a", NEW, replace(MEMBERSHIP, members=("a",)), Step.SERVE_ALONE),
        ("a", replace(STATE, epoch=2), replace(MEMBERSHIP, members=("a",)), Step.SERVE_ALONE),
        ("a", STATE, replace(MEMBERSHIP, members=("a",)), Step.WAIT),
        ("a", NEW, replace(MEMBERSHIP, members=("a",), incarnations=("a1",)), Step.WAIT),
        ("b", NEW, MEMBERSHIP, Step.FOLLOW),
    ],
)
def test_what_a_waiting_node_does_about_a_membership(
    node_id: str, state: ReplicaState, membership: Membership, step: Step
) -> None:
    assert step_for(Identity(node_id, "", ""), state, membership, leads=False, follows=False) is step


@pytest.mark.parametrize(("leads", "follows"), [(True, False), (False, True)])
def test_a_node_that_leads_or_follows_stays_until_the_next_epoch(leads: bool, follows: bool) -> None:
    assert step_for(A, STATE, replace(MEMBERSHIP, version=9), leads=leads, follows=follows) is Step.STAY
    assert step_for(A, STATE, replace(MEMBERSHIP, epoch=4, master="b"), leads=leads, follows=follows) is Step.FOLLOW
    assert step_for(A, STATE, replace(MEMBERSHIP, epoch=4), leads=leads, follows=follows) is Step.LEAD


def test_a_master_that_learns_of_another_master_in_its_epoch_stops() -> None:
    membership = replace(MEMBERSHIP, master="b", version=9)
    assert step_for(A, STATE, membership, leads=True, follows=False) is Step.ALARM
    assert step_for(A, STATE, replace(membership, master=""), leads=True, follows=False) is Step.STAY


def test_a_process_leads_only_if_it_was_promoted_with_its_data_folder() -> None:
    # Its disk may have been replaced by an empty one, or an older copy of its data folder may have been put back. Whether it has
    # learned an older membership since makes no difference.
    membership = replace(MEMBERSHIP, master_boot_id="boot").with_incarnation("a", "a1")
    for state in (NEW, replace(NEW, is_new=False), replace(STATE, epoch=2)):
        for other in (Identity("a", "later boot", "a1"), Identity("a", "boot", "a2")):
            assert step_for(other, state, membership, leads=False, follows=False) is Step.WAIT
        assert step_for(Identity("a", "boot", "a1"), state, membership, leads=False, follows=False) is Step.LEAD
    assert not NEW.for_membership(MEMBERSHIP).is_new


def test_the_newest_membership_of_an_epoch_stays_known() -> None:
    state = STATE.for_membership(replace(MEMBERSHIP, version=9, in_sync=("a",)))
    assert (state.version, state.in_sync) == (9, ("a",))
    assert state.for_membership(replace(MEMBERSHIP, version=8)) == state, "a membership of a restored database"
    later = replace(MEMBERSHIP, epoch=4, version=2, promotion_id="p4")
    assert (state.for_membership(later).version, state.for_membership(later).in_sync) == (2, MEMBERSHIP.in_sync)


# --- confirmations ---------------------------------------------------------------------------------------------------


def test_the_high_watermark_is_what_all_counted_members_have() -> None:
    assert MASTER.confirmed("b", 5, 250, 1, 1).high_watermark == 250
    assert MASTER.confirmed("b", 5, 250, 1, 1).synced(400).confirmed("b", 5, 350, 1, 1).high_watermark == 350


def test_the_high_watermark_stays_when_a_session_ends() -> None:
    master = MASTER.confirmed("b", 5, 250, 1, 1)
    assert master.session_ended("b", 4) is master
    ended = master.session_ended("b", 5)
    assert (ended.high_watermark, ended.session_of("b")) == (250, None)
    assert ended.synced(400).high_watermark == 250


def test_a_removed_slave_counts_until_the_membership_is_stored() -> None:
    change = MASTER.remove("b")
    assert MASTER.high_watermark == 100
    assert MASTER.learned(change.applied_to(MEMBERSHIP)).high_watermark == 300


def test_a_slave_counts_from_the_request_to_add_it() -> None:
    alone = MASTER.learned(MASTER.remove("b").applied_to(MEMBERSHIP))
    assert not alone.may_add("b")
    ready = alone.confirmed("b", 5, 300, 1, 1)
    assert ready.may_add("b")
    asked, change = ready.add("b")
    assert asked.synced(400).high_watermark == ready.high_watermark == 300
    learned = asked.learned(change.applied_to(asked.membership))
    assert learned.membership.in_sync == ("a", "b")
    assert not learned.may_add("b")


def test_a_slave_that_counts_follows_with_the_data_folder_that_is_in_sync_only() -> None:
    assert MASTER.may_follow("b", "b1")
    assert not MASTER.may_follow("b", "b2")
    with pytest.raises(ValueError, match="'b' may not follow with data folder 'b2'"):
        MASTER.followed("b", 6, "b2")
    alone = MASTER.session_ended("b", 5).learned(MASTER.remove("b").applied_to(MEMBERSHIP))
    asked, change = alone.followed("b", 6, "b2").confirmed("b", 6, 300, 1, 1).add("b")
    assert change.incarnation == "b2"
    # The membership may have either one now.
    assert asked.may_follow("b", "b2")
    assert not asked.may_follow("b", "b1")
    assert asked.learned(change.applied_to(asked.membership)).membership.incarnations == ("", "b2")


def test_a_session_ends_when_a_membership_names_another_data_folder_of_the_slave() -> None:
    assert MASTER.learned(replace(MEMBERSHIP, version=8)).session_of("b") is not None
    assert MASTER.learned(replace(MEMBERSHIP, version=8, incarnations=("", "b2"))).session_of("b") is None


def test_a_slave_behind_is_not_added() -> None:
    alone = MASTER.learned(MASTER.remove("b").applied_to(MEMBERSHIP)).confirmed("b", 5, 299, 1, 1)
    assert not alone.may_add("b")
    assert not alone.may_add("stranger")
    with pytest.raises(ValueError, match="the addition of 'b' may not be requested"):
        alone.add("b")


def test_an_older_membership_or_one_of_another_epoch_changes_nothing() -> None:
    assert MASTER.learned(replace(MEMBERSHIP, in_sync=("a",))) is MASTER
    assert MASTER.learned(replace(MEMBERSHIP, version=6)) is MASTER
    assert MASTER.learned(replace(MEMBERSHIP, epoch=4, version=8)) is MASTER


def test_sends_need_the_minimum_of_members_in_sync() -> None:
    assert MASTER.accepts_sends
    assert not MASTER.learned(MASTER.remove("b").applied_to(MEMBERSHIP)).accepts_sends


@pytest.mark.parametrize(
    ("slave", "number", "end", "own_crc", "reason", "code"),
    [
        ("b", 4, 200, 1, "node 'b' has no session 4", "other_session"),
        ("c", 5, 200, 1, "node 'c' has no session 5", "other_session"),
        ("b", 5, 999, None, "confirmed log offset 999, where no commit of the master ends", "no_commit"),
        ("b", 5, 200, 2, "has another commit before log offset 200", "other_crc"),
        ("b", 5, 150, 1, "confirmed log offset 150 after 200", "below_last"),
    ],
)
def test_a_confirmation_that_does_not_count_says_why(
    slave: str, number: int, end: int, own_crc: int | None, reason: str, code: str
) -> None:
    master = MASTER.confirmed("b", 5, 200, 1, 1)
    with pytest.raises(SessionRejected, match=reason) as rejected:
        master.confirmed(slave, number, end, 1, own_crc)
    assert (rejected.value.code, rejected.value.is_alarm) == (code, code != "other_session")


# --- what a slave takes ----------------------------------------------------------------------------------------------


def test_a_slave_takes_commits_confirms_what_is_synced_and_knows_the_high_watermark() -> None:
    slave = SLAVE.received(3, "p3", 5, 200, 280, 250)
    assert (slave.end, slave.confirmable_end, slave.high_watermark) == (280, 100, 250)
    assert slave.synced(280).confirmable_end == 280
    assert replace(slave, is_copying=True).synced(280).confirmable_end is None


@pytest.mark.parametrize(
    ("epoch", "promotion_id", "session", "offset", "end", "reason"),
    [
        (2, "p3", 5, 200, 280, "commits of epoch 2, promotion 'p3'; the slave follows epoch 3"),
        (3, "other", 5, 200, 280, "promotion 'other'; the slave follows epoch 3, promotion 'p3'"),
        (3, "p3", 6, 200, 280, "commits of session 6; the slave is in session 5"),
        (3, "p3", 5, 264, 280, r"commits \[264, 280\); the slave's log ends at 200"),
        (3, "p3", 5, 100, 200, r"commits \[100, 200\); the slave's log ends at 200"),
        (3, "p3", 5, 200, 199, r"commits \[200, 199\); the slave's log ends at 200"),
    ],
)
def test_a_slave_does_not_take_other_commits(
    epoch: int, promotion_id: str, session: int, offset: int, end: int, reason: str
) -> None:
    with pytest.raises(CommitsRejected, match=reason):
        SLAVE.received(epoch, promotion_id, session, offset, end, 0)


# --- who may follow, and what it keeps -------------------------------------------------------------------------------

OWN = LogEnd(EpochChain.of([(1, 0), (3, 500)]), 0, 900)
OLD = LogEnd(EpochChain.of([(1, 0)]), 0, 700)


def test_a_slave_keeps_what_both_logs_have() -> None:
    answer = answer_follow(MEMBERSHIP, OWN, "b", 3, "p3", OLD)
    assert (answer.result, answer.keep_to) == (FollowResult.ACCEPTED, 500)


def test_an_empty_log_follows_an_empty_one() -> None:
    empty = LogEnd(EpochChain(), 0, 0)
    answer = answer_follow(MEMBERSHIP, empty, "b", 3, "p3", empty)
    assert (answer.result, answer.keep_to) == (FollowResult.ACCEPTED, 0)


@pytest.mark.parametrize(
    ("slave", "epoch", "promotion_id", "theirs", "result"),
    [
        ("stranger", 3, "p3", OLD, FollowResult.NOT_MEMBER),
        ("a", 3, "p3", OLD, FollowResult.NOT_MEMBER),
        ("b", 2, "p2", OLD, FollowResult.OLDER_EPOCH),
        ("b", 4, "p4", OLD, FollowResult.NEWER_EPOCH),
        ("b", 3, "other", OLD, FollowResult.OTHER_PROMOTION),
        ("b", 3, "p3", LogEnd(EpochChain.of([(1, 0), (3, 500)]), 0, 901), FollowResult.END_BEYOND),
        ("b", 3, "p3", LogEnd(EpochChain.of([(2, 600)]), 600, 900), FollowResult.TOO_FAR_BEHIND),
        ("b", 3, "p3", LogEnd(EpochChain.of([(1, 550)]), 550, 700), FollowResult.TOO_FAR_BEHIND),
    ],
)
def test_who_may_not_follow(slave: str, epoch: int, promotion_id: str, theirs: LogEnd, result: FollowResult) -> None:
    assert answer_follow(MEMBERSHIP, OWN, slave, epoch, promotion_id, theirs).result is result


def test_a_slave_behind_the_oldest_segment_of_the_master_copies() -> None:
    kept = replace(OWN, begin=600)
    assert answer_follow(MEMBERSHIP, kept, "b", 3, "p3", OLD).result is FollowResult.TOO_FAR_BEHIND
    assert (
        answer_follow(MEMBERSHIP, kept, "b", 3, "p3", LogEnd(EpochChain(), 0, 0)).result is FollowResult.TOO_FAR_BEHIND
    )


SAME = EpochChain.of([(1, 0), (3, 500)])
DAMAGED = replace(OWN, damaged=((100, 200), (600, 700), (800, 800)))


@pytest.mark.parametrize(
    ("theirs", "state_offset", "expected"),
    [
        # It has everything behind the last damage, whatever it has before.
        (LogEnd(SAME, 0, 801), 0, 801),
        (LogEnd(SAME, 0, 900), 0, 900),
        # It would have to apply what is lost.
        (LogEnd(SAME, 0, 800), 0, None),
        (LogEnd(SAME, 0, 700), 0, None),
        (LogEnd(EpochChain(), 0, 0), 0, None),
        # The master can't compare the logs.
        (LogEnd(SAME, 0, 650), 0, None),
        # It copies a state that stands behind all of it.
        (LogEnd(EpochChain(), 0, 0), 801, 0),
        (LogEnd(SAME, 0, 600), 801, 600),
        (LogEnd(SAME, 0, 750), 900, 750),
        # Its state stands before the last damage, or within it.
        (LogEnd(EpochChain(), 0, 0), 800, None),
        (LogEnd(SAME, 0, 600), 650, None),
        # It has to be truncated first, which may be refused.
        (OLD, 0, 500),
    ],
)
def test_a_slave_follows_behind_damage_and_copies_around_it(
    theirs: LogEnd, state_offset: int, expected: int | None
) -> None:
    answer = answer_follow(MEMBERSHIP, DAMAGED, "b", 3, "p3", theirs, state_offset)
    if expected is None:
        assert answer.result is FollowResult.TOO_FAR_BEHIND
    else:
        assert (answer.result, answer.keep_to) == (FollowResult.ACCEPTED, expected)


@pytest.mark.parametrize(
    ("lost_from", "offset", "state_offset", "is_accepted"),
    [
        (200, 300, 300, True),
        (200, 200, 201, True),
        (200, 300, 299, False),
        (200, 200, 200, False),
        (200, 300, 0, False),
        (199, 300, 900, False),
        (201, 300, 900, False),
        (None, 300, 900, False),
    ],
)
def test_a_slave_leaves_out_only_what_its_state_stands_behind(
    lost_from: int | None, offset: int, state_offset: int, is_accepted: bool
) -> None:
    def receive() -> Slave:
        return SLAVE.received(3, "p3", 5, offset, 400, 0, lost_from=lost_from, state_offset=state_offset)

    if is_accepted:
        assert receive().end == 400
        return
    with pytest.raises(CommitsRejected):
        receive()


def test_nothing_below_a_known_high_watermark_is_truncated() -> None:
    check_truncation(500, 500, 2, 3)
    with pytest.raises(TruncationRejected, match="truncated to offset 499, below the high watermark 500"):
        check_truncation(499, 500, 2, 3)


def test_commits_of_the_master_s_own_epoch_are_not_truncated() -> None:
    for epoch in (2, 3):
        with pytest.raises(
            TruncationRejected, match="offset 700, and its newest commit is of epoch 3, which the master has"
        ):
            check_truncation(700, 500, 3, epoch)


def test_a_high_watermark_does_not_fall() -> None:
    slave = SLAVE.received(3, "p3", 5, 200, 200, 900)
    assert slave.received(3, "p3", 5, 200, 200, 100).high_watermark == 900
