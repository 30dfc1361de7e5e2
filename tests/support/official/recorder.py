"""Record scenarios against an official QMQ cluster: `python -m tests.support.official.recorder ADDRESS FOLDER [SCENARIO ...]`.

ADDRESS is the metaserver's HTTP address. The cluster has broker groups g1 and g2 with a slave of g1, a delay group d1, and new
subjects get both broker groups (`min.group.num=2`). The recorder stands between the client and every node: it stores each frame as
it was on the wire, and replaces the nodes' addresses by its own only in what it hands on.
"""

import argparse
import asyncio
import inspect
import time
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from qmq.errors import ConnectionLost
from qmq.net.caller import Caller
from qmq.protocol.codes import Command, ResponseCode
from qmq.protocol.commands import ClientRegisterResponse
from qmq.protocol.frames import Frame, FrameReader
from tests.support.drivers.feeding import feed
from tests.support.drivers.wire import encode_response
from tests.support.official.recording import (
    FIRST_OWN_COMMAND,
    LAST_PROBED_COMMAND,
    METASERVER,
    Exchanged,
    Page,
    Recording,
    describe_answer,
    describe_request,
    whole,
)
from tests.support.official.scenarios import SCENARIOS
from tests.support.official.scene import Scene

SETTLE_SECONDS = 1.0
READ_ONLY_SECONDS = 60.0
"""After this time every cache of the metaserver has a new read-only mark."""
READ_ONLY = {"read_only_group": ("rec.readonly", ("g1",)), "read_only_everywhere": ("rec.closed", ("g1", "g2"))}
BODY_CHARS = 200
OWN_COMMANDS = "own_commands"


