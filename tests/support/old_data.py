"""Records data folders of a broker and a delay node of an older commit, with what they contain, for `tests/sim/old_data`.

It runs in a tree of that commit, with the nodes and the test support of that tree, as real processes:

    git worktree add ../before COMMIT
    cd ../before
    PYTHONPATH=$PWD python -P ../qmq/tests/support/old_data.py ../qmq/tests/sim/old_data/1

This writes `1-stopped.tar.xz` and `1-killed.tar.xz`: the number counts the recordings, one for each change of a format. Each
contains the data folders `g1` and `d1`, and `expected.json`, the fields of `Expected`. All nodes are stopped and started once in
between, which writes a checkpoint. After that they serve until they are stopped, or killed while everything since that checkpoint
is only in their logs.

It uses only what both trees have: `System` and the raw `Client`.
"""

import asyncio
import json
import sys
import tarfile
import tempfile
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import broker_node
from qmq.net.caller import Caller
from qmq.protocol.codes import Command, ResponseCode, TagType
from qmq.protocol.commands import TagFilter
from qmq.protocol.delayed import DelayedTarget, Operation, Outcome
from qmq.protocol.extensions import LeaveGroupRequest
from qmq.protocol.messages import FLAG_DELAY, KEY_SCHEDULE, Message
from tests.support.drivers.in_process import CREATED, Client, now_ms
from tests.support.servers.processes import get_json
from tests.support.servers.system import System

SEGMENT_BYTES = 1 << 20
LARGE_BYTES = 4_000
"""Of a message, so that the logs have several segments."""
BATCH = 50
SECOND = 1_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR
REQUEST_SECONDS = 20.0
OVERDUE_MS = 3 * SECOND
"""How long before their due time the last delayed messages are sent: the broker ends in between."""


@dataclass
class HeldBy:
    """What a consumer pulled. Pull sequences from `acked` on are in flight: those of the messages `held`."""

    acked: int = 0
    held: list[str] = field(default_factory=list)


@dataclass
class GroupOf:
    """A consumer group's progress on a subject. `unread` are the messages that it receives next; `tag` "" filters nothing."""

    subject: str
    name: str
    tag: str = ""
    broadcast: bool = False
    next_sequence: int = 0
    consumers: dict[str, HeldBy] = field(default_factory=dict)
    unread: list[str] = field(default_factory=list)

    @property
    def filters(self) -> tuple[TagFilter, ...]:
        return (TagFilter(TagType.OR, (self.tag,)),) if self.tag else ()


@dataclass
class Expected:
    """What the data folders contain; `messages` are the ids of each subject, from sequence 0 on."""

    recorded_at_ms: int = 0
    messages: dict[str, list[str]] = field(default_factory=dict)
    groups: list[GroupOf] = field(default_factory=list)
    pending: dict[str, tuple[str, int]] = field(default_factory=dict)
    """Delayed messages that were neither delivered nor cancelled: subject and due time by id."""
    cancelled: list[str] = field(default_factory=list)

    @classmethod
    def decode(cls, document: dict[str, Any]) -> "Expected":
        """Read what `asdict` made."""
        groups = [
            GroupOf(**{**group, "consumers": {name: HeldBy(**held) for name, held in group["consumers"].items()}})
            for group in document["groups"]
        ]
        pending = {name: (subject, due_ms) for name, (subject, due_ms) in document["pending"].items()}
        return cls(**{**document, "groups": groups, "pending": pending})


