"""Which pulls are held, refused and logged, by names alone."""

from broker_node.delivery.pull_gate import PullGate
from qmq.protocol.commands import PullRequest
from qmq_node.policy import EMPTY_POLICY, NodePolicy, SubjectPolicy


def pull(subject: str, group: str = "g", consumer: str = "c") -> PullRequest:
    return PullRequest(subject, group, consumer, 1, -1, -1, -1, False, ())


def test_a_pause_counts_for_the_real_subject_and_the_groups_retries() -> None:
    gate = PullGate()
    assert not gate
    assert set(gate.apply(NodePolicy.of(paused=[("s", "g", ""), ("s", "h", "c1")]))) == set()
    assert gate
    for subject, group, consumer, expected in (
        ("s", "g", "any", True),
        ("%RETRY%s%g", "g", "any", True),
        ("%DEAD_RETRY%s%g", "g", "any", False),
        ("s", "h", "c1", True),
        ("%RETRY%s%h", "h", "c1", True),
        ("s", "h", "c2", False),
        ("s", "other", "c1", False),
        ("t", "g", "any", False),
        ("%odd", "g", "any", False),
    ):
        assert gate.is_paused(pull(subject, group, consumer)) is expected, (subject, group, consumer)
        assert gate.allows(pull(subject, group, consumer))
    assert set(gate.apply(NodePolicy.of(paused=[("s", "g", "")]))) == {("s", "h", "c1")}
    assert set(gate.apply(EMPTY_POLICY)) == {("s", "g", "")}
    assert not gate


def test_groups_are_allowed_by_the_real_subject_and_dead_letters_are_left_alone() -> None:
    gate = PullGate()
    gate.apply(NodePolicy.of({"s": SubjectPolicy(allowed_groups=("g",)), "none": SubjectPolicy(allowed_groups=())}))
    for subject, group, expected in (
        ("s", "g", True),
        ("s", "h", False),
        ("%RETRY%s%g", "g", True),
        ("%RETRY%s%g", "h", False),
        ("%RETRY%s%h", "h", False),
        ("%DEAD_RETRY%s%g", "h", True),
        ("none", "g", False),
        ("t", "h", True),
    ):
        assert gate.allows(pull(subject, group)) is expected, (subject, group)


def test_a_refused_group_is_said_once_a_minute() -> None:
    gate = PullGate()
    assert gate.is_new_refusal(pull("s", "a"), 0.0)
    assert not gate.is_new_refusal(pull("s", "a"), 59.9)
    assert gate.is_new_refusal(pull("s", "a"), 60.0)
    assert gate.is_new_refusal(pull("s", "b"), 60.0)
