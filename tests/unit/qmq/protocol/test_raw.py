"""Views of raw messages read what a plain decoder reads, and no bytes make them raise anything but ProtocolError."""

import struct
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qmq.errors import ProtocolError
from qmq.protocol.messages import Message, decode_raw, decode_raws, encode_entry, encode_raw, resent_entry
from qmq.protocol.primitives import I32, I64, U16, Reader
from qmq.protocol.raw import (
    FLAG_TAGS,
    SHAPE_FIELDS_MAX,
    SHAPES_MAX,
    PropertyFinder,
    RawView,
    property_places,
    split_raws,
)
from tests.support.load.nonsense import CREATED, entry

I8 = struct.Struct(">b")

texts = st.text(st.characters(codec="utf-8"), max_size=9)
names = texts.filter(bool)
times = st.integers(-(2**63), 2**63 - 1)
messages = st.builds(
    Message,
    subject=names,
    message_id=names.filter(str.isprintable),
    properties=st.dictionaries(texts, texts, max_size=5),
    tags=st.lists(names, max_size=4).map(tuple),
    flag=st.integers(-128, 127).map(lambda flag: flag & ~FLAG_TAGS),
    created_at_ms=times,
    time_ms=times,
)
alike = st.builds(
    Message,
    subject=st.just("orders"),
    message_id=st.sampled_from(["m1", "m2"]),
    properties=st.fixed_dictionaries({"data": texts}, optional={"k": st.sampled_from(["v", "w"])}),
    tags=st.sampled_from([(), (), ("a",), ("b",)]),
)
damaged = st.tuples(
    st.lists(messages, min_size=1, max_size=3).map(lambda items: b"".join(map(encode_raw, items))),
    st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), max_size=3),
    st.integers(0, 400),
)


def plain(data: bytes) -> list[Message]:
    """A decoder without views, shapes and places."""
    reader, found = Reader(data), []

    def text(source: Reader) -> str:
        return str(source.bytes_(U16.unpack(source.bytes_(2))[0]), "utf-8", "replace")

    while reader.remaining:
        flag, created_at_ms, time_ms = *reader.unpack(I8), *reader.unpack(I64), *reader.unpack(I64)
        subject, message_id = text(reader), text(reader)
        tags = tuple(text(reader) for _ in range(reader.unpack(I8)[0] & 0xFF)) if flag & FLAG_TAGS else ()
        inner = Reader(reader.bytes_(reader.unpack(I32)[0]))
        properties = {}
        while inner.remaining:
            key = text(inner)
            properties[key] = text(inner)
        found.append(Message(subject, message_id, properties, tags, flag, created_at_ms, time_ms))
    return found


def outcome(work: Callable[[], Any]) -> Any:
    try:
        return work()
    except ProtocolError:
        return "refused"


def with_damage(case: tuple[bytes, list[tuple[int, int]], int]) -> bytes:
    data, changes, cut = case
    found = bytearray(data)
    for place, value in changes:
        found[place % len(found)] = value
    return bytes(found[: len(found) - cut % len(found)])


def raw_of(*properties: tuple[bytes, bytes], flag: int = 0, tail: bytes = b"") -> bytes:
    """A raw message whose keys and values are any bytes, in any order."""
    inner = b"".join(U16.pack(len(key)) + key + U16.pack(len(value)) + value for key, value in properties) + tail
    return struct.pack(">bqqH6sH2si", flag, 1, 2, 6, b"orders", 2, b"m1", len(inner)) + inner


@given(st.one_of(messages, alike))
def test_a_view_reads_what_was_written(message: Message) -> None:
    raw = encode_raw(message)
    for data in (raw, bytearray(raw), memoryview(raw)):
        view = RawView(data)
        assert view.message() == plain(raw)[0]
        assert (view.subject, view.message_id, view.tags) == (message.subject, message.message_id, message.tags)
        assert (view.begin, view.end) == (0, len(raw))
        for key, value in message.properties.items():
            assert view.property_text(key.encode()) == value
        assert view.property_text(b"not there") is None
        layout, values = view.shape()
        assert struct.Struct(f">{layout}").unpack_from(raw) == (*values, view.end - view.properties_begin)


