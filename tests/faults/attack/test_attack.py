"""A whole system as `make up` runs it, attacked for two minutes: memory stays within limits, nothing fails, others are served.

`make test-all` runs it. docs/security.md lists the limits.
"""

import asyncio
import json
import re
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import pytest

from qmq.client.consumer import Consumer
from qmq.client.producer import Producer
from qmq.errors import QmqError
from qmq.net import node_secret
from tests.faults.attack.attackers import BODY_BYTES_MAX, KINDS, SLOW_REQUESTS
from tests.faults.attack.children import children
from tests.support.servers.processes import PROJECT
from tests.support.servers.up import Up
from tests.support.waiting import eventually_async
from tests.support.whole import in_whole_attack_runs

STORED_MESSAGES = 4_000
MESSAGE_BYTES = 20_000
"""80 MB for slow readers to ask for."""
SUBJECTS = 20_000
"""The pages of brokers show some of them, and collectors read all."""
ROUNDS = 3
"""Of each of the five attacks. A rate is the median of its rounds: without any attack, rounds differ by some percent."""
ON_SECONDS = 8
"""Of each round: two minutes in all."""
OFF_SECONDS = 8
"""Before and after each round."""
RATE_MIN = dict.fromkeys(KINDS, 0.8) | {"scrapes_and_slow_requests": 0.95}
"""Of what a producer sends, and a consumer gets, without an attack."""
SLOW_READERS_BYTES_MIN = 1 << 20
"""That the system answered to connections which read nothing, at least."""
SEED = 20261122

Span = tuple[float, float]
"""Begin and end on the monotonic clock."""


@dataclass
class Bystander:
    """A producer that sends one message after the other, a consumer that acks each, and an operator who looks at a page twice a
    second."""

    system: Up
    token: str
    sent: list[float] = field(default_factory=list)
    """When each send ended."""
    received: list[float] = field(default_factory=list)
    """When each message was acked."""
    bodies: set[int] = field(default_factory=set)
    """Of the messages received."""
    failures: list[str] = field(default_factory=list)
    answers: list[tuple[float, float]] = field(default_factory=list)
    """When each page was asked for, and how long it took."""
    stopped: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> "Bystander":
        self._threads = [
            threading.Thread(target=lambda: asyncio.run(self._send())),
            threading.Thread(target=self._look),
        ]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopped.set()
        for thread in self._threads:
            thread.join()

    async def _send(self) -> None:
        async with (
            Consumer(self.system.meta, "orders", "bystander", start="earliest") as consumer,
            Producer(self.system.meta, app="bystander") as producer,
        ):
            receiving = asyncio.create_task(self._receive(consumer))
            receiving.add_done_callback(lambda task: task.cancelled() or self.failures.append(repr(task.exception())))
            number = 0
            while not self.stopped.is_set():
                number += 1
                try:
                    await producer.send("orders", {"number": str(number), "k": "x" * 200})
                except QmqError as error:
                    self.failures.append(repr(error))
                self.sent.append(time.monotonic())
            await eventually_async(lambda: len(self.bodies) == number, what="every message at the consumer")
            receiving.cancel()

    async def _receive(self, consumer: Consumer) -> None:
        async for message in consumer:
            await message.ack()
            self.received.append(time.monotonic())
            self.bodies.add(int(message.properties["number"]))

    def _look(self) -> None:
        while not self.stopped.wait(0.5):
            began = time.monotonic()
            try:
                self.system.get("/subjects/?limit=20", self.token)
            except OSError as error:
                self.failures.append(repr(error))
            self.answers.append((began, time.monotonic() - began))

    @staticmethod
    def rate(moments: list[float], begin: float, end: float) -> float:
        """The median of the moments in each whole second."""
        seconds = [0] * max(1, int(end - begin))
        for at in moments:
            if begin <= at < begin + len(seconds):
                seconds[int(at - begin)] += 1
        return statistics.median(seconds)

    def ratio(self, moments: list[float], on: list[Span], off: list[Span]) -> float:
        """The median over rounds: the rate of each, compared with those just before and after it."""
        without = [self.rate(moments, *span) for span in off]
        rates = [self.rate(moments, *span) for span in on]
        return statistics.median(
            2 * rate / (before + after) for rate, (before, after) in zip(rates, pairwise(without), strict=True)
        )

    def rest(self) -> Span:
        """Let time pass without an attack, from a second after the last one."""
        self.stopped.wait(1)
        began = time.monotonic()
        self.stopped.wait(OFF_SECONDS)
        return began, time.monotonic()

    def p99(self, *spans: Span) -> float:
        """Seconds that 99 of 100 sends of these spans took at most."""
        times = [
            ended - before
            for before, ended in pairwise(self.sent)
            if any(begin <= before and ended < end for begin, end in spans)
        ]
        return statistics.quantiles(times, n=100)[98]

    def slowest_answer(self, begin: float, end: float) -> float:
        return max((took for at, took in self.answers if begin <= at < end), default=0.0)


