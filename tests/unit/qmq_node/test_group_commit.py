"""When a commit waits for further requests, and when it does not."""

import pytest

from qmq_node.commits.group_commit import COMMITS_PASSED_MAX, GATHER_SECONDS, SMALL_COMMIT_BYTES, GroupCommit
from tests.support.manual_clock import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def group(clock: ManualClock) -> GroupCommit:
    return GroupCommit(clock)


def waits(group: GroupCommit, requests: int) -> bool:
    """Whether the commit after one with so many requests waits for the last of as many."""
    group.completed(requests, 0, 1000)
    is_waiting = group.expects_more(requests - 1)
    group.begun(requests if is_waiting else requests - 1, is_partial=False)
    return is_waiting


def test_a_commit_waits_for_as_many_requests_as_the_last_one_had(group: GroupCommit) -> None:
    assert not group.expects_more(0), "there was none yet"
    group.completed(4, 0, 1000)
    assert [group.expects_more(requests) for requests in range(6)] == [True] * 4 + [False] * 2
    group.begun(4, is_partial=False)
    assert not group.expects_more(0), "a commit is under way"


def test_a_commit_waits_for_a_moment_only(group: GroupCommit, clock: ManualClock) -> None:
    group.completed(4, 0, 1000)
    clock.advance(GATHER_SECONDS)
    assert not group.expects_more(3)


def test_after_a_wait_in_vain_the_next_commits_do_not_wait(group: GroupCommit) -> None:
    passed = []
    for _ in range(8):
        group.completed(4, 0, 1000)
        assert group.expects_more(3)
        group.begun(3, is_partial=False)
        passed.append(0)
        while True:
            group.completed(4, 0, 1000)
            if group.expects_more(3):
                break
            passed[-1] += 1
            group.begun(3, is_partial=False)
    assert passed == [1, 3, 7, 15, 31, 63, 63, 63]
    assert max(passed) == COMMITS_PASSED_MAX
    group.begun(4, is_partial=False)
    assert waits(group, 4)
    group.completed(4, 0, 1000)
    group.begun(3, is_partial=False)
    assert not waits(group, 4), "one commit passes again, not 63"
    assert waits(group, 4)


def test_to_wait_for_clients_that_send_without_an_answer_is_in_vain(group: GroupCommit) -> None:
    group.completed(4, 2, 1000)
    assert group.expects_more(3)
    group.begun(4, is_partial=False)
    group.completed(6, 2, 1000)
    assert not group.expects_more(3), "two came during the commit, although it had waited for all"
    group.begun(3, is_partial=False)
    assert waits(group, 4)
    assert waits(group, 4), "none came during it"


def test_a_commit_does_not_wait_after_a_large_one(group: GroupCommit) -> None:
    group.completed(4, 0, SMALL_COMMIT_BYTES + 1)
    assert not group.expects_more(0)
    group.completed(4, 0, SMALL_COMMIT_BYTES)
    assert group.expects_more(0)


def test_what_did_not_fit_a_commit_follows_at_once(group: GroupCommit) -> None:
    group.completed(4, 0, 1000)
    group.begun(4, is_partial=True)
    group.completed(4, 0, 1000)
    assert not group.expects_more(0)
    group.begun(4, is_partial=False)
    assert waits(group, 4)


def test_nothing_waits_while_it_is_off(group: GroupCommit) -> None:
    group.completed(4, 0, 1000)
    group.is_off = True
    assert not group.expects_more(3)
    group.is_off = False
    assert group.expects_more(3)