def message_of(subject: str, number: int, size: int = 20, tag: str = "") -> Message:
    """A message whose content follows from its id."""
    message_id = f"{subject}-{number}"
    properties = {**CREATED, "data": (message_id + "/") * (size // len(message_id) + 1)}
    return Message(subject, message_id, properties, (tag,) if tag else (), 0, 1_700_000_000_000, 1_700_000_000_000)


def page_of(admin: str, group: GroupOf) -> str:
    """The URL of a group's page on a broker's admin port."""
    return f"{admin}/subjects/{quote(group.subject)}/groups/{group.name}"


async def stored(node: Client, batch: list[Message]) -> None:
    """Send messages until the node stores them: it refuses them while the next segment is being created."""
    while failures := await node.send(*batch):
        assert len(failures) == len(batch), failures
        await asyncio.sleep(0.1)


class Recorder:
    """Requests to both nodes; `expected` follows from their answers."""

    def __init__(self) -> None:
        self.expected = Expected()
        self.broker: Client
        self.delay: Client
        self.admin = ""
        """URL of the broker's admin pages."""

    # --- the broker -----------------------------------------------------------------------------------------------

    async def send(self, subject: str, count: int, size: int = 20, tags: tuple[str, ...] = ("",)) -> None:
        """Send the next messages of a subject, with each of the tags in turn."""
        ids = self.expected.messages.setdefault(subject, [])
        for begin in range(len(ids), len(ids) + count, BATCH):
            numbers = range(begin, min(begin + BATCH, len(ids) + count))
            batch = [message_of(subject, number, size, tags[number % len(tags)]) for number in numbers]
            await stored(self.broker, batch)
            ids += [message.message_id for message in batch]
            count -= len(batch)
            for group in self._groups(subject):
                group.unread += [m.message_id for m in batch if not group.tag or group.tag in m.tags]

    def _groups(self, subject: str) -> list[GroupOf]:
        return [group for group in self.expected.groups if group.subject == subject]

    async def group(self, subject: str, name: str, tag: str = "", broadcast: bool = False) -> GroupOf:
        """Create a group that begins with a subject's first message."""
        assert await self.broker.begin(subject, name, broadcast=broadcast) == ResponseCode.SUCCESS
        ids = self.expected.messages.get(subject, [])
        group = GroupOf(subject, name, tag, broadcast, unread=list(ids))
        assert not tag or not ids, "a filter from the first message on"
        self.expected.groups.append(group)
        return group

    async def pull(self, group: GroupOf, consumer: str, count: int) -> None:
        """Have a consumer receive so many further messages."""
        by = group.consumers.setdefault(consumer, HeldBy())
        while count:
            begin, ids = await self.broker.pull(
                group.subject, group.name, consumer, limit=count, last=by.acked + len(by.held) - 1,
                broadcast=group.broadcast, filters=group.filters,
            )  # fmt: skip
            assert begin == by.acked + len(by.held)
            assert ids == group.unread[: len(ids)]
            by.held += ids
            del group.unread[: len(ids)]
            count -= len(ids)

    async def ack(self, group: GroupOf, consumer: str, count: int, after: int = 0) -> None:
        """Acknowledge what a consumer has held longest; with `after` others before it, which the broker then retries."""
        by = group.consumers[consumer]
        begin = by.acked + after
        code = await self.broker.ack(begin, begin + count - 1, group.subject, group.name, consumer, group.broadcast)
        assert code == ResponseCode.SUCCESS
        self._retried(group, by.held[:after])
        del by.held[: after + count]
        by.acked += after + count

    async def leave(self, group: GroupOf, consumer: str) -> None:
        """End a consumer: the broker retries what it holds."""
        body = LeaveGroupRequest(group.subject, group.name, consumer).encode()
        assert (await self.broker.raw(Command.LEAVE_GROUP, body)).code == ResponseCode.SUCCESS
        self._retried(group, group.consumers.pop(consumer).held)

    async def post(self, group: GroupOf, operation: str, **body: Any) -> None:
        """Request a change of a group on the broker's admin port."""
        url = f"{page_of(self.admin, group)}/{operation}"
        request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
        await asyncio.to_thread(lambda: urllib.request.urlopen(request, timeout=REQUEST_SECONDS).close())

    async def forget(self, group: GroupOf) -> None:
        """Remove a group, although its consumers still exist."""
        await self.post(group, "forget", force=True)
        self.expected.groups.remove(group)

    async def reset(self, group: GroupOf, sequence: int) -> None:
        """Set the position of a group that has nothing in flight."""
        assert not any(by.held for by in group.consumers.values())
        await self.post(group, "reset", to="sequence", value=str(sequence))
        group.unread = self.expected.messages[group.subject][sequence:]

    def _retried(self, group: GroupOf, ids: list[str]) -> None:
        subject = f"%RETRY%{group.subject}%{group.name}"
        if ids:
            self.expected.messages.setdefault(subject, []).extend(ids)
        for other in self._groups(subject):
            other.unread += ids

    # --- the delay node -------------------------------------------------------------------------------------------

    async def delayed(self, subject: str, dues_ms: list[int], size: int = 20) -> None:
        """Schedule messages of a subject."""
        pending = self.expected.pending
        first = sum(name.startswith(f"{subject}-") for name in (*pending, *self.expected.cancelled))
        first += len(self.expected.messages.get(subject, []))
        for begin in range(0, len(dues_ms), BATCH):
            batch = []
            for number, due_ms in enumerate(dues_ms[begin : begin + BATCH], first + begin):
                plain = message_of(subject, number, size)
                properties = {**plain.properties, KEY_SCHEDULE: str(due_ms)}
                batch.append(
                    Message(subject, plain.message_id, properties, (), FLAG_DELAY, plain.created_at_ms, due_ms)
                )
                pending[plain.message_id] = subject, due_ms
            await stored(self.delay, batch)

    async def change(self, operation: Operation, ids: list[str], due_ms: int = -1) -> None:
        """Cancel or reschedule messages."""
        pending = self.expected.pending
        targets = [DelayedTarget(message_id, *pending[message_id]) for message_id in ids]
        changes = await self.delay.change(operation, *targets, due_ms=due_ms)
        assert {change.outcome for change in changes} == {Outcome.DONE}
        for message_id in ids:
            subject, _ = pending.pop(message_id)
            if operation is Operation.CANCEL:
                self.expected.cancelled.append(message_id)
            else:
                pending[message_id] = subject, due_ms

    async def delivered(self, subject: str, count: int) -> None:
        """Wait until so many delayed messages are on the broker, and let a group receive them."""
        await self.broker.begin(subject, "reader")
        group = GroupOf(subject, "reader", consumers={"c1": HeldBy()})
        by = group.consumers["c1"]
        while len(by.held) < count:
            _, ids = await self.broker.pull(
                subject, "reader", "c1", limit=BATCH, last=len(by.held) - 1, timeout_ms=20_000
            )
            by.held += ids
        self.expected.messages[subject] = list(by.held)
        self.expected.groups.append(group)
        for message_id in by.held:
            del self.expected.pending[message_id]


async def before_the_checkpoint(recorder: Recorder) -> None:
    """Serve; afterwards the nodes are stopped, so the checkpoint contains all of this."""
    for number in range(20):
        subject = f"orders{number:02d}"
        await recorder.send(subject, 6 + number)
        one, other = await recorder.group(subject, "billing"), await recorder.group(subject, "mail")
        await recorder.pull(one, "c1", 4 + number // 2)
        await recorder.ack(one, "c1", 1 + number // 4)
        if number % 3:
            await recorder.pull(one, "c2", 2)
        if number % 2:
            await recorder.pull(other, "c1", 3)
            await recorder.ack(other, "c1", 3)
    await recorder.send("large", 400, LARGE_BYTES)
    one, other = await recorder.group("large", "billing"), await recorder.group("large", "mail")
    for _ in range(100):
        await recorder.pull(one, "c1", 2)
        await recorder.ack(one, "c1", 1)
    await recorder.pull(other, "c1", 150)
    await recorder.send("retried", 20)
    await recorder.group("retried", "mail")
    one = await recorder.group("retried", "billing")
    await recorder.pull(one, "c1", 10)
    await recorder.ack(one, "c1", 2, after=3)
    await recorder.leave(one, "c1")
    retry = await recorder.group("%RETRY%retried%billing", "billing")
    await recorder.pull(retry, "c2", 5)
    await recorder.ack(retry, "c2", 2)
    await recorder.send("news", 12)
    for consumer in ("reader1", "reader2"):
        group = await recorder.group("news", consumer, broadcast=True)
        await recorder.pull(group, consumer, 7)
        await recorder.ack(group, consumer, 4)
    one = await recorder.group("tagged", "billing", tag="red")
    await recorder.group("tagged", "mail")
    await recorder.send("tagged", 30, tags=("red", "blue", "green"))
    await recorder.pull(one, "c1", 5)
    await recorder.ack(one, "c1", 2)
    await recorder.send("without-group", 5)
    groups = {(group.subject, group.name): group for group in recorder.expected.groups}
    await recorder.forget(groups["orders18", "billing"])
    await recorder.reset(groups["orders13", "mail"], 1)
    now = now_ms()
    await recorder.delayed("due0", [now + SECOND + 20 * n for n in range(20)])
    await recorder.delivered("due0", 20)
    await recorder.delayed("due1", [now + (n + 1) * 2 * MINUTE for n in range(60)])
    await recorder.delayed("due2", [now + (n // 8 + 1) * DAY + n * SECOND for n in range(80)], LARGE_BYTES)
    await recorder.delayed("due3", [now + (400 + n // 10) * DAY for n in range(50)])
    await recorder.change(Operation.CANCEL, [f"due1-{n}" for n in range(30, 36)])
    await recorder.change(Operation.RESCHEDULE, ["due2-3", "due2-50"], due_ms=now + 450 * DAY)


async def after_the_checkpoint(recorder: Recorder) -> None:
    """Serve again: the end decides whether a checkpoint contains this."""
    groups = {(group.subject, group.name): group for group in recorder.expected.groups}
    for number in range(0, 20, 2):
        subject = f"orders{number:02d}"
        await recorder.send(subject, 5)
        if one := groups.get((subject, "billing")):
            await recorder.ack(one, "c1", 2)
            await recorder.pull(one, "c1", 3)
        await recorder.pull(groups[subject, "mail"], "c9", 2)
    await recorder.send("large", 400, LARGE_BYTES)
    await recorder.ack(groups["large", "mail"], "c1", 40)
    await recorder.pull(groups["large", "mail"], "c1", 50)
    await recorder.pull(groups["retried", "billing"], "c3", 4)
    await recorder.leave(groups["retried", "billing"], "c3")
    await recorder.pull(groups["%RETRY%retried%billing", "billing"], "c2", 3)
    await recorder.send("news", 3)
    await recorder.ack(groups["news", "reader1"], "reader1", 2)
    await recorder.send("tagged", 9, tags=("red", "blue", "green"))
    await recorder.pull(groups["tagged", "billing"], "c1", 2)
    for subject in ("new0", "new1", "new2"):
        await recorder.send(subject, 9)
        await recorder.group(subject, "mail")
        one = await recorder.group(subject, "billing")
        await recorder.pull(one, "c1", 5)
        await recorder.ack(one, "c1", 3)
    await recorder.forget(groups["orders17", "billing"])
    await recorder.forget(groups["orders19", "billing"])
    one = await recorder.group("orders19", "billing")
    await recorder.pull(one, "c5", 4)
    await recorder.reset(groups["orders15", "mail"], 6)
    now = now_ms()
    await recorder.delayed("due4", [now + (n + 1) * 3 * HOUR for n in range(40)])
    await recorder.delayed("due2", [now + (n // 10 + 5) * DAY for n in range(60)], LARGE_BYTES)
    await recorder.delayed("due5", [now + 20 * SECOND + n * SECOND for n in range(20)])
    await recorder.change(Operation.CANCEL, ["due4-7", "due3-9"])
    await recorder.change(Operation.RESCHEDULE, ["due2-4", "due4-11"], due_ms=now + 500 * DAY)
    await recorder.delayed("due6", [now_ms() + OVERDUE_MS + n for n in range(25)])


@asynccontextmanager
async def connected_to(port: int) -> AsyncIterator[Client]:
    """A client of the process that listens on a port."""
    caller = Caller("127.0.0.1", port)
    await caller.connect()
    try:
        yield Client(caller)
    finally:
        await caller.close()


async def record(folder: Path, *, is_killed: bool) -> Expected:
    """Write the data folders g1 and d1."""
    small = ("--segment-bytes", str(SEGMENT_BYTES))
    flags = (*small, "--retry-delay-seconds", "0", "--consumer-lease-seconds", "3600")
    recorder = Recorder()
    expected = recorder.expected
    with System(folder, groups=1, broker_flags=flags) as system:
        broker, delay = system.brokers["g1"], system.add_delay("d1", *small)
        for serve in (before_the_checkpoint, after_the_checkpoint):
            await asyncio.to_thread(system.start_nodes)
            async with (
                connected_to(system.ports["g1"][0]) as recorder.broker,
                connected_to(system.ports["d1"][0]) as recorder.delay,
            ):
                admin = {name: f"http://127.0.0.1:{port}" for name, (_, port) in system.ports.items()}
                recorder.admin = admin["g1"]
                await serve(recorder)
                for group in expected.groups:
                    page = await asyncio.to_thread(get_json, page_of(recorder.admin, group))
                    group.next_sequence = page["next_sequence"]
                    assert page["end_sequence"] == len(expected.messages[group.subject]), group
                    assert page["in_flight"] == sum(len(by.held) for by in group.consumers.values()), group
                stats = await asyncio.to_thread(get_json, f"{admin['d1']}/stats")
                assert stats["pending"] == len(expected.pending)
            if serve is before_the_checkpoint:
                system.stop()
        checkpoints = _checkpoints(folder)
        # The broker ends first: messages fall due that the delay node can't deliver any more.
        broker.kill() if is_killed else broker.stop()
        assert now_ms() < max(due_ms for subject, due_ms in expected.pending.values() if subject == "due6")
        await asyncio.sleep(2 * OVERDUE_MS / SECOND)
        delay.kill() if is_killed else delay.stop()
        assert (_checkpoints(folder) == checkpoints) is is_killed
        expected.recorded_at_ms = now_ms()
    return expected


def _checkpoints(folder: Path) -> list[str]:
    return sorted(path.name for name in ("g1", "d1") for path in (folder / name / "checkpoint").iterdir())


def _anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """A file as anybody would have written it."""
    member.uid = member.gid = member.mtime = 0
    member.uname = member.gname = ""
    return member


async def main() -> None:
    """Record both ends."""
    assert Path(broker_node.__file__).parents[1] == Path.cwd(), "run it in the older tree: see the docstring"
    for end in ("stopped", "killed"):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            expected = await record(folder, is_killed=end == "killed")
            (folder / "expected.json").write_text(json.dumps(asdict(expected), indent=0))
            path = f"{sys.argv[1]}-{end}.tar.xz"
            with tarfile.open(path, "w:xz", preset=9) as archive:
                for part in ("expected.json", "g1", "d1"):
                    archive.add(folder / part, part, filter=_anonymous)
        print(f"{path}: {len(expected.messages)} subjects, {len(expected.pending)} delayed messages", flush=True)


if __name__ == "__main__":
    asyncio.run(main())
