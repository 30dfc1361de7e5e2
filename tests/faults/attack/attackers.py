"""Clients that attack a running system on loopback, each with limits of its own: what they may open, send and keep.

    python -m tests.faults.attack.attackers KIND PLAN

PLAN is JSON: `frames`, `pages` and `brokers` (some of `pages`) are lists of `[host, port]`, `console` and `metaserver` (one of
`pages`) are one, `subject` has messages, `seed` is a number, `node_token` is the file of the node secret. The process attacks
until it gets SIGTERM, then prints what it did as one line of JSON.
"""

import asyncio
import contextlib
import fcntl
import json
import os
import random
import signal
import sys
import termios
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

from qmq.net.http_auth import RequestSigner
from qmq.net.node_secret import NodeSecret
from qmq.protocol.codes import Command
from qmq.protocol.commands import PullRequest
from qmq.protocol.delayed import ListDelayedRequest
from qmq.protocol.extensions import EnsureGroupRequest
from qmq.protocol.frames import encode_request
from tests.unit.fuzz.mutations import mutated
from tests.unit.qmq.protocol.examples import FRAMES

SLOW_READERS = 30
"""Connections that ask and do not read."""
REQUESTS_EACH = 60
SLOW_REQUESTS = 300
"""Connections to the console with half a request."""
SLOW_REQUESTS_A_PORT = 100
"""The same to each other port."""
SCRAPERS = 4
BODY_BYTES_MAX = 64 << 20
"""Of one endless request body: where the attack stops by itself."""
RETRY_SECONDS = 0.25
"""Pause before a connection is replaced that the system closed."""
FUZZ_PAUSE_SECONDS = 0.005
"""After each mutated frame or request: some 200 a second for each port."""
ANSWER_SECONDS = 0.5
"""How long a mutated frame may leave its connection without an answer before the next comes on another one."""

Address = tuple[str, int]


class Plan:
    """What is attacked, and what was done."""

    def __init__(self, plan: dict[str, Any]) -> None:
        self.frames: list[Address] = [(host, port) for host, port in plan["frames"]]
        self.pages: list[Address] = [(host, port) for host, port in plan["pages"]]
        self.console: Address = (plan["console"][0], plan["console"][1])
        self.brokers: list[Address] = [(host, port) for host, port in plan["brokers"]]
        self.metaserver: Address = (plan["metaserver"][0], plan["metaserver"][1])
        self.subject: str = plan["subject"]
        self.node_token: str = plan["node_token"]
        self.random = random.Random(plan["seed"])
        self.done: Counter[str] = Counter()


async def slow_readers(plan: Plan) -> None:
    """Ask brokers and delay nodes for much, again and again, and read nothing (F-1)."""

    async def one(address: Address, n: int) -> None:
        pull = PullRequest(plan.subject, f"slow{n}", "c", 1000, -1, -1, -1, False).encode()
        begin = EnsureGroupRequest(plan.subject, f"slow{n}", "earliest", 0, only_if_new=True, broadcast=False).encode()
        delayed = ListDelayedRequest(plan.subject, 0, 1 << 60, limit=1000).encode()
        asks = [(Command.PULL_MESSAGE, pull), (Command.LIST_DELAYED, delayed)]
        reader, writer = await asyncio.open_connection(*address)
        try:
            reader._transport.pause_reading()  # type: ignore[attr-defined]
            writer.write(encode_request(Command.ENSURE_GROUP, REQUESTS_EACH, begin))
            for number in range(REQUESTS_EACH):
                command, body = asks[number % 2] if n % 2 else asks[0]
                writer.write(encode_request(command, number, body))
            plan.done["asked"] += REQUESTS_EACH
            # Ends with the connection: nothing is read.
            await reader.read()
        finally:
            plan.done["answered_bytes"] += _unread_bytes(writer)
            writer.transport.abort()

    await _keep([(lambda n=n, a=address: one(a, n)) for n in range(SLOW_READERS) for address in plan.frames], plan)


