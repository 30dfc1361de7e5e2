"""Which clients a broker lists: producers by subject and application, consumers by group, with what they pull."""

from pathlib import Path
from typing import Any

import pytest

from broker_node.admin import client_pages
from broker_node.delivery import client_table
from qmq.node_admin import NodeAdmin, NodeRefused
from qmq.protocol.codes import TagType
from qmq.protocol.commands import TagFilter
from qmq.protocol.messages import KEY_APP, KEY_SCHEDULE, Message
from tests.sim.broker.admin import admin_of
from tests.support.drivers.in_process import Client, connected, message, running_broker
from tests.support.manual_clock import ManualClock
from tests.support.waiting import eventually_async

START_MS = 1_700_000_000_000


def of_app(number: int, app: str, subject: str = "orders", **properties: str) -> Message:
    plain = message(number, subject)
    return Message(
        subject, plain.message_id, {**plain.properties, KEY_APP: app, **properties}, (), 0, START_MS, START_MS
    )


async def listed(admin: NodeAdmin, clock: ManualClock, **query: Any) -> list[dict[str, Any]]:
    # Answers are shared for a moment.
    clock.advance(2)
    found: list[dict[str, Any]] = (await admin.clients(**query))["clients"]
    return found


async def test_producers_are_listed_by_connection_and_subject_with_their_application_and_rate(tmp_path: Path) -> None:
    clock = ManualClock(START_MS)
    async with running_broker(tmp_path, clock=clock) as broker, connected(broker) as shop:
        admin = admin_of(broker)
        async with connected(broker) as other:
            await shop.send(*(of_app(n, "shop") for n in range(20)))
            await shop.send(of_app(30, "shop", "mail"))
            await other.send(of_app(31, "billing"))
            rows = await listed(admin, clock)
            assert [(row["app"], row["subject"]) for row in rows] == [
                ("shop", "orders"),
                ("billing", "orders"),
                ("shop", "mail"),
            ]
            assert rows[0]["address"] == rows[2]["address"] != rows[1]["address"]
            assert rows[0]["rate"] == pytest.approx(10, rel=0.05)
            assert {row["protocol"] for row in rows} == {9}
            assert [row["subject"] for row in await listed(admin, clock, subject="mail")] == ["mail"]
        await eventually_async(lambda: len(list(broker.handlers.clients.entries())) == 2)
        assert {row["app"] for row in await listed(admin, clock)} == {"shop"}


async def test_a_name_that_no_page_can_show_is_none_and_a_delay_node_is_marked(tmp_path: Path) -> None:
    clock = ManualClock(START_MS)
    async with running_broker(tmp_path, clock=clock) as broker, connected(broker) as client:
        await client.send(of_app(1, "a\u202eb", "hidden"), of_app(2, "x" * 101, "long"), message(3, "none"))
        await client.send(of_app(4, "shop", "due", **{KEY_SCHEDULE: "1"}))
        rows = {row["subject"]: row for row in await listed(admin_of(broker), clock)}
        assert [(rows[name]["app"], rows[name]["is_delayed"]) for name in ("hidden", "long", "none", "due")] == [
            ("", False),
            ("", False),
            ("", False),
            ("shop", True),
        ]


async def test_consumers_are_listed_with_what_they_pull(tmp_path: Path) -> None:
    clock = ManualClock(START_MS)
    async with running_broker(tmp_path, clock=clock) as broker, connected(broker) as client:
        admin = admin_of(broker)
        await client.begin()
        await client.send(*(message(n) for n in range(6)))
        await client.pull(consumer="a", limit=3)
        await client.pull(consumer="b", limit=1, filters=(TagFilter(TagType.AND, ("paid", "eu")),))
        await client.pull(consumer="a", subject="%RETRY%orders%g")
        rows = {row["client_id"]: row for row in await listed(admin, clock) if row["role"] == "consumer"}
        assert set(rows) == {"a", "b"}
        a, b = rows["a"], rows["b"]
        assert (a["subject"], a["group"], a["broadcast"], a["tags"]) == ("orders", "g", False, [])
        assert (b["tags"], b["all_tags"]) == (["eu", "paid"], True)
        assert a["rate"] == pytest.approx(1.5, rel=0.05)


async def test_the_page_has_the_clients_with_the_highest_rates_and_counts_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock(START_MS)
    monkeypatch.setattr(client_pages, "CLIENTS_MAX", 3)
    monkeypatch.setattr(client_table, "ENTRIES_MAX", 5)
    async with running_broker(tmp_path, clock=clock) as broker, connected(broker) as client:
        for number in range(6):
            await _send_many(client, f"s{number}", number + 1)
        clock.advance(2)
        page = await admin_of(broker).clients(limit=100)
        assert [row["subject"] for row in page["clients"]] == ["s4", "s3", "s2"]
        assert (page["left_out"], page["is_full"]) == (2, True)


async def _send_many(client: Client, subject: str, count: int) -> None:
    await client.send(*(message(number, subject) for number in range(count)))


async def test_unknown_parameters_are_rejected(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        with pytest.raises(NodeRefused, match="'subjects' is unknown"):
            await admin_of(broker)._get("/clients", {"subjects": "orders"})
