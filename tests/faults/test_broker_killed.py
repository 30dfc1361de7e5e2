"""Kills of the broker under load: nothing acknowledged is lost, nothing is torn, and without a kill nothing is doubled."""

import asyncio
import hashlib
import json
import os
import random
from pathlib import Path

import pytest

from qmq import Consumer, Producer, Timeouts
from qmq.errors import QmqError
from tests.faults.replication.scene import in_sync
from tests.support.promises import judging
from tests.support.servers.system import System
from tests.support.waiting import eventually_async

KILLS = 20 if os.environ.get("QMQ_FAULTS") == "full" else 5


def body_of(number: int) -> dict[str, str]:
    text = f"{number}:" + "x" * (number % 700)
    return {"number": str(number), "data": text, "digest": hashlib.sha256(text.encode()).hexdigest()}


@pytest.mark.slow
@pytest.mark.parametrize("copies", [1, 2])
async def test_kills_lose_nothing_that_was_acknowledged(tmp_path: Path, copies: int) -> None:
    # The same pauses in each run; what the broker is doing when they end depends on the machine.
    rng = random.Random(KILLS)
    flags = ("--retry-delay-seconds", "0.2", "--checkpoint-seconds", "1")
    system = System(tmp_path, groups=1, copies=copies, broker_flags=flags)
    members = list(system.members("g1").values())
    acknowledged: set[int] = set()
    received: dict[int, int] = {}
    stop = asyncio.Event()
    timeouts = Timeouts(connect=1.0, send=2.0, ack=2.0, delivery=60.0)

    async def produce() -> None:
        number = 0
        async with Producer(system.meta_url, app="kill", timeouts=timeouts) as producer:
            while not stop.is_set():
                numbers = list(range(number, number + 50))
                number += 50
                results = await asyncio.gather(
                    *(producer.send("kills", body_of(n)) for n in numbers), return_exceptions=True
                )
                for n, result in zip(numbers, results, strict=True):
                    if isinstance(result, BaseException):
                        assert isinstance(result, QmqError), result
                    else:
                        acknowledged.add(n)

    async def consume(name: str, until: asyncio.Event) -> None:
        consumer = Consumer(system.meta_url, "kills", "group", consumer_id=name, start="earliest", timeouts=timeouts)
        async with consumer:
            while not until.is_set():
                for delivery in await consumer.pull(100, timeout=0.2):
                    found = delivery.properties
                    number = int(found["number"])
                    with judging():
                        assert body_of(number) == found, "a torn message"
                    received[number] = received.get(number, 0) + 1
                    await delivery.ack()

    try:
        system.start()
        done = asyncio.Event()
        producing = asyncio.create_task(produce())
        consuming = [asyncio.create_task(consume(f"c{i}", done)) for i in range(2)]
        for _ in range(KILLS):
            await asyncio.sleep(rng.uniform(0.02, 0.5))
            broker = rng.choice(members)
            broker.kill()
            broker.start(wait=False)
            await asyncio.to_thread(broker.wait_ready)
        # On a busy machine little gets through between kills.
        await eventually_async(lambda: len(acknowledged) > 1000, what="enough was sent to mean something")
        stop.set()
        await producing
        # A message comes again only when its ack, or the answer to its send, was lost with a kill: these come once.
        if copies > 1:
            await in_sync(system, "g1")
        undisturbed = range(1_000_000, 1_000_200)
        async with Producer(system.meta_url, app="kill", timeouts=timeouts) as producer:
            await asyncio.gather(*(producer.send("kills", body_of(number)) for number in undisturbed))
        acknowledged.update(undisturbed)
        deadline = asyncio.get_running_loop().time() + 60
        while not acknowledged <= set(received) and asyncio.get_running_loop().time() < deadline:
            assert not any(task.done() for task in consuming)
            await asyncio.sleep(0.05)
        done.set()
        await asyncio.gather(*consuming)
        lag = json.loads((await asyncio.to_thread(system.qmq, "lag", "kills", "--json")).stdout)
        repeated = sum(count - 1 for count in received.values())
        print(
            f"figure: {KILLS} kills, {copies} members, {len(acknowledged)} messages acknowledged, {repeated} delivered again"
        )
        with judging():
            missing = acknowledged - set(received)
            assert not missing, f"{len(missing)} of {len(acknowledged)} acknowledged messages were lost"
            doubled = [number for number in undisturbed if received[number] > 1]
            assert not doubled, f"delivered twice without a kill: {doubled[:5]}"
            assert [group["lag"] for group in lag["groups"]] == [0], "acked, and to be delivered again"
    finally:
        stop.set()
        system.stop()
