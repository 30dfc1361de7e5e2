"""Bodies: the reference's bytes both ways, and whatever we write we read."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qmq.errors import LocalProtocolError, ProtocolError
from qmq.protocol import commands as c
from qmq.protocol import extensions as e
from qmq.protocol.messages import (
    KEY_RETRY_CAUSE,
    RESERVED_KEYS,
    Message,
    decode_raws,
    encode_entry,
    encode_raw,
    get_large_string,
    set_large_string,
)
from qmq.protocol.primitives import encode_strmap
from tests.support.drivers.wire import decode_entries
from tests.unit.qmq.protocol.examples import FRAMES

CREATED = {"qmq_createTime": "1600000000000"}
ROUTE = c.BrokerGroupRoute("g1", "10.0.0.1:20881", 1600000000000, 1)

EXAMPLES: list[tuple[str, Any, int]] = [
    ("P1", c.PullRequest("t", "g", "c1", 50, -1, -1, 2500, False, (c.NO_TAG_FILTER,)), 9),
    ("P1v8", c.PullRequest("t", "g", "c1", 50, -1, -1, 1000, False, (c.NO_TAG_FILTER,)), 8),
    (
        "P2",
        c.PullRequest(
            "t", "g", "c1", 50, 0, 0, 2500, False, (c.TagFilter(1, ("x", "yz")), c.SubEnvFilter("beta", "s1"))
        ),
        9,
    ),
    ("A1", c.AckRequest("t", "g", "c1", 0, 0, False), 9),
    ("A0", c.AckRequest("t", "g", "c1", -1, -1, False), 9),
    ("M1", c.ClientRegisterRequest("t", 2, "app", "c1", "g", 1), 9),
    ("M1r", c.ClientRegisterResponse(1600000000000, "t", "g", True, 2, (ROUTE,)), 9),
    ("B1", c.BrokerAcquireMetaRequest("host1", 20881), 8),
    ("B1r", c.BrokerAcquireMetaResponse("g1", "", 0), 8),
    ("B2", c.BrokerRegisterRequest(0, "g1", "10.0.0.1:20881", 0, 1), 8),
]


@pytest.mark.parametrize(("name", "value", "version"), EXAMPLES, ids=[name for name, _, _ in EXAMPLES])
def test_reference_bodies_are_read_and_written_byte_for_byte(name: str, value: Any, version: int) -> None:
    body = FRAMES[name][24:]
    assert type(value).decode(body, version) == value
    assert value.encode(version) == body or name == "M1"  # the map's order is free


@pytest.mark.parametrize(("name", "value", "version"), EXAMPLES, ids=[name for name, _, _ in EXAMPLES])
def test_a_body_that_is_cut_anywhere_is_refused(name: str, value: Any, version: int) -> None:
    body = FRAMES[name][24:]
    for end in range(len(body)):
        with pytest.raises(ProtocolError):
            type(value).decode(body[:end], version)


def test_reference_messages_are_read_and_written_byte_for_byte() -> None:
    tiny = Message("t", "m1", {**CREATED, "k": "v"}, (), 0, 1600000000000, 1600000000001)
    assert decode_entries(FRAMES["S1"][24:]) == [tiny]
    assert encode_entry(tiny) == FRAMES["S1"][24:]
    (delayed,) = decode_entries(FRAMES["S2"][24:])
    assert delayed.tags == ("a", "bc")
    assert delayed.time_ms == 4102444800000
    assert encode_entry(delayed) == FRAMES["S2"][24:]
    answer = c.PullResponse.decode(FRAMES["P1r"][24:])
    assert answer.pull_begin == 0
    assert decode_raws(answer.raws) == [tiny]
    assert not c.PullResponse.decode(b"").raws


def test_a_sends_answer_lists_failures_only() -> None:
    body = FRAMES["S1f"][24:]
    failure = c.SendFailure("m1", 4, "BROKER READ ONLY")
    assert c.decode_send_response(body) == {"m1": failure}
    assert c.encode_send_response([failure]) == body
    assert c.decode_send_response(b"") == {}
    assert c.decode_send_response(c.encode_send_response([c.SendFailure("m", 0, "")])) == {}


def test_old_versions_leave_out_what_came_later() -> None:
    pull = c.PullRequest("t", "g", "c", 1, -1, -1, 0, False, (c.TagFilter(1, ("x",)),))
    assert c.PullRequest.decode(pull.encode(7), 7).filters == ()
    assert c.PullRequest.decode(pull.encode(8), 8).filters == pull.filters
    ack = c.AckRequest("t", "g", "c", 0, 1, True)
    assert not c.AckRequest.decode(ack.encode(7), 7).broadcast
    assert c.AckRequest.decode(ack.encode(8), 8).broadcast


def test_counts_that_lie_are_refused_before_anything_is_made_for_them() -> None:
    pull = bytearray(c.PullRequest("t", "g", "c", 1, -1, -1, 0, False).encode())
    pull[-4:] = (0x7FFFFFFF).to_bytes(4, "big")
    with pytest.raises(ProtocolError, match="filters"):
        c.PullRequest.decode(bytes(pull))
    with pytest.raises(ProtocolError, match="map entries"):
        c.ClientRegisterRequest.decode(b"\x7f\xff")


@pytest.mark.parametrize(
    ("text", "expected"),
    [("4", 4), ("9", 9), ("-128", -128), ("128", 3), ("many", 3), ("", 3), ("9" * 5_000, 3)],
)
def test_a_client_type_that_can_not_be_echoed_counts_as_other(text: str, expected: int) -> None:
    body = encode_strmap({"clientTypeCode": text, "requestType": "many"})
    request = c.ClientRegisterRequest.decode(body)
    assert (request.client_type, request.request_type) == (expected, 1)


names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)
i64 = st.integers(-(2**63), 2**63 - 1)
i32 = st.integers(-(2**31), 2**31 - 1)


@given(names, names, names, i32, i64, i64, i64, st.booleans(), st.lists(st.lists(names, max_size=10), max_size=3))
def test_pulls_round_trip(
    subject: str, group: str, consumer: str, limit: int, a: int, b: int, t: int, flag: bool, tags: list[list[str]]
) -> None:
    filters = tuple(c.TagFilter(1, tuple(item)) for item in tags)
    pull = c.PullRequest(subject, group, consumer, limit, a, b, t, flag, filters)
    assert c.PullRequest.decode(pull.encode()) == pull
    ack = c.AckRequest(subject, group, consumer, a, b, flag)
    assert c.AckRequest.decode(ack.encode()) == ack


@given(
    names,
    names.filter(str.isprintable),
    st.dictionaries(names, names, max_size=8),
    st.lists(names, max_size=10, unique=True),
    i64,
    i64,
    st.sampled_from([0, 1, 2, 3]),
)
def test_messages_round_trip(
    subject: str, message_id: str, properties: dict[str, str], tags: list[str], created: int, time: int, flag: int
) -> None:
    message = Message(subject, message_id, properties, tuple(tags), flag | (4 if tags else 0), created, time)
    assert decode_entries(encode_entry(message) * 2) == [message, message]
    assert decode_raws(encode_raw(message)) == [message]


def test_a_policy_may_be_larger_than_a_string() -> None:
    policy = e.NodePolicyResponse("v1", b"x" * 33_000)
    assert e.NodePolicyResponse.decode(policy.encode()) == policy


def test_texts_too_long_for_every_reader_are_refused_when_written() -> None:
    with pytest.raises(LocalProtocolError, match="32767"):
        encode_raw(Message("t", "m", {"k": "x" * 32768}))
    with pytest.raises(LocalProtocolError, match="characters"):
        encode_raw(Message("t", "m" * 101))
    with pytest.raises(LocalProtocolError, match="tags"):
        encode_raw(Message("t", "m", tags=("",)))


@given(st.text(max_size=50), st.integers(0, 3))
def test_large_strings_come_back_whole(piece: str, times: int) -> None:
    text = (piece or "x") * (times * 500)
    properties: dict[str, str] = {}
    set_large_string(properties, "big", text)
    assert get_large_string(properties, "big") == text
    assert all(len(value.encode("utf-16-be")) // 2 <= 8192 for value in properties.values())
    assert get_large_string(properties, "other") is None


def test_our_own_property_is_reserved_and_in_no_frame_of_the_official_client() -> None:
    assert KEY_RETRY_CAUSE in RESERVED_KEYS
    assert [name for name, frame in FRAMES.items() if b"qmq_createTime" in frame], "frames show their properties"
    assert not [name for name, frame in FRAMES.items() if KEY_RETRY_CAUSE.encode() in frame]
