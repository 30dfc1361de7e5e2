"""How long an empty slave takes to copy a log, what that costs producers, and how much memory it needs.

    python -m benchmarks.copying --gib 2 --load 20000

Two broker nodes as processes on this machine, which share its disk and processors. The membership of the group is in a
file: there is no metaserver. `--gib` of messages are stored before the slave starts, with a retention that has removed
the first segments, so that it has to copy state and log. During the copy a producer sends `--load` messages a second.
"""

import argparse
import asyncio
import json
import re
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from broker_node.broker import Broker
from broker_node.options import BrokerOptions
from qmq.clock import SYSTEM_CLOCK
from qmq.net.caller import Caller
from qmq.protocol.codes import Command
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
START_SECONDS = 6.0
RETAINED_PART = 0.9
"""Of the log, so that its first segments are removed."""


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


async def run_node(folder: Path, name: str, retention_bytes: int) -> None:
    """Run a node, life after life, and print its role and the progress of its copy when they change."""
    port = PORTS[name]
    options = BrokerOptions(
        broker_group="g", node_id=name, data_dir=str(folder / name), port=port, admin_port=port + 1, sync_port=port + 2,
        sync_token="benchmark" * 4, meta="", segment_bytes=SEGMENT_BYTES, checkpoint_bytes=CHECKPOINT_BYTES,
        retention_bytes=retention_bytes, log_level="error",
    )  # fmt: skip
    SystemDisk().make_private_dir(options.data_dir)
    replica = ReplicaStateFile(SystemDisk(), options.data_dir)
    if replica.load().is_only_member:
        replica.save(ReplicaState(is_only_member=False))

    async def request(change: ChangeInSync, reason: str) -> tuple[MembershipResult, Membership]:
        membership = change.applied_to(read_membership(folder))
        write_membership(folder, membership)
        return MembershipResult.DONE, membership

    while True:
        broker = Broker(options)
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


async def inform(broker: Broker, folder: Path) -> None:
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
        await asyncio.sleep(0.2)


async def send(caller: Caller, batch: bytes) -> None:
    """Send messages. Raises SystemExit if one of them is rejected."""
    failures = decode_send_response((await caller.call(Command.SEND_MESSAGE, batch, timeout_s=60)).body)
    if failures:
        raise SystemExit(f"rejected: {next(iter(failures.values()))}")


async def produce(per_second: int, seconds: Callable[[], bool]) -> tuple[int, float]:
    """Send batches at a rate, or as fast as they are answered for 0, while `seconds` says so; messages and seconds."""
    caller = Caller("127.0.0.1", PORTS["a"])
    await caller.connect()
    batch = b"".join(
        encode_entry(
            Message(
                "bench",
                f"m{n}",
                {KEY_CREATED: "1700000000000", "data": "x" * BODY_BYTES},
                (),
                0,
                1_700_000_000_000,
                1_700_000_000_000,
            )
        )
        for n in range(BATCH)
    )
    began, sent = SYSTEM_CLOCK.monotonic(), 0
    pending: set[asyncio.Task[None]] = set()
    while seconds():
        pending.add(asyncio.create_task(send(caller, batch)))
        sent += BATCH
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


def lasting(seconds: float) -> Callable[[], bool]:
    """Whether so many seconds have not passed yet."""
    end = SYSTEM_CLOCK.monotonic() + seconds
    return lambda: SYSTEM_CLOCK.monotonic() < end


async def measure(folder: Path, gib: float, load: int) -> None:
    """Fill a log, then let a slave copy it under load."""
    size = int(gib * (1 << 30))
    write_membership(folder, Membership("g", ("a", "b"), "a", ("a",), 2, 1, PROMOTION, 1))
    retention = int(size * RETAINED_PART)
    async with node(folder, "a", retention) as master:
        await asyncio.sleep(START_SECONDS)
        total, seconds = 0, 0.0
        while total < size // BODY_BYTES:
            sent, took = await produce(0, lasting(5.0))
            total, seconds = total + sent, seconds + took
        print(f"stored {total:,} messages at {total / seconds:,.0f}/s", flush=True)
        await asyncio.sleep(START_SECONDS)
        alone, before = await produce(load, lasting(15.0)), memory_bytes(master)
        began = SYSTEM_CLOCK.monotonic()
        async with node(folder, "b", retention) as slave:
            copying = await produce(load, lambda: read_membership(folder).in_sync != ("a", "b"))
            print(f"in sync after {SYSTEM_CLOCK.monotonic() - began:.1f} s")
            print(f"producer: {alone[0] / alone[1]:,.0f}/s alone, {copying[0] / copying[1]:,.0f}/s during the copy")
            more = (memory_bytes(master) - before) >> 20
            print(f"master: {more} MiB more; slave: {memory_bytes(slave) >> 20} MiB at most")


def main() -> None:
    """Parse arguments, and run a node or the measurement."""
    parser = argparse.ArgumentParser(description="Measure the copy of a log by an empty slave.")
    parser.add_argument("--gib", type=float, default=2.0, help="size of the log before the slave starts")
    parser.add_argument("--load", type=int, default=20_000, help="messages of 1 KB a second that are sent meanwhile")
    parser.add_argument("--folder", default="", help="where the nodes keep their data; default: a temporary folder")
    parser.add_argument("--node", default="", help=argparse.SUPPRESS)
    parser.add_argument("--retention", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.node:
        asyncio.run(run_node(Path(options.folder), options.node, options.retention))
        return
    with tempfile.TemporaryDirectory(dir=options.folder or None) as folder:
        asyncio.run(measure(Path(folder), options.gib, options.load))


if __name__ == "__main__":
    main()