class Recorder:
    """Forwards connections to a cluster's nodes and keeps every frame.

    Args:
        meta: the metaserver's HTTP address.
        led_to: where connections to a node's address lead instead.
    """

    def __init__(self, meta: str, recording: Recording, scene: Scene, led_to: dict[str, str]) -> None:
        self._meta = meta
        self._recording = recording
        self._scene = scene
        self._led_to = led_to
        self._began = time.monotonic()
        self._servers: dict[str, asyncio.Server] = {}
        self._connections = 0
        self._pumps: set[asyncio.Task[None]] = set()
        self._serving: set[asyncio.Future[None]] = set()

    async def start(self) -> None:
        """Listen for the client."""
        self._servers["http"] = await asyncio.start_server(self._page, "127.0.0.1", 0)
        self._scene.url = self.address("http")

    def address(self, name: str) -> str:
        """Where the client reaches a node through the recorder."""
        host, port = self._servers[name].sockets[0].getsockname()[:2]
        return f"{host}:{port}"

    async def close(self) -> None:
        """Close every connection."""
        for server in self._servers.values():
            server.close()
        for pump in self._pumps:
            pump.cancel()
        await asyncio.gather(*self._serving)

    async def proxied(self, node: str, address: str) -> str:
        """The recorder's address for a node."""
        if node not in self._servers:
            self._recording.nodes[node] = address
            target = self._led_to.get(node, address)

            async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                await self._serve(node, target, reader, writer)

            self._servers[node] = await asyncio.start_server(serve, "127.0.0.1", 0)
        return self.address(node)

    async def _page(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        path = (await reader.readuntil(b"\r\n\r\n")).split(b" ")[1].decode()
        status, body = await asyncio.to_thread(get, f"http://{self._meta}{path}")
        self._recording.pages.append(Page(path, status, body[:BODY_CHARS]))
        if path == "/meta/address":
            body = await self.proxied(METASERVER, body.strip())
        data = body.encode()
        writer.write(b"HTTP/1.1 %d X\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s" % (status, len(data), data))
        await writer.drain()
        writer.close()

    async def _serve(self, node: str, target: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections += 1
        number, pending = self._connections, dict[tuple[int, int], Frame]()
        done = asyncio.get_running_loop().create_future()
        self._serving.add(done)
        host, _, port = target.rpartition(":")
        try:
            back_reader, back_writer = await asyncio.open_connection(host, int(port))
            pumps = [
                asyncio.create_task(self._requests(node, number, pending, reader, back_writer)),
                asyncio.create_task(self._answers(node, number, pending, back_reader, writer)),
            ]
            self._pumps.update(pumps)
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
            back_writer.close()
        finally:
            writer.close()
            done.set_result(None)

    async def _requests(
        self,
        node: str,
        number: int,
        pending: dict[tuple[int, int], Frame],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        frames = FrameReader()
        while data := await reader.read(1 << 16):
            for frame in feed(frames, data):
                pending[frame.opaque, frame.code] = frame
                self._keep(node, number, "client", describe_request(frame), whole(frame))
                writer.write(whole(frame))
                self._scene.request_passed(node, frame)
            await writer.drain()

    async def _answers(
        self,
        node: str,
        number: int,
        pending: dict[tuple[int, int], Frame],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        frames = FrameReader()
        while data := await reader.read(1 << 16):
            for frame in feed(frames, data):
                request = pending[frame.opaque, frame.request_code]
                self._keep(node, number, "server", describe_answer(request, frame), whole(frame))
                handed_on = whole(frame)
                if request.code == Command.CLIENT_REGISTER and frame.code == ResponseCode.SUCCESS:
                    handed_on = encode_response(request, frame.code, await self._rerouted(frame))
                writer.write(handed_on)
                self._scene.answer_passed(node, request, frame)
            await writer.drain()

    async def _rerouted(self, frame: Frame) -> bytes:
        answer = ClientRegisterResponse.decode(frame.body, frame.version)
        routes = [
            replace(route, master=await self.proxied(route.name, route.master)) if route.master else route
            for route in answer.broker_groups
        ]
        return replace(answer, broker_groups=tuple(routes)).encode(frame.version)

    def _keep(self, node: str, number: int, sender: str, note: str, data: bytes) -> None:
        at_ms = int((time.monotonic() - self._began) * 1000)
        self._recording.frames.append(Exchanged(at_ms, node, number, sender, note, data))  # type: ignore[arg-type]


def get(url: str) -> tuple[int, str]:
    """Status and body of a page."""
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def mark(meta: str, token: str, action: str, subject: str, group: str) -> None:
    """Mark a broker group read-only for a subject, or remove the mark."""
    body = urllib.parse.urlencode({"action": action, "subject": subject, "brokerGroup": group}).encode()
    request = urllib.request.Request(f"http://{meta}/management", body, {"X-Api-Token": token})
    with urllib.request.urlopen(request, timeout=5) as answer:
        print(f"{action} {subject} {group}: {answer.read().decode().strip()}")


async def probe(recorder: Recorder, meta: str, addresses: dict[str, str]) -> None:
    """Send every own command to one node of each kind, with an empty body."""
    _, body = await asyncio.to_thread(get, f"http://{meta}/meta/address")
    for node, address in {METASERVER: body.strip(), **addresses}.items():
        host, _, port = (await recorder.proxied(node, address)).rpartition(":")
        caller = Caller(host, int(port))
        await caller.connect()
        for command in range(FIRST_OWN_COMMAND, LAST_PROBED_COMMAND + 1):
            try:
                await caller.call(command, b"", timeout_s=5)
            except ConnectionLost:
                break
        await caller.close()


async def record(name: str, options: argparse.Namespace) -> Recording:
    """Run one scenario."""
    function = SCENARIOS.get(name)
    description = (
        inspect.getdoc(function) if function else "Every own command, with an empty body, to each kind of node."
    ) or ""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    recording = Recording(name, " ".join(description.split()), options.server, now)
    scene = Scene(SETTLE_SECONDS)
    recorder = Recorder(options.address, recording, scene, {"g1": options.slave} if name == "demoted_master" else {})
    await recorder.start()
    try:
        if function is None:
            await probe(recorder, options.address, {"g1": options.broker, "slave": options.slave, "d1": options.delay})
        else:
            await function(scene)
    finally:
        await recorder.close()
    return recording


async def main() -> None:
    """Record scenarios into a folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("address", help="HTTP address of the metaserver, host:port")
    parser.add_argument("folder", type=Path)
    parser.add_argument("scenarios", nargs="*", help="default: all")
    parser.add_argument("--server", default="QMQ 1.1.44-SNAPSHOT", help="name and version of the server")
    parser.add_argument("--broker", default="127.0.0.1:20881", help="master of g1")
    parser.add_argument("--slave", default="127.0.0.1:20885", help="slave of g1")
    parser.add_argument("--delay", default="127.0.0.1:20801", help="master of d1")
    parser.add_argument("--token", default="token", help="of the metaserver's management page")
    options = parser.parse_args()
    names = options.scenarios or [OWN_COMMANDS, *SCENARIOS]
    marks = [
        (subject, group)
        for name in names
        if name in READ_ONLY
        for subject, groups in (READ_ONLY[name],)
        for group in groups
    ]
    for subject, group in marks:
        mark(options.address, options.token, "MarkReadonlyBrokerGroup", subject, group)
    if marks:
        await asyncio.sleep(READ_ONLY_SECONDS)
    try:
        for name in names:
            recording = await record(name, options)
            recording.save(options.folder / f"{name}.json")
            print(f"{name}: {len(recording.frames)} frames, {recording.frames[-1].at_ms / 1000:.1f} s", flush=True)
    finally:
        for subject, group in marks:
            mark(options.address, options.token, "UnMarkReadonlyBrokerGroup", subject, group)


if __name__ == "__main__":
    asyncio.run(main())
