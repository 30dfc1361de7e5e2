"""Messages read in lock-step say what the codec says of each of them."""

from struct import Struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qmq.errors import ProtocolError
from qmq.protocol.messages import Message, decode_raw, encode_raw, get_large_string, set_large_string
from spark_analytics.source import raw_messages
from spark_analytics.source.raw_messages import RawMessages, join_large

TEXT = st.text(st.characters(codec="utf-8"), max_size=12)
NAME = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12)
KEY = st.sampled_from(["", "a", "b", "data", "qmq_times"]) | TEXT
I64 = st.integers(-(2**63), 2**63 - 1)
MESSAGES = st.lists(
    st.builds(
        Message,
        NAME,
        NAME.filter(str.isprintable),
        st.dictionaries(KEY, TEXT, max_size=6),
        st.lists(NAME, max_size=4).map(tuple),
        st.integers(0, 3),
        I64,
        I64,
    ),
    max_size=8,
)
_U16 = Struct(">H")


def read(raws: list[bytes]) -> RawMessages:
    """The messages of a page; an empty one is withheld."""
    sizes = np.array([len(raw) for raw in raws], dtype=np.int64)
    return RawMessages(b"".join(raws), np.cumsum(sizes) - sizes, sizes)


def with_properties(*pairs: tuple[bytes, bytes]) -> bytes:
    """A message whose properties are as given, twice the same key and wrong bytes included."""
    body = b"".join(_U16.pack(len(text)) + text for pair in pairs for text in pair)
    plain = encode_raw(Message("orders", "m1"))
    return plain[:-4] + len(body).to_bytes(4, "big") + body


@settings(deadline=None)
@given(MESSAGES, st.lists(st.integers(0, 8), max_size=3))
def test_columns_are_what_the_codec_reads(messages: list[Message], withheld: list[int]) -> None:
    raws = [encode_raw(message) for message in messages]
    for place in withheld:
        raws.insert(min(place, len(raws)), b"")
    expected = [decode_raw(raw)[0] if raw else None for raw in raws]
    found = read(raws)
    assert found.properties.to_pylist() == [
        None if message is None else sorted(join_large(message.properties).items(), key=order_of(message))
        for message in expected
    ]
    assert found.subject.to_pylist() == [message and message.subject for message in expected]
    assert found.message_id.to_pylist() == [message and message.message_id for message in expected]
    assert found.tags.to_pylist() == [message and list(message.tags) for message in expected]
    assert found.created_at_ms.tolist() == [message.created_at_ms if message else 0 for message in expected]
    for key in ("a", "qmq_times", "nobody has it"):
        assert found.property_text(key).to_pylist() == [message and message.properties.get(key) for message in expected]
    assert not found.is_damaged.any()


def order_of(message: Message):  # type: ignore[no-untyped-def]
    """Properties stand as they stand in the message."""
    keys = list(join_large(message.properties))
    return lambda pair: keys.index(pair[0])


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from([b"a", b"b", b"c"]), st.binary(max_size=6)), max_size=6))
def test_of_two_with_one_key_the_last_counts_and_wrong_text_is_replaced(pairs: list[tuple[bytes, bytes]]) -> None:
    raws = [with_properties(*pairs), with_properties((b"a", b"whole"))]
    expected = [dict(decode_raw(raw)[0].properties) for raw in raws]
    assert [dict(one) for one in read(raws).properties.to_pylist()] == expected


@settings(deadline=None)
@given(
    st.lists(
        st.dictionaries(st.sampled_from(["big", "big#part0", "big#part1", "big#part2", "x#part1", "y"]), TEXT),
        max_size=5,
    )
)
def test_pieces_of_large_texts_are_joined_where_there_are_any(all_properties: list[dict[str, str]]) -> None:
    raws = [encode_raw(Message("s", "m", properties)) for properties in all_properties]
    for properties, found in zip(all_properties, read(raws).properties.to_pylist(), strict=True):
        joined = dict(found)
        assert joined.get("big") == get_large_string(properties, "big")
        assert joined.get("y") == properties.get("y")
        assert joined.get("x#part1") == properties.get("x#part1"), "pieces without a first one stay"
        assert len(joined) == len(found), "no key twice"
        if "big" not in properties:
            assert "big#part0" not in joined


def test_a_large_text_is_one_property() -> None:
    properties: dict[str, str] = {"n": "1"}
    set_large_string(properties, "data", "ä€😀" * 10_000)
    raws = [encode_raw(Message("s", "m0", {"n": "0"})), encode_raw(Message("s", "m1", properties))]
    found = [dict(one) for one in read(raws).properties.to_pylist()]
    assert found == [{"n": "0"}, {"n": "1", "data": "ä€😀" * 10_000}]


def test_messages_with_very_many_properties_are_walked_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(raw_messages, "LOCKSTEP_FIELDS_MAX", 2)
    sizes = [0, 1, 2, 3, 7, 4, 0]
    raws = [encode_raw(Message("s", "m", {f"k{n}": str(n) for n in range(size)})) for size in sizes]
    assert [dict(one) for one in read(raws).properties.to_pylist()] == [
        {f"k{n}": str(n) for n in range(size)} for size in sizes
    ]


@pytest.mark.parametrize("lockstep", [0, 1, 9])
@pytest.mark.parametrize("change", [-1, 1])
@pytest.mark.parametrize("field", ["key", "value"])
def test_a_length_that_is_one_too_much_or_too_little_is_seen(
    monkeypatch: pytest.MonkeyPatch, lockstep: int, change: int, field: str
) -> None:
    monkeypatch.setattr(raw_messages, "LOCKSTEP_FIELDS_MAX", lockstep)
    good = with_properties((b"first", b"1"), (b"last", b"one"))
    length_at = len(good) - {"key": 2 + 4 + 2 + 3, "value": 2 + 3}[field]
    bad = bytearray(good)
    bad[length_at + 1] += change
    found = read([good, bytes(bad), good])
    assert [one and len(one) for one in found.properties.to_pylist()] == [2, None, 2]
    assert found.is_damaged.tolist() == [False, True, False]


@pytest.mark.parametrize("walked", [False, True])
@settings(deadline=None)
@given(st.data())
def test_bytes_that_are_no_message_are_damage_and_leave_the_others_whole(walked: bool, data: st.DataObject) -> None:
    good = encode_raw(Message("orders", "m1", {"a": "1", "b": "22"}, ("t1", "t2")))
    bad = bytearray(good)
    for place in data.draw(st.lists(st.integers(0, len(good) - 1), min_size=1, max_size=3)):
        bad[place] = data.draw(st.integers(0, 255))
    cut = bytes(bad[: data.draw(st.integers(1, len(bad)))]) if data.draw(st.booleans()) else bytes(bad)
    with pytest.MonkeyPatch.context() as patch:
        if walked:
            patch.setattr(raw_messages, "LOCKSTEP_FIELDS_MAX", 1)
        found = read([good, cut, good])
        properties, tags = found.properties.to_pylist(), found.tags.to_pylist()
        try:
            message, end = decode_raw(cut)
        except ProtocolError:
            message, end = None, -1
        assert found.is_damaged.tolist() == [False, end != len(cut), False]
        for i in (0, 2):
            assert (dict(properties[i]), tags[i]) == ({"a": "1", "b": "22"}, ["t1", "t2"])
        if message is not None and end == len(cut):
            assert (dict(properties[1]), tags[1]) == (join_large(message.properties), list(message.tags))
