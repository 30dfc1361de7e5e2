"""What a client that joins a feed costs: the state is encoded once in several versions, in a thread and in pieces."""

import asyncio
import json
import threading
from typing import Any

import pytest

from console.live import audiences
from console.live.audiences import (
    JOINING_DELTAS_MAX,
    NOTHING_SHOWN,
    PENDING_DELTAS_MAX,
    Shown,
    Subscribed,
    snapshot_text,
)
from console.live.hub import Hub
from console.live.sockets import CLIENT_QUEUE_MAX
from console.snapshot.feeds import Feed
from console.snapshot.frames import FRAME_ENTRIES_MAX
from console.snapshot.state import apply, empty, encode
from tests.support.manual_clock import ManualClock


class Client:
    def __init__(self) -> None:
        self.texts: list[str] = []

    def offer(self, text: str, shown: Shown = NOTHING_SHOWN) -> None:
        self.texts.append(text)

    @property
    def state(self) -> tuple[int, Any]:
        """The version and the state that the texts make."""
        assert len(self.texts) < CLIENT_QUEUE_MAX
        first, *deltas = map(json.loads, self.texts)
        assert first["type"] == "snapshot"
        state, version = first["state"], first["version"]
        for one in deltas:
            assert one["version"] == version + 1
            state, version = apply(state, one["delta"]), one["version"]
        return version, state


def subscribed(entries: int) -> Subscribed:
    one = Subscribed(Feed("lag", "s"), stream="s", version=0, at="t0", is_wanting=False)
    one.state = {"subjects": {f"s{n}": {"number": 0} for n in range(entries)}, "groups": {}}
    return one


def advance(one: Subscribed) -> None:
    value: dict[str, Any] = {"stream": "s", "version": one.version + 1, "at": f"t{one.version + 1}"}
    value |= {"delta": {"subjects": {"gone": [], "set": {"s7": {"number": one.version + 1}}}}}
    text = encode({"type": "delta", **value})
    Hub("redis://127.0.0.1:1/0", ManualClock())._take_delta(one, value, text)


async def encoded(one: Subscribed) -> None:
    if one.encoding is not None:
        await one.encoding


async def join(one: Subscribed) -> Client:
    client = Client()
    one.joining.add(client)
    one.admit()
    await encoded(one)
    return client


async def test_a_client_that_joins_gets_the_present_state_and_few_of_them_cause_a_new_snapshot(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    versions: list[int] = []

    def counting(head: Any, state: Any) -> str:
        versions.append(head["version"])
        return snapshot_text(head, state)

    monkeypatch.setattr(audiences, "snapshot_text", counting)
    one = subscribed(1_000)
    for version in range(1, 101):
        advance(one)
        for _ in range(20):
            client = await join(one)
            assert len(client.texts) <= 1 + JOINING_DELTAS_MAX + 1
            assert client.state == (version, one.state)
        one.audience.clients.clear()
    assert len(versions) <= 100 // JOINING_DELTAS_MAX + 1, "2,000 clients joined"


async def test_a_snapshot_is_encoded_in_pieces_and_never_by_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[bool, int]] = []
    original, loop_thread = json.dumps, threading.get_ident()

    def counting(value: Any, **options: Any) -> str:
        calls.append((threading.get_ident() == loop_thread, len(value)))
        return original(value, **options)

    monkeypatch.setattr(json, "dumps", counting)
    one = subscribed(20 * FRAME_ENTRIES_MAX)
    client = await join(one)
    assert client.state == (0, one.state)
    assert [call for call in calls if call[0]] == []
    assert max(count for _, count in calls) == FRAME_ENTRIES_MAX


async def test_deltas_that_come_while_a_snapshot_is_encoded_are_not_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    encoding, go_on = threading.Event(), threading.Event()

    def waiting(head: Any, state: Any) -> str:
        encoding.set()
        assert go_on.wait(10)
        return snapshot_text(head, state)

    monkeypatch.setattr(audiences, "snapshot_text", waiting)
    one = subscribed(10)
    client = Client()
    one.joining.add(client)
    one.admit()
    assert await asyncio.to_thread(encoding.wait, 10)
    for _ in range(3):
        advance(one)
    assert client.texts == []
    go_on.set()
    await encoded(one)
    advance(one)
    assert client.state == (4, one.state)


@pytest.mark.parametrize("what", ["replaced", "too many deltas"])
async def test_a_snapshot_that_became_useless_is_encoded_again(monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    encoding, go_on = threading.Semaphore(0), threading.Semaphore(0)

    def waiting(head: Any, state: Any) -> str:
        encoding.release()
        assert go_on.acquire(timeout=10)
        return snapshot_text(head, state)

    monkeypatch.setattr(audiences, "snapshot_text", waiting)
    one = subscribed(10)
    client = Client()
    one.joining.add(client)
    one.admit()
    assert await asyncio.to_thread(encoding.acquire, timeout=10)
    if what == "replaced":
        one.replace({"stream": "t", "version": 9, "at": "t9"}, {"subjects": {"new": {"number": 1}}, "groups": {}})
        one.admit()
    else:
        for _ in range(PENDING_DELTAS_MAX + 1):
            advance(one)
    go_on.release(2)
    await encoded(one)
    assert client.state == (one.version, one.state)


async def test_a_snapshot_that_can_not_be_encoded_is_tried_again_with_the_next_delta(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    failures = [MemoryError("too little")]

    def failing(head: Any, state: Any) -> str:
        if failures:
            raise failures.pop()
        return snapshot_text(head, state)

    monkeypatch.setattr(audiences, "snapshot_text", failing)
    one, client = subscribed(10), Client()
    one.joining.add(client)
    one.admit()
    assert one.encoding is not None
    await asyncio.wait([one.encoding])
    assert client.texts == []
    advance(one)
    await encoded(one)
    assert client.state == (1, one.state)
    assert "a snapshot of lag.subject.cw can't be encoded" in caplog.text


async def test_clients_of_a_state_that_is_replaced_join_again() -> None:
    one = subscribed(10)
    client = await join(one)
    client.texts.clear()
    one.replace({"stream": "t", "version": 9, "at": "t9"}, {"subjects": {}, "groups": {}})
    one.admit()
    await encoded(one)
    assert json.loads(client.texts.pop(0)) == {"type": "reset"}
    assert client.state == (9, {"subjects": {}, "groups": {}})


async def test_without_new_clients_nothing_is_encoded_or_kept() -> None:
    one = subscribed(10)
    for _ in range(50):
        advance(one)
    assert one.texts == []
    await join(one)
    for _ in range(50):
        advance(one)
    assert (one.texts, one.since) == ([], None)


def test_a_snapshots_pieces_are_one_json_object() -> None:
    head = {"stream": "s", "version": 1, "at": "t"}
    for entries in (0, 1, FRAME_ENTRIES_MAX, FRAME_ENTRIES_MAX + 1):
        state = empty() | {"subjects": {f'\u4e3b\n"{n}': {"number": None} for n in range(entries)}}
        assert json.loads(snapshot_text(head, state)) == {"type": "snapshot", **head, "state": state}
