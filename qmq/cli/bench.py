"""`qmq bench`: a load on real nodes, as light per message as Python allows.

Batches are encoded ahead, as other brokers' tools do; the frames are what any client sends. Latency counts from when a
frame was meant to be sent (its slot at `--rate`, else when it was handed to the socket) to its answer.
"""

import argparse
import asyncio
import contextlib
import json
import random
import sys
import time
from collections.abc import Sequence
from typing import Any

from qmq.cli import limits
from qmq.cli.load import PullingConnection, SendingConnection, connect, pull_all, send_all_frames
from qmq.cli.pages import cluster
from qmq.cli.values import delay_of, rate, whole
from qmq.client.lifecycle import reach
from qmq.client.message import delayed_message, standard_properties
from qmq.errors import QmqError, SettingError
from qmq.net.discovery import split_address
from qmq.net.pool import Pool
from qmq.net.routing import READABLE, WRITABLE
from qmq.net.session import MetaSession
from qmq.net.timing import DEFAULT_BACKOFF
from qmq.protocol.codes import ClientType, Command
from qmq.protocol.frames import FrameReader, encode_request
from qmq.protocol.messages import Message, encode_entry

WINDOW_MESSAGES = 4_000
"""Unanswered messages per connection when --window is not given."""
DELAY_FRAMES = 64
"""Number of different frames of delayed messages, sent in turn; the due times are drawn for all of them."""


def add_commands(commands: Any, shared: argparse.ArgumentParser) -> None:
    bench = commands.add_parser("bench", help="measure throughput and latency")
    kinds = bench.add_subparsers(dest="kind", required=True)
    for kind, run, text in (
        ("produce", bench_produce, "send as fast as possible"),
        ("delay", bench_delay, "send delayed messages as fast as possible"),
        ("consume", bench_consume, "pull and acknowledge as fast as possible"),
    ):
        command = kinds.add_parser(kind, parents=[shared], help=text)
        command.add_argument("subject", help="name of the subject")
        command.add_argument("--count", type=whole, required=True, metavar="N", help="total number of messages")
        command.add_argument("--size", type=whole, default=128, metavar="B", help="size of property `data` in bytes")
        command.add_argument("--batch", type=whole, default=500, metavar="N", help="messages per frame")
        command.add_argument(
            "--connections", type=whole, default=2, metavar="N", help="connections to each broker group"
        )
        command.add_argument("--window", type=whole, metavar="FRAMES", help="unanswered frames per connection")
        command.add_argument(
            "--rate", type=rate, metavar="MSGS", help="messages per second in total; default: no limit"
        )
        command.add_argument("--broker-group", metavar="G", help="only this broker group")
        if kind == "consume":
            command.add_argument("--group", default="bench", metavar="G", help="consumer group")
        if kind == "delay":
            command.add_argument("--due-from", type=delay_of, required=True, metavar="D", help="minimum delay")
            command.add_argument("--due-to", type=delay_of, required=True, metavar="D", help="maximum delay")
        command.set_defaults(run=run)


def _addresses(arguments: argparse.Namespace, client_type: ClientType) -> list[tuple[str, int]]:
    """Where the subject's broker groups listen; registering makes the subject when it is new."""

    async def route() -> list[tuple[str, int]]:
        session = MetaSession(
            arguments.meta, app="qmq-bench", client_id="bench", timeouts=limits.TIMEOUTS, backoff=DEFAULT_BACKOFF
        )
        pool = Pool(limits.TIMEOUTS.connect)
        session.start()
        is_consumer = client_type is ClientType.CONSUMER
        try:
            routes = await reach(
                session, pool, arguments.subject, client_type, arguments.group if is_consumer else "",
                READABLE if is_consumer else WRITABLE, seconds=limits.REACH_SECONDS, backoff=DEFAULT_BACKOFF,
            )  # fmt: skip
        finally:
            await session.close()
            await pool.close()
        return [split_address(route.master) for route in routes if arguments.broker_group in (None, route.name)]

    with limits.only_the_error():
        addresses = asyncio.run(route())
    if not addresses:
        names = [group["name"] for group in cluster(arguments.meta)["broker_groups"]]
        raise QmqError(f"no broker group to use for {arguments.subject}; the system has {', '.join(names) or 'none'}")
    return addresses


def percentile(ordered: list[float], share: float) -> float:
    """A percentile of ascending values, in milliseconds; 0 for none."""
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] * 1000 if ordered else 0.0


