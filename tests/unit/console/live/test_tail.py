"""A live tail: a client that has its snapshot misses nothing that is stored from then on."""

import asyncio
import json
from typing import Any

import pytest

from console.cluster import asking
from console.cluster.places import NodePlace
from console.live import tail
from console.live.audiences import NOTHING_SHOWN, Shown
from console.snapshot.state import KIND_BROKER
from qmq.errors import ConnectionLost
from qmq.node_admin import NodeRefused
from qmq.protocol.masking import NO_MASKS, Masks
from tests.support.manual_clock import ManualClock

MASKS = Masks.of([{"properties": ["card"], "json_paths": [], "how": "hide"}])
PLACE = NodePlace("g1-a", "g1", KIND_BROKER, True, "127.0.0.1:1", "127.0.0.1:2")


class Node:
    """A broker's pages, held back until `answers` is set."""

    def __init__(self) -> None:
        self.answers = asyncio.Event()
        self.stored = 3
        self.is_away = False

    async def stats(self, subject: str) -> dict[str, Any]:
        await self.answers.wait()
        if self.is_away:
            raise ConnectionLost("g1-a is away")
        return {"subjects": [{"end_sequence": self.stored}]}

    async def messages(self, subject: str, *, sequence: int, limit: int, masks: Masks) -> dict[str, Any]:
        self.masks = masks
        rows = [{"sequence": at, "bytes": 1} for at in range(sequence, self.stored)]
        return {"begin_sequence": 0, "end_sequence": self.stored, "messages": rows}

    async def search(
        self, subject: str, *, filters: list[str], order: str, sequence: int, limit: int, masks: Masks
    ) -> dict[str, Any]:
        """Even sequences match; a step searches at most 10."""
        self.masks = masks
        assert (subject, order) == ("orders", "oldest")
        if filters == ["wrong"]:
            raise NodeRefused("line 1, column 1: wrong", code="filter.invalid", status=400)
        stop = min(self.stored, sequence + 10)
        rows = [{"sequence": at, "bytes": 1} for at in range(sequence, stop) if at % 2 == 0][:limit]
        reached = rows[-1]["sequence"] + 1 if len(rows) == limit else stop
        following = reached if reached < self.stored else None
        return {"begin_sequence": 0, "end_sequence": self.stored, "next_sequence": following, "messages": rows}


class Client:
    def __init__(self) -> None:
        self.got: list[dict[str, Any]] = []

    def offer(self, text: str, shown: Shown = NOTHING_SHOWN) -> None:
        self.got.append(json.loads(text))


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> Node:
    node = Node()
    monkeypatch.setattr(asking, "node_admin", lambda *_: node)
    return node


async def source(_: str, role: str) -> tail.Source:
    return tail.Source([PLACE], MASKS if role == "operator" else NO_MASKS)


def sequences(client: Client) -> list[str]:
    return [message["sequence"] for delta in client.got[1:] for message in delta["messages"]]


async def test_a_snapshot_comes_when_it_is_known_where_each_node_begins(node: Node) -> None:
    one, client = tail.Tail("orders", "", "operator", ManualClock(), source), Client()
    one.join(client)
    looking = asyncio.create_task(one.look())
    await asyncio.sleep(0)
    assert client.got == [], "a message stored now would be before the beginning"
    node.answers.set()
    await looking
    assert [text["type"] for text in client.got] == ["snapshot"]
    node.stored += 1
    await one.look()
    assert sequences(client) == ["3"]


@pytest.mark.parametrize("filter_text", ["", "even"])
@pytest.mark.parametrize(("role", "masks"), [("operator", MASKS), ("admin", NO_MASKS)])
async def test_nodes_are_asked_with_the_rules_of_the_readers_role(
    node: Node, role: str, masks: Masks, filter_text: str
) -> None:
    one = tail.Tail("orders", filter_text, role, ManualClock(), source)
    node.answers.set()
    await one.look()
    await one.look()
    assert node.masks == masks


async def test_who_comes_later_gets_a_snapshot_at_once(node: Node) -> None:
    one, first, second = tail.Tail("orders", "", "operator", ManualClock(), source), Client(), Client()
    node.answers.set()
    one.join(first)
    await one.look()
    one.join(second)
    node.stored += 1
    await one.look()
    assert sequences(first) == sequences(second) == ["3"]


async def test_a_node_that_does_not_answer_is_named_in_the_snapshot(node: Node) -> None:
    one, client = tail.Tail("orders", "", "operator", ManualClock(), source), Client()
    node.answers.set()
    node.is_away = True
    one.join(client)
    await one.look()
    assert client.got == [
        {"type": "snapshot", "version": 0, "subject": "orders", "unknown": {"g1-a": "g1-a is away"}},
    ]


async def test_a_filter_is_applied_to_all_messages_by_the_nodes(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail, "MESSAGES_PER_SECOND_MAX", 20)
    one, client = tail.Tail("orders", "even", "operator", ManualClock(), source), Client()
    node.answers.set()
    one.join(client)
    await one.look()
    node.stored = 17
    await one.look()
    assert sequences(client) == ["4", "6", "8", "10", "12"]
    await one.look()
    assert sequences(client)[-2:] == ["14", "16"], "the step continues where it ended"
    assert [delta["left_out"] for delta in client.got[1:]] == [0, 0]
    monkeypatch.setattr(tail, "MESSAGES_PER_SECOND_MAX", 4)
    node.stored = 27
    await one.look()
    assert sequences(client)[-2:] == ["18", "20"]
    assert client.got[-1]["left_out"] == 6, "not searched"
    node.stored = 29
    await one.look()
    assert sequences(client)[-1] == "28"


async def test_a_filter_that_nodes_reject_ends_the_tail(node: Node) -> None:
    one = tail.Tail("orders", "wrong", "operator", ManualClock(), source)
    node.answers.set()
    await one.look()
    node.stored += 1
    with pytest.raises(tail.FilterRefused, match="column 1"):
        await one.look()
