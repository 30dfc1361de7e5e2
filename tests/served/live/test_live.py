"""Live feeds over real processes: brokers, Redis, collector, uvicorn."""

import asyncio
import contextlib
import json
import urllib.error
import urllib.request
from typing import Any

import pytest
import redis
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from console.accounts.session_store import digest
from console.live.rows import SHOW_BYTES_MAX
from console.snapshot.bus import LOCK_KEY, SNAPSHOT_KEY
from tests.support.console.live import LiveClient, open_feed
from tests.support.servers.system import System
from tests.support.waiting import eventually, eventually_async, timed

GROUP = "{}\nreaders"


async def closed(client: LiveClient) -> int | None:
    """Receive until the websocket is closed, and return the code."""
    try:
        while True:
            await client.socket.recv()
    except ConnectionClosed as error:
        return error.rcvd.code if error.rcvd is not None else None


async def qmq(live: System, *arguments: str) -> None:
    done = await asyncio.to_thread(live.qmq, *arguments)
    assert done.returncode == 0, done.stderr


def entry(client: LiveClient, section: str, key: str) -> dict[str, Any]:
    return (client.state or {}).get(section, {}).get(key, {})


async def with_lag(live: System, subject: str, lag: int) -> None:
    """A subject with a group `readers` that is `lag` messages behind."""
    await qmq(live, "produce", subject, "-p", "a=b")
    await qmq(live, "consume", subject, "readers", "--count", "1", "--from", "earliest", "--timeout", "20")
    await qmq(live, "produce", subject, "-p", "a=b", "--count", str(lag))


# --- numbers ----------------------------------------------------------------------------------------------------------


async def test_a_snapshot_comes_first_and_a_delta_follows_a_send(live: System) -> None:
    await with_lag(live, "live.orders", 3)
    async with open_feed(live, "/ws/lag/?subject=live.orders") as client:
        first = await client.next()
        assert first["type"] == "snapshot"
        key = GROUP.format("live.orders")
        await client.until(lambda _: entry(client, "groups", key).get("lag") == 3)
        await qmq(live, "produce", "live.orders", "-p", "a=b", "--count", "4")
        with timed("a send is in the lag feed", 2):
            await client.until(lambda _: entry(client, "groups", key)["lag"] == 7)
        # Rates take a second more.
        await client.until(lambda _: entry(client, "groups", key)["reason"] is None)
        group = entry(client, "groups", key)
        assert (group["backlog"], group["in_flight"]) == (7, 0)
        assert group["time_lag_seconds"] > 0
        assert set(client.state or {}) == {"subjects", "groups"}
        assert all(name.startswith("live.orders") for section in (client.state or {}).values() for name in section)
        assert client.seen[-1]["type"] == "delta"


async def test_feeds_of_one_group_all_nodes_and_events(live: System) -> None:
    await with_lag(live, "live.one", 2)
    async with (
        open_feed(live, "/ws/lag/?subject=live.one&group=readers") as group,
        open_feed(live, "/ws/lag/") as rows,
        open_feed(live, "/ws/nodes/", by_token=True, origin=None) as nodes,
        open_feed(live, "/ws/events/") as events,
        open_feed(live, "/ws/lag/?subject=not.there") as nothing,
    ):
        key = GROUP.format("live.one")
        await group.until(lambda _: entry(group, "groups", key).get("lag") == 2)
        assert list((group.state or {})["groups"]) == [key]
        await rows.show(subjects=["live.one"], groups=[key])
        await rows.until(lambda _: entry(rows, "groups", key).get("lag") == 2)
        assert [list(section) for section in (rows.state or {}).values()] == [["live.one"], [key]]
        assert entry(rows, "subjects", "live.one")["highest_lag_group"] == "readers"
        await nodes.until(lambda _: {"g1-a", "g2-a", "d1-a"} == (nodes.state or {}).get("nodes", {}).keys())
        node = entry(nodes, "nodes", "g1-a")
        assert (node["state"], node["reason"]) == ("read_write", None)
        assert int(node["log_end"]) > 0
        assert entry(nodes, "broker_groups", "g1")["state"] == "read_write"
        assert [each["is_heard"] for each in (nodes.state or {})["metaservers"].values()] == [True]
        assert (await events.next())["type"] == "snapshot"
        assert (await nothing.next())["state"] == {"subjects": {}, "groups": {}}
        await nothing.until(lambda message: message["type"] == "delta")


