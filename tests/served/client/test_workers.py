"""Several processes of one script share a group's messages."""

import asyncio
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

from qmq import Producer
from tests.support.servers.processes import PROJECT
from tests.support.servers.system import System
from tests.support.waiting import eventually_async

PROCESSES = 3
BATCH = 100
BATCHES = 5
"""After the worker was killed."""
BATCHES_MAX = 1_000
"""Sent until a worker has its share: the others may take all of any number."""

WORKER = """
import asyncio, os, sys
from qmq import Consumer

async def main():
    out = os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    async with Consumer(sys.argv[1], "orders", "billing", start="earliest") as consumer:
        os.write(out, f"id {consumer.consumer_id}\\n".encode())
        async for delivery in consumer:
            while os.path.exists(sys.argv[2] + ".hold"):
                await asyncio.sleep(0.01)
            os.write(out, f"{delivery.properties['number']}\\n".encode())
            await delivery.ack()

asyncio.run(main())
"""


class Worker:
    """One process of the script, with its log of what it handled."""

    def __init__(self, folder: Path, meta_url: str, name: str) -> None:
        self._log = folder / f"{name}.log"
        self.process = subprocess.Popen(
            [sys.executable, str(folder / "worker.py"), meta_url, str(self._log)],
            cwd=folder, env={**os.environ, "PYTHONPATH": str(PROJECT)},
        )  # fmt: skip

    def hold(self) -> None:
        """Make it pull messages and handle none of them."""
        Path(f"{self._log}.hold").touch()

    def _lines(self) -> list[str]:
        return self._log.read_text().splitlines() if self._log.exists() else []

    @property
    def consumer_id(self) -> str:
        return next((line.removeprefix("id ") for line in self._lines() if line.startswith("id ")), "")

    @property
    def handled(self) -> list[int]:
        return [int(line) for line in self._lines() if line.isdigit()]


async def send(producer: Producer, sent: int) -> int:
    """Send a batch of the messages that follow; how many there are then."""
    assert sent < BATCHES_MAX * BATCH
    await asyncio.gather(*(producer.send("orders", {"number": sent + number}) for number in range(BATCH)))
    return sent + BATCH


def in_flight(system: System, consumer_id: str) -> int:
    """Messages that a consumer has pulled and not acked."""
    return sum(
        consumer["in_flight"]
        for name in system.brokers
        for stats in system.admin(name, "/stats?subject=orders")["subjects"]
        for group in stats["groups"]
        for consumer in group["consumers"]
        if consumer["consumer_id"] == consumer_id
    )


async def test_three_processes_share_the_messages_and_a_killed_one_gets_its_own_back(
    system: System, tmp_path: Path
) -> None:
    (tmp_path / "worker.py").write_text(WORKER)
    workers = [Worker(tmp_path, system.meta_url, f"w{number}") for number in range(PROCESSES)]
    try:
        await eventually_async(lambda: all(worker.consumer_id for worker in workers), what="every worker has its id")
        killed = workers[1]
        async with Producer(system.meta_url, app="test") as producer:
            sent = await send(producer, 0)
            while not killed.handled:
                sent = await send(producer, sent)
            killed.hold()
            while not in_flight(system, killed.consumer_id):
                sent = await send(producer, sent)
            killed.process.send_signal(signal.SIGKILL)
            killed.process.wait()
            workers.append(Worker(tmp_path, system.meta_url, "restarted"))
            for _ in range(BATCHES):
                sent = await send(producer, sent)
        everything = set(range(sent))
        await eventually_async(
            lambda: {number for worker in workers for number in worker.handled} == everything, what="all are handled"
        )
        restarted = workers[-1]
        assert restarted.handled, "it got what the killed process held"
        await eventually_async(lambda: restarted.consumer_id, what="the restarted worker has its id")
        assert restarted.consumer_id == killed.consumer_id
        assert len({worker.consumer_id for worker in workers}) == PROCESSES
        for worker in workers:
            assert max(Counter(worker.handled).values()) == 1
            # Only what the killed process held came twice, and that to its successor.
            others = {n for other in workers if other.consumer_id != worker.consumer_id for n in other.handled}
            assert not others & set(worker.handled)
    finally:
        for worker in workers:
            worker.process.kill()
            worker.process.wait()
