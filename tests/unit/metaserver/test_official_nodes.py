"""Which nodes of the official server may register where there is a node secret."""

import pytest

from metaserver.official_nodes import OfficialNodes
from qmq.errors import SettingError


def test_a_named_node_registers_from_its_own_host_with_its_own_address() -> None:
    nodes = OfficialNodes.parse("g1@10.0.0.1:20881, g2@[::1]:20881,g3@broker.example:20881")
    assert nodes.problem("g1", "10.0.0.1:20881", "10.0.0.1:40000") == ""
    assert nodes.problem("g2", "[::1]:20881", "::1:40000") == ""
    assert nodes.problem("g3", "broker.example:20881", "10.0.0.9:1") == "", "a host name is not resolved"
    assert "own host" in nodes.problem("g1", "10.0.0.1:20881", "10.0.0.2:40000")
    for group, address in (("g2", "10.0.0.1:20881"), ("g1", "10.0.0.1:20882"), ("G1", "10.0.0.1:20881"), ("", "")):
        assert "official_nodes" in nodes.problem(group, address, "10.0.0.1:40000")


def test_without_names_none_may() -> None:
    assert OfficialNodes.parse("").problem("g1", "10.0.0.1:20881", "10.0.0.1:1")


@pytest.mark.parametrize(
    "text", ["g1", "g1@", "@10.0.0.1:1", "g1@10.0.0.1", "g1@10.0.0.1:x", "g1@10.0.0.1:70000", "a@b:1;c@d:2"]
)
def test_another_form_is_a_wrong_setting(text: str) -> None:
    with pytest.raises(SettingError, match="GROUP@HOST:PORT"):
        OfficialNodes.parse(text)
