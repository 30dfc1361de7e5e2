"""How long an empty slave takes to copy its master, what that costs producers, and how much memory it needs.

    python -m benchmarks.copying --gib 2 --load 20000
    python -m benchmarks.copying --pending 10000000 --hours 168 --load 60000 --within 180

Two nodes as processes on this machine, which share its disk and processors. The membership of the group is in a file:
there is no metaserver. During the copy a producer sends `--load` messages a second.

A broker group: `--gib` of messages are stored before the slave starts, with a retention that has removed the first
segments, so that it has to copy state and log. A delay group: `--pending` messages, due in so many `--hours`; when the
slave is in sync it is killed, misses AWAY_PART of as many messages, and starts again.

Ends with an error that names what is above its limit.
"""

import argparse
import asyncio
import json
import math
import random
import re
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.slaves import above, finish
from broker_node.broker import Broker
from broker_node.options import BrokerOptions
from delay_node.delay_node import DelayNode
from delay_node.options import DelayOptions
from qmq.cli.bench import encode_batch
from qmq.clock import SYSTEM_CLOCK
from qmq.errors import ConnectionLost
from qmq.net.caller import Caller
from qmq.protocol.codes import Command, SendResult
from qmq.protocol.commands import decode_send_response
from qmq.protocol.group_memberships import MembershipResult
from qmq.protocol.messages import KEY_CREATED, Message, encode_entry
from qmq_node.log.disk import SystemDisk
from qmq_node.process.life import LifeEnded
from qmq_node.replication.replica_state import ReplicaStateFile
from qmq_node.replication.rules.membership import ChangeInSync, Membership
from qmq_node.replication.rules.roles import ReplicaState

PORTS = {"a": 23_100, "b": 23_110}
PROMOTION = "00000000-0000-4000-8000-000000000002"
BATCH = 200
BODY_BYTES = 1_000
SEGMENT_BYTES = 128 << 20
CHECKPOINT_BYTES = 64 << 20
LOOK_SECONDS, SETTLE_SECONDS, BUSY_SECONDS = 0.2, 6.0, 0.1
RETAINED_PART = 0.9
"""Of the log, so that its first segments are removed."""
DELAYED_BYTES, DELAYED_BATCH, DELAYED_FRAMES = 128, 500, 256
"""Of delayed messages; so many different frames are sent in turn."""
FIRST_DUE_MS, HOUR_MS = 7_200_000, 3_600_000
FILL_RATE_OF_MANY_HOURS, MANY_HOURS = 50_000, 1_000
"""The first checkpoint makes three files for each hour."""
AWAY_PART, AWAY_SECONDS_MAX = 0.05, 60.0
"""The limit is that of the seconds until the slave is in sync again."""
STEADY_SECONDS = 15.0
LOST_MAX, MORE_MEMORY_MAX_MIB = 0.10, 200
"""Limits: of the rate of sends, and of memory of both nodes."""


@dataclass(frozen=True, slots=True)
class Load:
    """What is stored and sent."""

    bodies: Sequence[bytes]
    """Of requests, sent in turn."""
    batch: int
    """Messages in each."""
    per_second: int
    """While a slave copies."""


def of_brokers(per_second: int) -> Load:
    """Return messages of 1 KB."""
    now = 1_700_000_000_000
    properties = {KEY_CREATED: str(now), "data": "x" * BODY_BYTES}
    batch = b"".join(encode_entry(Message("bench", f"m{n}", properties, (), 0, now, now)) for n in range(BATCH))
    return Load([batch], BATCH, per_second)


def of_delay_nodes(per_second: int, hours: int) -> Load:
    """Return delayed messages, whose due times are drawn from so many hours."""
    rng, first = random.Random(hours), SYSTEM_CLOCK.wall_ms() + FIRST_DUE_MS
    bodies = [
        encode_batch(
            "bench",
            DELAYED_BYTES,
            DELAYED_BATCH,
            [first + rng.randrange(hours * HOUR_MS) for _ in range(DELAYED_BATCH)],
        )
        for _ in range(DELAYED_FRAMES)
    ]
    return Load(bodies, DELAYED_BATCH, per_second)


def read_membership(folder: Path) -> Membership:
    """The membership of the group."""
    fields: dict[str, Any] = json.loads((folder / "membership").read_text())
    fields |= {name: tuple(value) for name, value in fields.items() if isinstance(value, list)}
    return Membership(**fields)


def write_membership(folder: Path, membership: Membership) -> None:
    """Replace the membership."""
    (folder / "membership.new").write_text(
        json.dumps({name: getattr(membership, name) for name in membership.__slots__})
    )
    (folder / "membership.new").rename(folder / "membership")


