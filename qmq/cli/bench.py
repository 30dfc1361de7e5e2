"""`qmq bench`: a load on real nodes, as light per message as Python allows.

Batches are encoded ahead, as other brokers' tools do; the frames are what any client sends. Latency counts from when a
frame was meant to be sent (its slot at `--rate`, else when it was handed to the socket) to its answer.
"""

import argparse
import asyncio
import contextlib
import random
import selectors
import socket
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from qmq.cli import limits
from qmq.cli.output import say, say_json, warn
from qmq.cli.pages import CLUSTER_PAGE, fetch_metaserver_page
from qmq.cli.values import delay_of, rate, whole
from qmq.client.lifecycle import reach
from qmq.client.message import delayed_message, standard_properties
from qmq.client.source import start_unsupported
from qmq.errors import QmqError, SettingError
from qmq.net.discovery import meta_urls, split_address
from qmq.net.pool import Pool
from qmq.net.session import MetaSession
from qmq.net.timing import DEFAULT_BACKOFF
from qmq.protocol.codes import ClientType, Command, ResponseCode
from qmq.protocol.commands import PULL_RESPONSE_HEAD, AckRequest, PullRequest
from qmq.protocol.extensions import EnsureGroupRequest
from qmq.protocol.frames import HEADER_BYTES, Frame, FrameReader, encode_request
from qmq.protocol.messages import Message, encode_entry
from qmq.protocol.scan import walk_raws

WINDOW_MESSAGES = 4_000
"""Unanswered messages per connection when --window is not given."""
DELAY_FRAMES = 64
"""Number of different frames of delayed messages, sent in turn; the due times are drawn for all of them."""
RECEIVE_BYTES = 1 << 20


@dataclass(slots=True)
class SendingConnection:
    sock: socket.socket
    frames: int
    sent: int = 0
    answered: int = 0
    out: memoryview = memoryview(b"")  # noqa: RUF009 - immutable
    stray: int = 0
    meant: deque[float] = field(default_factory=deque)
    """Scheduled send time of each unanswered frame."""


def connect(address: tuple[str, int]) -> socket.socket:
    try:
        sock = socket.create_connection(address, timeout=limits.TIMEOUTS.connect)
    except OSError as error:
        raise QmqError(f"{address[0]}:{address[1]} can't be reached: {error}") from error
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setblocking(False)
    return sock


def send_all_frames(
    lines: list[SendingConnection], frames: list[bytes], window: int, interval: float | None
) -> tuple[float, list[float]]:
    """Send on all lines, a frame each `interval` seconds or as the window allows, until all answers came: (seconds, latencies)."""
    selector = selectors.DefaultSelector()
    buffer = bytearray(RECEIVE_BYTES)
    latencies: list[float] = []
    for line in lines:
        selector.register(line.sock, selectors.EVENT_READ, line)
    began = time.perf_counter()
    open_lines = sum(line.frames > 0 for line in lines)
    while open_lines:
        now = time.perf_counter()
        soonest: float | None = None
        for line in lines:
            while line.out or (line.sent < line.frames and line.sent - line.answered < window):
                if not line.out:
                    slot = now if interval is None else began + line.sent * interval
                    if slot > now:
                        soonest = slot if soonest is None else min(soonest, slot)
                        break
                    line.out = memoryview(frames[line.sent % len(frames)])
                    line.sent += 1
                    line.meant.append(slot)
                try:
                    line.out = line.out[line.sock.send(line.out) :]
                except BlockingIOError:
                    break
            events = selectors.EVENT_READ | (selectors.EVENT_WRITE if line.out else 0)
            if selector.get_key(line.sock).events != events:
                selector.modify(line.sock, events, line)
        pause = limits.ANSWER_SECONDS if soonest is None else max(0.0, soonest - time.perf_counter())
        events_now = selector.select(min(pause, limits.ANSWER_SECONDS))
        if not events_now and soonest is None:
            raise QmqError(no_answer())
        for key, mask in events_now:
            if not mask & selectors.EVENT_READ:
                continue
            line = key.data
            size = line.sock.recv_into(buffer)
            if size == 0:
                raise QmqError("the broker closed the connection")
            answers, line.stray = divmod(line.stray + size, HEADER_BYTES)
            if buffer[:size].count(b"\xde\xc1\x0a\xde") > answers + 1:
                raise QmqError("the broker returned an error")
            now = time.perf_counter()
            latencies += [now - line.meant.popleft() for _ in range(answers)]
            line.answered += answers
            if line.answered >= line.frames:
                open_lines -= 1
    return time.perf_counter() - began, latencies


@dataclass(slots=True)
class PullingConnection:
    """One pulling connection: a consumer of its own, with one pull under way, acking what it got with the next."""

    sock: socket.socket
    reader: FrameReader
    consumer_id: str
    last: int = -1
    requested_at: float = 0.0
    idle: int = 0


