"""Masking rules of a request: what the pages of a broker node show, and what a search finds."""

import json
from pathlib import Path
from typing import Any

import pytest

from broker_node import serving
from broker_node.admin.pages import BrokerPages
from broker_node.admin.view import NodeView
from qmq.node_admin import NodeAdmin, NodeRefused
from qmq.protocol.masking import HIDDEN, Masks
from qmq.protocol.messages import Message
from tests.sim.broker.admin import admin_of
from tests.support.drivers.in_process import connected, message, running_broker

SECRET = "4111111111111111"
MASKS = Masks.of([{"properties": ["card*"], "json_paths": ["customer.email", "items[*].price"], "how": "hide"}], b"key")
CONTENT = {"/subjects/{subject:[^/]+}/messages", "/subjects/{subject:[^/]+}/messages/{sequence:[0-9]{1,19}}/trace",
           "/subjects/{subject:[^/]+}/search"}  # fmt: skip
"""The pages that contain properties of messages."""


def secret_message(number: int = 0) -> Message:
    plain = message(number)
    body = {"customer": {"email": SECRET, "name": "Ada"}, "items": [{"price": int(SECRET), "sku": "A-1"}]}
    properties = plain.properties | {"card_number": SECRET, "data": json.dumps(body)}
    return Message("orders", plain.message_id, properties, (), 0, plain.created_at_ms, plain.time_ms)


def check_masked(found: Any) -> None:
    """Fail unless a message is shown, without what the rules hide."""
    assert SECRET not in json.dumps(found)
    (shown,) = found["messages"] if "messages" in found else [found["message"]]
    assert shown["properties"]["card_number"] == HIDDEN
    body = {"customer": {"email": HIDDEN, "name": "Ada"}, "items": [{"price": HIDDEN, "sku": "A-1"}]}
    assert json.loads(shown["properties"]["data"]) == body
    assert [(mark["property"], mark["rule"]) for mark in shown["masked"]] == [
        ("card_number", "card*"), ("data", "customer.email"), ("data", "items[*].price"),
    ]  # fmt: skip


async def test_no_page_with_messages_shows_what_is_masked(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker, connected(broker) as client:
        await client.send(secret_message())
        admin = admin_of(broker)
        shown = {
            "page": await admin.messages("orders", masks=MASKS),
            "by time": await admin.messages("orders", from_time=0, masks=MASKS),
            "by ID": await admin.messages("orders", message_id="m0", masks=MASKS),
            "search": await admin.search("orders", masks=MASKS),
            "search by ID": await admin.search("orders", message_id="m0", masks=MASKS),
            "trace": await admin.trace("orders", 0, masks=MASKS),
        }
        for found in shown.values():
            check_masked(found)
        assert SECRET in json.dumps(await admin.messages("orders"))


async def test_the_pages_of_this_test_are_all_that_show_messages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[BrokerPages] = []

    def remembered(view: NodeView) -> BrokerPages:
        made.append(BrokerPages(view))
        return made[-1]

    monkeypatch.setattr(serving, "BrokerPages", remembered)
    async with running_broker(tmp_path) as broker, connected(broker) as client:
        await client.begin()
        await client.send(secret_message())
        await client.pull()
        admin = admin_of(broker)
        routes = made[-1].routes
        assert set(routes) >= CONTENT
        for path in routes:
            place = path.replace("{subject:[^/]+}", "orders").replace("{group:[^/]+}", "g")
            place = place.replace("{sequence:[0-9]{1,19}}", "0")
            assert "{" not in place, f"test {path} too"
            try:
                found = await admin._get(place, {"to": "earliest"} if place.endswith("preview") else {})
            except NodeRefused as error:
                found = {"error": str(error)}
            assert (SECRET in json.dumps(found)) == (path in CONTENT), path


@pytest.mark.parametrize("value", [SECRET, HIDDEN])
async def test_a_search_compares_what_it_shows(tmp_path: Path, value: str) -> None:
    async with running_broker(tmp_path) as broker, connected(broker) as client:
        await client.send(secret_message(), message(1))
        admin = admin_of(broker)

        async def found(**properties: str) -> list[int]:
            page = await admin.search("orders", properties=properties, masks=MASKS)
            return [item["sequence"] for item in page["messages"]]

        assert await found(card_number=value) == ([0] if value == HIDDEN else [])
        assert await found(card_number=value, number="0") == ([0] if value == HIDDEN else [])
        assert await found(number="1") == [1]


async def test_a_body_that_cannot_be_masked_is_hidden(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker, connected(broker) as client:
        plain = message(0)
        deep = plain.properties | {"data": "[" * 20_000 + SECRET}
        await client.send(Message("orders", "m0", deep, (), 0, plain.created_at_ms, plain.time_ms))
        (shown,) = (await admin_of(broker).messages("orders", masks=MASKS))["messages"]
        assert shown["properties"]["data"] == HIDDEN
        assert [mark["why"] for mark in shown["masked"]] == ["too_deep"]


async def test_masks_that_are_not_understood_are_refused(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker, connected(broker) as client:
        await client.send(message(0))
        admin: NodeAdmin = admin_of(broker)
        for place in ("messages", "search", "messages/0/trace"):
            with pytest.raises(NodeRefused, match="masks must be an object") as refused:
                await admin._get(f"/subjects/orders/{place}", {"masks": '{"rules": []}'})
            assert refused.value.status == 400