def new_node(folder: Path, name: str, retention_bytes: int) -> Broker | DelayNode:
    """Return a node: a delay node without a retention."""
    port = PORTS[name]
    shared: dict[str, Any] = {
        "broker_group": "g", "node_id": name, "data_dir": str(folder / name), "port": port, "admin_port": port + 1,
        "sync_port": port + 2, "sync_token": "benchmark" * 4, "meta": "", "segment_bytes": SEGMENT_BYTES,
        "checkpoint_bytes": CHECKPOINT_BYTES, "log_level": "error",
    }  # fmt: skip
    if retention_bytes:
        return Broker(BrokerOptions(**shared, retention_bytes=retention_bytes))
    return DelayNode(DelayOptions(**shared))


async def run_node(folder: Path, name: str, retention_bytes: int) -> None:
    """Run a node, life after life, and print its role and the progress of its copy when they change."""
    data_dir = str(folder / name)
    SystemDisk().make_private_dir(data_dir)
    replica = ReplicaStateFile(SystemDisk(), data_dir)
    if replica.load().is_only_member:
        replica.save(ReplicaState(is_only_member=False))

    async def request(change: ChangeInSync, reason: str) -> tuple[MembershipResult, Membership]:
        membership = change.applied_to(read_membership(folder))
        write_membership(folder, membership)
        return MembershipResult.DONE, membership

    while True:
        broker = new_node(folder, name, retention_bytes)
        broker.replication.shell.membership_client.change_in_sync = request  # type: ignore[method-assign]
        await broker.start()
        informing = asyncio.create_task(inform(broker, folder))
        try:
            await broker.serve(asyncio.Event())
        except LifeEnded as ended:
            print(f"{name}: {ended}", flush=True)
        finally:
            informing.cancel()
            await broker.close()


async def inform(broker: Broker | DelayNode, folder: Path) -> None:
    """Send the node the membership, as metaservers do, and report what it does. Promote this process first if it is the
    first master."""
    told = ""
    if (membership := read_membership(folder)).master == broker.node_id and not membership.master_boot_id:
        promoted = replace(membership, master_boot_id=broker.replication.boot_id)
        write_membership(folder, promoted.with_incarnation(broker.node_id, broker.folder.incarnation))
    while True:
        membership = read_membership(folder)
        broker.replication.member.learned(membership.sent(f"127.0.0.1:{PORTS[membership.master] + 2}"))
        follower = broker.replication.member.follower
        progress = follower.copy.progress if follower is not None else None
        text = broker.replication.member.role.name.lower()
        if progress is not None:
            text += f" {progress.phase.value}"
        if text != told:
            told = text
            print(f"{broker.node_id}: {text}", flush=True)
        await asyncio.sleep(LOOK_SECONDS)


async def send(caller: Caller, batch: bytes) -> None:
    """Send messages, again while the node is busy, as clients do. Raises SystemExit if one of them is rejected."""
    while failures := decode_send_response((await caller.call(Command.SEND_MESSAGE, batch, timeout_s=60)).body):
        failure = next(iter(failures.values()))
        if failure.result != SendResult.BROKER_BUSY:
            raise SystemExit(f"rejected: {failure}")
        await asyncio.sleep(BUSY_SECONDS)


async def serves() -> None:
    """Wait until the master accepts connections."""
    caller = None
    while caller is None:
        caller = Caller("127.0.0.1", PORTS["a"])
        try:
            await caller.connect()
        except ConnectionLost:
            caller = None
            await asyncio.sleep(LOOK_SECONDS)
    await caller.close()


