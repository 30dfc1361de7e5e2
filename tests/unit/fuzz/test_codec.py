"""Invariant: no bytes make the codec raise anything but ProtocolError, hang, or allocate more than a small multiple of them."""

import os
import random
import tracemalloc
from collections.abc import Callable
from typing import Any

from qmq.errors import ProtocolError
from qmq.protocol import commands
from qmq.protocol.frames import FrameReader
from qmq.protocol.messages import decode_raws
from qmq.protocol.scan import BatchScanner, walk_raws
from tests.support.drivers.feeding import feed
from tests.support.drivers.wire import decode_entries
from tests.support.generated.command_table import COMMANDS
from tests.unit.fuzz.mutations import mutated
from tests.unit.qmq.protocol.examples import FRAMES
from tests.unit.qmq.protocol.replication_examples import BODIES, VALUES

CASES = int(os.environ.get("FUZZ_CASES", "20000"))
ALLOCATED_BYTES_MAX = 512 * 1024
"""For inputs of at most 2 KB: a first receive buffer, and the rest of what decoding makes."""

DECODERS: list[Callable[[bytes], Any]] = [
    lambda data: feed(FrameReader(), data),
    lambda data: BatchScanner().scan(memoryview(data)),
    lambda data: walk_raws(memoryview(data)),
    decode_entries,
    decode_raws,
    commands.decode_send_response,
]
for info in COMMANDS.values():
    for kind in (info.request, info.response):
        if kind is not None:
            DECODERS += [lambda data, d=kind.decode, v=version: d(data, v) for version in (3, 7, 8, 9)]


def test_no_bytes_make_the_codec_misbehave() -> None:
    seed = int(os.environ.get("FUZZ_SEED", "20261121"))
    rng = random.Random(seed)
    seeds = [*FRAMES.values(), *(frame[24:] for frame in FRAMES.values()), *BODIES.values()]
    accepted = refused = 0
    tracemalloc.start()
    try:
        for case in range(CASES):
            data = mutated(rng, rng.choice(seeds)) if rng.random() < 0.9 else rng.randbytes(rng.randrange(200))
            decoder = rng.choice(DECODERS)
            if case % 16 == 0:
                tracemalloc.reset_peak()
                before = tracemalloc.get_traced_memory()[0]
            try:
                decoder(data)
                accepted += 1
            except ProtocolError:
                refused += 1
            if case % 16 == 0:
                peak = tracemalloc.get_traced_memory()[1] - before
                assert peak < ALLOCATED_BYTES_MAX, f"seed {seed} case {case}: {peak} bytes for {data.hex()}"
    finally:
        tracemalloc.stop()
    assert accepted > CASES // 100
    assert refused > CASES // 10


def test_no_bytes_make_a_body_of_replication_misbehave() -> None:
    """As above, with mutations of bodies that are decoded as what they were: these get past the first fields."""
    seed = int(os.environ.get("FUZZ_SEED", "20261126"))
    rng = random.Random(seed)
    accepted = refused = 0
    tracemalloc.start()
    try:
        for case in range(CASES // 2):
            name = rng.choice(list(VALUES))
            data = mutated(rng, BODIES[name])
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            try:
                value = type(VALUES[name]).decode(data)
                body = value.encode()
                assert type(value).decode(body).encode() == body, f"seed {seed} case {case}: {data.hex()}"
                accepted += 1
            except ProtocolError:
                refused += 1
            peak = tracemalloc.get_traced_memory()[1] - before
            assert peak < ALLOCATED_BYTES_MAX, f"seed {seed} case {case}: {peak} bytes for {data.hex()}"
    finally:
        tracemalloc.stop()
    assert accepted > CASES // 50
    assert refused > CASES // 10