@given(st.lists(st.one_of(messages, alike, alike, alike), max_size=40), st.integers(0, 9), st.binary(max_size=5))
def test_messages_back_to_back_are_split_at_their_boundaries(items: list[Message], gap: int, before: bytes) -> None:
    raws = [encode_raw(item) for item in items]
    data = before + b"".join(b"g" * gap + raw for raw in raws)
    begins, properties_begins, ends = split_raws(data, len(before), gap=gap)
    assert [data[begin:end] for begin, end in zip(begins, ends, strict=True)] == raws
    assert properties_begins == [RawView(data, begin).properties_begin for begin in begins]
    assert split_raws(data + b"more", len(before), len(data), gap=gap)[0] == begins


@given(damaged)
def test_damaged_bytes_are_read_as_the_plain_decoder_reads_them(case: tuple[bytes, list[tuple[int, int]], int]) -> None:
    data = with_damage(case)
    assert outcome(lambda: decode_raws(data)) == outcome(lambda: plain(data))
    assert outcome(lambda: decode_raws(memoryview(data))) == outcome(lambda: plain(data))


@given(st.binary(max_size=120))
def test_any_bytes_are_refused_or_are_a_message_that_can_be_written_again(data: bytes) -> None:
    found = outcome(lambda: decode_raw(data))
    if found == "refused":
        return
    message, end = found
    if message.subject and message.message_id and all(message.tags) and 0 < len(message.tags) <= 10:
        assert decode_raw(encode_raw(message))[0] == message
    assert 25 <= end <= len(data)


def test_a_message_that_is_cut_anywhere_is_refused_also_among_others_of_its_shape() -> None:
    raw = encode_raw(Message("orders", "m1", {"k": "v"}, ("a", "b")))
    for size in range(1, len(raw)):
        for before in (b"", raw * 5):
            with pytest.raises(ProtocolError):
                split_raws(before + raw[:size])
            with pytest.raises(ProtocolError):
                split_raws(before + raw, 0, len(before) + size)


@pytest.mark.parametrize("size", [-1, -20, -(2**31), 2**31 - 1])
def test_a_length_of_properties_that_leads_back_or_beyond_the_end_is_refused(size: int) -> None:
    raw = raw_of((b"k", b"v"))
    for before in (0, 3):
        bad = bytearray(raw * (before + 1))
        at = before * len(raw) + RawView(raw).properties_begin - 4
        bad[at : at + 4] = struct.pack(">i", size)
        with pytest.raises(ProtocolError, match="properties"):
            split_raws(bytes(bad))


@pytest.mark.parametrize("tail", [b"\0", b"\0\1k", b"\0\1k\0", b"\0\1k\0\2v", b"\xff\xffk"])
def test_properties_that_do_not_end_where_their_length_says_are_refused_when_they_are_read(tail: bytes) -> None:
    raw = raw_of((b"k", b"v"), tail=tail)
    for data in (raw, raw + b"\0" * 100_000):
        view = RawView(data)
        for read in (
            lambda view=view: view.properties,
            lambda view=view: view.property_text(b"data"),
            lambda view=view: list(property_places(view.data, view.properties_begin, view.end)),
            view.message,
        ):
            with pytest.raises(ProtocolError):
                read()
        seen = []
        with pytest.raises(ProtocolError):
            seen += [*map(seen.append, property_places(view.data, view.properties_begin, view.end))]
        assert seen == [
            (view.end - len(tail) - 4, view.end - len(tail) - 3, view.end - len(tail) - 1, view.end - len(tail))
        ]


def test_text_that_is_not_utf_8_reads_with_replacement_characters() -> None:
    view = RawView(raw_of((b"\xff", b"a\xffb")))
    assert view.properties == {"\ufffd": "a\ufffdb"}
    assert view.property_text(b"\xff") == "a\ufffdb"


def test_of_a_key_that_occurs_twice_the_last_value_counts() -> None:
    raw = raw_of((b"data", b"1"), (b"k", b"v"), (b"data", b"22"))
    view = RawView(raw)
    assert view.properties == {"data": "22", "k": "v"}
    assert view.property_text(b"data") == "22"
    finder = PropertyFinder(b"data")
    for _ in range(4):
        begin, end = finder.place(raw, view.properties_begin, view.end) or (0, 0)
        assert raw[begin:end] == b"22"


parts = st.sampled_from([b"data", b"d", b"", b"\0\4data", b"\0\4data\0\1x", b"xx"])