@pytest.fixture
def system(tmp_path: Path) -> Iterator[Up]:
    up = Up(tmp_path, QMQ_ANALYTICS_EVERY_SECONDS="0")
    up.start()
    try:
        yield up
    finally:
        up.stop()


async def _fill(up: Up) -> None:
    async with Producer(up.meta, app="filler") as producer:
        for begin in range(0, SUBJECTS, 500):
            await asyncio.gather(*(producer.send(f"many.{n}", {"k": "x"}) for n in range(begin, begin + 500)))
        body = {"k": "x" * MESSAGE_BYTES}
        for _ in range(0, STORED_MESSAGES, 100):
            await asyncio.gather(*(producer.send("slow", body) for _ in range(100)))


def _attack(up: Up, kind: str) -> dict[str, int]:
    plan = {
        "frames": [("127.0.0.1", up.base + port) for port in (2, 3, 5, 7)],
        "pages": [("127.0.0.1", up.base + port) for port in (1, 4, 6, 8)],
        "brokers": [("127.0.0.1", up.base + port) for port in (4, 6)],
        "console": ("127.0.0.1", up.base),
        "metaserver": ("127.0.0.1", up.base + 1),
        "subject": "slow",
        "seed": SEED,
        "node_token": str(up.data_dir / node_secret.FILE_NAME),
    }
    command = [sys.executable, "-m", "tests.faults.attack.attackers", kind, json.dumps(plan)]
    attacker = subprocess.Popen(command, cwd=PROJECT, stdout=subprocess.PIPE, text=True)
    try:
        with pytest.raises(subprocess.TimeoutExpired):
            attacker.wait(ON_SECONDS)
        attacker.send_signal(signal.SIGTERM)
        output, _ = attacker.communicate(timeout=30)
    finally:
        attacker.kill()
        attacker.wait()
    done = json.loads(output.splitlines()[-1])
    assert isinstance(done, dict)
    return done


@in_whole_attack_runs
@pytest.mark.timeout(600)
def test_a_system_under_attack_keeps_its_limits_and_serves_others(system: Up) -> None:
    assert system.process is not None
    token = system.token("read")
    asyncio.run(_fill(system))
    processes = children(system.process.pid)
    for process in processes:
        process.before = process.field("VmRSS")
    sends: dict[str, float] = {}
    receipts: dict[str, float] = {}
    slowest: dict[str, float] = {}
    did: dict[str, Counter[str]] = {}
    with Bystander(system, token) as bystander:
        for kind in KINDS:
            did[kind], off, on = Counter(), [bystander.rest()], []
            for _ in range(ROUNDS):
                began = time.monotonic()
                did[kind].update(_attack(system, kind))
                on.append((began, time.monotonic()))
                off.append(bystander.rest())
            sends[kind] = bystander.ratio(bystander.sent, on, off)
            receipts[kind] = bystander.ratio(bystander.received, on, off)
            slowest[kind] = max(bystander.slowest_answer(*span) for span in on)
            print(
                f"{kind}: sends {sends[kind]:.0%} of {bystander.rate(bystander.sent, *off[0]):.0f}/s without it, "
                f"receipts {receipts[kind]:.0%}, "
                f"p99 of a send {bystander.p99(*off) * 1000:.1f} to {bystander.p99(*on) * 1000:.1f} ms, "
                f"the console's slowest answer {slowest[kind]:.2f} s, {dict(did[kind])}"
            )
    growth = {process.command: (process.field("VmHWM") - process.before, process.growth_max) for process in processes}
    for command, (grown, most) in growth.items():
        print(f"{grown >> 20:5} MiB of {most >> 20}: {command[-100:]}")

    assert not bystander.failures
    assert len(bystander.bodies) == len(bystander.sent), "messages were lost"
    assert {kind: rate for kind, rate in sends.items() if rate < RATE_MIN[kind]} == {}
    assert {kind: rate for kind, rate in receipts.items() if rate < RATE_MIN[kind]} == {}
    assert {kind: seconds for kind, seconds in slowest.items() if seconds > 1} == {}
    assert {command: grown for command, grown in growth.items() if grown[0] > grown[1]} == {}
    assert {process.pid for process in children(system.process.pid)} == {process.pid for process in processes}
    failures = re.findall(r"^.*(?:Traceback| ERROR | CRITICAL |MemoryError).*$", system.text(), re.MULTILINE)
    assert failures == []
    # The attacks have reached what they attack.
    assert did["slow_readers"]["answered_bytes"] > SLOW_READERS_BYTES_MIN
    assert did["bodies"].get("bodies_taken_whole", 0) == 0, f"the console read {BODY_BYTES_MAX >> 20} MiB of a body"
    assert did["scrapes_and_slow_requests"]["held"] > SLOW_REQUESTS
    for page in ("/metrics 200", "/stats 200", "/meta/subjects 200"):
        assert did["scrapes_and_slow_requests_everywhere"][page] > 100, page
    # Four connections, each of which waits up to ANSWER_SECONDS after a frame: 190 when nothing is ever answered.
    assert did["fuzz"]["frames"] > 100
    assert did["fuzz"]["requests"] > 1000
    assert did["fuzz"].get("answers_500", 0) == 0
