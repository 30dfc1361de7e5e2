"""Receive buffers that are used again."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from qmq.protocol.frames import BUFFER_BYTES, Frame, FrameReader, encode_request
from qmq.protocol.receive_buffers import ReceiveBuffers
from tests.support.drivers.feeding import feed

MIB = 1 << 20


def test_a_buffer_is_taken_again_when_no_view_of_it_is_left() -> None:
    buffers = ReceiveBuffers(4 * MIB, MIB)
    first = bytearray(b"x" * MIB)
    view = memoryview(first)[:100]
    buffers.keep(first)
    assert buffers.take(1000) is not first
    del view
    assert buffers.take(MIB + 1) is not first
    assert buffers.take(MIB) is first
    assert len(first) == MIB
    assert buffers.kept_bytes == 0
    assert buffers.take(1000) == bytes(1000)


def test_the_newest_of_the_free_buffers_is_taken() -> None:
    buffers = ReceiveBuffers(4 * MIB, MIB)
    made = [bytearray(MIB) for _ in range(3)]
    for buffer in made:
        buffers.keep(buffer)
    view = memoryview(made[2])
    assert buffers.take(1) is made[1]
    assert buffers.take(1) is made[0]
    view.release()
    assert buffers.take(1) is made[2]


def test_the_oldest_buffers_are_not_kept_above_the_limit() -> None:
    buffers = ReceiveBuffers(3 * MIB, MIB)
    made = [bytearray(MIB) for _ in range(4)]
    for buffer in made:
        buffers.keep(buffer)
    assert buffers.kept_bytes == 3 * MIB
    assert [buffers.take(MIB) for _ in range(3)] == made[:0:-1]
    assert not any(buffers.take(MIB) is one for one in made)
    buffers.keep(bytearray(3 * MIB + 1))
    assert buffers.kept_bytes == 0


@settings(max_examples=20)
@given(st.integers(0, 1 << 32))
def test_frames_in_use_stay_as_they_were_while_buffers_are_used_again(seed: int) -> None:
    rng = random.Random(seed)
    reader = FrameReader(_buffers=ReceiveBuffers(32 * BUFFER_BYTES, 4 * BUFFER_BYTES))
    held: list[tuple[Frame, bytes]] = []
    used: dict[int, bytearray] = {}
    for opaque in range(100):
        body = rng.randbytes(rng.choice((100, 30_000, BUFFER_BYTES, 2 * BUFFER_BYTES)))
        stream = encode_request(10, opaque, body)
        frames: list[Frame] = []
        at = 0
        while at < len(stream):
            size = rng.choice((20, 50_000, BUFFER_BYTES))
            frames += feed(reader, stream[at : at + size])
            at += size
            used[id(reader._buffer)] = reader._buffer
        held.append((*frames, body))
        rng.shuffle(held)
        del held[3:], frames
        assert all(frame.body == body for frame, body in held)
    assert len(used) < 15


def test_a_large_frame_moves_to_another_buffer_before_most_of_it_has_come() -> None:
    reader = FrameReader(_buffers=ReceiveBuffers(4 * MIB, MIB))
    for size in (600_000, 300_000):
        feed(reader, encode_request(10, 1, bytes(size)))
    before = reader._buffer
    assert len(before) - reader._end > 700_000
    frame = encode_request(10, 2, bytes(900_000))
    feed(reader, frame[:24])
    assert reader._buffer is not before
    moved = reader._buffer
    feed(reader, frame[24:-1])
    assert reader._buffer is moved
    assert len(feed(reader, frame[-1:])) == 1