@given(st.lists(st.lists(st.tuples(parts, parts), max_size=4), max_size=30))
def test_a_finder_finds_what_a_view_finds_whatever_the_values_look_like(
    items: list[list[tuple[bytes, bytes]]],
) -> None:
    finder = PropertyFinder(b"data")
    data = b"".join(raw_of(*properties) for properties in items)
    for begin, properties_begin, end in zip(*split_raws(data), strict=True):
        place = finder.place(data, properties_begin, end)
        expected = RawView(data, begin, end).property_text(b"data")
        assert (None if place is None else data[slice(*place)].decode()) == expected


def test_a_finder_is_not_misled_by_a_message_whose_first_properties_have_other_lengths() -> None:
    finder = PropertyFinder(b"data")
    for key in (b"key", b"key", b"key", b"k", b"keyed", b"key"):
        raw = raw_of((key, b"12"), (b"data", b"found"))
        begin, end = finder.place(raw, RawView(raw).properties_begin, len(raw)) or (0, 0)
        assert raw[begin:end] == b"found"
    other = raw_of((b"key", b"12"), (b"else", b"found"))
    assert finder.place(other, RawView(other).properties_begin, len(other)) is None


def test_a_finder_refuses_a_value_that_leads_beyond_the_message() -> None:
    good, bad = raw_of((b"data", b"1")), bytearray(raw_of((b"data", b"1")))
    bad[-2] = 2
    finder = PropertyFinder(b"data")
    begin = RawView(good).properties_begin
    for data in (good, good, good, bytes(bad)):
        if data == good:
            assert finder.place(data, begin, len(data)) == (len(data) - 1, len(data))
        else:
            with pytest.raises(ProtocolError):
                finder.place(data + b"more", begin, len(data))


def test_shapes_are_learned_up_to_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[int] = []
    shape = RawView.shape

    def counted(view: RawView) -> tuple[str, tuple[int, ...]]:
        looked.append(view.begin)
        return shape(view)

    monkeypatch.setattr(RawView, "shape", counted)
    split_raws(b"".join(encode_raw(Message("orders", f"m{number}")) for number in range(10, 90)))
    assert len(looked) == 2, "the shape is known after it has repeated"
    looked.clear()
    split_raws(b"".join(encode_raw(Message("orders", "m" * (1 + number % 90))) for number in range(900)))
    assert len(looked) == SHAPES_MAX
    looked.clear()
    many = tuple("t" for _ in range(10))
    wide = encode_raw(Message("orders", "m1", {}, many))
    count_at = RawView(wide).properties_begin - 4 - len(many) * 3 - 1
    tags = SHAPE_FIELDS_MAX
    raw = wide[:count_at] + bytes([tags]) + b"\0\1t" * tags + wide[-4:]
    assert len(split_raws(raw * 40)[0]) == 40
    assert len(looked) == SHAPES_MAX, "a shape of too many fields is not compiled"


def test_entries_are_split_behind_their_checksums() -> None:
    entries = [encode_entry(Message("orders", f"m{number}", {"k": "v" * number})) for number in range(20)]
    begins, _, ends = split_raws(b"".join(entries), gap=8)
    data = b"".join(entries)
    assert [data[begin - 8 : end] for begin, end in zip(begins, ends, strict=True)] == entries
    with pytest.raises(ProtocolError):
        split_raws(data + b"\0" * 5, gap=8)


def test_a_message_that_is_sent_back_keeps_its_bytes_whatever_they_are() -> None:
    tags, kept = (b"\xff", b"b"), [(b"\xfe", b"\xff" * 32767), (b"k", b"v"), (b"k", b"w")]
    old = entry("orders", b"m\n\xff", CREATED, (b"qmq_times", b"9" * 5000), *kept, tags=tags)
    new = resent_entry(
        old[8:], "%RETRY%orders%g", 17, {"qmq_createTime": "17", "qmq_times": "2", "qmq_retryCause": None}
    )
    changed = ((b"qmq_createTime", b"17"), (b"qmq_times", b"2"))
    assert new == entry("%RETRY%orders%g", b"m\n\xff", *kept, *changed, tags=tags, created_ms=17)
    with pytest.raises(ProtocolError):
        resent_entry(old[8:-1], "orders", 17, {})
