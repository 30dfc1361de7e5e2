"""Which policy version the directory names to nodes, and the documents behind it."""

import random

import pytest

from metaserver.choices import GroupKind, GroupState, OperatorState
from metaserver.domain import BrokerGroup, Metadata
from metaserver.memory.directory import Directory
from metaserver.memory.policies import policies_of
from qmq.errors import ProtocolError
from qmq.protocol.extensions import NodeRegisterRequest
from qmq.protocol.reasons import Code
from qmq_node import policy as p
from qmq_node.policy import EMPTY_POLICY, NodePolicy, SubjectPolicy, decode_policy, encode_policy
from qmq_node.replication.rules.membership import Membership
from tests.support.drivers.policies import set_policies
from tests.support.manual_clock import ManualClock


def registered(directory: Directory, group: str, node_id: str, policy_version: str = "") -> str:
    request = NodeRegisterRequest(
        0, group, node_id, "broker", 0, "10.0.0.1:1", "", 1, 1, 0, 0, "1", policy_version=policy_version
    )
    return directory.register(request).answer.policy_version


def test_until_somebody_says_what_the_policies_are_none_is_named() -> None:
    directory = Directory(ManualClock(), random.Random(1))
    assert registered(directory, "g1", "a") == ""
    assert directory.policies.document("g1", "old") == ("", b"")


def test_each_group_is_named_its_own_version_and_an_empty_one_lifts_everything() -> None:
    directory = Directory(ManualClock(), random.Random(1))
    closed = NodePolicy.of({"orders": SubjectPolicy(closed=True)})
    set_policies(directory, {"g1": closed})
    assert registered(directory, "g1", "a", closed.version) == closed.version
    assert directory.groups["g1"].policy_version == closed.version
    assert registered(directory, "g2", "b") == EMPTY_POLICY.version
    version, document = directory.policies.document("g1", "old")
    assert (version, decode_policy(document)) == (closed.version, closed)
    assert directory.policies.document("g1", closed.version) == (closed.version, b"")
    set_policies(directory, {})
    assert registered(directory, "g1", "a", closed.version) == EMPTY_POLICY.version
    assert decode_policy(directory.policies.document("g1", closed.version)[1]) == EMPTY_POLICY


@pytest.mark.parametrize(("state", "code"), [("read_only", Code.SET_READ_ONLY), ("draining", Code.GROUP_DRAINS)])
def test_a_node_is_sent_the_code_of_why_it_is_read_only(state: str, code: Code) -> None:
    group = BrokerGroup(
        GroupKind.BROKER,
        GroupState.READ_WRITE,
        Membership("g1", (), "a", ("a",), 1, 0, ""),
        operator_state=OperatorState(state),
    )
    policy = policies_of(Metadata((group,)), {})["g1"]
    sent = decode_policy(encode_policy(policy))
    assert (sent, sent.read_only.code, sent.read_only) == (policy, code, code.sentence)


def test_a_refused_node_is_named_no_policy() -> None:
    directory = Directory(ManualClock(), random.Random(1))
    set_policies(directory, {"g1": NodePolicy.of(read_only="x")})
    assert registered(directory, "g1", "a") != ""
    assert registered(directory, "g1", "stranger") == ""


def test_a_policy_too_long_for_nodes_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    directory = Directory(ManualClock(), random.Random(1))
    kept = NodePolicy.of(read_only="kept")
    set_policies(directory, {"g1": kept})
    long = NodePolicy.of({f"s{n}": SubjectPolicy(closed=True) for n in range(50)})
    monkeypatch.setattr(p, "POLICY_BYTES_MAX", 500)
    with pytest.raises(ProtocolError, match="500"):
        set_policies(directory, {"g1": kept, "g2": long})
    assert directory.policies.of("g1") == kept
    assert directory.policies.of("g2") == EMPTY_POLICY