async def slow_requests(plan: Plan, *, everywhere: bool = True) -> None:
    """Hold connections with half a request (F-9): to all ports, or to the console alone."""

    async def one(address: Address, data: bytes) -> None:
        reader, writer = await asyncio.open_connection(*address)
        try:
            writer.write(data)
            plan.done["held"] += 1
            await reader.read()
        finally:
            writer.transport.abort()

    half_head = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: "
    half_frame = FRAMES["P1"][:30]
    works: list[Callable[[], Awaitable[None]]] = [
        (lambda a=plan.console: one(a, half_head)) for _ in range(SLOW_REQUESTS)
    ]
    if everywhere:
        works += [(lambda a=address: one(a, half_head)) for address in plan.pages for _ in range(SLOW_REQUESTS_A_PORT)]
        works += [
            (lambda a=address: one(a, half_frame)) for address in plan.frames for _ in range(SLOW_REQUESTS_A_PORT)
        ]
    await _keep(works, plan)


async def bodies(plan: Plan) -> None:
    """Send request bodies without end to the console (F-8)."""
    paths = ("/_allauth/browser/v1/auth/login", "/api/v1/subjects/", "/api/v1/messages/orders/")
    piece = bytes(64 << 10)

    async def one(path: str, is_chunked: bool) -> None:
        length = "Transfer-Encoding: chunked" if is_chunked else "Content-Length: 3000000000"
        reader, writer = await asyncio.open_connection(*plan.console)
        try:
            writer.write(
                f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n{length}\r\n\r\n".encode()
            )
            sent = 0
            while sent < BODY_BYTES_MAX:
                writer.write(b"%x\r\n%b\r\n" % (len(piece), piece) if is_chunked else piece)
                await writer.drain()
                sent += len(piece)
                plan.done["body_bytes"] += len(piece)
            plan.done["bodies_taken_whole"] += 1
            await reader.read()
        finally:
            plan.done["bodies"] += 1
            writer.transport.abort()

    await _keep([(lambda p=path, c=chunked: one(p, c)) for path in paths for chunked in (True, False)], plan)


async def scrapes(plan: Plan, *, loops_a_node: int = SCRAPERS, is_of_brokers: bool = False) -> None:
    """Ask for the expensive pages of nodes in loops (F-11): with the node secret, as a collector does, where a page takes it."""
    secret = NodeSecret.load("", plan.node_token)
    assert secret is not None
    signer = RequestSigner(secret)

    async def one(address: Address, path: str) -> None:
        server, is_open = f"{address[0]}:{address[1]}", path == "/metrics"
        reader, writer = await asyncio.open_connection(*address)
        try:
            while True:
                proof = "" if is_open else signer.header(server, "GET", path, b"")
                proof = f"Authorization: {proof}\r\n" if proof else ""
                writer.write(f"GET {path} HTTP/1.1\r\nHost: {server}\r\n{proof}\r\n".encode())
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                headers = {
                    name.lower(): value for name, _, value in (line.partition(": ") for line in head.split("\r\n"))
                }
                await reader.readexactly(int(headers["content-length"]))
                if "www-authenticate" in headers:
                    signer.learn(server, headers["www-authenticate"])
                plan.done[f"{path} {head.split(' ', 2)[1]}"] += 1
        finally:
            writer.transport.abort()

    paths = {a: ("/metrics", "/meta/subjects" if a == plan.metaserver else "/stats") for a in plan.pages}
    works = [(a, paths[a][n % 2]) for a in (plan.brokers if is_of_brokers else plan.pages) for n in range(loops_a_node)]
    await _keep([(lambda a=a, p=path: one(a, p)) for a, path in works], plan)


async def scrapes_and_slow_requests(plan: Plan) -> None:
    """Four loops on the two brokers, and 300 slow requests to the console: a producer keeps 95 % of its rate (F-9, F-11)."""
    await asyncio.gather(scrapes(plan, loops_a_node=2, is_of_brokers=True), slow_requests(plan, everywhere=False))


