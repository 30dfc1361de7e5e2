"""kill -9 of a real delay node while messages fall due; the brokers run in this process, so that what they hold is known."""

import asyncio
import os
import random
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from qmq.errors import QmqError
from qmq.net.caller import Caller
from qmq.protocol.delayed import DelayedTarget, Operation, Outcome
from tests.support.drivers.in_process import Client, SmallSystem, delayed, now_ms, small_system
from tests.support.promises import judging
from tests.support.servers.ports import free_port
from tests.support.servers.processes import Process
from tests.support.waiting import eventually_async

KILLS = 20 if os.environ.get("QMQ_FAULTS") == "full" else 5


def delay_process(system: SmallSystem, *flags: str) -> tuple[Process, int]:
    """A delay node of the system as a process of its own, and its port."""
    port, admin = free_port(), free_port()
    command = [
        sys.executable, "-m", "delay_node", "--data-dir", str(system.folder / "d1"), "--port", str(port),
        "--admin-port", str(admin), "--meta", system.meta_url, "--checkpoint-seconds", "1", *flags,
    ]  # fmt: skip
    return Process("d1", command, system.folder, f"http://127.0.0.1:{admin}/readyz"), port


async def start(process: Process) -> None:
    """Start it while this loop goes on: the metaserver it registers with is here."""
    process.start(wait=False)
    await asyncio.to_thread(process.wait_ready)


@asynccontextmanager
async def client_of(port: int) -> AsyncIterator[Client]:
    caller = Caller("127.0.0.1", port)
    await caller.connect()
    try:
        yield Client(caller)
    finally:
        await caller.close()


@pytest.mark.slow
@pytest.mark.timeout(900)
async def test_kills_lose_nothing_deliver_nothing_early_and_nothing_cancelled(tmp_path: Path) -> None:
    # The same pauses in each run; what the delay node is doing when they end depends on the machine.
    rng = random.Random(KILLS)
    dues: dict[str, int] = {}
    acknowledged: set[str] = set()
    cancelled: dict[str, Outcome] = {}
    asked: set[str] = set()
    """To be cancelled; what a kill left unanswered may be, or not."""
    recorded: dict[str, int] = {}
    """Message id -> how often the brokers held it when the delay node said, durably, that it was delivered."""
    early: list[str] = []
    stop = asyncio.Event()

    async with small_system(tmp_path, groups=2, with_delay=False) as system:
        process, port = delay_process(system)
        await start(process)

        def gone() -> set[str]:
            """They were said never to come."""
            return {m for m, outcome in cancelled.items() if outcome in (Outcome.DONE, Outcome.UNCHANGED)}

        async def produce() -> None:
            number = 0
            while not stop.is_set():
                try:
                    async with client_of(port) as client:
                        while not stop.is_set():
                            now = now_ms()
                            # Every fourth is due late enough to be cancelled where a commit takes a second.
                            dues_in = [rng.randrange(1_500 if i % 4 else 6_000) for i in range(40)]
                            batch = [delayed(number + i, now + due_in) for i, due_in in enumerate(dues_in)]
                            number += 40
                            dues.update((item.message_id, item.time_ms) for item in batch)
                            assert await client.send(*batch) == {}
                            acknowledged.update(item.message_id for item in batch)
                            await asyncio.sleep(0.01)
                except (QmqError, OSError):
                    await asyncio.sleep(0.05)

        async def cancel_and_look() -> None:
            while not stop.is_set():
                try:
                    async with client_of(port) as client:
                        while not stop.is_set():
                            known = list(acknowledged - asked)
                            # Those due last, most of them still to come, and any.
                            last = sorted(known, key=dues.__getitem__)[-20:]
                            chosen = list(
                                {*rng.sample(last, min(3, len(last))), *rng.sample(known, min(2, len(known)))}
                            )
                            asked.update(chosen)
                            targets = [DelayedTarget(m, "orders", dues[m]) for m in chosen]
                            for change in await client.change(Operation.CANCEL, *targets):
                                cancelled[change.message_id] = change.outcome
                            await look(client, rng.sample(known, min(3, len(known))))
                            await asyncio.sleep(0.02)
                except (QmqError, OSError):
                    await asyncio.sleep(0.05)

        async def look(client: Client, chosen: list[str]) -> None:
            """Which of these are recorded as delivered for good."""
            done = [m for m in chosen if "delivered" in [i.state for i in (await client.find(m, due_ms=dues[m])).items]]
            # A change is answered when everything decided before it is on disk, the deliveries just seen as well.
            await client.change(Operation.CANCEL, DelayedTarget("nobody", due_ms=now_ms()))
            counts = system.counts("orders")
            for message_id in done:
                recorded.setdefault(message_id, counts[message_id])

        async def watch() -> None:
            seen: set[str] = set()
            while not stop.is_set():
                now = now_ms()
                for item in system.stored("orders"):
                    if item.message_id not in seen:
                        seen.add(item.message_id)
                        if item.time_ms > now:
                            early.append(item.message_id)
                await asyncio.sleep(0.05)

        tasks = [asyncio.create_task(work()) for work in (produce, cancel_and_look, watch)]
        try:
            for _ in range(KILLS):
                await asyncio.sleep(rng.uniform(0.05, 0.6))
                process.kill()
                await start(process)
            await eventually_async(lambda: len(acknowledged) > 1_000, what="enough acknowledged to mean something")
            await eventually_async(lambda: len(gone()) > 50, what="enough cancelled to mean something")
            await eventually_async(lambda: len(recorded) > 20, what="enough recorded as delivered to mean something")
            stop.set()
            await asyncio.gather(*tasks)
            expected = acknowledged - gone() - (asked - cancelled.keys())
            with judging():
                await eventually_async(
                    lambda: expected <= set(system.counts("orders")), what="everything acknowledged came"
                )
            async with client_of(port) as client:
                left = [m for m in expected if "pending" in [i.state for i in (await client.find(m)).items]][:5]
            assert not left
        finally:
            stop.set()
            process.stop()
        counts = system.counts("orders")
        with judging():
            assert not early, f"{len(early)} messages came early"
            wrong = sorted(m for m in gone() if counts[m])
            assert not wrong, f"cancelled and delivered: {wrong[:5]}"
            again = {m: (n, counts[m]) for m, n in recorded.items() if counts[m] != n}
            assert not again, f"recorded as delivered, and sent again: {list(again.items())[:5]}"
        doubled = sum(count > 1 for count in counts.values())
        print(f"{len(acknowledged)} acknowledged, {len(gone())} cancelled, {doubled} delivered more than once")