async def test_a_node_that_is_down_is_unknown_with_a_reason_and_never_zero(live: System) -> None:
    await with_lag(live, "live.down", 5)
    key = GROUP.format("live.down")
    async with (
        open_feed(live, "/ws/lag/?subject=live.down&group=readers") as client,
        open_feed(live, "/ws/events/", "admin") as events,
    ):
        await client.until(lambda _: entry(client, "groups", key).get("lag") == 5)
        client.seen.clear()  # until then a lag of 0 was true
        holders = entry(client, "subjects", "live.down")["broker_groups"]
        for name in holders:
            live.brokers[name].kill()
        try:
            await client.until(lambda _: entry(client, "groups", key).get("lag") is None)
            group = entry(client, "groups", key)
            assert any(group["reason"].startswith(f"node {name}-a: connection ") for name in holders), group["reason"]
            assert group["at"] is not None
            assert (group["backlog"], group["time_lag_seconds"], group["drain_seconds"]) == (None, None, None)
            await events.until(lambda _: any(e["kind"] == "node.unreachable" for e in _events(events)))
            page = _metrics(live)
            assert 'qmq_system_lag_messages{group="readers",subject="live.down"}' not in page
            assert f'qmq_system_node_reached{{broker_group="{holders[0]}"}} 0.0' in page
            assert _value(page, 'qmq_unknown{what="group"}') >= 1
        finally:
            for name in holders:
                live.brokers[name].start()
        await client.until(lambda _: entry(client, "groups", key).get("lag") is not None)
        assert entry(client, "groups", key)["lag"] == 5
        # At no moment a number that was not measured.
        assert 0 not in [
            fields["lag"]
            for message in client.seen if message["type"] == "delta"
            for fields in message["delta"].get("groups", {"set": {}})["set"].values() if "lag" in fields
        ]  # fmt: skip


def _events(client: LiveClient) -> list[dict[str, Any]]:
    return list((client.state or {}).get("events", {}).values())


async def test_only_those_who_may_read_it_get_the_audit_log(live: System) -> None:
    async with open_feed(live, "/ws/events/", "admin") as admin, open_feed(live, "/ws/events/", "operator") as operator:
        assert set((await operator.next())["state"]) == {"events"}
        assert set((await admin.next())["state"]) == {"events", "audit"}
        live.execute(
            "INSERT INTO metaserver_auditentry (at, actor, action, target, reason, address, request_id, client_request_id,"
            " digest, is_event)"
            " VALUES (datetime('now'), 'somebody', 'subject.create', 'live.audit', '', '', '', '', '', 1)"
        )
        await admin.until(lambda _: "live.audit" in str((admin.state or {})["audit"]))
        await operator.until(lambda message: message["type"] == "delta")
        assert "live.audit" not in str(operator.seen)


# --- who may ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example",
        "null",
        "https://localhost.evil.example",
        "http://127.0.0.1:9999",
        "http://localhost",
        None,
    ],
)
async def test_a_foreign_origin_is_refused(live: System, origin: str | None) -> None:
    with pytest.raises(InvalidStatus) as refused:
        async with open_feed(live, "/ws/nodes/", origin=origin):
            pass
    assert refused.value.response.status_code == 403


async def test_a_trusted_origin_is_taken(live: System) -> None:
    async with open_feed(live, "/ws/nodes/", origin="https://console.example") as client:
        assert (await client.next())["type"] == "snapshot"


@pytest.mark.parametrize(
    ("path", "user", "code"),
    [
        ("/ws/nodes/", None, 4401),
        ("/ws/tail/?subject=live.orders", "viewer", 4403),
        ("/ws/tail/", "operator", 4400),
        ("/ws/lag/?group=g", "viewer", 4400),
        ("/ws/lag/?subjekt=orders", "viewer", 4400),
        ("/ws/lag/?subject=a&subject=b", "viewer", 4400),
        ("/ws/nodes/?subject=orders", "viewer", 4400),
        ("/ws/other/", "viewer", 4400),
        ("/other/", "viewer", 4400),
    ],
)
async def test_refusals_have_codes(live: System, path: str, user: str | None, code: int) -> None:
    async with open_feed(live, path, user) as client:
        assert await closed(client) == code