def pull_all(pullers: list[PullingConnection], arguments: argparse.Namespace) -> tuple[int, int, float, list[float]]:
    """Pull until --count messages came or nothing is left: (messages, their bytes, seconds, latencies)."""
    selector = selectors.DefaultSelector()
    latencies: list[float] = []
    got = got_bytes = 0
    ensure = EnsureGroupRequest(arguments.subject, arguments.group, "earliest", 0, True, False)
    for puller in pullers:
        _ensure_group(puller, ensure)
    for puller in pullers:
        selector.register(puller.sock, selectors.EVENT_READ, puller)
        _pull(puller, arguments, 1)
    began = time.perf_counter()
    while got < arguments.count and any(puller.idle < 2 for puller in pullers):
        events = selector.select(limits.ANSWER_SECONDS)
        if not events:
            raise QmqError(no_answer())
        for key, _ in events:
            puller = key.data
            for frame in _receive(puller):
                if frame.request_code != Command.PULL_MESSAGE:
                    continue
                latencies.append(time.perf_counter() - puller.requested_at)
                if frame.code == ResponseCode.SUCCESS:
                    begin = PULL_RESPONSE_HEAD.unpack_from(frame.body)[0]
                    raws = frame.body[PULL_RESPONSE_HEAD.size :]
                    messages = walk_raws(raws)
                    got, got_bytes = got + messages, got_bytes + len(raws)
                    last = begin + messages - 1
                    ack = AckRequest(arguments.subject, arguments.group, puller.consumer_id, begin, last, False)
                    before = encode_request(Command.ACK_REQUEST, 0, ack.encode())
                    puller.last, puller.idle = last, 0
                else:
                    before = b""
                    puller.idle += 1
                _pull(puller, arguments, 200, before)
    return got, got_bytes, time.perf_counter() - began, latencies


def _ensure_group(puller: PullingConnection, request: EnsureGroupRequest) -> None:
    """Make the group at the beginning, before a pull makes it at the end. Raises ConsumeFailed if that is not supported."""
    puller.sock.settimeout(limits.ANSWER_SECONDS)
    try:
        puller.sock.sendall(encode_request(Command.ENSURE_GROUP, 0, request.encode()))
        frames: list[Frame] = []
        while not frames:
            frames = _receive(puller)
    except TimeoutError as error:
        raise QmqError(no_answer()) from error
    # Read only when there is something to read, and what is written fits the kernel's buffer.
    puller.sock.setblocking(True)
    if frames[0].code == ResponseCode.UNKNOWN_CODE:
        raise start_unsupported("{}:{}".format(*puller.sock.getpeername()[:2]), request)


def _receive(puller: PullingConnection) -> list[Frame]:
    size = puller.sock.recv_into(puller.reader.get_buffer())
    if size == 0:
        raise QmqError("the broker closed the connection")
    return puller.reader.buffer_updated(size)


def _pull(puller: PullingConnection, arguments: argparse.Namespace, timeout_ms: int, before: bytes = b"") -> None:
    """Send a pull, in one call with the ack before it."""
    request = PullRequest(
        arguments.subject, arguments.group, puller.consumer_id, arguments.batch, -1, puller.last, timeout_ms, False
    )
    puller.requested_at = time.perf_counter()
    puller.sock.sendall(before + encode_request(Command.PULL_MESSAGE, 0, request.encode()))


def no_answer() -> str:
    return f"the brokers have not responded for {limits.ANSWER_SECONDS:g} s; check `qmq status` and their logs"


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
    """Return the addresses of the subject's broker groups, each `--connections` times. A new subject is created."""

    async def route() -> list[tuple[str, int]]:
        session = MetaSession(
            meta_urls(arguments.meta),
            app="qmq-bench",
            client_id="bench",
            timeouts=limits.TIMEOUTS,
            backoff=DEFAULT_BACKOFF,
        )
        pool = Pool(limits.TIMEOUTS.connect)
        session.start()
        group = arguments.group if client_type is ClientType.CONSUMER else ""
        try:
            routes = await reach(
                session, pool, arguments.subject, client_type, group, seconds=limits.REACH_SECONDS, backoff=DEFAULT_BACKOFF,
            )  # fmt: skip
        finally:
            await session.close()
            await pool.close()
        used = [split_address(route.master) for route in routes if arguments.broker_group in (None, route.name)]
        return [address for address in used for _ in range(arguments.connections)]

    with limits.only_the_error():
        addresses = asyncio.run(route())
    if not addresses:
        names = [group["name"] for group in fetch_metaserver_page(arguments.meta, CLUSTER_PAGE)["broker_groups"]]
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
        say_json({"what": arguments.kind, "messages": messages, **measured, **shape})
        return
    say(
        f"{arguments.kind}: {messages:,} messages in {seconds:.2f} s:"
        f" {rates['messages_per_s']:,.0f} msgs/s, {rates['mb_per_s']:.1f} MB/s,"
        f" p50 {latency['p50_ms']:.2f} ms, p99 {latency['p99_ms']:.2f} ms, p99.9 {latency['p999_ms']:.2f} ms"
        f" ({arguments.size} B, batches of {arguments.batch}, {connections} connections, {window} frames in flight each)"
    )


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
    places = _addresses(arguments, client_type)
    batch = min(arguments.batch, arguments.count)
    frames = [encode_request(Command.SEND_MESSAGE, 1, body) for body in bodies]
    window = arguments.window or max(2, WINDOW_MESSAGES // batch)
    total = max(1, arguments.count // batch)
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
    pullers = [
        PullingConnection(connect(place), FrameReader(), f"bench@@{time.time_ns():x}-{i}")
        for i, place in enumerate(_addresses(arguments, ClientType.CONSUMER))
    ]
    with contextlib.ExitStack() as sockets:
        for puller in pullers:
            sockets.enter_context(puller.sock)
        got, got_bytes, seconds, latencies = pull_all(pullers, arguments)
    _report(arguments, got, seconds, got_bytes, latencies, len(pullers), 1)
    if not got:
        warn(
            f"nothing arrived. If group {arguments.group} existed before, it continues where it was, which may be the end"
            f" of {arguments.subject}. `qmq lag {arguments.subject}` shows what is left; use another --group to read from the"
            " beginning."
        )
    return 0 if got >= arguments.count else 3