async def scrapes_and_slow_requests_everywhere(plan: Plan) -> None:
    """The same on all ports: 16 loops and 1,100 slow requests."""
    await asyncio.gather(scrapes(plan), slow_requests(plan))


async def fuzz(plan: Plan) -> None:
    """Send mutated frames and requests to every port."""
    seeds = [frame for name, frame in FRAMES.items() if not name.endswith("r")]

    async def frames(address: Address) -> None:
        while True:
            reader, writer = await asyncio.open_connection(*address)
            try:
                for _ in range(20):
                    whole = plan.random.choice(seeds)
                    if plan.random.random() < 0.7:
                        # The body only, so that it is read and not the header that is refused.
                        body = mutated(plan.random, whole[24:])
                        code = int.from_bytes(whole[10:12], "big")
                        data = encode_request(code, plan.random.randrange(1 << 31), body)
                    else:
                        data = mutated(plan.random, whole)
                    writer.write(data)
                    await writer.drain()
                    plan.done["frames"] += 1
                    with contextlib.suppress(TimeoutError):
                        if not await asyncio.wait_for(reader.read(1 << 16), ANSWER_SECONDS):
                            break
                    await asyncio.sleep(FUZZ_PAUSE_SECONDS)
            except OSError:
                plan.done["closed"] += 1
            finally:
                writer.transport.abort()

    requests = [
        b"GET /stats?after=a&limit=5 HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: */*\r\n\r\n",
        b"GET /subjects/orders/messages?sequence=0&limit=3 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"POST /groups/forget HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 13\r\n\r\n"
        b'{"force": 0.1',
        b"GET /api/v1/subjects/?limit=3&search=a HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer qmq_a\r\n\r\n",
        b"GET /ws/lag/ HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n",
        b"GET /meta/address HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    ]

    async def pages(address: Address) -> None:
        while True:
            reader, writer = await asyncio.open_connection(*address)
            try:
                writer.write(mutated(plan.random, plan.random.choice(requests)))
                plan.done["requests"] += 1
                with contextlib.suppress(TimeoutError):
                    line = await asyncio.wait_for(reader.readline(), ANSWER_SECONDS)
                    if line.split(b" ")[1:2] == [b"500"]:
                        plan.done["answers_500"] += 1
            except OSError:
                plan.done["closed"] += 1
            finally:
                writer.transport.abort()
            await asyncio.sleep(FUZZ_PAUSE_SECONDS)

    works: list[Callable[[], Awaitable[None]]] = [(lambda a=a: frames(a)) for a in plan.frames]
    works += [(lambda a=a: pages(a)) for a in (*plan.pages, plan.console)]
    await _keep(works, plan)


KINDS = {
    work.__name__: work
    for work in (slow_readers, scrapes_and_slow_requests, scrapes_and_slow_requests_everywhere, bodies, fuzz)
}


def _unread_bytes(writer: asyncio.StreamWriter) -> int:
    """Bytes that arrived at a connection and were not read; 0 for one that the other side closed."""
    number: int = writer.get_extra_info("socket").fileno()
    if number < 0:
        return 0
    return int.from_bytes(fcntl.ioctl(number, termios.FIONREAD, bytes(4)), sys.byteorder)


async def _keep(works: list[Callable[[], Awaitable[None]]], plan: Plan) -> None:
    """Run each work for ever; one that ends, because the system closed its connection, begins again after a pause."""

    async def keep(work: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                await work()
            except (OSError, EOFError):
                plan.done["closed"] += 1
            await asyncio.sleep(RETRY_SECONDS)

    await asyncio.gather(*(keep(work) for work in works))


async def _attack(kind: str, plan: Plan) -> None:
    task = asyncio.ensure_future(KINDS[kind](plan))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await task
    print(json.dumps(plan.done), flush=True)


if __name__ == "__main__":
    # What the attacker computes itself is not what the system does: the system's processes come first.
    os.nice(19)
    asyncio.run(_attack(sys.argv[1], Plan(json.loads(sys.argv[2]))))
