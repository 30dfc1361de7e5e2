"""/stats?since= answers what changed since a cursor, and everything when the cursor is unknown."""

import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from broker_node.admin import stats
from broker_node.broker import Broker
from qmq.lag import STORE_TIMES
from qmq.node_admin import NodeAdmin
from tests.support.drivers.in_process import connected, message, run_jobs, running_broker
from tests.support.manual_clock import ManualClock
from tests.support.servers.processes import PROJECT


def admin_of(broker: Broker) -> NodeAdmin:
    return NodeAdmin("{}:{}".format(*broker.admin.address), timeout_seconds=20)


def names(page: dict[str, Any]) -> list[str]:
    return [item["subject"] for item in page["subjects"]]


async def test_only_subjects_that_changed_are_answered(tmp_path: Path) -> None:
    clock = ManualClock()
    async with running_broker(tmp_path, clock=clock) as broker, connected(broker) as client:
        for name in ("a", "b", "c"):
            await client.send(message(1, name))
        admin = admin_of(broker)
        everything = await admin.stats()
        assert (names(everything), "since" in everything) == (["a", "b", "c"], False)
        nothing = await admin.stats(since=everything["cursor"])
        assert (names(nothing), nothing["removed"], nothing["has_more"]) == ([], [], False)
        assert nothing["since"] == everything["cursor"]
        await client.send(message(2, "b"))
        clock.advance(1)
        changed = await admin.stats(since=everything["cursor"])
        assert [(one["subject"], one["end_sequence"]) for one in changed["subjects"]] == [("b", 2)]
        assert names(await admin.stats(since=changed["cursor"])) == []


async def test_changes_come_in_pages(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker, connected(broker) as client:
        admin = admin_of(broker)
        cursor, seen = (await admin.stats())["cursor"], []
        for number in range(5):
            await client.send(message(1, f"s{number}"))
        for more in (True, True, False):
            page = await admin.stats(since=cursor, limit=2)
            assert page["has_more"] is more
            assert (page["complete_to_ms"] <= page["at_ms"]) or not more
            seen += names(page)
            cursor = page["cursor"]
        assert seen == [f"s{number}" for number in range(5)]


@pytest.mark.parametrize("cursor", ["nonsense", "0-0", "-", "x-y", "000000000000-99", "1-" + "9" * 30])
async def test_an_unknown_cursor_is_answered_with_the_first_page_of_all(tmp_path: Path, cursor: str) -> None:
    async with running_broker(tmp_path) as broker, connected(broker) as client:
        await client.send(message(1, "a"))
        page = await admin_of(broker).stats(since=cursor)
        assert (names(page), page["next_after"], "since" in page) == (["a"], None, False)
        assert "cursor" in page


async def test_a_cursor_of_an_earlier_process_is_unknown(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker, connected(broker) as client:
        await client.send(message(1, "a"))
        cursor = (await admin_of(broker).stats())["cursor"]
    async with running_broker(tmp_path) as broker:
        assert "since" not in await admin_of(broker).stats(since=cursor)


async def test_a_lag_is_sent_with_the_store_time_of_its_oldest_message(tmp_path: Path) -> None:
    clock = ManualClock()
    async with running_broker(tmp_path, clock=clock) as broker, connected(broker) as client:
        stored_at_ms = clock.wall_ms()
        await client.send(message(1, "a"))
        await client.begin("a", start="earliest")
        clock.advance(7)
        (item,) = (await admin_of(broker).stats())["subjects"]
        (group,) = item["groups"]
        assert group["oldest_stored_at_ms"] == stored_at_ms
        assert group["time_lag_seconds"] == 7.0


async def test_a_consumer_that_goes_offline_changes_its_subject(tmp_path: Path) -> None:
    clock = ManualClock()
    async with (
        running_broker(tmp_path, clock=clock, consumer_lease_seconds=20.0) as broker,
        connected(broker) as client,
    ):
        await client.send(message(1, "a"))
        await client.begin("a", start="earliest")
        assert len((await client.pull("a"))[1]) == 1
        await client.ack(0, 0, "a")
        admin = admin_of(broker)
        page = await admin.stats()
        assert [one["online"] for one in page["subjects"][0]["groups"][0]["consumers"]] == [True]
        clock.advance(12)
        await run_jobs(broker)
        page = await admin.stats(since=page["cursor"])
        clock.advance(broker.options.consumer_lease_seconds)
        await run_jobs(broker)
        changed = await admin.stats(since=page["cursor"])
        (item,) = [one for one in changed["subjects"] if one["subject"] == "a"]
        assert not any(one["online"] for one in item["groups"][0]["consumers"])


async def test_an_index_that_can_not_be_read_makes_a_time_lag_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> int:
        raise stats.LogError("the file is gone")

    monkeypatch.setattr(stats, "stored_at_ms", fail)
    async with running_broker(tmp_path) as broker, connected(broker) as client:
        await client.send(message(1, "a"))
        await client.begin("a", start="earliest")
        (group,) = (await admin_of(broker).stats())["subjects"][0]["groups"]
        assert group["time_lag_seconds"] is None
        assert "can't be read: the file is gone" in group["reason"]


async def test_subjects_without_activity_are_answered_again_once_rates_are_measurable(tmp_path: Path) -> None:
    clock = ManualClock()
    async with running_broker(tmp_path, clock=clock) as broker, connected(broker) as client:
        for name in ("a", "b"):
            await client.send(message(1, name))
        admin = admin_of(broker)
        await run_jobs(broker)
        first = await admin.stats()
        assert {one["send_rate"] for one in first["subjects"]} == {None}
        clock.advance(1)
        await run_jobs(broker)
        again = await admin.stats(since=first["cursor"])
        assert {one["subject"]: one["send_rate"] for one in again["subjects"]} == {"a": 0.0, "b": 0.0}
        clock.advance(1)
        await run_jobs(broker)
        assert names(await admin.stats(since=again["cursor"])) == [], "once is enough"


def documented_fields() -> dict[str, set[str]]:
    """By what they are of: the fields that the page of admin pages lists."""
    page = (PROJECT / "docs/reference/admin.md").read_text()
    found: dict[str, set[str]] = defaultdict(set)
    for of, names in re.findall(r"^\| (subject|group|consumer) \| ([^|]+) \|", page, re.M):
        found[of] |= set(re.findall(r"`(\w+)`", names))
    return found


async def test_the_page_of_admin_pages_has_each_field(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker, connected(broker) as client:
        await client.send(message(1, "a"))
        await client.pull("a", limit=1)
        (subject,) = (await admin_of(broker).stats())["subjects"]
        (group,) = subject["groups"]
        (consumer,) = group["consumers"]
    documented = documented_fields()
    assert set(subject) | {"reason"} == documented["subject"]
    assert set(group) | {"reason"} == documented["group"]
    assert set(consumer) == documented["consumer"]
    assert {name for name in group if name.endswith("_stored_at_ms")} == set(STORE_TIMES.values())
    assert {name for name in group if name.endswith("_seconds")} == set(STORE_TIMES)