async def test_a_token_as_subprotocol(live: System) -> None:
    token = live.credentials["viewer"]["token"]
    url = f"ws://127.0.0.1:{live.port}/ws/nodes/"
    async with connect(url, origin=live.url, subprotocols=["qmq", f"bearer.{token}"]) as socket:  # type: ignore[list-item]
        assert socket.subprotocol == "qmq"
        assert (await LiveClient(socket).next())["type"] == "snapshot"
    async with connect(url, origin=live.url, subprotocols=["qmq", "bearer.qmq_wrong"]) as socket:  # type: ignore[list-item]
        assert await closed(LiveClient(socket)) == 4401


_SESSION_OF = "(SELECT id FROM accounts_user WHERE username = ?)"


@pytest.mark.parametrize(
    ("user", "statement"),
    [
        ("ended", f"DELETE FROM accounts_usersession WHERE user_id = {_SESSION_OF}"),
        (
            "idle",
            f"UPDATE accounts_usersession SET seen_at = datetime('now', '-31 minutes') WHERE user_id = {_SESSION_OF}",
        ),
        ("new-password", f"UPDATE accounts_user SET password = 'x' WHERE id = {_SESSION_OF}"),
    ],
)
async def test_a_session_that_ends_closes_within_five_seconds(live: System, user: str, statement: str) -> None:
    async with open_feed(live, "/ws/nodes/", user) as client, open_feed(live, "/ws/nodes/") as other:
        await client.next()
        live.execute(statement, user)
        with timed("an ended session closes its websocket", 5):
            assert await closed(client) == 4401
        await other.until(lambda message: message["type"] == "delta")


async def test_logout_closes_within_five_seconds(live: System) -> None:
    async with open_feed(live, "/ws/nodes/", "signed-out") as client:
        await client.next()
        key = digest(live.credentials["signed-out"]["session"])
        live.execute("DELETE FROM django_session WHERE session_key = ?", key)
        with timed("a sign-out closes its websocket", 5):
            assert await closed(client) == 4401


async def test_a_lost_role_and_a_disabled_account_close(live: System) -> None:
    async with (
        open_feed(live, "/ws/tail/?subject=live.orders", "disabled") as tail,
        open_feed(live, "/ws/nodes/", "disabled") as session,
        open_feed(live, "/ws/nodes/", "disabled", by_token=True, origin=None) as token,
    ):
        await tail.next()
        live.execute("UPDATE accounts_user SET role = 'viewer' WHERE username = 'disabled'")
        assert await closed(tail) == 4403
        await session.next()
        live.execute("UPDATE accounts_user SET is_active = 0 WHERE username = 'disabled'")
        assert await closed(session) == 4401
        assert await closed(token) == 4401


async def test_clients_may_ping_and_those_of_rows_name_them(live: System) -> None:
    async with open_feed(live, "/ws/nodes/") as client:
        await client.socket.send('{"type":"ping"}')
        await client.until(lambda message: message["type"] == "pong")
        await client.socket.send('{"type":"subscribe"}')
        assert await closed(client) == 4400
    async with open_feed(live, "/ws/nodes/") as client:
        await client.socket.send("x" * 2_000)
        assert await closed(client) == 1009
    for text, code in (
        ('{"type":"show","subjects":1}', 4400),
        ("[" * 50_000, 4400),
        ("x" * (SHOW_BYTES_MAX + 1), 1009),
    ):
        async with open_feed(live, "/ws/lag/") as client:
            await client.socket.send('{"type":"ping"}')
            await client.until(lambda message: message["type"] == "pong")
            await client.socket.send(text)
            assert await closed(client) == code


async def test_a_user_has_so_many_websockets_and_no_more(live: System) -> None:
    async with contextlib.AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(open_feed(live, "/ws/nodes/", "operator")) for _ in range(20)]
        await asyncio.gather(*(client.next() for client in clients))
        async with open_feed(live, "/ws/nodes/", "operator") as one_more:
            assert await closed(one_more) == 4429
        async with open_feed(live, "/ws/nodes/", "viewer") as of_another:
            await of_another.next()


