"""When the commits of a slave share syncs."""

import pytest

from qmq_node.replication.slave.sync_sharing import (
    SHARED_BYTES_MAX,
    SHARED_COMMITS_FEW,
    SHARED_COMMITS_MAX,
    SHARING_SECONDS_MIN,
    SHARING_WAITED_SECONDS,
    SHARING_WAITING_MIN,
    SyncSharing,
)


@pytest.mark.parametrize(
    ("waited", "waiting", "is_needed"),
    [(0.099, 1_000, False), (0.1, 3, False), (0.1, 4, True), (5.0, 1, False)],
)
def test_syncs_are_shared_when_several_commits_have_waited(waited: float, waiting: int, is_needed: bool) -> None:
    assert (SHARING_WAITED_SECONDS, SHARING_WAITING_MIN) == (0.1, 4)
    assert SyncSharing().is_needed(waited, waiting) is is_needed


@pytest.mark.parametrize(("groups", "ends"), [((1, 2), True), ((1, 2, 2), False), ((50, 1, 1), False), ((), True)])
def test_they_are_shared_no_longer_when_few_commits_shared_one_for_a_while(groups: tuple[int, ...], ends: bool) -> None:
    assert (SHARED_COMMITS_FEW, SHARING_SECONDS_MIN) == (1.5, 10.0)
    sharing = SyncSharing()
    sharing.began(100.0)
    for commits in groups:
        sharing.shared(commits)
    assert not sharing.may_end(109.9)
    assert sharing.may_end(110.0) is ends
    sharing.shared(1)
    assert not sharing.may_end(119.9), "the counts have begun again"
    assert sharing.may_end(120.0)


def test_the_limits_of_a_group() -> None:
    assert (SHARED_COMMITS_MAX, SHARED_BYTES_MAX) == (2_000, 8 << 20)
