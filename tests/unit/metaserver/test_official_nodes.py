"""Which nodes of the official server may register."""

import pytest

from metaserver.requests.official_nodes import OfficialNodes
from qmq.errors import SettingError


def test_a_named_node_registers_from_its_own_host_with_its_own_address() -> None:
    nodes = OfficialNodes.parse("g1@10.0.0.1:20881, g2@[::1]:20881,g3@broker.example:20881", needs_addresses=True)
    assert nodes.broker_groups == {"g1", "g2", "g3"}
    assert nodes.problem("g1", "10.0.0.1:20881", "10.0.0.1:40000") == ""
    assert nodes.problem("g2", "[::1]:20881", "::1:40000") == ""
    assert nodes.problem("g3", "broker.example:20881", "10.0.0.9:1") == "", "a host name is not resolved"
    assert "own host" in nodes.problem("g1", "10.0.0.1:20881", "10.0.0.2:40000")
    for group, address in (("g2", "10.0.0.1:20881"), ("g1", "10.0.0.1:20882"), ("G1", "10.0.0.1:20881"), ("", "")):
        assert "official_nodes" in nodes.problem(group, address, "10.0.0.1:40000")


def test_without_names_none_may() -> None:
    for needs_addresses in (True, False):
        nodes = OfficialNodes.parse("", needs_addresses=needs_addresses)
        assert nodes.problem("g1", "10.0.0.1:20881", "10.0.0.1:1")
        assert nodes.problem("", "10.0.0.1:20881", "10.0.0.1:1")


def test_without_a_node_secret_a_group_may_be_named_alone() -> None:
    nodes = OfficialNodes.parse("g1, g2@10.0.0.1:20881", needs_addresses=False)
    assert nodes.broker_groups == {"g1", "g2"}
    assert nodes.problem("g1", "broker.example:20881", "10.0.0.9:1") == ""
    assert nodes.problem("g2", "10.0.0.1:20881", "10.0.0.1:1") == ""
    for group, address, peer in (
        ("g2", "10.0.0.1:20882", "10.0.0.1:1"),
        ("g2", "10.0.0.1:20881", "10.0.0.9:1"),
        ("g3", "10.0.0.1:20881", "10.0.0.1:1"),
    ):
        assert nodes.problem(group, address, peer), "an address that is named counts"


@pytest.mark.parametrize(
    "text", ["g1", "g1@", "@10.0.0.1:1", "g1@10.0.0.1", "g1@10.0.0.1:x", "g1@10.0.0.1:70000", "a@b:1;c@d:2"]
)
def test_another_form_is_a_wrong_setting(text: str) -> None:
    with pytest.raises(SettingError, match="GROUP@HOST:PORT"):
        OfficialNodes.parse(text, needs_addresses=True)
    if "@" in text:
        with pytest.raises(SettingError, match="GROUP@HOST:PORT"):
            OfficialNodes.parse(text, needs_addresses=False)