# --- tail -------------------------------------------------------------------------------------------------------------


async def first_of_tail(live: System, client: LiveClient, subject: str) -> list[dict[str, Any]]:
    """Send markers until the tail shows one: it begins at the end of the log, some time after it was opened. Return what it
    shows, up to the last marker."""
    receiving = asyncio.create_task(client.next())
    sent = 0
    while not receiving.done():
        await qmq(live, "produce", subject, "-p", f"marker={sent}")
        sent += 1
    shown: list[dict[str, Any]] = list((await receiving)["messages"])
    # Not always as the last one: the markers are on two broker groups.
    while all(message["properties"]["marker"] != str(sent - 1) for message in shown):
        shown += (await client.next())["messages"]
    return shown


async def test_a_tail_shows_what_arrives_and_counts_what_it_leaves_out(live: System) -> None:
    await qmq(live, "produce", "live.tail", "-p", "old=1")
    async with open_feed(live, "/ws/tail/?subject=live.tail", "operator") as client:
        first = await client.next()
        assert (first["type"], first["subject"]) == ("snapshot", "live.tail")
        seen = await first_of_tail(live, client, "live.tail")
        assert all("marker" in message["properties"] for message in seen)
        await qmq(live, "produce", "live.tail", "-p", "kind=bulk", "--count", "300", "--size", "5000")
        shown, left_out = 0, 0
        while shown + left_out < 300:
            message = await client.next()
            bulk = [m for m in message["messages"] if m["properties"].get("kind") == "bulk"]
            shown, left_out = shown + len(bulk), left_out + message["left_out"]
            assert len(message["messages"]) <= 10
            assert all(sum(len(k) + len(v) for k, v in m["properties"].items()) <= 2_048 and m["is_cut"] for m in bulk)
        assert left_out > 0
        assert shown + left_out == 300


async def test_a_tail_is_in_the_audit_log_when_the_process_is_stopped(live: System) -> None:
    await qmq(live, "produce", "live.audited", "-p", "old=1")
    async with open_feed(live, "/ws/tail/?subject=live.audited", "operator") as client:
        await client.next()
        shown = await first_of_tail(live, client, "live.audited")
        try:
            await asyncio.to_thread(live.console.stop)
            assert await closed(client) == 1012
        finally:
            await asyncio.to_thread(live.console.start)
    statement = (
        "SELECT actor, after FROM metaserver_auditentry WHERE action = 'message.read' AND target = 'live.audited'"
    )
    [(actor, after)] = live.query(statement)
    entry = json.loads(after)
    assert actor == "operator"
    assert entry["messages"] == entry["with_bodies"] >= len(shown), "a marker before the last one may come after it"


# --- Redis and the collector ------------------------------------------------------------------------------------------


async def stale_and_fresh(live: System, client: LiveClient, key: str, breaking: Any, lag: int) -> None:
    """Stale within 3 s of silence, fresh within 5 s of its end, never a zero between."""
    with contextlib.ExitStack() as broken:
        # The last beat was at most a second before it broke.
        with timed("a feed without beats is stale", 3.2):
            broken.enter_context(breaking)
            stale = await client.until(lambda message: message["type"] == "stale")
        assert stale["since"].endswith("Z")
        assert stale["reason"]
    with timed("a feed with beats again is fresh", 5):
        await client.until(lambda message: message["type"] == "fresh")
    await client.until(lambda _: client.state is not None and "lag" in entry(client, "groups", key))
    await client.until(lambda message: message["type"] == "delta")
    assert entry(client, "groups", key)["lag"] == lag


async def test_redis_paused_restarted_and_flushed_is_stale_and_never_zero(live: System) -> None:
    await with_lag(live, "live.redis", 6)
    key = GROUP.format("live.redis")
    async with open_feed(live, "/ws/lag/?subject=live.redis") as client:
        await client.until(lambda _: entry(client, "groups", key).get("lag") == 6)
        client.seen.clear()  # until then a lag of 0 was true
        await stale_and_fresh(live, client, key, live.redis.paused(), 6)
        await stale_and_fresh(live, client, key, live.redis.stopped(), 6)
        with redis.Redis.from_url(live.redis.url) as cache:
            cache.flushall()
        async with open_feed(live, "/ws/lag/?subject=live.redis") as another:
            await another.until(lambda _: entry(another, "groups", key).get("lag") == 6)
            assert another.contents[0]["type"] == "snapshot"
        await client.until(lambda message: message["type"] == "delta")
        assert 0 not in _lags(client)
    assert "Traceback" not in live.collector.log()


