"""The feed of rows: each client gets the rows that it names, and what changes of them."""

import asyncio
import json
from typing import Any

import pytest
from redis.exceptions import ConnectionError as RedisConnectionError

from console.live import rows
from console.live.audiences import NOTHING_SHOWN, Shown
from console.live.rows import ROWS_MAX, RowFeed, rows_of
from console.snapshot.state import apply
from tests.support.waiting import eventually_async


class Client:
    """Follows the feed as a browser does."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []

    def offer(self, text: str, shown: Shown = NOTHING_SHOWN) -> None:
        self.messages.append(json.loads(text))

    @property
    def state(self) -> Any:
        first, *others = self.messages
        assert first["type"] == "snapshot"
        state = first["state"]
        for number, one in enumerate(others, 2):
            assert (one["type"], one["version"]) == ("delta", number)
            state = apply(state, one["delta"])
        return state


class Stored:
    """What Redis holds."""

    def __init__(self) -> None:
        self.state: dict[str, dict[str, Any]] = {
            "subjects": {f"s{n}": {"rate": n} for n in range(5)},
            "groups": {"s1\ng": {"lag": 7, "state": "growing"}},
            "nodes": {},
        }
        self.version = 0
        self.reads = 0
        self.error: Exception | None = None

    def read(self, _: str) -> tuple[dict[str, Any] | None, None]:
        self.reads += 1
        if self.error is not None:
            raise self.error
        return {"state": self.state, "at": f"t{self.version}"}, None

    def change(self, section: str, key: str, entry: dict[str, Any] | None) -> None:
        entries = {name: one for name, one in self.state[section].items() if name != key}
        self.state = {**self.state, section: entries | ({} if entry is None else {key: entry})}
        self.version += 1


@pytest.fixture
def stored(monkeypatch: pytest.MonkeyPatch) -> Stored:
    found = Stored()
    monkeypatch.setattr(rows, "read_stored", found.read)
    return found


async def beat(feed: RowFeed, stored: Stored) -> None:
    """A heartbeat, until the snapshot that it stands for was read and offered."""
    before = stored.reads
    feed.read()
    await eventually_async(lambda: stored.reads > before and feed._at == f"t{stored.version}", what="it was read")
    await asyncio.sleep(0)


async def showing(feed: RowFeed, stored: Stored, **named: list[str]) -> Client:
    client = Client()
    feed.join(client)
    await beat(feed, stored)
    assert client.messages == [], "it has named no rows"
    feed.show(client, rows_of({"type": "show", **named}))
    return client


async def test_a_client_gets_the_rows_that_it_names_and_their_changes_only(stored: Stored) -> None:
    feed = RowFeed("")
    client = await showing(feed, stored, subjects=["s1", "s2", "unknown"], groups=["s1\ng"])
    group = {"lag": 7, "state": "growing"}
    assert client.state == {"subjects": {"s1": {"rate": 1}, "s2": {"rate": 2}}, "groups": {"s1\ng": group}}
    stored.change("subjects", "s4", {"rate": 400})
    await beat(feed, stored)
    assert (client.messages[-1]["delta"], client.messages[-1]["at"]) == ({}, "t1")
    stored.change("groups", "s1\ng", {"lag": 8, "state": "growing"})
    await beat(feed, stored)
    assert client.messages[-1]["delta"] == {"groups": {"gone": [], "set": {"s1\ng": {"lag": 8}}}}
    stored.change("subjects", "unknown", {"rate": 9})
    stored.change("subjects", "s2", None)
    await beat(feed, stored)
    assert client.state["subjects"] == {"s1": {"rate": 1}, "unknown": {"rate": 9}}
    await feed.close()


async def test_scrolling_changes_the_rows_at_once_on_the_same_connection(stored: Stored) -> None:
    feed = RowFeed("")
    client = await showing(feed, stored, subjects=["s0", "s1"])
    feed.show(client, rows_of({"type": "show", "subjects": ["s1", "s2"]}))
    assert client.messages[-1]["delta"] == {"subjects": {"gone": ["s0"], "set": {"s2": {"rate": 2}}}}
    feed.show(client, rows_of({"type": "show"}))
    assert client.state == {"subjects": {}, "groups": {}}
    await feed.close()


async def test_one_read_for_all_clients_and_none_without(stored: Stored) -> None:
    feed = RowFeed("")
    clients = [await showing(feed, stored, subjects=[f"s{n}"]) for n in range(3)]
    before = stored.reads
    stored.change("subjects", "s2", {"rate": 5})
    await beat(feed, stored)
    assert stored.reads == before + 1
    assert [client.messages[-1]["delta"] != {} for client in clients] == [False, False, True]
    for client in clients:
        feed.leave(client)
    await eventually_async(lambda: feed._task is not None and feed._task.done(), what="it stops")
    feed.read()
    assert stored.reads == before + 1
    count = len(clients[0].messages)
    feed.show(clients[0], rows_of({"type": "show", "subjects": ["s3"]}))
    assert len(clients[0].messages) == count


async def test_after_a_failure_the_next_heartbeat_tries_again(stored: Stored) -> None:
    feed = RowFeed("")
    client = await showing(feed, stored, subjects=["s1"])
    for error in (RedisConnectionError("away"), RuntimeError("a bug")):
        before, stored.error = stored.reads, error
        feed.read()
        await eventually_async(lambda before=before: stored.reads > before, what="it failed")
        stored.error = None
        stored.change("subjects", "s1", {"rate": stored.version + 50})
        await eventually_async(lambda: feed._task is not None, what="it ended")
        await asyncio.sleep(0)
        await beat(feed, stored)
        assert client.state["subjects"]["s1"] == {"rate": stored.version + 49}
    await feed.close()


@pytest.mark.parametrize(
    ("message", "why"),
    [
        ({"rows": []}, "unknown field 'rows'"),
        ({"subjects": "orders"}, "subjects of show must be a list of keys"),
        ({"groups": [1]}, "groups of show must be a list of keys"),
        ({"subjects": [f"s{n}" for n in range(ROWS_MAX)], "groups": ["a\nb"]}, f"{ROWS_MAX + 1} rows"),
    ],
)
def test_invalid_rows_are_refused_with_the_reason(message: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        rows_of({"type": "show", **message})


def test_as_many_rows_as_are_allowed_a_repeated_one_counts_once() -> None:
    named = [f"s{n}" for n in range(ROWS_MAX)]
    assert rows_of({"type": "show", "subjects": [*named, "s0"]})["subjects"] == tuple(named)