def _report(
    arguments: argparse.Namespace, messages: int, seconds: float, data_bytes: int, latencies: list[float],
    connections: int, window: int,
) -> None:  # fmt: skip
    """Print what a run measured; rates count messages' own bytes on the wire."""
    latencies.sort()
    rates = {"messages_per_s": messages / seconds, "mb_per_s": data_bytes / seconds / 1e6}
    latency = {"p50_ms": percentile(latencies, 0.5), "p99_ms": percentile(latencies, 0.99)}
    latency["p999_ms"] = percentile(latencies, 0.999)
    shape = {"size": arguments.size, "batch": arguments.batch, "connections": connections, "window_frames": window}
    measured = {name: round(value, 3) for name, value in {"seconds": seconds, **rates, **latency}.items()}
    if arguments.json:
        print(json.dumps({"what": arguments.kind, "messages": messages, **measured, **shape}))
        return
    print(
        f"{arguments.kind}: {messages:,} messages in {seconds:.2f} s:"
        f" {rates['messages_per_s']:,.0f} msgs/s, {rates['mb_per_s']:.1f} MB/s,"
        f" p50 {latency['p50_ms']:.2f} ms, p99 {latency['p99_ms']:.2f} ms, p99.9 {latency['p999_ms']:.2f} ms"
        f" ({arguments.size} B, batches of {arguments.batch}, {connections} connections, {window} frames in flight each)"
    )


# --- produce --------------------------------------------------------------------------------------------------------


def encode_batch(subject: str, size: int, batch: int, dues_ms: Sequence[int] = ()) -> bytes:
    """The body of a SEND with `batch` messages whose property `data` has `size` bytes; delayed when due times are given."""
    now_ms = int(time.time() * 1000)
    properties = standard_properties("qmq-bench", now_ms) | {"data": "x" * size}
    stamp = time.strftime("%y%m%d.%H%M%S")
    messages = (
        Message(subject, f"{stamp}.127.0.0.1.1.{100_000 + i}", properties, (), 0, now_ms, now_ms) for i in range(batch)
    )
    if dues_ms:
        messages = (delayed_message(message, due_ms) for message, due_ms in zip(messages, dues_ms, strict=True))
    return b"".join(encode_entry(message) for message in messages)


def bench_produce(arguments: argparse.Namespace) -> int:
    batch = min(arguments.batch, arguments.count)
    body = encode_batch(arguments.subject, arguments.size, batch)
    return _produce(arguments, ClientType.PRODUCER, [body])


def bench_delay(arguments: argparse.Namespace) -> int:
    """Send batches of delayed messages, due times drawn evenly from the range, and count their answers."""
    if arguments.due_to < arguments.due_from:
        raise SettingError("--due-to is before --due-from")
    batch = min(arguments.batch, arguments.count)
    now_ms, rng = time.time_ns() // 1_000_000, random.Random(arguments.count)
    first, last = (now_ms + int(delay.total_seconds() * 1000) for delay in (arguments.due_from, arguments.due_to))
    frames = min(DELAY_FRAMES, max(1, arguments.count // batch))
    bodies = [
        encode_batch(arguments.subject, arguments.size, batch, [rng.randint(first, last) for _ in range(batch)])
        for _ in range(frames)
    ]
    return _produce(arguments, ClientType.DELAY_PRODUCER, bodies)


def _produce(arguments: argparse.Namespace, client_type: ClientType, bodies: list[bytes]) -> int:
    addresses = _addresses(arguments, client_type)
    batch = min(arguments.batch, arguments.count)
    frames = [encode_request(Command.SEND_MESSAGE, 1, body) for body in bodies]
    window = arguments.window or max(2, WINDOW_MESSAGES // batch)
    total = max(1, arguments.count // batch)
    places = [address for address in addresses for _ in range(arguments.connections)]
    lines = [
        SendingConnection(connect(place), total // len(places) + (i < total % len(places)))
        for i, place in enumerate(places)
    ]
    interval = None if arguments.rate is None else batch * len(lines) / arguments.rate
    with contextlib.ExitStack() as sockets:
        for line in lines:
            sockets.enter_context(line.sock)
        seconds, latencies = send_all_frames(lines, frames, window, interval)
    messages = sum(line.answered for line in lines) * batch
    size = messages * len(bodies[0]) // batch
    _report(arguments, messages, seconds, size, latencies, len(lines), window)
    return 0


def bench_consume(arguments: argparse.Namespace) -> int:
    """Pull and ack until `count` messages came; 3 when the subject holds fewer."""
    addresses = _addresses(arguments, ClientType.CONSUMER)
    places = [address for address in addresses for _ in range(arguments.connections)]
    pullers = [
        PullingConnection(connect(place), FrameReader(), f"bench@@{time.time_ns():x}-{i}")
        for i, place in enumerate(places)
    ]
    with contextlib.ExitStack() as sockets:
        for puller in pullers:
            sockets.enter_context(puller.sock)
        got, got_bytes, seconds, latencies = pull_all(pullers, arguments)
    _report(arguments, got, seconds, got_bytes, latencies, len(pullers), 1)
    if not got:
        sys.stderr.write(
            f"qmq: nothing arrived. If group {arguments.group} existed before, it continues where it was, which may be the end"
            f" of {arguments.subject}. `qmq lag {arguments.subject}` shows what is left; use another --group to read from the"
            " beginning.\n"
        )
    return 0 if got >= arguments.count else 3
