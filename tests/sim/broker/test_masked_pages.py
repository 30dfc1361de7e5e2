"""Masking rules of a request: what the pages of a broker node show, and what a search finds."""

import json
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pytest

from broker_node import serving
from broker_node.admin.pages import BrokerPages
from broker_node.admin.view import NodeView
from broker_node.reads.filtered import step
from qmq.client.bodies import encode_body
from qmq.formats import BodyFormat
from qmq.node_admin import NodeAdmin, NodeRefused
from qmq.protocol.masking import HIDDEN, Masks
from qmq.protocol.messages import Message
from tests.sim.broker.admin import admin_of, asked, sequences
from tests.support.drivers.in_process import connected, message, running_broker
from tests.support.manual_clock import ManualClock

SECRET = "4111111111111111"
MASKS = Masks.of([{"properties": ["card*"], "json_paths": ["customer.email", "items[*].price"], "how": "hide"}], b"key")
CONTENT = {"/subjects/{subject:[^/]+}/messages", "/subjects/{subject:[^/]+}/messages/{sequence:[0-9]{1,19}}/trace"}
"""The GET pages that contain properties of messages; of the POST ones, search does."""


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
            "newest first": await admin.newest_messages("orders", masks=MASKS),
            "search": await admin.search("orders", masks=MASKS),
            "search by ID": await admin.search("orders", filters=['id == "m0"'], masks=MASKS),
            "search by what is not masked": await admin.search("orders", filters=["number=0"], masks=MASKS),
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
                query = {"message_id": "m0", "from_time": 0, "to_time": 1} if place == "/messages" else {}
                found = await admin._get(place, {"to": "earliest"} if place.endswith("preview") else query)
            except NodeRefused as error:
                found = {"error": str(error)}
            assert (SECRET in json.dumps(found)) == (path in CONTENT), path


@pytest.mark.parametrize("order", ["newest", "oldest"])
@pytest.mark.parametrize(
    "text",
    [
        f"card_number={SECRET}",
        f'properties["card_number"].startsWith("{SECRET[:6]}")',
        f'body.customer.email == "{SECRET}"',
        f"body.items[0].price == {SECRET}",
        f'text.contains("{SECRET}")',
        f'properties.data.contains("{SECRET}")',
        SECRET,
        'size(properties.card_number) == 16 && properties.number == "0"',
    ],
)
async def test_a_filter_sees_what_is_shown(tmp_path: Path, text: str, order: str) -> None:
    async with running_broker(tmp_path) as broker, connected(broker) as client:
        await client.send(secret_message(), message(1))
        admin = admin_of(broker)
        seen = await admin.search("orders", filters=[text], order=order)
        hidden = await admin.search("orders", filters=[text], order=order, masks=MASKS)
        nothing = await admin.search("orders", filters=['properties.no == "no"'], order=order, masks=MASKS)
        assert sequences(seen) == [0]
        # Not even the numbers differ from those of a filter that matches nothing.
        for name in ("expression", "searched"):
            del hidden[name], nothing[name]
        assert hidden == nothing
        assert (hidden["messages"], hidden["scanned"], hidden["costly"]) == ([], 2, 0)


async def test_a_filter_finds_by_what_masks_leave(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker, connected(broker) as client:
        await client.send(secret_message(), message(1))
        admin = admin_of(broker)
        for text in (f"card_number={HIDDEN}", 'body.customer.name == "Ada"', f'body.customer.email == "{HIDDEN}"'):
            assert sequences(await admin.search("orders", filters=[text], masks=MASKS)) == [0], text
        found = await admin.search("orders", filters=["number=1", "size > 0"], masks=MASKS)
        assert sequences(found) == [1]


async def test_a_message_that_is_read_again_is_masked_before_it_is_compared(tmp_path: Path) -> None:
    async with asked(tmp_path) as (broker, client, admin):
        await client.send(secret_message())
        index = broker.store.subjects["orders"].consume_log
        for repaired, (text, is_found) in enumerate([(SECRET, False), ("Ada", True)], 1):
            damaged = bytearray(index.read(0, 1))
            damaged[-1] ^= 1
            index.repair(0, bytes(damaged))
            found = await admin.search("orders", filters=[text], masks=MASKS)
            assert (bool(found["messages"]), found["unreadable"]) == (is_found, 0)
            assert broker.store.counters.repaired_entries == repaired
        check_masked(found)


async def test_steps_look_at_the_clock_after_each_message_that_is_masked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock(1_700_000_000_000)
    evaluate = step._Step._matches

    def slowly(self: Any, *arguments: Any) -> bool:
        clock.advance(0.3)
        return evaluate(self, *arguments)

    monkeypatch.setattr(step._Step, "_matches", slowly)
    async with running_broker(tmp_path, clock=clock) as broker, connected(broker) as client:
        await client.send(*(secret_message(n) for n in range(5)))
        admin = admin_of(broker)
        assert (await admin.search("orders", filters=[SECRET], masks=MASKS))["scanned"] == 2
        # The bytes rule no message out, and nothing of it is masked.
        assert (await admin.search("orders", filters=["sequence >= 0"], masks=MASKS))["scanned"] == 5


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
        for place in ("messages", "messages?order=newest&limit=1", "messages/0/trace"):
            url, _, query = place.partition("?")
            with pytest.raises(NodeRefused, match="masks must be an object") as refused:
                await admin._get(f"/subjects/orders/{url}", dict(parse_qsl(query)) | {"masks": '{"rules": []}'})
            assert refused.value.status == 400
        for wrong in ('{"rules": []}', [], {}, 1, None, True):
            with pytest.raises(NodeRefused, match="masks") as refused:
                await admin._post("/subjects/orders/search", {"masks": wrong})
            assert refused.value.status == 400


async def test_bodies_in_the_subjects_format_are_decoded_on_every_page(tmp_path: Path) -> None:
    """The format goes with the rules, in the body of the request: a schema is too long for an address."""
    schema = {"type": "record", "name": "Order", "doc": "x" * 9_000, "fields": [{"name": "card", "type": "string"}]}
    rules = [{"properties": [], "json_paths": ["card"], "how": "last4"}]
    masks = Masks.of(rules, b"key", BodyFormat("avro", json.dumps(schema)))
    async with running_broker(tmp_path) as broker, connected(broker) as client:
        plain = message(0)
        body = plain.properties | encode_body(bytes([2 * len(SECRET)]) + SECRET.encode())
        await client.send(Message("orders", plain.message_id, body, (), 0, plain.created_at_ms, plain.time_ms))
        admin = admin_of(broker)
        pages = [
            await admin.messages("orders", masks=masks),
            await admin.messages("orders", from_time=0, masks=masks),
            await admin.messages("orders", message_id="m0", masks=masks),
            await admin.newest_messages("orders", masks=masks),
            await admin.search("orders", filters=[f'body.card == "{HIDDEN}{SECRET[-4:]}"'], masks=masks),
            await admin.trace("orders", 0, masks=masks),
        ]
        for found in pages:
            (shown,) = found["messages"] if "messages" in found else [found["message"]]
            assert json.loads(shown["properties"]["data"]) == {"card": HIDDEN + SECRET[-4:]}
            assert shown["decoding"] == {"format": "avro", "problem": None}
        # The stored bytes do not contain what the decoded body does, and must not decide what is evaluated.
        unmasked = Masks(body_format=masks.body_format)
        for order in ("newest", "oldest"):
            found = await admin.search("orders", filters=[f'body.card == "{SECRET}"'], order=order, masks=unmasked)
            assert sequences(found) == [0]