async def produce(load: Load, per_second: int, goes_on: Callable[[int], bool]) -> tuple[int, float]:
    """Send batches at a rate, or as fast as they are answered for 0, while `goes_on` says so of the messages sent; messages
    and seconds."""
    caller = Caller("127.0.0.1", PORTS["a"])
    await caller.connect()
    began, sent = SYSTEM_CLOCK.monotonic(), 0
    pending: set[asyncio.Task[None]] = set()
    while goes_on(sent):
        pending.add(asyncio.create_task(send(caller, load.bodies[sent // load.batch % len(load.bodies)])))
        sent += load.batch
        if len(pending) >= 20:
            done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        if per_second and (ahead := began + sent / per_second - SYSTEM_CLOCK.monotonic()) > 0:
            await asyncio.sleep(ahead)
    await asyncio.gather(*pending)
    await caller.close()
    return sent, SYSTEM_CLOCK.monotonic() - began


def memory_bytes(process: int) -> int:
    """The highest memory use of a process so far."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{process}/status").read_text())
    return int(found[1]) << 10 if found else 0


@asynccontextmanager
async def node(folder: Path, name: str, retention_bytes: int) -> AsyncIterator[int]:
    """A node as a process; its ID."""
    arguments = [
        "-m", "benchmarks.copying", "--node", name, "--folder", str(folder), "--retention", str(retention_bytes),
    ]  # fmt: skip
    process = await asyncio.create_subprocess_exec(sys.executable, *arguments)
    try:
        yield process.pid
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


def lasting(seconds: float) -> Callable[[int], bool]:
    """Whether so many seconds have not passed yet."""
    end = SYSTEM_CLOCK.monotonic() + seconds
    return lambda sent: SYSTEM_CLOCK.monotonic() < end


@asynccontextmanager
async def measured_copy(
    folder: Path, load: Load, master: int, retention: int, within: float
) -> AsyncIterator[list[str]]:
    """Start the slave, send until it is in sync, and print what that took. It runs until the block ends, whose value is
    what was above its limit."""
    before = memory_bytes(master)
    alone = await produce(load, load.per_second, lasting(STEADY_SECONDS))
    began = SYSTEM_CLOCK.monotonic()
    async with node(folder, "b", retention) as slave:
        copying = await produce(load, load.per_second, lambda sent: read_membership(folder).in_sync != ("a", "b"))
        seconds = SYSTEM_CLOCK.monotonic() - began
        rates = [sent / took for sent, took in (alone, copying)]
        after = memory_bytes(master)
        more = (after - before) >> 20
        print(f"in sync after {seconds:.1f} s")
        print(f"producer: {rates[0]:,.0f}/s alone, {rates[1]:,.0f}/s during the copy")
        print(
            f"master: {more} MiB more, {after >> 20} MiB at most; slave: {memory_bytes(slave) >> 20} MiB at most",
            flush=True,
        )
        yield [
            *above("seconds until the slave is in sync", seconds, within),
            *above("part of the sends that is lost", 1 - rates[1] / rates[0], LOST_MAX),
            *above("MiB of the master's memory", more, MORE_MEMORY_MAX_MIB),
        ]


async def fill(load: Load, messages: int, per_second: int) -> None:
    """Store so many messages, at a rate or as fast as possible for 0."""
    sent, seconds = await produce(load, per_second, lambda sent: sent < messages)
    print(f"stored {sent:,} messages at {sent / seconds:,.0f}/s", flush=True)
    await asyncio.sleep(SETTLE_SECONDS)


async def measure_broker(folder: Path, gib: float, per_second: int, within: float) -> list[str]:
    """Fill a log, then let a slave copy it under load; what is above its limit."""
    load, size = of_brokers(per_second), int(gib * (1 << 30))
    retention = int(size * RETAINED_PART)
    async with node(folder, "a", retention) as master:
        await serves()
        await fill(load, size // BODY_BYTES, 0)
        async with measured_copy(folder, load, master, retention, within) as problems:
            return problems


async def measure_delay(folder: Path, messages: int, hours: int, per_second: int, within: float) -> list[str]:
    """Store pending messages, then let a slave copy them under load, and again when it was away; what is above its
    limit."""
    load, rate = of_delay_nodes(per_second, hours), FILL_RATE_OF_MANY_HOURS if hours >= MANY_HOURS else 0
    async with node(folder, "a", 0) as master:
        await serves()
        await fill(load, messages, rate)
        async with measured_copy(folder, load, master, 0, within) as problems:
            pass
        print("the slave is away", flush=True)
        await fill(load, int(messages * AWAY_PART), rate)
        async with measured_copy(folder, load, master, 0, AWAY_SECONDS_MAX) as more:
            return problems + more


def main() -> int:
    """Parse arguments, and run a node or the measurement."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gib", type=float, default=2.0, help="size of the log before the slave starts")
    parser.add_argument("--pending", type=int, default=0, help="delayed messages, instead of a log of a broker")
    parser.add_argument("--hours", type=int, default=168, help="from the first of them to the last")
    parser.add_argument("--load", type=int, default=20_000, help="messages a second that are sent meanwhile")
    parser.add_argument(
        "--within", type=float, default=math.inf, help="limit of the seconds until the slave is in sync"
    )
    parser.add_argument("--folder", default="", help="where the nodes keep their data; default: a temporary folder")
    parser.add_argument("--node", default="", help=argparse.SUPPRESS)
    parser.add_argument("--retention", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.node:
        asyncio.run(run_node(Path(options.folder), options.node, options.retention))
        return 0
    with tempfile.TemporaryDirectory(dir=options.folder or None) as path:
        folder = Path(path)
        write_membership(folder, Membership("g", ("a", "b"), "a", ("a",), 2, 1, PROMOTION, 1))
        if options.pending:
            done = measure_delay(folder, options.pending, options.hours, options.load, options.within)
        else:
            done = measure_broker(folder, options.gib, options.load, options.within)
        return finish(asyncio.run(done))


if __name__ == "__main__":
    sys.exit(main())
