"""Nodes inside the test's own process and loop, and a raw client for them."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from broker_node.broker import Broker
from broker_node.options import BrokerOptions
from delay_node.delay_node import DelayNode
from delay_node.options import DelayOptions
from metaserver.choices import GroupState
from metaserver.options import MetaOptions
from metaserver.server import Metaserver
from qmq.clock import Clock, SystemClock
from qmq.net.caller import Caller
from qmq.net.discovery import http_get
from qmq.protocol.codes import Command, ResponseCode
from qmq.protocol.commands import AckRequest, Filter, PullRequest, PullResponse, SendFailure, decode_send_response
from qmq.protocol.delayed import (
    CancelDelayedRequest,
    CancelDelayedResponse,
    ChangeDelayedRequest,
    ChangeDelayedResponse,
    DelayedCalendar,
    DelayedCalendarRequest,
    DelayedChange,
    DelayedPage,
    DelayedTarget,
    FindDelayedRequest,
    ListDelayedRequest,
    Operation,
)
from qmq.protocol.extensions import EnsureGroupRequest, LeaveGroupRequest
from qmq.protocol.frames import Frame
from qmq.protocol.messages import FLAG_DELAY, KEY_SCHEDULE, Message, decode_raws, encode_entry
from qmq.supervisor import JobKind
from qmq_node.log.disk import Disk, SystemDisk
from qmq_node.node.node import Node
from qmq_node.process.machine import Machine
from qmq_node.replication.replica_state import ReplicaStateFile
from qmq_node.replication.rules.roles import ReplicaState
from qmq_testing.repository import MemoryRepository
from tests.sim.world.blocking import run_blocking
from tests.sim.world.world import World
from tests.support.disks.checked_disk import CheckedDisk
from tests.support.waiting import eventually_async

T = TypeVar("T")
CREATED = {"qmq_createTime": "1700000000000"}


def message(number: int, subject: str = "orders", tags: tuple[str, ...] = (), size: int = 0) -> Message:
    """A message that tells itself apart."""
    properties = {**CREATED, "number": str(number), **({"data": "x" * size} if size else {})}
    return Message(subject, f"m{number}", properties, tags, 0, 1_700_000_000_000, 1_700_000_000_000)


def delayed(number: int, due_ms: int, subject: str = "orders", **properties: str) -> Message:
    """A delayed message as the official client makes it."""
    plain = message(number, subject)
    return replace(
        plain,
        properties={**plain.properties, KEY_SCHEDULE: str(due_ms), **properties},
        flag=FLAG_DELAY,
        time_ms=due_ms,
    )


class Client:
    """Raw requests on one connection."""

    def __init__(self, caller: Caller) -> None:
        self.caller = caller

    async def send(self, *messages: Message) -> dict[str, SendFailure]:
        """Failures by message id."""
        frame = await self.caller.call(
            Command.SEND_MESSAGE, b"".join(encode_entry(item) for item in messages), timeout_s=30
        )
        assert frame.code == ResponseCode.SUCCESS, frame.code
        return decode_send_response(frame.body)

    async def pull(
        self,
        subject: str = "orders",
        group: str = "g",
        consumer: str = "c1",
        *,
        limit: int = 50,
        last: int = -1,
        timeout_ms: int = -1,
        broadcast: bool = False,
        filters: tuple[Filter, ...] = (),
        version: int = 9,
    ) -> tuple[int, list[str]]:
        """(first pull sequence, message ids); (-1, []) for nothing."""
        request = PullRequest(subject, group, consumer, limit, -1, last, timeout_ms, broadcast, filters)
        frame = await self.caller.call(
            Command.PULL_MESSAGE, request.encode(version), timeout_s=timeout_ms / 1000 + 10, version=version
        )
        if frame.code == ResponseCode.NO_MESSAGE:
            return -1, []
        assert frame.code == ResponseCode.SUCCESS, frame.code
        answer = PullResponse.decode(frame.body)
        assert answer.raws
        return answer.pull_begin, [item.message_id for item in decode_raws(answer.raws)]

    async def ack(
        self,
        begin: int,
        last: int,
        subject: str = "orders",
        group: str = "g",
        consumer: str = "c1",
        broadcast: bool = False,
    ) -> int:
        """The answer's code."""
        request = AckRequest(subject, group, consumer, begin, last, broadcast)
        return (await self.caller.call(Command.ACK_REQUEST, request.encode(), timeout_s=30)).code

    async def begin(
        self,
        subject: str = "orders",
        group: str = "g",
        start: str = "earliest",
        value: int = 0,
        broadcast: bool = False,
    ) -> int:
        """Make, or set, a group's position; the answer's code."""
        request = EnsureGroupRequest(subject, group, start, value, False, broadcast)
        return (await self.caller.call(Command.ENSURE_GROUP, request.encode(), timeout_s=30)).code

    async def change(self, operation: Operation, *targets: DelayedTarget, due_ms: int = -1) -> list[DelayedChange]:
        """Cancel, reschedule, deliver."""
        body = ChangeDelayedRequest(operation, due_ms, targets).encode()
        frame = await self.caller.call(Command.CHANGE_DELAYED, body, timeout_s=30)
        assert frame.code == ResponseCode.SUCCESS, bytes(frame.body)
        return list(ChangeDelayedResponse.decode(frame.body).changes)

    async def find(self, message_id: str, subject: str = "", due_ms: int = -1) -> DelayedPage:
        """All copies of a delayed message."""
        body = FindDelayedRequest(DelayedTarget(message_id, subject, due_ms)).encode()
        frame = await self.caller.call(Command.FIND_DELAYED, body, timeout_s=30)
        assert frame.code == ResponseCode.SUCCESS, bytes(frame.body)
        return DelayedPage.decode(frame.body)

    async def listed(self, query: ListDelayedRequest) -> DelayedPage:
        """A page of delayed messages."""
        frame = await self.caller.call(Command.LIST_DELAYED, query.encode(), timeout_s=30)
        assert frame.code == ResponseCode.SUCCESS, bytes(frame.body)
        return DelayedPage.decode(frame.body)

    async def cancel_matching(self, query: ListDelayedRequest, dry_run: bool) -> CancelDelayedResponse:
        """One step of a bulk cancel."""
        body = CancelDelayedRequest(query, dry_run).encode()
        frame = await self.caller.call(Command.CANCEL_DELAYED, body, timeout_s=30)
        assert frame.code == ResponseCode.SUCCESS, bytes(frame.body)
        return CancelDelayedResponse.decode(frame.body)

    async def calendar(self, subject: str, from_ms: int, to_ms: int) -> dict[int, int]:
        """Pending messages by begin of the hour."""
        body = DelayedCalendarRequest(subject, from_ms, to_ms).encode()
        frame = await self.caller.call(Command.DELAYED_CALENDAR, body, timeout_s=30)
        assert frame.code == ResponseCode.SUCCESS, bytes(frame.body)
        return dict(DelayedCalendar.decode(frame.body).hours)

    async def leave(self, consumer: str, subject: str = "orders", group: str = "g") -> Frame:
        """The answer to a consumer that leaves its group."""
        return await self.raw(Command.LEAVE_GROUP, LeaveGroupRequest(subject, group, consumer).encode())

    async def raw(self, code: int, body: bytes, version: int = 9) -> Frame:
        """Any request."""
        return await self.caller.call(code, body, timeout_s=30, version=version)


