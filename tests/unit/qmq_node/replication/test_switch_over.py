"""Which slave a switch-over promotes, and why none can be. Whole switch-overs: tests/sim/replication/test_switch_over.py."""

import pytest

from qmq.protocol.codes import FollowState
from qmq_node.replication.master.slave_report import SlaveReport
from qmq_node.replication.rules.membership import Membership
from qmq_node.replication.switch_overs import SwitchOverRejected, choose

MEMBERSHIP = Membership("g", ("a", "b", "c"), "a", ("a", "b", "c"), 2, 1, "promotion")


def report(
    name: str, lag_seconds: float | None = 0.0, state: FollowState | None = FollowState.FOLLOWING, end: int = 900
) -> SlaveReport:
    return SlaveReport(name, state, 1000, end, end, 1000 - end, lag_seconds)


def test_the_slave_that_has_the_most_is_promoted() -> None:
    assert choose(MEMBERSHIP, [report("b"), report("c", end=950)], "").node_id == "c"
    assert choose(MEMBERSHIP, [report("b"), report("c", end=950)], "b").node_id == "b"


@pytest.mark.parametrize(
    ("slaves", "reason"),
    [
        ([], "node b is not connected"),
        ([report("b", state=None)], "node b has confirmed nothing yet"),
        ([report("b", state=FollowState.COPYING)], "node b is copying"),
        ([report("b", 1.26)], "node b lacks 100 bytes of the log, some for 1.3 s, more than 1 s"),
        (
            [report("b", None)],
            "node b lacks 100 bytes of the log, some of them older than the commits that the master has in memory",
        ),
        ([report("b")], "node b lacks 100 bytes of the log"),
    ],
)
def test_a_rejection_states_the_reason(slaves: list[SlaveReport], reason: str) -> None:
    with pytest.raises(SwitchOverRejected) as rejected:
        choose(MEMBERSHIP, slaves, "b", has_all_below=1000 if reason.endswith("100 bytes of the log") else 0)
    assert str(rejected.value) == reason


def test_a_slave_that_lacks_commits_for_a_short_time_is_promoted() -> None:
    assert choose(MEMBERSHIP, [report("b", 1.0)], "b").node_id == "b"
