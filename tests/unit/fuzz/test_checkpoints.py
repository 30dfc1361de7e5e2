"""Checkpoints whose CRC is right and whose state is not: a start makes all again, or ends with a clear error."""

import contextlib
import json
import random
from collections.abc import Iterator
from typing import Any

from broker_node.recovery.checkpoint import CHECKPOINT_NAME as BROKER_NAME
from broker_node.recovery.checkpoint import encode_state
from delay_node.checkpoint import CHECKPOINT_NAME as DELAY_NAME
from delay_node.checkpoint import StateEncoder
from qmq.errors import LogError
from qmq.protocol.commands import PullRequest
from qmq_node.log.checkpoint import Checkpoint, CheckpointStore
from qmq_node.slices import run_to_end
from tests.support.disks.memory_disk import MemoryDisk
from tests.support.drivers import delay_driver, store_driver
from tests.support.drivers.delay_driver import DelayDriver
from tests.support.drivers.store_driver import StoreDriver

VALUES: list[Any] = [None, -1, 1 << 70, 1.5, True, "x", "\ud800", [], {}, [[]], [1], [1, 2], {"a": 1}, [["a", 2, 3]]]


def mutated(value: Any, rng: random.Random) -> Any:
    """The value with one node of it replaced, removed or doubled."""
    if isinstance(value, list) and value and rng.random() < 0.85:
        at, copy = rng.randrange(len(value)), list(value)
        choice = rng.random()
        if choice < 0.15:
            del copy[at]
        elif choice < 0.25:
            copy.insert(at, copy[at])
        else:
            copy[at] = mutated(copy[at], rng)
        return copy
    if isinstance(value, dict) and value and rng.random() < 0.95:
        key, changed = rng.choice(list(value)), dict(value)
        if rng.random() < 0.15:
            del changed[key]
        else:
            changed[key] = mutated(changed[key], rng)
        return changed
    return rng.choice(VALUES)


def states(state: bytes, count: int, json_lines: int) -> Iterator[bytes]:
    """States of the right CRC that no version wrote."""
    rng = random.Random(4)
    for number in range(count):
        kind = number % 4
        data = bytearray(state)
        if kind == 0 and data:
            # What stands behind the lines of JSON has no check but the checkpoint's own.
            size = len(b"\n".join(state.split(b"\n", json_lines)[:json_lines]))
            for _ in range(rng.randint(1, 4)):
                data[rng.randrange(size)] = rng.randrange(256)
        elif kind == 1:
            data = (
                bytearray(rng.randbytes(rng.randint(0, 200)))
                if rng.random() < 0.3
                else data[: rng.randrange(len(data))]
            )
        else:
            lines = bytes(data).split(b"\n", json_lines)
            at = rng.randrange(min(len(lines), json_lines))
            lines[at] = json.dumps(mutated(json.loads(lines[at]), rng)).encode()
            data = bytearray(b"\n".join(lines))
        yield bytes(data)
    yield b"[" * 100_000
    yield b""


def with_state(disk: MemoryDisk, folder: str, name: str, checkpoint: Checkpoint, state: bytes) -> MemoryDisk:
    again = disk.after_kill()
    for path in [path for path in again.names if f"{folder}/{name}" in path]:
        del again.names[path]
    CheckpointStore(again, folder, name).save([state], checkpoint.log_position, checkpoint.synced_to)
    return again


def test_a_broker_starts_from_any_checkpoint_state_or_says_clearly_why_not() -> None:
    driver = StoreDriver(MemoryDisk(), 3)
    driver.run(150)
    driver.commit()
    driver.checkpoint()
    driver.send("orders", 3)
    driver.commit()
    folder = f"{store_driver.ROOT}/checkpoint"
    checkpoint = CheckpointStore(driver.disk, folder, BROKER_NAME).load()
    assert checkpoint is not None
    rebuilt = 0
    for state in states(checkpoint.state, 600, 1 + len(driver.store.subjects)):
        store, delivery, _ = driver._open(with_state(driver.disk, folder, BROKER_NAME, checkpoint, state))
        rebuilt += driver.recovery.rebuilt
        run_to_end(encode_state(store, store.tails.draft()))
        for name in list(store.subjects):
            with contextlib.suppress(LogError):
                delivery.pull(PullRequest(name, "fresh", "c", 10, -1, -1, 0, False))
    assert rebuilt > 300


def test_a_delay_node_starts_from_any_checkpoint_state_or_says_clearly_why_not() -> None:
    driver = DelayDriver(MemoryDisk(), 3)
    driver.run(150)
    driver.commit()
    driver.checkpoint()
    folder = f"{delay_driver.ROOT}/checkpoint"
    checkpoint = CheckpointStore(driver.disk, folder, DELAY_NAME).load()
    assert checkpoint is not None
    refused = 0
    for state in states(checkpoint.state, 400, 1):
        try:
            store = driver._open(with_state(driver.disk, folder, DELAY_NAME, checkpoint, state))
        except LogError:
            refused += 1
            continue
        StateEncoder(store).encode()
    assert refused > 150