def machine(clock: Clock | None = None, disk: Disk | None = None) -> Machine:
    """What a node runs on: simulated below tests/sim, real elsewhere."""
    loop = asyncio.get_running_loop()
    if isinstance(loop, World):
        return loop.machine(clock, disk)
    return Machine(clock=clock or SystemClock(), disk=disk or SystemDisk())


def default_disk() -> Disk:
    """The disk of nodes that are started without one. It outlives them: a node started again in a folder finds its files."""
    return machine().disk


def files_in(folder: Path | str, disk: Disk | None = None) -> list[str]:
    """The paths of all files in a folder of a node's disk and in the folders below it, sorted."""
    disk, found = disk or default_disk(), []
    for name in disk.list_dir(str(folder)):
        path = f"{folder}/{name}"
        found += files_in(path, disk) or ([path] if _is_file(path, disk) else [])
    return found


def _is_file(path: str, disk: Disk) -> bool:
    try:
        file = disk.open(path, writable=False)
        try:
            file.pread(1, 0)
        finally:
            file.close()
    except OSError:
        return False
    return True


def read_file(path: Path | str, disk: Disk | None = None) -> bytes:
    """The content of a file on a node's disk."""
    file = (disk or default_disk()).open(str(path), writable=False)
    try:
        return file.pread(file.size(), 0)
    finally:
        file.close()


