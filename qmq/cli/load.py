"""The connections of `qmq bench`: sending and pulling with non-blocking sockets, as light per message as Python allows."""

import argparse
import selectors
import socket
import time
from collections import deque
from dataclasses import dataclass

from qmq.cli import limits
from qmq.client.source import start_unsupported
from qmq.errors import QmqError
from qmq.protocol.codes import Command, ResponseCode
from qmq.protocol.commands import PULL_RESPONSE_HEAD, AckRequest, PullRequest
from qmq.protocol.extensions import EnsureGroupRequest
from qmq.protocol.frames import HEADER_BYTES, Frame, FrameReader, encode_request
from qmq.protocol.scan import walk_raws

RECEIVE_BYTES = 1 << 20


@dataclass(slots=True)
class SendingConnection:
    sock: socket.socket
    frames: int
    sent: int = 0
    answered: int = 0
    out: memoryview = memoryview(b"")  # noqa: RUF009 - immutable
    stray: int = 0


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
    ours = {line.sock: line for line in lines}
    buffer = bytearray(RECEIVE_BYTES)
    latencies: list[float] = []
    for line in lines:
        selector.register(line.sock, selectors.EVENT_READ)
    meant_by = {id(line): deque[float]() for line in lines}
    began = time.perf_counter()
    open_lines = sum(line.frames > 0 for line in lines)
    while open_lines:
        now = time.perf_counter()
        soonest: float | None = None
        for line in lines:
            times = meant_by[id(line)]
            while line.out or (line.sent < line.frames and line.sent - line.answered < window):
                if not line.out:
                    slot = now if interval is None else began + line.sent * interval
                    if slot > now:
                        soonest = slot if soonest is None else min(soonest, slot)
                        break
                    line.out = memoryview(frames[line.sent % len(frames)])
                    line.sent += 1
                    times.append(slot)
                try:
                    line.out = line.out[line.sock.send(line.out) :]
                except BlockingIOError:
                    break
            events = selectors.EVENT_READ | (selectors.EVENT_WRITE if line.out else 0)
            if selector.get_key(line.sock).events != events:
                selector.modify(line.sock, events)
        pause = limits.ANSWER_SECONDS if soonest is None else max(0.0, soonest - time.perf_counter())
        events_now = selector.select(min(pause, limits.ANSWER_SECONDS))
        if not events_now and soonest is None:
            raise QmqError(no_answer())
        for key, mask in events_now:
            if not mask & selectors.EVENT_READ:
                continue
            line = ours[key.fileobj]  # type: ignore[index]
            size = line.sock.recv_into(buffer)
            if size == 0:
                raise QmqError("the broker closed the connection")
            answers, line.stray = divmod(line.stray + size, HEADER_BYTES)
            if buffer[:size].count(b"\xde\xc1\x0a\xde") > answers + 1:
                raise QmqError("the broker returned an error")
            now = time.perf_counter()
            times = meant_by[id(line)]
            for _ in range(answers):
                latencies.append(now - times.popleft())
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
    by_sock = {puller.sock: puller for puller in pullers}
    for puller in pullers:
        _ensure_group(puller, ensure)
    for puller in pullers:
        selector.register(puller.sock, selectors.EVENT_READ)
        _pull(puller, arguments, 1)
    began = time.perf_counter()
    while got < arguments.count and any(puller.idle < 2 for puller in pullers):
        events = selector.select(limits.ANSWER_SECONDS)
        if not events:
            raise QmqError(no_answer())
        for key, _ in events:
            puller = by_sock[key.fileobj]  # type: ignore[index]
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
                    _send_all(puller.sock, encode_request(Command.ACK_REQUEST, 0, ack.encode()))
                    puller.last, puller.idle = last, 0
                else:
                    puller.idle += 1
                _pull(puller, arguments, 200)
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
    puller.sock.setblocking(False)
    if frames[0].code == ResponseCode.UNKNOWN_CODE:
        raise start_unsupported("{}:{}".format(*puller.sock.getpeername()[:2]), request)


def _receive(puller: PullingConnection) -> list[Frame]:
    size = puller.sock.recv_into(puller.reader.get_buffer())
    if size == 0:
        raise QmqError("the broker closed the connection")
    return puller.reader.buffer_updated(size)


def _pull(puller: PullingConnection, arguments: argparse.Namespace, timeout_ms: int) -> None:
    request = PullRequest(
        arguments.subject, arguments.group, puller.consumer_id, arguments.batch, -1, puller.last, timeout_ms, False
    )
    puller.requested_at = time.perf_counter()
    _send_all(puller.sock, encode_request(Command.PULL_MESSAGE, 0, request.encode()))


def no_answer() -> str:
    return f"the brokers have not responded for {limits.ANSWER_SECONDS:g} s; check `qmq status` and their logs"


def _send_all(sock: socket.socket, data: bytes) -> None:
    sock.setblocking(True)
    sock.sendall(data)
    sock.setblocking(False)
