"""Masking rules and formats of a request: what the pages of a delay node show, and what a list finds."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgpack
import pytest

from delay_node import listing, serving
from delay_node.admin import DelayPages
from qmq.client.bodies import encode_body
from qmq.formats import BodyFormat
from qmq.node_admin import NodeAdmin, NodeRefused
from qmq.protocol.masking import HIDDEN, Masks
from tests.support.drivers.in_process import Client, connected, delayed, now_ms, small_system

HOUR = 3_600_000
SECRET = "4111111111111111"
MASKS = Masks.of([{"properties": ["card*"], "json_paths": ["customer.email"], "how": "hide"}], b"key")
BODY = {"data": json.dumps({"customer": {"email": SECRET, "name": "Ada"}}), "card_number": SECRET}


@asynccontextmanager
async def asked(folder: Path) -> AsyncIterator[tuple[Client, NodeAdmin]]:
    """A delay node with a client, and its admin pages."""
    async with small_system(folder) as system, connected(system.delay) as client:
        yield client, NodeAdmin("{}:{}".format(*system.delay.admin.address), timeout_seconds=20)


def ids(page: dict[str, Any]) -> list[str]:
    return [message["message_id"] for message in page["messages"]]


async def test_no_page_with_messages_shows_what_is_masked(tmp_path: Path) -> None:
    async with asked(tmp_path) as (client, admin):
        await client.send(delayed(0, now_ms() + HOUR, **BODY))
        pages = {
            "list": await admin.delayed(subject="orders", masks=MASKS),
            "all subjects": await admin.delayed(masks=MASKS),
            "filtered": await admin.delayed(subject="orders", filter_text="Ada", masks=MASKS),
            "matching": await admin.delayed(subject="orders", match={"number": "0"}, masks=MASKS),
            "by ID": await admin.delayed_message("m0", masks=MASKS),
            "by subject": await admin.delayed_message("m0", subject="orders", masks=MASKS),
        }
        for what, page in pages.items():
            (shown,) = page["messages"]
            assert SECRET not in json.dumps(page), what
            assert shown["properties"]["card_number"] == HIDDEN, what
            assert json.loads(shown["properties"]["data"]) == {"customer": {"email": HIDDEN, "name": "Ada"}}, what
            assert [mark["rule"] for mark in shown["masked"]] == ["card*", "customer.email"], what
        (plain,) = (await admin.delayed(subject="orders"))["messages"]
        assert (plain["properties"]["card_number"], plain["masked"]) == (SECRET, [])


async def test_the_pages_of_this_test_are_all_that_show_messages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[DelayPages] = []

    def remembered(*arguments: Any) -> DelayPages:
        made.append(DelayPages(*arguments))
        return made[-1]

    monkeypatch.setattr(serving, "DelayPages", remembered)
    async with asked(tmp_path) as (client, admin):
        await client.send(delayed(0, now_ms() + HOUR, **BODY))
        content = {"/delayed", "/delayed/message"}
        for path in made[-1].json_routes:
            found = await admin._get(path, {"message_id": "m0"} if path == "/delayed/message" else {})
            assert (SECRET in json.dumps(found)) == (path in content), path
        for path in made[-1].json_posts:
            try:
                place = path.replace("{operation:cancel|reschedule|deliver}", "deliver")
                assert "{" not in place, f"test {path} too"
                body = {"subject": "orders", "all": True, "dry_run": True} if place.endswith("bulk-cancel") else {}
                found = await admin._post(place, body | ({"message_id": "m0"} if place.count("/") == 2 else {}))
            except NodeRefused as error:
                found = {"error": str(error)}
            assert (SECRET in json.dumps(found)) == (path in content), path


@pytest.mark.parametrize(
    "text",
    [
        f"card_number={SECRET}",
        f'body.customer.email == "{SECRET}"',
        f'properties.data.contains("{SECRET}")',
        SECRET,
        "size(properties.card_number) == 16",
    ],
)
async def test_a_list_sees_what_is_shown(tmp_path: Path, text: str) -> None:
    async with asked(tmp_path) as (client, admin):
        await client.send(delayed(0, now_ms() + HOUR, **BODY), delayed(1, now_ms() + HOUR))
        assert ids(await admin.delayed(subject="orders", filter_text=text)) == ["m0"]
        hidden = await admin.delayed(subject="orders", filter_text=text, masks=MASKS)
        assert hidden == {"messages": [], "cursor": None}


async def test_a_list_finds_by_what_masks_leave(tmp_path: Path) -> None:
    async with asked(tmp_path) as (client, admin):
        await client.send(delayed(0, now_ms() + HOUR, **BODY), delayed(1, now_ms() + HOUR))

        async def found(**query: Any) -> list[str]:
            return ids(await admin.delayed(subject="orders", masks=MASKS, **query))

        for text in (f"card_number={HIDDEN}", 'body.customer.name == "Ada"', f'body.customer.email == "{HIDDEN}"'):
            assert await found(filter_text=text) == ["m0"], text
        assert await found(match={"card_number": SECRET}) == []
        assert await found(match={"card_number": HIDDEN}) == ["m0"]
        assert await found(match={"number": "1"}) == ["m1"]
        assert await found(match={"number": "1"}, filter_text="number=0") == []


async def test_bodies_in_the_subjects_format_are_decoded(tmp_path: Path) -> None:
    rules = [{"properties": [], "json_paths": ["card"], "how": "last4"}]
    masks = Masks.of(rules, b"key", BodyFormat("msgpack"))
    body = encode_body(msgpack.packb({"card": SECRET, "note": "x" * 5_000}), compress_above=100)
    assert body["qmq_contentEncoding"] == "zstd+base64"
    async with asked(tmp_path) as (client, admin):
        await client.send(delayed(0, now_ms() + HOUR, **body))
        for page in (
            await admin.delayed(subject="orders", filter_text=f'body.card == "{HIDDEN}1111"', masks=masks),
            await admin.delayed_message("m0", masks=masks),
        ):
            (shown,) = page["messages"]
            assert json.loads(shown["properties"]["data"]) == {"card": f"{HIDDEN}1111", "note": "x" * 5_000}
            assert shown["decoding"] == {"format": "msgpack", "problem": None}


async def test_each_message_has_the_cursor_behind_it(tmp_path: Path) -> None:
    async with asked(tmp_path) as (client, admin):
        due = now_ms() + HOUR
        await client.send(*(delayed(number, due) for number in range(5)))
        page = await admin.delayed(subject="orders", limit=3)
        assert page["cursor"] == page["messages"][-1]["cursor"]
        for number, message in enumerate(page["messages"]):
            rest = await admin.delayed(subject="orders", cursor=message["cursor"])
            assert ids(rest) == [f"m{n}" for n in range(number + 1, 5)]


@pytest.mark.parametrize("query", [{"filter_text": "number=4"}, {"match": {"number": "4"}}])
async def test_a_page_ends_when_its_time_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, query: dict[str, Any]
) -> None:
    monkeypatch.setattr(listing, "SCAN_SECONDS", 0.0)
    async with asked(tmp_path) as (client, admin):
        await client.send(*(delayed(number, now_ms() + HOUR) for number in range(6)))
        found, cursor = [], ""
        for _ in range(7):
            page = await admin.delayed(subject="orders", masks=MASKS, cursor=cursor, **query)
            found.append(ids(page))
            cursor = page["cursor"]
            if cursor is None:
                break
        assert found == [[], [], [], [], ["m4"], []], "a page looks at one message at least"


async def test_masks_that_are_not_understood_are_refused(tmp_path: Path) -> None:
    async with asked(tmp_path) as (_, admin):
        for path, target in (("/delayed", {}), ("/delayed/message", {"message_id": "m0"})):
            for wrong in ('{"rules": []}', [], {}, 1, None, True):
                with pytest.raises(NodeRefused, match="masks") as refused:
                    await admin._post(path, target | {"masks": wrong})
                assert refused.value.status == 400
