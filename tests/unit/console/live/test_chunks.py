"""The stored snapshot in chunks: what a beat writes and what a reader reads, against a Redis that is a dict."""

import gc
import zlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from console.snapshot import chunks
from console.snapshot.chunks import (
    CHUNK_BYTES_MAX,
    CHUNKS,
    REWRITES_MAX,
    SnapshotChunks,
    SnapshotWriter,
    head_of,
    head_text,
)
from console.snapshot.frames import FRAME_ENTRIES_MAX, SnapshotError, deltas, frames
from console.snapshot.state import State, delta, empty, group_key
from tests.unit.console.live.stats import states


class Store:
    """Writes states as a collector does, into a dict."""

    def __init__(self) -> None:
        self.writer = SnapshotWriter()
        self.keys: dict[str, bytes] = {}
        self.state, self.version, self.stream = empty(), 0, "s"
        self.head = ""
        self.written: list[int] = []
        """Bytes of each write."""
        self.rewritten: list[int] = []

    def put(self, state: State) -> None:
        self.version += 1
        write = self.writer.write(self.stream, self.version, state, delta(self.state, state))
        for key, data, replaced in write.bases():
            assert key not in self.keys
            assert replaced is None or replaced in self.keys
            self.keys[key] = data
        assert [len(self.keys[key]) for key in write.keys] == write.sizes_before
        for index, data in write.appended:
            self.keys[write.keys[index]] += data
        self.head = head_text({"stream": self.stream, "version": self.version, "at": ""}, 0, write.places)
        self.state = state
        self.written.append(write.bytes_count)
        self.rewritten.append(len(write.rewritten))

    @property
    def stored_bytes(self) -> int:
        head = head_of(self.head)
        assert head is not None
        return sum(size for _, size in head.chunks)


class Reader:
    def __init__(self, store: Store) -> None:
        self.store = store
        self.chunks = SnapshotChunks()
        self.bytes: list[int] = []

    def read(self) -> State:
        head = head_of(self.store.head)
        assert head is not None
        missing = self.chunks.missing(head)
        read = [(one, self.store.keys[one.key][one.begin : one.end]) for one in missing]
        self.bytes.append(sum(len(data) for _, data in read))
        return self.chunks.take(head, read)


def state_of(count: int, changed: dict[int, int] | None = None) -> State:
    """So many subjects with one group each; some with a number of their own."""
    numbers = {n: (changed or {}).get(n, 0) for n in range(count)}
    return empty() | {
        "subjects": {f"s{n}": {"subject": f"s{n}", "number": number} for n, number in numbers.items()},
        "groups": {group_key(f"s{n}", "g"): {"lag": number} for n, number in numbers.items()},
    }


@settings(max_examples=30)
@given(st.lists(st.tuples(states, st.sampled_from(["read", "skip", "forget", "new stream"])), max_size=6))
def test_a_reader_has_what_was_written_however_often_it_reads(steps: list[tuple[State, str]]) -> None:
    store = Store()
    often, seldom = Reader(store), Reader(store)
    for state, what in steps:
        if what == "forget":
            store.writer.forget()
        if what == "new stream":
            store.stream += "s"
        store.put(state)
        assert often.read() == state
        if what == "read":
            assert seldom.read() == state


def test_a_changed_subject_of_5000_costs_its_own_bytes_and_other_entries_stay_the_same_objects() -> None:
    store = Store()
    reader = Reader(store)
    store.put(state_of(5_000))
    before = reader.read()
    kept = {section: dict(entries) for section, entries in before.items()}
    store.put(state_of(5_000, {7: 1}))
    now = reader.read()
    assert now == store.state
    assert (store.written[1], store.rewritten) == (reader.bytes[1], [CHUNKS + 1, 0])
    assert store.written[1] * 100 < store.written[0]
    assert {key for key in now["subjects"] if now["subjects"][key] is not before["subjects"][key]} == {"s7"}
    assert before == kept, "a state that was returned stays as it was"
    assert now["groups"] is not before["groups"]
    assert now["nodes"] is before["nodes"]