def write_file(path: Path | str, data: bytes, disk: Disk | None = None, *, at: int | None = None) -> None:
    """Replace a file's content; with `at`, only the bytes from there on. Creates the file and its folder if need be."""
    disk = disk or default_disk()
    if not _is_file(str(path), disk):
        disk.make_dir(str(Path(path).parent))
        disk.create(str(path), 0).close()
    file = disk.open(str(path), writable=True)
    try:
        if at is None:
            file.truncate(len(data))
        file.pwritev([data], at or 0)
        file.datasync()
    finally:
        file.close()


def remove_files(folder: Path | str, disk: Disk | None = None) -> None:
    """Remove all files in a folder and below it."""
    disk = disk or default_disk()
    for path in files_in(folder, disk):
        disk.remove(path)


def copy_files(folder: Path | str, target: Path | str, disk: Disk | None = None) -> None:
    """Copy a folder with all files below it."""
    disk = disk or default_disk()
    for path in files_in(folder, disk):
        write_file(f"{target}{path.removeprefix(str(folder))}", read_file(path, disk), disk)


async def blocking(work: Callable[[], T]) -> T:
    """Run a function that blocks on sockets in a thread: in virtual time below tests/sim."""
    if isinstance(asyncio.get_running_loop(), World):
        return await run_blocking(work)
    return await asyncio.to_thread(work)


async def get_page(place: Node | Metaserver | str, path: str = "", timeout_s: float = 20.0) -> tuple[int, bytes]:
    """Status and body of a page of a node's admin port, a metaserver's HTTP port or a base URL."""
    if not isinstance(place, str):
        host, port = place.admin.address
        place = f"http://{host}:{port}"
    return await http_get(place + path, timeout_s=timeout_s)


async def get_json(place: Node | Metaserver | str, path: str = "", timeout_s: float = 20.0) -> tuple[int, Any]:
    """Status and JSON of a page; places as `get_page`."""
    status, body = await get_page(place, path, timeout_s)
    return status, json.loads(body)


def make_only_member(data_dir: Path) -> None:
    """Have the node of a data folder serve at its next start, as if a metaserver had said before that it is the only member."""
    disk = default_disk()
    disk.make_dir(str(data_dir))
    state = ReplicaStateFile(disk, str(data_dir))
    state.load()
    state.save(ReplicaState())


@asynccontextmanager
async def running_broker(
    folder: Path, *, clock: Clock | None = None, disk: Disk | None = None, **settings: Any
) -> AsyncIterator[Broker]:
    """A broker on free ports, without a metaserver."""
    defaults: dict[str, Any] = {"segment_bytes": 4 << 20, "retry_delay_seconds": 0.0, "meta": ""}
    options = BrokerOptions(data_dir=str(folder / "broker"), port=0, admin_port=0, **{**defaults, **settings})
    checked = CheckedDisk(disk or default_disk())
    checked.node = broker = Broker(options, machine(clock, checked))
    try:
        await broker.start()
        yield broker
        checked.assert_clean()
    finally:
        await broker.close()


@asynccontextmanager
async def connected(node: Node) -> AsyncIterator[Client]:
    """A client of it."""
    caller = Caller(*node.server.address)
    await caller.connect()
    try:
        yield Client(caller)
    finally:
        await caller.close()


def stored_in(brokers: Iterable[Broker], subject: str) -> list[Message]:
    """What brokers hold of a subject, in the order of each broker's log."""
    found: list[Message] = []
    for broker in brokers:
        if subject in broker.store.subjects:
            kept = broker.store.subjects[subject]
            raws = broker.store.message_log.read_raws(
                kept.consume_log.read(kept.begin, kept.visible_end), cached_only=False
            )
            found += [decode_raws(raw)[0] for raw in raws if raw is not None]
    return found


