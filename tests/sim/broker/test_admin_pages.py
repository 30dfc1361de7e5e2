"""What the control plane asks a broker node: search, traces, groups, resets, forgetting; over its admin port."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from broker_node.admin import group_pages, pages, trace
from broker_node.broker import Broker
from broker_node.delivery import client_table
from broker_node.delivery.client_table import ConsumerEntry
from broker_node.delivery.retry_writer import Moved
from broker_node.storage.progress_log import PROGRESS_ENTRY_BYTES
from qmq.node_admin import NodeAdmin, NodeRefused
from qmq.protocol.codes import BrokerRequestType
from qmq.protocol.commands import TagFilter
from qmq.protocol.messages import Message
from tests.sim.broker.admin import DEAD, RETRY, asked, sequences
from tests.support.drivers.in_process import connected, message, run_jobs, running_broker
from tests.support.manual_clock import ManualClock
from tests.support.waiting import eventually_async

START_MS = 1_700_000_000_000


def next_attempt(number: int, subject: str, attempt: int, pull_sequence: int) -> Message:
    """What a client stores when it sends a message back."""
    properties = {"qmq_times": str(attempt), "qmq_consumerGroupName": "g", "qmq_pullOffset": str(pull_sequence)}
    plain = message(number, subject)
    return Message(subject, plain.message_id, {**plain.properties, **properties}, (), 0, START_MS, START_MS)


def consumers(broker: Broker) -> list[ConsumerEntry]:
    return [entry for entry in broker.handlers.clients.entries() if isinstance(entry, ConsumerEntry)]


async def group_trace(admin: NodeAdmin, sequence: int, group: str = "g", subject: str = "orders") -> dict[str, Any]:
    (found,) = (await admin.trace(subject, sequence, group=group))["groups"]
    assert isinstance(found, dict)
    assert found["known"] == (found["state"] is not None)
    return found


# --- searches -------------------------------------------------------------------------------------------------------


async def test_only_so_many_searches_run_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with asked(tmp_path) as (_broker, client, admin):
        await client.send(message(0))
        monkeypatch.setattr(pages, "SCANS_MAX", 0)
        for asking in (admin.search("orders"), admin.trace("orders", 0)):
            with pytest.raises(NodeRefused) as caught:
                await asking
            assert (caught.value.status, caught.value.code, caught.value.retriable) == (503, "scan.busy", True)
        monkeypatch.setattr(pages, "SCANS_MAX", 1)
        assert sequences(await admin.search("orders")) == [0]
        assert sequences(await admin.search("orders")) == [0], "the turn was given back"


# --- trace ----------------------------------------------------------------------------------------------------------


async def test_a_trace_tells_who_has_a_message_since_when_and_when_it_was_acked(tmp_path: Path) -> None:
    clock = ManualClock(START_MS)
    async with asked(tmp_path, clock=clock) as (_, client, admin):
        await client.begin()
        await client.begin(group="other")
        await client.send(*(message(n) for n in range(6)))
        clock.advance(1)
        await client.pull(consumer="a", limit=2)
        clock.advance(1)
        await client.pull(consumer="b", limit=2)
        clock.advance(1)
        await client.ack(0, 0, consumer="b")
        waiting = await group_trace(admin, 5)
        assert (waiting["state"], waiting["consumer_id"], waiting["pulled_at_ms"]) == ("waiting", None, None)
        held = await group_trace(admin, 1)
        assert (held["state"], held["consumer_id"], held["pull_sequence"]) == ("in_flight", "a", 1)
        assert (held["pulled_at_ms"], held["acked_at_ms"]) == (START_MS + 1000, None)
        acked = await group_trace(admin, 2)
        assert (acked["state"], acked["consumer_id"], acked["pull_sequence"]) == ("acked", "b", 0)
        assert (acked["pulled_at_ms"], acked["acked_at_ms"]) == (START_MS + 2000, START_MS + 3000)
        assert (await group_trace(admin, 3))["state"] == "in_flight"
        page = await admin.trace("orders", 2)
        assert page["message"]["message_id"] == "m2"
        assert {group["group"]: group["state"] for group in page["groups"]} == {"g": "acked", "other": "waiting"}
    async with asked(tmp_path, clock=clock) as (_, _client, admin):
        assert await group_trace(admin, 2) == acked, "a restart forgets nothing of it"
        assert (await group_trace(admin, 1))["state"] == "in_flight"


async def test_a_trace_shows_retries_dead_letters_and_what_became_of_them(tmp_path: Path) -> None:
    clock = ManualClock(START_MS)
    async with asked(tmp_path, clock=clock) as (_, client, admin):
        await client.begin()
        await client.send(*(message(n) for n in range(4)))
        await client.pull()
        # 0: sent back by its consumer, handled the second time. 1: jumped over. 2: given up. 3: done.
        await client.send(next_attempt(0, RETRY, 2, 0))
        await client.send(next_attempt(2, DEAD, 3, 2))
        await client.ack(0, 0)
        await client.ack(2, 3)
        assert await client.pull(RETRY) == (0, ["m0", "m1"])
        await client.ack(0, 0, RETRY)
        first = await group_trace(admin, 0)
        assert first["state"] == "retried"
        (link,) = first["retries"]
        assert (link["subject"], link["sequence"], link["attempt"], link["state"]) == (RETRY, 0, 2, "acked")
        assert (link["stored_at_ms"], link["consumer_id"]) == (START_MS, "c1")
        second = await group_trace(admin, 1)
        assert second["state"] == "retried"
        assert [(x["attempt"], x["state"]) for x in second["retries"]] == [(1, "in_flight")]
        third = await group_trace(admin, 2)
        assert (third["state"], third["retries"]) == ("dead", [])
        assert [(x["subject"], x["state"]) for x in third["dead_letters"]] == [(DEAD, "dead")]
        last = await group_trace(admin, 3)
        assert (last["state"], last["retries"], last["dead_letters"]) == ("acked", [], [])
        assert last["links_complete"]
        attempt = await admin.trace(RETRY, 0)
        assert attempt["original"] == {"subject": "orders", "message_id": "m0", "attempt": 2}
        assert [(group["group"], group["state"]) for group in attempt["groups"]] == [("g", "acked")]


async def test_a_retry_of_another_message_with_the_same_id_is_not_taken_for_its_own(tmp_path: Path) -> None:
    async with asked(tmp_path) as (_, client, admin):
        await client.begin()
        await client.send(message(0), message(0))
        await client.pull()
        await client.send(next_attempt(0, RETRY, 2, 1))
        await client.ack(0, 1)
        assert (await group_trace(admin, 0))["state"] == "acked"
        assert (await group_trace(admin, 1))["state"] == "retried"


async def test_a_message_retried_in_one_round_and_done_in_the_next_after_a_reset_is_acked(tmp_path: Path) -> None:
    clock = ManualClock(START_MS)
    async with asked(tmp_path, clock=clock) as (_, client, admin):
        await client.begin()
        await client.send(message(0))
        await client.pull()
        await client.send(next_attempt(0, RETRY, 2, 0))
        await client.ack(0, 0)
        clock.advance(5)
        await admin.reset("orders", "g", "earliest")
        assert (await group_trace(admin, 0))["state"] == "waiting"
        assert await client.pull(last=0) == (1, ["m0"])
        assert (await group_trace(admin, 0))["state"] == "in_flight"
        await client.ack(1, 1)
        found = await group_trace(admin, 0)
        assert (found["state"], found["pull_sequence"], found["pulled_at_ms"]) == ("acked", 1, START_MS + 5000)


async def test_a_trace_tells_what_was_skipped_and_what_a_filter_left_out(tmp_path: Path) -> None:
    async with asked(tmp_path) as (_, client, admin):
        await client.send(*(message(n) for n in range(3)))
        await client.begin(start="sequence", value=2)
        assert (await group_trace(admin, 0))["state"] == "skipped", "the group began behind it"
        await client.send(*(message(n, tags=("t",) if n in (4, 5) else ()) for n in range(3, 8)))
        only = (TagFilter(1, ("t",)),)
        assert await client.pull(filters=(TagFilter(1, ("none",)),), limit=50) == (-1, [])
        left_out = await group_trace(admin, 4)
        assert (left_out["state"], left_out["known"]) == ("skipped", True)
        await admin.reset("orders", "g", "sequence", 3)
        assert await client.pull(filters=only) == (0, ["m4", "m5"])
        assert (await group_trace(admin, 4))["state"] == "in_flight", "a pull log knows each message"
        await client.ack(0, 1)
        found = [await group_trace(admin, sequence) for sequence in range(3, 8)]
        assert [group["state"] for group in found] == ["skipped", "acked", "acked", "skipped", "skipped"]
        assert [group["pull_sequence"] for group in found] == [None, 0, 1, None, None]
        await admin.reset("orders", "g", "earliest")
        await admin.reset("orders", "g", "latest")
        assert (await group_trace(admin, 7))["state"] == "skipped"


async def test_a_broadcast_trace_knows_each_message_in_spite_of_filters(tmp_path: Path) -> None:
    async with asked(tmp_path) as (_, client, admin):
        await client.begin(group="x", broadcast=True)
        await client.send(*(message(n, tags=("t",) if n in (1, 2) else ()) for n in range(4)))
        only = (TagFilter(1, ("t",)),)
        assert await client.pull(group="x", consumer="x", broadcast=True, filters=only) == (1, ["m1", "m2"])
        assert await client.ack(1, 1, group="x", consumer="x", broadcast=True) == 0
        assert await client.pull(group="x", consumer="x", broadcast=True, filters=only, last=2) == (-1, [])
        states = [(await group_trace(admin, n, "x"))["state"] for n in range(4)]
        assert states == ["skipped", "acked", "in_flight", "skipped"]


async def test_a_consumer_that_left_is_known_by_its_key_only_and_its_broadcast_leaves_no_ack(tmp_path: Path) -> None:
    from qmq.protocol.codes import Command
    from qmq.protocol.extensions import LeaveGroupRequest

    async with asked(tmp_path) as (_, client, admin):
        await client.begin()
        await client.begin(group="x", broadcast=True)
        await client.send(message(0), message(1))
        await client.pull(consumer="a", limit=1)
        await client.ack(0, 0, consumer="a")
        here = await group_trace(admin, 0)
        await client.pull(group="x", consumer="x", broadcast=True)
        await client.pull(consumer="a", limit=1, last=0)
        for group, consumer in (("g", "a"), ("x", "x")):
            await client.raw(Command.LEAVE_GROUP, LeaveGroupRequest("orders", group, consumer).encode())
        gone = await group_trace(admin, 0)
        assert (gone["state"], gone["consumer_id"]) == ("acked", None)
        assert gone["consumer_key"] == here["consumer_key"]
        assert "key" in gone["why"]
        assert (await group_trace(admin, 1))["state"] == "retried", "what it held went to the retry subject"
        never = await group_trace(admin, 0, "x")
        assert (never["state"], never["known"]) == (None, False)
        assert "without acknowledging" in never["why"]


async def test_a_trace_reads_no_more_history_and_no_more_retries_than_its_limits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with asked(tmp_path) as (_, client, admin):
        await client.begin()
        await client.send(*(message(n) for n in range(12)))
        for n in range(12):
            await client.pull(limit=1, last=n - 1)
            await client.ack(n, n)
        await client.send(*(message(100 + n, RETRY) for n in range(10)), message(1, RETRY))
        monkeypatch.setattr(trace, "HISTORY_SLICE", 3)
        assert (await group_trace(admin, 0))["state"] == "acked", "slices meet without a gap"
        assert (await group_trace(admin, 1))["state"] == "retried"
        monkeypatch.setattr(trace, "HISTORY_ENTRIES_MAX", 10)
        assert (await group_trace(admin, 11))["state"] == "acked"
        far = await group_trace(admin, 0)
        assert (far["state"], far["why"]) == (None, "more than 10 actions of the consumer group ago")
        await client.send(*(message(2, RETRY) for _ in range(3)))
        monkeypatch.setattr(trace, "HISTORY_ENTRIES_MAX", 1000)
        monkeypatch.setattr(trace, "LINKS_MAX", 2)
        many = await group_trace(admin, 2)
        assert ([link["sequence"] for link in many["retries"]], many["links_complete"]) == ([11, 12], False)
        monkeypatch.setattr(trace, "LINK_SCAN_MAX", 5)
        cut = await group_trace(admin, 1)
        assert (cut["state"], cut["links_complete"]) == ("acked", False)
        assert "up to sequence 5 of 14" in cut["links_why"]
        for n in range(4):
            await client.begin(group=f"h{n}")
        monkeypatch.setattr(trace, "TRACE_GROUPS_MAX", 2)
        names, after = [], ""
        while after is not None:
            page = await admin.trace("orders", 0, after=after)
            names.append([group["group"] for group in page["groups"]])
            after = page["next_after"]
        assert names == [["g", "h0"], ["h1", "h2"], ["h3"]]


async def test_what_the_broker_settles_is_retried_in_a_trace_though_its_copy_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with asked(tmp_path) as (broker, client, admin):
        await client.begin()
        await client.send(*(message(n) for n in range(3)))
        await client.pull(limit=3)
        monkeypatch.setattr("broker_node.delivery.settlement.move_to_retry", lambda *_, **__: Moved(runs_done=1))
        await client.ack(1, 1)
        states = [await group_trace(admin, n) for n in range(3)]
        assert [group["state"] for group in states] == ["retried", "acked", "in_flight"]
        assert (states[0]["acked_at_ms"], "did not acknowledge" in states[0]["why"]) == (None, True)
        assert broker.delivery.counters.acked == 1


async def test_a_damaged_history_makes_a_trace_unknown_not_wrong(tmp_path: Path) -> None:
    async with asked(tmp_path) as (broker, client, admin):
        await client.begin()
        await client.send(*(message(n) for n in range(3)))
        for n in range(3):
            await client.pull(limit=1, last=n - 1)
            await client.ack(n, n)
        history = broker.store.subjects["orders"].groups["g"].history
        entry = bytearray(history.read(3, 4))
        assert len(entry) == PROGRESS_ENTRY_BYTES
        entry[8] ^= 1
        history.repair(3, bytes(entry))
        damaged = await group_trace(admin, 0)
        assert (damaged["state"], damaged["why"]) == (
            None,
            "an entry in the history of the consumer group is corrupted",
        )
        assert (await group_trace(admin, 2))["state"] == "acked"


async def test_a_message_that_retention_took_is_expired_for_who_never_pulled_it(tmp_path: Path) -> None:
    clock = ManualClock(START_MS)
    settings: dict[str, Any] = {"segment_bytes": 1 << 20, "retention_hours": 1.0, "checkpoint_bytes": 1 << 20}
    async with asked(tmp_path, clock=clock, **settings) as (broker, client, admin):
        await client.begin()
        await client.begin(group="late")
        sent = 0
        # The log is kept from the older of two checkpoints on.
        while broker.checkpoints.floor < 2 << 20:
            assert sent < 240, f"no two checkpoints behind 2 MiB: {broker.checkpoints.floor}"
            await client.send(message(sent, size=30_000), message(1000 + sent, size=30_000))
            sent += 1
            if sent % 20 == 0:
                await broker.checkpoints.finish()
        await client.pull(limit=1)
        await client.ack(0, 0)
        clock.advance(2 * 3600)
        await client.send(message(7777))
        await run_jobs(broker)
        page = await admin.trace("orders", 0)
        assert page["message"] is None
        assert {group["group"]: group["state"] for group in page["groups"]} == {"g": "acked", "late": "expired"}
        assert not page["groups"][0]["links_complete"]


# --- groups ---------------------------------------------------------------------------------------------------------


async def test_a_group_page_shows_its_members_and_says_what_it_can_not_measure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock(START_MS)
    async with asked(tmp_path, clock=clock) as (broker, client, admin):
        await client.begin()
        await client.send(*(message(n) for n in range(6)))
        clock.advance(2)
        async with connected(broker) as second:
            await client.pull(consumer="a", limit=3)
            await second.pull(consumer="b", limit=1)
            await second.ack(0, 0, consumer="b")
            clock.advance(3)
            page = await admin.group("orders", "g")
            assert (page["backlog"], page["in_flight"], page["lag"], page["next_sequence"]) == (2, 3, 5, 4)
            assert page["time_lag_seconds"] == 5.0
            a, b = page["members"]
            assert (a["consumer_id"], a["in_flight"], a["pulled"], a["acked"]) == ("a", 3, 3, 0)
            assert (a["in_flight_ranges"], a["in_flight_ranges_total"]) == ([[0, 3]], 1)
            assert (b["in_flight_ranges"], b["in_flight_ranges_total"]) == ([], 0)
            assert (a["oldest_unacked_ms"], a["last_seen_seconds"], a["online"]) == (5000, 3.0, True)
            assert (a["unacked_seconds"], b["unacked_seconds"], page["steady_send_rate"]) == (3.0, 0.0, None)
            peers = {connection.peer for connection in broker.server.connections}
            assert {a["address"], b["address"]} == peers
            assert (b["oldest_unacked_ms"], b["reasons"]) == (None, {"oldest_unacked_ms": "nothing is in flight"})
            await second.pull(consumer="b", limit=2)
            clock.advance(4)
            await client.ack(0, 0, consumer="a")
            clock.advance(1)
            members = (await admin.group("orders", "g"))["members"]
            assert [member["unacked_seconds"] for member in members] == [1.0, 5.0], "since an ack, and since a pull"
            await second.ack(1, 2, consumer="b")
            await client.ack(1, 2, consumer="a")
        await eventually_async(lambda: len(consumers(broker)) == 1)
        b = (await admin.group("orders", "g"))["members"][1]
        assert b["address"] is None
        assert "no open connection" in b["reasons"]["address"]
        monkeypatch.setattr(group_pages, "MEMBERS_MAX", 1)
        page = await admin.group("orders", "g", limit=50)
        assert ([m["consumer_id"] for m in page["members"]], page["next_after"], page["members_total"]) == (
            ["a"],
            "a",
            2,
        )
        page = await admin.group("orders", "g", after="a")
        assert ([m["consumer_id"] for m in page["members"]], page["next_after"]) == (["b"], None)
    async with asked(tmp_path) as (_, _client, admin):
        member = (await admin.group("orders", "g"))["members"][0]
        assert member["last_seen_seconds"] is None
        assert member["reasons"]["last_seen_seconds"] == "not seen since this node started"


async def test_addresses_are_bounded_and_follow_a_consumer_to_its_new_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_table, "ENTRIES_MAX", 2)
    async with asked(tmp_path) as (broker, client, _admin):
        clients = broker.handlers.clients

        def address(consumer: str) -> str | None:
            return clients.address(("orders", "g", consumer))

        for consumer in ("a", "b", "c"):
            await client.pull(consumer=consumer)
        assert len(consumers(broker)) == 2
        assert (address("c"), clients.is_full) == (None, True)
        first = address("a")
        async with connected(broker) as second:
            await second.pull(consumer="a")
            assert address("a") not in (None, first)
        await eventually_async(lambda: address("a") is None)
        assert (address("b"), clients.is_full) == (first, False)


@pytest.mark.parametrize(
    ("to", "value", "expected"),
    [
        ("earliest", None, {"new_position": 0, "skipped": 0, "repeated": 4, "repeated_in_flight": 2}),
        ("sequence", 3, {"new_position": 3, "skipped": 0, "repeated": 1, "repeated_in_flight": 1}),
        ("sequence", 4, {"new_position": 4, "skipped": 0, "repeated": 0, "repeated_in_flight": 0}),
        ("sequence", 99, {"new_position": 7, "skipped": 3, "repeated": 0, "repeated_in_flight": 0}),
        ("latest", None, {"new_position": 7, "skipped": 3, "repeated": 0, "repeated_in_flight": 0}),
        ("time", START_MS + 5000, {"new_position": 5, "skipped": 1, "repeated": 0, "repeated_in_flight": 0}),
        ("time", "2023-11-14T22:13:21Z", {"new_position": 1, "skipped": 0, "repeated": 3, "repeated_in_flight": 2}),
    ],
)
async def test_a_reset_does_what_its_preview_says_and_survives_a_restart(
    tmp_path: Path, to: str, value: int | str | None, expected: dict[str, int]
) -> None:
    clock = ManualClock(START_MS)
    async with asked(tmp_path, clock=clock) as (broker, client, admin):
        await client.begin()
        for n in range(7):
            await client.send(message(n))
            clock.advance(1)
        await client.pull(limit=4)
        await client.ack(0, 1)
        preview = await admin.reset_preview("orders", "g", to, value)
        assert preview.items() >= {**expected, "position": 4, "in_flight": 2, "exists": True}.items()
        assert (await admin.group("orders", "g"))["next_sequence"] == 4, "a preview changes nothing"
        assert await admin.reset("orders", "g", to, value) == {**preview, "done": True}
        assert broker.store.log.synced_end == broker.store.log.written_end
        assert (await admin.group("orders", "g"))["next_sequence"] == expected["new_position"]
        assert await client.pull(last=3) == (
            (4, [f"m{n}" for n in range(expected["new_position"], 7)]) if expected["new_position"] < 7 else (-1, [])
        )
        await admin.reset("orders", "g", to, value)
    async with asked(tmp_path, clock=clock) as (_, _client, admin):
        assert (await admin.group("orders", "g"))["next_sequence"] == expected["new_position"]


async def test_a_reset_makes_a_group_that_is_not_there_and_wakes_a_waiting_pull(tmp_path: Path) -> None:
    async with asked(tmp_path) as (broker, client, admin):
        await client.send(message(0))
        preview = await admin.reset_preview("orders", "new", "earliest")
        assert (preview["exists"], preview["position"], preview["new_position"]) == (False, None, 0)
        assert "new" not in broker.store.subjects["orders"].groups
        assert (await admin.reset("orders", "new", "earliest"))["done"]
        assert await client.pull(group="new") == (0, ["m0"])
        async with connected(broker) as second:
            waiting = asyncio.create_task(second.pull(group="new", consumer="w", timeout_ms=20_000))
            await eventually_async(lambda: broker.handlers.polls.held == 1)
            await admin.reset("orders", "new", "earliest")
            assert await asyncio.wait_for(waiting, 5) == (0, ["m0"])


async def test_a_change_that_the_disk_does_not_confirm_is_answered_as_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_pages, "DURABLE_SECONDS_MAX", 0.05)
    async with asked(tmp_path) as (broker, client, admin):
        await client.begin()
        await client.send(message(0))
        with monkeypatch.context() as patched:
            patched.setattr(type(broker.committer), "when_synced", lambda *_: None)
            with pytest.raises(NodeRefused) as caught:
                await admin.reset("orders", "g", "latest")
        assert (caught.value.status, caught.value.code, caught.value.retriable) == (503, "change.unknown", True)


# --- forget ---------------------------------------------------------------------------------------------------------


async def test_a_group_with_members_lag_or_retries_is_kept_and_one_that_nobody_misses_goes(tmp_path: Path) -> None:
    clock = ManualClock(START_MS)
    async with asked(tmp_path, clock=clock) as (broker, client, admin):
        await client.begin()
        await client.send(message(0))

        async def why() -> str:
            with pytest.raises(NodeRefused) as caught:
                await admin.forget("orders", "g")
            assert (caught.value.status, caught.value.code) == (409, "group.in_use")
            return str(caught.value)

        assert "lag of 1" in await why()
        await client.pull()
        assert "1 consumer seen" in await why()
        await client.ack(0, 0)
        assert "1 consumer seen" in await why()
        clock.advance(200)
        await client.send(message(1, RETRY))
        assert "1 messages in its retry subject" in await why()
        assert (await client.pull(RETRY))[1] == ["m1"]
        await client.ack(0, 0, RETRY)
        clock.advance(200)
        done = await admin.forget("orders", "g")
        assert (done["forgotten"], done["next_sequence"], done["forced_although"]) == (True, 1, None)
        assert broker.store.subjects["orders"].groups == {}
        with pytest.raises(NodeRefused) as caught:
            await admin.group("orders", "g")
        assert (caught.value.status, caught.value.code) == (404, "group.unknown")
        with pytest.raises(NodeRefused) as caught:
            await admin.forget(RETRY, "g", force=True)
        assert caught.value.code == "group.retry_position"


@pytest.mark.parametrize("checkpoint", ["before", "after", "both"])
async def test_a_forgotten_group_stays_forgotten_over_a_restart_and_begins_anew(
    tmp_path: Path, checkpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker_node.recovery.checkpoint.TAILS_BYTES_MAX", 0)
    folder = ""
    async with asked(tmp_path) as (broker, client, admin):
        await client.begin()
        await client.begin(group="stays")
        await client.send(*(message(n) for n in range(5)))
        await client.pull(limit=3)
        folder = broker.store.subjects["orders"].groups["g"].history.folder
        if checkpoint in ("before", "both"):
            await broker.checkpoints.finish()
            assert broker.disk.list_dir(folder)
        done = await admin.forget("orders", "g", force=True)
        assert "1 consumer seen" in done["forced_although"]
        if checkpoint in ("after", "both"):
            await broker.checkpoints.finish()
            assert broker.disk.list_dir(folder) == [], "its history goes once no checkpoint counts on it"
        else:
            # What a crash leaves: the checkpoint from before, and the log.
            async def nothing() -> None: ...

            broker.checkpoints.finish = nothing  # type: ignore[method-assign]
    async with asked(tmp_path) as (broker, client, admin):
        assert not broker.data.recovery.rebuilt
        assert sorted(broker.store.subjects["orders"].groups) == ["stays"]
        await client.send(message(0, "elsewhere"))
        await broker.checkpoints.finish()
        assert broker.disk.list_dir(folder) == []
        assert await client.pull(last=2) == (-1, []), "a new group begins at the end"
        await client.send(message(5))
        assert await client.pull(last=2) == (3, ["m5"]), "numbers that may still be acked are not given out again"
        assert (await group_trace(admin, 0))["state"] == "skipped"
    async with asked(tmp_path) as (broker, client, _):
        assert not broker.data.recovery.rebuilt
        assert await client.pull(last=-1) == (3, ["m5"])


async def test_a_group_that_comes_back_before_a_checkpoint_needs_no_rebuild_after_a_crash(tmp_path: Path) -> None:
    async with asked(tmp_path) as (broker, client, admin):
        await client.begin()
        await client.send(*(message(n) for n in range(3)))
        await client.pull()
        await broker.checkpoints.finish()
        await admin.forget("orders", "g", force=True)
        await client.begin()
        assert await client.pull(last=-1, limit=2) == (0, ["m0", "m1"])

        async def nothing() -> None: ...

        broker.checkpoints.finish = nothing  # type: ignore[method-assign]
    async with asked(tmp_path) as (broker, client, _):
        assert not broker.data.recovery.rebuilt
        assert await client.pull(last=-1, limit=3) == (0, ["m0", "m1"])
        assert broker.store.forgotten == {}


# --- what is wrong, and odd names -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("/subjects/orders/messages/1/trace", 404, "message.unknown"),
        ("/subjects/orders/messages/0/trace?group=nobody", 404, "group.unknown"),
        ("/subjects/orders/groups/nobody", 404, "group.unknown"),
        ("/subjects/orders/groups/g/reset-preview", 400, "parameter.missing"),
        ("/subjects/orders/groups/g/reset-preview?to=noon", 400, "parameter.wrong"),
        ("/subjects/orders/groups/g/reset-preview?to=sequence", 400, "parameter.missing"),
        ("/subjects/orders/groups/g/reset-preview?to=sequence&value=-5", 400, "parameter.wrong"),
        ("/subjects/orders/groups/g/reset-preview?to=time&value=tomorrow", 400, "parameter.wrong"),
        ("/subjects/orders/groups/g%0a/reset-preview?to=latest", 400, "group.name_illegal"),
    ],
)
async def test_pages_say_what_is_wrong(tmp_path: Path, path: str, status: int, code: str) -> None:
    async with asked(tmp_path) as (_, client, admin):
        await client.send(message(0))
        with pytest.raises(NodeRefused) as caught:
            await admin._get(path, {})
        assert (caught.value.status, caught.value.code) == (status, code)


async def test_changes_are_json_posts_only(tmp_path: Path) -> None:
    async with asked(tmp_path) as (_, client, admin):
        await client.begin()
        for path in ("reset", "forget"):
            with pytest.raises(NodeRefused) as caught:
                await admin._get(f"/subjects/orders/groups/g/{path}?to=latest", {})
            assert caught.value.status == 405
        with pytest.raises(NodeRefused) as caught:
            await admin._post("/subjects/orders/groups/g/forget", {"force": "yes"})
        assert caught.value.code == "parameter.wrong"


@pytest.mark.parametrize(
    ("subject", "group"),
    [
        ("orders", "messages"),
        ("%RETRY%orders%g", "100%"),
        ("a{b}?c#d&e=f", "g:{1}"),
        ("订单", "消费组"),
        ("a+b", "x y"),
    ],
)
async def test_odd_names_reach_their_pages(tmp_path: Path, subject: str, group: str) -> None:
    async with asked(tmp_path) as (_, client, admin):
        await client.send(message(0, subject))
        await client.begin(subject, group)
        assert sequences(await admin.messages(subject)) == [0]
        assert sequences(await admin.search(subject, filters=["number=0"])) == [0]
        assert (await admin.group(subject, group))["group"] == group
        assert (await group_trace(admin, 0, group, subject))["state"] == "waiting"
        assert (await admin.reset(subject, group, "latest"))["skipped"] == 1
        assert (await admin.stats(subject))["subjects"][0]["groups"][0]["group"] == group


@pytest.mark.parametrize(
    ("settings", "host"),
    [
        ({"admin_host": "0.0.0.0", "advertise_host": "broker1"}, "broker1"),
        ({"admin_host": "::", "advertise_host": "fd00::1"}, "[fd00::1]"),
        ({"admin_host": "", "advertise_host": "broker1"}, "broker1"),
        ({"admin_host": "0.0.0.0"}, "127.0.0.1"),
        ({"admin_host": "::1", "advertise_host": "broker1"}, "[::1]"),
        ({"advertise_host": "broker1"}, "127.0.0.1"),
    ],
)
async def test_a_node_registers_an_admin_address_that_can_be_connected_to(
    tmp_path: Path, settings: dict[str, str], host: str
) -> None:
    async with running_broker(tmp_path, **settings) as broker:
        address = broker.registration.request(BrokerRequestType.HEARTBEAT).admin_address
        assert address == f"{host}:{broker.admin_address[1]}"
        NodeAdmin(address, 1.0)