def _lags(client: LiveClient) -> list[Any]:
    found = []
    for message in client.seen:
        if message["type"] == "snapshot":
            found += [group["lag"] for group in message["state"]["groups"].values()]
        if message["type"] == "delta":
            groups = message["delta"].get("groups", {"set": {}})["set"].values()
            found += [group["lag"] for group in groups if "lag" in group]
    return found


async def test_without_a_collector_it_is_stale_and_with_two_one_acts(live: System) -> None:
    second = live.add_collector()
    with redis.Redis.from_url(live.redis.url) as cache:
        async with open_feed(live, "/ws/nodes/") as client:
            await client.next()
            first_holder = cache.get(LOCK_KEY)
            second.start(wait=False)
            try:
                live.collector.kill()
                stale = await client.until(lambda message: message["type"] == "stale")
                assert stale["reason"] == "the collector is not running"
                # The second takes over when the lock of the first runs out.
                await client.until(lambda message: message["type"] == "fresh")
                await client.until(lambda message: message["type"] == "delta")
                assert cache.get(LOCK_KEY) != first_holder
                live.collector.start(wait=False)
                await eventually_async(lambda: live.collector.log())
                for _ in range(5):
                    await client.until(lambda message: message["type"] == "delta")
                streams = {m["stream"] for m in client.seen[-5:] if "stream" in m}
                assert len(streams) == 1
            finally:
                second.stop()
            # Stopped in good order it leaves the lock: the other acts at its next beat.
            await client.until(lambda message: message["type"] == "reset")
            assert (await client.next())["type"] == "snapshot"


# --- metrics ----------------------------------------------------------------------------------------------------------


def _metrics(live: System) -> str:
    headers = {"Authorization": f"Bearer {live.credentials['viewer']['token']}"}
    request = urllib.request.Request(f"http://127.0.0.1:{live.port}/metrics", headers=headers)
    with urllib.request.urlopen(request, timeout=5) as answer:
        return str(answer.read().decode())


def _value(page: str, name: str) -> float:
    return next(float(line.rpartition(" ")[2]) for line in page.splitlines() if line.startswith(name + " "))


async def test_metrics_have_the_systems_numbers(live: System) -> None:
    await with_lag(live, "live.metrics", 4)
    name = 'qmq_system_lag_messages{group="readers",subject="live.metrics"}'
    page = eventually(lambda: page if name + " 4.0" in (page := _metrics(live)) else None)
    assert _value(page, 'qmq_unknown{what="snapshot"}') == 0
    assert _value(page, 'qmq_system_node_reached{broker_group="g1"}') == 1
    assert _value(page, 'qmq_system_disk_free_bytes{broker_group="g1"}') > 0
    assert _value(page, "qmq_collector_beats_total") > 0


async def test_metrics_need_a_token_from_this_machine_too(live: System) -> None:
    with pytest.raises(urllib.error.HTTPError) as refused:
        await asyncio.to_thread(urllib.request.urlopen, f"http://127.0.0.1:{live.port}/metrics", timeout=5)
    assert refused.value.code == 401
    refused.value.close()


async def test_metrics_without_redis_say_unknown_and_no_number(live: System) -> None:
    def unknown() -> str | None:
        page = _metrics(live)
        return page if _value(page, 'qmq_unknown{what="snapshot"}') == 1 else None

    with live.redis.paused():
        page = await asyncio.to_thread(eventually, unknown, what="the page of before has expired")
    assert not [line for line in page.splitlines() if line.startswith("qmq_system_lag_messages{")]


async def test_the_snapshot_is_there_for_others(live: System) -> None:
    from console.snapshot.bus import read_stored

    def look() -> Any:
        snapshot, health = read_stored(live.redis.url)
        return snapshot is not None and health is not None and health["beats"] > 0

    await eventually_async(look)
    with redis.Redis.from_url(live.redis.url) as cache:
        assert 0 < cache.pttl(SNAPSHOT_KEY) <= 10_000