@dataclass
class SmallSystem:
    """A metaserver that keeps its data in memory, brokers, and a delay node, all in this loop."""

    folder: Path
    meta: Metaserver
    brokers: dict[str, Broker] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    clock: Clock | None = None
    delay: DelayNode = field(init=False)
    disks: list[CheckedDisk] = field(default_factory=list)
    """Of all servers that were started."""

    @property
    def meta_url(self) -> str:
        return "http://{}:{}/meta/address".format(*self.meta.admin.address)

    def checked_disk(self) -> CheckedDisk:
        """The disk of a node that is to be started."""
        self.disks.append(CheckedDisk(default_disk()))
        return self.disks[-1]

    async def start_broker(self, group: str, port: int = 0) -> Broker:
        """A broker group, new or again."""
        options = BrokerOptions(
            broker_group=group, data_dir=str(self.folder / group), port=port, admin_port=0, meta=self.meta_url,
            segment_bytes=16 << 20, retry_delay_seconds=0.0,
        )  # fmt: skip
        disk = self.checked_disk()
        disk.node = broker = self.brokers[group] = Broker(options, machine(disk=disk))
        await broker.start()
        return broker

    async def start_delay(self, **settings: Any) -> DelayNode:
        """The delay node, new or again."""
        defaults: dict[str, Any] = {"segment_bytes": 16 << 20, "stop_seconds": 1.0}
        options = DelayOptions(
            data_dir=str(self.folder / "d1"), port=0, admin_port=0, meta=self.meta_url,
            **{**defaults, **self.settings, **settings},
        )  # fmt: skip
        disk = self.checked_disk()
        disk.node = self.delay = DelayNode(options, machine(self.clock, disk))
        await self.delay.start()
        return self.delay

    def stored(self, subject: str) -> list[Message]:
        """What the brokers hold of a subject, in the order of each broker's log."""
        return stored_in(self.brokers.values(), subject)

    def counts(self, subject: str) -> Counter[str]:
        """How often each message id is stored."""
        return Counter(item.message_id for item in self.stored(subject))


@asynccontextmanager
async def small_system(
    folder: Path, *, groups: int = 1, clock: Clock | None = None, with_delay: bool = True, **settings: Any
) -> AsyncIterator[SmallSystem]:
    """A whole system; `settings` are the delay node's."""
    meta_disk = CheckedDisk(default_disk())
    meta_disk.node = meta = Metaserver(
        MetaOptions(data_dir=str(folder / "meta"), http_port=0, tcp_port=0, new_groups="allow"),
        MemoryRepository(),
        machine(disk=meta_disk),
    )
    await meta.start()
    system = SmallSystem(folder, meta, settings=settings, clock=clock, disks=[meta_disk])
    try:
        async with AsyncExitStack() as stack:
            for number in range(1, groups + 1):
                await system.start_broker(f"g{number}")
            stack.push_async_callback(_close_brokers, system)
            if with_delay:
                await system.start_delay()
                stack.push_async_callback(_close_delay, system)
            # A new subject is served by those that have registered.
            names = {*system.brokers, *(["d1"] if with_delay else [])}
            await eventually_async(lambda: names <= serving(meta), what="every group is read_write")
            yield system
            for disk in system.disks:
                disk.assert_clean()
    finally:
        await meta.close()


def serving(meta: Metaserver) -> set[str]:
    """The broker and delay groups that are read_write."""
    return {name for name, live in meta.directory.groups.items() if live.state is GroupState.READ_WRITE}


async def _close_brokers(system: SmallSystem) -> None:
    for broker in system.brokers.values():
        await broker.close()


async def _close_delay(system: SmallSystem) -> None:
    await system.delay.close()


class ShiftedClock:
    """The machine's clocks, the wall clock set wrong by `offset_ms`."""

    def __init__(self, offset_ms: int = 0) -> None:
        self._clock = SystemClock()
        self.offset_ms = offset_ms

    def monotonic(self) -> float:
        return self._clock.monotonic()

    def wall_ms(self) -> int:
        return self._clock.wall_ms() + self.offset_ms


def now_ms() -> int:
    """The wall clock."""
    return SystemClock().wall_ms()


async def run_jobs(node: Node | Metaserver) -> None:
    """Run each periodic job of a process once, without waiting for its period."""
    supervisor = node.supervisor
    before = {job.name: job.runs for job in supervisor.status() if job.kind is JobKind.PERIODIC}
    for name in before:
        supervisor.run_soon(name)

    def has_run() -> bool:
        return all(job.runs > before[job.name] and not job.running for job in supervisor.status() if job.name in before)

    await eventually_async(has_run, what="every job ran")
