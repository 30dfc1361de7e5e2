"""Asking several nodes: each is named once, with what it answered or why it did not."""

import asyncio
from typing import Any

import pytest

from console.cluster import asking, limits
from console.cluster.asking import NO_ADDRESS, Nodes, ask
from qmq.errors import CallTimeout, ConnectionLost, Unreachable
from qmq.node_admin import NodeAdmin, NodeRefused

NODE: Any = object()


async def question(name: str, node: NodeAdmin) -> str:
    await asyncio.sleep(0)
    if name == "lost":
        raise ConnectionLost("nobody answers")
    if name == "refusing":
        raise Unreachable("http://10.0.0.9:20981/stats", "connection refused")
    if name == "broken":
        raise ConnectionResetError("reset")
    if name == "empty":
        raise NodeRefused("no such subject", code="subject.unknown", status=404)
    if name == "busy":
        raise NodeRefused("too many searches", code="scan.busy", status=503)
    if name == "silent":
        await asyncio.Event().wait()
    return name.upper()


async def test_every_node_is_named_once_in_the_order_they_were_given() -> None:
    names = ("b", "lost", "a", "empty", "busy", "broken")
    nodes = Nodes(dict.fromkeys(names, NODE), {"gone": "it was removed"})
    found = await nodes.answers(question)
    assert list(found.values.items()) == [("b", "B"), ("a", "A")]
    assert found.absent == {"empty": "no such subject"}
    assert found.unreachable == {
        "gone": "it was removed", "lost": "nobody answers", "busy": "too many searches", "broken": "reset",
    }  # fmt: skip
    assert found.codes["busy"] == "scan.busy"
    assert "gone" not in found.codes, "it was not asked"


async def test_the_reason_of_one_that_can_not_be_reached_leaves_its_address_out() -> None:
    found = await Nodes({"refusing": NODE}).answers(question)
    assert (found.unreachable, found.codes) == ({"refusing": "connection refused"}, {"refusing": "net.unreachable"})


def test_offline_nodes_have_less_time(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds: dict[str, float] = {}
    monkeypatch.setattr(asking, "node_admin", lambda address, limit, bytes_max: seconds.__setitem__(address, limit))
    addresses = {"g1": "10.0.0.1:20981", "g2": "10.0.0.2:20981"}
    Nodes.at(addresses, offline={"g2"})
    assert seconds == {"10.0.0.1:20981": limits.NODE_SECONDS, "10.0.0.2:20981": limits.OFFLINE_NODE_SECONDS}
    Nodes.at(addresses, 0.5, offline={"g2"})
    assert set(seconds.values()) == {0.5}


async def test_one_that_does_not_answer_costs_its_own_time_only() -> None:
    found = await Nodes({"silent": NODE, "a": NODE}).answers(question, seconds=0.01)
    assert (found.values, found.unreachable) == ({"a": "A"}, {"silent": "timed out after 0.01 s"})


async def test_only_so_many_are_asked_at_once() -> None:
    asked, most = 0, 0

    async def counting(name: str, node: NodeAdmin) -> None:
        nonlocal asked, most
        asked += 1
        most = max(most, asked)
        await asyncio.sleep(0)
        asked -= 1

    await Nodes({str(number): NODE for number in range(9)}).answers(counting, at_once=3)
    assert most == 3


async def test_a_mistake_of_ours_is_no_answer() -> None:
    async def wrong(name: str, node: NodeAdmin) -> None:
        raise KeyError(name)

    with pytest.raises(KeyError):
        await Nodes({"a": NODE}).answers(wrong)


def test_those_left_out_are_not_asked_and_those_that_can_not_be_asked_stay_named() -> None:
    nodes = Nodes({"a": NODE, "b": NODE}, {"gone": "it was removed"}).only(["b", "gone", "unknown"])
    assert list(nodes.admins) == ["b"]
    assert nodes.unreachable == {"gone": "it was removed"}
    with pytest.raises(ConnectionLost, match="it was removed"):
        nodes.one("gone")


@pytest.mark.parametrize(("address", "why"), [("", NO_ADDRESS), ("nowhere", "host:port")])
def test_a_node_without_a_usable_address_can_not_be_asked(address: str, why: str) -> None:
    assert why in Nodes.at({"a": address}).unreachable["a"]


def test_a_request_has_one_deadline_over_all_that_it_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "REQUEST_SECONDS", 0.01)
    with pytest.raises(CallTimeout, match=r"no response within 0\.01 s"):
        ask(lambda: Nodes({"silent": NODE}).answers(question))
