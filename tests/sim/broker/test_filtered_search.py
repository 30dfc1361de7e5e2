"""Searches with a filter at a broker, over its admin port: what is found, in which order, and in which steps."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from struct import Struct
from typing import Any

import pytest

from broker_node.admin import filtered_search
from broker_node.reads.filtered import step
from broker_node.storage.consume_log import ENTRY_BYTES
from qmq.node_admin import NodeAdmin, NodeRefused
from qmq.protocol.messages import KEY_CREATED, Message
from qmq_node.filters import FILTER_CHARS_MAX
from tests.sim.broker.admin import asked, sequences
from tests.sim.world.disk import only_in_threads
from tests.support.disks.memory_disk import MemoryDisk
from tests.support.drivers.in_process import message
from tests.support.drivers.indexes import flush
from tests.support.manual_clock import ManualClock

PLACE = Struct(">qI")
START_MS = 1_700_000_000_000


def with_body(number: int, data: str, **properties: str) -> Message:
    return Message("orders", f"m{number}", {KEY_CREATED: "1", "data": data, **properties}, (), 0, START_MS, START_MS)


async def all_steps(admin: NodeAdmin, order: str, *filters: str, **window: Any) -> tuple[list[int], list[int]]:
    """All sequences found, and how many messages each step searched."""
    found: list[int] = []
    scanned: list[int] = []
    while True:
        page = await admin.search("orders", filters=filters, order=order, **window)
        found += sequences(page)
        scanned.append(page["scanned"])
        at = page["next_sequence"]
        if at is None:
            return found, scanned
        assert page["scanned"] > 0, "a step that comes no further is repeated for ever"
        window["until_sequence" if order == "newest" else "sequence"] = at


async def test_a_filter_finds_messages_newest_first_in_a_window(tmp_path: Path) -> None:
    clock = ManualClock(START_MS)
    async with asked(tmp_path, clock=clock) as (_, client, admin):
        for n in range(10):
            await client.send(message(n, tags=("even",) if n % 2 == 0 else ("odd", "late") if n > 6 else ()))
            clock.advance(1)
        await client.send(message(3))
        found = await admin.search("orders", filters=["number=3"])
        assert sequences(found) == [10, 3]
        assert (found["scanned"], found["next_sequence"], found["end_sequence"]) == (11, None, 11)
        assert found["messages"][0]["properties"]["number"] == "3"
        assert (found["expression"], found["searched"]) == ('properties["number"] == "3"', ["properties"])
        cases: dict[str, list[int]] = {
            "": list(range(10, -1, -1)),
            '"even" in tags': [8, 6, 4, 2, 0],
            '"odd" in tags && properties.number == "9"': [9],
            '"even" in tags && properties.number == "9"': [],
            'id == "m7"': [7],
            "numbe=3": [],
            "sequence < 2 || properties.number == '5'": [5, 1, 0],
            'time < timestamp("2023-11-14T22:13:22Z")': [1, 0],
            'time >= now - duration("3s")': [10, 9, 8, 7],
        }
        for text, wanted in cases.items():
            assert sequences(await admin.search("orders", filters=[text])) == wanted, text
            assert sequences(await admin.search("orders", filters=[text], order="oldest")) == wanted[::-1], text
        assert sequences(await admin.search("orders", filters=['"even" in tags', "sequence > 4"])) == [8, 6]
        window = await admin.search("orders", from_time=START_MS + 2000, to_time=START_MS + 5000)
        assert sequences(window) == [4, 3, 2]
        assert (window["begin_sequence"], window["end_sequence"]) == (2, 5)
        assert sequences(await admin.search("orders", sequence=4, until_sequence=6)) == [5, 4]


@pytest.mark.parametrize("order", ["newest", "oldest"])
async def test_a_search_stops_at_its_limits_and_loses_no_message_by_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, order: str
) -> None:
    monkeypatch.setattr(step, "CHUNK_ENTRIES", 7)
    monkeypatch.setattr(step, "SPAN_BYTES_MAX", 400)
    async with asked(tmp_path) as (_, client, admin):
        sizes = [10, 900, 10, 10, 5000, 10, 10, 10, 300, 10] * 4
        await client.send(*(message(n, size=size) for n, size in enumerate(sizes)))
        every = list(range(40))
        wanted = every[::-1] if order == "newest" else every
        text = "size > 0"
        assert await all_steps(admin, order, text) == (wanted, [40])
        found, scanned = await all_steps(admin, order, text, limit=3)
        assert (found, scanned) == (wanted, [3] * 13 + [1])
        # Each answer has as many bytes as fit, and at least one message.
        monkeypatch.setattr(filtered_search, "FOUND_BYTES_MAX", 1_000)
        found, scanned = await all_steps(admin, order, text)
        assert (found, sum(scanned)) == (wanted, 40)
        assert 1 in scanned
        assert max(scanned) > 2
        monkeypatch.setattr(filtered_search, "STEP_MESSAGES_MAX", 9)
        assert await all_steps(admin, order, "number=17") == ([17], [9, 9, 9, 9, 4])


async def test_a_step_ends_when_its_time_is_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step, "CHECK_MESSAGES", 4)
    clock = ManualClock(START_MS)
    async with asked(tmp_path, clock=clock) as (_, client, admin):
        await client.send(*(message(n) for n in range(10)))
        evaluate = step._Step._matches

        def slowly(self: Any, *arguments: Any) -> bool:
            clock.advance(0.2)
            return evaluate(self, *arguments)

        monkeypatch.setattr(step._Step, "_matches", slowly)
        assert await all_steps(admin, "newest", 'id != ""') == (list(range(9, -1, -1)), [4, 4, 2])
        assert await all_steps(admin, "oldest", "sequence == 8") == ([8], [4, 4, 2])


@pytest.mark.parametrize(("order", "wanted"), [("newest", [9, 2]), ("oldest", [2, 9])])
async def test_a_step_that_begins_when_its_time_is_over_comes_further_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, order: str, wanted: list[int]
) -> None:
    monkeypatch.setattr(step, "SPAN_BYTES_MAX", 400)
    clock = ManualClock(START_MS)
    async with asked(tmp_path, clock=clock) as (_, client, admin):
        await client.send(*(message(n) for n in range(10)))
        read_index = step._Step._chunk

        def late(self: Any, *arguments: Any) -> None:
            clock.advance(filtered_search.STEP_SECONDS)
            read_index(self, *arguments)

        monkeypatch.setattr(step._Step, "_chunk", late)
        found, scanned = await all_steps(admin, order, 'properties.number in ["2", "9"]')
        assert (found, sum(scanned)) == (wanted, 10)
        assert len(scanned) > 1


async def test_messages_that_the_index_rules_out_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    span = step._Step._span

    def counted(self: Any, first: int, index_bytes: bytes, places: Any, *others: Any) -> None:
        read.extend(first + int(place) for place in places)
        span(self, first, index_bytes, places, *others)

    monkeypatch.setattr(step._Step, "_span", counted)
    async with asked(tmp_path) as (_, client, admin):
        await client.send(*(message(n, size=1000 if n == 7 else 10) for n in range(20)))
        assert sequences(await admin.search("orders", filters=["size > 1000 && properties.number == '7'"])) == [7]
        assert read == [7]


async def test_a_damaged_index_entry_is_repaired_and_its_message_found(tmp_path: Path) -> None:
    async with asked(tmp_path) as (broker, client, admin):
        await client.send(*(message(n) for n in range(4)))
        index = broker.store.subjects["orders"].consume_log
        damaged = bytearray(index.read(2, 3))
        damaged[-1] ^= 1
        index.repair(2, bytes(damaged))
        page = await admin.search("orders", filters=["number=2"])
        assert (sequences(page), page["unreadable"], page["scanned"]) == ([2], 0, 4)
        assert broker.store.counters.repaired_entries == 1
        # Zeros stand for entries that the disk can't read.
        index.repair(1, bytes(ENTRY_BYTES))
        assert sequences(await admin.search("orders")) == [3, 2, 1, 0]
        assert (broker.log.stored.damaged, broker.store.counters.withheld_messages) == ((), 0)


async def test_a_damaged_message_is_counted(tmp_path: Path) -> None:
    async with asked(tmp_path) as (broker, client, admin):
        await client.send(*(message(n) for n in range(4)))
        offset, size = PLACE.unpack_from(broker.store.subjects["orders"].consume_log.read(2, 3))
        files = broker.log.stored.files
        segment = files.holding(offset)
        assert segment is not None
        file = broker.disk.open(files.path(segment.base), writable=True)
        file.pwritev([b"\xff"], offset - segment.base + size - 1)
        page = await admin.search("orders", filters=["number=3"])
        assert (sequences(page), page["unreadable"], page["scanned"]) == ([3], 1, 4)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("body.amount >", "line 1, column 14: syntax error: the filter ends too early"),
        ("bodyy.amount > 1", "line 1, column 6: 'bodyy.amount' is unknown; did you mean 'body'?"),
        ("message.bodyy == 1", "line 1, column 8: 'message.bodyy' is unknown; did you mean 'body'?"),
        ("size == 'x'", "'==' can't be applied to int and string"),
        ("size + 1", "is of type int; it must be true or false"),
        ("x" * (FILTER_CHARS_MAX + 1), f"has {FILTER_CHARS_MAX + 1} characters; the limit is {FILTER_CHARS_MAX}"),
        ("(" * 100 + "true" + ")" * 100, "nested too deeply"),
        ("a " * 101, "has 101 words; the limit is 100"),
        ("!\0", "NUL"),
    ],
)
async def test_what_is_no_filter_is_refused_with_the_place(tmp_path: Path, text: str, why: str) -> None:
    async with asked(tmp_path) as (_, client, admin):
        await client.send(message(0))
        with pytest.raises(NodeRefused) as caught:
            await admin.search("orders", filters=[text])
        assert (caught.value.status, caught.value.code) == (400, "filter.invalid")
        assert why in str(caught.value)


async def test_a_filter_that_takes_too_much_for_a_message_counts_it_and_goes_on(tmp_path: Path) -> None:
    async with asked(tmp_path) as (_, client, admin):
        long = "[" + ",".join(["1"] * 15_000) + "]"
        parts = {f"data#part{i}": long[i * 8192 : (i + 1) * 8192] for i in range(4)}
        await client.send(
            with_body(0, "[2, 3]"),
            Message("orders", "m1", {KEY_CREATED: "1", **parts}, (), 0, START_MS, START_MS),
            with_body(2, "[1]"),
        )
        page = await admin.search("orders", filters=["body.exists(x, x == 3)"])
        assert (sequences(page), page["costly"], page["scanned"]) == ([0], 1, 3)


async def test_bodies_of_any_shape_are_searched(tmp_path: Path) -> None:
    async with asked(tmp_path) as (_, client, admin):
        deep = "[" * 15_000 + "]" * 15_000
        await client.send(
            with_body(0, deep), with_body(1, '{"a": {"b": [1, {"c": "Em\\u006da"}]}}'), with_body(2, "plain text"),
            Message("orders", "m3", {KEY_CREATED: "1", "amount": "17"}, (), 0, START_MS, START_MS),
            with_body(4, '{"a": 1, "n": 9999999999999999999999}'), with_body(5, ""),
            with_body(6, "eyJhIjogIngifQ==", qmq_contentEncoding="base64"),
            with_body(7, "!!!!", qmq_contentEncoding="base64"), with_body(8, "null"),
        )  # fmt: skip
        cases: dict[str, list[int]] = {
            'body.a.b[1].c == "Emma"': [1],
            "body.a.b[0] == 1": [1],
            'body == "plain text"': [2],
            "plain text": [2],
            'body.amount == "17" && double(body.amount) > 16.5': [3],
            "body.n > 1": [4],
            'body.a == "x"': [6],
            '"x"': [6, 2],
            'body.startsWith("[[[")': [0],
            "body == null": [8],
            'body == ""': [5],
            "has(body.a)": [6, 4, 1],
        }
        for text, wanted in cases.items():
            page = await admin.search("orders", filters=[text])
            assert (sequences(page), page["scanned"], page["costly"]) == (wanted, 9, 0), text


async def test_index_and_messages_are_read_in_threads_only(tmp_path: Path) -> None:
    disk = MemoryDisk()
    async with asked(tmp_path, disk=disk) as (broker, client, admin):
        await client.send(*(message(n) for n in range(20)))
        flush(broker.store.subjects["orders"].consume_log)
        disk.observe = only_in_threads("/", "read")
        page = await admin.search("orders", filters=["number=7"], from_time=1)
        assert (sequences(page), page["unreadable"]) == ([7], 0)


async def test_retention_during_a_search_is_no_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with asked(tmp_path) as (broker, client, admin):
        await client.send(*(message(n) for n in range(6)))
        subject = broker.store.subjects["orders"]
        run = step.Job.run

        def late(*arguments: Any) -> Any:
            done = run(*arguments)
            done.unreadable += [0, 1]
            subject.consume_log.hide_before(2)
            return done

        monkeypatch.setattr(step.Job, "run", late)
        page = await admin.search("orders", filters=["sequence >= 2"])
        assert (sequences(page), page["unreadable"]) == ([5, 4, 3, 2], 0)


async def test_unknown_parameters_and_values_are_refused(tmp_path: Path) -> None:
    async with asked(tmp_path) as (_, client, admin):
        await client.send(message(0))
        refused: list[Callable[[], Awaitable[object]]] = [
            lambda: admin.search("orders", order="best"),
            lambda: admin.search("orders", filters=["a", "b", "c", "d", "e"]),
            lambda: admin.search("orders", limit=0),
            lambda: admin.search("orders", from_time="noon"),
            lambda: admin.search("orders", to_time="9" * 5000),
            lambda: admin.search("orders", sequence=-1),
        ]
        for asking in refused:
            with pytest.raises(NodeRefused) as caught:
                await asking()
            assert (caught.value.status, caught.value.code) == (400, "parameter.wrong")
        for subject, body, answer in (
            ("nobody", {}, (404, "subject.unknown")),
            ("orders", {"match": "a=b"}, (400, "parameter.unknown")),
            ("orders", {"filter": 17}, (400, "parameter.wrong")),
        ):
            with pytest.raises(NodeRefused) as caught:
                await admin._post(f"/subjects/{subject}/search", body)
            assert (caught.value.status, caught.value.code) == answer