def test_what_is_stored_stays_in_proportion_and_few_chunks_are_rewritten_at_once() -> None:
    store = Store()
    reader = Reader(store)
    for turn in range(30):
        store.put(state_of(10_000, dict.fromkeys(range(turn % 5, 10_000, 5), turn)))
        if turn % 10 == 0:
            assert reader.read() == store.state
    whole = store.written[0]
    assert max(store.rewritten[1:]) == REWRITES_MAX
    assert store.stored_bytes < 4 * whole
    assert max(store.written[1:]) < whole
    # It becomes quiet: nothing is written.
    store.put(store.state)
    for _ in range(CHUNKS // REWRITES_MAX):
        store.put(store.state)
    store.put(store.state)
    assert (store.written[-1], store.rewritten[-1]) == (0, 0)
    assert store.stored_bytes < 2.5 * whole


def test_no_frame_has_many_entries() -> None:
    change = delta(empty(), state_of(3 * FRAME_ENTRIES_MAX + 1))
    found = list(deltas(frames(change)))
    assert max(len(parts["set"]) for one in found for parts in one.values()) == FRAME_ENTRIES_MAX
    assert len(found) == 8


def packed(data: bytes) -> bytes:
    packer = zlib.compressobj(1, zlib.DEFLATED, -15)
    body = packer.compress(data) + packer.flush()
    return len(body).to_bytes(4) + body


GOOD = frames({"subjects": {"gone": [], "set": {"s": {"number": 1}}}})


@pytest.mark.parametrize(
    "data",
    [
        b"\0", GOOD[:-1], GOOD + b"\0\0\0\1", packed(b"{"), packed(b"[]"), packed(b'{"other":{"gone":[],"set":{}}}'),
        packed(b'{"groups":{"gone":[[]],"set":{}}}'), packed(b'{"groups":{"gone":[],"set":{"a":1}}}'), packed(b"\xff"),
        b"\0\0\0\3abc",
    ],
)  # fmt: skip
def test_frames_that_are_none_are_refused(data: bytes) -> None:
    with pytest.raises(SnapshotError):
        list(deltas(data))


def test_a_small_frame_that_becomes_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("console.snapshot.frames.FRAME_BYTES_MAX", 1_000)
    assert list(deltas(packed(b"{}" + b" " * 998))) == [{}]
    with pytest.raises(SnapshotError, match="1000 bytes"):
        list(deltas(packed(b"{}" + b" " * 999)))


@pytest.mark.parametrize(
    "change",
    [
        {"format": 2}, {"version": None}, {"at_ms": "x"}, {"chunks": []}, {"chunks": [[1, -1]] * (CHUNKS + 1)},
        {"chunks": [[1, CHUNK_BYTES_MAX]] * (CHUNKS + 1)}, {"chunks": [[1, CHUNK_BYTES_MAX + 1]] + [[1, 0]] * CHUNKS},
        {"chunks": [1] * (CHUNKS + 1)}, {"chunks": None},
    ],
)  # fmt: skip
def test_heads_that_are_none_are_no_snapshot(change: dict[str, Any]) -> None:
    good = {
        "format": chunks.FORMAT,
        "stream": "s",
        "version": 1,
        "at": "",
        "at_ms": 0,
        "chunks": [[1, 2]] * (CHUNKS + 1),
    }
    assert head_of(chunks.encode(good)) is not None
    assert head_of(chunks.encode(good | change)) is None
    assert head_of(None) is head_of(b"{") is head_of(b"[]") is None


def test_bytes_that_are_missing_are_not_taken_for_a_snapshot() -> None:
    store = Store()
    store.put(state_of(100))
    head = head_of(store.head)
    assert head is not None
    reader = SnapshotChunks()
    with pytest.raises(SnapshotError, match="not stored in full"):
        reader.take(head, [(one, b"") for one in reader.missing(head)])


def test_subjects_that_were_read_are_left_out_of_garbage_collections() -> None:
    store = Store()
    reader = Reader(store)
    held = {"subject": "s", "broker_groups": ("g1", "g2"), "number": 1}
    store.put(empty() | {"subjects": {"s": held}})
    first = reader.read()
    store.put(empty() | {"subjects": {"s": held | {"number": 2}}})
    second = reader.read()
    assert (first["subjects"]["s"], second["subjects"]["s"]) == (held, held | {"number": 2})
    # A complete collection stops to track what needs no tracking.
    gc.collect()
    assert not gc.is_tracked(first["subjects"]["s"])
    assert not gc.is_tracked(second["subjects"]["s"])
