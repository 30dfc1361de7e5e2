"""Deliberate breakages of what a master runs: the tests of this folder notice each."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

import pytest

from qmq.protocol.codes import FollowResult
from tests.sim.leading import test_bad_input, test_following, test_in_sync, test_proofs, test_sending
from tests.sim.world.loop import running_loop
from tests.support.source_change import SourceChange

PACKAGE = "qmq_node.replication.master."


@dataclass(frozen=True)
class Breakage:
    """One change, and a test that fails with it."""

    name: str
    where: str
    old: str
    new: str
    test: Callable[[], Awaitable[None]]


BREAKAGES = (
    Breakage(
        "the high watermark counts confirmations of an ended session",
        "qmq_node.replication.rules.master:Master.confirmed",
        "if session is None or session.number != number:",
        "if session is None:",
        test_bad_input.test_a_second_session_of_a_slave_ends_the_first,
    ),
    Breakage(
        "a slave that counts follows with another data folder",
        "qmq_node.replication.rules.master:Master.may_follow",
        "return slave not in self.counted or",
        "return True or",
        test_in_sync.test_a_slave_with_another_data_folder_follows_when_it_has_left_the_set,
    ),
    Breakage(
        "the end of a connection does not end its session",
        PACKAGE + "sessions:Sessions.begin",
        'sender.connection.on_close(lambda: self.end(sender, "disconnected"))',
        "pass",
        test_in_sync.test_a_slave_whose_connection_ended_has_a_second_to_come_back,
    ),
    Breakage(
        "a slave that is removed stops counting before the membership says so",
        PACKAGE + "in_sync_set:InSyncSet.due_change",
        "return master.remove(member), reason",
        "change = master.remove(member)\n        self._master.set(master.learned(change.applied_to(master.membership)))\n"
        "        return change, reason",
        test_in_sync.test_a_slave_that_stalls_is_removed_after_three_seconds_membership_first,
    ),
    Breakage(
        "a slave counts only once its addition is known to be stored",
        "qmq_node.replication.rules.master:Master.add",
        "replace(self, requested=self.requested | {added})",
        "self",
        lambda: test_in_sync.test_an_addition_with_an_unknown_outcome_counts_and_is_repeated("lost"),
    ),
    Breakage(
        "an unknown outcome is taken for a failure",
        PACKAGE + "membership_changes:MembershipChanges._send",
        "if result is not MembershipResult.UNAVAILABLE:",
        "if True:",
        test_in_sync.test_a_removal_with_an_unknown_outcome_is_repeated_although_the_slave_is_back,
    ),
    Breakage(
        "confirmations of a slave that copies count",
        PACKAGE + "leading:Leading._confirm",
        "if state is not FollowState.COPYING:",
        "if True:",
        test_in_sync.test_what_a_slave_confirms_while_it_copies_does_not_count,
    ),
    Breakage(
        "a new session is progress",
        PACKAGE + "in_sync_set:InSyncSet.followed",
        "known = self._slaves[slave]",
        "known = self._slaves[slave] = _Slave(Progress(), None)",
        test_in_sync.test_a_slave_that_only_reconnects_makes_no_progress,
    ),
    Breakage(
        "a commit that is being written is beyond the master's end",
        PACKAGE + "following_slaves:FollowRules._common_end",
        "self._feed.end",
        "self._log.written_end",
        test_sending.test_commits_are_sent_before_this_disk_has_them,
    ),
    Breakage(
        "the window is not kept",
        PACKAGE + "sender:Sender._has_room",
        "in_flight + size <= self._window_bytes",
        "True",
        test_sending.test_a_slow_slave_is_bounded_by_its_window_while_the_other_keeps_pace,
    ),
    Breakage(
        "a seal that is not confirmed closes the window",
        PACKAGE + "sender:Sender._has_room",
        "self._sent_records_end <= self.confirmed_end",
        "self.sent_end <= self.confirmed_end",
        test_sending.test_a_slave_that_does_not_confirm_seals_receives_what_is_behind_them,
    ),
    Breakage(
        "commits of a damaged log are sent",
        PACKAGE + "log_reader:_ends",
        " or not is_whole(header, data[at:commit_end])",
        "",
        test_sending.test_a_damaged_place_of_the_log_ends_the_session_and_nothing_else,
    ),
    Breakage(
        "a slave that applies the log gets what follows damage",
        PACKAGE + "sender:Sender._leave_out",
        "self._state_offset < max(end, begin + 1)",
        "False",
        test_sending.test_a_damaged_place_of_the_log_ends_the_session_and_nothing_else,
    ),
    Breakage(
        "the feed drops a commit that is not written yet",
        PACKAGE + "feed:Feed._add",
        "len(self._commits) > 1",
        "self._commits",
        test_following.test_a_commit_larger_than_the_memory_for_commits_is_sent_from_there,
    ),
    Breakage(
        "a slave that has not synced a seal at its end is taken for a broken one",
        PACKAGE + "sender:Sender.crc_at",
        "if end < self.keep_to:",
        "if False:",
        test_following.test_a_slave_may_confirm_less_than_it_keeps,
    ),
    Breakage(
        "sessions of two processes have the same numbers",
        PACKAGE + "leading:Leading.__post_init__",
        "self.rng.randrange(1, 1 << 62)",
        "1",
        test_in_sync.test_numbers_of_sessions_differ_between_processes,
    ),
    Breakage(
        "the proof of one slave holds for another",
        PACKAGE + "listener:SyncListener._has_proved",
        "self.auth.purpose_of(connection) == purpose",
        "self.auth.purpose_of(connection)",
        lambda: test_proofs.test_a_proof_holds_for_its_group_node_and_promotion_only({"node_id": "b"}),
    ),
    Breakage(
        "a master proves itself to slaves of another promotion",
        PACKAGE + "listener:SyncListener._problem_of",
        "leading.candidates.problem_of(connection, claim)",
        '""',
        lambda: test_proofs.test_a_master_proves_itself_to_its_slaves_in_its_promotion_only(
            replace(test_proofs.CLAIM, promotion_id=test_proofs.OTHER), FollowResult.OTHER_PROMOTION
        ),
    ),
    Breakage(
        "connections without a proof keep slaves out",
        PACKAGE + "listener:SyncListener._expendable",
        "if not hosts:",
        "if True:",
        test_proofs.test_at_the_limit_the_oldest_connection_without_a_proof_makes_room,
    ),
    Breakage(
        "a slave's connection makes room for a stranger",
        PACKAGE + "listener:SyncListener._expendable",
        "connection not in self._proven and not connection.is_closed",
        "not connection.is_closed",
        test_proofs.test_connections_that_proved_themselves_are_not_closed_for_another,
    ),
)


@pytest.mark.parametrize("breakage", BREAKAGES, ids=lambda breakage: breakage.name)
async def test_each_breakage_is_noticed(breakage: Breakage) -> None:
    change = SourceChange(breakage.name, breakage.where, breakage.old, breakage.new)
    with change.applied(), pytest.raises((AssertionError, ExceptionGroup, pytest.fail.Exception)):
        await run(breakage.test)


async def run(test: Callable[[], Awaitable[None]]) -> None:
    """Run a test, which fails as well if exceptions reached the loop."""
    try:
        await test()
    finally:
        errors, running_loop().errors = running_loop().errors, []
    assert not errors
