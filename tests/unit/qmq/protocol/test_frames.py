"""Frames: cut from a stream however it arrives, refused by their header."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qmq.errors import ProtocolError
from qmq.protocol.frames import (
    BUFFER_BYTES,
    BUFFER_BYTES_FIRST,
    HEADER_BYTES,
    Frame,
    FrameReader,
    encode_request,
    request_header,
)
from tests.support.drivers.feeding import feed
from tests.support.drivers.wire import encode_response
from tests.unit.qmq.protocol.examples import FRAMES

STRANGER = encode_request(77, 99, b"behind")


def encoded(frame: Frame) -> bytes:
    code, size = frame.request_code, len(frame.body)
    head = request_header(frame.code, frame.opaque, size, version=frame.version, flag=frame.flag, request_code=code)
    return head + frame.body


@pytest.mark.parametrize("name", FRAMES)
def test_every_reference_frame_is_read_whole_byte_by_byte_and_with_bytes_behind_it(name: str) -> None:
    data = FRAMES[name]
    (whole,) = feed(FrameReader(), data)
    assert encoded(whole) == data
    reader = FrameReader()
    in_pieces = [frame for byte in data for frame in feed(reader, bytes([byte]))]
    assert [encoded(frame) for frame in in_pieces] == [data]
    assert [encoded(frame) for frame in feed(FrameReader(), data + STRANGER)] == [data, STRANGER]


@given(st.lists(st.binary(max_size=3000), max_size=20), st.data())
def test_frames_come_out_as_they_went_in_however_the_stream_is_cut(bodies: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(encode_request(10, i, body) for i, body in enumerate(bodies))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=10)))
    reader = FrameReader()
    frames: list[Frame] = []
    for begin, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        frames += feed(reader, stream[begin:end])
    assert [(frame.opaque, bytes(frame.body)) for frame in frames] == list(enumerate(bodies))
    assert reader.pending_bytes == 0


def test_bodies_stay_as_they_were_while_later_frames_arrive() -> None:
    reader = FrameReader()
    held = [feed(reader, encode_request(10, i, bytes([i]) * 50_000))[0] for i in range(20)]
    assert all(bytes(frame.body) == bytes([i]) * 50_000 for i, frame in enumerate(held))


@pytest.mark.parametrize(
    ("place", "value", "code"),
    [
        (6, 0x00000000, "protocol.wrong_magic"),
        (4, 0x0013DEC1, "protocol.wrong_header_size"),
        (0, 19, "protocol.frame_too_short"),
        (0, 0x7FFFFFFF, "protocol.frame_too_large"),
        (0, 0xFFFFFFFF, "protocol.frame_too_short"),
    ],
)
def test_a_bad_header_is_refused_at_once_and_good_frames_before_it_are_kept(place: int, value: int, code: str) -> None:
    bad = bytearray(encode_request(10, 1, b"body"))
    bad[place : place + 4] = value.to_bytes(4, "big")
    with pytest.raises(ProtocolError) as caught:
        feed(FrameReader(), bytes(bad[:HEADER_BYTES]))
    assert caught.value.code == code
    reader = FrameReader()
    (good,) = feed(reader, STRANGER + bad)
    assert bytes(good.body) == b"behind"
    assert reader.error is not None
    with pytest.raises(ProtocolError):
        reader.buffer_updated(0)


def test_a_header_that_lies_about_its_length_costs_no_memory() -> None:
    reader = FrameReader()
    lying = bytearray(encode_request(10, 1, b""))
    lying[0:4] = (15 << 20).to_bytes(4, "big")
    feed(reader, bytes(lying))
    assert len(reader.get_buffer()) <= BUFFER_BYTES_FIRST
    feed(reader, bytes(100_000))
    assert len(reader.get_buffer()) < 1 << 20


def test_a_large_frame_grows_its_buffer_to_its_size() -> None:
    body = bytes(5 << 20)
    (frame,) = feed(FrameReader(), encode_request(10, 1, body))
    assert len(frame.body) == len(body)


def test_a_frame_is_shown_without_its_buffer() -> None:
    (frame,) = feed(FrameReader(), encode_request(10, 1, bytes(1 << 20)))
    assert len(repr(frame)) < 200


def test_an_answer_echoes_version_opaque_and_code() -> None:
    (request,) = feed(FrameReader(), request_header(11, 5, 0, version=8))
    (answer,) = feed(FrameReader(), encode_response(request, 4, b"x"))
    assert (answer.code, answer.version, answer.opaque, answer.request_code) == (4, 8, 5, 11)
    assert answer.is_response


def test_the_last_bytes_of_a_large_frame_are_not_paid_for_with_copies_of_it() -> None:
    data = encode_request(10, 1, bytes(3 << 20))
    reader = FrameReader()
    feed(reader, data[:-5000])
    buffers: list[bytearray] = []
    for at in range(len(data) - 5000, len(data) - 1):
        assert not feed(reader, data[at : at + 1])
        if not buffers or buffers[-1] is not reader._buffer:
            buffers.append(reader._buffer)
    assert len(buffers) <= 2
    assert len(feed(reader, data[-1:])) == 1


@pytest.mark.parametrize("size", [BUFFER_BYTES_FIRST, BUFFER_BYTES, BUFFER_BYTES + 1, 2 * BUFFER_BYTES])
@pytest.mark.parametrize("less", range(-25, 26, 5))
def test_frames_about_as_large_as_a_buffer_come_through(size: int, less: int) -> None:
    body = random.Random(size + less).randbytes(size - HEADER_BYTES - less)
    stream = encode_request(10, 1, body) * 3
    reader = FrameReader()
    frames = [frame for at in range(0, len(stream), 4093) for frame in feed(reader, stream[at : at + 4093])]
    assert [bytes(frame.body) == body for frame in frames] == [True] * 3


def test_a_quiet_connection_keeps_to_small_buffers_and_a_busy_one_gets_large_ones() -> None:
    small = encode_request(11, 1, bytes(76))
    quiet, busy = FrameReader(), FrameReader()
    for _ in range(3 * BUFFER_BYTES_FIRST // len(small)):
        feed(quiet, small)
    assert len(quiet._buffer) == BUFFER_BYTES_FIRST
    for _ in range(3):
        feed(busy, small * 600)
    assert len(busy._buffer) == BUFFER_BYTES


def test_good_frames_before_a_bad_one_are_kept_wherever_the_buffer_ends() -> None:
    good = encode_request(10, 1, bytes(BUFFER_BYTES_FIRST - HEADER_BYTES))
    reader = FrameReader()
    assert len(feed(reader, good + bytes(HEADER_BYTES))) == 1
    assert reader.error is not None
    with pytest.raises(ProtocolError):
        feed(reader, b"")
